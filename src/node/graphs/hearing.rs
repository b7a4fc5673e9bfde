//! Address resolution that graphs hear: each that takes `PORT/arp` has a copy of every ARP packet that comes in there.
//!
//! A copy, since who is on a link is asked for by all: the node finds its next hops by it, and Linux its neighbours. So a graph answers for
//! addresses that it has, as Linux does for its own.

use crate::frame::Frame;
use crate::node::Node;
use crate::node::output::{EventKind, Turn};
use crate::node::paths::Work;

/// What such a packet has come by, in the place of a channel.
const HEARD: u32 = u32::MAX;

impl Node {
    /// Whoever hears address resolution at the frame's port has a copy, which waits for the turn of its domain.
    #[cold]
    pub(in crate::node) fn hear(&mut self, turn: &mut Turn<'_>, frame: &Frame) {
        for at in 0..self.cx.graphs.hears.len() {
            let here = self.cx.graphs.hears.get(at).filter(|(port, _)| *port == frame.port);
            let Some(domain) = here.map(|(_, domain)| *domain) else { continue };
            let admitted = match self.cx.core.domains.of(domain) {
                Some(known) => known.admit(turn.now, frame.len()).map(|()| known.environment),
                None => continue,
            };
            let mut copy = self.cx.make(turn);
            copy.fill(frame.bytes());
            copy.port = frame.port;
            self.cx.order.entry.note(&mut copy);
            let run = self.cx.begin(turn.now, copy.payer, true);
            self.cx.on_domain(turn.now, domain);
            match admitted {
                Ok(environment) => {
                    turn.out.event(copy.trace, EventKind::Charged(domain));
                    let work = Work { environment, what: HEARD, joins: true };
                    if !self.cx.order.paths.is_queueing() || self.cx.has_turn(turn.now, domain, copy.payer) {
                        self.environments.run(&mut self.cx, turn, domain, work, copy);
                    } else {
                        // Where too many wait it is dropped, and counted so.
                        self.cx.enqueue(turn, domain, copy, work);
                    }
                }
                Err(reason) => self.cx.throttle(turn, copy, reason, domain),
            }
            self.cx.end(turn.now, run);
        }
    }
}
