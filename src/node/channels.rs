//! Packets of channels: to the domain that has them, and from it to a port.

use super::Node;
use super::output::{EventKind, Turn};
use crate::classify::layers::Layers;
use crate::nodeos::channel::Target;
use crate::nodeos::channel::demux::Found;
use crate::nodeos::channel::spec::Layer;
use crate::nodeos::domain::DomainId;
use crate::nodeos::interface::{CutChanId, Destination, Ends, Error, InChanId, Upcall};
use crate::nodeos::reason::Reason;
use crate::port::frame::BUFFER;
use crate::port::{Envelope, Frame, PeerId, PortId};
use crate::topology::{Link, NextHop, Port};
use crate::wire::{Addr, anep, ethernet, ipv4, ipv6, udp};

/// Hops that a packet of a channel may go.
const HOPS: u8 = 64;

impl Node {
    /// An Ethernet frame that is no business of the node's own environments: it is a channel's, or given back.
    #[inline]
    pub(super) fn receive_channel(&mut self, turn: &mut Turn<'_>, frame: Frame) -> Option<Frame> {
        if self.channels.demux.is_empty() {
            return Some(frame);
        }
        let found =
            Layers::of(frame.bytes()).and_then(|layers| self.channels.demux.find(frame.port, &layers, frame.bytes()));
        let Some(found) = found else { return Some(frame) };
        turn.out.event(frame.trace, EventKind::Received(frame.port));
        self.enter_channel(turn, frame, found);
        None
    }

    /// An ANEP packet of a type that no environment of the node's own speaks: its payload is a channel's, or it is given back.
    pub(super) fn receive_anep_channel(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        kind: u16,
        header: usize,
    ) -> Option<Frame> {
        if self.channels.demux.is_empty() {
            return Some(frame);
        }
        let payload = header..frame.len();
        let owner =
            frame.bytes().get(payload.clone()).and_then(|it| self.channels.demux.find_anep(frame.port, kind, it));
        let Some(owner) = owner else { return Some(frame) };
        self.enter_channel(turn, frame, Found { owner, payload, ends: Ends::default() });
        None
    }

    /// A packet has been found to be a channel's; its domain pays from here on.
    fn enter_channel(&mut self, turn: &mut Turn<'_>, mut frame: Frame, found: Found<InChanId>) {
        let Found { owner, payload, ends } = found;
        let Some((channel, env)) = self.channels.ins.get_mut(owner).zip(self.env.as_deref_mut()) else {
            return self.drop(turn, frame, Reason::NoApplication);
        };
        let (domain, cut, length) = (channel.domain, channel.cut, payload.len());
        channel.traffic.count(length);
        let admitted = match env.domains.of(domain) {
            Some(domain) => domain.admit(turn.now, frame.len()),
            None => Err(Reason::Budget),
        };
        if let Err(reason) = admitted {
            channel.traffic.dropped += 1;
            return self.drop_in(turn, frame, reason, domain);
        }
        if let Some(cut) = cut {
            return self.cut_through(turn, frame, payload.start, ends, cut);
        }
        frame.truncate(payload.end);
        frame.strip(payload.start);
        self.upcall(turn, domain, Upcall::Packet { channel: owner, frame, ends });
    }

    /// A packet goes from an incoming to an outgoing channel; its payload begins at `payload`.
    fn cut_through(&mut self, turn: &mut Turn<'_>, frame: Frame, payload: usize, ends: Ends, cut: CutChanId) {
        let Some(cut) = self.channels.cuts.get_mut(cut) else { return self.drop(turn, frame, Reason::NoApplication) };
        let (domain, from) = (cut.domain, cut.from);
        let layer = self.channels.ins.get(from).map(|channel| channel.filter.layer);
        let Some(out) = self.channels.outs.get_mut(cut.to) else {
            return self.drop_in(turn, frame, Reason::NoApplication, domain);
        };
        cut.traffic.count(frame.len() - payload);
        let owner = self.env.as_deref_mut().and_then(|env| env.domains.of(domain));
        let granted = owner.is_some_and(|owner| owner.may_send(turn.now, frame.len() - payload));
        if !granted || out.admit(turn.now, frame.len() - payload).is_err() {
            return self.drop_in(turn, frame, Reason::Bandwidth, domain);
        }
        out.traffic.count(frame.len() - payload);
        let target = out.target;
        let trace = frame.trace;
        let sent = match (layer, target.layer) {
            (Some(Layer::Ip), Layer::Ip) => self.route_ip(turn, frame, &target),
            _ => {
                let mut frame = frame;
                frame.strip(payload);
                let kept = |end: Option<(Addr, u16)>| end.unwrap_or_default();
                let (source, destination) = (kept(ends.source), kept(ends.destination));
                let whole = Target {
                    source: target.source.or(Some(source.0)),
                    destination: target.destination.or(Some(destination.0)),
                    destination_port: target.destination_port.or(Some(destination.1)),
                    ..target
                };
                self.send_target(turn, frame, &whole, None)
            }
        };
        match sent {
            Ok(port) => turn.out.event(trace, EventKind::Forwarded(port, Addr::UNSPECIFIED)),
            Err((frame, reason)) => self.drop_in(turn, frame, reason, domain),
        }
    }

    /// Tells whoever runs a domain.
    pub(super) fn upcall(&mut self, turn: &mut Turn<'_>, domain: DomainId, upcall: Upcall) {
        let host = self.env.as_deref().and_then(|env| env.domains.by_id(domain)).map(|domain| domain.host);
        let Some(host) = host else { return self.take_back(turn, upcall) };
        match self.hosts.lend(host) {
            super::hosts::Lent::Remote => turn.out.upcalls.push((host, domain, upcall)),
            super::hosts::Lent::Local(mut environment) => {
                if matches!(upcall, Upcall::Packet { .. }) && self.pools.charge(domain, BUFFER).is_err() {
                    self.hosts.give_back(host, environment);
                    self.look_after_pools(turn);
                    return self.refuse_packet(turn, domain, upcall);
                }
                environment.upcall(&mut self.os(turn, domain), domain, upcall);
                self.hosts.give_back(host, environment);
            }
            // It is being called already, or gone: its own packets do not call it again.
            super::hosts::Lent::Nobody => self.take_back(turn, upcall),
        }
    }

    /// A packet finds no memory of its domain.
    #[cold]
    fn refuse_packet(&mut self, turn: &mut Turn<'_>, domain: DomainId, upcall: Upcall) {
        if let Upcall::Packet { channel, frame, .. } = upcall {
            if let Some(channel) = self.channels.ins.get_mut(channel) {
                channel.traffic.dropped += 1;
            }
            self.drop_in(turn, frame, Reason::ChannelFull, domain);
        }
    }

    fn take_back(&mut self, turn: &mut Turn<'_>, upcall: Upcall) {
        if let Upcall::Packet { frame, .. } = upcall {
            self.drop(turn, frame, Reason::NoApplication);
        }
    }

    /// Puts the headers of an outgoing channel around a payload, and sends it. Says by which port.
    pub(super) fn send_target(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        target: &Target,
        to: Destination,
    ) -> Result<PortId, (Frame, Reason)> {
        frame.envelope = Envelope { hop_limit: HOPS, ..Envelope::FRESH };
        if target.layer == Layer::Link {
            return self.send_link(turn, frame, target);
        }
        let to = to.unwrap_or((Addr::UNSPECIFIED, 0));
        let destination = target.destination.unwrap_or(to.0);
        let next = match self.next_of(target.port, destination) {
            Some(next) => next,
            None => return Err((frame, Reason::NoRoute)),
        };
        let Some(port) = self.env.as_deref().and_then(|env| env.topology.port(next.0.port)) else {
            return Err((frame, Reason::NoRoute));
        };
        let source = target.source.filter(|addr| !addr.is_unspecified()).unwrap_or(port.address_towards(destination));
        let kind = target.kind.unwrap_or(0);
        let headed = match target.layer {
            Layer::Anep => {
                return match self.send(turn, frame, kind, next, source, destination) {
                    Ok(()) => Ok(next.0.port),
                    Err(refused) => Err(refused),
                };
            }
            Layer::Udp => {
                let ports = (target.source_port, target.destination_port.unwrap_or(to.1));
                put_datagram(&mut frame, port, (source, destination), ports)
            }
            _ => put_ip(&mut frame, port, (source, destination), kind as u8),
        };
        match (headed, port.link) {
            (Err(reason), _) => Err((frame, reason)),
            (Ok(()), Link::Overlay) => Err((frame, Reason::NoNeighbour)),
            (Ok(()), Link::Ethernet { mac, .. }) => {
                let via = if next.0.via.is_unspecified() { destination } else { next.0.via };
                self.send_ip(turn, frame, next.0.port, mac, via);
                Ok(next.0.port)
            }
        }
    }

    fn send_link(&mut self, turn: &mut Turn<'_>, frame: Frame, target: &Target) -> Result<PortId, (Frame, Reason)> {
        let port = target.port.and_then(|port| self.env.as_deref()?.topology.port(port).map(|config| (port, config)));
        let Some((id, port)) = port else { return Err((frame, Reason::NoRoute)) };
        if port.link == Link::Overlay {
            return Err((frame, Reason::NoNeighbour));
        }
        match ethernet::Frame::new_checked(frame.bytes()) {
            Err(_) => Err((frame, Reason::Malformed)),
            Ok(header) if frame.len() > header.header_len() + port.mtu => Err((frame, Reason::TooBig)),
            Ok(_) => {
                self.hand_over(turn, frame, id, PeerId::NONE);
                Ok(id)
            }
        }
    }

    /// Forwards an IP packet as a router does: its headers stay but for the time to live.
    fn route_ip(&mut self, turn: &mut Turn<'_>, mut frame: Frame, target: &Target) -> Result<PortId, (Frame, Reason)> {
        let Some(ip) = Layers::of(frame.bytes()).and_then(|layers| layers.ip) else {
            return Err((frame, Reason::Malformed));
        };
        frame.truncate(ip.payload.end);
        frame.strip(ip.start);
        let left = if ip.destination.is_v4() {
            ipv4::PacketMut::new_checked(frame.bytes_mut()).ok().and_then(|mut packet| packet.decrement_ttl())
        } else {
            ipv6::PacketMut::new_checked(frame.bytes_mut()).ok().and_then(|mut packet| packet.decrement_hop_limit())
        };
        if left.is_none_or(|left| left == 0) {
            return Err((frame, Reason::TimeToLive));
        }
        // An address of the channel's own is the next hop.
        let towards = target.destination.unwrap_or(ip.destination);
        let Some((next, _)) = self.next_of(target.port, towards) else { return Err((frame, Reason::NoRoute)) };
        let port = self.env.as_deref().and_then(|env| env.topology.port(next.port));
        match port.map(|port| (port.link, port.mtu)) {
            Some((Link::Ethernet { .. }, mtu)) if frame.len() > mtu => Err((frame, Reason::TooBig)),
            Some((Link::Ethernet { mac, .. }, _)) => {
                let via = if next.via.is_unspecified() { towards } else { next.via };
                self.send_ip(turn, frame, next.port, mac, via);
                Ok(next.port)
            }
            _ => Err((frame, Reason::NoNeighbour)),
        }
    }

    /// The next hop to an address, by this port if one is given.
    fn next_of(&mut self, port: Option<PortId>, to: Addr) -> Option<(NextHop, PeerId)> {
        let env = self.env.as_deref_mut()?;
        if to.is_unspecified() {
            return None;
        }
        if let Some(id) = port
            && env.topology.port(id).is_some_and(|port| port.on_link(to))
        {
            let next = NextHop { port: id, via: to };
            return Some((next, env.topology.peer(next, to)));
        }
        let way = *env.topology.way(to);
        let next = way.next.filter(|next| port.is_none_or(|port| port == next.port))?;
        Some((next, way.peer))
    }

    /// Sends what a domain hands to an outgoing channel.
    pub(super) fn send_out(
        &mut self,
        turn: &mut Turn<'_>,
        channel: crate::nodeos::interface::OutChanId,
        to: Destination,
        frame: Frame,
    ) -> Result<(), (Frame, Error)> {
        let Some(out) = self.channels.outs.get_mut(channel) else { return Err((frame, Error::Stale)) };
        let (length, target, domain) = (frame.len(), out.target, out.domain);
        let owner = self.env.as_deref_mut().and_then(|env| env.domains.of(domain));
        let granted = owner.is_some_and(|owner| owner.may_send(turn.now, length));
        if let Err(error) = if granted { out.admit(turn.now, length) } else { Err(Error::Again) } {
            return Err((frame, error));
        }
        let sent = self.send_target(turn, frame, &target, to);
        if let Some(out) = self.channels.outs.get_mut(channel) {
            match &sent {
                Ok(_) => out.traffic.count(length),
                Err(_) => out.traffic.dropped += 1,
            }
        }
        if sent.is_ok()
            && let Some(domain) = self.env.as_deref_mut().and_then(|env| env.domains.of(domain))
        {
            domain.usage.forwarded += 1;
        }
        sent.map(drop).map_err(|(frame, reason)| (frame, refusal(reason)))
    }
}

/// How a caller is told why a packet could not be sent.
fn refusal(reason: Reason) -> Error {
    match reason {
        Reason::TooBig => Error::TooBig,
        Reason::NoRoute | Reason::NoNeighbour => Error::Unknown,
        Reason::Malformed | Reason::Source => Error::Invalid,
        _ => Error::Again,
    }
}

fn put_datagram(frame: &mut Frame, port: &Port, ends: (Addr, Addr), ports: (u16, u16)) -> Result<(), Reason> {
    let header = udp::Repr { source_port: ports.0, destination_port: ports.1, payload_len: frame.len() };
    match frame.prepend(udp::HEADER).map(|room| header.emit(room)) {
        Some(Ok(_)) => {}
        _ => return Err(Reason::TooBig),
    }
    if let Ok(mut datagram) = udp::PacketMut::new_checked(frame.bytes_mut()) {
        datagram.fill_checksum(ends.0, ends.1);
    }
    put_ip(frame, port, ends, udp::IP_PROTOCOL)
}

fn put_ip(frame: &mut Frame, port: &Port, (source, destination): (Addr, Addr), protocol: u8) -> Result<(), Reason> {
    let payload = frame.len();
    let headed = match (source.octets_v4(), destination.octets_v4()) {
        (Some(from), Some(to)) => {
            let header = ipv4::Repr::new(from, to, protocol, HOPS, payload);
            frame.prepend(header.header_len()).is_some_and(|room| header.emit(room).is_ok())
        }
        (None, None) => {
            let header = ipv6::Repr::new(source, destination, protocol, HOPS, payload);
            frame.prepend(ipv6::HEADER).is_some_and(|room| header.emit(room).is_ok())
        }
        // One packet cannot have addresses of both families.
        _ => return Err(Reason::NoRoute),
    };
    if headed && frame.len() <= port.mtu { Ok(()) } else { Err(Reason::TooBig) }
}

/// ANEP types that channels cannot have: the node's own environments speak them.
pub(super) fn is_own_type(kind: u16) -> bool {
    matches!(kind, anep::type_id::CAPSULE | anep::type_id::FETCH)
}
