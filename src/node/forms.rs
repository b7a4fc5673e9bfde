//! Packets of channels whose domain has its turn: the form of the channel's graph ([`crate::graph::Form`]) is run.
//!
//! ```text
//! Deliver ─────────────────▶ an environment in this process is called, or one in a process of its own is told
//! Routed, Readdressed ─────▶ other headers ─▶ bandwidth ─▶ send
//! Engines ─▶ engine ─▶ … ──▶ the same as Deliver, or the outgoing channel's engines ─▶ headers ─▶ bandwidth ─▶ send
//! ```
//!
//! All of it is done in the domain's turn, so the domain pays for it with its share of the CPU.

use super::Cx;
use super::ending::{EndedBy, Gone};
use super::environment::Environment;
use super::hosts::{Hosts, Reached};
use super::os::Os;
use super::output::{EventKind, Turn};
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{BUFFER, Frame};
use crate::graph::engine::INWARD;
use crate::graph::exit::{self, Carried, Departure};
use crate::graph::{Exit, Form, Target};
use crate::nodeos::interface::{CutChanId, HostId, InChanId, Upcall};
use crate::topology::Topology;
use crate::wire::Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where the checksum of a datagram is: the last bytes of its header.
const CHECKSUM: usize = 2;

impl Environment for Hosts {
    /// `what`: the channel that the packet came by.
    fn run(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, what: u32, mut frame: Frame) -> u64 {
        let channel = InChanId(what);
        let Some(known) = cx.graphs.channels.ins.get_mut(channel) else {
            cx.drop_in(turn, frame, Reason::ChannelGone, domain);
            return 0;
        };
        known.waiting = known.waiting.saturating_sub(1);
        match known.form {
            Form::Deliver => {
                bare(&mut frame);
                self.hand_packet(cx, turn, domain, channel, frame);
            }
            Form::Routed(cut) => cx.route_through(turn, frame, (cut, domain)),
            Form::Readdressed(cut) => cx.readdress(turn, frame, (cut, domain)),
            Form::Engines(exit) => {
                bare(&mut frame);
                self.push(cx, turn, domain, (channel, exit), frame);
            }
        }
        0
    }

    fn upcall(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, upcall: Upcall) {
        self.tell(cx, turn, domain, upcall);
    }

    fn ended(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, gone: &[Gone]) -> usize {
        for &Gone { domain, host, tell } in gone {
            let runs = match self.reach(host) {
                Reached::Local(_) => cx.core.domains.of_host(host).next().is_some(),
                _ => true,
            };
            match self.reach(host) {
                Reached::Remote if tell => turn.out.upcalls.push((host, domain, Upcall::Ended)),
                Reached::Local(_) if !runs => self.remove(host),
                Reached::Local(environment) if tell => {
                    let returned = returns(|| environment.ended(domain));
                    if !returned {
                        self.give_up(cx, turn, host);
                    }
                }
                _ => {}
            }
        }
        0
    }
}

/// Calls an environment of this process, and says whether it has returned: else it has panicked.
#[inline]
fn returns(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_ok()
}

/// Takes off what is around the payload.
#[inline]
fn bare(frame: &mut Frame) {
    let marks = frame.marks;
    frame.truncate(marks.end as usize);
    frame.strip(marks.payload as usize);
}

impl Hosts {
    /// A payload passes the engines of its channel. What comes of it goes out by the exit.
    fn push(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        domain: DomainId,
        (channel, exit): (InChanId, Exit),
        frame: Frame,
    ) {
        let (ends, from) = (frame.ends, (frame.payer, frame.ends.source));
        let mut scratch = core::mem::take(&mut cx.graphs.scratch[0]);
        if let Some(known) = cx.graphs.channels.ins.get_mut(channel) {
            let (taken, given) = known.graph.push(INWARD, frame, (turn.now, from), &mut turn.out.pool, &mut scratch);
            let lost: u64 = scratch.lost.iter().map(|(_, packets)| packets).sum();
            known.traffic.dropped += scratch.dropped.len() as u64 + lost;
            cx.transform(domain, taken, given);
        }
        cx.count_lost(domain, &mut scratch.lost);
        for (frame, reason) in scratch.dropped.drain(..) {
            cx.drop_in(turn, frame, reason, domain);
        }
        for mut frame in scratch.out.drain(..) {
            frame.ends = ends;
            match exit {
                Exit::Deliver => self.hand_packet(cx, turn, domain, channel, frame),
                Exit::Cut(cut) => cx.pass_on_payload(turn, frame, (cut, domain), None),
            }
        }
        cx.graphs.scratch[0] = scratch;
    }

    /// An environment of this process has panicked. It is not called again: what it holds may be half of something. Its
    /// domains end, with what waits for them. The packet that it was called for was handed to it, and is its own.
    #[cold]
    fn give_up(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, host: HostId) {
        let tops = cx.tops_of(host);
        tracing::error!(node = cx.core.name, host = host.0, ?tops, "an environment has panicked: its domains end");
        tops.iter().for_each(|domain| cx.fell(*domain, EndedBy::Node));
        cx.end_domains(turn, &tops, |other| other != host);
        self.remove(host);
    }

    /// Tells whoever runs a domain what has happened to it, but for packets.
    pub(super) fn tell(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, upcall: Upcall) {
        let Some(found) = cx.core.domains.of(domain) else { return };
        upcall.count_in(&mut found.counts.activations);
        let host = found.host;
        match self.reach(host) {
            Reached::Remote => turn.out.upcalls.push((host, domain, upcall)),
            Reached::Local(environment) => {
                let returned = returns(|| {
                    let caller = environment.acts_for(domain);
                    environment.upcall(&mut Os::within(cx, turn, caller), domain, upcall);
                });
                cx.settle_hand();
                if !returned {
                    self.give_up(cx, turn, host);
                }
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
        let Some(found) = cx.core.domains.of(domain) else {
            return cx.drop(turn, frame, Reason::DomainEnded);
        };
        found.delivered += 1;
        let host = found.host;
        match self.reach(host) {
            Reached::Remote => {
                cx.core.ledger.delivered += 1;
                turn.out.upcalls.push((host, domain, Upcall::Packet { channel, frame }));
            }
            Reached::Local(environment) if cx.hand(domain) => {
                cx.core.ledger.delivered += 1;
                let returned = returns(|| {
                    let caller = environment.acts_for(domain);
                    // Made where it is handed over: a copy would wait for its parts to be written.
                    environment.upcall(&mut Os::within(cx, turn, caller), domain, Upcall::Packet { channel, frame });
                });
                cx.settle_hand();
                if !returned {
                    self.give_up(cx, turn, host);
                }
            }
            Reached::Local(_) => {
                cx.not_handed(domain);
                cx.look_after_pools(turn);
                cx.refuse_packet(turn, domain, channel, frame);
            }
            Reached::Nobody => {
                cx.not_handed(domain);
                cx.drop_in(turn, frame, Reason::HostGone, domain);
            }
        }
    }
}

impl Cx {
    /// Packets of a domain that its engines had kept have gone.
    pub(super) fn count_lost(&mut self, domain: DomainId, lost: &mut Vec<(Reason, u64)>) {
        for (reason, packets) in lost.drain(..) {
            self.core.drops.count_many(reason, packets);
            if let Some(domain) = self.core.domains.of(domain) {
                domain.counts.drops.count_many(reason, packets);
            }
        }
    }

    /// A packet goes through a cut-through channel as through a router.
    fn route_through(&mut self, turn: &mut Turn<'_>, frame: Frame, cut: (CutChanId, DomainId)) {
        let marks = frame.marks;
        self.cut_through(turn, frame, (marks.end - marks.payload) as usize, cut, &mut |topology, frame, target| {
            frame.truncate(marks.end as usize);
            frame.strip(marks.network as usize);
            exit::route(topology, frame, target)
        });
    }

    /// The payload of a datagram goes on with the checksum that it came with.
    fn readdress(&mut self, turn: &mut Turn<'_>, mut frame: Frame, cut: (CutChanId, DomainId)) {
        let at = (frame.marks.payload as usize).saturating_sub(CHECKSUM);
        let checksum = frame.bytes().get(at..).and_then(|rest| rest.first_chunk()).copied().map(u16::from_be_bytes);
        bare(&mut frame);
        self.pass_on_payload(turn, frame, cut, checksum);
    }

    /// The payload of a channel goes into headers of an outgoing one's, with the checksum of its UDP header before, if it had one.
    fn pass_on_payload(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        cut: (CutChanId, DomainId),
        checksum: Option<u16>,
    ) {
        let (length, ends) = (frame.len(), frame.ends);
        let kept = |end: Option<(Addr, u16)>| end.unwrap_or_default();
        let (source, destination) = (kept(ends.source), kept(ends.destination));
        let carried = checksum.map(|checksum| Carried { checksum, ends: [source, destination] });
        self.cut_through(turn, frame, length, cut, &mut |topology, frame, target| {
            let whole = Target {
                source: target.source.or(Some(source.0)),
                destination: target.destination.or(Some(destination.0)),
                destination_port: target.destination_port.or(Some(destination.1)),
                ..*target
            };
            exit::depart(topology, frame, &whole, None, carried)
        });
    }

    /// A packet of so many bytes goes from an incoming to an outgoing channel, both of this domain.
    fn cut_through(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        length: usize,
        (cut, domain): (CutChanId, DomainId),
        head: &mut dyn FnMut(&mut Topology, &mut Frame, &Target) -> Result<Departure, Reason>,
    ) {
        let Some(cut) = self.graphs.channels.cuts.get_mut(cut) else {
            return self.drop_in(turn, frame, Reason::ChannelGone, domain);
        };
        let to = cut.to;
        cut.traffic.count(length);
        let trace = frame.trace;
        match self.through_engines(turn, to, frame, head) {
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
