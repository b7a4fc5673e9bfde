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

mod driven;
mod turns;

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

/// No domain: there is no place of that number.
const NOBODY: DomainId = DomainId(u32::MAX);

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
    /// Whether the packet whose turn it is has one more behind it in this turn, of the same domain; before the first: whether it may.
    pub(super) more: bool,
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
            more: false,
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

    /// Domains of which packets wait.
    pub(super) fn waiting_domains(&self) -> impl Iterator<Item = DomainId> {
        let some = if self.waiting == 0 { &[] } else { &self.queues[..] };
        some.iter().filter(|queue| queue.length > 0).map(|queue| queue.domain)
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

    /// Takes the first packet that waits for a domain.
    pub(super) fn take_of(&mut self, domain: DomainId) -> Option<(Frame, Work, u32)> {
        if self.knows(domain) { self.pop(domain.index()) } else { None }
    }

    /// Nothing waits for a domain, and it has no place in the order any more.
    pub(super) fn forget(&mut self, domain: DomainId) {
        if !self.knows(domain) {
            return;
        }
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.leave(domain.index());
        }
        if let Some(queue) = self.queues.get_mut(domain.index()) {
            (queue.domain, queue.came) = (NOBODY, 0);
        }
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
