//! What code uses in the kernel half and what it may use, and what came by the ports.

use super::{Maps, word64};
use crate::kernel::layout::{BUDGET, BUDGET_MOST, BUDGETS, CEILINGS, CEILINGS_MAP, PROGRAMS, USAGE};
use crate::sys::bpf::possible_cpus;
use std::io;

/// Tokens a second, at most: beyond that the kernel half's arithmetic would overflow.
const RATE_MAX: u64 = 100_000_000_000;

/// What became of the packets of one code in the kernel half: `struct usage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KernelUsage {
    /// Packets its program ran on.
    pub packets: u64,
    /// Children that left from here.
    pub children: u64,
    /// Their octets.
    pub bytes: u64,
    /// Sent on to a next hop.
    pub forwarded: u64,
    /// Given to the user half with a verdict.
    pub passed_up: u64,
    /// Dropped by the code.
    pub dropped_by_code: u64,
    /// Dropped for a verdict that does not exist.
    pub dropped_for_verdict: u64,
    /// Dropped because its domain had used up its packets or its time.
    pub dropped_over_budget: u64,
    /// Nanoseconds, extrapolated from one of 64 to 256 packets.
    pub time_ns: u64,
}

/// Capsules at the ingress: `struct counts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KernelCounts {
    /// Capsules seen, in the form that the kernel half handles.
    pub received: u64,
    /// Frames that pretended to come from the kernel half.
    pub dropped_forged: u64,
    /// Capsules beyond what those of their port may use of a CPU.
    pub dropped_over_share: u64,
}

impl Maps {
    /// What became of the packets of the code in a slot.
    pub fn usage(&self, slot: u32) -> io::Result<KernelUsage> {
        let [packets, bytes, passed_up, by_code, by_verdict, by_budget, time_ns, _] = self.usage_words(slot)?;
        let [children] = self.sums("broods_map", slot)?;
        // Read while packets pass: these may be newer than `packets`.
        let forwarded = packets.saturating_sub(passed_up + by_code + by_verdict);
        Ok(KernelUsage {
            packets,
            children,
            bytes,
            forwarded,
            passed_up,
            dropped_by_code: by_code,
            dropped_for_verdict: by_verdict,
            dropped_over_budget: by_budget,
            time_ns,
        })
    }

    /// The words of `struct usage` of a slot, over all CPUs.
    fn usage_words(&self, slot: u32) -> io::Result<[u64; 8]> {
        let (map, mut sums) = (self.of(USAGE)?, [0u64; 8]);
        for cpu in 0..possible_cpus()? as u32 {
            let mut value = [0; 64];
            map.get(&(cpu * PROGRAMS + slot).to_ne_bytes(), &mut value)?;
            for (sum, word) in sums.iter_mut().zip(value.as_chunks::<8>().0) {
                *sum += u64::from_ne_bytes(*word);
            }
        }
        Ok(sums)
    }

    /// Forgets what became of the packets of the code in a slot.
    pub fn clear_usage(&self, slot: u32) -> io::Result<()> {
        for cpu in 0..possible_cpus()? as u32 {
            self.set(USAGE, cpu * PROGRAMS + slot, &[0; 64])?;
        }
        let broods = self.of("broods_map")?;
        broods.set(&slot.to_ne_bytes(), &vec![0; broods.value_size()])
    }

    /// Gives the code in a slot so many packets, and so many nanoseconds of time, a second, over both halves; `spent` is what
    /// the user half has spent of them so far. One packet can take `most` nanoseconds.
    pub fn set_budget(&self, slot: u32, rates: [u64; 2], spent: [u64; 2], most: u32) -> io::Result<()> {
        let mut value = budget(rates, spent);
        value[BUDGET_MOST].copy_from_slice(&most.to_ne_bytes());
        self.set(BUDGETS, slot, &value)
    }

    /// Nanoseconds that one packet of the code in a slot can take.
    pub fn most_of(&self, slot: u32) -> io::Result<u32> {
        let mut value = [0; BUDGET];
        self.of(BUDGETS)?.get(&slot.to_ne_bytes(), &mut value)?;
        Ok(word64(&value, BUDGET_MOST.start) as u32)
    }

    /// Capsules at the ingress, and what came by these interfaces and pretended to come from there.
    pub fn counts(&self, interfaces: impl Iterator<Item = u32>) -> io::Result<KernelCounts> {
        let [received] = self.sums("current_map", 0)?;
        let mut dropped_forged = 0;
        for interface in interfaces {
            let [.., forged] = self.sums::<5>("lifted_map", interface)?;
            dropped_forged += forged;
        }
        let dropped_over_share = self.over_share(0..CEILINGS)?;
        Ok(KernelCounts { received, dropped_forged, dropped_over_share })
    }

    /// Capsules dropped at the ceilings of these ports, by number, over all CPUs.
    pub fn over_share(&self, ports: core::ops::Range<u32>) -> io::Result<u64> {
        let (map, mut refused) = (self.of(CEILINGS_MAP)?, 0);
        for place in (0..possible_cpus()? as u32).flat_map(|cpu| ports.clone().map(move |port| cpu * CEILINGS + port)) {
            let mut value = [0; 64];
            map.get(&place.to_ne_bytes(), &mut value)?;
            refused += word64(&value, 24);
        }
        Ok(refused)
    }
}

/// A full `struct budget` of so many packets, and so many nanoseconds of time, a second.
pub(in crate::kernel) fn budget(rates: [u64; 2], spent: [u64; 2]) -> [u8; BUDGET] {
    let [packets, time] = rates.map(|rate| rate.min(RATE_MAX));
    // The lock and parts; rates; full buckets; never looked at; what is charged.
    let words = [0, 0, packets, time, packets / 10 + 1, time / 10 + 1, 0, spent[0], spent[1]];
    let mut value = [0; BUDGET];
    value.copy_from_slice(words.map(u64::to_ne_bytes).as_flattened());
    value
}
