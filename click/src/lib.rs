//! Click's language.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod arguments;
pub mod check;
pub mod classes;
mod code;
pub mod elaborate;
pub mod flow;
pub mod format;
pub mod graph;
mod mistakes;
pub mod syntax;
mod text;
mod variables;

pub use check::{check, check_with};
pub use plan::{diagnostic, source, span};
