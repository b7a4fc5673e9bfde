//! Counters and budgets of codes in the kernel half, and counters of ports.

use super::Maps;
use crate::contract::{CEILINGS, PROGRAMS, budget as bucket, ceiling, current, punt_counts, replicas, usage};
use crate::core::ledger::{Balance, gone_on};
use crate::kernel::layout::{BUDGETS, CEILINGS_MAP, USAGE};
use crate::sys::bpf::possible_cpus;
use std::io;

/// Tokens a second, at most: beyond that the kernel half's arithmetic would overflow.
pub(in crate::kernel) const RATE_MAX: u64 = 100_000_000_000;

/// What became of the packets of one code in the kernel half: `struct usage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KernelUsage {
    /// Packets its program ran on.
    pub packets: u64,
    /// Children that left from here.
    pub children: u64,
    /// Their bytes.
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

/// Capsules at the ingress: the beginning of `struct current`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KernelCounts {
    /// Capsules seen, in the form that the kernel half handles.
    pub received: u64,
    /// Frames sent to a next hop, copies included.
    pub redirected: u64,
    /// Children that left as copies.
    pub made: u64,
    /// Capsules given to the user half with a verdict.
    pub raised: u64,
    /// Capsules left as they came, to the user half or the Linux stack.
    pub punted: u64,
    /// Capsules dropped, whatever the reason, once they were counted as received.
    pub dropped: u64,
    /// Of those, capsules that could not be given to the user half.
    pub dropped_unraised: u64,
    /// Frames that pretended to come from the kernel half.
    pub dropped_forged: u64,
    /// Capsules beyond what those of their port may use of a CPU.
    pub dropped_over_share: u64,
}

/// How often counters are read that change meanwhile.
pub(in crate::kernel) const LOOKS: usize = 64;

impl KernelCounts {
    /// What became of the capsules, of whose frames so many did not arrive.
    pub fn balance(&self, undelivered: u64) -> Balance {
        Balance {
            received: self.received,
            made: self.made,
            sent: self.redirected.wrapping_sub(undelivered),
            delivered: self.raised,
            not_ours: self.punted,
            dropped: self.dropped.wrapping_add(undelivered),
            ..Balance::default()
        }
    }
}

impl Maps {
    /// What became of the packets of the code in a slot.
    pub fn usage(&self, slot: u32) -> io::Result<KernelUsage> {
        let words = self.usage_words(slot)?;
        let [packets, passed_up] = [usage::PACKETS.among(&words), usage::PASSED_UP.among(&words)];
        let [by_code, by_verdict] = [usage::BY_CODE.among(&words), usage::BY_VERDICT.among(&words)];
        let replicas: [u64; replicas::SIZE / 8] = self.sums("replicas_map", slot)?;
        // Read while packets pass: these may be newer than `packets`.
        let forwarded = gone_on(packets, passed_up.wrapping_add(by_code).wrapping_add(by_verdict));
        Ok(KernelUsage {
            packets,
            children: replicas::CHILDREN.among(&replicas),
            bytes: usage::BYTES.among(&words),
            forwarded,
            passed_up,
            dropped_by_code: by_code,
            dropped_for_verdict: by_verdict,
            dropped_over_budget: usage::BY_BUDGET.among(&words),
            time_ns: usage::TIME.among(&words),
        })
    }

    /// The words of `struct usage` of a slot, over all CPUs.
    fn usage_words(&self, slot: u32) -> io::Result<[u64; usage::SIZE / 8]> {
        let (map, mut sums) = (self.of(USAGE)?, [0; usage::SIZE / 8]);
        for cpu in 0..possible_cpus()? as u32 {
            let mut value = [0; usage::SIZE];
            map.get(&(cpu * PROGRAMS + slot).to_ne_bytes(), &mut value)?;
            for (sum, word) in sums.iter_mut().zip(value.as_chunks::<8>().0) {
                *sum = u64::wrapping_add(*sum, u64::from_ne_bytes(*word));
            }
        }
        Ok(sums)
    }

    /// Forgets what became of the packets of the code in a slot.
    pub fn clear_usage(&self, slot: u32) -> io::Result<()> {
        for cpu in 0..possible_cpus()? as u32 {
            self.set(USAGE, cpu * PROGRAMS + slot, &[0; usage::SIZE])?;
        }
        let replicas = self.of("replicas_map")?;
        replicas.set(&slot.to_ne_bytes(), &vec![0; replicas.value_size()])
    }

    /// Gives the code in a slot so many packets, and so many nanoseconds of time, a second, over both halves; `spent` is what
    /// the user half has spent of them so far. One packet can take `most` nanoseconds.
    pub fn set_budget(&self, slot: u32, rates: [u64; 2], spent: [u64; 2], most: u32) -> io::Result<()> {
        let mut value = budget(rates, spent);
        bucket::MOST.put(&mut value, most.to_ne_bytes());
        self.set(BUDGETS, slot, &value)
    }

    /// Nanoseconds that one packet of the code in a slot can take.
    pub fn most_of(&self, slot: u32) -> io::Result<u32> {
        let mut value = [0; bucket::SIZE];
        self.of(BUDGETS)?.get(&slot.to_ne_bytes(), &mut value)?;
        Ok(u32::from_ne_bytes(bucket::MOST.of(&value)))
    }

    /// Capsules at the ingress, and what came by these interfaces and pretended to come from there.
    pub fn counts(&self, interfaces: impl Iterator<Item = u32>) -> io::Result<KernelCounts> {
        let capsules = self.capsules()?;
        let mut dropped_forged = 0;
        for interface in interfaces {
            let words: [u64; punt_counts::SIZE / 8] = self.sums("punt_counts_map", interface)?;
            dropped_forged += punt_counts::FORGED.among(&words);
        }
        let dropped_over_share = self.over_share(0..CEILINGS)?;
        Ok(KernelCounts { dropped_forged, dropped_over_share, ..capsules })
    }

    /// Capsules at the ingress. Packets pass while this reads, each CPU's at most one, so it looks again until none is on its way.
    fn capsules(&self) -> io::Result<KernelCounts> {
        let mut counts = KernelCounts::default();
        for _ in 0..LOOKS {
            let words: [u64; current::SIZE / 8] = self.sums("current_map", 0)?;
            counts = KernelCounts {
                received: current::RECEIVED.among(&words),
                redirected: current::REDIRECTED.among(&words),
                made: current::MADE.among(&words),
                raised: current::RAISED.among(&words),
                punted: current::PUNTED.among(&words),
                dropped: current::DROPPED.among(&words),
                dropped_unraised: current::UNRAISED.among(&words),
                ..KernelCounts::default()
            };
            if counts.balance(0).unaccounted() == 0 {
                break;
            }
        }
        Ok(counts)
    }

    /// Nanoseconds that capsules of these ports, by number, were charged with, over all CPUs: those of each.
    pub fn charged(&self, ports: core::ops::Range<u32>) -> io::Result<Vec<u64>> {
        self.at_ceilings(ports, |value| ceiling::SPENT.of(value))
    }

    /// Capsules dropped at the ceilings of these ports, by number, over all CPUs.
    pub fn over_share(&self, ports: core::ops::Range<u32>) -> io::Result<u64> {
        Ok(self.at_ceilings(ports, |value| ceiling::REFUSED.of(value))?.into_iter().sum())
    }

    /// A counter of the ceilings of these ports, by number, over all CPUs: that of each.
    fn at_ceilings(
        &self,
        ports: core::ops::Range<u32>,
        counter: impl Fn(&[u8; ceiling::SIZE]) -> [u8; 8],
    ) -> io::Result<Vec<u64>> {
        let (map, mut sums) = (self.of(CEILINGS_MAP)?, vec![0; ports.len()]);
        for cpu in 0..possible_cpus()? as u32 {
            for (port, sum) in ports.clone().zip(&mut sums) {
                let mut value = [0; ceiling::SIZE];
                map.get(&(cpu * CEILINGS + port).to_ne_bytes(), &mut value)?;
                *sum += u64::from_ne_bytes(counter(&value));
            }
        }
        Ok(sums)
    }
}

/// A full `struct budget` of so many packets, and so many nanoseconds of time, a second.
pub(in crate::kernel) fn budget(rates: [u64; 2], spent: [u64; 2]) -> [u8; bucket::SIZE] {
    let [packets, time] = rates.map(|rate| rate.min(RATE_MAX));
    let mut value = [0; bucket::SIZE];
    bucket::PACKETS_RATE.put(&mut value, packets.to_ne_bytes());
    bucket::TIME_RATE.put(&mut value, time.to_ne_bytes());
    // Full buckets, never looked at.
    bucket::PACKETS.put(&mut value, full(packets).to_ne_bytes());
    bucket::TIME.put(&mut value, full(time).to_ne_bytes());
    bucket::CHARGED_PACKETS.put(&mut value, spent[0].to_ne_bytes());
    bucket::CHARGED_TIME.put(&mut value, spent[1].to_ne_bytes());
    value
}

/// What a full bucket holds: `refilled` of bpf/budget.h.
fn full(rate: u64) -> u64 {
    rate / 10 + 1
}
