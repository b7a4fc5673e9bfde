//! The way out of channels: bandwidth, engines, headers.

use super::Cx;
use super::output::Turn;
use crate::classify::headers::Layers;
use crate::classify::rule::Layer;
use crate::core::reason::Reason;
use crate::frame::{Frame, Payer, PeerId, PortId};
use crate::graph::Target;
use crate::graph::engine::OUTWARD;
use crate::graph::exit::{self, Departure};
use crate::nodeos::interface::{Destination, Error, OutChanId};
use crate::topology::Topology;

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

    /// Takes a packet through bandwidth and engines of an outgoing channel, and sends what becomes of it with the
    /// headers that `head` puts on. The first that cannot be sent is given back; others are dropped.
    pub(super) fn through_engines(
        &mut self,
        turn: &mut Turn<'_>,
        channel: OutChanId,
        frame: Frame,
        head: Heading<'_>,
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
        if out.graph.is_empty() {
            let sent = self.send_headed_by(turn, frame, &target, head);
            self.count_sent(channel, length, sent.is_ok());
            return sent;
        }
        let mut scratch = core::mem::take(&mut self.graphs.scratch[1]);
        let nobody = (Payer::NOBODY, None);
        let (taken, given) = out.graph.push(OUTWARD, frame, (turn.now, nobody), &mut turn.out.pool, &mut scratch);
        let domain = out.domain;
        core.ledger.transform(taken, given);
        self.count_lost(domain, &mut scratch.lost);
        let mut port = None;
        for frame in scratch.out.drain(..) {
            match self.send_headed_by(turn, frame, &target, head) {
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
        self.count_sent(channel, length, first.is_none());
        match first {
            Some(refused) => Err(refused),
            // Nothing is to be sent yet.
            None => Ok(port.or(target.port).unwrap_or(PortId(0))),
        }
    }

    /// Puts headers on a packet, and sends it.
    #[inline]
    fn send_headed_by(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        target: &Target,
        head: Heading<'_>,
    ) -> Result<PortId, (Frame, Reason)> {
        match head(&mut self.core.topology, &mut frame, target) {
            Ok(departure) => self.leave(turn, frame, departure),
            Err(reason) => Err((frame, reason)),
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
