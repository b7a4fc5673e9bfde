//! What operators ask of a node's configuration and of its environments.

use crate::extensions::Changed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A wish: `{"do":"configure","what":{"apply":{"number":7}}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Wish {
    /// Takes over a configuration that was given to the broker.
    Apply {
        /// Its number.
        number: u64,
        /// The number of the configuration to which somebody has looked at the difference; 0: it has none.
        base: Option<u64>,
        /// Only says what would change.
        #[serde(default)]
        dry_run: bool,
        /// The same, and why the node would refuse it now, if it would.
        #[serde(default, skip_serializing_if = "is_false")]
        rehearse: bool,
        /// Leaves out what needs a restart.
        #[serde(default)]
        partly: bool,
        /// Goes back unless it is confirmed within so many milliseconds.
        confirm_within_ms: Option<u64>,
    },
    /// What runs stays.
    Confirm {
        /// Its number: another configuration is not meant.
        number: u64,
    },
    /// Takes over a configuration that ran before.
    Rollback {
        /// Its number; by default the one before that which runs.
        to: Option<u64>,
        /// As above.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<u64>,
        /// As above.
        #[serde(default)]
        dry_run: bool,
        /// As above.
        #[serde(default, skip_serializing_if = "is_false")]
        rehearse: bool,
        /// As above.
        #[serde(default)]
        partly: bool,
        /// As above.
        confirm_within_ms: Option<u64>,
    },
    /// Takes over what the file says now that the node was started with.
    Reread,
    /// The configurations that ran.
    History,
    /// Loads extensions, all or none.
    Load {
        /// Their modules, in hexadecimal digits.
        modules: Vec<String>,
    },
    /// Unloads an extension.
    Unload {
        /// Its name.
        name: String,
        /// And all that need it, and though rules of channels name protocols of theirs.
        #[serde(default)]
        cascade: bool,
    },
}

fn is_false(of: &bool) -> bool {
    !of
}

impl Wish {
    /// What it changes, for people; nothing: it changes nothing.
    pub fn change(&self) -> Option<&'static str> {
        match self {
            Wish::Apply { dry_run: true, .. } | Wish::Rollback { dry_run: true, .. } | Wish::History => None,
            Wish::Apply { rehearse: true, .. } | Wish::Rollback { rehearse: true, .. } => None,
            Wish::Apply { .. } => Some("a configuration was applied"),
            Wish::Confirm { .. } => Some("a configuration was confirmed"),
            Wish::Rollback { .. } => Some("a configuration of before was applied"),
            Wish::Reread => Some("the configuration was read again"),
            Wish::Load { .. } => Some("extensions were loaded"),
            Wish::Unload { .. } => Some("an extension was unloaded"),
        }
    }
}

/// One change of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// What is there; nothing: it has gone.
    pub is: Value,
    /// For people, with its sign.
    pub line: String,
    /// Whether no running node can carry it out.
    pub needs_restart: bool,
    /// Where: tables, names and keys from the outside in.
    pub place: Vec<String>,
    /// What was there; nothing: it is new.
    pub was: Value,
    /// Why it needs a restart, where its place alone does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What a configuration changes, or would change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Whether it was applied.
    pub applied: bool,
    /// What differs.
    pub changes: Vec<Change>,
    /// It is taken back unless it is confirmed within so many milliseconds.
    #[serde(default)]
    pub confirm_within_ms: Option<u64>,
    /// The number of the configuration that runs then; nothing: that of the start, of a node without a broker.
    pub number: Option<u64>,
    /// Why the node would refuse it, of one that was rehearsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The configuration that stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmed {
    /// Its number.
    pub number: Option<u64>,
}

/// A configuration that ran, or does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ran {
    /// What it changed, for people.
    pub changes: Vec<String>,
    /// Its number: later ones have higher ones.
    pub number: u64,
    /// What of it needed a restart was left out.
    pub partly: bool,
    /// The file that it was in.
    pub source: String,
    /// When it was given, in seconds since 1970.
    pub unix_s: u64,
    /// By whom.
    pub who: String,
}

/// What a wish has come to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Done {
    /// Of another configuration.
    Differs(Difference),
    /// Of a word on the one that runs.
    Stays(Confirmed),
    /// The configurations that ran.
    History(Vec<Ran>),
    /// Extensions that were loaded or unloaded.
    Extensions(Changed),
}

/// How the node's configuration stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Standing {
    /// The number of the configuration that runs; nothing: that it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Who has given it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// How often one was applied since the start.
    pub applied: u64,
    /// How often one was refused.
    pub refused: u64,
    /// How often the node went back because nobody had confirmed one.
    pub reverted: u64,
    /// Milliseconds until it goes back to the one before, unless somebody confirms this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed_ms: Option<u64>,
}

/// What an operator does with an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// It is to run.
    Start,
    /// It is not to run, until somebody starts it.
    Stop,
    /// It ends, and begins anew.
    Restart,
}

impl Act {
    /// What has been done, for people.
    pub fn done(self) -> &'static str {
        match self {
            Act::Start => "started",
            Act::Stop => "stopped",
            Act::Restart => "restarted",
        }
    }
}
