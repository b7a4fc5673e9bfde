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
    tellers: Vec<Watcher>,
    /// The node's clock when the turn began that events are of.
    pub(super) now: u64,
    /// Packets that have come in.
    came: u64,
}

/// One who watches.
struct Watcher {
    teller: Teller,
    /// One packet in so many is told of.
    one_in: u64,
}

impl Watcher {
    /// Whether it is told of the packet of this number; 0 is none's, of which who wants all is told.
    #[inline]
    fn wants(&self, trace: u64) -> bool {
        self.one_in == 1 || trace != 0 && trace.is_multiple_of(self.one_in)
    }
}

impl Watchers {
    /// Whether nobody watches.
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.tellers.is_empty()
    }

    #[cold]
    pub(super) fn tell_event(&mut self, event: &Event) {
        of_event(self.now, event, |head, bytes, behind| {
            for watcher in self.tellers.iter_mut().filter(|watcher| watcher.wants(event.trace)) {
                watcher.teller.tell(head, bytes, behind);
            }
        });
    }
}

impl Worker {
    /// Somebody watches from now on, one packet in so many.
    pub fn watch(&mut self, teller: Teller, one_in: u32) {
        self.around.watchers.tellers.push(Watcher { teller, one_in: one_in.into() });
        self.trace();
    }

    /// What the node tells of is what somebody wants.
    fn trace(&mut self) {
        let tellers = &self.around.watchers.tellers;
        self.driver.out.traced = !tellers.is_empty();
        self.driver.out.sampled = tellers.iter().all(|watcher| watcher.one_in > 1);
    }

    /// Somebody may watch no more.
    pub(super) fn look_at_watchers(&mut self) {
        self.around.watchers.tellers.retain(|watcher| !watcher.teller.is_closed());
        self.trace();
    }

    /// Frames have come in by a port: each that somebody wants is a packet of its own from here on.
    #[cold]
    pub(super) fn tell_came(&mut self, now: u64, port: usize, batch: &mut [Frame]) {
        let own = self.making.worker() * OF_WORKER + FIRST;
        for frame in batch {
            let watchers = &mut self.around.watchers;
            watchers.came += 1;
            let trace = own + watchers.came;
            let wanted = watchers.tellers.iter().any(|watcher| watcher.wants(trace));
            frame.trace = if wanted { trace } else { 0 };
            if wanted {
                self.around.tell_frame(now, port, frame, true);
            }
        }
    }
}

impl Around {
    /// A frame has come in by a port, or leaves by one.
    #[cold]
    pub(super) fn tell_frame(&mut self, now: u64, port: usize, frame: &Frame, inward: bool) {
        let Around { ports, watchers, .. } = self;
        if !watchers.tellers.iter().any(|watcher| watcher.wants(frame.trace)) {
            return;
        }
        let mut room = [0; HEADERS];
        let length = ports.get(port).map_or(0, |port| port.headers(&mut room, frame, inward));
        let head = record::head(if inward { CAME } else { LEAVES }, 0, port as u16, now, frame.trace, 0);
        let first = room.get(..length).unwrap_or_default();
        for watcher in watchers.tellers.iter_mut().filter(|watcher| watcher.wants(frame.trace)) {
            watcher.teller.tell(head, first, frame.bytes());
        }
    }
}
