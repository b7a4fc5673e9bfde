//! The way out of channels: headers, next hops, modules, bandwidth.

use super::Cx;
use super::output::Turn;
use super::sending::{put_ip, put_udp};
use crate::classify::headers::Layers;
use crate::classify::rule::Layer;
use crate::contract;
use crate::core::reason::Reason;
use crate::frame::{Envelope, Frame, Link, Payer, PeerId, PortId};
use crate::nodeos::channel::Target;
use crate::nodeos::channel::module::Stage;
use crate::nodeos::interface::{Destination, Error, OutChanId};
use crate::topology::NextHop;
use crate::wire::{Addr, ethernet, ipv4, ipv6, udp};

/// How a packet of an outgoing channel is sent: says by which port, or gives it back.
type Sending<'a> = &'a mut dyn FnMut(&mut Cx, &mut Turn<'_>, Frame, &Target) -> Result<PortId, (Frame, Reason)>;

/// Hops that a packet of a channel may go.
const HOPS: u8 = contract::HOPS as u8;

/// The checksum of a datagram between other ends: what was damaged on its way stays so. Zero: it has none.
#[derive(Clone, Copy)]
pub(super) struct Carried {
    pub(super) checksum: u16,
    pub(super) ends: [(Addr, u16); 2],
}

impl Cx {
    /// Puts the headers of an outgoing channel around a payload, and sends it. Says by which port.
    pub(super) fn send_target(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        target: &Target,
        to: Destination,
        carried: Option<Carried>,
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
        let Some(port) = self.core.topology.port(next.0.port) else {
            return Err((frame, Reason::NoPort));
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
                if put_datagram(&mut frame, [(source, ports.0), (destination, ports.1)], carried) {
                    put_ip(&mut frame, port, (source, destination), udp::IP_PROTOCOL)
                } else {
                    Err(Reason::TooBig)
                }
            }
            _ => put_ip(&mut frame, port, (source, destination), kind as u8),
        };
        match (headed, port.link) {
            (Err(reason), _) => Err((frame, reason)),
            (Ok(()), Link::Overlay) => Err((frame, Reason::NotCarried)),
            (Ok(()), Link::Ethernet { mac, .. }) => {
                let via = if next.0.via.is_unspecified() { destination } else { next.0.via };
                self.send_ip(turn, frame, next.0.port, mac, via);
                Ok(next.0.port)
            }
        }
    }

    pub(super) fn send_link(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        target: &Target,
    ) -> Result<PortId, (Frame, Reason)> {
        let port = target.port.and_then(|port| self.core.topology.port(port).map(|config| (port, config)));
        let Some((id, port)) = port else { return Err((frame, Reason::NoPort)) };
        if port.link == Link::Overlay {
            return Err((frame, Reason::NotCarried));
        }
        match ethernet::Frame::new_checked(frame.bytes()) {
            Err(_) => Err((frame, Reason::MalformedOutgoing)),
            Ok(header) if frame.len() > header.header_len() + port.mtu => Err((frame, Reason::TooBig)),
            Ok(_) => {
                self.hand_over(turn, frame, id, PeerId::NONE);
                Ok(id)
            }
        }
    }

    /// Forwards an IP packet as a router does: its headers stay but for the time to live.
    pub(super) fn route_ip(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        target: &Target,
    ) -> Result<PortId, (Frame, Reason)> {
        let Some(ip) = Layers::of(frame.bytes()).and_then(|layers| layers.ip) else {
            return Err((frame, Reason::MalformedPacket));
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
        let port = self.core.topology.port(next.port);
        match port.map(|port| (port.link, port.mtu)) {
            Some((Link::Ethernet { .. }, mtu)) if frame.len() > mtu => Err((frame, Reason::TooBig)),
            Some((Link::Ethernet { mac, .. }, _)) => {
                let via = if next.via.is_unspecified() { towards } else { next.via };
                self.send_ip(turn, frame, next.port, mac, via);
                Ok(next.port)
            }
            Some((Link::Overlay, _)) => Err((frame, Reason::NotCarried)),
            None => Err((frame, Reason::NoPort)),
        }
    }

    /// The next hop to an address, by this port if one is given.
    pub(super) fn next_of(&mut self, port: Option<PortId>, to: Addr) -> Option<(NextHop, PeerId)> {
        let core = &mut self.core;
        if to.is_unspecified() {
            return None;
        }
        if let Some(id) = port
            && core.topology.port(id).is_some_and(|port| port.on_link(to))
        {
            let next = NextHop { port: id, via: to };
            return Some((next, core.topology.peer(next, to)));
        }
        let way = *core.topology.way(to);
        let next = way.next.filter(|next| port.is_none_or(|port| port == next.port))?;
        Some((next, way.peer))
    }

    /// Sends what a domain hands to an outgoing channel.
    pub(super) fn send_out(
        &mut self,
        turn: &mut Turn<'_>,
        channel: OutChanId,
        to: Destination,
        frame: Frame,
    ) -> Result<(), (Frame, Error)> {
        let frame = match self.send_headed(turn, channel, frame) {
            Ok(sent) => return sent.map_err(|frame| (frame, Error::Again)),
            Err(frame) => frame,
        };
        let Some(domain) = self.graphs.channels.outs.get(channel).map(|out| out.domain) else {
            return Err((frame, Error::Stale));
        };
        let before = turn.out.frames.len();
        let sent = self.through_modules(
            turn,
            channel,
            frame,
            &mut |cx: &mut Cx, turn: &mut Turn<'_>, frame, target: &Target| {
                cx.send_target(turn, frame, target, to, None)
            },
        );
        if sent.is_ok()
            && let Some(domain) = self.core.domains.of(domain)
        {
            domain.forwarded += 1;
            domain.last_out = channel.index() as u16;
        }
        if sent.is_ok() && turn.out.frames.len() == before + 1 {
            self.keep_head(turn, channel);
        }
        sent.map(drop).map_err(|(frame, reason)| (frame, refusal(reason)))
    }

    /// Sends a packet with the headers of the one before, and says whether the bandwidth was there; or gives it back for the long way.
    #[inline]
    pub(super) fn send_headed(
        &mut self,
        turn: &mut Turn<'_>,
        channel: OutChanId,
        mut frame: Frame,
    ) -> Result<Result<(), Frame>, Frame> {
        let core = &mut self.core;
        let Some(out) = self.graphs.channels.outs.get_mut(channel) else {
            return Err(frame);
        };
        let (length, changes) = (frame.len(), core.topology.changes().wrapping_add(core.resolver.changes()));
        if !out.head.holds(turn.now, changes, length) {
            return Err(frame);
        }
        let Some(domain) = core.domains.of(out.domain) else { return Err(frame) };
        if !domain.may_send(turn.now, length) {
            return Ok(Err(frame));
        }
        let Some(port) = out.head.put(&mut frame) else { return Err(frame) };
        out.traffic.count(length);
        domain.forwarded += 1;
        domain.last_out = channel.index() as u16;
        self.hand_over(turn, frame, port, PeerId::NONE);
        Ok(Ok(()))
    }

    /// Keeps the headers of the frame that was sent last, which was this channel's, if all its packets go where that went.
    #[cold]
    pub(super) fn keep_head(&mut self, turn: &Turn<'_>, channel: OutChanId) {
        let Some(target) = self.graphs.channels.outs.get(channel).map(|out| out.target) else { return };
        let to_one = target.destination.filter(|_| target.layer != Layer::Udp || target.destination_port.is_some());
        let Some((to, frame)) = to_one.zip(turn.out.frames.last()) else { return };
        let Some((next, _)) = self.next_of(target.port, to) else { return };
        let via = if next.via.is_unspecified() { to } else { next.via };
        let Some(until) = self.core.resolver.fresh_until(turn.now, next.port, via) else { return };
        let Some(ip) = Layers::of(frame.bytes()).and_then(|layers| layers.ip) else { return };
        let core = &self.core;
        let Some(out) = self.graphs.channels.outs.get_mut(channel) else { return };
        let Some(port) = core.topology.port(next.port).filter(|_| frame.port == next.port) else { return };
        let changes = core.topology.changes().wrapping_add(self.core.resolver.changes());
        out.head.keep(frame, target.layer, (ip.source, ip.destination), port.mtu, (until, changes));
    }

    /// Takes a packet through bandwidth and modules of an outgoing channel, and sends what becomes of it. The first that cannot be
    /// sent is given back; others are dropped then.
    pub(super) fn through_modules(
        &mut self,
        turn: &mut Turn<'_>,
        channel: OutChanId,
        frame: Frame,
        send: Sending<'_>,
    ) -> Result<PortId, (Frame, Reason)> {
        let core = &mut self.core;
        let Some(out) = self.graphs.channels.outs.get_mut(channel) else {
            return Err((frame, Reason::ChannelGone));
        };
        let (length, target) = (frame.len(), out.target);
        let granted = core.domains.of(out.domain).is_some_and(|owner| owner.may_send(turn.now, length));
        if !granted || out.admit(turn.now, length).is_err() {
            return Err((frame, Reason::Bandwidth));
        }
        if out.modules.is_empty() {
            let sent = send(self, turn, frame, &target);
            self.count_sent(channel, length, sent.is_ok());
            return sent;
        }
        let mut all = core::mem::take(&mut self.graphs.payloads[1]);
        all.push(frame);
        let mut failed = Vec::new();
        for module in out.modules.iter_mut().rev() {
            let mut processed = core::mem::take(&mut self.graphs.processed);
            for frame in all.drain(..) {
                let mut stage =
                    Stage { now: turn.now, from: (Payer::NOBODY, None), pool: &mut turn.out.pool, out: &mut processed };
                let (before, taken) = (stage.out.len(), 1 + module.pieces());
                let refused = module.send(&mut stage, frame).err();
                let given = (processed.len() - before) as u64 + u64::from(refused.is_some()) + module.pieces();
                self.core.ledger.transform(taken, given);
                failed.extend(refused);
            }
            self.graphs.processed = core::mem::replace(&mut all, processed);
        }
        let mut last = Err(Reason::TooBig);
        for frame in all.drain(..) {
            match send(self, turn, frame, &target) {
                Ok(port) if failed.is_empty() => last = Ok(port),
                Ok(_) => {}
                Err(refused) => failed.push(refused),
            }
        }
        self.graphs.payloads[1] = all;
        self.count_sent(channel, length, failed.is_empty());
        let first = failed.pop();
        failed.into_iter().for_each(|(frame, reason)| self.drop(turn, frame, reason));
        match (first, last) {
            (Some(refused), _) => Err(refused),
            (None, Ok(port)) => Ok(port),
            (None, Err(_)) => Ok(target.port.unwrap_or(PortId(0))),
        }
    }

    pub(super) fn count_sent(&mut self, channel: OutChanId, length: usize, sent: bool) {
        match self.graphs.channels.outs.get_mut(channel) {
            Some(out) if sent => out.traffic.count(length),
            Some(out) => out.traffic.dropped += 1,
            None => {}
        }
    }
}

/// How a caller is told why a packet could not be sent.
fn refusal(reason: Reason) -> Error {
    match reason {
        Reason::TooBig => Error::TooBig,
        Reason::NoRoute | Reason::NoNeighbour | Reason::NoPort | Reason::NotCarried | Reason::FamilyMismatch => {
            Error::Unknown
        }
        Reason::MalformedOutgoing | Reason::MalformedPacket | Reason::Source => Error::Invalid,
        Reason::ChannelGone => Error::Stale,
        _ => Error::Again,
    }
}

/// A UDP header in front, with a checksum of its own or the one that the payload had.
fn put_datagram(frame: &mut Frame, ends: [(Addr, u16); 2], carried: Option<Carried>) -> bool {
    let ([source, destination], ports) = (ends.map(|(addr, _)| addr), (ends[0].1, ends[1].1));
    let carried = carried.filter(|carried| carried.checksum != 0 || destination.is_v4());
    if !put_udp(frame, (source, destination), ports, carried.is_none()) {
        return false;
    }
    if let Some(carried) = carried.filter(|carried| carried.checksum != 0)
        && let Ok(mut datagram) = udp::PacketMut::new_checked(frame.bytes_mut())
    {
        datagram.carry_checksum(carried.checksum, carried.ends, ends);
    }
    true
}
