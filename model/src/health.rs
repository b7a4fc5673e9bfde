//! Whether all is well with a node.

use serde::{Deserialize, Serialize};

/// How a node, or a part of it, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All is well.
    Healthy,
    /// It works, and something is wrong.
    Degraded,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: State,
    /// What was found.
    pub value: u64,
    /// What is still well.
    pub most: u64,
    /// In words, what it is and what to do.
    pub said: String,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The node's name.
    pub node: String,
    /// As its worst check.
    pub state: State,
    /// Each thing that was looked at.
    pub checks: Vec<Check>,
}

/// What is of interest when something went wrong, beside the status and the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The configuration in TOML, with all keys blanked.
    pub configuration: String,
    /// What processes of the node have left that fell, the last one first.
    pub falls: Vec<String>,
}
