//! Waiting packets: a bounded queue for each domain, and the path scheduler that picks the next packet.
//!
//! A packet comes here as soon as its domain is known, before any work for it, and is dropped if too many of the domain
//! wait. With `fifo` nothing waits: a packet runs to completion when it comes, since queues cost more than they order.
//! With every other policy the driver calls [`Node::run_turn`] until nothing waits or others have their turn
//! ([`Round`]), and tells the cost ([`Node::ran`]). The simulator calls [`Node::run_next`], one packet at a time.
//!
//! A packet that is the only one in the node does not wait either: it has its turn when it comes, and its domain pays for
//! that and its receipt at once.
//!
//! The receipt of a packet is paid by its domain, run or dropped. The driver tells that cost by the batch
//! ([`Node::received`]), and each packet's part is added to the next charge of its domain. So a domain that sends more
//! than can run pays for the receipt with its own share (after Druschel and Banga, *Lazy receiver processing*, OSDI
//! 1996, where such work waits for the receiver's turn instead).

use super::output::Turn;
use super::{Capsules, Cx, Node, Reason};
use crate::core::domain::{Domain, DomainId, EnvironmentId, Usage};
use crate::frame::{Frame, Payer};
use crate::schedule::{self, PathScheduler, Policy, Share};
use crate::sys::cache;
use crate::trust::grants::{self, Grants};

/// Packets of one domain that may wait.
pub const QUEUE_MAX: usize = 1024;

/// Packets of all domains that may wait. A domain may have as many as there is room left (Choudhury and Hahne 1998), so
/// those that want more than their share leave room for the others.
pub const WAITING_MAX: usize = 4096;

/// Packets that run until ports that have nothing more have their turn again.
const ROUND: usize = 64;

/// Nanoseconds of the same: sockets fill meanwhile, and hold some hundreds of frames.
const ROUND_NS: u64 = 100_000;

/// Packets of one domain that run in one turn while no other waits: the clock is read and the domain pays once for all of them.
const TURN: u32 = 16;

/// Steps after which a turn is over: what comes meanwhile waits no longer than for a few capsules.
const TURN_STEPS: u64 = 4096;

const _: () = assert!(WAITING_MAX < NONE as usize);
const _: () = assert!(grants::WEIGHT_MAX <= schedule::WEIGHT_MAX);
const _: () = assert!(grants::DEADLINE_US_MAX as u64 * 1000 <= schedule::DEADLINE_NS_MAX);

/// What is to be done with a packet that waits.
#[derive(Clone, Copy)]
pub(super) struct Work {
    /// Whose it is.
    pub environment: EnvironmentId,
    /// What that knows it by.
    pub what: u32,
    /// Whether more of this kind may run in one turn.
    pub joins: bool,
}

/// Where a packet waits.
struct Place {
    frame: Option<Frame>,
    work: Work,
    /// What of its neighbour's share is kept for it, in nanoseconds.
    reserved: u32,
    /// Who is behind it; of a free place, the next free one.
    next: u16,
}

/// No place.
const NONE: u16 = u16::MAX;

/// The packets of a domain: places in [`Paths::places`], linked.
#[derive(Clone, Copy)]
struct Queue {
    domain: DomainId,
    first: u16,
    last: u16,
    length: u16,
    /// Packets that came since the domain paid last.
    came: u16,
}

/// The queues of a node. Places of packets are used again last come first, so that few of them are in the caches
/// however many domains there are.
pub(super) struct Paths {
    policy: Policy,
    /// None: packets run when they come.
    scheduler: Option<PathScheduler>,
    queues: Vec<Queue>,
    places: Vec<Place>,
    free: u16,
    waiting: usize,
    /// What it costs to take a packet in, in nanoseconds.
    intake: u64,
    /// Whether the packet that is being taken in is the only one there is; if it had its turn, what is to be charged.
    alone: bool,
    ran: Option<Ran>,
    /// The domain for which the packet is whose turn it is, below the one that has the turn.
    part: Option<DomainId>,
}

impl Default for Paths {
    fn default() -> Paths {
        Paths {
            policy: Policy::Fifo,
            scheduler: None,
            queues: Vec::new(),
            places: Vec::new(),
            free: NONE,
            waiting: 0,
            intake: 0,
            alone: false,
            ran: None,
            part: None,
        }
    }
}

/// A packet that has run, or several of one domain and one neighbour.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Ran {
    domain: DomainId,
    /// For which domain below that one, if it was for one: a principal's, in the turn of PLAN.
    part: Option<DomainId>,
    packets: u32,
    /// Whose neighbour pays, and what is kept for it.
    payer: Payer,
    reserved: u32,
    /// Whether its domain has deadlines.
    urgent: bool,
    /// The steps that code took: the cost where there is no clock.
    pub steps: u64,
}

/// Packets that run before the ports have their turn. If ports have more, that is for as long as it took to take
/// packets in: so those that come cannot keep those that wait from running, and they are dropped by whose they are and
/// not by the system as long as taking them in needs no more than half of the CPU. Else it is for that long, and some
/// packets at least.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    packets: usize,
    ran: u64,
    received: u64,
    is_busy: bool,
    /// At most so long: half of the shortest deadline, if there are any.
    limit: u64,
}

impl Round {
    /// Behind so many nanoseconds in which packets were taken in; whether there are more at the ports.
    pub fn behind(received: u64, is_busy: bool) -> Round {
        Round { packets: 0, ran: 0, received, is_busy, limit: u64::MAX }
    }

    /// The same, where packets of this node's domains may be due soon: one that has come meanwhile and is still in a
    /// socket must not wait too long for that.
    pub fn of(node: &Node, received: u64, is_busy: bool) -> Round {
        let shortest = node.cx.order.paths.scheduler.as_ref().and_then(PathScheduler::shortest_deadline);
        Round { limit: shortest.map_or(u64::MAX, |shortest| shortest / 2), ..Round::behind(received, is_busy) }
    }

    /// Packets have run for so long; true if more may.
    pub fn goes_on(&mut self, packets: u32, cost: u64) -> bool {
        self.packets += packets as usize;
        self.ran += cost;
        let goes_on = self.ran < self.received || !self.is_busy && self.packets < ROUND && self.ran < ROUND_NS;
        goes_on && self.ran < self.limit
    }
}

impl Ran {
    /// Whose packet it was.
    pub fn domain(&self) -> DomainId {
        self.domain
    }

    /// Whether it leaves at once, since its domain has deadlines, and not with the others of its round.
    pub fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// How many have run: one, but for [`Node::run_turn`].
    pub fn packets(&self) -> u32 {
        self.packets
    }
}

impl Paths {
    #[inline]
    pub(super) fn is_queueing(&self) -> bool {
        self.scheduler.is_some()
    }

    /// Whether a domain has a queue: not one that had its place before.
    #[inline]
    fn knows(&self, domain: DomainId) -> bool {
        self.queues.get(domain.index()).is_some_and(|queue| queue.domain == domain)
    }

    /// The packet whose turn it is is for this domain, below the one that has the turn.
    pub(super) fn set_part(&mut self, part: Option<DomainId>) {
        self.part = part;
    }

    /// What it costs to take a packet in, in nanoseconds.
    pub(super) fn intake(&self) -> u64 {
        self.intake
    }

    /// Packets of a domain that were done after their deadline.
    pub(super) fn missed_deadlines(&self, domain: DomainId) -> u64 {
        let scheduler = self.scheduler.as_ref().filter(|_| self.knows(domain));
        scheduler.map_or(0, |scheduler| scheduler.missed(domain.index()))
    }

    /// How many packets wait.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many packets of a domain wait.
    pub(super) fn waiting_of(&self, domain: DomainId) -> u64 {
        let queue = self.queues.get(domain.index()).filter(|queue| queue.domain == domain);
        queue.map_or(0, |queue| queue.length.into())
    }

    /// Asks for the memory that a packet of a domain looks at here.
    #[inline]
    pub(super) fn foresee(&self, domain: DomainId) {
        if let Some(scheduler) = &self.scheduler {
            cache::prefetch_at(&self.queues, domain.index());
            scheduler.foresee(domain.index());
        }
    }

    /// A packet of a domain has come, whatever becomes of it.
    #[inline]
    pub(super) fn count_came(&mut self, domain: DomainId) {
        // The place of one that has ended may be another's.
        if let Some(queue) = self.queues.get_mut(domain.index()).filter(|queue| queue.domain == domain) {
            queue.came = queue.came.saturating_add(1);
        }
    }

    /// Puts a packet behind those of its queue, for which there is room.
    #[inline]
    fn push(&mut self, flow: usize, frame: Frame, work: Work, reserved: u32) {
        let at = self.free;
        match self.places.get_mut(usize::from(at)) {
            Some(place) => {
                self.free = place.next;
                (place.frame, place.work, place.reserved, place.next) = (Some(frame), work, reserved, NONE);
                self.link(flow, at);
            }
            None => {
                // Once for each of the most that ever wait at the same time.
                self.places.push(Place { frame: Some(frame), work, reserved, next: NONE });
                self.link(flow, (self.places.len() - 1) as u16);
            }
        }
    }

    /// Puts a place behind those of a queue.
    #[inline]
    fn link(&mut self, flow: usize, at: u16) {
        let queue = &mut self.queues[flow];
        let before = core::mem::replace(&mut queue.last, at);
        match self.places.get_mut(usize::from(before)) {
            Some(place) => place.next = at,
            None => queue.first = at,
        }
        queue.length += 1;
        self.waiting += 1;
    }

    /// Whether the first packet of a domain's queue is one of several in a turn that this neighbour pays for, and no other domain waits.
    #[inline]
    fn goes_on(&self, domain: DomainId, payer: Payer) -> bool {
        let alone = self.scheduler.as_ref().is_some_and(|scheduler| scheduler.may_go_on(domain.index()));
        let queue = self.queues.get(domain.index()).filter(|queue| alone && queue.domain == domain);
        let place = queue.and_then(|queue| self.places.get(usize::from(queue.first)));
        place.is_some_and(|place| place.work.joins && place.frame.as_ref().is_some_and(|frame| frame.payer == payer))
    }

    /// Takes the first packet of a queue.
    #[inline]
    fn pop(&mut self, flow: usize) -> Option<(Frame, Work, u32)> {
        let queue = self.queues.get_mut(flow)?;
        let at = queue.first;
        let place = self.places.get_mut(usize::from(at))?;
        queue.first = core::mem::replace(&mut place.next, self.free);
        if queue.first == NONE {
            queue.last = NONE;
        }
        queue.length -= 1;
        self.free = at;
        self.waiting -= 1;
        Some((place.frame.take()?, place.work, place.reserved))
    }
}

impl Node {
    /// How the CPU is divided among domains from now on. Packets that wait are not dropped.
    pub fn set_scheduler(&mut self, policy: Policy, now: u64) {
        let waits = policy.waits() || self.cx.has_work();
        self.cx.order.paths.policy = policy;
        self.cx.order.paths.scheduler = waits.then(|| PathScheduler::new(policy));
        for at in 0..self.cx.order.paths.queues.len() {
            let Queue { domain, length, .. } = self.cx.order.paths.queues[at];
            self.cx.enter_path(domain, now);
            if length > 0 {
                self.cx.wake_path(domain, now);
            }
        }
    }

    /// What all capsules have of the CPU beside other environments, and all PLAN packets, by weight: before anything of theirs has waited.
    pub fn set_weights(&mut self, capsules: u32, plan: u32) {
        let own = [self.ask(|environment: &mut Capsules, _| environment.domain), self.plan_domain()];
        for (domain, weight) in own.into_iter().zip([capsules, plan]) {
            if let Some(domain) = domain.and_then(|domain| self.cx.core.domains.of(domain)) {
                domain.grants.weight = weight;
            }
        }
    }

    /// How the CPU is divided.
    pub fn scheduler(&self) -> Policy {
        self.cx.order.paths.policy
    }

    /// What a domain has used.
    pub fn usage(&self, domain: DomainId) -> Option<Usage> {
        Some(self.cx.core.domains.by_id(domain)?.usage())
    }

    /// Packets of a domain that were done after their deadline.
    pub fn missed_deadlines(&self, domain: DomainId) -> u64 {
        self.cx.order.paths.missed_deadlines(domain)
    }

    /// Runs the next packet.
    pub fn run_next(&mut self, turn: &mut Turn<'_>) -> Option<Ran> {
        let flow = self.cx.order.paths.scheduler.as_mut()?.next(turn.now)?;
        let domain = self.cx.order.paths.queues.get(flow)?.domain;
        let Some((frame, work, reserved)) = self.cx.order.paths.pop(flow) else {
            let nobody = Payer::NOBODY;
            return Some(Ran { domain, part: None, packets: 1, payer: nobody, reserved: 0, urgent: false, steps: 0 });
        };
        let payer = frame.payer;
        self.cx.order.paths.part = None;
        let steps = self.environments.run(&mut self.cx, turn, domain, work, frame);
        let urgent = self.cx.order.paths.scheduler.as_ref().is_some_and(|scheduler| scheduler.is_timed(flow));
        let part = self.cx.order.paths.part.take();
        Some(Ran { domain, part, packets: 1, payer, reserved, urgent, steps })
    }

    /// The same, and while nobody else waits, more capsules of that domain and neighbour: together they are one turn,
    /// measured and paid at once.
    pub fn run_turn(&mut self, turn: &mut Turn<'_>) -> Option<Ran> {
        let mut ran = self.run_next(turn)?;
        while ran.packets < TURN && ran.steps < TURN_STEPS && self.cx.order.paths.goes_on(ran.domain, ran.payer) {
            let Some((frame, work, reserved)) = self.cx.order.paths.pop(ran.domain.index()) else { break };
            ran.steps += self.environments.run(&mut self.cx, turn, ran.domain, work, frame);
            ran.reserved = ran.reserved.saturating_add(reserved);
            ran.packets += 1;
        }
        Some(ran)
    }

    /// So many packets were read and taken in at this cost, in nanoseconds.
    pub fn received(&mut self, packets: usize, cost: u64) {
        if let Some(mut ran) = self.cx.order.paths.ran.take() {
            ran.part = self.cx.order.paths.part.take();
            // The only packet has had its turn: all that was done was for it.
            self.cx.order.entry.received(packets, 0);
            let now = self.cx.order.entry.now().saturating_add(cost);
            return self.ran(ran, cost, now);
        }
        let each = self.cx.order.entry.received(packets, cost);
        self.cx.pay(self.cx.order.entry.now());
        if packets > 0 {
            let paths = &mut self.cx.order.paths;
            // What was done at once is paid for already.
            let each = if paths.is_queueing() { cost / packets as u64 } else { each };
            // The mean of the last eight batches or so: one in which the worker was interrupted says little.
            paths.intake = if paths.intake == 0 { each } else { (paths.intake * 7 + each) / 8 };
        }
    }

    /// What a packet has cost, in nanoseconds; without a clock in steps, but always the same.
    pub fn ran(&mut self, ran: Ran, cost: u64, now: u64) {
        let flow = ran.domain.index();
        self.cx.order.entry.settle(ran.payer, now, ran.reserved, cost);
        let queue = self.cx.order.paths.queues.get_mut(flow);
        let (more, came) = queue.map_or((false, 0), |queue| (queue.length > 0, core::mem::take(&mut queue.came)));
        // What came since the last turn is the domain's: it may be of others than who had this one.
        let intake = u64::from(came) * self.cx.order.paths.intake;
        if let Some(scheduler) = &mut self.cx.order.paths.scheduler {
            scheduler.charge(flow, cost + intake, more, now);
        }
        self.cx.enter_account((ran.domain, ran.part), cost);
        self.cx.enter_account((ran.domain, None), intake);
    }
}

impl Node {
    /// A domain has caused so much work beside its packets: its share of the worker pays for it.
    pub fn worked_for(&mut self, domain: DomainId, cost: u64, now: u64) {
        self.cx.worked_for(domain, cost, now);
    }

    /// A process of a domain has used so much of the processor.
    pub fn used_apart(&mut self, domain: DomainId, cost: u64) {
        if let Some(known) = self.cx.core.domains.of(domain) {
            known.cpu_ns += cost;
        }
    }

    /// What a process has used, or will use for packets that it was just given, is paid by its domain's turns, as far as others wait.
    pub fn bill_apart(&mut self, domain: DomainId, cost: u64, now: u64) {
        if self.cx.core.domains.by_id(domain).is_none() {
            return;
        }
        if !self.cx.order.paths.knows(domain) {
            self.cx.enter_path(domain, now);
        }
        if let Some(scheduler) = &mut self.cx.order.paths.scheduler {
            scheduler.bill_apart(domain.index(), cost, now);
        }
    }

    /// How a domain with all below it stands beside others; nothing if it had no work yet, or nothing is divided by shares.
    pub fn standing(&self, domain: DomainId) -> Option<schedule::Standing> {
        let paths = &self.cx.order.paths;
        paths.scheduler.as_ref().filter(|_| paths.knows(domain))?.standing(domain.index())
    }

    /// What environments weigh together that had turns since the last interval was begun.
    pub fn served_weight(&self) -> u32 {
        self.cx.order.paths.scheduler.as_ref().map_or(0, PathScheduler::served_weight)
    }

    /// An interval of turns ends, and the next one begins.
    pub fn begin_interval(&mut self) {
        if let Some(scheduler) = &mut self.cx.order.paths.scheduler {
            scheduler.begin_interval();
        }
    }

    /// Whether a domain has had more of the worker than its share, while others wait.
    pub fn has_had_its_share(&self, domain: DomainId) -> bool {
        let paths = &self.cx.order.paths;
        paths.knows(domain) && paths.scheduler.as_ref().is_some_and(|scheduler| scheduler.is_ahead(domain.index()))
    }
}

impl Cx {
    /// A domain has caused so much work beside its packets: its share of the worker pays for it.
    pub(super) fn worked_for(&mut self, domain: DomainId, cost: u64, now: u64) {
        self.enter_account((domain, None), cost);
        self.bill_path(domain, cost, now);
    }

    /// The cost of a domain's packets is in its account, or in that of the one below it for which they were.
    #[inline]
    pub(super) fn enter_account(&mut self, (domain, part): (DomainId, Option<DomainId>), cost: u64) {
        // A principal may have ended in its own turn.
        let of = part.filter(|part| self.core.domains.by_id(*part).is_some()).unwrap_or(domain);
        if let Some(domain) = self.core.domains.of(of) {
            domain.cpu_ns += cost;
        }
    }

    /// A domain's share pays for work beside its turns.
    pub(super) fn bill_path(&mut self, domain: DomainId, cost: u64, now: u64) {
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
    pub(super) fn begin_batch(&mut self, frames: usize) {
        let paths = &mut self.order.paths;
        paths.alone = frames == 1 && paths.waiting == 0 && paths.ran.is_none() && self.order.entry.has_clock();
    }

    /// What comes from now on is no frame of the batch.
    #[inline]
    pub(super) fn end_batch(&mut self) {
        self.order.paths.alone = false;
    }

    /// Whether a packet of a domain has its turn when it comes: it does not wait where nobody else does. It is charged when
    /// the driver knows what all of that cost ([`Node::received`]).
    #[inline]
    pub(super) fn has_turn(&mut self, now: u64, domain: DomainId, payer: Payer) -> bool {
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
    pub(super) fn enqueue(&mut self, turn: &mut Turn<'_>, domain: DomainId, frame: Frame, work: Work) -> bool {
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
    pub(super) fn leave_path(&mut self, turn: &mut Turn<'_>, domain: DomainId) {
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
    fn wake_path(&mut self, domain: DomainId, now: u64) {
        if let Some(scheduler) = &mut self.order.paths.scheduler {
            scheduler.wake(domain.index(), now);
        }
    }

    pub(super) fn steps_of(&self, domain: DomainId) -> u64 {
        let domain = self.core.domains.by_id(domain);
        domain.map_or(0, Domain::steps_taken)
    }

    /// A domain's first packet: from now on it has a queue.
    #[cold]
    fn enter_path(&mut self, domain: DomainId, now: u64) {
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
    fn has_path(&self, domain: DomainId) -> bool {
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
