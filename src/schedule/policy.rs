//! Policies by name (`wfq`, `edf`, …), and the parameters of a flow under each.

use super::{DEADLINE_NS_MAX, WEIGHT_MAX};

/// How the CPU is divided among domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The flow that has waited longest.
    Fifo,
    /// The highest priority first.
    Priority,
    /// By weight.
    #[default]
    Wfq,
    /// By deadline.
    Edf,
    /// By weight, but important flows with deadlines steal.
    Bert,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 5] = [Policy::Fifo, Policy::Priority, Policy::Wfq, Policy::Edf, Policy::Bert];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Fifo => "fifo",
            Policy::Priority => "priority",
            Policy::Wfq => "wfq",
            Policy::Edf => "edf",
            Policy::Bert => "bert",
        }
    }
}

impl core::str::FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let known = Policy::ALL.into_iter().find(|policy| policy.name() == text);
        known.ok_or_else(|| format!("'{text}' is no scheduler: fifo, priority, wfq, edf or bert"))
    }
}

/// What a flow gets of the CPU; each policy looks at its own part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Share {
    /// Its part of the CPU relative to the others', 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// Higher runs first. For `bert`, what is not 0 is important: with a deadline it may steal, without nobody steals from it.
    pub priority: u8,
    /// One packet in each of these runs at the latest so long after it came; 0: no deadline. At most [`DEADLINE_NS_MAX`].
    pub deadline_ns: u64,
}

impl Default for Share {
    fn default() -> Share {
        Share { weight: 100, priority: 0, deadline_ns: 0 }
    }
}

impl Share {
    /// Says which number is outside what a scheduler takes; it is clamped otherwise.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=WEIGHT_MAX).contains(&self.weight) {
            return Err(format!("weight = {}: from 1 to {WEIGHT_MAX}", self.weight));
        }
        if self.deadline_ns > DEADLINE_NS_MAX {
            return Err(format!("deadline_ns = {}: at most {DEADLINE_NS_MAX}", self.deadline_ns));
        }
        Ok(())
    }
}
