//! Sending: next hop and headers. Who asks for link addresses is [`links`](super::links).
//!
//! A capsule gets its ANEP header back (options are hop by hop: checked on the way in, not carried on), then the
//! headers of its link: none on an overlay port, UDP, IP and Ethernet headers natively. The IP addresses of a native
//! capsule are the capsule's own, so plain routers forward it like any packet.

use super::Cx;
use super::handing::{FIRST, HandedAs};
use super::output::{Effect, EventKind, Turn};
use super::turning::Turned;
use crate::classify::Native;
use crate::code::fetch::Source;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{Envelope, Frame, Link, PeerId, PortId};
use crate::graph::exit::{put_ip, put_udp};
use crate::topology::resolve::Waiting;
use crate::topology::{Flow, NextHop, Port};
use crate::wire::ethernet::{self, Mac, ethertype};
use crate::wire::{self, Addr, anep};

/// UDP in an IP header.
const UDP: u8 = 17;

impl Cx {
    /// Sends a capsule (header and payload in the frame) from the one of `ends` to the other by its next hop.
    pub(super) fn transmit_capsule(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        ends: (Addr, Addr),
        next: Option<(NextHop, PeerId)>,
        domain: DomainId,
    ) {
        let Some(next) = next else {
            return self.drop_in(turn, frame, Reason::NoRoute, domain);
        };
        frame.envelope.hop_limit = frame.envelope.hop_limit.saturating_sub(1);
        if frame.envelope.hop_limit == 0 {
            return self.drop_in(turn, frame, Reason::TimeToLive, domain);
        }
        let trace = frame.trace;
        match self.send(turn, frame, anep::type_id::CAPSULE, next, ends.0, ends.1) {
            Ok(()) => {
                if let Some(domain) = self.core.domains.of(domain) {
                    domain.forwarded += 1;
                }
                turn.out.event(trace, EventKind::Forwarded(next.0.port, ends.1));
            }
            Err((frame, reason)) => self.drop_in(turn, frame, reason, domain),
        }
    }

    /// Sends a message of this node (an ANEP payload in the frame) to a neighbour.
    pub(super) fn send_to_neighbour(&mut self, turn: &mut Turn<'_>, mut frame: Frame, type_id: u16, to: Source) {
        self.core.ledger.made += 1;
        let Some(port) = self.core.topology.port(to.port) else {
            return self.drop(turn, frame, Reason::NoPort);
        };
        let own = port.address_towards(to.addr);
        frame.envelope = Envelope { hop_limit: 64, ..Envelope::FRESH };
        // A native neighbour may be behind routers that are not active.
        let near = port.link == Link::Overlay || port.on_link(to.addr);
        let next =
            if near { Some(NextHop { port: to.port, via: to.addr }) } else { self.core.topology.way(to.addr).next };
        let Some(next) = next else {
            return self.drop(turn, frame, Reason::NoRoute);
        };
        if let Err((frame, reason)) = self.send(turn, frame, type_id, (next, to.peer), own, to.addr) {
            self.drop(turn, frame, reason);
        }
    }

    /// Passes an ANEP packet of a type nobody here speaks to where its headers say.
    pub(super) fn pass_on(&mut self, turn: &mut Turn<'_>, mut frame: Frame, native: Option<&Native>) {
        let Ok(packet) = anep::Packet::new_checked(frame.bytes()) else {
            return self.drop(turn, frame, Reason::MalformedAnep);
        };
        let (source, destination, envelope) = match native {
            Some(native) => (native.source, native.destination, native.envelope),
            None => match addresses(&packet) {
                Some((source, destination)) => (source, destination, Envelope::FRESH),
                None => return self.drop(turn, frame, Reason::UnknownType),
            },
        };
        let core = &mut self.core;
        let Envelope { service, direct, .. } = envelope;
        let way =
            *core.topology.way_of(&Flow { to: destination, from: source, port: Some(frame.port), service, direct });
        if way.here {
            return self.drop(turn, frame, Reason::UnknownType);
        }
        let Some(next) = way.next else {
            return self.drop(turn, frame, Reason::NoRoute);
        };
        // An overlay has no time to live: at least no two nodes throw a packet to and fro.
        if native.is_none() && (next.port, way.peer) == (frame.port, frame.peer) {
            return self.drop(turn, frame, Reason::WayBack);
        }
        frame.envelope = envelope;
        frame.envelope.hop_limit = frame.envelope.hop_limit.saturating_sub(1);
        if frame.envelope.hop_limit == 0 {
            return self.drop(turn, frame, Reason::TimeToLive);
        }
        let trace = frame.trace;
        match self.send_anep(turn, frame, (next, way.peer), source, destination) {
            Ok(()) => turn.out.event(trace, EventKind::Forwarded(next.port, destination)),
            Err((frame, reason)) => self.drop(turn, frame, reason),
        }
    }

    /// Puts an ANEP header before the frame's payload and sends it.
    pub(super) fn send(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        type_id: u16,
        next: (NextHop, PeerId),
        source: Addr,
        destination: Addr,
    ) -> Result<(), (Frame, Reason)> {
        let length = frame.len();
        let headed = frame.prepend(anep::HEADER).is_some_and(|room| anep::emit_basic(room, type_id, length).is_ok());
        if !headed {
            return Err((frame, Reason::TooBig));
        }
        self.graphs.channels.count_went(type_id, length);
        self.send_anep(turn, frame, next, source, destination)
    }

    /// Sends an ANEP packet to a next hop.
    pub(super) fn send_anep(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        next: (NextHop, PeerId),
        source: Addr,
        destination: Addr,
    ) -> Result<(), (Frame, Reason)> {
        let (next, peer) = next;
        let via = if next.via.is_unspecified() { destination } else { next.via };
        if self.is_further() && self.control.workers.guards(next.port) {
            self.hand_on(turn, frame, FIRST, HandedAs::Prove { next, peer, ends: (source, destination) });
            return Ok(());
        }
        if let Err(reason) = self.prove(turn.now, &mut frame, next.port, via) {
            return Err((frame, reason));
        }
        let core = &mut self.core;
        let Some(port) = core.topology.port(next.port) else { return Err((frame, Reason::NoPort)) };
        match port.link {
            Link::Overlay => {
                if peer == PeerId::NONE {
                    return Err((frame, Reason::NoNeighbour));
                }
                if frame.len() > port.mtu {
                    return Err((frame, Reason::TooBig));
                }
                self.hand_over(turn, frame, next.port, peer);
                Ok(())
            }
            Link::Ethernet { mac, .. } => {
                let frame = envelop(frame, port, source, destination)?;
                self.send_ip(turn, frame, next.port, mac, via);
                Ok(())
            }
        }
    }

    /// Sends an IP packet to a next hop on an Ethernet port, as soon as its link address is known.
    pub(super) fn send_ip(&mut self, turn: &mut Turn<'_>, frame: Frame, port: PortId, own: Mac, via: Addr) {
        if wire::plan::is_everybody(via) {
            let to = if via.is_v4() { Mac::BROADCAST } else { Mac::of_multicast(via) };
            return self.send_ethernet(turn, frame, port, own, to, via.is_v4());
        }
        let ask = match self.core.resolver.known(turn.now, port, via) {
            None if self.is_further() => return self.hand_on(turn, frame, FIRST, HandedAs::Leave(port, via)),
            Some(_) if self.holds(Turned::Hop(port, via)) => {
                return self.hold_back(turn, Turned::Hop(port, via), frame, HandedAs::Leave(port, via));
            }
            Some((mac, ask)) => {
                self.send_ethernet(turn, frame, port, own, mac, via.is_v4());
                if ask && self.is_further() {
                    return turn.out.effects.push(Effect::AskLink(port, via));
                }
                ask
            }
            None => {
                let Waiting { ask, displaced } = self.core.resolver.wait(turn.now, port, via, frame);
                if let Some(frame) = displaced {
                    self.drop(turn, frame, Reason::ResolverFull);
                }
                ask
            }
        };
        if ask {
            self.ask(turn, port, via);
        }
    }

    pub(super) fn send_ethernet(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        port: PortId,
        own: Mac,
        to: Mac,
        v4: bool,
    ) {
        let ethertype = if v4 { ethertype::IPV4 } else { ethertype::IPV6 };
        let header = ethernet::Repr { destination: to, source: own, tag: None, ethertype };
        match frame.prepend(header.header_len()).map(|room| header.emit(room)) {
            Some(Ok(_)) => self.hand_over(turn, frame, port, PeerId::NONE),
            _ => self.drop(turn, frame, Reason::TooBig),
        }
    }

    /// Gives a frame to its port.
    pub(super) fn hand_over(&mut self, turn: &mut Turn<'_>, mut frame: Frame, port: PortId, peer: PeerId) {
        let rate = self.core.topology.ports[usize::from(port.0)].bits_per_second;
        self.core.gauges[usize::from(port.0)].count_sent(turn.now, frame.len(), rate);
        frame.port = port;
        frame.peer = peer;
        turn.out.frames.push(frame);
    }
}

/// Puts UDP and IP headers around an ANEP packet.
fn envelop(mut frame: Frame, port: &Port, source: Addr, destination: Addr) -> Result<Frame, (Frame, Reason)> {
    let (direct, ends) = (frame.envelope.direct, (source, destination));
    let protocol = if direct { anep::IP_PROTOCOL } else { UDP };
    // No sum over IPv4: RFC 768 permits that, and every hop changes the payload.
    let headed = direct || put_udp(&mut frame, ends, (anep::UDP_PORT, anep::UDP_PORT), !destination.is_v4());
    let wrapped = if headed { put_ip(&mut frame, port, ends, protocol) } else { Err(Reason::TooBig) };
    match wrapped {
        Ok(()) => Ok(frame),
        Err(reason) => Err((frame, reason)),
    }
}

/// Source and destination of an ANEP packet, from its options.
fn addresses(packet: &anep::Packet<'_>) -> Option<(Addr, Addr)> {
    let options = anep::Repr::parse(packet).ok()?;
    let addr = |id: Option<anep::Identifier>| match id {
        Some(anep::Identifier::Ip(addr)) => Some(addr),
        _ => None,
    };
    Some((addr(options.source).unwrap_or(Addr::UNSPECIFIED), addr(options.destination)?))
}
