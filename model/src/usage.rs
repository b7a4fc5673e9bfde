//! Code at a node: what it may use, what it has used in either half, and where it has trapped.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Packets dropped, by reason; and the same under the names of the version before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Drops {
    /// By reason.
    pub drops: BTreeMap<String, u64>,
    /// By the former names of reasons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops_before: BTreeMap<String, u64>,
}

/// What a domain may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Steps of one packet.
    pub steps_per_packet: u64,
    /// Steps a second.
    pub steps_per_second: u64,
    /// Microseconds a second in the kernel half.
    pub kernel_us_per_second: u64,
    /// Packets a second.
    pub packets_per_second: u64,
    /// Children one packet may send.
    pub children_per_packet: u32,
    /// Entries of soft state.
    pub state_entries: u32,
    /// Their longest keep time, in milliseconds.
    pub keep_ms_max: u32,
    /// Log lines a second.
    pub logs_per_second: u64,
    /// Bytes of wasm memory.
    pub memory_bytes: u32,
    /// Instructions of the bpf representation.
    pub bpf_instructions: u32,
    /// Instructions that the kernel's verifier may look at.
    pub verified_instructions: u32,
    /// What becomes of code that stays over its budget: `throttle` or `remove`.
    pub over_budget: String,
    /// After so many seconds.
    pub over_budget_s: u32,
    /// For how many seconds it is refused then.
    pub removed_s: u32,
}

/// What a domain has used in the user half.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Packets that came to it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Steps that its code has taken.
    pub steps: u64,
    /// Nanoseconds of the CPU.
    pub cpu_ns: u64,
    /// Packets that it has sent on.
    pub forwarded: u64,
    /// Packets that it was handed, or its code delivered.
    pub delivered: u64,
    /// Packets that it began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub made: u64,
    /// Activations of its threads by other causes than packets.
    pub activations: Activations,
    /// Children that its code has sent.
    pub children: u64,
    /// Packets that engines have put together with others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub used: u64,
    /// Packets that had run in the kernel half and went on here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub punted: u64,
    /// The same under its former name.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lifted: u64,
    /// Entries of soft state that it holds.
    pub state_entries: u32,
    /// Entries refused.
    pub state_refused: u64,
    /// Reads and changes that the kernel did not carry out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub state_failed: u64,
    /// Entries that gave way to those of others.
    pub state_displaced: u64,
    /// Log lines suppressed because of its rate.
    pub logs_suppressed: u64,
    /// Its packets that were dropped.
    #[serde(flatten)]
    pub drops: Drops,
}

/// Activations of threads, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Activations {
    /// By events.
    pub events: u64,
    /// By exceptions.
    pub exceptions: u64,
}

pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What was used in both halves together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(
    missing_docs,
    reason = "as those of Usage; a step of the user half and a nanosecond of the kernel half count alike"
)]
pub struct Total {
    pub packets: u64,
    pub bytes: u64,
    pub steps: u64,
    pub forwarded: u64,
    pub delivered: u64,
    pub children: u64,
    #[serde(flatten)]
    pub drops: Drops,
}

/// A code, and the account of its domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Code {
    /// Its name.
    pub name: String,
    /// For people.
    pub title: String,
    /// `ready`, `coming` or `refused`.
    pub state: String,
    /// Why it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Who signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Whether that one was revoked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signer_revoked: bool,
    /// In which role it acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Why the credentials that came with it do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_refused: Option<String>,
    /// Which representation runs in the user half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub representation: Option<String>,
    /// How that was compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Its domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<u32>,
    /// What that may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// What that has used in the user half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// And in both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Total>,
    /// Where it has trapped last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trap: Option<Trap>,
    /// Packets of its domain that no counter of the user half knows of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unaccounted: Option<i64>,
    /// "running" in the kernel half too, or why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// Where a run of code ended without a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trap {
    /// Why, in words.
    pub kind: String,
    /// The function's index in the module.
    pub function: Option<u32>,
    /// The byte from where its body begins.
    pub byte: Option<u32>,
    /// What its source calls the function, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The line of the source, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A domain, and what all its codes have used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DomainTotal {
    /// Its number.
    pub domain: u32,
    /// Its codes.
    pub codes: Vec<String>,
    /// What they have used.
    pub total: Total,
    /// Packets that no counter of the user half knows of.
    pub unaccounted: i64,
}

/// Code on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fetch {
    /// Codes.
    pub codes: u64,
    /// Those that wait for a place among them.
    pub queued: u64,
    /// Capsules that wait for them.
    pub capsules: u64,
    /// Bytes of code in memory.
    pub object_bytes: u64,
    /// Codes that had to give way to others.
    pub displaced: u64,
}

/// Credentials that came with code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Credentials {
    /// Those that count.
    pub accepted: u64,
    /// Those that do not.
    pub refused: u64,
    /// Times that another neighbour was asked for some.
    pub sought: u64,
    /// Capsules for which none was.
    pub unsought: u64,
}

/// What has become of revocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revocations {
    /// Signed ones that neighbours are told.
    pub known: u64,
    /// News that came from neighbours.
    pub news: u64,
    /// Messages that said nothing new.
    pub repeated: u64,
    /// Messages that were sent.
    pub told: u64,
}

/// What one thing of a list is called, whichever list of the counter tree it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Called {
    /// Of a code, for people.
    pub title: Option<String>,
    /// Of a code or a port.
    pub name: Option<String>,
    /// Of a neighbour.
    pub addr: Option<String>,
    /// Of a worker: its number.
    pub worker: Option<u64>,
    /// Of a domain: its codes.
    pub codes: Vec<String>,
    /// Of a domain: its number.
    pub domain: Option<u64>,
}

/// What the codes of the counter tree are called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Codes {
    /// Each of them.
    pub codes: Vec<Called>,
}
