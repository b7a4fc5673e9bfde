//! Tokens of the language.

use crate::span::Span;
use std::fmt;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A name, or the number of a port: letters, digits, `_` and `@`, in parts between single slashes.
    Identifier,
    /// `$name`, a parameter of a compound.
    Variable,
    /// A configuration with its parentheses, whatever stands in it.
    Config,
    /// A reserved word.
    Word(&'static str),
    /// Punctuation.
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// The reserved words.
pub const WORDS: &[&str] = &["elementclass", "require", "provide", "define", "connectiontunnel"];

/// Punctuation; what begins with another one stands before it.
pub const SIGNS: &[&str] = &["...", "->", "=>", "::", "||", "|", ",", ";", "[", "]", "{", "}", "(", ")", "-"];

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Identifier => f.write_str("a name"),
            Token::Variable => f.write_str("a variable"),
            Token::Config => f.write_str("a configuration"),
            Token::Word(text) | Token::Sign(text) => write!(f, "'{text}'"),
            Token::End => f.write_str("the end of the file"),
        }
    }
}

/// A token at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spanned {
    /// What it is.
    pub token: Token,
    /// Where it is.
    pub span: Span,
}

/// A comment or a line directive, which stands between two tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Where it is, without the line feed that ends it.
    pub span: Span,
    /// How many tokens stand before it.
    pub before: usize,
    /// Nothing may follow it on its line: it began with `//` or `#`.
    pub to_line_end: bool,
}
