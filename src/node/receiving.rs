//! Received frames: their kind, their neighbour, and the environment that gets them.

use super::environment::{Inlet, OwnType, Row};
use super::output::{EventKind, Turn};
use super::running::{Sender, set_previous};
use super::{Capsules, Cx, Node, batch, halves};
use crate::abi::NONE;
use crate::classify::headers::Layers;
use crate::classify::shapes::Found;
use crate::classify::{Class, Native, classify};
use crate::code::fetch::Source;
use crate::core::reason::Reason;
use crate::frame::{Envelope, Frame, Link, Payer, PeerId};
use crate::graph::Taker;
use crate::topology::Neighbour;
use crate::wire::{Addr, anep, capsule};
use core::ops::Range;

impl Node {
    /// A frame has come in by `frame.port`.
    pub fn receive(&mut self, turn: &mut Turn<'_>, mut frame: Frame) {
        let port = self.cx.core.topology.port(frame.port);
        let Some(link) = port.map(|port| port.link) else {
            return self.refused_of_others(turn, frame, Reason::NoPort);
        };
        self.cx.count_received(&frame);
        if self.cx.control.mirror.on && halves::is_passed_up(&frame, link) {
            frame.authenticated = false;
            self.cx.order.entry.note(&mut frame);
            return self.resume(turn, frame, link);
        }
        match classify(link, frame.bytes()) {
            Ok(Class::NotOurs) => self.receive_other(turn, frame),
            class => self.take_in_class(turn, frame, &class),
        }
    }

    /// A frame has come in that is a channel's or nobody's.
    #[inline]
    fn receive_other(&mut self, turn: &mut Turn<'_>, mut frame: Frame) {
        let layers = if self.cx.graphs.channels.demux.is_empty() { None } else { Layers::of(frame.bytes()) };
        match layers.and_then(|layers| self.cx.find(&mut frame, &layers)) {
            Some(found) => {
                self.cx.approach(found.owner.domain);
                self.receive_channel(turn, frame, &found);
            }
            None => self.cx.leave_alone(turn, frame),
        }
    }

    /// A frame has come in that is a channel's.
    #[inline(always)]
    fn receive_channel(&mut self, turn: &mut Turn<'_>, mut frame: Frame, found: &Found<Taker>) {
        frame.authenticated = false;
        if !self.cx.order.entry.admit(&mut frame, turn.now, self.cx.order.paths.waiting()) {
            return self.cx.drop(turn, frame, Reason::EntryShare);
        }
        turn.out.event(frame.trace, EventKind::Received(frame.port));
        let (payer, owner) = (frame.payer, found.owner);
        self.at_once(turn, payer, |node, turn| node.enter_channel(turn, frame, owner));
    }

    /// Does what ends with a packet's turn: the packet waits for that, and is paid for then, or has it now.
    #[inline(always)]
    pub(super) fn at_once(&mut self, turn: &mut Turn<'_>, payer: Payer, work: impl FnOnce(&mut Node, &mut Turn<'_>)) {
        if self.cx.order.paths.is_queueing() {
            return work(self, turn);
        }
        self.metered(turn, payer, work);
    }

    /// A frame has come in of which this is known.
    #[inline(always)]
    pub(super) fn take_in(&mut self, turn: &mut Turn<'_>, mut frame: Frame, seen: &batch::Seen) {
        if !matches!(seen, batch::Seen::Nowhere) {
            self.cx.count_received(&frame);
        }
        match seen {
            batch::Seen::Nowhere => self.refused_of_others(turn, frame, Reason::NoPort),
            batch::Seen::PassedUp(link) => {
                frame.authenticated = false;
                self.cx.order.entry.note(&mut frame);
                self.resume(turn, frame, *link);
            }
            batch::Seen::Class(class) => self.take_in_class(turn, frame, class),
            batch::Seen::Other(_) => self.cx.leave_alone(turn, frame),
            batch::Seen::Channel(found) => self.receive_channel(turn, frame, found),
        }
    }

    /// A frame has come in that is the node's business.
    #[inline(always)]
    pub(super) fn take_in_class(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        class: &Result<Class, crate::wire::Error>,
    ) {
        let port = frame.port;
        // Who has sent it is found out before anybody is charged: a forged proof is at the expense of the port's strangers.
        let proved = match class {
            Ok(Class::Anep(range, _)) => self.cx.find_sender(turn.now, &mut frame, range.clone()),
            _ => {
                frame.authenticated = false;
                Ok(0..0)
            }
        };
        match class {
            // Answers that others wait for: to refuse them would cost as much as to take them, and cut others off.
            Ok(Class::Arp(_) | Class::NeighbourDiscovery(..)) => {
                self.cx.order.entry.note(&mut frame);
            }
            Ok(Class::NotOurs) => {}
            _ if !self.cx.order.entry.admit(&mut frame, turn.now, self.cx.order.paths.waiting()) => {
                return self.cx.drop(turn, frame, Reason::EntryShare);
            }
            _ => {}
        }
        match class {
            Ok(Class::NotOurs) => self.cx.leave_alone(turn, frame),
            Ok(Class::Anep(_, native)) => {
                let range = match proved {
                    Ok(range) => range,
                    Err(reason) => return self.cx.turn_away_unproved(turn, frame, reason),
                };
                if self.cx.core.ingress[usize::from(port.0)].as_mut().is_some_and(|ceiling| !ceiling.take(turn.now, 1))
                {
                    return self.cx.drop(turn, frame, Reason::IngressRate);
                }
                turn.out.event(frame.trace, EventKind::Received(port));
                self.receive_anep(turn, frame, range, native.as_ref());
            }
            Ok(Class::Arp(range)) => self.cx.receive_arp(turn, frame, range.clone()),
            Ok(Class::NeighbourDiscovery(range, from, to)) => {
                self.cx.receive_discovery(turn, frame, range.clone(), (*from, *to))
            }
            Err(_) => self.cx.drop(turn, frame, Reason::MalformedPacket),
        }
    }

    /// An ANEP packet is at `range` of the frame.
    #[inline]
    pub(super) fn receive_anep(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        range: Range<usize>,
        native: Option<&Native>,
    ) {
        let Ok(packet) = anep::Packet::new_checked(&frame.bytes()[range.clone()]) else {
            return self.cx.drop(turn, frame, Reason::MalformedAnep);
        };
        let (kind, header, length) = (packet.type_id(), packet.header_len(), packet.bytes().len());
        if header > anep::HEADER && (!packet.verify_checksum() || packet.unknown_option_discards()) {
            return self.cx.drop(turn, frame, Reason::MalformedAnep);
        }
        let discard = packet.discard_if_unknown();
        frame.truncate(range.start + length);
        let Some(Row { own: OwnType { waits, .. }, environment }) = self.environments.row(kind) else {
            frame.strip(range.start);
            return match self.receive_anep_channel(turn, frame, kind, header) {
                Some(frame) if discard => self.cx.drop(turn, frame, Reason::UnknownType),
                Some(frame) => self.cx.pass_on(turn, frame, native),
                None => {}
            };
        };
        self.cx.graphs.channels.count_came(kind, length);
        frame.strip(range.start + header);
        let payer = frame.payer;
        let deliver = |node: &mut Node, turn: &mut Turn<'_>| {
            if let Some(environment) = node.environments.at(environment) {
                environment.packet(&mut node.cx, turn, kind, frame, native);
                node.environments.settle(&mut node.cx, turn);
            } else {
                node.cx.drop(turn, frame, Reason::HostGone);
            }
        };
        if waits { self.at_once(turn, payer, deliver) } else { self.metered(turn, payer, deliver) }
    }

    /// A frame has come up from the kernel half, which has run its code.
    #[inline]
    fn resume(&mut self, turn: &mut Turn<'_>, frame: Frame, link: Link) {
        if let Some(environment) = self.environments.at(self.environments.behind(Inlet::Kernel)) {
            environment.resume(&mut self.cx, turn, frame, link);
        } else {
            self.cx.drop(turn, frame, Reason::HostGone);
        }
    }
}

impl Cx {
    #[inline(always)]
    fn count_received(&mut self, frame: &Frame) {
        if let Some(gauge) = self.core.gauge(frame.port) {
            gauge.received += 1;
            gauge.received_bytes += frame.len() as u64;
        }
    }

    /// A frame is the Linux stack's, which has it already.
    pub(super) fn leave_alone(&mut self, turn: &mut Turn<'_>, frame: Frame) {
        if let Some(gauge) = self.core.gauge(frame.port) {
            gauge.not_ours += 1;
        }
        // Whoever sent it is nobody's to charge, and least of all of those before it.
        self.order.entry.end_run(turn.now);
        turn.out.pool.give(frame);
    }

    /// Finds out who has sent the ANEP packet at `range`, as far as the sender proves it; says where the packet is without the proof.
    #[inline(always)]
    fn find_sender(&mut self, now: u64, frame: &mut Frame, range: Range<usize>) -> Result<Range<usize>, Reason> {
        // What another node has found out about the frame says nothing here.
        frame.authenticated = false;
        if self.control.proofs.is_none() {
            return Ok(range);
        }
        self.find_prover(now, frame, range)
    }

    fn find_prover(&mut self, now: u64, frame: &mut Frame, range: Range<usize>) -> Result<Range<usize>, Reason> {
        let packet = frame.bytes().get(range.clone()).map(anep::Packet::new_checked);
        let Some(Ok(length)) = packet.map(|packet| packet.map(|packet| packet.bytes().len())) else {
            return Err(Reason::MalformedAnep);
        };
        frame.truncate(range.start + length);
        frame.strip(range.start);
        self.authenticate(now, frame)?;
        Ok(0..frame.len())
    }

    /// Who sent a frame, and its index among the neighbours: the peer of an overlay port, or the
    /// previous node of a native capsule. Nothing if that is a stranger.
    #[inline(always)]
    pub(super) fn source_of(&mut self, now: u64, frame: &Frame, previous: Addr, native: bool) -> Option<(Source, u32)> {
        let core = &mut self.core;
        let port = frame.port;
        if !native {
            let (index, known) = core.topology.neighbours.of_peer(port, frame.peer)?;
            return Some((Source { port, peer: frame.peer, addr: known.addr }, index));
        }
        if frame.authenticated && frame.sender != previous {
            return None;
        }
        // A native previous hop is learned when it is on the link: only then can it be asked.
        let source = Source { port, peer: PeerId::NONE, addr: previous };
        let known = match core.topology.neighbours.index(port, previous) {
            Some(index) => {
                core.topology.neighbours.hear(index, now);
                Some(index)
            }
            None if core.topology.port(port).is_some_and(|port| port.on_link(previous)) => {
                core.topology.neighbours.learn(Neighbour { addr: previous, port, peer: PeerId::NONE }, now)
            }
            None => None,
        };
        Some((source, known.unwrap_or(NONE)))
    }
}

impl Capsules {
    /// A capsule has come in: its header begins the frame.
    pub(super) fn receive_capsule(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        native: Option<&Native>,
    ) {
        let Ok(mut header) = capsule::Header::parse(frame.bytes()) else {
            return cx.drop(turn, frame, Reason::MalformedCapsule);
        };
        if let Some(native) = native {
            if native.destination != header.destination {
                return cx.drop(turn, frame, Reason::DestinationMismatch);
            }
            // Only injected capsules have no previous node, and those come from applications.
            if header.previous.is_unspecified() {
                return cx.drop(turn, frame, Reason::MalformedCapsule);
            }
            frame.envelope = native.envelope;
        } else {
            frame.envelope = Envelope::FRESH;
        }
        let Some((source, index)) = cx.source_of(turn.now, &frame, header.previous, native.is_some()) else {
            return cx.drop(turn, frame, Reason::Stranger);
        };
        cx.tell_new_neighbours(turn);
        if header.previous != source.addr {
            header.previous = source.addr;
            set_previous(&mut frame, source.addr);
        }
        if header.bound > cx.ceiling(frame.port).unsigned {
            self.clamp_capsule(cx, turn, &mut frame, &mut header);
        }
        self.process(cx, turn, frame, &header, Sender { source: Some(source), index });
    }
}
