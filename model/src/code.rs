//! What is done with code at a node, and its soft state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was asked for has this name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Named {
    /// The name.
    pub name: String,
}

/// Code was taken out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// Its name.
    pub name: String,
    /// Whether it ran here, or was refused.
    pub was_known: bool,
    /// Packets dropped that waited for their turn.
    pub dropped: u64,
}

/// Modules are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retried {
    /// How many.
    pub modules: u64,
}

/// A domain was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Made {
    /// Its number.
    pub domain: u32,
}

/// A domain that has another worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// Its number, which stays.
    pub domain: u32,
    /// The worker before.
    pub from: u16,
    /// The worker now.
    pub worker: u16,
}

/// What ended with a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Freed {
    /// Domains, with those below.
    pub domains: u64,
    /// Channels.
    pub channels: u64,
    /// Codes.
    pub codes: u64,
    /// Bytes of memory pools.
    pub bytes: u64,
    /// Events that were waiting.
    pub events: u64,
    /// Files that were open.
    pub files: u64,
}

/// Some of a code's soft state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// Which halves share it: `user`, or `both`.
    pub half: String,
    /// Entries.
    pub entries: Vec<Entry>,
    /// The place from which to go on; nothing: these were the last.
    pub next: Option<u64>,
}

/// All of a code's soft state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// The code's name.
    pub code: String,
    /// Entries.
    pub entries: Vec<Entry>,
    /// Which halves share it: `user`, or `both`.
    pub half: String,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Its key.
    pub key: u64,
    /// Its value, in hexadecimal digits.
    pub value: String,
    /// The number in that.
    pub number: u64,
    /// Milliseconds that are left of its time.
    pub expires_ms: u64,
}
