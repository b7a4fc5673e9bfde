//! Text to syntax tree, with every mistake found on the way.

pub mod ast;
mod chain;
pub mod lexer;
mod params;
mod parser;
pub mod scan;
pub mod token;

pub use chain::PORT_MAX;
pub use lexer::MISTAKES_MAX;
pub use parser::{Parsed, parse};
