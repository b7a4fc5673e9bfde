//! Accounts of codes and their domains, summed over both halves.
//!
//! Each half counts for itself, so that no packet waits for the other's counters; a query gets the sums. A step of the
//! user half and a nanosecond of the kernel half count alike, as they do for the budget.

use crate::core::reason::{Drops, Reason};
use crate::kernel;
use crate::node::status::{CodeStatus, Status};
use serde::Serialize;
use std::collections::BTreeMap;

/// What was used, in both halves together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    /// Packets that came, run or not.
    pub packets: u64,
    /// Bytes of those packets, from the capsule header on; in the kernel half of those that ran.
    pub bytes: u64,
    /// Steps of the user half and nanoseconds of the kernel half.
    pub steps: u64,
    /// Packets sent on.
    pub forwarded: u64,
    /// Packets delivered to applications.
    pub delivered: u64,
    /// Children.
    pub children: u64,
    /// Packets dropped, by reason.
    pub drops: Drops,
}

/// A domain, and what all its codes have used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DomainTotal {
    /// Its number.
    pub domain: u32,
    /// Its codes.
    pub codes: Vec<String>,
    /// What they have used.
    pub total: Total,
    /// Packets of its that no counter of the user half knows of; below 0: counted more than once.
    pub unaccounted: i64,
}

impl Total {
    /// What a code has used, as the halves say.
    pub fn of(code: &CodeStatus, kernel: Option<&kernel::Status>) -> Total {
        let mut total = Total::default();
        if let Some(here) = &code.usage {
            total = Total {
                packets: here.packets,
                bytes: here.bytes,
                steps: here.steps,
                forwarded: here.forwarded,
                delivered: here.delivered,
                children: here.children,
                drops: here.drops.clone(),
            };
        }
        let there = kernel.and_then(|kernel| kernel.codes.iter().find(|known| known.name == code.name));
        if let Some(kernel::KernelUsage {
            packets,
            children,
            bytes,
            forwarded,
            passed_up: _,
            dropped_by_code,
            dropped_for_verdict,
            dropped_over_budget,
            time_ns,
        }) = there.map(|there| there.usage)
        {
            total.packets += packets + dropped_over_budget;
            total.bytes += bytes;
            total.steps += time_ns;
            total.forwarded += forwarded + children;
            total.children += children;
            total.drops.count_many(Reason::Code, dropped_by_code);
            total.drops.count_many(Reason::Verdict, dropped_for_verdict);
            total.drops.count_many(Reason::Budget, dropped_over_budget);
        }
        total
    }

    fn add(&mut self, other: &Total) {
        let Total { packets, bytes, steps, forwarded, delivered, children, drops } = other;
        self.packets += packets;
        self.bytes += bytes;
        self.steps += steps;
        self.forwarded += forwarded;
        self.delivered += delivered;
        self.children += children;
        self.drops.add(drops);
    }
}

/// What all domains have used that have code, by their numbers.
pub fn by_domain(status: &Status, kernel: Option<&kernel::Status>) -> Vec<DomainTotal> {
    let mut domains: BTreeMap<u32, DomainTotal> = BTreeMap::new();
    for code in &status.codes {
        let Some(number) = code.domain else { continue };
        let domain = domains.entry(number).or_default();
        domain.domain = number;
        domain.unaccounted = code.unaccounted.unwrap_or(0);
        domain.codes.push(code.name.clone());
        domain.total.add(&Total::of(code, kernel));
    }
    domains.into_values().collect()
}
