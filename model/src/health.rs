//! Whether all is well with a node.

use crate::domains::Domains;
use crate::events::Events;
use crate::log::Journal;
use crate::status::Status;
use crate::versions::Versions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a node, or a part of it, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All is well.
    Healthy,
    /// It works, and something is wrong.
    Degraded,
    /// It does not answer.
    Unreachable,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// The node's name; of one that does not answer, as whoever asked has named it.
    pub node: String,
    /// As its worst check.
    pub state: State,
    /// Each thing that was looked at.
    pub checks: Vec<Check>,
    /// Why it does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_reachable: Option<String>,
}

/// A node of this machine, as `anode node ls` finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Known {
    /// Its name.
    pub node: String,
    /// Its run directory.
    pub run_dir: String,
    /// How it is.
    pub state: State,
    /// What is wrong, in words; empty: nothing.
    pub said: String,
}

/// What is of interest when something went wrong, beside the status and the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The configuration in TOML, with all keys blanked.
    pub configuration: String,
    /// What processes of the node have left that fell, the last one first.
    pub falls: Vec<String>,
}

/// All that one file has for whoever looks for a fault. What could not be had is not there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Whole {
    /// Of the program that makes the report.
    pub program: Versions,
    /// As uname(2) has it.
    pub system: String,
    /// Why the node was not asked, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_reachable: Option<String>,
    /// What the node has for reports alone.
    pub report: Report,
    /// Its counters.
    pub status: Option<Status>,
    /// Whether all is well with it.
    pub health: Option<Health>,
    /// Its domains.
    pub domains: Option<Domains>,
    /// What has happened to it.
    pub events: Option<Events>,
    /// Lines of code and of the node.
    pub journal: Option<Journal>,
}
