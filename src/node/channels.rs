//! Packets of channels: to the domain that has them. From there on: `outgoing`.

use super::hosts::{Hosts, Reached};
use super::os::Os;
use super::outgoing::Carried;
use super::output::{EventKind, Turn};
use super::paths::Work;
use super::{Cx, Node};
use crate::classify::rule::Layer;
use crate::core::Core;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{BUFFER, Frame, PortId};
use crate::nodeos::channel::module::{Lost, Stage};
use crate::nodeos::channel::{CutChan, InChan, Taker, Target};
use crate::nodeos::interface::{CutChanId, Ends, InChanId, Upcall};
use crate::wire::Addr;
use core::ops::Range;

impl Node {
    /// An ANEP packet of a type that no environment of the node's own speaks: its payload is a channel's, or it is given back.
    pub(super) fn receive_anep_channel(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        kind: u16,
        header: usize,
    ) -> Option<Frame> {
        if self.cx.graphs.channels.demux.is_empty() {
            return Some(frame);
        }
        let payload = header..frame.len();
        let owner = frame
            .bytes()
            .get(payload.clone())
            .and_then(|it| self.cx.graphs.channels.demux.find_anep(frame.port, kind, it));
        let Some(owner) = owner else { return Some(frame) };
        frame.ends = Ends::default();
        let payer = frame.payer;
        self.at_once(turn, payer, |node, turn| node.enter_channel(turn, frame, owner, payload.start, payload.end));
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
        let Some(channel) = self.cx.graphs.channels.ins.get_mut(id) else {
            return self.cx.drop(turn, frame, Reason::ChannelGone);
        };
        channel.traffic.count(end - start);
        let admitted = match self.cx.core.domains.of(domain) {
            Some(domain) => domain.admit(turn.now, frame.len()),
            None => Err(Reason::DomainEnded),
        };
        if let Err(reason) = admitted {
            channel.traffic.dropped += 1;
            return self.cx.throttle(turn, frame, reason, domain);
        }
        if channel.is_plain() {
            frame.truncate(end);
            frame.strip(start);
            return self.hand_to_domain(turn, frame, id, domain);
        }
        self.enter_worked(turn, frame, owner, start..end);
    }

    /// A packet has been admitted by a channel that does not give it to its domain as it is.
    fn enter_worked(&mut self, turn: &mut Turn<'_>, mut frame: Frame, owner: Taker, payload: Range<usize>) {
        let (Taker { channel: owner, domain }, ends) = (owner, frame.ends);
        let Some(channel) = self.cx.graphs.channels.ins.get_mut(owner) else {
            return self.cx.drop(turn, frame, Reason::ChannelGone);
        };
        let (cut, length) = (channel.cut, payload.len());
        let mut carried = None;
        match cut.and_then(|cut| Some((cut, self.cx.joined(cut)?))) {
            Some((cut, Layer::Ip)) => {
                return self
                    .cx
                    .cut_through(turn, frame, length, cut, |cx, turn, frame, target| cx.route_ip(turn, frame, target));
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
            return self.cx.pass_on_payload(turn, frame, cut, carried);
        }
        let Some(channel) = self.cx.graphs.channels.ins.get_mut(owner).filter(|channel| !channel.modules.is_empty())
        else {
            return self.hand_up(turn, frame, (owner, domain, cut));
        };
        let from = (frame.payer, ends.source);
        let mut all = core::mem::take(&mut self.cx.graphs.payloads[0]);
        all.push(frame);
        let mut dropped = 0;
        for module in &mut channel.modules {
            let mut out = core::mem::take(&mut self.cx.graphs.processed);
            for frame in all.drain(..) {
                let mut stage = Stage { now: turn.now, from, pool: &mut turn.out.pool, out: &mut out };
                let (before, taken) = (stage.out.len(), 1 + module.pieces());
                let refused = module.receive(&mut stage, frame).err();
                let lost = module.lost();
                let given = (out.len() - before) as u64 + u64::from(refused.is_some()) + module.pieces() + lost.sum();
                self.cx.core.ledger.transform(taken, given);
                dropped += count_lost(&mut self.cx.core, domain, lost);
                if let Some((frame, reason)) = refused {
                    dropped += count_lost_as(&mut self.cx.core, domain, reason, 1);
                    turn.out.event(frame.trace, EventKind::Dropped(reason));
                    turn.out.pool.give(frame);
                }
            }
            self.cx.graphs.processed = core::mem::replace(&mut all, out);
        }
        channel.traffic.dropped += dropped;
        for mut frame in all.drain(..) {
            frame.ends = ends;
            self.hand_up(turn, frame, (owner, domain, cut));
        }
        self.cx.graphs.payloads[0] = all;
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
            Some(cut) => self.cx.pass_on_payload(turn, frame, cut, None),
        }
    }

    /// The payload of a channel is its domain's: now, or when that has its turn.
    #[inline]
    fn hand_to_domain(&mut self, turn: &mut Turn<'_>, frame: Frame, channel: InChanId, domain: DomainId) {
        let work = Work { environment: self.cx.graphs.hosts, what: channel.0, joins: false };
        if !self.cx.order.paths.is_queueing() {
            self.environments.run(&mut self.cx, turn, domain, work, frame);
            self.environments.settle(&mut self.cx, turn);
            return;
        }
        let is_full = self.cx.graphs.channels.ins.get(channel).is_none_or(InChan::is_full);
        let waits = if is_full {
            self.cx.order.paths.count_came(domain);
            self.cx.drop_in(turn, frame, Reason::ChannelQueueFull, domain);
            false
        } else {
            self.cx.enqueue(turn, domain, frame, work)
        };
        if let Some(channel) = self.cx.graphs.channels.ins.get_mut(channel) {
            if waits { channel.waiting += 1 } else { channel.traffic.dropped += 1 }
        }
    }
}

/// Pieces of packets have gone in a module of a domain's channel; says how many.
fn count_lost(core: &mut Core, domain: DomainId, Lost { late, full }: Lost) -> u64 {
    let late = count_lost_as(core, domain, Reason::ReassemblyTimeout, late);
    late + count_lost_as(core, domain, Reason::ReassemblyFull, full)
}

fn count_lost_as(core: &mut Core, domain: DomainId, reason: Reason, packets: u64) -> u64 {
    core.drops.count_many(reason, packets);
    if let Some(domain) = core.domains.of(domain).filter(|_| packets > 0) {
        domain.counts.drops.count_many(reason, packets);
    }
    packets
}

impl Hosts {
    /// Tells whoever runs a domain what has happened to it, but for packets.
    pub(super) fn tell(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, upcall: Upcall) {
        let Some(found) = cx.core.domains.of(domain) else { return };
        upcall.count_in(&mut found.counts.activations);
        let host = found.host;
        match self.reach(host) {
            Reached::Remote => turn.out.upcalls.push((host, domain, upcall)),
            Reached::Local(environment) => {
                let caller = environment.acts_for(domain);
                environment.upcall(&mut Os::within(cx, turn, caller), domain, upcall);
                cx.settle_hand();
            }
            Reached::Nobody => {}
        }
    }

    /// Hands a packet to whoever runs a domain.
    #[inline]
    pub(super) fn hand_packet(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        domain: DomainId,
        channel: InChanId,
        frame: Frame,
    ) {
        let Some(host) = cx.core.domains.of(domain).map(|found| found.host) else {
            return cx.drop(turn, frame, Reason::DomainEnded);
        };
        match self.reach(host) {
            Reached::Remote => {
                cx.core.ledger.delivered += 1;
                turn.out.upcalls.push((host, domain, Upcall::Packet { channel, frame }));
            }
            Reached::Local(environment) if cx.hand(domain) => {
                cx.core.ledger.delivered += 1;
                let caller = environment.acts_for(domain);
                // Made where it is handed over: a copy would wait for its parts to be written.
                environment.upcall(&mut Os::within(cx, turn, caller), domain, Upcall::Packet { channel, frame });
                cx.settle_hand();
            }
            Reached::Local(_) => {
                cx.look_after_pools(turn);
                cx.refuse_packet(turn, domain, channel, frame);
            }
            Reached::Nobody => cx.drop_in(turn, frame, Reason::HostGone, domain),
        }
    }
}

impl Cx {
    /// A packet is over its domain's budget.
    #[cold]
    fn throttle(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        self.order.paths.count_came(domain);
        let known = self.core.domains.of(domain);
        if known.is_some_and(|known| known.strike(turn.now)) && !self.core.overdue.contains(&domain) {
            self.core.overdue.push(domain);
        }
        self.drop_in(turn, frame, reason, domain);
    }

    /// The payload of a channel goes into headers of an outgoing one's, with the checksum of its UDP header before, if it had one.
    fn pass_on_payload(&mut self, turn: &mut Turn<'_>, frame: Frame, cut: CutChanId, checksum: Option<u16>) {
        let (length, ends) = (frame.len(), frame.ends);
        self.cut_through(turn, frame, length, cut, |cx, turn, frame, target| {
            let kept = |end: Option<(Addr, u16)>| end.unwrap_or_default();
            let (source, destination) = (kept(ends.source), kept(ends.destination));
            let carried = checksum.map(|checksum| Carried { checksum, ends: [source, destination] });
            let whole = Target {
                source: target.source.or(Some(source.0)),
                destination: target.destination.or(Some(destination.0)),
                destination_port: target.destination_port.or(Some(destination.1)),
                ..*target
            };
            cx.send_target(turn, frame, &whole, None, carried)
        });
    }

    /// The protocol that both ends of a cut-through channel speak without anything else, if they do.
    fn joined(&self, cut: CutChanId) -> Option<Layer> {
        let cut = self.graphs.channels.cuts.get(cut)?;
        CutChan::joins(self.graphs.channels.ins.get(cut.from)?, self.graphs.channels.outs.get(cut.to)?)
    }

    /// A packet of so many octets goes from an incoming to an outgoing channel.
    fn cut_through(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        length: usize,
        cut: CutChanId,
        mut send: impl FnMut(&mut Cx, &mut Turn<'_>, Frame, &Target) -> Result<PortId, (Frame, Reason)>,
    ) {
        let Some(cut) = self.graphs.channels.cuts.get_mut(cut) else {
            return self.drop(turn, frame, Reason::ChannelGone);
        };
        let (domain, to) = (cut.domain, cut.to);
        cut.traffic.count(length);
        let trace = frame.trace;
        match self.through_modules(turn, to, frame, &mut send) {
            Ok(port) => turn.out.event(trace, EventKind::Forwarded(port, Addr::UNSPECIFIED)),
            Err((frame, reason)) => self.drop_in(turn, frame, reason, domain),
        }
    }

    /// A domain is handed a packet: whether its memory pool has room for that.
    ///
    /// Most environments have let go of a packet when they return, so it is charged only then, or before anything else is asked of pools.
    /// As long as no pool is over its limit that is safe: each has room for a buffer beyond it.
    #[inline]
    fn hand(&mut self, domain: DomainId) -> bool {
        if self.core.pools.is_quiet() {
            self.core.in_hand = Some(domain);
            return true;
        }
        self.core.pools.charge(domain, BUFFER).is_ok()
    }

    /// The packet in hand is charged now, if there is one that its domain has not let go of.
    #[inline]
    pub(super) fn settle_hand(&mut self) {
        if let Some(domain) = self.core.in_hand.take() {
            // There is room, or the domain has ended meanwhile and holds nothing.
            let _ = self.core.pools.charge(domain, BUFFER);
        }
    }

    /// A domain lets go of a packet.
    #[inline]
    pub(super) fn let_go(&mut self, domain: DomainId) {
        if self.core.in_hand == Some(domain) {
            self.core.in_hand = None;
        } else {
            self.core.pools.free(domain, BUFFER);
        }
    }

    /// A packet finds no memory of its domain.
    #[cold]
    fn refuse_packet(&mut self, turn: &mut Turn<'_>, domain: DomainId, channel: InChanId, frame: Frame) {
        if let Some(channel) = self.graphs.channels.ins.get_mut(channel) {
            channel.traffic.dropped += 1;
        }
        self.drop_in(turn, frame, Reason::MemoryFull, domain);
    }
}
