//! Limits of code: the numbers of a role, each with its unit in its name. Example: `packets_per_second = 1000`.
//!
//! A domain enforces the limits on packets ([`crate::core::domain`]); run-times, linker and verifier those on code when
//! it is loaded. No role can exceed the maxima of the node, which are here too.

use crate::abi::CHILDREN_MAX;

/// Bytes of wasm memory that code can have at all.
pub const MEMORY_BYTES_MAX: u32 = 65_536;

/// Instructions that a bpf representation can have at all.
pub const BPF_INSTRUCTIONS_MAX: u32 = 4096;

/// Instructions that the kernel's verifier looks at, at most.
pub const VERIFIED_INSTRUCTIONS_MAX: u32 = 1_000_000;

/// What becomes of code whose domain stays over its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverBudget {
    /// Its packets beyond the budget are dropped.
    #[default]
    Throttle,
    /// The same, and after a while it is taken out of both halves and refused for a time.
    Remove,
}

/// What a domain may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Steps (wasm fuel) one packet may take.
    pub steps_per_packet: u64,
    /// Steps a second over all packets.
    pub steps_per_second: u64,
    /// Microseconds a second that its packets may take in the kernel half, over all CPUs.
    pub kernel_us_per_second: u64,
    /// Packets a second.
    pub packets_per_second: u64,
    /// Children one packet may send.
    pub children_per_packet: u32,
    /// Soft-state entries of 64 bytes.
    pub state_entries: u32,
    /// Longest keep time of a soft-state entry, in milliseconds.
    pub keep_ms_max: u32,
    /// Log lines a second.
    pub logs_per_second: u64,
    /// Bytes of wasm memory.
    pub memory_bytes: u32,
    /// Instructions of the bpf representation.
    pub bpf_instructions: u32,
    /// Instructions that the kernel's verifier may look at, over all ways through the linked code.
    pub verified_instructions: u32,
    /// What happens if packets were dropped for the budget in each of `over_budget_s` seconds in a row.
    pub over_budget: OverBudget,
    /// Those seconds.
    pub over_budget_s: u32,
    /// For how many seconds code that was removed for it is refused.
    pub removed_s: u32,
}

impl Default for Limits {
    /// What `anyone` gets.
    fn default() -> Limits {
        Limits {
            steps_per_packet: 20_000,
            steps_per_second: 2_000_000_000,
            kernel_us_per_second: 500_000,
            packets_per_second: 5_000_000,
            children_per_packet: 16,
            state_entries: 1024,
            keep_ms_max: 300_000,
            logs_per_second: 10,
            memory_bytes: MEMORY_BYTES_MAX,
            bpf_instructions: BPF_INSTRUCTIONS_MAX,
            verified_instructions: VERIFIED_INSTRUCTIONS_MAX,
            over_budget: OverBudget::Throttle,
            over_budget_s: 5,
            removed_s: 60,
        }
    }
}

impl Limits {
    /// What the node's own domains have: no bound but the node's.
    pub fn of_node() -> Limits {
        Limits {
            steps_per_packet: u64::MAX,
            steps_per_second: u64::MAX,
            kernel_us_per_second: u64::MAX,
            packets_per_second: u64::MAX,
            children_per_packet: CHILDREN_MAX as u32,
            state_entries: u32::MAX,
            keep_ms_max: u32::MAX,
            logs_per_second: u64::MAX,
            ..Limits::default()
        }
    }

    /// Every number, by its name.
    pub fn numbers(&self) -> [(&'static str, u64); 11] {
        [
            ("steps_per_packet", self.steps_per_packet),
            ("steps_per_second", self.steps_per_second),
            ("kernel_us_per_second", self.kernel_us_per_second),
            ("packets_per_second", self.packets_per_second),
            ("children_per_packet", self.children_per_packet.into()),
            ("state_entries", self.state_entries.into()),
            ("keep_ms_max", self.keep_ms_max.into()),
            ("logs_per_second", self.logs_per_second),
            ("memory_bytes", self.memory_bytes.into()),
            ("bpf_instructions", self.bpf_instructions.into()),
            ("verified_instructions", self.verified_instructions.into()),
        ]
    }

    /// The first number in which these are more than others, with both.
    pub fn exceed(&self, others: &Limits) -> Option<(&'static str, u64, u64)> {
        let mut pairs = self.numbers().into_iter().zip(others.numbers());
        pairs.find(|((_, own), (_, other))| own > other).map(|((name, own), (_, other))| (name, own, other))
    }

    /// Says which number is more than a node has at all.
    pub fn check(&self) -> Result<(), String> {
        let numbers = [
            ("children_per_packet", u64::from(self.children_per_packet), CHILDREN_MAX as u64),
            ("memory_bytes", u64::from(self.memory_bytes), u64::from(MEMORY_BYTES_MAX)),
            ("bpf_instructions", u64::from(self.bpf_instructions), u64::from(BPF_INSTRUCTIONS_MAX)),
            ("verified_instructions", u64::from(self.verified_instructions), u64::from(VERIFIED_INSTRUCTIONS_MAX)),
        ];
        if self.over_budget_s == 0 || self.removed_s == 0 {
            return Err("limits.over_budget_s and limits.removed_s are one second at least".into());
        }
        match numbers.iter().find(|(_, given, most)| given > most) {
            Some((name, given, most)) => {
                Err(format!("limits.{name}: {given} are more than a node holds, which is {most}"))
            }
            None => Ok(()),
        }
    }
}
