//! Packets of channels: to the domain that has them. From there on: `outgoing`.

use super::Node;
use super::hosts::Lent;
use super::outgoing::Carried;
use super::output::{EventKind, Turn};
use super::paths::Work;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{BUFFER, Frame, PortId};
use crate::nodeos::channel::module::Stage;
use crate::nodeos::channel::own;
use crate::nodeos::channel::spec::Layer;
use crate::nodeos::channel::{CutChan, Taker, Target};
use crate::nodeos::interface::{CutChanId, Ends, InChanId, Upcall};
use crate::wire::Addr;
use core::ops::Range;

/// What waits for environments of this process to return from the function that has caused it: one overrun for each pool.
const UNTOLD_MAX: usize = 1024;

impl Node {
    /// An ANEP packet of a type that no environment of the node's own speaks: its payload is a channel's, or it is given back.
    pub(super) fn receive_anep_channel(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
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
        frame.ends = Ends::default();
        self.enter_channel(turn, frame, owner, payload.start, payload.end);
        None
    }

    /// A packet has been found to be a channel's, with this payload; its domain pays from here on.
    #[inline]
    pub(super) fn enter_channel(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        owner: Taker,
        start: usize,
        end: usize,
    ) {
        let Taker { channel: id, domain } = owner;
        let Some(channel) = self.channels.ins.get_mut(id) else {
            return self.drop(turn, frame, Reason::NoApplication);
        };
        channel.traffic.count(end - start);
        let admitted = match self.core.domains.of(domain) {
            Some(domain) => domain.admit(turn.now, frame.len()),
            None => Err(Reason::Budget),
        };
        if let Err(reason) = admitted {
            channel.traffic.dropped += 1;
            return self.throttle(turn, frame, reason, domain);
        }
        if channel.is_plain() {
            frame.truncate(end);
            frame.strip(start);
            return self.hand_to_domain(turn, frame, id, domain);
        }
        self.enter_worked(turn, frame, owner, start..end);
    }

    /// A packet is over its domain's budget.
    #[cold]
    fn throttle(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        self.paths.count_came(domain);
        let known = self.core.domains.of(domain);
        if known.is_some_and(|known| known.strike(turn.now)) && !self.overdue.contains(&domain) {
            self.overdue.push(domain);
        }
        self.drop_in(turn, frame, reason, domain);
    }

    /// A packet has been admitted by a channel that does not give it to its domain as it is.
    fn enter_worked(&mut self, turn: &mut Turn<'_>, mut frame: Frame, owner: Taker, payload: Range<usize>) {
        let (Taker { channel: owner, domain }, ends) = (owner, frame.ends);
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
            return self.pass_on_payload(turn, frame, cut, carried);
        }
        let Some(channel) = self.channels.ins.get_mut(owner).filter(|channel| !channel.modules.is_empty()) else {
            return self.hand_up(turn, frame, (owner, domain, cut));
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
                    self.core.drops.count(reason);
                    turn.out.pool.give(frame);
                }
            }
            self.processed = core::mem::replace(&mut all, out);
        }
        channel.traffic.dropped += dropped;
        for mut frame in all.drain(..) {
            frame.ends = ends;
            self.hand_up(turn, frame, (owner, domain, cut));
        }
        self.payloads[0] = all;
    }

    /// The payload of a channel goes to whoever has it: the other half of a cut-through channel, or its domain.
    fn hand_up(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        (channel, domain, cut): (InChanId, DomainId, Option<CutChanId>),
    ) {
        match cut {
            None => self.hand_to_domain(turn, frame, channel, domain),
            Some(cut) => self.pass_on_payload(turn, frame, cut, None),
        }
    }

    /// The payload of a channel is its domain's: now, or when that has its turn.
    #[inline]
    fn hand_to_domain(&mut self, turn: &mut Turn<'_>, frame: Frame, channel: InChanId, domain: DomainId) {
        if self.paths.is_queueing() {
            self.enqueue(turn, domain, frame, Work::Channel(channel));
        } else {
            self.upcall_packet(turn, domain, channel, frame);
        }
    }

    /// The payload of a channel goes into headers of an outgoing one's, with the checksum of its UDP header before, if it had one.
    fn pass_on_payload(&mut self, turn: &mut Turn<'_>, frame: Frame, cut: CutChanId, checksum: Option<u16>) {
        let (length, ends) = (frame.len(), frame.ends);
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

    /// Tells whoever runs a domain what has happened to it, but for packets.
    pub(super) fn upcall(&mut self, turn: &mut Turn<'_>, domain: DomainId, upcall: Upcall) {
        let Some(found) = self.core.domains.of(domain) else { return };
        upcall.count_in(&mut found.counts.activations);
        let host = found.host;
        match self.hosts.lend(host) {
            Lent::Remote => turn.out.upcalls.push((host, domain, upcall)),
            Lent::Local(mut environment) => {
                let caller = environment.acts_for(domain);
                environment.upcall(&mut self.os(turn, caller), domain, upcall);
                self.settle_hand();
                self.hosts.give_back(host, environment);
            }
            // Its function has caused this: it is told when that has returned.
            Lent::Called if self.untold.len() < UNTOLD_MAX => self.untold.push((domain, upcall)),
            Lent::Called | Lent::Nobody => {}
        }
    }

    /// Tells environments of this process what has happened to them while they were called.
    pub(super) fn tell_untold(&mut self, turn: &mut Turn<'_>) {
        for (domain, upcall) in core::mem::take(&mut self.untold) {
            self.upcall(turn, domain, upcall);
        }
    }

    /// Hands a packet to whoever runs a domain.
    pub(super) fn upcall_packet(&mut self, turn: &mut Turn<'_>, domain: DomainId, channel: InChanId, frame: Frame) {
        let Some(host) = self.core.domains.of(domain).map(|found| found.host) else {
            return self.drop(turn, frame, Reason::NoApplication);
        };
        match self.hosts.lend(host) {
            Lent::Remote => turn.out.upcalls.push((host, domain, Upcall::Packet { channel, frame })),
            Lent::Local(mut environment) => {
                if !self.hand(domain) {
                    self.hosts.give_back(host, environment);
                    self.look_after_pools(turn);
                    return self.refuse_packet(turn, domain, channel, frame);
                }
                let caller = environment.acts_for(domain);
                // Made where it is handed over: a copy would wait for its parts to be written.
                environment.upcall(&mut self.os(turn, caller), domain, Upcall::Packet { channel, frame });
                self.settle_hand();
                self.hosts.give_back(host, environment);
            }
            // It is being called already, or gone: its own packets do not call it again.
            Lent::Called | Lent::Nobody => self.drop(turn, frame, Reason::NoApplication),
        }
    }

    /// A domain is handed a packet: whether its memory pool has room for that.
    ///
    /// Most environments have let go of a packet when they return, so it is charged only then, or before anything else is asked of pools.
    /// As long as no pool is over its limit that is safe: each has room for a buffer beyond it.
    #[inline]
    fn hand(&mut self, domain: DomainId) -> bool {
        if self.core.pools.is_quiet() {
            self.in_hand = Some(domain);
            return true;
        }
        self.core.pools.charge(domain, BUFFER).is_ok()
    }

    /// The packet in hand is charged now, if there is one that its domain has not let go of.
    #[inline]
    pub(super) fn settle_hand(&mut self) {
        if let Some(domain) = self.in_hand.take() {
            // There is room, or the domain has ended meanwhile and holds nothing.
            let _ = self.core.pools.charge(domain, BUFFER);
        }
    }

    /// A domain lets go of a packet.
    #[inline]
    pub(super) fn let_go(&mut self, domain: DomainId) {
        if self.in_hand == Some(domain) {
            self.in_hand = None;
        } else {
            self.core.pools.free(domain, BUFFER);
        }
    }

    /// A packet finds no memory of its domain.
    #[cold]
    fn refuse_packet(&mut self, turn: &mut Turn<'_>, domain: DomainId, channel: InChanId, frame: Frame) {
        if let Some(channel) = self.channels.ins.get_mut(channel) {
            channel.traffic.dropped += 1;
        }
        self.drop_in(turn, frame, Reason::ChannelFull, domain);
    }
}

/// An end of a packet as a number.
fn spread(addr: Addr, port: u16) -> u64 {
    let wide = u128::from_be_bytes(addr.0);
    ((wide >> 64) as u64).rotate_left(17) ^ (wide as u64) ^ u64::from(port) << 48
}

/// ANEP types that channels cannot have: the node's own environments speak them.
pub(super) fn is_own_type(kind: u16) -> bool {
    own::place(kind).is_some()
}
