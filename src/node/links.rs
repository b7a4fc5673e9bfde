//! Who is on a link: ARP (RFC 826) and IPv6 neighbour discovery (RFC 4861). Example: a packet waits for 10.0.0.2; everybody on the link is
//! asked for that address, and the answer brings the Ethernet address that the packet leaves to.
//!
//! ```text
//! send_ip ─▶ link address known? ─ no ─▶ packet waits in `topology::resolve`, question ─▶ port
//! ARP, discovery ─▶ row of the environments ─▶ a question for us: the answer ─▶ port
//!                                              └ an answer: learned ─▶ what waited ─▶ port
//! ```
//!
//! These packets come by the table of environments, as packets of every other kind. They are refused nobody: to refuse one would cost as
//! much as to take it, and cut others off. What they cost is at the expense of the neighbour that sent them and of no domain's turn, and an
//! answer is as long as its question.

use super::environment::{Environment, OwnType, PacketKind};
use super::output::Turn;
use super::receiving::Admitted;
use super::workers::WorkerOrder;
use super::{Cx, Node};
use crate::classify::Native;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{Frame, Link, PeerId, PortId};
use crate::wire::ethernet::{self, Mac, ethertype};
use crate::wire::{Addr, Prefix, arp, icmp, ipv6};
use core::ops::Range;

/// The environment of links.
pub(super) struct Links;

impl Environment for Links {
    fn types(&self) -> (&'static [OwnType], Option<DomainId>) {
        const OWN: &[OwnType] =
            &[OwnType { kind: PacketKind::Arp, waits: false }, OwnType { kind: PacketKind::Discovery, waits: false }];
        (OWN, None)
    }

    fn packet(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, kind: PacketKind, frame: Frame, native: Option<&Native>) {
        match (kind, native) {
            (PacketKind::Arp, _) => cx.receive_arp(turn, frame),
            (PacketKind::Discovery, Some(native)) => {
                cx.receive_discovery(turn, frame, native.source, native.destination);
            }
            _ => cx.drop(turn, frame, Reason::UnknownType),
        }
    }
}

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

    /// A neighbour, counted from 0, and the port behind which it is.
    pub fn neighbour(&self, at: usize) -> Option<(Addr, PortId)> {
        self.cx.core.topology.neighbours.iter().nth(at).map(|known| (known.addr, known.port))
    }

    /// Whether packets for others can go to this address, behind this port: it is in a subnet there, or a configured neighbour.
    pub fn is_behind(&self, port: PortId, addr: Addr) -> bool {
        let topology = &self.cx.core.topology;
        let on_link = topology.port(port).is_some_and(|of| of.leads_to(addr));
        !topology.is_own(addr) && (on_link || topology.neighbours.is_configured(port, addr))
    }

    /// Whether a network is an address of the node.
    pub fn is_host_here(&self, network: Prefix) -> bool {
        network == Prefix::host(network.addr) && self.cx.core.topology.is_own(network.addr)
    }

    /// The Ethernet address of somebody on a port's link, if it is known.
    pub fn link_address(&self, now: u64, port: PortId, of: Addr) -> Option<Mac> {
        self.cx.core.resolver.found(now, port, of)
    }
}

impl Cx {
    /// Lets in a packet of address resolution at these bytes of its frame.
    pub(super) fn let_in_resolution(&mut self, frame: &mut Frame, kind: PacketKind, range: Range<usize>) -> Admitted {
        frame.authenticated = false;
        self.order.entry.note(frame);
        frame.truncate(range.end);
        Admitted { kind, header: range.start, discard: true }
    }

    /// Asks who has `addr`.
    pub(super) fn ask(&mut self, turn: &mut Turn<'_>, port: PortId, addr: Addr) {
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
    fn receive_arp(&mut self, turn: &mut Turn<'_>, frame: Frame) {
        let port = frame.port;
        let message = arp::Repr::parse(frame.bytes());
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
    fn receive_discovery(&mut self, turn: &mut Turn<'_>, frame: Frame, from: Addr, to: Addr) {
        let port = frame.port;
        let said = match icmp::V6::parse(frame.bytes(), from, to, icmp::NEIGHBOUR_HOP_LIMIT) {
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

/// Writes an ICMPv6 message with its IP header into an empty frame.
fn icmp_into(frame: &mut Frame, message: &icmp::V6<'_>, source: Addr, destination: Addr) -> bool {
    let length = message.len();
    let room = frame.room();
    let written = room.get_mut(..length).is_some_and(|room| message.emit(room, source, destination).is_ok());
    frame.received(length);
    let header = ipv6::Repr::new(source, destination, icmp::IP_PROTOCOL_V6, icmp::NEIGHBOUR_HOP_LIMIT, length);
    written && frame.prepend(ipv6::HEADER).is_some_and(|room| header.emit(room).is_ok())
}
