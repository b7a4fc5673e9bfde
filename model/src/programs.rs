//! What `anode plan` prints of PLAN programs and of the packets made of them, and `anode classify` of frames and rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program that was checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// The file, or files.
    pub file: String,
    /// What it defines.
    pub definitions: Vec<Definition>,
    /// Bytes of its code; nothing: it is wrong.
    pub code_bytes: Option<u64>,
    /// The name of its code.
    pub code: Option<String>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// What is odd.
    pub warnings: Vec<Diagnostic>,
}

/// A definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// Where it begins, in bytes.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// What is said of it.
    pub text: String,
}

/// What is wrong or odd somewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// What.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// Another place that has to do with it.
    pub other: Option<Place>,
}

/// What `anode plan run` came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// Always `value`.
    pub outcome: String,
    /// The value.
    pub value: String,
    /// What the program printed.
    pub printed: Vec<String>,
    /// Packets it made.
    pub sent: Vec<Packet>,
}

/// A packet that a program made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Packet {
    /// What is to be evaluated.
    pub chunk: String,
    /// Where.
    pub to: String,
    /// Its resource bound.
    pub bound: u32,
}

/// A program that ended otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Raised {
    /// Always `exception`.
    pub outcome: String,
    /// The exception, or the fault.
    pub exception: String,
}

/// What `anode plan run` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Ran {
    /// A value.
    Value(Value),
    /// Something else.
    Raised(Raised),
}

/// A reply to a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reply", rename_all = "lowercase")]
pub enum Reply {
    /// A text was printed.
    Printed {
        /// The text.
        text: String,
    },
    /// A failure was reported.
    Exception {
        /// The exception, or the fault.
        exception: String,
        /// Where it was raised.
        host: String,
        /// By which chunk.
        chunk: String,
    },
    /// A value was delivered.
    Delivered {
        /// The value.
        value: String,
    },
    /// Somebody has opened the port.
    Opened {
        /// Who.
        host: String,
        /// For which number.
        number: u32,
    },
    /// It was closed.
    Closed,
    /// This node did not send the packet on.
    Refused {
        /// Why.
        why: String,
    },
}

/// A line of `anode plan inject`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Line {
    /// A text of the first call, which was evaluated here.
    Said {
        /// The text.
        said: String,
    },
    /// A reply.
    Reply(Reply),
    /// The first call ended otherwise than with a packet.
    Raised(Raised),
    /// How it ended.
    End {
        /// `value`, `exception` or `silence`.
        outcome: String,
        /// Replies that came.
        replies: u64,
    },
}

/// What a frame is to taught protocols and rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// Its headers.
    pub headers: Vec<Header>,
    /// Why there are no more.
    pub stop: String,
    /// All rules.
    pub rules: Vec<Rule>,
    /// The lines of those that are wanted.
    pub answer: Vec<u64>,
    /// Whose it is to a running node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whose: Option<String>,
    /// The channels there that get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<u64>>,
    /// What the program of a graph in the kernel does with it, if it is plain and of such a graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramWay>,
}

/// The way of a packet through the program of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramWay {
    /// The graph.
    pub graph: String,
    /// The engines that it meets there, in their order; none if it goes up, where it meets them all.
    pub engines: Vec<String>,
    /// `leaves`, `dropped`, or `up`.
    pub end: String,
    /// The bytes that leave, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<String>,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Its protocol.
    pub name: String,
    /// Where it begins.
    pub start: u64,
    /// Where what is in it begins.
    pub inner: u64,
    /// Where its bytes end.
    pub end: u64,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// A field of a header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A rule, and why it holds or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// Its line in the file; 0: it is a channel's of a running node.
    pub line: u64,
    /// Whether it holds.
    pub holds: bool,
    /// What it is worth, or what does not hold.
    pub why: String,
    /// Its channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<u64>,
    /// The channel's domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Definitions and rules that are right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Taught {
    /// The protocols.
    pub protocols: Vec<String>,
    /// How many rules there are.
    pub rules: u64,
    /// Where their cases are.
    pub cases: Cases,
    /// Rules that say what the fixed fields of both halves can say.
    pub fixed: u64,
}

/// Where cases of rules are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cases {
    /// In maps and trees.
    pub settled: u64,
    /// In tuple space.
    pub tuples: u64,
}
