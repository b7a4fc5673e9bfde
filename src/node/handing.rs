//! What a worker hands to another worker of its node: to the first what only that one can do, and packets of channels to
//! the worker that has their domain.
//!
//! ```text
//! worker 1: frame ─▶ code ready here? ─ yes ─▶ runs ─▶ next hop known? ─ yes ─▶ port
//!                          └ no ─▶ ring ─▶ worker 0        └ no ─▶ ring ─▶ worker 0 ─▶ ARP, port
//! ```
//!
//! A frame that is no capsule is handed over as it came, and counts as received by worker 0; a frame of a channel by who
//! has the channel's domain. A capsule whose code or
//! whose sender this worker does not know is handed over behind its headers; so is what is for an application, and what
//! leaves by a next hop whose link address is not known. Each of these counts as handed over here and as taken over there
//! ([`crate::core::ledger::Ledger::handed`]): over all workers the sum is what is in the rings.

use super::batch::Seen;
use super::marks::Mark;
use super::output::{Delivery, EventKind, Turn};
use super::{Capsules, Cx, Node};
use crate::classify::Class;
use crate::core::reason::Reason;
use crate::frame::{Frame, Link, PeerId, PortId, WorkerId};
use crate::graph::Taker;
use crate::topology::NextHop;
use crate::wire::anep::{self, type_id};
use crate::wire::{Addr, capsule};
use core::ops::Range;

/// The worker that has the tables of the node.
pub(super) const FIRST: WorkerId = 0;

/// A packet on its way from one worker to another.
pub struct Handed {
    /// To whom.
    pub to: WorkerId,
    /// What is to be done with it.
    pub what: HandedAs,
    /// The packet.
    pub frame: Frame,
}

/// What is to be done with a packet that was handed over. Its tag is a word, so that what goes through rings is copied in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum HandedAs {
    /// It has come in by its port.
    Frame,
    /// The same, and it is this channel's.
    Channel(Taker),
    /// It is an ANEP packet that begins its frame, has been let in, and is this channel's.
    Anep(Taker),
    /// It came in, has been let in and counted, and is this channel's among others': nobody else is asked of it any more.
    Ruled(Taker),
    /// It is no packet, and says that those before it are where they should be.
    Mark(Mark),
    /// It is a capsule that begins its frame, in an IP packet or in none, and has been let in.
    Capsule {
        /// Whether it came in an IP packet.
        native: bool,
    },
    /// The same, and this worker has held it since it was let in.
    Held {
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

impl HandedAs {
    /// Whether it is a frame as it came in, which is counted as received where it is taken over.
    pub fn is_as_it_came(&self) -> bool {
        matches!(self, HandedAs::Frame | HandedAs::Channel(_))
    }

    /// Whether it counts in [`crate::core::ledger::Ledger::handed`] while it is on its way.
    pub fn is_counted(&self) -> bool {
        !(self.is_as_it_came() || matches!(self, HandedAs::Mark(_)))
    }
}

impl Cx {
    /// Whether this worker is not the one with the tables of the node.
    #[inline(always)]
    pub(super) fn is_further(&self) -> bool {
        self.control.workers.is_further()
    }

    /// Whether a packet came in an IP packet, not by an overlay.
    pub(super) fn came_natively(&self, frame: &Frame) -> bool {
        self.core.topology.port(frame.port).is_some_and(|port| port.link != Link::Overlay)
    }

    /// Hands a packet over that has been counted here.
    #[cold]
    pub(super) fn hand_on(&mut self, turn: &mut Turn<'_>, frame: Frame, to: WorkerId, what: HandedAs) {
        self.core.ledger.handed = self.core.ledger.handed.wrapping_add(1);
        turn.out.handed.push(Handed { to, what, frame });
    }

    /// Which other worker a frame is for that came in, and what it is to that one.
    #[inline(always)]
    pub(super) fn elsewhere(&self, frame: &Frame, seen: &Seen) -> Option<(WorkerId, HandedAs)> {
        match seen {
            // Others may have it as well, which the first worker finds out.
            Seen::Channel(found) if !self.graphs.channels.taught.go_to_all() => {
                Some((self.way_of(&found.owner)?, HandedAs::Channel(found.owner)))
            }
            _ => (self.is_further() && !self.is_for_here(frame, seen)).then_some((FIRST, HandedAs::Frame)),
        }
    }

    /// Hands over a frame that came in, and is counted where it is taken over.
    #[inline]
    pub(super) fn hand_frame(&mut self, turn: &mut Turn<'_>, handed: Handed) {
        match handed.what {
            HandedAs::Channel(owner) => self.hand_to(turn, owner.domain, handed),
            _ => turn.out.handed.push(handed),
        }
    }

    /// Hands over an ANEP packet that was let in and is a channel's.
    #[cold]
    pub(super) fn hand_anep(&mut self, turn: &mut Turn<'_>, frame: Frame, to: WorkerId, owner: Taker) {
        self.hand_counted(turn, frame, to, owner, HandedAs::Anep(owner));
    }

    /// Hands over a channel's packet that was let in and is counted here.
    #[cold]
    pub(super) fn hand_counted(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        to: WorkerId,
        owner: Taker,
        what: HandedAs,
    ) {
        self.core.ledger.handed = self.core.ledger.handed.wrapping_add(1);
        self.hand_to(turn, owner.domain, Handed { to, what, frame });
    }

    /// Whether an incoming channel is here, under the name that a packet was handed over with.
    pub(super) fn has_channel(&self, owner: &Taker) -> bool {
        self.graphs.channels.ins.get(owner.channel).is_some_and(|channel| channel.domain == owner.domain)
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
    /// Another worker could not be handed a packet: too many are on their way to it.
    #[cold]
    pub fn not_handed(&mut self, turn: &mut Turn<'_>, handed: Handed) {
        self.cx.refuse_handed(turn, handed);
    }

    /// Another worker has handed a packet over.
    pub fn take_handed(&mut self, turn: &mut Turn<'_>, handed: Handed) {
        let Handed { what, mut frame, .. } = handed;
        // First of all: whatever becomes of it, it is in no ring any more.
        if what.is_counted() {
            self.cx.core.ledger.handed = self.cx.core.ledger.handed.wrapping_sub(1);
        }
        self.cx.renew_rules(turn);
        match what {
            HandedAs::Channel(owner) if self.cx.has_channel(&owner) => {
                self.cx.count_received(&frame);
                return self.receive_channel(turn, frame, owner);
            }
            // It has ended meanwhile, or has gone to another worker.
            HandedAs::Frame | HandedAs::Channel(_) => return self.receive(turn, frame),
            HandedAs::Mark(mark) => {
                turn.out.pool.give(frame);
                return self.take_mark(turn, mark);
            }
            _ => {}
        }
        match what {
            HandedAs::Frame | HandedAs::Channel(_) | HandedAs::Mark(_) => {}
            HandedAs::Anep(owner) => self.take_anep(turn, frame, owner),
            HandedAs::Ruled(owner) => self.take_ruled(turn, frame, owner),
            HandedAs::Capsule { native } => {
                if !self.cx.order.entry.admit(&mut frame, turn.now, self.cx.order.paths.waiting()) {
                    return self.cx.drop(turn, frame, Reason::EntryShare);
                }
                self.take_capsule(turn, frame, native);
            }
            HandedAs::Held { native } => self.take_capsule(turn, frame, native),
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

    /// A packet of a type of ANEP is a channel's of this worker, or was when it was handed over.
    fn take_anep(&mut self, turn: &mut Turn<'_>, mut frame: Frame, owner: Taker) {
        let head = anep::Packet::new_checked(frame.bytes()).map(|packet| (packet.type_id(), packet.header_len()));
        let Ok((kind, header)) = head else { return self.cx.drop(turn, frame, Reason::MalformedAnep) };
        if !self.cx.has_channel(&owner) {
            // It has ended meanwhile, or has gone to another worker.
            let payload = frame.bytes().get(header..).unwrap_or_default();
            return match self.cx.graphs.channels.demux.find_anep(frame.port, kind, payload) {
                None => self.cx.drop(turn, frame, Reason::ChannelGone),
                Some(owner) => match self.cx.way_of(&owner) {
                    Some(to) => self.cx.hand_anep(turn, frame, to, owner),
                    None => self.take_payload(turn, frame, header, owner),
                },
            };
        }
        self.cx.order.entry.note(&mut frame);
        self.take_payload(turn, frame, header, owner);
    }

    fn take_capsule(&mut self, turn: &mut Turn<'_>, frame: Frame, native: bool) {
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
