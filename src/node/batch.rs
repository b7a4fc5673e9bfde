//! Batches of frames: memory that a packet will need is asked for before its turn comes (prefetching).
//!
//! With thousands of domains, filter, channel, domain and way out of a packet are not in the processor's caches, and
//! each is found by the one before. So a packet passes three stations before its turn, each a few packets apart.
//! `Cx::look` finds its kind and asks for its filter; `Cx::find` finds channel, domain and queue;
//! `Cx::approach` asks for the way out. They change nothing but the packet. A channel that appears meanwhile is not
//! seen by packets already here; one that goes away is noticed at their turn.

use super::halves;
use super::output::Turn;
use super::{Cx, Node};
use crate::classify::headers::Layers;
use crate::classify::shapes::Found;
use crate::classify::{self, Class};
use crate::core::domain::DomainId;
use crate::frame::Frame;
use crate::graph::Taker;
use crate::wire::Error;

/// Stations of packets between `Cx::look` and their turn.
const AHEAD: usize = 12;

/// Channels whose filters, domains and ways out the near caches hold: some four hundred bytes each.
const CACHED_CHANNELS: usize = 256;

/// How many packets behind `Cx::look` the others are.
const FIND: usize = 4;
const APPROACH: usize = 8;
const TURN: usize = AHEAD - 1;

/// What is known of a packet before its turn.
pub(super) enum Seen {
    /// It came in nowhere.
    Nowhere,
    /// The kernel half had it before.
    PassedUp,
    /// What it is; if not the node's, not known to be a channel's.
    Class(Result<Class, Error>),
    /// A channel's.
    Channel(Found<Taker>),
}

impl Node {
    /// Frames have come in by their ports, in this order. They are taken out of the list; [`Node::received`] follows.
    pub fn receive_all(&mut self, turn: &mut Turn<'_>, frames: &mut Vec<Frame>) {
        self.cx.renew_rules(turn);
        self.cx.begin_batch(frames.len());
        if self.cx.graphs.channels.ins.len() <= CACHED_CHANNELS {
            // What packets look at is near, and looking ahead is not for nothing.
            for mut frame in frames.drain(..) {
                let mut seen = Seen::Nowhere;
                self.cx.see(&mut frame, &mut seen);
                self.take_in(turn, frame, &seen);
            }
        } else {
            self.receive_ahead(turn, frames);
        }
        self.cx.end_batch();
    }

    /// The same, with a look at packets that come a few places behind.
    fn receive_ahead(&mut self, turn: &mut Turn<'_>, frames: &mut Vec<Frame>) {
        let mut seen = [const { Seen::Nowhere }; AHEAD];
        let count = frames.len();
        // So the first is the one that can be taken off.
        frames.reverse();
        for at in 0..count + TURN {
            if let Some(frame) = at_place(frames, count, at) {
                self.cx.look(frame, &mut seen[at % AHEAD]);
                self.cx.foresee(frame, &seen[at % AHEAD]);
            }
            if let Some(frame) = at.checked_sub(FIND).and_then(|at| at_place(frames, count, at)) {
                let seen = &mut seen[(at - FIND) % AHEAD];
                if let Seen::Class(Ok(Class::NotOurs(Some(layers)))) = seen
                    && let Some(found) = self.cx.find(frame, layers)
                {
                    *seen = Seen::Channel(found);
                }
            }
            if at.checked_sub(APPROACH).is_some_and(|at| at < count)
                && let Seen::Channel(found) = &seen[(at - APPROACH) % AHEAD]
            {
                self.cx.approach(found.owner.domain);
            }
            if at >= TURN
                && let Some(frame) = frames.pop()
            {
                self.take_in(turn, frame, &seen[(at - TURN) % AHEAD]);
            }
        }
    }
}

impl Cx {
    /// What a frame is, and whose: all stations at once.
    #[inline(always)]
    pub(super) fn see(&self, frame: &mut Frame, seen: &mut Seen) {
        self.look(frame, seen);
        if let Seen::Class(Ok(Class::NotOurs(Some(layers)))) = seen
            && let Some(found) = self.find(frame, layers)
        {
            self.approach(found.owner.domain);
            *seen = Seen::Channel(found);
        }
    }

    /// What a frame is, as far as the frame alone says.
    #[inline(always)]
    fn look(&self, frame: &Frame, seen: &mut Seen) {
        let port = self.core.topology.port(frame.port);
        *seen = match port.map(|port| port.link) {
            None => Seen::Nowhere,
            Some(link) if self.control.mirror.on && halves::is_passed_up(frame, link) => Seen::PassedUp,
            Some(link) => Seen::Class(classify::read(link, frame.bytes(), self.graphs.channels.have_filters())),
        };
    }

    /// Asks for the filter of a frame that is nobody's else.
    #[inline(always)]
    fn foresee(&self, frame: &Frame, seen: &Seen) {
        if let Seen::Class(Ok(Class::NotOurs(Some(layers)))) = seen {
            self.graphs.channels.demux.foresee(frame.port, layers, frame.bytes());
        }
    }

    /// Whose a frame is. What its turn will look at is asked for.
    #[inline(always)]
    pub(super) fn find(&self, frame: &mut Frame, layers: &Layers) -> Option<Found<Taker>> {
        let found = self.graphs.channels.demux.find(frame.port, layers, frame.bytes())?;
        let Taker { channel, domain, .. } = found.owner;
        self.graphs.channels.ins.foresee(channel.index());
        self.core.domains.foresee(domain);
        self.order.paths.foresee(domain);
        found.mark(layers, frame);
        Some(found)
    }

    /// Where a packet of a domain will lead.
    #[inline(always)]
    pub(super) fn approach(&self, domain: DomainId) {
        if let Some(domain) = self.core.domains.by_id(domain) {
            self.graphs.channels.outs.foresee(usize::from(domain.last_out));
        }
    }
}

/// The packet of this number, if it is still in the list, which is the wrong way round.
#[inline]
fn at_place(frames: &mut [Frame], count: usize, at: usize) -> Option<&mut Frame> {
    frames.get_mut(count.checked_sub(at + 1)?)
}
