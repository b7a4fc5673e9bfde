//! What loads code: queues of the loader, the compiler, and names of hosts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What loads code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Loader {
    /// Look-ups in the store that wait.
    pub look_ups: Vec<Queue>,
    /// What waits to be judged.
    pub queues: Vec<Queue>,
    /// The compiler.
    pub compiler: Compiler,
    /// Names of hosts.
    pub names: HostNames,
}

/// Jobs of one ingress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Whose.
    pub of: String,
    /// Jobs that wait.
    pub waiting: u64,
    /// Jobs that found no place, or gave theirs to somebody with less.
    pub dropped: u64,
}

/// The compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compiler {
    /// Modules compiled at once.
    pub compiled: u64,
    /// Modules compiled again by the optimiser.
    pub optimised: u64,
    /// Modules that could not be compiled.
    pub failed: u64,
    /// Jobs that wait.
    pub queues: Vec<Queue>,
    /// Codes that wait to be compiled again.
    pub again: u64,
    /// Modules that are not tried again.
    pub refused: Refused,
}

/// Modules that are not tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// Modules on which the compiler has failed.
    pub total: u64,
    /// Jobs that were spared.
    pub spared: u64,
    /// What is remembered.
    pub modules: Vec<RefusedModule>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedModule {
    /// The digest of its bytes.
    pub module: String,
    /// What it was to be.
    pub purpose: String,
    /// Why.
    pub why: String,
    /// For how many seconds it stays.
    pub left_s: u64,
}

/// Names of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostNames {
    /// Names that wait.
    pub queues: Vec<Queue>,
    /// Look-ups under way.
    pub busy: u64,
    /// Names answered by the file of hosts.
    pub hosts: u64,
    /// Names looked up.
    pub looked_up: u64,
    /// Names that were not answered in time.
    pub late: u64,
}

/// Hosts that rules of channels name, and whose addresses are looked for again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleHosts {
    /// Hosts that are followed.
    pub hosts: u64,
    /// Of these nothing was found yet.
    pub unknown: u64,
    /// Look-ups that found something.
    pub resolved: u64,
    /// Look-ups that found nothing.
    pub failed: u64,
    /// Look-ups that found another thing than before.
    pub changed: u64,
}
