//! The counts behind a node's balance, at every place where a frame ends.
//!
//! [`crate::core::ledger`] defines the counts. A frame that goes back to the pool is counted by one of: `Cx::drop`
//! under its reason, `Cx::use_up`, or the driver.

use super::output::{EventKind, Output, Turn};
use super::revoking::Revocations;
use super::{Capsules, Cx, Node};
use crate::core::domain::DomainId;
use crate::core::ledger::Balance;
use crate::core::reason::Reason;
use crate::frame::Frame;

impl Node {
    /// What became of all frames so far; with ports that say what they have sent, when all of `Output::frames` is with them.
    pub fn balance(&self) -> Balance {
        let (core, ledger) = (&self.cx.core, &self.cx.core.ledger);
        let sum = |of: fn(&crate::topology::Gauge) -> u64| core.gauges.iter().map(of).fold(0, u64::wrapping_add);
        let held = self.environments.iter().map(|environment| environment.held()).sum::<u64>();
        Balance {
            received: sum(|gauge| gauge.received).wrapping_add(ledger.unseen),
            made: ledger.made,
            sent: sum(crate::topology::Gauge::gone),
            delivered: ledger.delivered,
            used: ledger.used,
            not_ours: sum(|gauge| gauge.not_ours),
            dropped: core.drops.total(),
            held: held + self.cx.held() + sum(|gauge| gauge.queued.unwrap_or(0).into()),
        }
    }

    /// The same within a turn, where frames may be on their way to ports.
    pub fn balance_within(&self, out: &Output) -> Balance {
        let says =
            |frame: &&Frame| self.cx.core.gauges.get(usize::from(frame.port.0)).is_some_and(|it| it.queued.is_some());
        let balance = self.balance();
        Balance { held: balance.held + out.frames.iter().filter(says).count() as u64, ..balance }
    }

    /// Packets of a code's domain lost without a counter in this half, as long as the code runs nowhere else: those that came and its
    /// children were sent, delivered or dropped, or wait for their turn.
    pub fn unaccounted_of_codes(&self) -> i64 {
        let of = |domain: &DomainId| {
            let Some(usage) = self.usage(*domain) else { return 0 };
            let ends =
                usage.forwarded + usage.delivered + usage.drops.total() + self.cx.order.paths.waiting_of(*domain);
            (usage.packets + usage.children).wrapping_sub(ends) as i64
        };
        let codes = self.environments.get::<Capsules>().map(Capsules::domains_of_codes).unwrap_or_default();
        codes.keys().map(of).sum()
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
        self.cx.drop_in(turn, frame, reason, domain);
    }

    /// A packet of a process's cannot be sent.
    pub fn refuse_to_send(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        self.cx.core.ledger.made += 1;
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

    /// A packet ends here.
    pub(super) fn drop(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason) {
        self.core.drops.count(reason);
        self.control.alarms.note(&frame, reason);
        turn.out.event(frame.trace, EventKind::Dropped(reason));
        turn.out.pool.give(frame);
    }

    /// Drops a packet that a domain pays for.
    pub fn drop_in(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        if let Some(domain) = self.core.domains.of(domain) {
            domain.counts.drops.count(reason);
        }
        self.drop(turn, frame, reason);
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
}
