//! The driver: the loop around a node. It hands the node frames, timers, commands and the time, and carries out the
//! node's output.
//!
//! A [`Driver`] owns a [`Node`], the run-time of its codes, and the [`Output`] with the frame pool. An [`Outside`]
//! carries the output out: sockets, threads and processes (`manage`), links in virtual time (`sim`), or a table in
//! memory ([`Supply`]: tests, benchmarks). In each of them a round has the same order: frames, deliveries, messages to
//! applications, upcalls, effects, each first to last. Their consequences come in the next round.

mod outside;
mod supply;

use crate::code::run::Runtime;
use crate::frame::Frame;
use crate::node::{Effect, Node, Output, Turn};
use core::mem::take;
pub use outside::{Driven, Outside};
pub use supply::Supply;

/// A node and what its turns need.
pub struct Driver {
    /// The node.
    pub node: Node,
    /// Where its codes run.
    pub runtime: Runtime,
    /// What has come of its turns and is not carried out yet.
    pub out: Output,
}

/// An outside that is a function of effects, and loses all else.
struct Effects<F>(F);

impl<F: FnMut(&mut Driven<'_>, Effect)> Outside for Effects<F> {
    fn effect(&mut self, driven: &mut Driven<'_>, effect: Effect) {
        self.0(driven, effect);
    }
}

impl Driver {
    /// A driver of this node, with an empty pool.
    pub fn new(node: Node) -> Driver {
        Driver { node, runtime: Runtime::default(), out: Output::default() }
    }

    /// The node at a time, in nanoseconds of its clock.
    #[inline]
    pub fn at(&mut self, now: u64) -> Driven<'_> {
        Driven { node: &mut self.node, turn: Turn { now, runtime: &mut self.runtime, out: &mut self.out } }
    }

    /// A call into the node.
    #[inline]
    pub fn turn<R>(&mut self, now: u64, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> R {
        let mut driven = self.at(now);
        work(driven.node, &mut driven.turn)
    }

    /// A frame comes in, with its port and peer.
    #[inline]
    pub fn receive(&mut self, now: u64, frame: Frame) {
        self.turn(now, |node, turn| node.receive(turn, frame));
    }

    /// The node does what is due, if anything is.
    #[inline]
    pub fn timer_if_due(&mut self, now: u64) {
        if now >= self.node.next_timer() {
            self.turn(now, |node, turn| node.timer(turn));
        }
    }

    /// Carries out what the node wants until it wants nothing more; whether it wanted anything.
    #[inline]
    pub fn settle(&mut self, now: u64, outside: &mut impl Outside) -> bool {
        self.at(now).settle(outside)
    }

    /// Answers effects until there are none; frames and deliveries stay in the output.
    #[inline]
    pub fn answer(&mut self, now: u64, outside: &mut impl Outside) {
        self.at(now).answer(outside);
    }

    /// The same by a function.
    pub fn answer_by(&mut self, now: u64, answer: impl FnMut(&mut Driven<'_>, Effect)) {
        self.answer(now, &mut Effects(answer));
    }
}

/// Hands over a list of the output, first to last. Its memory is kept, and what comes meanwhile is behind.
macro_rules! hand_over {
    ($driven:ident . $list:ident, |$item:pat_param| $work:expr) => {
        if !$driven.turn.out.$list.is_empty() {
            let mut list = take(&mut $driven.turn.out.$list);
            for $item in list.drain(..) {
                $work;
            }
            list.append(&mut $driven.turn.out.$list);
            $driven.turn.out.$list = list;
        }
    };
}

impl Driven<'_> {
    /// As [`Driver::settle`].
    #[inline]
    pub fn settle(&mut self, outside: &mut impl Outside) -> bool {
        let wanted = self.wants();
        while self.wants() {
            hand_over!(self.events, |event| outside.happened(self.node, event));
            hand_over!(self.frames, |frame| outside.send(self, frame));
            // A frame that could not be sent is dropped before anything else happens.
            hand_over!(self.events, |event| outside.happened(self.node, event));
            hand_over!(self.handed, |handed| outside.hand(self, handed));
            hand_over!(self.deliveries, |delivery| outside.deliver(self, delivery));
            hand_over!(self.told, |(port, message)| outside.tell(self, port, message));
            // Behind the program's own word of an end.
            hand_over!(self.refused, |refusal| outside.refused(refusal));
            hand_over!(self.upcalls, |(host, domain, upcall)| outside.upcall(self, host, domain, upcall));
            hand_over!(self.effects, |effect| outside.effect(self, effect));
        }
        wanted
    }

    /// As [`Driver::answer`].
    #[inline]
    pub fn answer(&mut self, outside: &mut impl Outside) {
        while !self.turn.out.effects.is_empty() {
            hand_over!(self.effects, |effect| outside.effect(self, effect));
        }
    }

    /// Whether there is anything to carry out.
    #[inline]
    fn wants(&self) -> bool {
        let out = &*self.turn.out;
        let packets =
            !(out.frames.is_empty() && out.handed.is_empty() && out.deliveries.is_empty() && out.events.is_empty());
        packets || !(out.refused.is_empty() && out.effects.is_empty() && out.upcalls.is_empty() && out.told.is_empty())
    }
}

#[cfg(test)]
mod tests;
