//! Runs capsules: the code of each, and the actions of its verdict.

use super::codes::FoundCode;
use super::handing::{FIRST, HandedAs};
use super::output::{Delivery, EventKind, Turn};
use super::paths::Work;
use super::turning::Turned;
use super::{Capsules, Cx};
use crate::abi::{FLAG_HERE, FLAG_INJECTED, NONE};
use crate::code::fetch::Source;
use crate::code::run::scope::{RunPacket, Scope};
use crate::code::run::{SlotId, Verdict};
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{Envelope, Frame};
use crate::topology::Flow;
use crate::wire::{Addr, capsule};

/// What [`Codes::find`] says of code that can run.
#[derive(Clone, Copy)]
pub(super) struct ReadyCode {
    pub(super) slot: SlotId,
    pub(super) domain: DomainId,
    pub(super) window: usize,
    pub(super) steps: u64,
}

/// Who sent a capsule.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    /// None: it begins here.
    pub(super) source: Option<Source>,
    /// The source's index among the neighbours, or [`NONE`].
    pub(super) index: u32,
}

impl Sender {
    /// An application of this node.
    pub(super) const NOBODY: Sender = Sender { source: None, index: NONE };
}

/// A packet after its run.
pub(super) struct Done {
    pub(super) frame: Frame,
    /// The bound that its children have left it.
    pub(super) bound: u32,
    /// The node's address that the code saw.
    pub(super) here: Addr,
    pub(super) domain: DomainId,
}

impl Cx {
    pub(super) fn neighbour_index(&self, source: Option<Source>) -> u32 {
        let Some(source) = source else { return NONE };
        self.core.topology.neighbours.index(source.port, source.addr).unwrap_or(NONE)
    }

    /// Whether a code's domain takes a capsule on, and the code's window is there.
    #[inline]
    fn admit(&mut self, now: u64, domain: DomainId, frame: &Frame, window: usize) -> Result<(), Reason> {
        let known = self.core.domains.of(domain).ok_or(Reason::DomainEnded)?;
        known.admit(now, frame.len())?;
        if frame.len() >= capsule::HEADER + window { Ok(()) } else { Err(Reason::Window) }
    }

    /// A capsule is not taken on.
    #[cold]
    fn refuse(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        if self.order.paths.is_queueing() {
            self.order.paths.count_came(domain);
        }
        self.drop_in(turn, frame, reason, domain);
    }

    /// Whether code left a source that may be there: the packet's own, or this node's.
    #[inline]
    pub(super) fn is_honest(&self, source: Addr, before: &capsule::Header, here: Addr) -> bool {
        let own = || self.core.topology.is_own(source);
        source == before.source || source == here || own()
    }
}

impl Capsules {
    /// Takes a capsule on, at the expense of its code's domain: it waits for that one's turn, runs at once where nobody
    /// waits, or waits for the code.
    #[inline]
    pub(super) fn process(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        header: &capsule::Header,
        from: Sender,
    ) {
        let mut header = *header;
        if cx.control.proofs.is_some() && from.source.is_some() && self.lacks_signature(cx, &frame, &header.code) {
            return cx.drop(turn, frame, Reason::Unsigned);
        }
        match self.codes.find(&header.code, turn.now, frame.payer) {
            FoundCode::Ready { lacks: true, .. } if cx.is_further() => {
                // Once in a while for each payer: the first worker asks its sender for what the code lacks.
                self.codes.asked(&header.code, frame.payer, turn.now);
                self.codes.set_alone(&header.code, false);
                self.hand_capsule(cx, turn, frame);
                cx.turn_from_first(turn, vec![Turned::Code(header.code)]);
            }
            FoundCode::Ready { .. } if cx.holds(Turned::Code(header.code)) => {
                self.hold_capsule(cx, turn, frame, Turned::Code(header.code));
            }
            FoundCode::Ready { slot, domain, window, steps, lacks } => {
                if !cx.order.paths.is_queueing() {
                    cx.on_domain(turn.now, domain);
                }
                if let Err(reason) = cx.admit(turn.now, domain, &frame, window) {
                    return cx.refuse(turn, frame, reason, domain);
                }
                if lacks && let Some(source) = from.source {
                    self.ask_beside(cx, turn, &mut frame, &mut header, source);
                }
                if self.fetch.is_owed()
                    && let Some(source) = from.source
                {
                    self.pay_owed(cx, turn, &mut frame, &mut header, source);
                }
                if cx.order.paths.is_queueing() && !cx.has_turn(turn.now, domain, frame.payer) {
                    cx.enqueue(turn, domain, frame, Work { environment: self.place, what: from.index, joins: true });
                    return;
                }
                self.run_code(cx, turn, frame, &header, ReadyCode { slot, domain, window, steps }, from);
            }
            _ if cx.is_further() => self.hand_capsule(cx, turn, frame),
            FoundCode::Doubted(reason) if !self.load_anew(cx, turn, &frame, &header.code, from.source) => {
                cx.drop(turn, frame, reason);
            }
            FoundCode::Refused(reason) => cx.drop(turn, frame, reason),
            FoundCode::Absent | FoundCode::Doubted(_) => self.wait_for_code(cx, turn, frame, &header, from.source),
        }
    }

    /// A capsule goes to the first worker, which knows its code or finds it.
    #[cold]
    fn hand_capsule(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame) {
        let native = cx.came_natively(&frame);
        cx.hand_on(turn, frame, FIRST, HandedAs::Capsule { native });
    }

    /// A capsule waits here for those before it that the first worker has.
    #[cold]
    pub(super) fn hold_capsule(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame, what: Turned) {
        let native = cx.came_natively(&frame);
        cx.hold_back(turn, what, frame, HandedAs::Held { native });
    }

    /// The capsule's code runs on it, and the verdict is carried out.
    pub(super) fn run_code(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        frame: Frame,
        header: &capsule::Header,
        code: ReadyCode,
        from: Sender,
    ) {
        let core = &mut cx.core;
        let way = core.topology.way_of(&flow_of(&frame, from.source.is_none(), header));
        let (own, here) = (way.here, if way.here { header.destination } else { way.own });
        let trace = frame.trace;
        let mut packet = RunPacket {
            now: turn.now,
            domain: code.domain,
            here,
            flags: if own { FLAG_HERE } else { 0 } | if from.source.is_none() { FLAG_INJECTED } else { 0 },
            in_port: from.source.map_or(NONE, |source| u32::from(source.port.0)),
            from: from.index,
            bound: header.bound,
            app_port: header.app_port,
            neighbours: core.topology.neighbours.len() as u32,
            window: code.window,
            lines: 0,
            frame,
        };
        let mut scope = Scope { core, pool: &mut turn.out.pool, packet: &mut packet };
        let outcome = turn.runtime.run(code.slot, &mut scope, code.steps);
        let RunPacket { frame, bound, .. } = packet;
        if let Some(domain) = core.domains.of(code.domain) {
            domain.charge_steps(turn.now, outcome.steps);
        }
        cx.count_steps(outcome.steps);
        turn.out.event(trace, EventKind::Charged(code.domain));
        turn.out.event(trace, EventKind::Ran(outcome.steps));
        self.conclude(cx, turn, Done { frame, bound, here, domain: code.domain }, header, outcome.verdict);
    }

    /// Acts on a verdict: children first, then the packet itself.
    pub(super) fn conclude(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        done: Done,
        before: &capsule::Header,
        verdict: Result<Verdict, Reason>,
    ) {
        if !cx.core.children.is_empty() {
            self.conclude_children(cx, turn, &done, before, verdict.is_ok());
        }
        let Done { mut frame, bound, here, domain } = done;
        match verdict {
            Ok(Verdict::Drop) => cx.drop_in(turn, frame, Reason::Code, domain),
            Ok(Verdict::Deliver(port)) => {
                set_bound(&mut frame, bound);
                if !cx.is_honest(address(&frame, capsule::SOURCE), before, here) {
                    return cx.drop_in(turn, frame, Reason::Source, domain);
                }
                self.deliver(cx, turn, frame, port.unwrap_or(before.app_port), domain);
            }
            Ok(Verdict::Forward) => match bound.checked_sub(1) {
                Some(left) => {
                    set_bound(&mut frame, left);
                    self.send_on(cx, turn, frame, before, here, domain);
                }
                None => self.forward_without_bound(cx, turn, frame, before, here, domain),
            },
            Err(reason) => cx.drop_in(turn, frame, reason, domain),
        }
    }

    /// Sends the children of a packet, or takes them back.
    pub(super) fn conclude_children(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        parent: &Done,
        before: &capsule::Header,
        ran: bool,
    ) {
        let mut children = core::mem::take(&mut cx.core.children);
        for child in children.drain(..) {
            if ran {
                cx.core.ledger.made += 1;
                turn.out.event(parent.frame.trace, EventKind::Child(child.trace));
                self.send_on(cx, turn, child, before, parent.here, parent.domain);
            } else {
                // What a failed run has sent was never sent.
                if let Some(domain) = cx.core.domains.of(parent.domain) {
                    domain.counts.children -= 1;
                }
                turn.out.pool.give(child);
            }
        }
        cx.core.children = children;
    }

    /// A packet without bound can still end where it is.
    #[cold]
    pub(super) fn forward_without_bound(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        frame: Frame,
        before: &capsule::Header,
        here: Addr,
        domain: DomainId,
    ) {
        let to = address(&frame, capsule::DESTINATION);
        if !cx.is_honest(address(&frame, capsule::SOURCE), before, here) {
            cx.drop_in(turn, frame, Reason::Source, domain);
        } else if cx.core.topology.is_own(to) {
            self.deliver(cx, turn, frame, before.app_port, domain);
        } else {
            cx.drop_in(turn, frame, Reason::Bound, domain);
        }
    }

    /// Sends a packet or child that code let go, after a look at what the code wrote into it.
    pub(super) fn send_on(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        before: &capsule::Header,
        here: Addr,
        domain: DomainId,
    ) {
        let Ok(after) = capsule::Header::parse(frame.bytes()) else {
            return cx.drop_in(turn, frame, Reason::CodeHeader, domain);
        };
        if !cx.is_honest(after.source, before, here) {
            return cx.drop_in(turn, frame, Reason::Source, domain);
        }
        let core = &mut cx.core;
        let way = core.topology.way_of(&flow_of(&frame, before.previous.is_unspecified(), &after));
        if way.here {
            return self.deliver(cx, turn, frame, after.app_port, domain);
        }
        let (next, peer) = (way.next, way.peer);
        set_previous(&mut frame, way.own);
        let ends = (after.source, after.destination);
        cx.transmit_capsule(turn, frame, ends, next.map(|next| (next, peer)), domain);
    }

    /// Hands a capsule to the application at `port`.
    pub(super) fn deliver(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame, port: u16, domain: DomainId) {
        if !self.applications.contains(&port) && !cx.is_further() {
            return cx.drop_in(turn, frame, Reason::NoApplication, domain);
        }
        if let Some(domain) = cx.core.domains.of(domain) {
            domain.delivered += 1;
        }
        if cx.is_further() {
            return cx.hand_on(turn, frame, FIRST, HandedAs::Deliver(port));
        }
        cx.core.ledger.delivered += 1;
        turn.out.event(frame.trace, EventKind::Delivered(port));
        turn.out.deliveries.push(Delivery { port, frame });
    }

    /// An application of this node sends a capsule: header and payload, the source being an address
    /// of this node or none.
    pub fn inject(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, mut frame: Frame) -> Result<(), Reason> {
        let Ok(mut header) = capsule::Header::parse(frame.bytes()) else {
            turn.out.pool.give(frame);
            return Err(Reason::MalformedCapsule);
        };
        let core = &cx.core;
        if header.source.is_unspecified() {
            header.source = core.topology.address_towards(header.destination);
        } else if !core.topology.is_own(header.source) {
            turn.out.pool.give(frame);
            return Err(Reason::Source);
        }
        header.previous = Addr::UNSPECIFIED;
        if header.emit(frame.bytes_mut()).is_err() {
            turn.out.pool.give(frame);
            return Err(Reason::MalformedCapsule);
        }
        frame.envelope = Envelope::FRESH;
        cx.core.ledger.made += 1;
        turn.out.event(frame.trace, EventKind::Injected);
        self.process(cx, turn, frame, &header, Sender::NOBODY);
        Ok(())
    }
}

pub(super) fn set_bound(frame: &mut Frame, bound: u32) {
    if let Some(place) = field(frame, capsule::BOUND) {
        *place = bound.to_be_bytes();
    }
}

pub(super) fn set_previous(frame: &mut Frame, previous: Addr) {
    if let Some(place) = field(frame, capsule::PREVIOUS) {
        *place = previous.0;
    }
}

/// A field of the capsule header in a frame, as an array: writing it is a store, not a call to copy.
#[inline]
pub(super) fn field<const LENGTH: usize>(frame: &mut Frame, at: usize) -> Option<&mut [u8; LENGTH]> {
    frame.bytes_mut().get_mut(at..)?.first_chunk_mut()
}

/// An address of the capsule header in a frame.
#[inline]
pub(super) fn address(frame: &Frame, at: usize) -> Addr {
    let field = frame.bytes().get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(Addr::UNSPECIFIED, |bytes| Addr(*bytes))
}

/// What the way of a capsule in its frame may depend on; `injected`: it begins here.
#[inline]
fn flow_of(frame: &Frame, injected: bool, header: &capsule::Header) -> Flow {
    let Envelope { service, direct, .. } = frame.envelope;
    Flow { to: header.destination, from: header.source, port: (!injected).then_some(frame.port), service, direct }
}
