//! What a driver tells and asks the PLAN environment: applications that come, inject and go, services, and answers of the
//! outside.

use super::{Member, RoleOf, Speaker};
use crate::code::extension::call_type::CallType;
use crate::core::domain::{DomainId, EnvironmentId};
use crate::core::ledger::Balance;
use crate::core::reason::Reason;
use crate::ee::plan::config::Config;
use crate::ee::plan::{
    ANYONE, Brought, GraphAnswer, GraphAsk, GraphAsker, GraphCause, GraphRefused, LoadedService, Plan, PlanOs, Seat,
    Wish,
};
use crate::frame::Sent;
use crate::node::output::Turn;
use crate::node::{Node, below_root};
use crate::trust::Role;
use crate::wire::{Addr, Digest};
use std::sync::Arc;

impl Node {
    /// The node speaks PLAN from now on.
    pub fn speak_plan(&mut self, config: Config) {
        if config.enabled {
            let plan = Plan::new(config);
            let members = plan.principals().map(|(name, role)| Member::new(name, RoleOf::Name(role.into()))).collect();
            let top = below_root(&mut self.cx.core.domains, "plan");
            let (place, balance) = (EnvironmentId::default(), Balance::default());
            let mut speaker = Speaker { place, plan, top, members, balance, queued: 0 };
            speaker.plan.sweep(0);
            self.environments.add(&mut self.cx, speaker, &[top]);
        }
    }

    /// The domain of the environment, above those of its principals.
    pub(in crate::node) fn plan_domain(&self) -> Option<DomainId> {
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
        self.inject_plan_of(turn, port, bytes, Sent::default())
    }

    /// The same for an application that waits for word of its end: also of one that comes later, or of a frame of it.
    pub fn inject_plan_of(
        &mut self,
        turn: &mut Turn<'_>,
        port: u64,
        bytes: &mut [u8],
        sent: Sent,
    ) -> Result<(), Reason> {
        let waits = self.cx.has_work();
        turn.out.sender = sent;
        let injected = self.with_plan(turn, |plan, os| plan.inject(os, port, bytes, waits));
        turn.out.sender = Sent::default();
        injected.unwrap_or(Err(Reason::UnknownType))
    }

    /// A PLAN service is there from now on; the error says why it cannot be.
    pub fn load_service(
        &mut self,
        name: &str,
        signature: CallType,
        service: Box<dyn LoadedService>,
    ) -> Result<(), String> {
        let speaker: &mut Speaker = self.environments.get_mut().ok_or("this node does not speak PLAN")?;
        speaker.plan.load(name, signature, service)
    }

    /// Whether PLAN services of these names can be loaded when those have gone; the error says which one cannot be, and why.
    pub fn services_fit(&mut self, gone: &[String], new: &[String]) -> Result<(), String> {
        if new.is_empty() {
            return Ok(());
        }
        let speaker: &mut Speaker = self.environments.get_mut().ok_or("this node does not speak PLAN")?;
        speaker.plan.fits(gone, new)
    }

    /// Whether a PLAN service of this name was loaded.
    pub fn has_service(&mut self, name: &str) -> bool {
        self.ask(|speaker: &mut Speaker, _| speaker.plan.has_loaded(name)).unwrap_or(false)
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

    /// Whether what was asked for by [`Wish::Graph`] is still to be done.
    pub fn is_graph_asked(&mut self, turn: &mut Turn<'_>, asker: &GraphAsker) -> bool {
        self.with_plan(turn, |plan, os| plan.is_graph_asked(os, asker)).unwrap_or(false)
    }

    /// The answer to [`Wish::Graph`], which took so many nanoseconds.
    pub fn graph_said(&mut self, turn: &mut Turn<'_>, ask: &GraphAsk, answer: GraphAnswer, took: u64) {
        self.with_plan(turn, |plan, os| plan.graph_said(os, ask, answer, took));
    }

    /// What becomes of a wish that the outside has no time for.
    pub fn wished_in_vain(&mut self, turn: &mut Turn<'_>, wish: Wish) {
        let busy = || "the node is busy".to_owned();
        match wish {
            Wish::Resolve(name) => self.resolved(turn, &name, None),
            Wish::Vouch(question, _) => self.vouched(turn, question, Err(busy())),
            Wish::Install(install) => self.installed(turn, install.digest, Err(busy())),
            Wish::Graph(ask) => {
                self.graph_said(turn, &ask, Err(GraphRefused { cause: GraphCause::TooOften, why: busy() }), 0);
            }
        }
    }

    /// The answer to [`Wish::Resolve`].
    pub fn resolved(&mut self, turn: &mut Turn<'_>, name: &str, addr: Option<Addr>) {
        self.with_plan(turn, |plan, os| plan.resolved(os, name, addr));
    }

    /// Ends the domain of a principal who has signed packets, if there is one, with what the environment keeps of it;
    /// says how many domains that are.
    pub(in crate::node) fn end_plan_principal(&mut self, turn: &mut Turn<'_>, name: &str) -> usize {
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
