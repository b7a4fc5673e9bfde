//! Counters of the kernel half, for the node's counter tree.

use super::maps::{KernelCounts, KernelUsage};
use crate::core::ledger::Balance;

/// The kernel half's part of a node's counters.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Status {
    /// Where it stands.
    pub ports: Vec<PortStatus>,
    /// Ports that were to have it and do not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Without>,
    /// The codes that run there.
    pub codes: Vec<CodeStatus>,
    /// Capsules at the ingress.
    pub counts: KernelCounts,
    /// What became of them: `delivered` to the user half with a verdict, `not_ours` what was left as it came.
    pub balance: Balance,
    /// Frames that were redirected and did not arrive, as far as this host can tell: [`crate::core::reason::Reason::Undelivered`].
    pub undelivered: u64,
    /// Whether it outlives the node's process.
    pub pinned: bool,
}

/// A port of the kernel half.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PortStatus {
    /// Its number in the node.
    pub port: u32,
    /// In the driver, or in the stack.
    pub mode: &'static str,
    /// Why not in the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The program that was found there, and has what is not the node's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
    /// Bytes of the largest packet that is redirected to it; 0: none would arrive, so the user half sends.
    pub redirected: u32,
}

/// A port without it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Without {
    /// Its number in the node.
    pub port: u32,
    /// Why.
    pub why: String,
}

/// A code of the kernel half.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CodeStatus {
    /// Its name.
    pub name: String,
    /// What became of its packets here.
    pub usage: KernelUsage,
}
