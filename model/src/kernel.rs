//! The kernel half, and AF_XDP sockets beside it.

use crate::status::Balance;
use crate::usage::is_zero;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kernel half.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kernel {
    /// Where it stands.
    pub ports: Vec<KernelPort>,
    /// Ports that were to have it and do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<WithoutKernel>,
    /// The codes that run there.
    pub codes: Vec<KernelCode>,
    /// Capsules at the ingress.
    pub counts: KernelCounts,
    /// What became of them.
    pub balance: Balance,
    /// Frames that were redirected and did not arrive.
    pub undelivered: u64,
    /// Whether it outlives the node's process.
    pub pinned: bool,
}

/// A port of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelPort {
    /// Its number in the node.
    pub port: u32,
    /// In the driver, or in the stack.
    pub mode: String,
    /// Why not in the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The program that was found there, and has what is not the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
    /// Bytes of the largest packet that is redirected to it; 0: none would arrive.
    pub redirected: u32,
}

/// A port that was to have it and does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WithoutKernel {
    /// Its number in the node.
    pub port: u32,
    /// Why.
    pub why: String,
}

/// A code that runs there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelCode {
    /// Its name.
    pub name: String,
    /// What became of its packets.
    pub usage: KernelUsage,
}

/// What became of the packets of a code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelUsage {
    /// Packets that its program ran on.
    pub packets: u64,
    /// Children that left from here.
    pub children: u64,
    /// Bytes of the packets.
    pub bytes: u64,
    /// Sent on to a next hop.
    pub forwarded: u64,
    /// Given to the user half with a verdict.
    pub passed_up: u64,
    /// Dropped by the code.
    pub dropped_by_code: u64,
    /// Dropped for a verdict that does not exist.
    pub dropped_for_verdict: u64,
    /// Dropped for the budget.
    pub dropped_over_budget: u64,
    /// Nanoseconds, extrapolated.
    pub time_ns: u64,
}

/// Capsules at the ingress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelCounts {
    /// Seen.
    pub received: u64,
    /// Sent to a next hop.
    pub redirected: u64,
    /// Children that left as copies.
    pub made: u64,
    /// Given to the user half with a verdict.
    pub raised: u64,
    /// Left as they came.
    pub punted: u64,
    /// The same under its former name.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lifted: u64,
    /// Dropped, whatever the reason.
    pub dropped: u64,
    /// Of those, that could not be given to the user half.
    pub dropped_unraised: u64,
    /// Frames that pretended to come from the kernel half.
    pub dropped_forged: u64,
    /// Beyond the share of their port.
    pub dropped_over_share: u64,
}

/// A port that was to have AF_XDP sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Socket {
    /// Its number in the node.
    pub port: u64,
    /// "zero-copy", "copy", or "none".
    pub mode: String,
    /// Receive queues of the interface.
    pub queues: u32,
    /// Those with a socket.
    pub sockets: u64,
    /// Frames that went to each socket.
    pub per_queue: Vec<u64>,
    /// Microseconds for which the driver is polled.
    pub busy_poll_us: u32,
    /// Why it is not as it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Frames to the socket of their queue.
    pub to_socket: u64,
    /// Up the Linux stack.
    pub to_stack: u64,
    /// To the socket to keep their flow in order.
    pub held: u64,
    /// Run in the kernel though their flow had something in the user half.
    pub overtaking: u64,
    /// Dropped: they pretended to come from the program.
    pub forged: u64,
}
