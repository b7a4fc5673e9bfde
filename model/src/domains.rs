//! Domains and channels of a node, with what runs in them.

use crate::kernel::KernelUsage;
use crate::status::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All domains, and what belongs to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Domains {
    /// Each behind the one above it.
    pub domains: Vec<Domain>,
    /// Environments in processes.
    pub environments: Vec<Environment>,
    /// Name spaces that have been used.
    pub files: Vec<Space>,
    /// What the security module has decided.
    pub security: Security,
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Domain {
    /// Its number.
    pub id: u32,
    /// The domain above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// For people.
    pub title: String,
    /// The role that it was created in.
    pub role: String,
    /// Who runs it; 0 is the node.
    pub host: u32,
    /// The worker that runs its packets, if there are several and it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u16>,
    /// What its role grants it.
    pub grants: Grants,
    /// What it has used; of a code's domain, in the user half.
    pub usage: Usage,
    /// How much of its budget is with workers, if several run its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Leased>,
    /// Packets of its that no counter of the user half knows of.
    pub unaccounted: i64,
    /// Packets that were done after their deadline.
    pub missed_deadlines: u64,
    /// Bytes of memory that it holds.
    pub memory_bytes: u64,
    /// The memory pool that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Pool>,
    /// Channels that it owns.
    pub channels: u64,
    /// The code that runs in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What that has used in the kernel half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelUsage>,
    /// Files that it has open.
    pub open_files: u64,
}

/// How much of its budget workers have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Leased {
    /// Packets that workers have taken.
    pub leased_packets: u64,
    /// Of these, packets that they have not admitted yet.
    pub out_packets: u64,
    /// The most that can be.
    pub out_packets_max: u64,
    /// Steps that they have charged.
    pub charged_steps: u64,
    /// Steps that they have taken and not charged yet.
    pub out_steps: u64,
}

/// What a domain is granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Grants {
    /// Its share of the processor under fair queueing.
    pub weight: u32,
    /// Its urgency under fixed priorities.
    pub priority: u8,
    /// By when a packet has to be done, in microseconds; 0: it can wait.
    pub deadline_us: u32,
    /// Bytes it may hold.
    pub memory_bytes: u64,
    /// Packets, events and exceptions that may be worked on at the same time.
    pub threads: u16,
    /// Milliseconds that one of its threads may work.
    pub thread_ms: u32,
    /// Channels it may own.
    pub channels: u16,
    /// Bytes a second that it may send.
    pub bandwidth: u64,
    /// Events that may wait.
    pub events: u32,
    /// Domains below it.
    pub domains: u32,
    /// Files that it may make.
    pub files: u32,
    /// Bytes of those.
    pub file_bytes: u64,
    /// Programs that may be in the kernel.
    pub kernel_programs: u16,
    /// Parts of graphs that one neighbour may have in it.
    #[serde(default)]
    pub graph_parts: u16,
    /// Processes that it may have.
    pub processes: u32,
    /// Hundredths of one processor; 0: as much as there is.
    pub cpu_percent: u32,
    /// Whether its processes are in the host's network.
    pub host_network: bool,
}

/// A memory pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// Bytes that may be held.
    pub limit_bytes: u64,
    /// Bytes that are held.
    pub held_bytes: u64,
    /// The most that ever were.
    pub peak_bytes: u64,
    /// How often it went over its limit.
    pub overruns: u64,
    /// Charges refused because it was full.
    pub refused: u64,
    /// Domains that use it.
    pub domains: u64,
}

/// An environment in a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: String,
    /// What it is doing.
    pub state: String,
    /// Its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<u32>,
    /// How often it was started.
    pub starts: u64,
    /// How often it has failed.
    pub failures: u64,
    /// How it ended the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// What of its jail this host has not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weaker: Vec<String>,
}

/// A name space of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Space {
    /// Whose it is.
    pub holder: String,
    /// How far it may grow.
    pub quota: Files,
    /// What it holds.
    pub used: Files,
    /// Files that are open.
    pub open: u64,
    /// Calls refused.
    pub refused: u64,
}

/// Files, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "see above")]
pub struct Files {
    pub files: u32,
    pub bytes: u64,
}

/// What the security module has decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "each is a kind, and what was decided")]
pub struct Security {
    pub code_granted: u64,
    pub code_refused: u64,
    pub domains_granted: u64,
    pub domains_refused: u64,
    pub packets_granted: u64,
    pub packets_refused: u64,
    pub tokens_spared: u64,
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Channel {
    /// Its number, among those of its kind.
    pub id: u32,
    /// `in`, `out` or `cut`; of TCP streams `listen` or `stream`.
    pub kind: String,
    /// Who pays.
    pub domain: u32,
    /// That domain, for people.
    pub title: String,
    /// Its protocol; of a cut-through channel the names of its two ends.
    pub protocol: String,
    /// Its address.
    pub address: String,
    /// The port, if it is bound to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Packets that have gone through it; of one that listens the streams that were accepted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were dropped at it; streams that were refused.
    pub dropped: u64,
    /// Of a cut-through channel, packets that passed by the kernel half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_kernel: Option<u64>,
    /// Why its rule holds for nothing now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
}
