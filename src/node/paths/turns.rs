//! A packet comes to the queue of its domain and leaves it, and its cost goes to the accounts of its domain.

use super::*;

impl Cx {
    /// A domain has caused so much work beside its packets: its share of the worker pays for it.
    pub(in crate::node) fn worked_for(&mut self, domain: DomainId, cost: u64, now: u64) {
        self.enter_account((domain, None), cost);
        self.bill_path(domain, cost, now);
    }

    /// The cost of a domain's packets is in its account, or in that of the one below it for which they were.
    #[inline]
    pub(in crate::node) fn enter_account(&mut self, (domain, part): (DomainId, Option<DomainId>), cost: u64) {
        // A principal may have ended in its own turn.
        let of = part.filter(|part| self.core.domains.by_id(*part).is_some()).unwrap_or(domain);
        if let Some(domain) = self.core.domains.of(of) {
            domain.cpu_ns += cost;
        }
    }

    /// A domain's share pays for work beside its turns.
    pub(in crate::node) fn bill_path(&mut self, domain: DomainId, cost: u64, now: u64) {
        if self.core.domains.by_id(domain).is_none() {
            return;
        }
        if !self.order.paths.knows(domain) {
            self.enter_path(domain, now);
        }
        if let Some(scheduler) = &mut self.order.paths.scheduler {
            scheduler.bill(domain.index(), cost, now);
        }
    }

    /// Whether packets wait for [`Node::run_next`].
    #[inline]
    pub fn has_work(&self) -> bool {
        self.order.paths.waiting > 0
    }

    /// So many frames are taken in from now on. One that is the only packet in the node has its turn when it comes, where a
    /// clock can tell what that costs.
    #[inline]
    pub(in crate::node) fn begin_batch(&mut self, frames: usize) {
        let paths = &mut self.order.paths;
        paths.alone = frames == 1 && paths.waiting == 0 && paths.ran.is_none() && self.order.entry.has_clock();
    }

    /// What comes from now on is no frame of the batch.
    #[inline]
    pub(in crate::node) fn end_batch(&mut self) {
        self.order.paths.alone = false;
    }

    /// Whether a packet of a domain has its turn when it comes: it does not wait where nobody else does. It is charged when
    /// the driver knows what all of that cost ([`Node::received`]).
    #[inline]
    pub(in crate::node) fn has_turn(&mut self, now: u64, domain: DomainId, payer: Payer) -> bool {
        if !self.order.paths.alone || self.order.entry.is_open() {
            return false;
        }
        self.order.paths.alone = false;
        if !self.order.paths.knows(domain) {
            self.enter_path(domain, now);
        }
        let paths = &mut self.order.paths;
        let begins = paths.scheduler.as_mut().is_some_and(|scheduler| scheduler.begin(domain.index(), now));
        if begins {
            paths.part = None;
            paths.ran = Some(Ran { domain, part: None, packets: 1, payer, reserved: 0, urgent: false, steps: 0 });
        }
        begins
    }

    /// Lets a packet wait for its domain's turn, or drops it if too many wait; whether it waits.
    #[inline]
    pub(in crate::node) fn enqueue(&mut self, turn: &mut Turn<'_>, domain: DomainId, frame: Frame, work: Work) -> bool {
        let flow = domain.index();
        if !self.order.paths.knows(domain) {
            self.enter_path(domain, turn.now);
        }
        self.order.paths.count_came(domain);
        let room = QUEUE_MAX.min(WAITING_MAX - self.order.paths.waiting);
        if self.order.paths.queues.get(flow).is_none_or(|queue| usize::from(queue.length) >= room) {
            self.drop_in(turn, frame, Reason::PathFull, domain);
            return false;
        }
        let reserved = self.order.entry.reserve(frame.payer, turn.now);
        self.order.paths.push(flow, frame, work, reserved);
        self.wake_path(domain, turn.now);
        true
    }

    /// A domain has ended: what waits for it goes.
    pub(in crate::node) fn leave_path(&mut self, turn: &mut Turn<'_>, domain: DomainId) {
        let flow = domain.index();
        if !self.order.paths.knows(domain) {
            return;
        }
        if let Some(scheduler) = &mut self.order.paths.scheduler {
            scheduler.leave(flow);
        }
        while let Some((frame, _, reserved)) = self.order.paths.pop(flow) {
            self.order.entry.settle(frame.payer, turn.now, reserved, 0);
            self.drop(turn, frame, Reason::DomainEnded);
        }
    }

    #[inline(always)]
    pub(super) fn wake_path(&mut self, domain: DomainId, now: u64) {
        if let Some(scheduler) = &mut self.order.paths.scheduler {
            scheduler.wake(domain.index(), now);
        }
    }

    pub(in crate::node) fn steps_of(&self, domain: DomainId) -> u64 {
        let domain = self.core.domains.by_id(domain);
        domain.map_or(0, Domain::steps_taken)
    }

    /// A domain's first packet: from now on it has a queue.
    #[cold]
    pub(in crate::node) fn enter_path(&mut self, domain: DomainId, now: u64) {
        let known = self.core.domains.by_id(domain);
        let share = share_of(&known.map_or(Grants::default(), |known| known.grants));
        let flow = domain.index();
        if self.order.paths.queues.len() <= flow {
            cache::make_room(&mut self.order.paths.queues, flow + 1);
            self.order.paths.queues.resize(flow + 1, Queue { domain, first: NONE, last: NONE, length: 0, came: 0 });
        }
        let queue = &mut self.order.paths.queues[flow];
        if queue.domain != domain {
            (queue.domain, queue.came) = (domain, 0);
        }
        let above = self.divides(domain);
        if let Some(above) = above.filter(|above| !self.has_path(*above)) {
            self.enter_path(above, now);
        }
        if let Some(scheduler) = &mut self.order.paths.scheduler {
            scheduler.enter_below(flow, above.map(DomainId::index), share, now);
        }
    }

    /// Whether a domain has entered: it has a queue, and a place in the order.
    pub(in crate::node) fn has_path(&self, domain: DomainId) -> bool {
        let paths = &self.order.paths;
        paths.knows(domain) && paths.scheduler.as_ref().is_none_or(|scheduler| scheduler.knows(domain.index()))
    }

    /// The domain whose share of the CPU this one divides with others; none for environments: the node's own, and those
    /// below the management's domain.
    fn divides(&self, domain: DomainId) -> Option<DomainId> {
        let above = self.core.domains.by_id(domain)?.parent()?;
        (above != self.core.domains.root() && above != self.control.management).then_some(above)
    }
}

/// What a role grants, as schedulers take it.
fn share_of(grants: &Grants) -> Share {
    Share { weight: grants.weight, priority: grants.priority, deadline_ns: u64::from(grants.deadline_us) * 1000 }
}
