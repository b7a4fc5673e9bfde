//! What whoever captures reads, from `src/seen`, `src/classify` and `src/port`: records, frames, capture files.

#[path = "../../src/seen/join.rs"]
pub mod join;
#[path = "../../src/seen/look.rs"]
pub mod look;
#[path = "../../src/seen/record.rs"]
pub mod record;
#[allow(dead_code, reason = "only its sizes are needed")]
#[path = "../../src/seen/ring.rs"]
mod ring;
