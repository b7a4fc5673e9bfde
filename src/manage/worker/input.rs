//! From which port the next batch of frames is taken in: an order of ports.
//!
//! Without one each port that has frames gets up to four batches, in turn. With one (`[input] order`) an order of output
//! disciplines is asked once a batch, over ports in the place of classes. Example: `priority` takes in what comes by the port
//! of a control network before a flood that comes by another one. An order of an extension is made before it comes to its worker, with
//! memory of its own for each.
//!
//! ```text
//! poll ─▶ ports with frames ─▶ wake ─▶ next ─▶ a batch of that port ─▶ charge: its frames, and whether it has more ─┐
//!                                       ▲─────── until none has more, or the round is over ────────────────────────┘
//! ```
//!
//! Frames wait in their sockets and nowhere here, and the poll tells of them each round. So no frame is lost when an order
//! begins, ends or becomes another one. Each worker has an order of its own, over its own queues. `taking.rs` beside it takes
//! the batches.

use crate::config::input::InputSpec;
use crate::schedule::Share;
use crate::schedule::discipline::{MakesPolicies, NoExtensions, Order, TURN};
use crate::sys::mmsg::BATCH;
use crate::sys::poll::Ready;
use crate::topology::gauge::InputCounts;

/// Bytes that a frame counts as, for orders that count bytes: all alike, as one of full length. What it costs a worker to take one in
/// hardly depends on its length, and a port with short frames is to have no more turns for that.
const FRAME: usize = TURN as usize;

/// An order of ports.
#[derive(Debug)]
pub struct Input {
    spec: InputSpec,
    order: Order,
    /// Whether a port waits for its turn, by its place.
    waits: Vec<bool>,
    /// What was taken of it.
    counts: Vec<InputCounts>,
    /// What the poll says in the middle of a round.
    ready: Vec<Ready>,
}

impl Input {
    /// One in which no port waits. An error: there is no such order of ports.
    pub fn new(spec: InputSpec, policies: &dyn MakesPolicies) -> Result<Input, String> {
        let part = |share: &Share| spec.extension().is_none().then_some((share.weight, share.priority));
        let counts = spec.shares.iter().map(|share| InputCounts { part: part(share), ..InputCounts::default() });
        let counts = counts.collect();
        let (order, waits) = (order_of(&spec, policies)?, vec![false; spec.shares.len()]);
        Ok(Input { spec, order, waits, counts, ready: Vec::new() })
    }

    /// The same without what a panic has left half done: the poll tells of ports with frames again.
    pub fn begin_anew(&mut self) {
        // What could be made once can be made again, but that of an extension, which a worker does not make.
        if !self.order.forget_brought()
            && let Ok(order) = order_of(&self.spec, &NoExtensions)
        {
            self.order = order;
        }
        self.waits.fill(false);
    }

    /// Ports that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.order.waiting()
    }

    /// A port has frames.
    pub fn wake(&mut self, at: usize, now: u64) {
        let Some(waits) = self.waits.get_mut(at) else { return };
        *waits = true;
        self.order.wake(at, now);
    }

    /// The port of which a batch is taken now; [`Input::charge`] follows.
    pub fn next(&mut self, now: u64) -> Option<usize> {
        let before = self.order.failed();
        let next = self.order.next(now);
        if self.order.failed() != before
            && let Some(counts) = next.and_then(|at| self.counts.get_mut(at))
        {
            counts.failed += 1;
        }
        next
    }

    /// So many frames of a port were taken; `more`: it may have more.
    pub fn charge(&mut self, at: usize, frames: usize, more: bool, now: u64) {
        self.order.charge(at, frames * FRAME, more, now);
        if let (Some(waits), Some(counts)) = (self.waits.get_mut(at), self.counts.get_mut(at)) {
            *waits = more;
            counts.batches += u64::from(frames > 0);
            counts.frames += frames as u64;
        }
    }

    /// Whether a port that does not wait would come before all that do, if it has frames by now.
    pub fn may_be_overtaken(&self) -> bool {
        if !self.spec.is_by_priority() || self.waiting() == 0 {
            return false;
        }
        let highest = |waits: bool| {
            let ports = self.waits.iter().zip(&self.spec.shares);
            ports.filter(|(it, _)| **it == waits).map(|(_, share)| share.priority).max()
        };
        highest(false) > highest(true)
    }

    /// Room for what the poll says in the middle of a round; it is to be given back.
    pub fn ready(&mut self) -> &mut Vec<Ready> {
        &mut self.ready
    }

    /// What was taken of a port since the order is as it is.
    pub fn counts(&self, at: usize) -> Option<InputCounts> {
        self.counts.get(at).copied()
    }
}

/// A turn of the least weight is a batch.
fn order_of(spec: &InputSpec, policies: &dyn MakesPolicies) -> Result<Order, String> {
    Order::with_turn(&spec.order, &spec.shares, policies, BATCH as i64 * TURN)
}

#[cfg(test)]
pub(super) mod tests;
