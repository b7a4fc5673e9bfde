//! The binding of the PLAN environment to the node.
//!
//! [`Binding`] is all that the environment has of the node: a clock, the topology, frames to neighbours, messages to
//! applications, and a domain for each principal, which pays.

use super::ending::Gone;
use super::environment::{Environment, OwnType, PacketKind};
use super::output::{Cause, Ingress};
use super::output::{Effect, Turn};
use super::paths::Work;
use super::status::Status;
use super::{Cx, Node};
use crate::classify::Native;
use crate::core::domain::{Domain, DomainId, EnvironmentId};
use crate::core::ledger::Balance;
use crate::core::reason::Reason;
use crate::ee::plan::config::Config;
use crate::ee::plan::{ANYONE, Brought, Fate, LoadedService, Next, Plan, PlanOs, Seat, ServiceSignature, Wish};
use crate::frame::{Ends, Envelope, Frame, Link, Payer, PeerId, PortId};
use crate::nodeos::interface::HostId;
use crate::topology::{Neighbour, NextHop, Topology, Way};
use crate::trust::{PrincipalId, Role};
use crate::wire::proof::PROOF;
use crate::wire::{Addr, Digest, anep, ipv4, ipv6, udp};
use rand_core::Rng;
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

/// The node, as its PLAN environment sees it during one call.
struct Binding<'a, 'b, 'c> {
    cx: &'a mut Cx,
    turn: &'a mut Turn<'b>,
    top: DomainId,
    members: &'c mut Vec<Member>,
    balance: &'c mut Balance,
}

impl Node {
    /// Ends the domain of a principal who has signed packets, if there is one, with what the environment keeps of it;
    /// says how many domains that are.
    pub(super) fn end_plan_principal(&mut self, turn: &mut Turn<'_>, name: &str) -> usize {
        let Some(Speaker { plan, members, .. }) = self.environments.get_mut() else { return 0 };
        let named = members.iter_mut().enumerate().filter(|(_, member)| member.name == name);
        let mut domains = Vec::new();
        for (principal, member) in named {
            plan.forget_principal(principal);
            domains.extend(member.domain.take());
        }
        domains.iter().map(|domain| self.end_domain(turn, *domain, true).domains).sum()
    }
}

impl Binding<'_, '_, '_> {
    /// The domain that pays for a principal's packets.
    fn domain(&mut self, principal: usize) -> Option<&mut Domain> {
        let Member { name, role, domain } = self.members.get_mut(principal)?;
        // One that was ended begins anew with the next packet.
        *domain = domain.filter(|id| self.cx.core.domains.by_id(*id).is_some());
        if domain.is_none() {
            let roles = &self.cx.control.roles;
            let role = match role {
                RoleOf::Name(role) => roles.iter().find(|known| known.name == *role).unwrap_or(roles.anyone()).clone(),
                RoleOf::Role(role) => role.clone(),
            };
            let created =
                self.cx.add_domain(self.top, format!("plan {name}"), HostId::NODE, (&role, role.grants), None);
            *domain = created.ok();
        }
        let id = (*domain)?;
        self.cx.core.domains.of(id)
    }
}

impl PlanOs for Binding<'_, '_, '_> {
    fn now(&self) -> u64 {
        self.turn.now
    }

    fn topology(&self) -> &Topology {
        &self.cx.core.topology
    }

    fn way(&mut self, to: Addr) -> Way {
        *self.cx.core.topology.way(to)
    }

    fn demands_signature(&self, port: PortId) -> bool {
        self.cx.demands(port).signed_plan
    }

    fn is_neighbour(&self, of: &Neighbour) -> bool {
        self.cx.is_neighbour(of.port, of.addr)
    }

    fn is_disowned(&self, principal: &PrincipalId) -> bool {
        self.cx.is_disowned(principal)
    }

    fn random(&mut self) -> u64 {
        self.cx.core.rng.next_u64()
    }

    fn nonce(&mut self) -> u64 {
        self.cx.control.originate.numbers.draw_long()
    }

    fn room(&self, next: &Next) -> usize {
        let Some(port) = self.topology().port(next.port) else { return 0 };
        let around = match port.link {
            Link::Overlay => 0,
            Link::Ethernet { .. } if next.to.is_v4() => ipv4::HEADER + udp::HEADER,
            Link::Ethernet { .. } => ipv6::HEADER + udp::HEADER,
        };
        let proof = if self.cx.has_key(next.port, next.via) { PROOF } else { 0 };
        port.mtu.min(self.turn.out.pool.capacity()).saturating_sub(anep::HEADER + around + proof)
    }

    fn send(&mut self, next: &Next, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) {
        let mut frame = self.cx.make(self.turn);
        self.balance.made += 1;
        match write(frame.room()) {
            Some(length) => {
                frame.received(length);
                frame.payer = self.cx.current_payer();
                self.balance.sent += 1;
                self.cx.send_plan(self.turn, frame, next);
            }
            None => {
                self.balance.dropped += 1;
                self.cx.drop(self.turn, frame, Reason::TooBig);
            }
        }
    }

    fn tell(&mut self, port: u64, message: Vec<u8>) {
        if let Some(domain) = self.domain(ANYONE) {
            domain.delivered += 1;
        }
        let ledger = &mut self.cx.core.ledger;
        (ledger.made, ledger.delivered) = (ledger.made + 1, ledger.delivered + 1);
        (self.balance.made, self.balance.delivered) = (self.balance.made + 1, self.balance.delivered + 1);
        self.turn.out.told.push((port, message));
    }

    fn wish(&mut self, wish: Wish) {
        let ingress = match self.turn.out.ingress {
            // Something that waited: it is still his who brought it.
            Ingress::Node => self.cx.ingress_of_payer(self.cx.current_payer()),
            ingress => ingress,
        };
        let cause = Cause { ingress, principal: None };
        self.turn.out.effects.push(Effect::Plan(wish, cause));
    }

    fn seat(&mut self, principal: usize, name: &str, role: &Arc<Role>) {
        while self.members.len() <= principal {
            self.members.push(Member::new(crate::trust::ANYONE, RoleOf::Name(String::new())));
        }
        let Some(member) = self.members.get_mut(principal) else { return };
        let before = std::mem::replace(member, Member::new(name, RoleOf::Role(role.clone())));
        if let Some(domain) = before.domain {
            self.cx.end_domain(self.turn, domain, |_| true);
        }
    }

    fn take_on(&mut self, bytes: usize) -> Result<(), Reason> {
        self.cx.take_on(self.turn.now, self.top, bytes)
    }

    fn admit(&mut self, principal: usize, bytes: usize) -> Result<u64, Reason> {
        let now = self.turn.now;
        let domain = self.domain(principal).ok_or(Reason::NoDomain)?;
        let admitted = domain.admit(now, bytes).map(|()| domain.limits.steps_per_packet);
        if let Some(domain) = self.members.get(principal).and_then(|member| member.domain) {
            self.cx.on_part(now, domain);
        }
        admitted
    }

    fn has_steps(&mut self, principal: usize) -> bool {
        let now = self.turn.now;
        self.domain(principal).is_some_and(|domain| domain.has_steps(now))
    }

    fn charge(&mut self, principal: usize, steps: u64, sent: u64) {
        let now = self.turn.now;
        self.cx.count_steps(steps);
        if let Some(domain) = self.domain(principal) {
            domain.charge_steps(now, steps);
            domain.counts.children += sent;
        }
    }

    fn payer(&self) -> Payer {
        self.cx.current_payer()
    }

    fn made(&mut self, packets: u64) {
        self.cx.core.ledger.made += packets;
        self.balance.made += packets;
    }

    fn used(&mut self, packets: u64) {
        self.cx.core.ledger.used += packets;
        self.balance.used += packets;
    }

    fn drop(&mut self, principal: usize, reason: Reason) {
        if let Some(domain) = self.domain(principal) {
            domain.counts.drops.count(reason);
        }
        self.cx.core.drops.count(reason);
        self.balance.dropped += 1;
        self.turn.out.event(0, super::EventKind::Dropped(reason));
    }

    fn heard(&mut self, addr: Addr, bytes: usize) {
        self.cx.note_heard(self.turn.now, addr, bytes);
    }

    fn may_send(&mut self, to: Addr, port: Option<PortId>, bytes: usize) -> bool {
        self.cx.may_originate(self.turn.now, to, port, bytes)
    }

    fn expects(&self, neighbour: Addr, port: PortId) -> bool {
        self.cx.expects(neighbour, port)
    }

    fn could_send(&mut self, to: Addr, bytes: usize) -> bool {
        self.cx.could_originate(self.turn.now, to, bytes)
    }

    fn may_report(&mut self, to: Addr, bytes: usize) -> Result<(), Reason> {
        self.cx.may_report(self.turn.now, to, bytes)
    }

    fn answered(&mut self, addr: Addr) {
        self.cx.control.originate.reach.answered(self.turn.now, addr);
    }

    fn clamped(&mut self, from: &Neighbour, bound: u32, most: u32) {
        self.cx.note_clamped(self.turn, (from.port, from.addr), 0, (bound, most));
    }

    fn memory(&self, put: &mut dyn FnMut(&str, usize)) {
        if let Some((used, free)) = self.cx.core.heap {
            put("heap-bytes", used);
            put("heap-free", free);
        }
        put("object-bytes", self.cx.core.object_bytes);
        put("frames-ready", self.turn.out.pool.ready());
        put("neighbours", self.topology().neighbours.len());
        put("routes", self.topology().routes().len());
    }
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

impl Node {
    /// The node speaks PLAN from now on.
    pub fn speak_plan(&mut self, config: Config) {
        if config.enabled {
            let plan = Plan::new(config);
            let members = plan.principals().map(|(name, role)| Member::new(name, RoleOf::Name(role.into()))).collect();
            let top = super::below_root(&mut self.cx.core.domains, "plan");
            let (place, balance) = (EnvironmentId::default(), Balance::default());
            let mut speaker = Speaker { place, plan, top, members, balance, queued: 0 };
            speaker.plan.sweep(0);
            self.environments.add(&mut self.cx, speaker, &[top]);
        }
    }

    /// The domain of the environment, above those of its principals.
    pub(super) fn plan_domain(&self) -> Option<DomainId> {
        self.environments.get().map(|speaker: &Speaker| speaker.top)
    }

    /// A call into the environment.
    fn with_plan<R>(&mut self, turn: &mut Turn<'_>, work: impl FnOnce(&mut Plan, &mut dyn PlanOs) -> R) -> Option<R> {
        let result = self.ask(|speaker: &mut Speaker, cx| speaker.call_aside(cx, turn, work));
        self.environments.settle(&mut self.cx, turn);
        result
    }

    /// An application attaches to a PLAN port, to listen as `number` if that is not 0; the error says why not.
    pub fn attach_plan(&mut self, turn: &mut Turn<'_>, number: u32) -> Result<Seat, &'static str> {
        let seat = self.with_plan(turn, |plan, os| plan.attach(os, number)).ok_or("this node does not speak PLAN")?;
        seat.ok_or("another application listens as this number")
    }

    /// An application is gone.
    pub fn detach_plan(&mut self, port: u64) {
        self.ask(|speaker: &mut Speaker, _| speaker.plan.detach(port));
    }

    /// An application closes a connection.
    pub fn close_plan(&mut self, application: u64, port: u64) {
        self.ask(|speaker: &mut Speaker, _| speaker.plan.close(application, port));
    }

    /// An application injects a PLAN packet. It waits for the environment's turn if others wait; the error is what is known
    /// of it when this returns.
    pub fn inject_plan(&mut self, turn: &mut Turn<'_>, port: u64, bytes: &mut [u8]) -> Result<(), Reason> {
        let waits = self.cx.has_work();
        self.with_plan(turn, |plan, os| plan.inject(os, port, bytes, waits)).unwrap_or(Err(Reason::UnknownType))
    }

    /// A PLAN service is there from now on; the error says why it cannot be.
    pub fn load_service(
        &mut self,
        name: &str,
        signature: ServiceSignature,
        service: Box<dyn LoadedService>,
    ) -> Result<(), String> {
        let speaker: &mut Speaker = self.environments.get_mut().ok_or("this node does not speak PLAN")?;
        speaker.plan.load(name, signature, service)
    }

    /// A PLAN service that was loaded is there no more; whether it was.
    pub fn unload_service(&mut self, name: &str) -> bool {
        self.ask(|speaker: &mut Speaker, _| speaker.plan.unload(name)).unwrap_or(false)
    }

    /// An application could not take a message.
    pub fn untold(&mut self, turn: &mut Turn<'_>, reason: Reason) {
        self.cx.not_delivered();
        self.ask(|speaker: &mut Speaker, _| speaker.balance.delivered = speaker.balance.delivered.wrapping_sub(1));
        self.with_plan(turn, |_, os| os.drop(ANYONE, reason));
    }

    /// The node's addresses: what applications are told.
    pub fn addresses(&self) -> Vec<Addr> {
        let all = self.cx.core.topology.ports.iter().flat_map(|port| &port.addresses).map(|(addr, _)| *addr);
        let mut all: Vec<Addr> = all.filter(|addr| !addr.is_link_local()).collect();
        let mut seen = std::collections::HashSet::new();
        all.retain(|addr| seen.insert(*addr));
        all
    }

    /// The answer to [`Wish::Vouch`].
    pub fn vouched(&mut self, turn: &mut Turn<'_>, question: u64, judged: Result<Arc<Role>, String>) {
        self.with_plan(turn, |plan, os| plan.vouched(os, question, judged));
    }

    /// The answer to [`Wish::Install`].
    pub fn installed(&mut self, turn: &mut Turn<'_>, digest: Digest, brought: Result<Brought, String>) {
        self.with_plan(turn, |plan, os| plan.installed(os, digest, brought));
    }

    /// What becomes of a wish that the outside has no time for.
    pub fn wished_in_vain(&mut self, turn: &mut Turn<'_>, wish: Wish) {
        let busy = || "the node is busy".to_owned();
        match wish {
            Wish::Resolve(name) => self.resolved(turn, &name, None),
            Wish::Vouch(question, _) => self.vouched(turn, question, Err(busy())),
            Wish::Install(install) => self.installed(turn, install.digest, Err(busy())),
        }
    }

    /// The answer to [`Wish::Resolve`].
    pub fn resolved(&mut self, turn: &mut Turn<'_>, name: &str, addr: Option<Addr>) {
        self.with_plan(turn, |plan, os| plan.resolved(os, name, addr));
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
