//! What a worker hands to the first worker of its node, since only that one can do it.
//!
//! ```text
//! worker 1: frame ─▶ code ready here? ─ yes ─▶ runs ─▶ next hop known? ─ yes ─▶ port
//!                          └ no ─▶ ring ─▶ worker 0        └ no ─▶ ring ─▶ worker 0 ─▶ ARP, port
//! ```
//!
//! A frame that is no capsule is handed over as it came, and counts as received by worker 0. A capsule whose code or
//! whose sender this worker does not know is handed over behind its headers; so is what is for an application, and what
//! leaves by a next hop whose link address is not known. Each of these counts as handed over here and as taken over there
//! ([`crate::core::ledger::Ledger::handed`]): over all workers the sum is what is in the rings.

use super::batch::Seen;
use super::output::{Delivery, EventKind, Turn};
use super::{Capsules, Cx, Node};
use crate::classify::Class;
use crate::core::reason::Reason;
use crate::frame::{Frame, Link, PeerId, PortId};
use crate::topology::NextHop;
use crate::wire::anep::{self, type_id};
use crate::wire::{Addr, capsule};
use core::ops::Range;

/// A packet on its way from one worker to the first one.
pub struct Handed {
    /// What is to be done with it.
    pub what: HandedAs,
    /// The packet.
    pub frame: Frame,
}

/// What is to be done with a packet that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandedAs {
    /// It has come in by its port.
    Frame,
    /// It is a capsule that begins its frame, in an IP packet or in none, and has been let in.
    Capsule {
        /// Whether it came in an IP packet.
        native: bool,
    },
    /// It is for the application at this port.
    Deliver(u16),
    /// It is an ANEP packet from one address to another that leaves by this next hop, with a proof.
    Prove {
        /// The next hop.
        next: NextHop,
        /// Which neighbour of an overlay port.
        peer: PeerId,
        /// Source and destination.
        ends: (Addr, Addr),
    },
    /// It is an IP packet that leaves by this port to this next hop.
    Leave(PortId, Addr),
}

impl Cx {
    /// Whether this worker is not the one with the tables of the node.
    #[inline(always)]
    pub(super) fn is_further(&self) -> bool {
        self.control.workers.is_further()
    }

    /// Hands a packet over that has been counted here.
    #[cold]
    pub(super) fn hand_on(&mut self, turn: &mut Turn<'_>, frame: Frame, what: HandedAs) {
        self.core.ledger.handed = self.core.ledger.handed.wrapping_add(1);
        turn.out.handed.push(Handed { what, frame });
    }

    /// Whether a frame that came in is for this worker: a capsule, where nobody proves who sends it.
    #[inline]
    pub(super) fn is_for_here(&self, frame: &Frame, seen: &Seen) -> bool {
        let is_capsule = |range: &Range<usize>| {
            let packet = frame.bytes().get(range.clone()).map(anep::Packet::new_checked);
            matches!(packet, Some(Ok(packet)) if packet.type_id() == type_id::CAPSULE)
        };
        !self.control.workers.guards(frame.port)
            && matches!(seen, Seen::Class(Ok(Class::Anep(range, _))) if is_capsule(range))
    }
}

impl Node {
    /// A frame came in that only the first worker can do something with.
    #[cold]
    pub(super) fn hand_frame(&mut self, turn: &mut Turn<'_>, frame: Frame) {
        turn.out.handed.push(Handed { what: HandedAs::Frame, frame });
    }

    /// The first worker could not be handed a packet: too many are on their way to it.
    #[cold]
    pub fn not_handed(&mut self, turn: &mut Turn<'_>, handed: Handed) {
        let Handed { what, frame } = handed;
        match what {
            HandedAs::Frame => {
                self.cx.count_received(&frame);
                self.cx.turn_away(turn, frame, Reason::HandOver);
            }
            _ => {
                self.cx.core.ledger.handed = self.cx.core.ledger.handed.wrapping_sub(1);
                self.cx.drop(turn, frame, Reason::HandOver);
            }
        }
    }

    /// Another worker has handed a packet over.
    pub fn take_handed(&mut self, turn: &mut Turn<'_>, handed: Handed) {
        let Handed { what, mut frame } = handed;
        if what == HandedAs::Frame {
            return self.receive(turn, frame);
        }
        self.cx.core.ledger.handed = self.cx.core.ledger.handed.wrapping_sub(1);
        match what {
            HandedAs::Frame => {}
            HandedAs::Capsule { native } => self.take_capsule(turn, frame, native),
            HandedAs::Deliver(port) => {
                let takes = self.ask(|capsules: &mut Capsules, _| capsules.applications.contains(&port));
                if takes != Some(true) {
                    return self.cx.drop(turn, frame, Reason::NoApplication);
                }
                self.cx.core.ledger.delivered += 1;
                turn.out.event(frame.trace, EventKind::Delivered(port));
                turn.out.deliveries.push(Delivery { port, frame });
            }
            HandedAs::Prove { next, peer, ends } => {
                self.cx.order.entry.note(&mut frame);
                if let Err((frame, reason)) = self.cx.send_anep(turn, frame, (next, peer), ends.0, ends.1) {
                    self.cx.drop(turn, frame, reason);
                }
            }
            HandedAs::Leave(port, via) => {
                self.cx.order.entry.note(&mut frame);
                match self.cx.core.topology.port(port).map(|port| port.link) {
                    Some(Link::Ethernet { mac, .. }) => {
                        self.cx.send_ip(turn, frame, port, mac, via);
                        self.cx.look_up_for_others(turn, port, via);
                    }
                    _ => self.cx.drop(turn, frame, Reason::NoPort),
                }
            }
        }
    }

    fn take_capsule(&mut self, turn: &mut Turn<'_>, mut frame: Frame, native: bool) {
        if !self.cx.order.entry.admit(&mut frame, turn.now, self.cx.order.paths.waiting()) {
            return self.cx.drop(turn, frame, Reason::EntryShare);
        }
        let Some(mut header) = capsule::Header::again(frame.bytes()) else {
            return self.cx.drop(turn, frame, Reason::MalformedCapsule);
        };
        let run = self.cx.begin(turn.now, frame.payer, true);
        self.ask(|capsules: &mut Capsules, cx| {
            if let Some((frame, from)) = capsules.find_sender(cx, turn, frame, &mut header, native) {
                capsules.process(cx, turn, frame, &header, from);
            }
        });
        self.environments.settle(&mut self.cx, turn);
        self.cx.end(turn.now, run);
    }
}
