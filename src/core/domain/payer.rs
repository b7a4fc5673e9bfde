//! One domain: its budgets, what was used of them, and what its role lets it do. Example: 10 packets a second, of which none is left.

use super::name::{DomainId, EnvironmentId, HostId};
use super::usage::{Counts, Usage};
use super::wishes::CodeWishes;
use crate::core::bucket::{TokenBucket, burst};
use crate::core::common::{CommonAccount, Lease, OfCode};
use crate::core::kept::SharedState;
use crate::core::log::Trap;
use crate::core::owned::{Beside, Owned};
use crate::core::reason::Reason;
use crate::core::record::SharedRecords;
use crate::core::share::{Bandwidth, SharedAccount, SharedBytes, Spent};
use crate::trust::Role;
use crate::trust::grants::Grants;
use crate::trust::limits::{Limits, OverBudget};
use std::sync::Arc;

/// The TCP streams of a domain: they end when this is dropped.
pub trait OwnsStreams: core::fmt::Debug + Send + Sync {
    /// The domain acts in this role from now on, and sends so many bytes a second. Nobody is waited for.
    fn renew(&self, role: &Arc<Role>, bandwidth: u64);
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
    /// Its budget, if others spend of it too: the kernel half, other workers. Its own buckets rest then.
    share: Option<Lease>,
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
    /// What the workers of the node have in common of its code, if there are several and this is the first.
    pub common: Option<OfCode>,
    /// The same code's domain at the first worker, if this is another one.
    pub at_first: Option<DomainId>,
    /// Its soft state, if that is not the node's own table.
    pub shared: Option<Arc<dyn SharedState>>,
    /// Records of its packets from the kernel half, to be carried out here.
    pub records: Option<Arc<dyn SharedRecords>>,
    /// What its code wishes of graphs.
    pub wishes: CodeWishes,
    /// Where its code has trapped last.
    pub trapped: Option<Trap>,
    /// Channels it has.
    pub channels: u32,
    /// Whether it may have something in the node's stores.
    pub has_stores: bool,
    /// What ends its TCP streams when it goes with the domain, if it may have had some.
    pub streams: Option<Box<dyn OwnsStreams>>,
    /// Its grants at its creation.
    pub role: Arc<Role>,
    /// Domains below it, however deep.
    pub(super) below: u32,
    pub(super) parent: Option<DomainId>,
    pub(super) depth: u16,
    pub(super) children: Vec<DomainId>,
    /// Where it stands among those of its parent.
    pub(super) place: u32,
    pub(super) beside: Beside<DomainId>,
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

impl Owned<DomainId> for Domain {
    type Owner = HostId;

    fn owner(&self) -> HostId {
        self.host
    }

    fn beside(&self) -> Beside<DomainId> {
        self.rest.beside
    }

    fn beside_mut(&mut self) -> &mut Beside<DomainId> {
        &mut self.rest.beside
    }
}

impl Domain {
    /// Asks for the memory of its colder part.
    pub(super) fn foresee_rest(&self) {
        crate::sys::cache::prefetch(&*self.rest);
    }

    /// A domain in a role, with full budgets.
    pub fn in_role(title: String, role: &Arc<Role>) -> Domain {
        let mut domain = Domain::new(title, role.limits).with_grants(role.grants);
        domain.role = role.clone();
        domain
    }

    /// A domain of the node's own with full budgets.
    pub fn new(title: String, limits: Limits) -> Domain {
        let rest = Rest {
            title,
            limits,
            grants: Grants::default(),
            counts: Counts::default(),
            common: None,
            at_first: None,
            shared: None,
            records: None,
            wishes: CodeWishes::default(),
            trapped: None,
            channels: 0,
            has_stores: false,
            streams: None,
            role: Role::of_node(),
            below: 0,
            parent: None,
            depth: 0,
            children: Vec::new(),
            place: 0,
            beside: Beside::default(),
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
            None => self.more = self.more.filter(|more| more.share.is_some()),
            bandwidth => self.more.get_or_insert_default().bandwidth = bandwidth,
        }
        self
    }

    /// Its role is this one from `now` on, with these grants of it: buckets keep what is in them.
    pub fn renew(&mut self, now: u64, role: &Arc<Role>, grants: Grants) {
        let limits = role.limits;
        self.packets.renew(now, limits.packets_per_second, burst(limits.packets_per_second));
        self.steps.renew(now, limits.steps_per_second, burst(limits.steps_per_second));
        self.logs.renew(now, limits.logs_per_second, limits.logs_per_second.max(1));
        self.shared_budget().into_iter().for_each(|share| share.renew(now, &limits));
        let bandwidth = self.more.as_mut().and_then(|more| more.bandwidth.take());
        let kept = bandwidth.filter(|_| grants.bandwidth < u64::MAX).map(|mut kept| {
            kept.renew(now, grants.bandwidth);
            kept
        });
        let rest = &mut self.rest;
        (rest.limits, rest.grants, rest.role) = (limits, grants, role.clone());
        if let Some(streams) = &rest.streams {
            streams.renew(role, grants.bandwidth);
        }
        match kept {
            Some(kept) => self.more.get_or_insert_default().bandwidth = Some(kept),
            None if grants.bandwidth < u64::MAX => {
                self.more.get_or_insert_default().bandwidth = Some(Bandwidth::new(grants.bandwidth));
            }
            None => {}
        }
    }

    /// Its account.
    pub fn usage(&self) -> Usage {
        let mut counts = self.counts.clone();
        if let Some(common) = &self.common {
            let state = common.state.counts();
            counts.state_entries += state.held;
            counts.state_refused += state.refused;
            counts.state_displaced += state.displaced;
        }
        Usage {
            packets: self.came,
            bytes: self.bytes,
            steps: self.steps_taken,
            cpu_ns: self.cpu_ns,
            forwarded: self.forwarded,
            delivered: self.delivered,
            made: self.made,
            counts,
        }
    }

    /// Its account goes on from another's, which is no more. Its budget is that of all workers, which goes on.
    pub fn go_on_from(&mut self, usage: Usage) {
        let Usage { packets, bytes, steps, cpu_ns, forwarded, delivered, made, counts } = usage;
        (self.came, self.bytes, self.steps_taken, self.cpu_ns) = (packets, bytes, steps, cpu_ns);
        (self.forwarded, self.delivered, self.made, self.counts) = (forwarded, delivered, made, counts);
        self.refused = self.counts.drops.of(Reason::Budget);
    }

    /// Packets that have come to it, taken on or not.
    pub fn came(&self) -> u64 {
        self.came
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

    /// Its budget is one that others spend of too.
    pub fn share_budget(&mut self, share: Lease) {
        self.more.get_or_insert_default().share = Some(share);
    }

    /// The kernel half spends of its budget too.
    pub fn share_with_kernel(&mut self, account: &Arc<dyn SharedAccount>) {
        let common = Arc::new(CommonAccount::going_on_from(&self.packets, &self.steps));
        common.join_kernel(account);
        self.share_budget(common.of(0));
    }

    /// Its budget is its own alone again, from `now` on.
    pub fn end_sharing(&mut self, now: u64) {
        if let Some(share) = self.more.as_mut().and_then(|more| more.share.take()) {
            (self.packets, self.steps) = share.back(now);
        }
    }

    #[inline(always)]
    fn shared_budget(&mut self) -> Option<&mut Lease> {
        self.more.as_mut().and_then(|more| more.share.as_mut())
    }

    /// Is charged what the kernel half has spent.
    pub fn settle(&mut self, now: u64) {
        self.shared_budget().into_iter().for_each(|share| share.settle(now));
    }

    /// Whether its channels may send so many bytes now.
    #[inline]
    pub fn may_send(&mut self, now: u64, bytes: usize) -> bool {
        let bandwidth = self.more.as_mut().and_then(|more| more.bandwidth.as_mut());
        bandwidth.is_none_or(|bucket| bucket.take(now, bytes as u64))
    }

    /// Whether it has any steps left.
    pub fn has_steps(&mut self, now: u64) -> bool {
        match self.shared_budget() {
            Some(share) => share.has_steps(now),
            None => self.steps.has_any(now),
        }
    }

    /// Whether its channels could send so many bytes now.
    pub fn could_send(&mut self, now: u64, bytes: usize) -> bool {
        let bandwidth = self.more.as_mut().and_then(|more| more.bandwidth.as_mut());
        bandwidth.is_none_or(|bucket| bucket.has(now, bytes as u64))
    }

    /// The other half carries packets of its channels: one account and one bandwidth for both.
    pub fn share(&mut self, account: &Arc<dyn SharedAccount>, bytes: Option<&Arc<dyn SharedBytes>>) {
        if self.shared_budget().is_none() {
            self.share_with_kernel(account);
        }
        let bandwidth = self.more.as_mut().and_then(|more| more.bandwidth.as_mut());
        if let Some((bandwidth, bytes)) = bandwidth.zip(bytes) {
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
        let is_there = match self.shared_budget() {
            Some(share) => share.admit(now),
            None => self.steps.has_any(now) && self.packets.take(now, 1),
        };
        if is_there { Ok(()) } else { Err(Reason::Budget) }
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
        match self.shared_budget() {
            Some(share) => share.charge(now, steps),
            None => self.steps.charge(now, steps),
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

    /// Looked at once in a while: what others have spent since the last time, the kernel half and other workers, and for
    /// how many times in a row packets were refused for the budget, anywhere.
    pub fn look(&mut self) -> (Spent, u32) {
        let there = self.shared_budget().map(Lease::since).unwrap_or_default();
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
    fn a_domain_in_a_role_that_has_changed_gains_nothing_by_that() {
        let role = |packets_per_second| Arc::new(Role::anyone(Limits { packets_per_second, ..Limits::default() }));
        let mut domain = Domain::in_role("t".into(), &role(100));
        (0..10).for_each(|_| assert_eq!(domain.admit(0, 1), Ok(())));
        domain.renew(0, &role(1000), Grants { bandwidth: 5, ..Grants::default() });
        assert_eq!((domain.admit(0, 1), domain.may_send(0, 65_537)), (Err(Reason::Budget), false));
        assert_eq!(domain.admit(1_000_000, 1), Ok(()), "a thousand a second come back");
        domain.renew(200_000_000, &role(10), Grants::default());
        assert_eq!((domain.admit(200_000_000, 1), domain.admit(200_000_000, 1)), (Ok(()), Err(Reason::Budget)));
        assert_eq!((domain.limits.packets_per_second, domain.role.limits.packets_per_second), (10, 10));
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
}
