//! The counts behind a node's balance, at every place where a frame ends.
//!
//! [`crate::core::ledger`] defines the counts. A frame that goes back to the pool is counted by one of: `Cx::drop`
//! under its reason, `Cx::use_up`, or the driver.

use super::output::{EventKind, Turn};
use super::revoking::Revocations;
use super::{Cx, Node};
use crate::core::domain::DomainId;
use crate::core::ledger::{Balance, Unaccounted};
use crate::core::reason::Reason;
use crate::frame::{Frame, PortId};

impl Node {
    /// What became of all frames so far; with ports that say what they have sent, when all of `Output::frames` is with them.
    pub fn balance(&self) -> Balance {
        let (core, ledger) = (&self.cx.core, &self.cx.core.ledger);
        let sum = |of: fn(&crate::topology::Gauge) -> u64| core.gauges.iter().map(of).fold(0, u64::wrapping_add);
        let held = self.environments.iter().map(|environment| environment.held()).sum::<u64>();
        Balance {
            received: sum(|gauge| gauge.received).wrapping_add(ledger.unseen).wrapping_add(ledger.closed.received),
            made: ledger.made,
            sent: sum(crate::topology::Gauge::gone).wrapping_add(ledger.closed.sent),
            delivered: ledger.delivered,
            used: ledger.used,
            not_ours: sum(|gauge| gauge.not_ours).wrapping_add(ledger.closed.not_ours),
            dropped: core.drops.total(),
            handed: ledger.handed,
            held: held + self.cx.held() + sum(|gauge| gauge.queued.unwrap_or(0).into()),
        }
    }

    /// The same within a turn, where these frames are on their way to ports.
    pub fn balance_within(&self, frames: &[Frame]) -> Balance {
        let says =
            |frame: &&Frame| self.cx.core.gauges.get(usize::from(frame.port.0)).is_some_and(|it| it.queued.is_some());
        let balance = self.balance();
        Balance { held: balance.held + frames.iter().filter(says).count() as u64, ..balance }
    }

    /// What no counter of the user half knows of, and none of cut-through in the kernel half; `frames` are on
    /// their way to ports.
    pub fn unaccounted(&self, frames: &[Frame]) -> Unaccounted {
        let domains = self.cx.core.domains.iter().map(|(id, _)| self.unaccounted_of(id).unsigned_abs());
        let domains = domains.fold(0, u64::saturating_add);
        Unaccounted { domains, ..self.unaccounted_beside_domains(frames) }
    }

    /// The same but for the domains, of which there may be many.
    pub(super) fn unaccounted_beside_domains(&self, frames: &[Frame]) -> Unaccounted {
        let ports = (0..self.cx.core.gauges.len()).map(|port| self.unaccounted_of_port(PortId(port as u16), frames));
        let environments = self.environments.iter().filter_map(|environment| environment.balance());
        Unaccounted {
            node: self.balance_within(frames).unaccounted().unsigned_abs(),
            ports: ports.fold(0, u64::saturating_add),
            domains: 0,
            environments: environments.map(|it| it.unaccounted().unsigned_abs()).fold(0, u64::saturating_add),
            cuts: self.cx.graphs.in_kernel.unaccounted().unsigned_abs(),
            kernel: 0,
        }
    }

    /// The same of a domain, with its sign: packets that came to it or that it began were sent, delivered, used or dropped,
    /// or wait. Those of an environment that counts for all its domains have no balance of their own.
    pub fn unaccounted_of(&self, domain: DomainId) -> i64 {
        let Some(known) = self.cx.core.domains.by_id(domain) else { return 0 };
        let environment = self.environments.iter().nth(known.environment.0.into());
        if environment.is_some_and(|it| it.balance().is_some()) {
            return 0;
        }
        let held = environment.map_or(0, |environment| environment.held_of(domain));
        known.unaccounted(self.cx.order.paths.waiting_of(domain) + self.cx.graphs.channels.pieces_of(domain) + held)
    }

    /// The same of a port: frames that came in, and frames that went out.
    pub fn unaccounted_of_port(&self, port: PortId, frames: &[Frame]) -> u64 {
        let on_their_way = frames.iter().filter(|frame| frame.port == port).count() as u64;
        let gauge = self.cx.core.gauges.get(usize::from(port.0));
        gauge.map_or(0, |gauge| gauge.unaccounted(on_their_way).map(i64::unsigned_abs).into_iter().sum())
    }

    /// Counts frames that the outside has dropped before the node could see them.
    pub fn count_drops(&mut self, reason: Reason, frames: u64) {
        self.cx.core.ledger.unseen += frames;
        self.cx.core.drops.count_many(reason, frames);
    }

    /// A port could not take a frame that the node has sent by it.
    pub fn refused_by_port(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason) {
        if let Some(gauge) = self.cx.core.gauge(frame.port) {
            gauge.refused += 1;
        }
        self.cx.drop(turn, frame, reason);
    }

    /// A port could not take a frame of somebody else's.
    pub fn refused_of_others(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason) {
        self.cx.core.ledger.unseen += 1;
        self.cx.drop(turn, frame, reason);
    }

    /// An application could not take a capsule that the node has delivered.
    pub fn refused_by_application(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason) {
        self.cx.not_delivered();
        self.cx.drop(turn, frame, reason);
    }

    /// A process could not take a packet of one of its domains.
    pub fn refused_by_process(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        self.cx.not_delivered();
        self.cx.not_handed(domain);
        self.cx.drop_in(turn, frame, reason, domain);
    }

    /// A packet of a process's cannot be sent.
    pub fn refuse_to_send(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        self.cx.begin_in(domain);
        self.cx.drop_in(turn, frame, reason, domain);
    }

    /// The outside has no time for what a revocation needs.
    pub fn revocation_unjudged(&mut self) {
        self.ask(|known: &mut Revocations, _| known.judged());
        self.cx.core.drops.count(Reason::RevocationBusy);
    }
}

impl Cx {
    /// Frames that wait for somebody else than an environment.
    fn held(&self) -> u64 {
        let core = &self.core;
        let waiting = self.order.paths.waiting() + core.resolver.waiting() + core.children.len();
        waiting as u64 + self.graphs.channels.pieces()
    }

    /// A packet goes back to the pool that the node itself was meant by.
    #[inline]
    pub(super) fn use_up(&mut self, turn: &mut Turn<'_>, frame: Frame) {
        self.core.ledger.used += 1;
        turn.out.pool.give(frame);
    }

    /// A frame for a packet that begins here.
    #[inline]
    pub(super) fn make(&mut self, turn: &mut Turn<'_>) -> Frame {
        self.core.ledger.made += 1;
        turn.out.pool.take()
    }

    /// A packet does not begin that the node would have sent.
    pub(super) fn withhold(&mut self, reason: Reason) {
        self.core.ledger.made += 1;
        self.core.drops.count(reason);
    }

    /// A packet was handed to somebody who could not take it.
    pub(super) fn not_delivered(&mut self) {
        self.core.ledger.delivered = self.core.ledger.delivered.wrapping_sub(1);
    }

    /// A packet begins that a domain sends.
    #[inline]
    pub(super) fn begin_in(&mut self, domain: DomainId) {
        self.core.ledger.made += 1;
        if let Some(domain) = self.core.domains.of(domain) {
            domain.made += 1;
        }
    }

    /// A packet is its sender's again.
    pub(super) fn not_begun_in(&mut self, domain: DomainId) {
        self.core.ledger.made -= 1;
        if let Some(domain) = self.core.domains.of(domain) {
            domain.made -= 1;
        }
    }

    /// A domain was not handed a packet after all.
    pub(super) fn not_handed(&mut self, domain: DomainId) {
        if let Some(domain) = self.core.domains.of(domain) {
            domain.delivered = domain.delivered.wrapping_sub(1);
        }
    }

    /// A step that takes so many packets of a domain and gives so many has made or used the difference.
    pub(super) fn transform(&mut self, domain: DomainId, taken: u64, given: u64) {
        self.core.ledger.transform(taken, given);
        if let Some(domain) = self.core.domains.of(domain) {
            domain.transform(taken, given);
        }
    }

    /// A packet ends here.
    pub(super) fn drop(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason) {
        self.core.drops.count(reason);
        self.control.alarms.note(&frame, reason);
        turn.out.event(frame.trace, EventKind::Dropped(reason));
        turn.out.refuse(frame.sent, reason);
        turn.out.pool.give(frame);
    }

    /// Drops a packet that a domain pays for.
    pub fn drop_in(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        turn.out.event(frame.trace, EventKind::Charged(domain));
        if let Some(domain) = self.core.domains.of(domain) {
            domain.counts.drops.count(reason);
        }
        let awaited = frame.sent.is_awaited();
        self.drop(turn, frame, reason);
        if awaited && reason.is_of_run() {
            let trapped = self.core.domains.by_id(domain).and_then(|domain| domain.trapped);
            turn.out.refused.last_mut().into_iter().for_each(|refusal| refusal.trap = trapped);
        }
    }
}

#[cfg(test)]
impl Node {
    /// A frame begins and is lost.
    pub(crate) fn vanish(&mut self) {
        self.cx.core.ledger.made += 1;
    }

    /// A drop is counted of a frame that has left.
    pub(crate) fn count_twice(&mut self) {
        self.cx.core.drops.count(Reason::Code);
    }

    /// A frame that came in by a port is lost.
    pub(crate) fn vanish_at(&mut self, port: PortId) {
        self.cx.core.gauges[usize::from(port.0)].received += 1;
    }

    /// A packet of a domain is lost, and one of another counted twice.
    pub(crate) fn vanish_in(&mut self, domain: DomainId, twice: DomainId) {
        self.cx.core.domains.of(domain).unwrap().made += 1;
        self.cx.core.domains.of(twice).unwrap().delivered += 1;
    }

    /// A packet of PLAN's is lost.
    pub(crate) fn vanish_in_plan(&mut self) {
        self.speak_plan(crate::ee::plan::Config::default());
        self.ask(|plan: &mut super::plan::Speaker, _| plan.balance.received += 1).unwrap();
    }

    /// A packet of a cut-through channel is lost in the kernel.
    pub(crate) fn vanish_in_kernel(&mut self) {
        self.cx.graphs.in_kernel.received += 1;
    }
}
