//! Tokens of the language.

use crate::span::Span;
use std::fmt;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A name.
    Identifier,
    /// `'a` in a type.
    TypeVariable,
    /// A number that fits 64 bits.
    Int,
    /// A character between quotes.
    Char,
    /// A string between double quotes.
    Text,
    /// A reserved word.
    Word(&'static str),
    /// Punctuation or an operator.
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// The reserved words. Names of types (`int`, `host`, `list` …) are not among them.
pub const WORDS: &[&str] = &[
    "fun",
    "val",
    "exception",
    "svc",
    "let",
    "in",
    "end",
    "if",
    "then",
    "else",
    "raise",
    "try",
    "handle",
    "true",
    "false",
    "and",
    "or",
    "not",
    "hd",
    "tl",
    "fst",
    "snd",
    "noti",
    "explode",
    "implode",
    "ord",
    "chr",
    "andi",
    "ori",
    "xori",
    "foldl",
    "foldr",
    "OnRemote",
    "OnNeighbor",
    "RetransOnRemote",
];

/// Punctuation and operators; a longer one stands before its beginnings.
pub const SIGNS: &[&str] = &[
    "=>", "->", "::", "<>", "<=", ">=", "<<", ">>", "(", ")", "[", "]", ",", ";", ":", "|", "#", "~", "=", "<", ">",
    "+", "-", "*", "/", "%", "^",
];

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Identifier => f.write_str("a name"),
            Token::TypeVariable => f.write_str("a type variable"),
            Token::Int => f.write_str("a number"),
            Token::Char => f.write_str("a character"),
            Token::Text => f.write_str("a string"),
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

/// A comment, which stands between two tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Where it is, with its `(*` and `*)`.
    pub span: Span,
    /// How many tokens stand before it.
    pub before: usize,
}
