//! Packets and messages between the parts of a graph at several nodes.
//!
//! ```text
//! gate ─▶ which node, which connection ─▶ what engines have noted, in front ─▶ proof ─▶ port
//! ANEP ─▶ proved? ─▶ which graph? ─▶ its domain pays ─▶ its turn ─▶ which generation? ─▶ entrance
//!            │ part-foreign  │               │ budget                  │ graph-replaced
//! ```
//!
//! Of what this node knows of a packet nothing goes along but what engines have noted and mean: who pays, where it came in and what has
//! been proved of it are this node's own, and begin anew there.

use super::parts::{PASSED, Reply};
use super::{Running, RunningGraphs};
use crate::classify::Native;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{Frame, HEADROOM, Link, PortId};
use crate::graph::class::PACKET_FUEL;
use crate::graph::locked::LockedFields;
use crate::graph::remote::{PartMarshal, PartPlace};
use crate::graph::running::GraphGeneration;
use crate::node::Cx;
use crate::node::output::{EventKind, Ingress, Turn};
use crate::node::paths::Work;
use crate::topology::NextHop;
use crate::wire::part::{self, ITEM, ItemNotes, Message, PartHead};
use crate::wire::{Addr, anep};
use std::sync::Arc;

impl RunningGraphs {
    /// Roles, or what is taught, may be others.
    pub(in crate::node) fn lock_all(&mut self, cx: &mut Cx) {
        self.list.iter_mut().for_each(|graph| graph.lock(cx));
    }

    /// A message about parts of graphs has come in: it begins the frame.
    pub(super) fn take_message(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame, native: Option<&Native>) {
        let claimed = native.map_or(frame.sender, |native| native.source);
        let from =
            cx.fetch_peer(&frame, claimed, native).filter(|from| frame.authenticated && frame.sender == from.addr);
        let Some(from) = from else { return cx.drop(turn, frame, Reason::PartForeign) };
        let Ok((PartHead { graph, generation }, message)) = Message::parse(frame.bytes()) else {
            return cx.drop(turn, frame, Reason::MalformedPart);
        };
        let place = PartPlace { port: from.port, peer: from.peer, addr: from.addr, graph, generation };
        if matches!(message, Message::Item(..)) {
            return self.admit(cx, turn, frame, &place);
        }
        // The work is the node's own.
        cx.on_domain(turn.now, cx.control.management);
        let (from, is_piece) = (Ingress::of(&frame), matches!(message, Message::Offer(..)));
        let rates = if is_piece { &mut self.pieces } else { &mut self.messages };
        if !rates.charge(turn.now, from, 1) {
            return cx.drop(turn, frame, Reason::PartRate);
        }
        match message {
            Message::Item(..) => {}
            Message::Offer(number, length, piece) => {
                let reply: Reply = self.take_piece(cx, turn, (&place, from), (number, length, piece));
                reply.tell(cx, turn, &place);
            }
            Message::Keep => self.keep_hosted(cx, turn, &place),
            Message::End => self.end_hosted(cx, turn, &place),
            Message::Has(_) | Message::Accepted | Message::Refused(_) | Message::Runs(_) => {
                self.answered(turn.now, &place, &message);
            }
        }
        cx.use_up(turn, frame);
    }

    /// A packet of another part: its graph's domain pays, and it waits for its turn.
    fn admit(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame, place: &PartPlace) {
        let is_of = |graph: &&Running| {
            let mut all = graph.older.iter().map(|(older, _)| older).chain([&graph.now]);
            all.any(|generation| generation.remotes.place((place.port, place.addr), place.graph).is_some())
        };
        let Some((domain, environment)) = self.list.iter().find(is_of).map(|graph| graph.domain).zip(self.place) else {
            return cx.drop(turn, frame, Reason::PartForeign);
        };
        cx.on_domain(turn.now, domain);
        match cx.core.domains.of(domain).map(|known| known.admit(turn.now, frame.len())) {
            None => return cx.drop_in(turn, frame, Reason::DomainEnded, domain),
            Some(Err(reason)) => return cx.throttle(turn, frame, reason, domain),
            Some(Ok(())) => turn.out.event(frame.trace, EventKind::Charged(domain)),
        }
        if !cx.order.paths.is_queueing() || cx.has_turn(turn.now, domain, frame.payer) {
            self.pass(cx, turn, domain, frame);
        } else {
            // Where too many wait it is dropped, and counted so.
            cx.enqueue(turn, domain, frame, Work { environment, what: PASSED, joins: true });
        }
    }

    /// A packet of another part has its turn.
    pub(super) fn pass(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, mut frame: Frame) {
        let Some(at) = self.at(domain) else { return cx.drop_in(turn, frame, Reason::DomainEnded, domain) };
        let Ok((head, Message::Item(number, notes, _))) = Message::parse(frame.bytes()) else {
            return cx.drop_in(turn, frame, Reason::MalformedPart, domain);
        };
        self.begin_next(cx, turn, at, head.generation);
        let Some(graph) = self.list.get_mut(at) else { return };
        let from = (frame.port, frame.sender);
        let kept = graph.kept.iter_mut().find(|kept| (kept.place.port, kept.place.addr) == from);
        kept.into_iter().for_each(|kept| kept.back += 1);
        frame.strip(ITEM);
        let older = graph.older.iter().position(|(older, _)| is_of(older, from, head));
        match (way_in(&graph.now, from, head, number), older) {
            (Some((place, port)), _) => match unpack(&mut graph.now, place, &mut frame, &notes, turn.now) {
                Ok(()) => {
                    frame.port = port;
                    graph.came.push(frame);
                }
                Err(reason) => graph.refuse(cx, turn, frame, reason),
            },
            (None, Some(at)) => graph.receive_older(cx, turn, (at, number, from), &notes, frame),
            (None, None) => graph.refuse(cx, turn, frame, Reason::GraphReplaced),
        }
        // Those of one turn go together.
        if !cx.order.paths.more {
            graph.receive(cx, turn);
        }
    }
}

impl Running {
    /// Fields that its role locks are not seen at other places from now on.
    pub(super) fn lock(&mut self, cx: &mut Cx) {
        let role = cx.core.domains.of(self.domain).map(|domain| domain.role.clone());
        let names = role.map_or_else(Vec::new, |role| role.graphs.locked.clone());
        let protocols = &cx.graphs.channels.taught.classifying().protocols;
        self.scratch.locked = (!names.is_empty()).then(|| {
            let locked = LockedFields::new(&names, protocols).unwrap_or_else(|why| {
                // The configuration says what is taught, and what is locked of it.
                tracing::error!(
                    node = cx.core.name,
                    graph = self.spec.name,
                    why,
                    "nothing of a graph goes to other places"
                );
                LockedFields::unknown()
            });
            Arc::new(locked)
        });
    }
}

/// Whether a generation has the part of this head.
fn is_of(generation: &GraphGeneration, from: (PortId, Addr), head: PartHead) -> bool {
    let place = generation.remotes.place(from, head.graph).and_then(|at| generation.remotes.places.get(at));
    place.is_some_and(|place| place.generation == head.generation)
}

/// From which place it comes, and by which port it comes in.
fn way_in(generation: &GraphGeneration, from: (PortId, Addr), head: PartHead, number: u16) -> Option<(usize, PortId)> {
    let at = generation.remotes.place(from, head.graph).filter(|_| is_of(generation, from, head))?;
    Some((at, generation.remotes.entrance(&generation.graph, at, number)?))
}

/// What has come from a place becomes the packet that it was there.
fn unpack(
    generation: &mut GraphGeneration,
    place: usize,
    frame: &mut Frame,
    notes: &ItemNotes,
    now: u64,
) -> Result<(), Reason> {
    if !generation.remotes.unpack(place, frame, notes.packed, now) {
        return Err(Reason::MarshalFailed);
    }
    if notes.network.is_some_and(|at| usize::from(at) >= frame.len()) {
        return Err(Reason::MalformedPart);
    }
    take_notes(frame, notes);
    Ok(())
}

impl Running {
    /// A packet that was sent to a generation before goes its way there.
    fn receive_older(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        (at, number, from): (usize, u16, (PortId, Addr)),
        notes: &ItemNotes,
        mut frame: Frame,
    ) {
        let Some((older, _)) = self.older.get_mut(at) else {
            return self.refuse(cx, turn, frame, Reason::GraphReplaced);
        };
        let place = older.remotes.places.iter().position(|place| (place.port, place.addr) == from);
        let way = place.and_then(|place| Some((place, older.remotes.entrance(&older.graph, place, number)?)));
        let Some((place, port)) = way else { return self.refuse(cx, turn, frame, Reason::GraphReplaced) };
        if let Err(reason) = unpack(older, place, &mut frame, notes, turn.now) {
            return self.refuse(cx, turn, frame, reason);
        }
        frame.port = port;
        older.receive([frame].into_iter(), turn.now, &mut turn.out.pool, &mut self.scratch);
        self.settle(cx, turn, 1, Some(at));
    }

    /// A packet has come for a generation that is no more, by a connection that is not there, or as bytes that are no packet.
    fn refuse(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame, reason: Reason) {
        self.traffic.came += 1;
        self.traffic.dropped += 1;
        cx.drop_in(turn, frame, reason, self.domain);
    }
}

/// Notes with a packet what engines at the other node have.
fn take_notes(frame: &mut Frame, notes: &ItemNotes) {
    let start = frame.extent().0;
    frame.notes.network = notes.network.and_then(|at| u16::try_from(start + usize::from(at) + 1).ok()).unwrap_or(0);
    (frame.notes.paint, frame.notes.next) = (notes.paint, notes.next);
    (frame.notes.group, frame.notes.fix_source) = (notes.group, notes.own_source);
}

/// What engines have noted of a packet.
fn notes_of(frame: &Frame) -> ItemNotes {
    let (start, length) = frame.extent();
    let network = usize::from(frame.notes.network).checked_sub(start + 1).filter(|at| *at < length);
    ItemNotes {
        paint: frame.notes.paint,
        group: frame.notes.group,
        own_source: frame.notes.fix_source,
        network: network.and_then(|at| u16::try_from(at).ok()),
        next: frame.notes.next,
        packed: false,
    }
}

impl Cx {
    /// A packet of a graph goes to another part of it, and is this node's no more. What marshals it has so much fuel.
    pub(super) fn pass_part(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        domain: DomainId,
        (place, number): (PartPlace, u16),
        marshal: Option<(&mut PartMarshal, &mut u64)>,
    ) -> Result<(), (Frame, Reason)> {
        let Some(port) = self.core.topology.port(place.port) else { return Err((frame, Reason::NoPort)) };
        let own = port.address_towards(place.addr);
        let near = port.link == Link::Overlay || port.on_link(place.addr);
        let (next, peer) = (NextHop { port: place.port, via: place.addr }, place.peer);
        let next = if near { Some(next) } else { self.core.topology.way(place.addr).next };
        let Some(next) = next else { return Err((frame, Reason::NoRoute)) };
        let Some(owner) = self.core.domains.of(domain) else { return Err((frame, Reason::DomainEnded)) };
        let mut notes = notes_of(&frame);
        if let Some((by, fuel)) = marshal {
            // What could not go as it is is no work for it.
            if !owner.could_send(turn.now, frame.len()) {
                return Err((frame, Reason::Bandwidth));
            }
            notes.packed = true;
            if *fuel < PACKET_FUEL || !by.marshal.pack(&mut frame, turn.now, fuel) {
                return Err((frame, Reason::MarshalFailed));
            }
        }
        if frame.extent().0 < HEADROOM {
            // Headers were put in front, where those of the way are to be.
            let mut roomy = turn.out.pool.take();
            roomy.fill(frame.bytes());
            (roomy.trace, roomy.payer) = (frame.trace, frame.payer);
            turn.out.pool.give(core::mem::replace(&mut frame, roomy));
        }
        let head = PartHead { graph: place.graph, generation: place.generation };
        match frame.prepend(ITEM).and_then(|room| room.first_chunk_mut()) {
            Some(room) => part::put_item(room, head, number, &notes),
            None => return Err((frame, Reason::TooBig)),
        }
        if !owner.may_send(turn.now, frame.len()) {
            return Err((frame, Reason::Bandwidth));
        }
        frame.envelope = crate::frame::Envelope { hop_limit: 64, ..crate::frame::Envelope::FRESH };
        let trace = frame.trace;
        self.send(turn, frame, anep::type_id::PART, (next, peer), own, place.addr)?;
        if let Some(owner) = self.core.domains.of(domain) {
            owner.forwarded += 1;
        }
        turn.out.event(trace, EventKind::Forwarded(place.port, place.addr));
        Ok(())
    }
}
