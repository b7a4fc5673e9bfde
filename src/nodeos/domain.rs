//! Domains: who pays.
//!
//! A domain owns what code uses: steps, packets, children, soft state. Every code and every flow
//! runs in one; nothing here belongs to an execution environment. Limits come from the role of the
//! principal at creation (the papers grant resources by credential, not from a parent), and a
//! domain over its limits is throttled: its packets are dropped under [`Reason::Budget`].
//! After Peterson et al., the NodeOS interface; PLAN on OSKit §3.3.

use super::bucket::TokenBucket;
pub use super::limits::Limits;
use super::reason::{Drops, Reason};
use super::share::{OtherHalf, Spent};
use super::state_store::SharedState;
use std::sync::Arc;

/// Domains one node holds at the same time.
pub const DOMAINS_MAX: usize = 4096;

/// Index of a domain in its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainId(pub u32);

/// What a domain has used so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// Packets that came to it.
    pub packets: u64,
    /// Octets of those packets, from the capsule header on.
    pub bytes: u64,
    /// Steps its code has taken.
    pub steps: u64,
    /// Packets its code forwarded.
    pub forwarded: u64,
    /// Packets its code delivered to applications.
    pub delivered: u64,
    /// Children its code sent.
    pub children: u64,
    /// Soft-state entries it holds.
    pub state_entries: u32,
    /// Soft-state entries refused because of its quota, or because others hold their place.
    pub state_refused: u64,
    /// Soft-state entries that gave way to those of domains with less than their share.
    pub state_displaced: u64,
    /// Log lines suppressed because of its rate.
    pub logs_suppressed: u64,
    /// Its packets that were dropped.
    pub drops: Drops,
}

/// A domain: limits and what was used of them.
#[derive(Debug)]
pub struct Domain {
    /// For people: the title of its code or the name of its flow.
    pub title: String,
    /// What it may use.
    pub limits: Limits,
    /// What it has used.
    pub usage: Usage,
    /// Its soft state, if that is not the node's own table.
    pub shared: Option<Arc<dyn SharedState>>,
    /// The kernel half, once it runs the domain's code: both spend one budget.
    pub other: Option<OtherHalf>,
    /// Packets refused for its budget when it was looked at last, and for how many looks in a row there were more.
    refused: u64,
    strikes: u32,
    steps: TokenBucket,
    packets: TokenBucket,
    logs: TokenBucket,
}

impl Domain {
    /// A domain with full budgets.
    pub fn new(title: String, limits: Limits) -> Domain {
        let burst = |rate: u64| (rate / 10).max(1);
        Domain {
            title,
            limits,
            usage: Usage::default(),
            shared: None,
            other: None,
            refused: 0,
            strikes: 0,
            steps: TokenBucket::new(limits.steps_per_second, burst(limits.steps_per_second)),
            packets: TokenBucket::new(limits.packets_per_second, burst(limits.packets_per_second)),
            logs: TokenBucket::new(limits.logs_per_second, limits.logs_per_second.max(1)),
        }
    }

    /// Takes a packet on: counts it, and says whether the budgets allow to run its code.
    #[inline]
    pub fn admit(&mut self, now: u64, bytes: usize) -> Result<(), Reason> {
        self.usage.packets += 1;
        self.usage.bytes += bytes as u64;
        if let Some(other) = &mut self.other {
            other.settle(now, &mut self.packets, &mut self.steps);
        }
        if !(self.steps.has_any(now) && self.packets.take(now, 1)) {
            return Err(Reason::Budget);
        }
        if let Some(other) = &self.other {
            other.spend(1, 0);
        }
        Ok(())
    }

    /// Charges the steps a packet has taken.
    #[inline]
    pub fn charge_steps(&mut self, now: u64, steps: u64) {
        self.usage.steps += steps;
        self.steps.charge(now, steps);
        if let Some(other) = &self.other {
            other.spend(0, steps);
        }
    }

    /// Looked at once in a while: what the kernel half has spent since the last time, and for how many times in a row
    /// packets were refused for the budget, in either half.
    pub fn look(&mut self) -> (Spent, u32) {
        let there = self.other.as_mut().map(OtherHalf::since).unwrap_or_default();
        let here = self.usage.drops.of(Reason::Budget);
        let more = there.refused > 0 || here > self.refused;
        self.refused = here;
        self.strikes = if more { self.strikes.saturating_add(1) } else { 0 };
        (there, self.strikes)
    }

    /// Whether a log line may be written at `now`.
    pub fn may_log(&mut self, now: u64) -> bool {
        let allowed = self.logs.take(now, 1);
        self.usage.logs_suppressed += u64::from(!allowed);
        allowed
    }
}

/// The domains of a node.
#[derive(Default)]
pub struct Domains {
    slots: Vec<Option<Domain>>,
    free: Vec<u32>,
}

impl Domains {
    /// Adds a domain, or nothing when [`DOMAINS_MAX`] exist.
    pub fn create(&mut self, domain: Domain) -> Option<DomainId> {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(domain);
            return Some(DomainId(index));
        }
        if self.slots.len() >= DOMAINS_MAX {
            return None;
        }
        self.slots.push(Some(domain));
        Some(DomainId(self.slots.len() as u32 - 1))
    }

    /// The domain, unless it has ended.
    #[inline]
    pub fn of(&mut self, id: DomainId) -> Option<&mut Domain> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    /// The domain, to read.
    pub fn by_id(&self, id: DomainId) -> Option<&Domain> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// Ends a domain and gives its last account.
    pub fn end(&mut self, id: DomainId) -> Option<Domain> {
        let domain = self.slots.get_mut(id.0 as usize)?.take()?;
        self.free.push(id.0);
        Some(domain)
    }

    /// All living domains.
    pub fn iter(&self) -> impl Iterator<Item = (DomainId, &Domain)> {
        self.slots.iter().enumerate().filter_map(|(i, slot)| Some((DomainId(i as u32), slot.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_over_its_packet_rate_is_throttled_and_recovers() {
        let mut domain = Domain::new("t".into(), Limits { packets_per_second: 10, ..Limits::default() });
        assert_eq!(domain.admit(0, 100), Ok(()));
        assert_eq!(domain.admit(0, 100), Err(Reason::Budget));
        assert_eq!(domain.admit(100_000_000, 100), Ok(()));
        assert_eq!((domain.usage.packets, domain.usage.bytes), (3, 300));
    }

    #[test]
    fn a_domain_over_its_steps_waits_for_them() {
        let mut domain = Domain::new("t".into(), Limits { steps_per_second: 1000, ..Limits::default() });
        domain.charge_steps(0, 600);
        assert_eq!(domain.admit(0, 1), Err(Reason::Budget));
        assert_eq!(domain.admit(500_000_000, 1), Err(Reason::Budget), "it has overdrawn by half a second's");
        assert_eq!(domain.admit(501_000_000, 1), Ok(()));
    }

    #[test]
    fn looks_in_a_row_with_refused_packets_are_counted() {
        let mut domain = Domain::new("t".into(), Limits::default());
        let mut look = |refused: bool| {
            if refused {
                domain.usage.drops.count(Reason::Budget);
            }
            domain.look().1
        };
        assert_eq!([true, true, false, true].map(&mut look), [1, 2, 0, 1]);
    }

    #[test]
    fn an_ended_domain_is_gone_and_its_slot_is_used_again() {
        let mut domains = Domains::default();
        let first = domains.create(Domain::new("a".into(), Limits::default())).unwrap();
        assert_eq!(domains.end(first).unwrap().title, "a");
        assert!(domains.of(first).is_none());
        assert_eq!(domains.create(Domain::new("b".into(), Limits::default())), Some(first));
    }
}
