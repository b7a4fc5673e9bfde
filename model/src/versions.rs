//! What program a node is, and with which others it agrees.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Versions of the program and of its contracts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Versions {
    /// Of the program.
    pub anode: String,
    /// Of this protocol: [`crate::PROTOCOL`].
    pub control: u32,
    /// Of what code of capsules calls.
    pub capsules: u32,
    /// Of code requests among neighbours.
    pub fetch: u32,
    /// Of the protocol of environments in processes.
    pub nodeos: u32,
    /// Of PLAN's binary form.
    pub plan: u32,
    /// Of the maps of the kernel half, and a digest of the structures in them: a process takes over those that are the same.
    pub kernel_maps: String,
    /// With which others it works, in words.
    pub works_with: String,
}
