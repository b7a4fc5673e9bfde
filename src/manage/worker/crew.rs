//! The workers of one node as threads, and the rings between them.
//!
//! Example: worker 1 has 12 capsules whose code only worker 0 can fetch. It puts them into its ring, wakes worker 0, and
//! finds 12 empty frames in the ring back: so no frame is allocated or lost however long that goes on. A ring holds
//! 1,024 packets; what finds no room is dropped under `hand-over`.

use super::{Command, Order, Worker};
use crate::driver::Driven;
use crate::frame::{Frame, FramePool, PortId};
use crate::node::handing::Handed;
use crate::node::workers::WorkerOrder;
use crate::sys::poll::Waker;
use crate::wire::Addr;
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::mpsc::Sender;

/// Packets on their way from one worker to the first, at most.
const RING: usize = 1024;

/// Packets that the first worker takes from one ring before ports have their turn.
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

/// A further worker, as the first one sees it.
pub struct Further {
    way: Way,
    packets: Consumer<Handed>,
    empty: Producer<Frame>,
}

/// The first worker, as a further one sees it.
pub struct First {
    way: Way,
    packets: Producer<Handed>,
    empty: Consumer<Frame>,
    /// Whether it is to be woken.
    new: bool,
}

/// The ends of what is between two workers, with the ways to them.
pub fn between(first: Way, further: Way) -> (Further, First) {
    let (packets, handed) = RingBuffer::new(RING);
    let (back, empty) = RingBuffer::new(RING);
    (Further { way: further, packets: handed, empty: back }, First { way: first, packets, empty, new: false })
}

impl First {
    /// Hands a packet over; it comes back if the ring is full.
    pub fn hand(&mut self, handed: Handed) -> Result<(), Handed> {
        self.packets.push(handed).map_err(|rtrb::PushError::Full(handed)| handed)?;
        self.new = true;
        Ok(())
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

    /// Takes back empty frames.
    pub fn take_back(&mut self, mut keep: impl FnMut(Frame)) {
        while let Ok(frame) = self.empty.pop() {
            keep(frame);
        }
    }

    /// At the end of a round: takes empty frames back, and wakes the first worker if there is something for it.
    pub(super) fn settle(&mut self, pool: &mut FramePool) {
        self.take_back(|frame| pool.give(frame));
        if std::mem::take(&mut self.new) {
            self.way.waker.wake();
        }
    }
}

impl Further {
    /// Tells it something.
    pub(super) fn tell(&self, order: WorkerOrder) {
        self.way.order(Order::Do(Box::new(move |node, turn| node.obey(turn, order))));
    }

    /// Whether it has handed something over.
    #[inline]
    fn has_some(&self) -> bool {
        !self.packets.is_empty()
    }

    /// The way to it.
    pub(super) fn way(&self) -> &Way {
        &self.way
    }

    /// Takes packets that it has handed over; how many, and whether there may be more.
    pub fn take(&mut self, driven: &mut Driven<'_>) -> (usize, bool) {
        for count in 0..TAKEN_MAX {
            let Ok(handed) = self.packets.pop() else { return (count, false) };
            // For each one that comes an empty one goes back. There is room: the rings are of one length.
            let empty = driven.turn.out.pool.take();
            if let Err(rtrb::PushError::Full(empty)) = self.empty.push(empty) {
                driven.turn.out.pool.give(empty);
            }
            driven.node.take_handed(&mut driven.turn, handed);
        }
        (TAKEN_MAX, !self.packets.is_empty())
    }
}

impl Worker {
    /// Takes what other workers have handed over; whether there may be more.
    #[inline]
    pub(super) fn take_handed(&mut self) -> bool {
        let some = self.around.place.front().is_some_and(|front| front.others.iter().any(Further::has_some));
        some && self.take_some_handed()
    }

    fn take_some_handed(&mut self) -> bool {
        let now = self.read();
        let began = self.driver.node.worked(now);
        let Some(front) = self.around.place.front() else { return false };
        let mut driven = self.driver.at(now);
        let taken = front.others.iter_mut().map(|further| further.take(&mut driven));
        let (count, more) = taken.fold((0, false), |sum, (count, more)| (sum.0 + count, sum.1 | more));
        let done = self.read();
        let spent = self.driver.node.worked(done) - began;
        self.driver.node.received(count, spent);
        if self.driver.node.has_work() {
            self.received += spent;
        }
        more
    }
}
