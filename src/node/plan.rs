//! The binding of the PLAN environment to the node.
//!
//! [`Binding`] is all that the environment has of the node: a clock, the topology, frames to neighbours, messages to
//! applications, and a domain for each principal, which pays.

mod asked;
mod binding;

use self::binding::Binding;
use super::Cx;
use super::ending::Gone;
use super::environment::{Environment, OwnType, PacketKind};
use super::output::{EventKind, Ingress, Turn};
use super::paths::Work;
use super::status::Status;
use crate::classify::Native;
use crate::core::domain::{DomainId, EnvironmentId};
use crate::core::ledger::Balance;
use crate::core::reason::Reason;
use crate::ee::plan::{ANYONE, Fate, Next, Plan, PlanOs};
use crate::frame::{Ends, Envelope, Frame, Payer, PeerId, PortId};
use crate::topology::{Neighbour, NextHop};
use crate::trust::Role;
use crate::wire::{Addr, anep};
use std::sync::Arc;

/// The node's PLAN environment, and who pays for it.
pub(super) struct Speaker {
    place: EnvironmentId,
    plan: Plan,
    /// The domain of the environment, above those of its principals.
    top: DomainId,
    /// Its principals, by number.
    members: Vec<Member>,
    /// What became of its packets, whoever's they are: those that wait with it are asked for.
    pub(super) balance: Balance,
    /// Packets without a frame that have a place in the order.
    queued: usize,
}

/// Packets without a frame that have their turn in one call, where none waits for the CPU.
const TURNS: usize = 64;

/// What is to be done with what waits: take a message in that a frame brought, or give a packet without a frame its turn.
const MESSAGE: u32 = 0;
const READY: u32 = 1;

/// A principal, as the node knows it.
struct Member {
    name: String,
    role: RoleOf,
    /// The domain that pays for it, once it has sent something.
    domain: Option<DomainId>,
}

/// In which role a principal acts.
enum RoleOf {
    /// The one that the node has under this name.
    Name(String),
    /// This one.
    Role(Arc<Role>),
}

impl Speaker {
    /// A call into the environment.
    fn call<R>(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, work: impl FnOnce(&mut Plan, &mut dyn PlanOs) -> R) -> R {
        let Speaker { plan, top, members, balance, .. } = self;
        work(plan, &mut Binding { cx, turn, top: *top, members, balance })
    }

    /// The same at the environment's expense, beside its turns.
    fn call_aside<R>(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        work: impl FnOnce(&mut Plan, &mut dyn PlanOs) -> R,
    ) -> R {
        let run = cx.begin(turn.now, Payer::NOBODY, false);
        cx.on_domain(turn.now, self.top);
        let result = self.call(cx, turn, work);
        cx.end(turn.now, run);
        self.give_turns(cx, turn);
        result
    }

    /// Gives turns to packets without a frame: each has a place in the order, behind those that came before it, and an
    /// empty frame in the place of one. Where none waits they run now, as far as who pays for what is being done pays
    /// for them too; the others when the timer comes, which is at once.
    fn give_turns(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        if cx.order.paths.is_queueing() {
            while let Some(payer) = self.plan.payer_at(self.queued) {
                let mut frame = turn.out.pool.take();
                let port = if let Ingress::Port(port, _) = cx.ingress_of_payer(payer) { port } else { PortId(0) };
                (frame.payer, frame.port, frame.peer) = (payer, port, PeerId::NONE);
                let work = Work { environment: self.place, what: READY, joins: false };
                if cx.core.domains.by_id(self.top).is_none() {
                    cx.drop(turn, frame, Reason::DomainEnded);
                    self.forget(self.queued);
                } else if cx.enqueue(turn, self.top, frame, work) {
                    self.queued += 1;
                } else {
                    self.forget(self.queued);
                }
            }
            return;
        }
        for _ in 0..TURNS {
            let Some(payer) = self.plan.payer_at(0) else { return };
            let within = cx.order.entry.is_open();
            if within && cx.current_payer() != payer {
                return;
            }
            let run = cx.begin(turn.now, payer, false);
            cx.on_domain(turn.now, self.top);
            if !within {
                cx.count_frame();
            }
            self.call(cx, turn, |plan, os| plan.take_turn(os));
            cx.end(turn.now, run);
        }
    }
}

impl Environment for Speaker {
    fn placed(&mut self, place: EnvironmentId) {
        self.place = place;
    }

    fn types(&self) -> (&'static [OwnType], Option<DomainId>) {
        (&[OwnType { kind: PacketKind::Anep(anep::type_id::PLAN), waits: true }], Some(self.top))
    }

    fn packet(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, _: PacketKind, mut frame: Frame, native: Option<&Native>) {
        turn.out.event(frame.trace, EventKind::Charged(self.top));
        let claimed = native.map_or(Addr::UNSPECIFIED, |native| native.source);
        let from = match cx.source_of(turn.now, &frame, claimed, native.is_some()) {
            Some((source, _)) => Neighbour { addr: source.addr, port: source.port, peer: source.peer },
            None => return cx.drop(turn, frame, Reason::Stranger),
        };
        if native.is_some_and(|native| native.source.is_unspecified()) {
            return cx.drop(turn, frame, Reason::MalformedPlan);
        }
        // All of PLAN is one environment in the order; what is in a packet, and so its principal, is not known before its turn.
        let to = native.map(|native| (native.destination, 0));
        frame.ends = Ends { source: Some((from.addr, 0)), destination: to };
        cx.on_domain(turn.now, self.top);
        if let Err(reason) = cx.take_on(turn.now, self.top, frame.len()) {
            cx.order.paths.count_came(self.top);
            return cx.drop_in(turn, frame, reason, self.top);
        }
        if cx.order.paths.is_queueing() {
            if cx.has_turn(turn.now, self.top, frame.payer) {
                let payer = frame.payer;
                cx.on_account_of(payer, |cx| self.take_in(cx, turn, frame, &from));
                return;
            }
            cx.enqueue(turn, self.top, frame, Work { environment: self.place, what: MESSAGE, joins: false });
            return;
        }
        self.take_in(cx, turn, frame, &from);
    }

    fn run(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, _: DomainId, what: u32, frame: Frame) -> u64 {
        if what == READY {
            return self.run_ready(cx, turn, frame);
        }
        let addr = frame.ends.source.map_or(Addr::UNSPECIFIED, |(addr, _)| addr);
        let from = Neighbour { addr, port: frame.port, peer: frame.peer };
        let payer = frame.payer;
        cx.on_account_of(payer, |cx| self.take_in(cx, turn, frame, &from))
    }

    fn next_timer(&self) -> u64 {
        if self.plan.payer_at(self.queued).is_some() { 0 } else { self.plan.next_timer() }
    }

    fn timer(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        self.call_aside(cx, turn, |plan, os| plan.timer(os));
    }

    fn sweep(&mut self, _: &mut Cx, turn: &mut Turn<'_>) {
        self.plan.sweep(turn.now);
    }

    fn ended(&mut self, _: &mut Cx, _: &mut Turn<'_>, gone: &[Gone]) -> usize {
        if gone.iter().any(|gone| gone.domain == self.top) {
            // Their frames have been dropped.
            (0..core::mem::take(&mut self.queued)).for_each(|_| self.forget(0));
        }
        0
    }

    fn held(&self) -> u64 {
        // What has a place in the order is held there.
        self.plan.packets_held() - self.queued as u64
    }

    fn balance(&self) -> Option<Balance> {
        Some(Balance { held: self.plan.packets_held(), ..self.balance })
    }

    fn status(&self, _: &Cx, status: &mut Status) {
        status.plan = Some(self.plan.status());
    }
}

impl Speaker {
    /// A message of a neighbour's is taken in, and done.
    fn take_in(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, mut frame: Frame, from: &Neighbour) {
        turn.out.ingress = Ingress::of(&frame);
        self.balance.received += 1;
        let to = core::mem::take(&mut frame.ends).destination.map(|(to, _)| to);
        let fate = self.call(cx, turn, |plan, os| plan.receive(os, from, to, frame.bytes_mut()));
        turn.out.ingress = Ingress::Node;
        self.act(cx, turn, frame, fate);
        self.give_turns(cx, turn);
    }

    /// The first packet without a frame has its turn.
    fn run_ready(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame) -> u64 {
        self.queued -= 1;
        let payer = frame.payer;
        turn.out.pool.give(frame);
        let steps = cx.on_account_of(payer, |cx| {
            cx.count_frame();
            self.call(cx, turn, |plan, os| plan.take_turn(os));
        });
        self.give_turns(cx, turn);
        steps
    }

    /// The packet at this place gets no turn: the frame in its place has been dropped.
    fn forget(&mut self, at: usize) {
        self.balance.dropped += 1;
        self.plan.forget_ready(at);
    }

    /// Does with the frame of a message what has become of the message.
    fn act(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, frame: Frame, fate: Fate) {
        match fate {
            Fate::Taken => {
                self.balance.used += 1;
                cx.use_up(turn, frame);
            }
            Fate::Kept | Fate::Dropped => turn.out.pool.give(frame),
            Fate::Forward(next) => {
                self.balance.sent += 1;
                cx.send_plan(turn, frame, &next);
            }
            Fate::Drop(reason) => {
                self.call(cx, turn, |_, os| os.drop(ANYONE, reason));
                cx.control.alarms.note(&frame, reason);
                turn.out.pool.give(frame);
            }
        }
    }
}

impl Member {
    fn new(name: &str, role: RoleOf) -> Member {
        Member { name: name.into(), role, domain: None }
    }
}

impl Cx {
    /// A domain takes a packet on, as far as its budgets allow.
    fn take_on(&mut self, now: u64, domain: DomainId, bytes: usize) -> Result<(), Reason> {
        self.core.domains.of(domain).map_or(Err(Reason::DomainEnded), |domain| domain.admit(now, bytes))
    }

    /// Sends a PLAN message.
    fn send_plan(&mut self, turn: &mut Turn<'_>, mut frame: Frame, next: &Next) {
        let port = self.core.topology.port(next.port);
        let Some(own) = port.map(|port| port.address_towards(next.via)) else {
            return self.drop(turn, frame, Reason::NoPort);
        };
        frame.envelope = Envelope { hop_limit: 64, ..Envelope::FRESH };
        let hop = NextHop { port: next.port, via: next.via };
        if let Err((frame, reason)) = self.send(turn, frame, anep::type_id::PLAN, (hop, next.peer), own, next.to) {
            self.drop(turn, frame, reason);
        }
    }
}
