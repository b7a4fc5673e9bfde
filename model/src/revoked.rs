//! What was taken back at a node.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A revocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Revoked {
    /// Who has signed it; nothing: the operator alone says so.
    pub by: Option<String>,
    /// In which line of the file it is, if it was read from there.
    pub line: Option<u64>,
    /// What it takes back: the name of it.
    pub name: String,
    /// Whether the operator says so.
    pub operator: bool,
    /// When it was said, in seconds since 1970.
    pub unix_s: u64,
    /// `token`, `principal` or `code`.
    pub what: String,
}

/// What a revocation has ended at a node, and whether it is remembered over restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ended {
    /// Codes, ready or on their way.
    pub codes: u64,
    /// Domains of principals who sent PLAN packets.
    pub domains: u64,
    /// Neighbours that were told.
    pub told: u64,
    /// Whether the key that says so has signed or issued what is revoked, so that others obey; nothing if that cannot be told there.
    pub issued: Option<bool>,
    /// Whether it is remembered.
    pub remembered: bool,
}

/// All revocations of a node or a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct All {
    /// Each of them.
    pub revoked: Vec<Revoked>,
}

/// What was taken back, by its name, and what that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Said {
    /// A code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// A credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// What has ended.
    #[serde(flatten)]
    pub ended: Ended,
}

impl Said {
    /// Of a `token`, `principal` or `code` of this name.
    pub fn of(what: &str, name: String, ended: Ended) -> Said {
        let is = |kind: &str| (what == kind).then(|| name.clone());
        Said { code: is("code"), principal: is("principal"), token: is("token"), ended }
    }
}
