//! Packets of channels: to the domain that has them, and from it to a port.

use super::Node;
use super::output::{EventKind, Turn};
use super::paths::Work;
use super::sending::{put_ip, put_udp};
use crate::classify::layers::Layers;
use crate::nodeos::channel::demux::Found;
use crate::nodeos::channel::module::Stage;
use crate::nodeos::channel::own;
use crate::nodeos::channel::spec::Layer;
use crate::nodeos::channel::{CutChan, Taker, Target};
use crate::nodeos::domain::DomainId;
use crate::nodeos::interface::{CutChanId, Destination, Ends, Error, InChanId, OutChanId, Upcall};
use crate::nodeos::reason::Reason;
use crate::port::frame::BUFFER;
use crate::port::{Envelope, Frame, PeerId, PortId};
use crate::topology::{Link, NextHop};
use crate::wire::{Addr, ethernet, ipv4, ipv6, udp};

/// How a packet of an outgoing channel is sent: says by which port, or gives it back.
type Sending<'a> = &'a mut dyn FnMut(&mut Node, &mut Turn<'_>, Frame, &Target) -> Result<PortId, (Frame, Reason)>;

/// Hops that a packet of a channel may go.
const HOPS: u8 = 64;

/// The checksum of a datagram between other ends: what was damaged on its way stays so. Zero: it has none.
#[derive(Clone, Copy)]
pub(super) struct Carried {
    checksum: u16,
    ends: [(Addr, u16); 2],
}

impl Node {
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
    #[inline]
    pub(super) fn enter_channel(&mut self, turn: &mut Turn<'_>, mut frame: Frame, found: Found<Taker>) {
        let Found { owner: Taker { channel: owner, domain }, payload, ends } = found;
        let Some((channel, env)) = self.channels.ins.get_mut(owner).zip(self.env.as_deref_mut()) else {
            return self.drop(turn, frame, Reason::NoApplication);
        };
        channel.traffic.count(payload.len());
        let admitted = match env.domains.of(domain) {
            Some(domain) => domain.admit(turn.now, frame.len()),
            None => Err(Reason::Budget),
        };
        if let Err(reason) = admitted {
            channel.traffic.dropped += 1;
            return self.throttle(turn, frame, reason, domain);
        }
        if channel.is_plain() {
            frame.truncate(payload.end);
            frame.strip(payload.start);
            return self.hand_up(turn, frame, (owner, domain, None), ends);
        }
        self.enter_worked(turn, frame, Found { owner: Taker { channel: owner, domain }, payload, ends });
    }

    /// A packet is over its domain's budget.
    #[cold]
    fn throttle(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        self.paths.count_came(domain);
        let known = self.env.as_deref_mut().and_then(|env| env.domains.of(domain));
        if known.is_some_and(|known| known.strike(turn.now)) && !self.overdue.contains(&domain) {
            self.overdue.push(domain);
        }
        self.drop_in(turn, frame, reason, domain);
    }

    /// A packet has been admitted by a channel that does not give it to its domain as it is.
    fn enter_worked(&mut self, turn: &mut Turn<'_>, mut frame: Frame, found: Found<Taker>) {
        let Found { owner: Taker { channel: owner, domain }, payload, ends } = found;
        let Some(channel) = self.channels.ins.get_mut(owner) else {
            return self.drop(turn, frame, Reason::NoApplication);
        };
        let (cut, length) = (channel.cut, payload.len());
        let mut carried = None;
        match cut.and_then(|cut| Some((cut, self.joined(cut)?))) {
            Some((cut, Layer::Ip)) => {
                return self.cut_through(turn, frame, length, cut, |node, turn, frame, target| {
                    node.route_ip(turn, frame, target)
                });
            }
            // The last two octets of the UDP header.
            Some(_) => {
                let before =
                    payload.start.checked_sub(2).and_then(|at| frame.bytes().get(at..)?.first_chunk().copied());
                carried = before.map(u16::from_be_bytes);
            }
            None => {}
        }
        frame.truncate(payload.end);
        frame.strip(payload.start);
        if let (Some(cut), Some(_)) = (cut, carried) {
            return self.pass_on_payload(turn, frame, cut, ends, carried);
        }
        let Some(channel) = self.channels.ins.get_mut(owner).filter(|channel| !channel.modules.is_empty()) else {
            return self.hand_up(turn, frame, (owner, domain, cut), ends);
        };
        let mut all = core::mem::take(&mut self.payloads[0]);
        all.push(frame);
        let from = ends.source.map_or(0, |(addr, port)| spread(addr, port));
        let mut dropped = 0;
        for module in &mut channel.modules {
            let mut out = core::mem::take(&mut self.processed);
            for frame in all.drain(..) {
                let mut stage = Stage { now: turn.now, from, pool: &mut turn.out.pool, out: &mut out };
                if let Err((frame, reason)) = module.receive(&mut stage, frame) {
                    dropped += 1;
                    self.drops.count(reason);
                    turn.out.pool.give(frame);
                }
            }
            self.processed = core::mem::replace(&mut all, out);
        }
        channel.traffic.dropped += dropped;
        for frame in all.drain(..) {
            self.hand_up(turn, frame, (owner, domain, cut), ends);
        }
        self.payloads[0] = all;
    }

    /// The payload of a channel goes to whoever has it: the other half of a cut-through channel, or its domain.
    fn hand_up(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        (channel, domain, cut): (InChanId, DomainId, Option<CutChanId>),
        ends: Ends,
    ) {
        let Some(cut) = cut else {
            if self.paths.is_queueing() {
                return self.enqueue(turn, domain, Work::Channel { channel, frame, ends });
            }
            return self.upcall(turn, domain, Upcall::Packet { channel, frame, ends });
        };
        self.pass_on_payload(turn, frame, cut, ends, None);
    }

    /// The payload of a channel goes into headers of an outgoing one's, with the checksum of its UDP header before, if it had one.
    fn pass_on_payload(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        cut: CutChanId,
        ends: Ends,
        checksum: Option<u16>,
    ) {
        let length = frame.len();
        self.cut_through(turn, frame, length, cut, |node, turn, frame, target| {
            let kept = |end: Option<(Addr, u16)>| end.unwrap_or_default();
            let (source, destination) = (kept(ends.source), kept(ends.destination));
            let carried = checksum.map(|checksum| Carried { checksum, ends: [source, destination] });
            let whole = Target {
                source: target.source.or(Some(source.0)),
                destination: target.destination.or(Some(destination.0)),
                destination_port: target.destination_port.or(Some(destination.1)),
                ..*target
            };
            node.send_target(turn, frame, &whole, None, carried)
        });
    }

    /// The protocol that both ends of a cut-through channel speak without anything else, if they do.
    fn joined(&self, cut: CutChanId) -> Option<Layer> {
        let cut = self.channels.cuts.get(cut)?;
        CutChan::joins(self.channels.ins.get(cut.from)?, self.channels.outs.get(cut.to)?)
    }

    /// A packet of so many octets goes from an incoming to an outgoing channel.
    fn cut_through(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        length: usize,
        cut: CutChanId,
        mut send: impl FnMut(&mut Node, &mut Turn<'_>, Frame, &Target) -> Result<PortId, (Frame, Reason)>,
    ) {
        let Some(cut) = self.channels.cuts.get_mut(cut) else { return self.drop(turn, frame, Reason::NoApplication) };
        let (domain, to) = (cut.domain, cut.to);
        cut.traffic.count(length);
        let trace = frame.trace;
        match self.through_modules(turn, to, frame, &mut send) {
            Ok(port) => turn.out.event(trace, EventKind::Forwarded(port, Addr::UNSPECIFIED)),
            Err((frame, reason)) => self.drop_in(turn, frame, reason, domain),
        }
    }

    /// Tells whoever runs a domain.
    pub(super) fn upcall(&mut self, turn: &mut Turn<'_>, domain: DomainId, upcall: Upcall) {
        let Some(found) = self.env.as_deref_mut().and_then(|env| env.domains.of(domain)) else {
            return self.take_back(turn, upcall);
        };
        if !matches!(upcall, Upcall::Packet { .. }) {
            found.counts.activations.count(&upcall);
        }
        let host = found.host;
        match self.hosts.lend(host) {
            super::hosts::Lent::Remote => turn.out.upcalls.push((host, domain, upcall)),
            super::hosts::Lent::Local(mut environment) => {
                if matches!(upcall, Upcall::Packet { .. }) && !self.hand(domain) {
                    self.hosts.give_back(host, environment);
                    self.look_after_pools(turn);
                    return self.refuse_packet(turn, domain, upcall);
                }
                let caller = environment.acts_for(domain);
                environment.upcall(&mut self.os(turn, caller), domain, upcall);
                self.settle_hand();
                self.hosts.give_back(host, environment);
            }
            // It is being called already, or gone: its own packets do not call it again.
            super::hosts::Lent::Nobody => self.take_back(turn, upcall),
        }
    }

    /// A domain is handed a packet: whether its memory pool has room for that.
    ///
    /// Most environments have let go of a packet when they return, so it is charged only then, or before anything else is asked of pools.
    /// As long as no pool is over its limit that is safe: each has room for a buffer beyond it.
    #[inline]
    fn hand(&mut self, domain: DomainId) -> bool {
        if self.pools.is_quiet() {
            self.in_hand = Some(domain);
            return true;
        }
        self.pools.charge(domain, BUFFER).is_ok()
    }

    /// The packet in hand is charged now, if there is one that its domain has not let go of.
    #[inline]
    pub(super) fn settle_hand(&mut self) {
        if let Some(domain) = self.in_hand.take() {
            // There is room, or the domain has ended meanwhile and holds nothing.
            let _ = self.pools.charge(domain, BUFFER);
        }
    }

    /// A domain lets go of a packet.
    #[inline]
    pub(super) fn let_go(&mut self, domain: DomainId) {
        if self.in_hand == Some(domain) {
            self.in_hand = None;
        } else {
            self.pools.free(domain, BUFFER);
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
        channel: OutChanId,
        to: Destination,
        frame: Frame,
    ) -> Result<(), (Frame, Error)> {
        let frame = match self.send_headed(turn, channel, frame) {
            Ok(sent) => return sent.map_err(|frame| (frame, Error::Again)),
            Err(frame) => frame,
        };
        let Some(domain) = self.channels.outs.get(channel).map(|out| out.domain) else {
            return Err((frame, Error::Stale));
        };
        let before = turn.out.frames.len();
        let sent = self.through_modules(
            turn,
            channel,
            frame,
            &mut |node: &mut Node, turn: &mut Turn<'_>, frame, target: &Target| {
                node.send_target(turn, frame, target, to, None)
            },
        );
        if sent.is_ok()
            && let Some(domain) = self.env.as_deref_mut().and_then(|env| env.domains.of(domain))
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
    fn send_headed(
        &mut self,
        turn: &mut Turn<'_>,
        channel: OutChanId,
        mut frame: Frame,
    ) -> Result<Result<(), Frame>, Frame> {
        let Some((out, env)) = self.channels.outs.get_mut(channel).zip(self.env.as_deref_mut()) else {
            return Err(frame);
        };
        let (length, changes) = (frame.len(), env.topology.changes().wrapping_add(self.resolver.changes()));
        if !out.head.holds(turn.now, changes, length) {
            return Err(frame);
        }
        let Some(domain) = env.domains.of(out.domain) else { return Err(frame) };
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
    fn keep_head(&mut self, turn: &Turn<'_>, channel: OutChanId) {
        let Some(target) = self.channels.outs.get(channel).map(|out| out.target) else { return };
        let to_one = target.destination.filter(|_| target.layer != Layer::Udp || target.destination_port.is_some());
        let Some((to, frame)) = to_one.zip(turn.out.frames.last()) else { return };
        let Some((next, _)) = self.next_of(target.port, to) else { return };
        let via = if next.via.is_unspecified() { to } else { next.via };
        let Some(until) = self.resolver.fresh_until(turn.now, next.port, via) else { return };
        let Some(ip) = Layers::of(frame.bytes()).and_then(|layers| layers.ip) else { return };
        let (Some(env), Some(out)) = (self.env.as_deref(), self.channels.outs.get_mut(channel)) else { return };
        let Some(port) = env.topology.port(next.port).filter(|_| frame.port == next.port) else { return };
        let changes = env.topology.changes().wrapping_add(self.resolver.changes());
        out.head.keep(frame, target.layer, (ip.source, ip.destination), port.mtu, (until, changes));
    }

    /// Takes a packet through bandwidth and modules of an outgoing channel, and sends what becomes of it. The first that cannot be
    /// sent is given back; others are dropped then.
    fn through_modules(
        &mut self,
        turn: &mut Turn<'_>,
        channel: OutChanId,
        frame: Frame,
        send: Sending<'_>,
    ) -> Result<PortId, (Frame, Reason)> {
        let Some((out, env)) = self.channels.outs.get_mut(channel).zip(self.env.as_deref_mut()) else {
            return Err((frame, Reason::NoApplication));
        };
        let (length, target) = (frame.len(), out.target);
        let granted = env.domains.of(out.domain).is_some_and(|owner| owner.may_send(turn.now, length));
        if !granted || out.admit(turn.now, length).is_err() {
            return Err((frame, Reason::Bandwidth));
        }
        if out.modules.is_empty() {
            let sent = send(self, turn, frame, &target);
            self.count_sent(channel, length, sent.is_ok());
            return sent;
        }
        let mut all = core::mem::take(&mut self.payloads[1]);
        all.push(frame);
        let mut failed = None;
        for module in out.modules.iter_mut().rev() {
            let mut processed = core::mem::take(&mut self.processed);
            for frame in all.drain(..) {
                let mut stage = Stage { now: turn.now, from: 0, pool: &mut turn.out.pool, out: &mut processed };
                failed = module.send(&mut stage, frame).err().or(failed);
            }
            self.processed = core::mem::replace(&mut all, processed);
        }
        let mut last = Err(Reason::TooBig);
        for frame in all.drain(..) {
            match send(self, turn, frame, &target) {
                Ok(port) if failed.is_none() => last = Ok(port),
                Ok(_) => {}
                Err(refused) => failed = Some(refused),
            }
        }
        self.payloads[1] = all;
        self.count_sent(channel, length, failed.is_none());
        match (failed, last) {
            (Some(refused), _) => Err(refused),
            (None, Ok(port)) => Ok(port),
            (None, Err(_)) => Ok(target.port.unwrap_or(PortId(0))),
        }
    }

    fn count_sent(&mut self, channel: OutChanId, length: usize, sent: bool) {
        match self.channels.outs.get_mut(channel) {
            Some(out) if sent => out.traffic.count(length),
            Some(out) => out.traffic.dropped += 1,
            None => {}
        }
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

/// An end of a packet as a number.
fn spread(addr: Addr, port: u16) -> u64 {
    let wide = u128::from_be_bytes(addr.0);
    ((wide >> 64) as u64).rotate_left(17) ^ (wide as u64) ^ u64::from(port) << 48
}

/// How a caller is told why a packet could not be sent.
fn refusal(reason: Reason) -> Error {
    match reason {
        Reason::TooBig => Error::TooBig,
        Reason::NoRoute | Reason::NoNeighbour => Error::Unknown,
        Reason::Malformed | Reason::Source => Error::Invalid,
        Reason::NoApplication => Error::Stale,
        _ => Error::Again,
    }
}

/// ANEP types that channels cannot have: the node's own environments speak them.
pub(super) fn is_own_type(kind: u16) -> bool {
    own::place(kind).is_some()
}
