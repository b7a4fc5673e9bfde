//! Extensions of a node: what is loaded, and what a call has given.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An extension that is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extension {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// SHA-256 of its module; zeroes for one that has none.
    pub digest: String,
    /// Whether it is part of every node, and stays.
    #[serde(default)]
    pub built_in: bool,
    /// Whether it is a shared object, which nothing bounds.
    #[serde(default)]
    pub native: bool,
    /// Calls of others that it needs, with their types.
    pub needs: Vec<String>,
    /// Protocols that it teaches, in the language of the classifier.
    pub protocols: String,
    /// Its calls.
    pub calls: Vec<Call>,
    /// Classes of engines that graphs may have of it.
    pub engines: Vec<OfferedEngine>,
    /// Admissions that ports may have of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admissions: Vec<OfferedAdmission>,
    /// Procedures of it that marshal packets between parts of graphs at two nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marshals: Vec<OfferedMarshal>,
    /// How often operators have called it.
    pub called: u64,
    /// Calls of those that gave nothing.
    pub failed: u64,
    /// Fuel that all of them took: about the instructions of the module.
    pub fuel: u64,
}

/// A call of an extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// Its type, as PLAN writes it.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it does.
    pub about: String,
    /// Whether PLAN programs see it, too.
    pub service: bool,
    /// Whether an operator's call of it is made in the instances of PLAN's services, too.
    #[serde(default)]
    pub everywhere: bool,
}

/// A class of engines of an extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OfferedEngine {
    /// Its name in graphs.
    pub name: String,
    /// Its ports, in Click's codes.
    pub ports: String,
    /// Whether packets are pulled through it: it is an order of its inputs.
    pub order: bool,
    /// What it does.
    pub about: String,
}

/// A class of admissions of an extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OfferedAdmission {
    /// Its name in disciplines of ports.
    pub name: String,
    /// What it does.
    pub about: String,
}

/// Procedures of an extension that marshal packets between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OfferedMarshal {
    /// Their name in graphs.
    pub name: String,
    /// What they do.
    pub about: String,
}

/// What a call has given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Called {
    /// The value, as PLAN writes it.
    pub value: String,
    /// Fuel that it took.
    pub fuel: u64,
}

/// What was loaded, or was unloaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// Names, in the order in which it was done.
    pub names: Vec<String>,
}
