//! What the worker tells those who watch packets: frames at its ports, and events in between ([`crate::seen`]).
//!
//! Nobody watches: [`crate::node::Output::traced`] is off, and nothing here is called.

use super::Worker;
use super::around::Around;
use crate::frame::Frame;
use crate::node::Event;
use crate::port::pcap::HEADERS;
use crate::seen::event::of_event;
use crate::seen::record::{self, CAME, LEAVES};
use crate::seen::ring::Teller;

/// Numbers of packets that come in while somebody watches begin here: above those of applications' packets.
const FIRST: u64 = 1 << 32;

/// From one worker's such numbers to those of the next: none comes there in a thousand years.
const OF_WORKER: u64 = 1 << 48;

/// Those who watch, and what they are told.
#[derive(Default)]
pub(super) struct Watchers {
    tellers: Vec<Teller>,
    /// The node's clock when the turn began that events are of.
    pub(super) now: u64,
    /// Packets that have come in.
    came: u64,
}

impl Watchers {
    /// Whether nobody watches.
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.tellers.is_empty()
    }

    #[cold]
    pub(super) fn tell_event(&mut self, event: &Event) {
        of_event(self.now, event, |head, bytes| {
            for teller in &mut self.tellers {
                teller.tell(head, bytes, &[]);
            }
        });
    }
}

impl Worker {
    /// Somebody watches from now on.
    pub fn watch(&mut self, teller: Teller) {
        self.around.watchers.tellers.push(teller);
        self.driver.out.traced = true;
    }

    /// Somebody may watch no more.
    pub(super) fn look_at_watchers(&mut self) {
        self.around.watchers.tellers.retain(|teller| !teller.is_closed());
        self.driver.out.traced = !self.around.watchers.are_none();
    }

    /// Frames have come in by a port: each is a packet of its own from here on.
    #[cold]
    pub(super) fn tell_came(&mut self, now: u64, port: usize, batch: &mut [Frame]) {
        for frame in batch {
            self.around.watchers.came += 1;
            frame.trace = self.making.worker() * OF_WORKER + FIRST + self.around.watchers.came;
            self.around.tell_frame(now, port, frame, true);
        }
    }
}

impl Around {
    /// A frame has come in by a port, or leaves by one.
    #[cold]
    pub(super) fn tell_frame(&mut self, now: u64, port: usize, frame: &Frame, inward: bool) {
        let Around { ports, watchers, .. } = self;
        let mut room = [0; HEADERS];
        let length = ports.get(port).map_or(0, |port| port.headers(&mut room, frame, inward));
        let head = record::head(if inward { CAME } else { LEAVES }, 0, port as u16, now, frame.trace, 0);
        let first = room.get(..length).unwrap_or_default();
        for teller in &mut watchers.tellers {
            teller.tell(head, first, frame.bytes());
        }
    }
}
