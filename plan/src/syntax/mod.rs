//! Source text to syntax tree, with every mistake found on the way.

pub mod ast;
mod expr;
pub mod lexer;
mod parser;
pub mod token;
mod types;

pub use parser::{Parsed, parse, parse_part, parse_type};
