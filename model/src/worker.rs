//! The process of a node: its workers, what they have of a CPU, what confines it, and connections to its sockets.

use crate::status::Balance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Connections to the node's sockets, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "each is a socket")]
pub struct Connections {
    pub control: Connected,
    pub applications: Connected,
    pub plan_tcp: Connected,
    pub environments: Connected,
}

/// Of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connected {
    /// Those that found no place.
    pub refused: u64,
    /// Those that were closed since they said nothing.
    pub silent: u64,
    /// Those that gave way to others.
    pub displaced: u64,
    /// Those of somebody whose connections had cost more than they may.
    pub slowed: u64,
    /// Nanoseconds of the CPU that they have cost.
    pub cost_ns: u64,
}

/// What a worker has of a CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// How it is divided among domains.
    pub scheduler: String,
    /// Of one CPU.
    pub share: f64,
    /// Whether the worker runs before ordinary threads.
    pub realtime: bool,
    /// CPU time when it last looked.
    pub used_ms: u64,
    /// How often it has rested because its share was used up.
    pub rests: u64,
    /// And for how long.
    pub rested_ms: u64,
    /// How often it had work and did not run for a millisecond or more.
    pub gaps: u64,
    /// The longest of these, in microseconds.
    pub longest_gap_us: u64,
    /// The longest time that it was held by somebody who had its counters copied, in microseconds.
    pub longest_slice_us: u64,
    /// For how much of the last full second it was at work, in thousandths.
    #[serde(default)]
    pub load_permille: u64,
    /// How often it has begun anew after a panic.
    #[serde(default)]
    pub panics: u64,
    /// What is known of what processes of environments use.
    pub processes: Processes,
}

/// How reading what processes use went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Processes {
    /// Accounts that are kept.
    pub kept: u64,
    /// Those of one process, since there is no control group.
    pub of_one_process: u64,
    /// Readings of which there was no number.
    pub unread: u64,
    /// Readings that could not follow the one before.
    pub jumped: u64,
    /// Weights that could not be written.
    pub unweighed: u64,
}

/// What the process is confined by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sandbox {
    /// Who it is, for people.
    pub user: String,
    /// What the kernel says of it.
    pub standing: Standing,
    /// What is weaker than it could be.
    pub weaker: Vec<String>,
    /// What its jails lack.
    pub jails_weaker: Vec<String>,
}

/// What a process is, as the kernel says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Standing {
    /// Real user.
    pub user: u32,
    /// Real group.
    pub group: u32,
    /// Effective capabilities.
    pub capabilities: u64,
    /// Those that it could ever gain.
    pub bounding: u64,
    /// Whether what it executes gains nothing.
    pub no_new_privileges: bool,
    /// Whether its system calls are filtered.
    pub seccomp: bool,
}

/// One worker of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// Its number; the first is 0.
    pub worker: u64,
    /// What became of its frames.
    pub balance: Balance,
    /// Packets that wait for their turn.
    pub waiting: u64,
    /// What it has of a CPU.
    pub cpu: Option<Cpu>,
}
