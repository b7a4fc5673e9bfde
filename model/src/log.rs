//! Lines that mobile code and the node have written.

use crate::status::Trap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A line of mobile code, or a trap of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// When, in nanoseconds of the node's clock.
    pub at: u64,
    /// The code.
    pub code: String,
    /// Its meaning, chosen by the code's author.
    pub tag: u32,
    /// The value.
    pub value: u64,
    /// The trap, if it is a line about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trap: Option<Trap>,
    /// Its number, in a journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// How grave it is, in a journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

/// A line of the node's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnLine {
    /// Its number.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// How grave it is.
    pub level: String,
    /// What was written.
    pub text: String,
}

/// A line of either, as it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Written {
    /// By the node.
    Own(OwnLine),
    /// By code.
    Code(Line),
}

/// The last lines of both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Journal {
    /// Numbers are of this process.
    pub process: u32,
    /// Lines of code.
    pub code: Vec<Line>,
    /// Lines of the node.
    pub node: Vec<OwnLine>,
}
