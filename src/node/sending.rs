//! Sending: next hop, headers, link address.
//!
//! A capsule gets its ANEP header back (options are hop by hop: checked on the way in, not carried on), then the
//! headers of its link: none on an overlay port, UDP, IP and Ethernet headers natively. The IP addresses of a native
//! capsule are the capsule's own, so plain routers forward it like any packet.

use super::handing::{FIRST, HandedAs};
use super::output::{Effect, EventKind, Turn};
use super::turning::Turned;
use super::workers::WorkerOrder;
use super::{Cx, Node};
use crate::classify::Native;
use crate::code::fetch::Source;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{Envelope, Frame, Link, PeerId, PortId};
use crate::graph::exit::{put_ip, put_udp};
use crate::topology::resolve::Waiting;
use crate::topology::{Flow, NextHop, Port};
use crate::wire::ethernet::{self, Mac, ethertype};
use crate::wire::{self, Addr, anep, arp, icmp, ipv6};
use core::ops::Range;

/// UDP in an IP header.
const UDP: u8 = 17;

impl Node {
    /// The host's stack knows these link addresses behind ports, since packets went by it while there was no node.
    pub fn seed_links(&mut self, now: u64, list: &[(PortId, Addr, Mac)]) {
        let core = &mut self.cx.core;
        for (port, addr, mac) in list {
            let link = core.topology.port(*port).map(|port| port.link);
            if matches!(link, Some(Link::Ethernet { mac: own, .. }) if mac.is_anothers(own)) {
                core.resolver.seed(now, *port, *addr, *mac);
            }
        }
    }
}

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

    fn send_ethernet(&mut self, turn: &mut Turn<'_>, mut frame: Frame, port: PortId, own: Mac, to: Mac, v4: bool) {
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

    /// Asks who has `addr`.
    fn ask(&mut self, turn: &mut Turn<'_>, port: PortId, addr: Addr) {
        let Some(config) = self.core.topology.port(port) else { return };
        let Link::Ethernet { mac, .. } = config.link else { return };
        let own = config.address_towards(addr);
        let mut frame = self.make(turn);
        if let (Some(from), Some(to)) = (own.bytes_v4(), addr.bytes_v4()) {
            let request = arp::Repr {
                operation: arp::Operation::Request,
                sender_mac: mac,
                sender_ip: from,
                target_mac: Mac([0; 6]),
                target_ip: to,
            };
            self.send_arp(turn, frame, port, request, Mac::BROADCAST);
        } else {
            let group = icmp::solicited_node(addr);
            let message = icmp::V6::Solicitation { target: addr, source_mac: Some(mac) };
            let written = icmp_into(&mut frame, &message, own, group);
            if written {
                self.send_ethernet(turn, frame, port, mac, Mac::of_multicast(group), false);
            } else {
                self.drop(turn, frame, Reason::TooBig);
            }
        }
    }

    fn send_arp(&mut self, turn: &mut Turn<'_>, mut frame: Frame, port: PortId, message: arp::Repr, to: Mac) {
        let header =
            ethernet::Repr { destination: to, source: message.sender_mac, tag: None, ethertype: ethertype::ARP };
        let room = frame.room();
        match room.get_mut(..arp::LENGTH).map(|room| message.emit(room)) {
            Some(Ok(length)) => frame.received(length),
            _ => return self.drop(turn, frame, Reason::TooBig),
        }
        match frame.prepend(header.header_len()).map(|room| header.emit(room)) {
            Some(Ok(_)) => self.hand_over(turn, frame, port, PeerId::NONE),
            _ => self.drop(turn, frame, Reason::TooBig),
        }
    }

    /// An ARP packet has come in.
    pub(super) fn receive_arp(&mut self, turn: &mut Turn<'_>, frame: Frame, range: Range<usize>) {
        let port = frame.port;
        let message = arp::Repr::parse(&frame.bytes()[range]);
        let Ok(message) = message else { return self.drop(turn, frame, Reason::MalformedArp) };
        let Some(config) = self.core.topology.port(port) else { return self.use_up(turn, frame) };
        let Link::Ethernet { mac, answers } = config.link else { return self.use_up(turn, frame) };
        let wanted = Addr::v4(message.target_ip);
        let ours = config.addresses.iter().any(|(addr, _)| *addr == wanted);
        let asks = message.operation == arp::Operation::Request;
        if !ours || asks && !answers {
            return self.use_up(turn, frame);
        }
        if !message.sender_mac.is_anothers(mac) {
            return self.drop(turn, frame, Reason::LinkAddress);
        }
        self.use_up(turn, frame);
        if asks {
            let frame = self.make(turn);
            self.send_arp(turn, frame, port, message.reply(mac), message.sender_mac);
        } else {
            self.learn(turn, port, Addr::v4(message.sender_ip), message.sender_mac);
        }
    }

    /// An ICMPv6 message has come in that could be neighbour discovery.
    pub(super) fn receive_discovery(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        range: Range<usize>,
        ends: (Addr, Addr),
    ) {
        let port = frame.port;
        let (from, to) = ends;
        let said = match icmp::V6::parse(&frame.bytes()[range], from, to, icmp::NEIGHBOUR_HOP_LIMIT) {
            Ok(icmp::V6::Advertisement { target, target_mac: Some(found), .. }) => Some((target, found, false)),
            Ok(icmp::V6::Solicitation { target, source_mac: Some(asker) }) => Some((target, asker, true)),
            _ => None,
        };
        // What hosts on the link tell each other is no business of the node's, and no drop.
        let Some((config, (target, of, asks))) = self.core.topology.port(port).zip(said) else {
            return self.use_up(turn, frame);
        };
        let Link::Ethernet { mac, answers } = config.link else { return self.use_up(turn, frame) };
        let ours = config.addresses.iter().any(|(own, _)| *own == target);
        if !of.is_anothers(mac) {
            return self.drop(turn, frame, Reason::LinkAddress);
        }
        self.use_up(turn, frame);
        if !asks {
            self.learn(turn, port, target, of);
        } else if answers && ours {
            let target_mac = Some(mac);
            let advert = icmp::V6::Advertisement { target, target_mac, router: true, solicited: true, overrides: true };
            let mut reply = self.make(turn);
            if icmp_into(&mut reply, &advert, target, from) {
                self.send_ethernet(turn, reply, port, mac, of, false);
            } else {
                self.drop(turn, reply, Reason::TooBig);
            }
        }
    }

    /// A next hop's link address has become known: what waited for it goes.
    fn learn(&mut self, turn: &mut Turn<'_>, port: PortId, addr: Addr, mac: Mac) {
        let Some(config) = self.core.topology.port(port) else { return };
        let Link::Ethernet { mac: own, .. } = config.link else { return };
        self.tell_next_hop(turn, port, addr);
        for frame in self.core.resolver.learn(turn.now, port, addr, mac) {
            self.send_ethernet(turn, frame, port, own, mac, addr.is_v4());
        }
        self.tell_link(turn, port, addr);
    }

    /// Another worker does not know a next hop's link address, or for long: it is asked for, or told.
    pub(super) fn look_up_for_others(&mut self, turn: &mut Turn<'_>, port: PortId, addr: Addr) {
        match self.core.resolver.known(turn.now, port, addr) {
            Some((_, true)) => self.ask(turn, port, addr),
            Some((_, false)) => {
                self.core.resolver.is_unknown_elsewhere(port, addr);
                self.tell_link(turn, port, addr);
            }
            None => {}
        }
    }

    fn tell_link(&mut self, turn: &mut Turn<'_>, port: PortId, addr: Addr) {
        if self.leads_others()
            && let Some(mac) = self.core.resolver.take_to_tell(turn.now, port, addr)
        {
            self.tell_workers(turn, |_| WorkerOrder::Link(port, addr, mac));
        }
    }

    /// Repeats questions for link addresses, and gives up.
    pub(super) fn expire_resolutions(&mut self, turn: &mut Turn<'_>) {
        let (asks, gone) = self.core.resolver.expire(turn.now);
        for (port, addr) in asks {
            self.ask(turn, port, addr);
        }
        for frame in gone {
            self.drop(turn, frame, Reason::Unresolved);
        }
        if self.leads_others() {
            for (port, addr, mac) in self.core.resolver.all_to_tell(turn.now) {
                self.tell_workers(turn, |_| WorkerOrder::Link(port, addr, mac));
            }
        }
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

/// Writes an ICMPv6 message with its IP header into an empty frame.
fn icmp_into(frame: &mut Frame, message: &icmp::V6<'_>, source: Addr, destination: Addr) -> bool {
    let length = message.len();
    let room = frame.room();
    let written = room.get_mut(..length).is_some_and(|room| message.emit(room, source, destination).is_ok());
    frame.received(length);
    let header = ipv6::Repr::new(source, destination, icmp::IP_PROTOCOL_V6, icmp::NEIGHBOUR_HOP_LIMIT, length);
    written && frame.prepend(ipv6::HEADER).is_some_and(|room| header.emit(room).is_ok())
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
