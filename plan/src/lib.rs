//! The packet language PLAN 3: programs that travel in packets and are evaluated by nodes.
//!
//! ```text
//! source ──▶ syntax ──▶ resolve ──▶ types          where programs are written: check
//!    ▲          │           │
//!   fmt ◀───────┘           ▼
//!                         code ◀──▶ bytes         what travels: packet
//!                           │
//!                           ▼
//!                        program ──▶ eval          where packets are evaluated: machine
//! ```
//!
//! The crate does no I/O and reads no clock: services and the network are behind [`eval::Node`], time is the
//! node's business. docs/plan.md describes the language, the binary form and every limit.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod check;
pub mod code;
pub mod diagnostic;
pub mod eval;
pub mod format;
pub mod name;
pub mod packet;
pub mod program;
pub mod resolve;
pub mod source;
pub mod span;
pub mod syntax;
pub mod types;
pub mod value;
mod warn;

pub use check::{check, check_sources};
