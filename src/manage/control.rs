//! The control socket: one request a line, one answer a line, both JSON.
//!
//! `control.sock` in the node's run directory, readable and writable by the node's user only. [`model::Ask`] is what may be asked.
//! `{"do":"watch"}` is followed by records of packets (`watch`). `{"do":"next","of":"status"}` is answered when the answer is another
//! one than before (`next`).
//! Answers: `{"ok":…}` or `{"error":WHY}`. Connections are few: one that asks nothing for a minute is closed, and so is
//! one whose request has not come within 5 s. Where there is no room for another, the one that has waited longest gives
//! way (`places`), so that nobody keeps the operator out.

mod answers;
mod handle;
mod journal;
mod next;
mod places;
mod serving;
mod sources;
mod state;
mod stores;
mod watch;
mod ways;
mod workers;

pub use handle::{Handle, Unsettled};
pub use serving::serve;
pub(super) use workers::Others;
