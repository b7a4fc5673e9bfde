//! x
#![forbid(unsafe_code)]
pub mod check;
pub mod code;
pub mod diagnostic;
pub mod name;
pub mod resolve;
pub mod span;
pub mod syntax;
pub mod types;
pub use check::check;
