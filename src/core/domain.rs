//! Domains: the payers of a node. Example: the domain of one code, with 1,000 packets a second and 64 KiB of soft
//! state.
//!
//! A domain owns what its code uses: steps, packets, children, soft state, channels, memory, events. Every code, flow
//! and execution environment runs in one. Limits come from the principal's role at creation (the papers grant resources
//! by credential, not from a parent). A domain over its limits is throttled: its packets are dropped under
//! [`Reason::Budget`]. Domains form a tree for one purpose: the end of one ends all below it. After Peterson et al.,
//! the NodeOS interface; PLAN on OSKit §3.3.

use super::bucket::TokenBucket;
use super::kept::{Refused, SharedState};
use super::log::Trap;
use super::reason::{Drops, Reason};
use super::record::SharedRecords;
use super::share::{Bandwidth, OtherHalf, SharedAccount, SharedBytes, Spent};
use super::table::Table;
use crate::object_name;
use crate::trust::Role;
use crate::trust::grants::{DOMAINS_MAX, Grants};
use crate::trust::limits::{Limits, OverBudget};
use std::sync::Arc;

/// The depth of the tree of domains, at most.
pub const DEPTH_MAX: u16 = 16;

object_name! {
    /// Names a domain.
    DomainId
}

/// The host of a domain: an environment in the node's process or in one of its own. Domains inherit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub u32);

impl HostId {
    /// The node itself.
    pub const NODE: HostId = HostId(0);
}

/// The environment that runs packets of a domain, by its place in the node's table. Domains inherit it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentId(pub u8);

/// The account of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// Packets that came to it.
    pub packets: u64,
    /// Bytes of those packets, from the capsule header on.
    pub bytes: u64,
    /// Steps its code has taken.
    pub steps: u64,
    /// Nanoseconds its packets took of the CPU; steps, where there is no clock.
    pub cpu_ns: u64,
    /// Packets it has sent on, or by its channels.
    pub forwarded: u64,
    /// Packets it was handed, or its code delivered to applications.
    pub delivered: u64,
    /// Packets it began: of its channels, and by their engines.
    #[serde(skip_serializing_if = "is_zero")]
    pub made: u64,
    /// Rarer counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Activations of threads, by cause. Packets are counted as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Activations {
    /// By events.
    pub events: u64,
    /// By exceptions: memory over its limit, an end.
    pub exceptions: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Counts that not every packet changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Activations of its threads by other causes than packets.
    pub activations: Activations,
    /// Children its code sent.
    pub children: u64,
    /// Packets that engines of its channels have put together with others.
    #[serde(skip_serializing_if = "is_zero")]
    pub used: u64,
    /// Packets that had run in the kernel half and went on here.
    #[serde(skip_serializing_if = "is_zero")]
    pub punted: u64,
    /// Soft-state entries it holds.
    pub state_entries: u32,
    /// Soft-state entries refused because of its quota, or because others hold their place.
    pub state_refused: u64,
    /// Reads and changes of soft state that the kernel did not carry out, for another reason than want of room.
    #[serde(skip_serializing_if = "is_zero")]
    pub state_failed: u64,
    /// Soft-state entries that gave way to those of domains with less than their share.
    pub state_displaced: u64,
    /// Log lines suppressed because of its rate.
    pub logs_suppressed: u64,
    /// Its packets that were dropped.
    pub drops: Drops,
}

impl Counts {
    /// Soft state was refused.
    #[cold]
    pub fn refuse(&mut self, why: Refused) {
        match why {
            Refused::Full => self.state_refused += 1,
            Refused::Failed => self.state_failed += 1,
            Refused::Changed => {}
        }
    }
}

impl core::ops::Deref for Usage {
    type Target = Counts;
    fn deref(&self) -> &Counts {
        &self.counts
    }
}

/// A domain: limits and what was used of them. Three cache lines with what packets look at, the third only those that
/// run code or are measured; behind them the rest.
#[derive(Debug)]
#[repr(C)]
pub struct Domain {
    packets: TokenBucket,
    came: u64,
    /// Its host.
    pub host: HostId,
    /// The place of the outgoing channel that it used last: a guess at the next one.
    pub last_out: u16,
    /// Whoever runs its packets and is told what happens to it.
    pub environment: EnvironmentId,
    steps: TokenBucket,
    /// Packets that it has sent.
    pub forwarded: u64,
    bytes: u64,
    more: Option<Box<More>>,
    steps_taken: u64,
    /// Nanoseconds its packets took of the CPU; steps, where there is no clock.
    pub cpu_ns: u64,
    /// Packets that it was handed, or that its code delivered.
    pub delivered: u64,
    /// Packets that it began, other than children.
    pub made: u64,
    rest: Box<Rest>,
}

const _: () = assert!(size_of::<Domain>() <= 3 * crate::sys::cache::LINE - 8);

/// Bounds that few domains have.
#[derive(Debug, Default)]
struct More {
    /// Bytes that its channels may send now.
    bandwidth: Option<Bandwidth>,
    /// The kernel half, once it runs the domain's code: both spend one budget.
    other: Option<OtherHalf>,
}

/// The colder part of a [`Domain`], which stands for it.
#[derive(Debug)]
pub struct Rest {
    /// For people: the title of its code or the name of its flow.
    pub title: String,
    /// Its limits.
    pub limits: Limits,
    /// Its grants.
    pub grants: Grants,
    /// Its rarer counts.
    pub counts: Counts,
    /// Its soft state, if that is not the node's own table.
    pub shared: Option<Arc<dyn SharedState>>,
    /// Records of its packets from the kernel half, to be carried out here.
    pub records: Option<Arc<dyn SharedRecords>>,
    /// Where its code has trapped last.
    pub trapped: Option<Trap>,
    /// Channels it has.
    pub channels: u32,
    /// Its grants at its creation.
    pub role: Arc<Role>,
    /// Domains below it, however deep.
    below: u32,
    parent: Option<DomainId>,
    depth: u16,
    children: Vec<DomainId>,
    /// Packets refused for its budget when it was looked at last, and for how many looks in a row there were more.
    refused: u64,
    strikes: u32,
    /// In which second a packet of a channel was refused last, and for how many in a row.
    second: u64,
    seconds: u32,
    logs: TokenBucket,
}

impl core::ops::Deref for Domain {
    type Target = Rest;
    #[inline]
    fn deref(&self) -> &Rest {
        &self.rest
    }
}

impl core::ops::DerefMut for Domain {
    #[inline]
    fn deref_mut(&mut self) -> &mut Rest {
        &mut self.rest
    }
}

impl Domain {
    /// A domain in a role, with full budgets.
    pub fn in_role(title: String, role: &Arc<Role>) -> Domain {
        let mut domain = Domain::new(title, role.limits).with_grants(role.grants);
        domain.role = role.clone();
        domain
    }

    /// A domain of the node's own with full budgets.
    pub fn new(title: String, limits: Limits) -> Domain {
        let burst = |rate: u64| (rate / 10).max(1);
        let rest = Rest {
            title,
            limits,
            grants: Grants::default(),
            counts: Counts::default(),
            shared: None,
            records: None,
            trapped: None,
            channels: 0,
            role: Role::of_node(),
            below: 0,
            parent: None,
            depth: 0,
            children: Vec::new(),
            refused: 0,
            strikes: 0,
            second: 0,
            seconds: 0,
            logs: TokenBucket::new(limits.logs_per_second, limits.logs_per_second.max(1)),
        };
        Domain {
            packets: TokenBucket::new(limits.packets_per_second, burst(limits.packets_per_second)),
            came: 0,
            host: HostId::NODE,
            last_out: u16::MAX,
            environment: EnvironmentId::default(),
            steps: TokenBucket::new(limits.steps_per_second, burst(limits.steps_per_second)),
            forwarded: 0,
            bytes: 0,
            more: None,
            steps_taken: 0,
            cpu_ns: 0,
            delivered: 0,
            made: 0,
            rest: Box::new(rest),
        }
    }

    /// The same with what else it was granted.
    pub fn with_grants(mut self, grants: Grants) -> Domain {
        self.grants = grants;
        match (grants.bandwidth < u64::MAX).then(|| Bandwidth::new(grants.bandwidth)) {
            None => self.more = self.more.filter(|more| more.other.is_some()),
            bandwidth => self.more.get_or_insert_default().bandwidth = bandwidth,
        }
        self
    }

    /// Its account.
    pub fn usage(&self) -> Usage {
        Usage {
            packets: self.came,
            bytes: self.bytes,
            steps: self.steps_taken,
            cpu_ns: self.cpu_ns,
            forwarded: self.forwarded,
            delivered: self.delivered,
            made: self.made,
            counts: self.counts.clone(),
        }
    }

    /// Packets lost without a counter, of which so many wait; below 0: counted more than once.
    pub fn unaccounted(&self, waiting: u64) -> i64 {
        let Counts { children, used, punted, drops, .. } = &self.counts;
        let begun = [*children, *punted, self.made].into_iter().fold(self.came, u64::wrapping_add);
        let ends = [self.forwarded, self.delivered, *used, waiting].into_iter().fold(drops.total(), u64::wrapping_add);
        begun.wrapping_sub(ends) as i64
    }

    /// A step that takes so many of its packets and gives so many has made or used the difference.
    pub fn transform(&mut self, taken: u64, given: u64) {
        self.made = self.made.wrapping_add(given.saturating_sub(taken));
        self.counts.used = self.counts.used.wrapping_add(taken.saturating_sub(given));
    }

    /// Steps its code has taken.
    #[inline]
    pub fn steps_taken(&self) -> u64 {
        self.steps_taken
    }

    /// The kernel half runs its code too, from now on or not any more.
    pub fn share_budget(&mut self, other: Option<OtherHalf>) {
        match (&mut self.more, other) {
            (None, None) => {}
            (more, other) => more.get_or_insert_default().other = other,
        }
    }

    /// Whether its channels may send so many bytes now.
    #[inline]
    pub fn may_send(&mut self, now: u64, bytes: usize) -> bool {
        let bandwidth = self.more.as_mut().and_then(|more| more.bandwidth.as_mut());
        bandwidth.is_none_or(|bucket| bucket.take(now, bytes as u64))
    }

    /// Whether it has any steps left.
    pub fn has_steps(&mut self, now: u64) -> bool {
        let other = self.more.as_mut().and_then(|more| more.other.as_mut());
        if let Some(other) = other {
            other.settle(now, &mut self.packets, &mut self.steps);
        }
        self.steps.has_any(now)
    }

    /// Whether its channels could send so many bytes now.
    pub fn could_send(&mut self, now: u64, bytes: usize) -> bool {
        let bandwidth = self.more.as_mut().and_then(|more| more.bandwidth.as_mut());
        bandwidth.is_none_or(|bucket| bucket.has(now, bytes as u64))
    }

    /// The other half carries packets of its channels: one account and one bandwidth for both.
    pub fn share(&mut self, account: &Arc<dyn SharedAccount>, bytes: Option<&Arc<dyn SharedBytes>>) {
        let more = self.more.get_or_insert_default();
        if more.other.is_none() {
            more.other = Some(OtherHalf::new(account.clone()));
        }
        if let Some((bandwidth, bytes)) = more.bandwidth.as_mut().zip(bytes) {
            bandwidth.share(bytes.clone());
        }
    }

    /// The domain above it; only the root has none.
    pub fn parent(&self) -> Option<DomainId> {
        self.parent
    }

    /// The domains directly below it.
    pub fn children(&self) -> &[DomainId] {
        &self.children
    }

    /// Takes a packet on: counts it, and says whether the budgets allow to run its code.
    #[inline]
    pub fn admit(&mut self, now: u64, bytes: usize) -> Result<(), Reason> {
        self.came += 1;
        self.bytes += bytes as u64;
        let other = self.more.as_mut().and_then(|more| more.other.as_mut());
        if let Some(other) = other {
            other.settle(now, &mut self.packets, &mut self.steps);
        }
        if !(self.steps.has_any(now) && self.packets.take(now, 1)) {
            return Err(Reason::Budget);
        }
        if let Some(other) = self.more.as_ref().and_then(|more| more.other.as_ref()) {
            other.spend(1, 0);
        }
        Ok(())
    }

    /// Packets that the other half had, which has admitted them.
    pub fn add(&mut self, packets: u64, bytes: u64) {
        self.came += packets;
        self.bytes += bytes;
    }

    /// Charges the steps a packet has taken.
    #[inline]
    pub fn charge_steps(&mut self, now: u64, steps: u64) {
        self.steps_taken += steps;
        self.steps.charge(now, steps);
        if let Some(other) = self.more.as_ref().and_then(|more| more.other.as_ref()) {
            other.spend(0, steps);
        }
    }

    /// A packet of one of its channels was refused for the budget: whether its role has the domain end for that, since it is so for
    /// too many seconds in a row. (Code is looked at once a second instead, in both halves: [`Domain::look`].)
    #[cold]
    pub fn strike(&mut self, now: u64) -> bool {
        let second = now / 1_000_000_000;
        if second != self.second || self.seconds == 0 {
            self.seconds = if second == self.second + 1 { self.seconds.saturating_add(1) } else { 1 };
            self.second = second;
        }
        self.limits.over_budget == OverBudget::Remove && self.seconds >= self.limits.over_budget_s
    }

    /// Looked at once in a while: what the kernel half has spent since the last time, and for how many times in a row
    /// packets were refused for the budget, in either half.
    pub fn look(&mut self) -> (Spent, u32) {
        let other = self.more.as_mut().and_then(|more| more.other.as_mut());
        let there = other.map(OtherHalf::since).unwrap_or_default();
        let here = self.counts.drops.of(Reason::Budget);
        let more = there.refused > 0 || here > self.refused;
        self.refused = here;
        self.strikes = if more { self.strikes.saturating_add(1) } else { 0 };
        (there, self.strikes)
    }

    /// Whether a log line may be written at `now`.
    pub fn may_log(&mut self, now: u64) -> bool {
        let allowed = self.logs.take(now, 1);
        self.counts.logs_suppressed += u64::from(!allowed);
        allowed
    }
}

/// The domains of a node: a tree below one root, which is the node's own and never ends.
pub struct Domains {
    table: Table<DomainId, Domain>,
    root: DomainId,
}

impl Default for Domains {
    fn default() -> Domains {
        let mut table = Table::new(DOMAINS_MAX);
        let root = table.add(Domain::new("node".into(), Limits::default())).unwrap_or(DomainId(0));
        Domains { table, root }
    }
}

impl Domains {
    /// The root.
    pub fn root(&self) -> DomainId {
        self.root
    }

    /// Adds a domain below another, or nothing when [`DOMAINS_MAX`] exist, the tree is too deep, or its parent has ended.
    pub fn create(&mut self, parent: DomainId, mut domain: Domain) -> Option<DomainId> {
        let above = self.table.get(parent)?;
        let (depth, environment) = (above.depth + 1, above.environment);
        if depth > DEPTH_MAX {
            return None;
        }
        (domain.parent, domain.depth, domain.environment) = (Some(parent), depth, environment);
        let id = self.table.add(domain).ok()?;
        if let Some(parent) = self.table.get_mut(parent) {
            parent.children.push(id);
        }
        self.count_below(parent, 1);
        Some(id)
    }

    /// Whether the roles of a domain and of all above it let one more domain be created there.
    pub fn has_room(&self, parent: DomainId) -> bool {
        let mut at = Some(parent);
        for _ in 0..=DEPTH_MAX {
            match at.and_then(|id| self.table.get(id)) {
                Some(domain) if domain.below >= domain.role.grants.domains => return false,
                Some(domain) => at = domain.parent,
                None => break,
            }
        }
        true
    }

    /// Domains have been added below a domain and all above it, or have gone.
    fn count_below(&mut self, id: DomainId, change: i32) {
        let mut at = Some(id);
        while let Some(domain) = at.and_then(|id| self.table.get_mut(id)) {
            domain.below = domain.below.saturating_add_signed(change);
            at = domain.parent;
        }
    }

    /// The domain, unless it has ended.
    #[inline]
    pub fn of(&mut self, id: DomainId) -> Option<&mut Domain> {
        self.table.get_mut(id)
    }

    /// Asks for the memory of a domain of which a packet is next soon.
    #[inline]
    pub fn foresee(&self, id: DomainId) {
        self.table.foresee_first(id.index(), 3);
    }

    /// The domain, to read.
    pub fn by_id(&self, id: DomainId) -> Option<&Domain> {
        self.table.get(id)
    }

    /// Whether a domain is another one or below it.
    pub fn is_within(&self, id: DomainId, top: DomainId) -> bool {
        let mut at = Some(id);
        for _ in 0..=DEPTH_MAX {
            match at {
                Some(id) if id == top => return self.table.get(id).is_some(),
                Some(id) => at = self.table.get(id).and_then(|domain| domain.parent),
                None => return false,
            }
        }
        false
    }

    /// A domain and all below it, each behind the one above it; of the root none.
    pub fn with_those_below(&self, id: DomainId) -> Vec<DomainId> {
        let mut order = Vec::new();
        let mut open = if id == self.root { Vec::new() } else { vec![id] };
        while let Some(id) = open.pop() {
            let Some(domain) = self.table.get(id) else { continue };
            open.extend(&domain.children);
            order.push(id);
        }
        order
    }

    /// Ends a domain and all below it, those below first, and gives their last accounts. The root stays.
    pub fn end(&mut self, id: DomainId) -> Vec<(DomainId, Domain)> {
        let order = self.with_those_below(id);
        let parent = self.table.get(id).and_then(|domain| domain.parent);
        if let Some(above) = parent
            && let Some(domain) = self.table.get_mut(above)
        {
            domain.children.retain(|child| *child != id);
            self.count_below(above, -(order.len() as i32));
        }
        order.into_iter().rev().filter_map(|id| Some((id, self.table.remove(id)?))).collect()
    }

    /// All living domains.
    pub fn iter(&self) -> impl Iterator<Item = (DomainId, &Domain)> {
        self.table.iter()
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
        assert_eq!((domain.usage().packets, domain.usage().bytes), (3, 300));
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
                domain.counts.drops.count(Reason::Budget);
            }
            domain.look().1
        };
        assert_eq!([true, true, false, true].map(&mut look), [1, 2, 0, 1]);
    }

    #[test]
    fn seconds_in_a_row_with_refused_packets_of_channels_end_a_domain_if_its_role_says_so() {
        const S: u64 = 1_000_000_000;
        let limits = |over_budget| Limits { over_budget, over_budget_s: 3, ..Limits::default() };
        let mut domain = Domain::new("t".into(), limits(OverBudget::Remove));
        let struck = [5 * S, 5 * S + 1, 6 * S, 8 * S, 9 * S, 9 * S + 7, 10 * S].map(|now| domain.strike(now));
        assert_eq!(struck, [false, false, false, false, false, false, true]);
        let mut throttled = Domain::new("t".into(), limits(OverBudget::Throttle));
        assert!((0..20).all(|second| !throttled.strike(second * S)));
    }

    #[test]
    fn who_ends_a_domain_ends_all_below_it_and_nothing_else() {
        let mut domains = Domains::default();
        let mut create = |parent, title: &str| {
            let parent = if parent == 0 { domains.root() } else { DomainId(parent) };
            domains.create(parent, Domain::new(title.into(), Limits::default())).unwrap()
        };
        let ee = create(0, "ee");
        let (flow, other) = (create(ee.0, "flow"), create(0, "other"));
        let below = create(flow.0, "below");
        assert!(domains.is_within(below, ee) && domains.is_within(ee, ee) && !domains.is_within(other, ee));
        let ended: Vec<_> = domains.end(ee).into_iter().map(|(_, domain)| domain.title.clone()).collect();
        assert_eq!(ended, ["below", "flow", "ee"]);
        assert!([ee, flow, below].iter().all(|id| domains.of(*id).is_none() && !domains.is_within(*id, *id)));
        assert_eq!(domains.by_id(domains.root()).unwrap().children(), [other]);
        let again = domains.create(domains.root(), Domain::new("again".into(), Limits::default())).unwrap();
        assert!(![ee, flow, below].contains(&again), "a place is used again, a name is not");
        assert!(domains.create(flow, Domain::new("orphan".into(), Limits::default())).is_none());
        assert!(domains.end(domains.root()).is_empty(), "the root stays");
    }

    #[test]
    fn a_role_bounds_how_many_are_below_however_deep() {
        let mut domains = Domains::default();
        let role = |number| {
            let grants = Grants { domains: number, ..Default::default() };
            Arc::new(Role { grants, ..Role::anyone(Limits::default()) })
        };
        let add = |domains: &mut Domains, parent, most| {
            domains.has_room(parent).then(|| domains.create(parent, Domain::in_role("d".into(), &role(most))).unwrap())
        };
        let root = domains.root();
        let ee = add(&mut domains, root, 3).unwrap();
        let (flow, other) = (add(&mut domains, ee, 5).unwrap(), add(&mut domains, ee, 0).unwrap());
        assert_eq!(add(&mut domains, other, 0), None, "its own role");
        let below = add(&mut domains, flow, 1).unwrap();
        assert_eq!((add(&mut domains, flow, 0), add(&mut domains, below, 0)), (None, None), "the role of one above");
        assert_eq!(domains.end(flow).len(), 2);
        assert!(add(&mut domains, ee, 0).is_some() && add(&mut domains, ee, 0).is_some());
        assert_eq!(add(&mut domains, ee, 0), None);
        domains.end(ee);
        assert_eq!(domains.by_id(root).unwrap().below, 0);
    }

    #[test]
    fn the_tree_has_a_depth() {
        let mut domains = Domains::default();
        let mut at = domains.root();
        for _ in 0..DEPTH_MAX {
            at = domains.create(at, Domain::new("d".into(), Limits::default())).unwrap();
        }
        assert!(domains.create(at, Domain::new("d".into(), Limits::default())).is_none());
    }
}
