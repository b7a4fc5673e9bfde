//! Frames of which the rules over taught protocols are asked, and their way to a set of channels.
//!
//! ```text
//! frame ─▶ fixed fields ─ a channel's ─▶ that channel             `first`, `best`: nobody else is asked
//!                       └ nobody's ─▶ rules ─┬ none ─▶ Linux      `all`: rules are asked in either case
//!                                            └ some ─▶ each channel, its own copy ─▶ here, or another worker
//! ```
//!
//! Whoever sent it pays for one frame; each domain pays for its copy from here on. A copy is a packet that begins here, and the last
//! channel gets the frame itself: so frames in and frames made are frames out, delivered, held or dropped.

use super::handing::HandedAs;
use super::output::{Effect, EventKind, Turn};
use super::{Cx, Node};
use crate::classify::headers::Layers;
use crate::classify::rule::Layer;
use crate::classify::shapes::Found;
use crate::core::reason::Reason;
use crate::frame::{Frame, Sent};
use crate::graph::Taker;
use crate::graph::taught::Foreign;

impl Node {
    /// A frame has come in that is nobody's, or by its fixed fields a channel's, and of which rules are asked.
    #[inline(never)]
    pub(super) fn receive_by_rules(&mut self, turn: &mut Turn<'_>, mut frame: Frame, fixed: Option<Taker>) {
        let mut found = core::mem::take(&mut self.cx.graphs.channels.found);
        self.cx.graphs.channels.taught.find(frame.port, frame.bytes(), &mut found);
        let layers = Layers::of(frame.bytes());
        let length = frame.len();
        // Headers are read more strictly here than rules read them: what is cut off or lies is nobody's.
        let is_there = |layer| layers.as_ref().and_then(|layers| Found::at(layer, layers, length, ())).is_some();
        found.retain(|(_, layer)| is_there(*layer));
        if found.is_empty() && fixed.is_none() {
            self.cx.graphs.channels.found = found;
            self.cx.tell_foreign(turn, &frame);
            return self.cx.leave_alone(turn, frame);
        }
        frame.authenticated = false;
        if !self.cx.order.entry.admit(&mut frame, turn.now, self.cx.order.paths.waiting()) {
            self.cx.graphs.channels.found = found;
            return self.cx.turn_away(turn, frame, Reason::EntryShare);
        }
        self.cx.count_taken(frame.port);
        turn.out.event(frame.trace, EventKind::Received(frame.port));
        let run = self.cx.begin(turn.now, frame.payer, true);
        // The last one gets the frame itself; the channel of the fixed fields does where there is one, by what those have marked.
        let last = if fixed.is_some() { None } else { found.pop() };
        for (taker, layer) in found.drain(..) {
            let mut copy = self.cx.copy_of(turn, &frame);
            mark(&mut copy, layer, layers.as_ref());
            self.give_to(turn, copy, taker);
        }
        self.cx.graphs.channels.found = found;
        if let Some((taker, layer)) = last {
            mark(&mut frame, layer, layers.as_ref());
            self.give_to(turn, frame, taker);
        } else if let Some(taker) = fixed {
            self.give_to(turn, frame, taker);
        }
        self.cx.end(turn.now, run);
    }

    /// A packet that was let in is a channel's, of this worker or of another.
    fn give_to(&mut self, turn: &mut Turn<'_>, frame: Frame, owner: Taker) {
        match self.cx.way_of(&owner) {
            Some(to) => self.cx.hand_counted(turn, frame, to, owner, HandedAs::Ruled(owner)),
            None => self.enter_channel(turn, frame, owner),
        }
    }

    /// The first worker has found a packet to be a channel's of this one.
    pub(super) fn take_ruled(&mut self, turn: &mut Turn<'_>, mut frame: Frame, owner: Taker) {
        let is_here = self.cx.has_channel(&owner);
        if !is_here && let Some(owner) = self.cx.graphs.channels.taker_of(owner.channel) {
            // It has gone to another worker.
            return self.give_to(turn, frame, owner);
        }
        if !is_here {
            return self.cx.drop(turn, frame, Reason::ChannelGone);
        }
        self.cx.order.entry.note(&mut frame);
        let run = self.cx.begin(turn.now, frame.payer, true);
        self.enter_channel(turn, frame, owner);
        self.cx.end(turn.now, run);
    }
}

/// Writes down where of a frame the payload begins that a channel of this layer is handed.
fn mark(frame: &mut Frame, layer: Layer, layers: Option<&Layers>) {
    let Some(layers) = layers else { return };
    if let Some(found) = Found::at(layer, layers, frame.len(), ()) {
        found.mark(layers, frame);
    }
}

impl Cx {
    /// The kernel hears of a flow of which no rule can hold: it need not copy more of its packets here. Those that have come since come up.
    pub(super) fn tell_foreign(&mut self, turn: &mut Turn<'_>, frame: &Frame) {
        match self.graphs.channels.taught.foreign(frame.port, frame.bytes(), turn.now) {
            Foreign::Flow(flow) => turn.out.effects.push(Effect::Foreign(frame.port, flow)),
            Foreign::Refused => self.core.gauge(frame.port).into_iter().for_each(|gauge| gauge.foreign_refused += 1),
            Foreign::Unknown => {}
        }
    }

    /// Another packet like this one begins.
    fn copy_of(&mut self, turn: &mut Turn<'_>, frame: &Frame) -> Frame {
        let mut copy = self.make(turn);
        copy.fill(frame.bytes());
        (copy.port, copy.peer, copy.payer, copy.envelope) = (frame.port, frame.peer, frame.payer, frame.envelope);
        (copy.sent, copy.trace) = (Sent::default(), self.core.name_packet());
        copy
    }
}
