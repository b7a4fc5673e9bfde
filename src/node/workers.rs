//! The workers of a node: what the first tells the others, and what becomes of it there.
//!
//! Example: code is ready at worker 0, which tells all others: from then on each runs its capsules itself. Worker 0 has
//! the tables of the node: it fetches and judges code, learns neighbours, asks for link addresses, serves applications,
//! channels and PLAN. Another worker is a node of its own that has what it was told, and hands over what is not
//! for it ([`super::handing`]). So it stands to the first as the kernel half does.

use super::codes::{Code, Ready};
use super::hosts::Hosts;
use super::output::{Effect, Turn};
use super::proofs::Guard;
use super::turning::{Turned, Turns};
use super::{Capsules, Cx, Node};
use crate::code::run::LoadedProgram;
use crate::core::bucket::burst;
use crate::core::common::{Common, OfCode};
use crate::core::domain::{Domain, DomainId, EnvironmentId};
use crate::frame::PortId;
use crate::frame::WorkerId;
use crate::graph::rules::SharedRules;
use crate::nodeos::interface::HostId;
use crate::nodeos::store::Signal;
use crate::topology::{Router, Routes, Topology};
use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Digest};
use std::collections::HashMap;
use std::sync::Arc;

/// What all workers of a node have in common.
#[derive(Clone, Debug)]
pub struct Joint {
    common: Common,
    rules: SharedRules,
}

impl Joint {
    /// For so many workers, with room for so many entries of soft state.
    pub fn new(workers: WorkerId, state_entries: usize) -> Joint {
        Joint { common: Common::new(workers, state_entries), rules: SharedRules::new(workers) }
    }
}

/// Which worker of its node this is, and what all of them have in common.
#[derive(Default)]
pub(super) struct Workers {
    id: WorkerId,
    common: Option<Common>,
    /// Moves of domains that are under way.
    pub(super) turns: Turns,
    /// Changes of routes, ports and neighbours that the others have been told.
    told: ([u32; 2], u64),
    /// Of each port, whether it demands anything or somebody behind it has a key: there the first worker alone proves and is
    /// proved to, since counters of proofs are its.
    guarded: Vec<bool>,
    /// Codes that this one was told to run: what it is told again after a panic.
    to_run: HashMap<Digest, RunOrder>,
}

impl Workers {
    /// Whether this one is not the first.
    #[inline(always)]
    pub(super) fn is_further(&self) -> bool {
        self.id > 0
    }

    /// Its number.
    pub(super) fn id(&self) -> WorkerId {
        self.id
    }

    /// Whether there are several.
    #[inline(always)]
    pub(super) fn are_several(&self) -> bool {
        self.common.is_some()
    }

    /// How many there are.
    pub(super) fn count(&self) -> WorkerId {
        self.common.as_ref().map_or(1, |common| common.workers)
    }

    /// What all have in common, if there are several.
    pub(super) fn common(&self) -> Option<&Common> {
        self.common.as_ref()
    }

    /// Whether only the first worker lets packets in by a port, and sends by it.
    #[inline]
    pub(super) fn guards(&self, port: PortId) -> bool {
        self.guarded.get(usize::from(port.0)) == Some(&true)
    }

    /// Changes of the neighbours that others have been told, if there are others to tell.
    #[inline]
    pub(super) fn told_of_neighbours(&self) -> Option<u64> {
        (self.id == 0 && self.common.is_some()).then_some(self.told.1)
    }

    /// All that was said of codes, as it is now.
    pub(super) fn told_to_run(&self) -> Vec<RunOrder> {
        self.to_run.values().cloned().collect()
    }

    /// Remembers what was said of a code.
    fn note(&mut self, order: &WorkerOrder) {
        match order {
            WorkerOrder::Run(order) => drop(self.to_run.insert(order.code, (**order).clone())),
            WorkerOrder::Replace(code, program) => {
                self.to_run.get_mut(code).into_iter().for_each(|order| order.program = program.clone());
            }
            WorkerOrder::Stop(code) => drop(self.to_run.remove(code)),
            WorkerOrder::Topology(_) | WorkerOrder::Routes(..) | WorkerOrder::Link(..) | WorkerOrder::Changed(_) => {}
        }
    }

    /// What is told, as long as there is somebody to tell.
    pub(super) fn leads(&self) -> Option<&Common> {
        self.common.as_ref().filter(|_| self.id == 0)
    }
}

/// What the first worker tells all others.
#[derive(Clone)]
pub enum WorkerOrder {
    /// Ports, neighbours and routes are these.
    Topology(Box<Topology>),
    /// Routes are these, and this is asked in their place.
    Routes(Arc<Routes>, Option<Arc<dyn Router>>),
    /// A next hop behind a port has this link address.
    Link(PortId, Addr, Mac),
    /// Code can run.
    Run(Box<RunOrder>),
    /// Code that runs was compiled anew.
    Replace(Digest, LoadedProgram),
    /// Code does not run any more.
    Stop(Digest),
    /// Something has changed for a watch of a domain that may be there.
    Changed(Signal),
}

/// Code that can run.
#[derive(Clone)]
pub struct RunOrder {
    /// Its name.
    code: Digest,
    /// It as the first worker has it.
    ready: Ready,
    program: LoadedProgram,
    common: OfCode,
    /// Whether nobody could be asked for its bpf representation.
    alone: bool,
}

impl Node {
    /// This is one worker of several, which have that in common; to be said before the first packet.
    pub fn set_worker(&mut self, id: WorkerId, joint: Joint) {
        let Joint { common, rules } = joint;
        // The kernel half hears of the first one only.
        self.cx.control.mirror.on &= id == 0;
        self.cx.core.domains.share_names(&common.names.domains);
        self.cx.core.pools.share_names(&common.names.pools);
        self.cx.graphs.channels.share_names(&common.names);
        self.cx.graphs.channels.share_rules(&rules, id);
        self.cx.control.events.name_as(id);
        self.ask(|hosts: &mut Hosts, _| hosts.0.share(&common.names.hosts));
        self.cx.control.workers = Workers { id, common: Some(common), ..Workers::default() };
        self.cx.divide_ingress();
    }

    /// Names that this one has given are nobody's: another node goes on in its place.
    pub(super) fn give_up_names(&mut self) {
        self.cx.core.domains.give_up_names();
        self.cx.core.pools.give_up_names();
        self.cx.graphs.channels.give_up_names();
        self.ask(|hosts: &mut Hosts, _| hosts.0.give_up());
    }

    /// As [`Node::set_guard`], of a worker that is not the first: what is proved goes by that one.
    pub fn leave_guard(&mut self, guard: &Guard) {
        self.note_guarded(guard);
    }

    /// At ports that demand or have keys the first worker alone lets packets in.
    pub(super) fn note_guarded(&mut self, guard: &Guard) {
        let ports = (0..self.cx.core.topology.ports.len()).map(|at| PortId(at as u16));
        self.cx.control.workers.guarded = ports.map(|port| guard.guards(port)).collect();
        self.cx.divide_ingress();
    }

    /// Another worker sends to this next hop, and has known its link address for long.
    pub fn link_is_old(&mut self, turn: &mut Turn<'_>, port: PortId, addr: Addr) {
        self.cx.look_up_for_others(turn, port, addr);
    }

    /// The domain at the first worker that this one stands for.
    pub fn at_first(&self, domain: DomainId) -> DomainId {
        self.cx.core.domains.by_id(domain).and_then(|own| own.at_first).unwrap_or(domain)
    }

    /// The first worker tells this one something.
    pub fn obey(&mut self, turn: &mut Turn<'_>, order: WorkerOrder) {
        match order {
            WorkerOrder::Topology(topology) => {
                let (before, now) = (&self.cx.core.topology, &*topology);
                let moved = before.ports.iter().zip(&now.ports).zip(0..).filter(|((was, is), _)| was != is);
                let moved: Vec<u16> = moved.map(|(_, at)| at).collect();
                let heard = core::mem::take(&mut self.cx.core.topology.neighbours);
                self.cx.core.topology = *topology;
                self.cx.core.topology.neighbours.keep_heard(&heard);
                self.cx.fit_ports();
                let all = self.cx.core.topology.neighbours.iter().map(|neighbour| (neighbour.port, neighbour.addr));
                let new = all.filter(|(port, addr)| heard.index(*port, *addr).is_none());
                let new = new.map(|(port, addr)| Turned::Neighbour(port, addr)).collect();
                self.cx.turn_from_first(turn, new);
                moved.into_iter().for_each(|at| self.cx.core.resolver.forget(PortId(at)));
            }
            WorkerOrder::Routes(routes, router) => self.cx.core.topology.set_routes(routes, router),
            WorkerOrder::Link(port, addr, mac) => {
                let is_new = self.cx.core.resolver.known(turn.now, port, addr).is_none();
                self.cx.core.resolver.believe(turn.now, port, addr, mac);
                if is_new {
                    self.cx.turn_from_first(turn, vec![Turned::Hop(port, addr)]);
                }
            }
            WorkerOrder::Changed(signal) => {
                self.cx.signal(signal);
                self.environments.settle(&mut self.cx, turn);
            }
            order => {
                self.cx.control.workers.note(&order);
                self.ask(|capsules: &mut Capsules, cx| capsules.obey(cx, turn, order));
            }
        }
    }
}

impl Cx {
    /// Whether there are other workers to tell.
    #[inline]
    pub(super) fn leads_others(&self) -> bool {
        self.control.workers.leads().is_some()
    }

    /// The worker of a domain that is an environment's, if there are several.
    pub(super) fn worker_of(&self, id: DomainId, domain: &Domain) -> Option<WorkerId> {
        let is_own = self.control.kept.contains(&id) || domain.environment == EnvironmentId::default();
        (self.control.workers.are_several() && !is_own).then(|| self.control.workers.id())
    }

    /// Tells the other workers, if there are any.
    #[inline]
    pub(super) fn tell_workers(&self, turn: &mut Turn<'_>, order: impl FnOnce(&Cx) -> WorkerOrder) {
        if self.control.workers.leads().is_some() {
            turn.out.effects.push(Effect::Workers(Box::new(order(self))));
        }
    }

    /// Tells the first worker whom this one has heard since it looked last.
    pub(super) fn tell_heard(&self, turn: &mut Turn<'_>) {
        if self.is_further() {
            let heard = self.core.topology.neighbours.heard_since(turn.now.saturating_sub(super::LOOK));
            turn.out.effects.push(Effect::Heard(heard));
        }
    }

    /// Code goes out of service at the first worker: nothing of it stays elsewhere.
    pub(super) fn end_common(&mut self, turn: &mut Turn<'_>, domain: DomainId, code: &Digest) {
        if self.control.workers.leads().is_none() {
            return;
        }
        // One that an operator ends has taken its state along already.
        if let Some(common) = self.core.domains.of(domain).and_then(|domain| domain.common.take()) {
            common.state.forget();
        }
        turn.out.effects.push(Effect::Workers(Box::new(WorkerOrder::Stop(*code))));
    }

    /// Tells them of ports, neighbours and routes, if those have changed.
    pub(super) fn tell_topology(&mut self, turn: &mut Turn<'_>) {
        if self.control.workers.leads().is_none() {
            return;
        }
        let now = (self.core.topology.each_change(), self.core.topology.neighbours.changes());
        let before = core::mem::replace(&mut self.control.workers.told, now);
        if (now.0[1], now.1) != (before.0[1], before.1) {
            self.tell_workers(turn, |cx| WorkerOrder::Topology(Box::new(cx.core.topology.clone())));
        } else if now != before {
            // They change often, and the rest is large.
            self.tell_workers(turn, |cx| {
                let (routes, router) = cx.core.topology.routing();
                WorkerOrder::Routes(routes, router)
            });
        }
    }
}

impl Capsules {
    /// Code is ready at the first worker: it is made ready for others to share, and they are told.
    pub(super) fn tell_ready(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        code: Digest,
        program: LoadedProgram,
        group: u64,
    ) {
        let Some(leads) = cx.control.workers.leads() else { return };
        let Some(Code::Ready(ready)) = self.codes.of(&code) else { return };
        let common = leads.code(ready.domain, group, &ready.grant.role.limits);
        cx.share_code(ready, &common);
        let alone = self.codes.is_alone(&code);
        let order = RunOrder { code, ready: (**ready).clone(), program, common, alone };
        turn.out.effects.push(Effect::Workers(Box::new(WorkerOrder::Run(Box::new(order)))));
    }

    fn obey(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, order: WorkerOrder) {
        match order {
            WorkerOrder::Run(order) => self.run_too(cx, turn, *order),
            WorkerOrder::Replace(code, program) => {
                if let Some(Code::Ready(ready)) = self.codes.of(&code) {
                    turn.runtime.replace(ready.slot, program);
                }
            }
            WorkerOrder::Stop(code) => drop(self.withdraw(cx, turn, &code)),
            WorkerOrder::Topology(_) | WorkerOrder::Routes(..) | WorkerOrder::Link(..) | WorkerOrder::Changed(_) => {}
        }
    }

    /// Code that another worker has made ready runs here too; if there is no room for it, its capsules are handed over.
    fn run_too(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, order: RunOrder) {
        let RunOrder { code, mut ready, program, common, alone } = order;
        let is_new = !self.withdraw(cx, turn, &code);
        let (title, role) = (ready.claim.manifest.title().to_owned(), ready.grant.role.clone());
        let Ok(domain) = cx.add_domain(self.domain, title, HostId::NODE, (&role, role.grants), None) else { return };
        cx.core.domains.of(domain).into_iter().for_each(|own| own.at_first = Some(ready.domain));
        ready.domain = domain;
        ready.slot = turn.runtime.install(program);
        cx.share_code(&ready, &common);
        let (doubted, in_force) = (ready.grant.is_unvouched(), cx.has_role(&ready.grant.role));
        self.enter(cx, turn, code, Code::Ready(Box::new(ready)));
        if is_new {
            cx.turn_from_first(turn, vec![Turned::Code(code)]);
        }
        // Somebody's packet may say whom to ask for what it came without: the first worker does, when it is handed one.
        self.codes.set_doubted(&code, doubted, false, turn.now);
        self.codes.set_alone(&code, alone);
        if !in_force {
            // The first worker does not know yet what this one knows already.
            self.renew_code(cx, turn, &code);
        }
    }
}

impl Cx {
    /// Of what a port may bring each worker has a part; where the first alone lets packets in, it has all.
    pub(super) fn divide_ingress(&mut self) {
        let workers = &self.control.workers;
        let (whole, id, count) = (self.core.ingress_rate, workers.id(), workers.count());
        for at in 0..self.core.ingress.len() {
            let port = PortId(at as u16);
            let own = if workers.guards(port) { whole } else { part_of_rate(whole, id, count) };
            if let Some(Some(bucket)) = self.core.ingress.get_mut(at) {
                // The moment is that of its last use: what comes back since then does so at the new rate.
                bucket.renew(0, own, burst(own));
            }
        }
    }

    /// The domain of code spends one budget with all workers, and keeps its soft state where they do.
    fn share_code(&mut self, ready: &Ready, common: &OfCode) {
        let share = common.account.of(self.control.workers.id);
        if let Some(domain) = self.core.domains.of(ready.domain) {
            domain.shared = Some(common.state.clone());
            domain.share_budget(share);
            domain.wishes.here = Some(common.wishes.clone());
            domain.common = (self.control.workers.id == 0).then(|| common.clone());
        }
    }
}

/// What one worker of several has of what a port may bring: an equal part, and the first what is left over.
fn part_of_rate(whole: u64, id: WorkerId, workers: WorkerId) -> u64 {
    let workers = u64::from(workers.max(1));
    let own = whole / workers + if id == 0 { whole % workers } else { 0 };
    own.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_what_a_port_may_bring_and_none_has_nothing() {
        let of = part_of_rate;
        assert_eq!([0, 1, 2].map(|id| of(1000, id, 3)), [334, 333, 333]);
        assert_eq!([of(2, 2, 3), of(7, 0, 1)], [1, 7]);
    }
}
