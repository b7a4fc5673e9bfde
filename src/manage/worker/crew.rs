//! The workers of one node as threads, and the rings between any two of them.
//!
//! Example: worker 1 has 12 capsules whose code only worker 0 can fetch. It puts them into its ring, wakes worker 0, and
//! finds 12 empty frames in the ring back: so no frame is allocated or lost however long that goes on. A ring holds
//! 1,024 packets; what finds no room is dropped under `hand-over`. Nobody's packets may be more than leave room for as
//! many of others: so a flood by one neighbour leaves half of a ring to all others. A domain that moves goes by the same ring, with its
//! processes, so that packets that are handed over later are behind it.

use super::{Command, Order, PROCESSES, Worker};
use crate::core::domain::DomainId;
use crate::driver::Driven;
use crate::frame::shares::Shares;
use crate::frame::{Frame, FramePool, Payer, PeerId, PortId, WorkerId};
use crate::manage::ee::MovedProcesses;
use crate::node::handing::{Handed, HandedAs};
use crate::node::moving::Moving;
use crate::node::workers::WorkerOrder;
use crate::sys::poll::Waker;
use crate::wire::Addr;
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;
use std::sync::mpsc::Sender;

/// Packets on their way from one worker to another, at most.
const RING: usize = 1024;

/// Packets that a worker takes from one ring before ports have their turn.
const TAKEN_MAX: usize = 64;

/// A way to a worker for orders.
#[derive(Clone)]
pub struct Way {
    /// Where orders go.
    pub orders: Sender<Order>,
    /// What wakes it.
    pub waker: Waker,
}

impl Way {
    /// Asks something of the worker.
    pub fn order(&self, order: Order) {
        // One that has ended needs nothing any more.
        let _ = self.orders.send(order);
        self.waker.wake();
    }
}

/// What goes from one worker to another.
pub enum Parcel {
    /// A packet.
    Packet(Handed),
    /// A domain.
    Domain(Box<Cargo>),
}

/// A domain on its way, with the processes that run it.
pub struct Cargo {
    moving: Box<Moving>,
    processes: MovedProcesses,
    /// Who is told that it has arrived.
    arrived: Sender<()>,
}

/// Whose packet is on its way: who pays for it, where nobody has found that out yet who has sent it.
type RingOwner = (Payer, PortId, PeerId);

/// Packets in a ring from which on it is counted whose they are, and below which that is forgotten: as long as half of it is free,
/// nobody has more than that.
const COUNTED: usize = RING / 2;
const UNCOUNTED: usize = RING / 4;

/// Whose packets are in a ring, in their order there.
struct Afloat {
    /// Of how many whose they are, while that is counted.
    shares: Shares<RingOwner>,
    counts: bool,
    order: VecDeque<RingOwner>,
}

impl Afloat {
    fn new() -> Afloat {
        Afloat { shares: Shares::new(RING as u64), counts: false, order: VecDeque::with_capacity(RING) }
    }

    /// Whether one more of this owner's may go; it is afloat then. A mark is no packet, and always may.
    #[inline]
    fn take(&mut self, Handed { what, frame, .. }: &Handed) -> bool {
        let (owner, is_mark) = match (frame.payer, what) {
            (_, HandedAs::Mark(_)) => ((Payer::NOBODY, PortId(u16::MAX), PeerId::NONE), true),
            (Payer::NOBODY, _) => ((Payer::NOBODY, frame.port, frame.peer), false),
            (payer, _) => ((payer, PortId(0), PeerId::NONE), false),
        };
        if self.order.len() >= COUNTED && !self.counts {
            self.order.iter().for_each(|owner| self.shares.take_back(*owner, 1));
            self.counts = true;
        }
        if self.counts {
            if !is_mark && !self.shares.fits(owner, 1) {
                return false;
            }
            self.shares.take_back(owner, 1);
        }
        self.order.push_back(owner);
        true
    }

    /// The first one has been taken out, or the last one has not gone.
    fn give(&mut self, owner: Option<RingOwner>) {
        if !self.counts {
            return;
        }
        owner.into_iter().for_each(|owner| self.shares.give(owner, 1));
        if self.order.len() < UNCOUNTED {
            self.shares.clear();
            self.counts = false;
        }
    }
}

/// Another worker, as one sees it.
pub struct Link {
    to: WorkerId,
    way: Way,
    sent: Producer<Parcel>,
    empty: Consumer<Frame>,
    came: Consumer<Parcel>,
    back: Producer<Frame>,
    /// Whose packets are on their way to it.
    afloat: Afloat,
    /// Whether it is to be woken.
    new: bool,
    /// While parcels are taken: how many frames will have been looked at when the one in hand is done.
    taking: Option<u64>,
}

/// The ends of what is between two workers, each a number with the way to it: what the first has, and what the other has.
pub fn between(one: (WorkerId, Way), other: (WorkerId, Way)) -> (Link, Link) {
    let (sent, other_came) = RingBuffer::new(RING);
    let (other_sent, came) = RingBuffer::new(RING);
    let (back, other_empty) = RingBuffer::new(RING);
    let (other_back, empty) = RingBuffer::new(RING);
    let (new, afloat, other_afloat) = (false, Afloat::new(), Afloat::new());
    let taking = None;
    let first = Link { to: other.0, way: other.1, sent, empty, came, back, afloat, new, taking };
    let (sent, empty, came, back) = (other_sent, other_empty, other_came, other_back);
    (first, Link { to: one.0, way: one.1, sent, empty, came, back, afloat: other_afloat, new, taking })
}

/// What each of several workers has of all others, in the order of their numbers.
pub fn between_all(ways: &[Way]) -> Vec<Vec<Link>> {
    let mut all: Vec<Vec<Link>> = ways.iter().map(|_| Vec::new()).collect();
    for (one, way) in ways.iter().enumerate() {
        for (other, other_way) in ways.iter().enumerate().skip(one + 1) {
            let number = |at: usize| at as WorkerId;
            let (first, second) = between((number(one), way.clone()), (number(other), other_way.clone()));
            all[one].push(first);
            all[other].push(second);
        }
    }
    all
}

impl Link {
    /// Which worker it is.
    pub fn to(&self) -> WorkerId {
        self.to
    }

    /// Hands a packet over; it comes back if the ring is full, or has too many of its owner's.
    pub fn hand(&mut self, handed: Handed) -> Result<(), Handed> {
        if self.afloat.order.len() >= COUNTED {
            self.look_at_ring();
        }
        if !self.afloat.take(&handed) {
            return Err(handed);
        }
        match self.sent.push(Parcel::Packet(handed)) {
            Err(rtrb::PushError::Full(Parcel::Packet(handed))) => {
                let last = self.afloat.order.pop_back();
                self.afloat.give(last);
                return Err(handed);
            }
            // A packet is what was to be pushed.
            Err(rtrb::PushError::Full(Parcel::Domain(_))) | Ok(()) => {}
        }
        self.new = true;
        Ok(())
    }

    /// How many frames should have been looked at by now, if this worker has panicked while it took what the other has handed over.
    pub(super) fn was_taking(&mut self) -> Option<u64> {
        self.taking.take()
    }

    /// Packets that the other has handed over and that wait here.
    pub fn waiting(&self) -> usize {
        self.came.slots()
    }

    /// Whether there is room for one parcel more.
    fn has_room(&self) -> bool {
        self.sent.slots() > 0
    }

    /// Sends a domain, for which there is room.
    fn send_domain(&mut self, cargo: Cargo) {
        let sent = self.sent.push(Parcel::Domain(Box::new(cargo)));
        debug_assert!(sent.is_ok());
        self.way.waker.wake();
    }

    /// The first worker is told whom this one hears.
    pub(super) fn heard(&self, list: Vec<(PortId, Addr)>) {
        let command: Command = Box::new(move |node, turn| node.heard(turn.now, &list));
        self.way.order(Order::Do(command));
    }

    /// The first worker is told of a link address that this one has known for long.
    pub(super) fn ask_link(&self, port: PortId, addr: Addr) {
        self.way.order(Order::Do(Box::new(move |node, turn| node.link_is_old(turn, port, addr))));
    }

    /// Tells it something.
    pub(super) fn tell(&self, order: WorkerOrder) {
        self.way.order(Order::Do(Box::new(move |node, turn| node.obey(turn, order))));
    }

    /// The way to it.
    pub(super) fn way(&self) -> &Way {
        &self.way
    }

    /// Takes back empty frames.
    pub fn take_back(&mut self, mut keep: impl FnMut(Frame)) {
        while let Ok(frame) = self.empty.pop() {
            keep(frame);
        }
    }

    /// Learns what has been taken out of the ring.
    fn look_at_ring(&mut self) {
        if self.afloat.order.is_empty() {
            return;
        }
        // Domains on their way are in the ring and not in `order`: beside them a packet counts a little longer.
        let there = RING - self.sent.slots();
        while self.afloat.order.len() > there {
            let first = self.afloat.order.pop_front();
            self.afloat.give(first);
        }
    }

    /// At the end of a round: takes empty frames back, and wakes the other worker if there is something for it.
    pub(super) fn settle(&mut self, pool: &mut FramePool) {
        self.take_back(|frame| pool.give(frame));
        self.look_at_ring();
        if std::mem::take(&mut self.new) {
            self.way.waker.wake();
        }
    }

    /// Whether it has handed something over.
    #[inline]
    fn has_some(&self) -> bool {
        !self.came.is_empty()
    }

    /// Takes packets that it has handed over, and gives domains to `unload`; how many, and whether there may be more.
    pub fn take(
        &mut self,
        driven: &mut Driven<'_>,
        unload: &mut dyn FnMut(&mut Driven<'_>, Box<Cargo>),
    ) -> (usize, bool) {
        self.taking = Some(driven.node.looked_at(driven.turn.out));
        let taken = self.take_each(driven, unload);
        self.taking = None;
        taken
    }

    fn take_each(
        &mut self,
        driven: &mut Driven<'_>,
        unload: &mut dyn FnMut(&mut Driven<'_>, Box<Cargo>),
    ) -> (usize, bool) {
        for count in 0..TAKEN_MAX {
            let handed = match self.came.pop() {
                Ok(Parcel::Packet(handed)) => handed,
                Ok(Parcel::Domain(cargo)) => {
                    unload(driven, cargo);
                    continue;
                }
                Err(_) => return (count, false),
            };
            // For each one that comes an empty one goes back. There is room: the rings are of one length.
            let empty = driven.turn.out.pool.take();
            if let Err(rtrb::PushError::Full(empty)) = self.back.push(empty) {
                driven.turn.out.pool.give(empty);
            }
            if handed.what.is_as_it_came() {
                // Nobody has counted it yet.
                self.taking = self.taking.map(|frames| frames.wrapping_add(1));
            }
            driven.node.take_handed(&mut driven.turn, handed);
        }
        (TAKEN_MAX, !self.came.is_empty())
    }
}

impl Worker {
    /// Takes what other workers have handed over; whether there may be more.
    #[inline]
    pub(super) fn take_handed(&mut self) -> bool {
        let some = self.around.links.iter().any(Link::has_some);
        some && self.take_some_handed()
    }

    fn take_some_handed(&mut self) -> bool {
        let now = self.read();
        let began = self.driver.node.worked(now);
        let mut driven = self.driver.at(now);
        let (processes, poll) = (&mut self.around.processes, &self.poll);
        let mut unload = |driven: &mut Driven<'_>, cargo: Box<Cargo>| {
            let Cargo { moving, processes: moved, arrived } = *cargo;
            driven.node.take_in_domain(&mut driven.turn, moving);
            processes.take_in(moved, poll, PROCESSES);
            // Whoever has asked for it may have gone away meanwhile.
            let _ = arrived.send(());
        };
        let taken = self.around.links.iter_mut().map(|link| link.take(&mut driven, &mut unload));
        let (count, more) = taken.fold((0, false), |sum, (count, more)| (sum.0 + count, sum.1 | more));
        let done = self.read();
        let spent = self.driver.node.worked(done) - began;
        self.driver.node.received(count, spent);
        if self.driver.node.has_work() {
            self.received += spent;
        }
        more
    }

    /// A domain goes to another worker, with its processes; who waits for that is told when it is there.
    #[cold]
    pub(super) fn send_off(&mut self, domain: DomainId, to: WorkerId, arrived: Sender<()>) -> Result<(), String> {
        let now = self.read();
        // What was done for it so far is told, sent and handed over.
        self.settle(now).map_err(|error| error.to_string())?;
        let link = self.around.links.iter_mut().find(|link| link.to == to);
        let link = link.ok_or_else(|| format!("there is no worker {to}"))?;
        if !link.has_room() {
            return Err(format!("too many packets are on their way to worker {to}: ask again"));
        }
        let moving = self.driver.turn(now, |node, turn| node.send_off(turn, domain, to))?;
        let processes = self.around.processes.send_off(&moving, &self.poll);
        link.send_domain(Cargo { moving, processes, arrived });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn links() -> (Link, Link) {
        let way = || Way { orders: channel().0, waker: Waker::new().unwrap() };
        between((0, way()), (1, way()))
    }

    fn from(peer: u16) -> Handed {
        let mut frame = Frame::from_bytes(b"x");
        (frame.port, frame.peer) = (PortId(0), PeerId(peer));
        Handed { what: HandedAs::Frame, to: 0, frame }
    }

    #[test]
    fn a_flood_by_one_neighbour_leaves_room_in_the_ring_for_others() {
        let (mut first, mut further) = links();
        let flood = (0..2 * RING).filter(|_| further.hand(from(1)).is_ok()).count();
        assert_eq!(flood, RING / 2);
        let other = (0..RING).filter(|_| further.hand(from(2)).is_ok()).count();
        assert_eq!(other, RING / 4, "half of what is left");
        // What is taken out is room again, each owner's own.
        for _ in 0..flood {
            assert!(matches!(first.came.pop(), Ok(Parcel::Packet(_))));
            first.back.push(Frame::from_bytes(b"")).unwrap();
        }
        let mut back = 0;
        further.take_back(|_| back += 1);
        further.look_at_ring();
        assert_eq!((back, further.afloat.shares.held()), (flood, other as u64));
        assert!(further.hand(from(1)).is_ok());
    }
}
