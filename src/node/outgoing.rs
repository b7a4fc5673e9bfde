//! The way out of channels: engines, headers, bandwidth.
//!
//! Bandwidth is charged for frames as they leave, headers and all. Example: an empty datagram over IPv4 costs 42 bytes,
//! and a payload that an engine has cut into 22 pieces costs all 22 frames. Cut-through in the kernel half does the same
//! (`bpf/cut.h`).

use super::Cx;
use super::output::Turn;
use crate::classify::headers::Layers;
use crate::classify::rule::Layer;
use crate::core::reason::Reason;
use crate::frame::{Frame, Link, Payer, PeerId, PortId};
use crate::graph::Target;
use crate::graph::engine::OUTWARD;
use crate::graph::exit::{self, Departure};
use crate::nodeos::interface::{Destination, Error, OutChanId};
use crate::topology::Topology;
use crate::wire::proof::PROOF;
use crate::wire::{anep, ethernet, ipv4, ipv6, udp};

/// Bytes of the headers of a datagram over IPv6, the longest that are put on, and over IPv4.
const HEADERS: usize = ethernet::HEADER + ipv6::HEADER + udp::HEADER;
const HEADERS_V4: usize = ethernet::HEADER + ipv4::HEADER + udp::HEADER;

/// Bytes that every bandwidth can have at once ([`crate::core::share::Bandwidth::burst`]).
const AT_ONCE: usize = 65_536;

/// What puts the headers of an outgoing channel on a packet, and says by which way it leaves.
type Heading<'a> = &'a mut dyn FnMut(&mut Topology, &mut Frame, &Target) -> Result<Departure, Reason>;

impl Cx {
    /// Sends a packet that has its headers, and says by which port; or gives it back.
    pub(super) fn leave(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        departure: Departure,
    ) -> Result<PortId, (Frame, Reason)> {
        match departure {
            Departure::Link(port) => {
                self.hand_over(turn, frame, port, PeerId::NONE);
                Ok(port)
            }
            Departure::Ip(port, own, via) => {
                self.send_ip(turn, frame, port, own, via);
                Ok(port)
            }
            Departure::Anep(kind, next, [source, destination]) => {
                self.send(turn, frame, kind, next, source, destination).map(|()| next.0.port)
            }
        }
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
        let sent = self.through_engines(turn, channel, frame, &mut |topology, frame, target| {
            exit::depart(topology, frame, target, to, None)
        });
        if sent.is_ok()
            && let Some(domain) = self.core.domains.of(domain)
        {
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
        if !domain.may_send(turn.now, length + out.head.length()) {
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
        let Some((next, _)) = exit::next_of(&mut self.core.topology, target.port, to) else { return };
        let via = exit::via(next, to);
        let Some(until) = self.core.resolver.fresh_until(turn.now, next.port, via) else { return };
        let Some(ip) = Layers::of(frame.bytes()).and_then(|layers| layers.ip) else { return };
        let core = &self.core;
        let Some(out) = self.graphs.channels.outs.get_mut(channel) else { return };
        let Some(port) = core.topology.port(next.port).filter(|_| frame.port == next.port) else { return };
        let changes = core.topology.changes().wrapping_add(self.core.resolver.changes());
        out.head.keep(frame, target.layer, (ip.source, ip.destination), port.mtu, (until, changes));
    }

    /// Takes a packet through the engines of an outgoing channel, and sends what becomes of it with the headers that
    /// `head` puts on. The first that cannot be sent is given back; others are dropped.
    pub(super) fn through_engines(
        &mut self,
        turn: &mut Turn<'_>,
        channel: OutChanId,
        frame: Frame,
        head: Heading<'_>,
    ) -> Result<PortId, (Frame, Reason)> {
        let length = frame.len();
        let Some(out) = self.graphs.channels.outs.get_mut(channel) else {
            return Err((frame, Reason::ChannelGone));
        };
        if out.graph.is_empty() {
            let sent = self.send_headed_by(turn, channel, frame, head);
            self.count_sent(channel, length, sent.as_ref().map(drop).map_err(|(_, reason)| *reason));
            return sent;
        }
        let (domain, of_target) = (out.domain, out.target.port);
        // What cannot be paid for as it is does not go into the engines: it is the caller's as it was.
        if let Err(reason) = self.could_grant(turn.now, channel, length) {
            return Err((frame, reason));
        }
        let mut scratch = core::mem::take(&mut self.graphs.scratch[1]);
        if let Some(out) = self.graphs.channels.outs.get_mut(channel) {
            let nobody = (Payer::NOBODY, None);
            let (taken, given) = out.graph.push(OUTWARD, frame, (turn.now, nobody), &mut turn.out.pool, &mut scratch);
            self.transform(domain, taken, given);
        }
        self.count_lost(domain, &mut scratch.lost);
        // All that comes of a packet goes or none: the half of its pieces would be of no use.
        let wanted: usize = scratch.out.iter().map(|frame| frame.len() + HEADERS).sum();
        let granted = self.could_grant(turn.now, channel, wanted.min(AT_ONCE));
        let mut port = None;
        for frame in scratch.out.drain(..) {
            let sent = match granted {
                Ok(()) => self.send_headed_by(turn, channel, frame, &mut *head),
                Err(reason) => Err((frame, reason)),
            };
            match sent {
                Ok(by) => port = Some(by),
                Err(refused) => scratch.dropped.push(refused),
            }
        }
        let mut failed = scratch.dropped.drain(..);
        let first = failed.next();
        for (frame, reason) in failed {
            self.drop_in(turn, frame, reason, domain);
        }
        self.graphs.scratch[1] = scratch;
        self.count_sent(channel, length, first.as_ref().map_or(Ok(()), |(_, reason)| Err(*reason)));
        match first {
            Some(refused) => Err(refused),
            // Nothing is to be sent yet.
            None => Ok(port.or(of_target).unwrap_or(PortId(0))),
        }
    }

    /// Puts headers on a packet, and sends it if its domain and its channel have the bandwidth for them too. What cannot
    /// be sent is given back without headers.
    #[inline]
    fn send_headed_by(
        &mut self,
        turn: &mut Turn<'_>,
        channel: OutChanId,
        mut frame: Frame,
        head: Heading<'_>,
    ) -> Result<PortId, (Frame, Reason)> {
        let Some(out) = self.graphs.channels.outs.get_mut(channel) else {
            return Err((frame, Reason::ChannelGone));
        };
        let (length, domain) = (frame.len(), out.domain);
        let sent = match head(&mut self.core.topology, &mut frame, &out.target) {
            Ok(departure) => {
                let bytes = self.leaving(&frame, &departure);
                match self.grant(turn.now, channel, bytes) {
                    Ok(()) => self.leave(turn, frame, departure),
                    Err(reason) => Err((frame, reason)),
                }
            }
            Err(reason) => Err((frame, reason)),
        };
        if sent.is_ok()
            && let Some(domain) = self.core.domains.of(domain)
        {
            domain.forwarded += 1;
        }
        sent.map_err(|(mut frame, reason)| {
            frame.strip(frame.len().saturating_sub(length));
            (frame, reason)
        })
    }

    /// The bytes of a packet that leaves this way, with the headers that it does not have yet. Of an overlay it is the
    /// payload of the datagram.
    fn leaving(&self, frame: &Frame, departure: &Departure) -> usize {
        let further = match departure {
            Departure::Link(_) => 0,
            Departure::Ip(..) => ethernet::HEADER,
            Departure::Anep(_, (next, _), [_, destination]) => {
                let port = self.core.topology.port(next.port);
                let proven = self.has_key(next.port, exit::via(*next, *destination));
                let anep = anep::HEADER + if proven { PROOF } else { 0 };
                match port.map(|port| port.link) {
                    Some(Link::Ethernet { .. }) if destination.is_v4() => anep + HEADERS_V4,
                    Some(Link::Ethernet { .. }) => anep + HEADERS,
                    _ => anep,
                }
            }
        };
        frame.len() + further
    }

    /// Takes so many bytes of the bandwidth of a channel and of its domain.
    #[inline]
    fn grant(&mut self, now: u64, channel: OutChanId, bytes: usize) -> Result<(), Reason> {
        let Some(out) = self.graphs.channels.outs.get_mut(channel) else { return Err(Reason::ChannelGone) };
        let granted = self.core.domains.of(out.domain).is_some_and(|owner| owner.may_send(now, bytes));
        if granted && out.admit(now, bytes).is_ok() { Ok(()) } else { Err(Reason::Bandwidth) }
    }

    /// Whether there is as much.
    fn could_grant(&mut self, now: u64, channel: OutChanId, bytes: usize) -> Result<(), Reason> {
        let Some(out) = self.graphs.channels.outs.get_mut(channel) else { return Err(Reason::ChannelGone) };
        let has = self.core.domains.of(out.domain).is_some_and(|owner| owner.could_send(now, bytes));
        if has && out.could_admit(now, bytes) { Ok(()) } else { Err(Reason::Bandwidth) }
    }

    /// Counts a packet at its channel. Who wants more than a bandwidth is counted where that is asked.
    fn count_sent(&mut self, channel: OutChanId, length: usize, sent: Result<(), Reason>) {
        let Some(out) = self.graphs.channels.outs.get_mut(channel) else { return };
        match sent {
            Ok(()) => out.traffic.count(length),
            Err(Reason::Bandwidth) => {}
            Err(_) => out.traffic.dropped += 1,
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
