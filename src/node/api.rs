//! The calls of a driver on a node that concern one environment or the core, such as new routes, a new role table or a
//! status query.

use super::domains::DomainStatus;
use super::entry::EntryCounts;
use super::output::{Linked, Turn};
use super::proofs::Demands;
use super::survey::Surveyed;
use super::{Capsules, Node};
use crate::code::judge::Grant;
use crate::code::run::LoadedProgram;
use crate::core::Heap;
use crate::core::domain::DomainId;
use crate::core::kept::StateFound;
use crate::core::reason::Reason;
use crate::frame::{Frame, Payer, PeerId, PortId};
use crate::graph::half::ChannelHalf;
use crate::link::meter::LinkMeter;
use crate::topology::gauge::{ClassCounts, InputCounts, PolicyCounts};
use crate::topology::{Neighbour, Port, Router, Routes, Way};
use crate::wire::{Addr, Digest};
use std::sync::Arc;

impl Node {
    /// The node's first address: what applications are told.
    pub fn address(&self) -> Option<Addr> {
        let ports = &self.cx.core.topology.ports;
        ports.iter().flat_map(|port| &port.addresses).map(|(addr, _)| *addr).find(|addr| !addr.is_link_local())
    }

    /// Its ports as they are now.
    pub fn ports(&self) -> &[Port] {
        &self.cx.core.topology.ports
    }

    /// Frames that came in by each port and were the node's, and the bytes of all that came.
    pub fn own_frames(&self) -> Vec<[u64; 2]> {
        let gauges = self.cx.core.gauges.iter();
        gauges.map(|gauge| [gauge.received.wrapping_sub(gauge.not_ours), gauge.received_bytes]).collect()
    }

    /// New routes; while there is a router it is asked in their place.
    pub fn set_routes(&mut self, routes: Arc<Routes>, router: Option<Arc<dyn Router>>) {
        self.cx.core.topology.set_routes(routes, router);
    }

    /// The same, and other workers have them at once.
    pub fn follow_routes(&mut self, turn: &mut Turn<'_>, routes: Arc<Routes>, router: Option<Arc<dyn Router>>) {
        self.set_routes(routes, router);
        self.cx.tell_topology(turn);
    }

    /// What the node knows of the way of its own packets to an address.
    pub fn way_to(&mut self, to: Addr) -> Way {
        *self.cx.core.topology.way(to)
    }

    /// The interface of a port has changed: it has other addresses, another MTU or link address, or is another one.
    pub fn set_port(&mut self, id: PortId, port: Port) {
        self.cx.core.topology.set_port(id, port);
        if let Some(proofs) = self.cx.control.proofs.as_deref_mut() {
            proofs.derive_again(id, &self.cx.core.topology);
        }
        self.cx.core.resolver.forget(id);
    }

    /// The link of a port was down: link addresses behind it are asked for anew, so that the kernel half gets them again too.
    pub fn link_was_down(&mut self, id: PortId) {
        self.cx.core.resolver.forget(id);
    }

    /// What a port says of its output queue: frames that wait there, their bytes, and how many have left by it so far.
    pub fn set_port_queue(&mut self, port: PortId, (frames, bytes): (u32, u32), left: u64) {
        if let Some(gauge) = self.cx.core.gauge(port) {
            (gauge.queued, gauge.queued_bytes, gauge.left) = (Some(frames), bytes, left);
        }
    }

    /// What the classes of a port's discipline have done so far.
    pub fn set_port_classes<'a>(&mut self, port: PortId, classes: impl Iterator<Item = (&'a str, ClassCounts)>) {
        if let Some(gauge) = self.cx.core.gauge(port) {
            tell(&mut gauge.classes, classes);
        }
    }

    /// What policies of extensions have done so far in a port's discipline.
    pub fn set_port_policies<'a>(&mut self, port: PortId, policies: impl Iterator<Item = (&'a str, PolicyCounts)>) {
        if let Some(gauge) = self.cx.core.gauge(port) {
            tell(&mut gauge.policies, policies);
        }
    }

    /// What was taken in of a port by an order of ports, if there is one.
    pub fn set_port_input(&mut self, port: PortId, taken: Option<InputCounts>) {
        self.cx.core.gauge(port).into_iter().for_each(|gauge| gauge.input = taken);
    }

    /// Packets that count as handed over and are held here until those before them have arrived.
    pub fn held_back(&self) -> u64 {
        self.cx.control.workers.turns.held_packets()
    }

    /// When this worker looks whether what was before marks of others has gone; nothing: none wait here.
    pub fn next_look_at_marks(&self) -> Option<u64> {
        Some(self.cx.control.workers.turns.marks.next_look()).filter(|look| *look < u64::MAX)
    }

    /// What looks at frames before this node does.
    pub fn set_channel_halves(&mut self, halves: Vec<Box<dyn ChannelHalf>>) {
        self.cx.graphs.halves = halves;
    }

    /// How many bytes wait in the output queue of a port.
    pub fn set_queue(&mut self, port: PortId, bytes: u32) {
        if let Some(gauge) = self.cx.core.gauge(port) {
            gauge.queued_bytes = bytes;
        }
    }

    /// What says what waits on the links of its ports, as far as something does.
    pub fn set_meters(&mut self, meters: Vec<Option<LinkMeter>>) {
        self.cx.core.meters = meters;
    }

    /// Who says what the process's heap has in use, and free besides, in bytes: for programs that ask what the node keeps.
    pub fn set_heap(&mut self, heap: Heap) {
        self.cx.core.heap = Some(heap);
    }

    /// The system has thrown away frames that came in by a port because nobody took them in time.
    pub fn count_missed(&mut self, port: PortId, frames: u32) {
        if let Some(gauge) = self.cx.core.gauge(port) {
            gauge.missed += u64::from(frames);
        }
        self.count_drops(Reason::Missed, frames.into());
    }

    /// An application has opened a port; false if another one has it.
    pub fn open(&mut self, port: u16) -> bool {
        self.ask(|capsules: &mut Capsules, _| capsules.applications.insert(port)).unwrap_or(false)
    }

    /// An application has closed its port.
    pub fn close(&mut self, port: u16) {
        self.ask(|capsules: &mut Capsules, _| capsules.applications.remove(&port));
    }

    /// Adds what has passed by the other half to the accounts of this one.
    pub fn settle_cuts(&mut self) {
        self.cx.graphs.settle_cuts(&mut self.cx.core)
    }

    /// The domains that end if an operator ends one: it and all below it; not the node's own.
    pub fn killable(&self, domain: DomainId) -> Result<Vec<DomainId>, String> {
        self.cx.killable(domain)
    }

    /// A domain and all below it.
    pub fn domains_within(&self, top: DomainId) -> Vec<DomainId> {
        self.cx.domains_within(top)
    }

    /// All domains, each behind the one above it.
    pub fn domain_tree(&self) -> Vec<DomainStatus> {
        self.surveyed(Surveyed::Counters, &[]).counters().map(|(_, domains, _)| domains).unwrap_or_default()
    }

    /// What became of the frames of a peer of a port; of [`PeerId::NONE`], of its strangers'.
    pub fn entry_counts(&self, port: PortId, peer: PeerId) -> EntryCounts {
        self.cx.entry_counts(port, peer)
    }

    /// The same of a neighbour on a link that has a key; nothing of any other.
    pub fn entry_counts_of(&self, port: PortId, addr: Addr) -> Option<EntryCounts> {
        self.cx.entry_counts_of(port, addr)
    }

    /// The kernel half has been at work since a process that has gone: the node learns the neighbours that it knows,
    /// and prepares the codes that run there, which come from the store.
    pub fn take_over(&mut self, turn: &mut Turn<'_>, neighbours: Vec<Neighbour>, codes: Vec<Digest>) {
        self.ask(|capsules: &mut Capsules, cx| capsules.take_over(cx, turn, neighbours, codes)).unwrap_or_default()
    }

    /// Whether no code is on its way, nor one that ran before still to be prepared.
    pub fn awaits_no_code(&self) -> bool {
        self.environments.get().is_none_or(Capsules::awaits_no_code)
    }

    /// Whether the kernel half has said of these, as far as they are ready, whether it runs them.
    pub fn awaits_no_link(&self, codes: &[Digest]) -> bool {
        self.environments.get().is_none_or(|capsules: &Capsules| capsules.awaits_no_link(codes))
    }

    /// Names of the codes that have run lately, the last used first: what the next process prepares.
    pub fn recent_codes(&self) -> Vec<Digest> {
        self.environments.get().map(Capsules::recent_codes).unwrap_or_default()
    }

    /// The answer to [`super::KernelOrder::Link`]: the code's soft state moves to where both halves reach it, then its
    /// capsules may run there.
    pub fn linked(&mut self, turn: &mut Turn<'_>, code: Digest, result: Linked) {
        self.ask(|capsules: &mut Capsules, cx| capsules.linked(cx, turn, code, result)).unwrap_or_default()
    }

    /// The persistent store's answer to [`super::Effect::LookUp`].
    pub fn found(&mut self, turn: &mut Turn<'_>, digest: Digest, bytes: Option<Arc<[u8]>>) {
        self.ask(|capsules: &mut Capsules, cx| capsules.found(cx, turn, digest, bytes)).unwrap_or_default()
    }

    /// The answer to [`super::Effect::Prepare`]: the code runs from now on, or is refused.
    pub fn prepared(&mut self, turn: &mut Turn<'_>, code: Digest, result: Result<LoadedProgram, String>) {
        self.ask(|capsules: &mut Capsules, cx| capsules.prepared(cx, turn, code, result)).unwrap_or_default()
    }

    /// [`super::Effect::Prepare`] could not be taken on: those who wait for the code go, and nothing is held
    /// against it; the next capsule begins anew.
    pub fn unprepared(&mut self, turn: &mut Turn<'_>, code: Digest) {
        self.ask(|capsules: &mut Capsules, cx| capsules.unprepared(cx, turn, code)).unwrap_or_default()
    }

    /// Adds code that somebody on this node vouches for to those a capsule finds; the objects come
    /// from the store.
    pub fn forget_refusal(&mut self, code: &Digest) {
        self.ask(|capsules: &mut Capsules, _| capsules.forget_refusal(code)).unwrap_or_default()
    }

    /// Nothing is held any more against code that was refused.
    pub fn forget_refusals(&mut self) {
        self.ask(|capsules: &mut Capsules, _| capsules.forget_refusals()).unwrap_or_default()
    }

    /// The same for code that came with credentials. What runs already is found anew, in the role that they give; what
    /// runs by just these stays, and is judged again.
    pub fn look_again(&mut self, turn: &mut Turn<'_>, code: &Digest, credentials: &[u8]) {
        self.ask(|capsules: &mut Capsules, cx| capsules.look_again(cx, turn, code, credentials)).unwrap_or_default()
    }

    /// Takes code out, with its domain and all it owns.
    pub fn remove_code(&mut self, turn: &mut Turn<'_>, code: &Digest) -> bool {
        self.ask(|capsules: &mut Capsules, cx| capsules.remove_code(cx, turn, code)).unwrap_or_default()
    }

    /// Some of a code's soft state, from a place on, or who can be asked for it; nothing if the code is not ready here.
    pub fn state_page(&mut self, now: u64, code: &Digest, from: u64) -> Option<StateFound> {
        let domain = self.ask(|capsules: &mut Capsules, _| capsules.domain_of(code))??;
        Some(self.cx.core.state_page(domain, from, now))
    }

    /// How many packets wait for their turn.
    pub fn waiting(&self) -> usize {
        self.cx.order.paths.waiting()
    }

    /// Whether packets wait for [`Node::run_next`].
    pub fn has_work(&self) -> bool {
        self.cx.has_work()
    }

    /// Whether a neighbour has a key here: what it proves to have sent is marked ([`Frame`]'s `authenticated`).
    pub fn has_key(&self, port: PortId, addr: Addr) -> bool {
        self.cx.has_key(port, addr)
    }

    /// The numbers of a neighbour's keys, that to send with first.
    pub fn key_numbers(&self, port: PortId, addr: Addr) -> Vec<u32> {
        self.cx.key_numbers(port, addr)
    }

    /// What a port demands.
    pub fn demands(&self, port: PortId) -> Demands {
        self.cx.demands(port)
    }

    /// An application of this node sends a capsule: header and payload, the source being an address
    /// of this node or none.
    pub fn inject(&mut self, turn: &mut Turn<'_>, frame: Frame) -> Result<(), Reason> {
        let run = self.cx.begin(turn.now, Payer::NOBODY, true);
        let sent = self.ask(|capsules: &mut Capsules, cx| capsules.inject(cx, turn, frame));
        self.cx.end(turn.now, run);
        sent.unwrap_or(Err(Reason::UnknownType))
    }

    /// The answer to [`super::Effect::Prepare`] of code that runs: from the next packet on it runs as it was compiled now.
    pub fn optimised(&mut self, turn: &mut Turn<'_>, code: Digest, result: Result<LoadedProgram, String>) {
        self.ask(|capsules: &mut Capsules, cx| capsules.optimised(cx, turn, code, result)).unwrap_or_default()
    }

    /// The answer to [`super::Effect::Authorise`].
    pub fn authorised(&mut self, turn: &mut Turn<'_>, code: Digest, result: Result<Grant, String>) {
        self.ask(|capsules: &mut Capsules, cx| capsules.authorised(cx, turn, code, result)).unwrap_or_default()
    }
}

/// What is told by name takes the place of what was told before.
fn tell<'a, T>(list: &mut Vec<(Box<str>, T)>, told: impl Iterator<Item = (&'a str, T)>) {
    let mut count = 0;
    for (name, is) in told {
        match list.get_mut(count).filter(|(known, _)| **known == *name) {
            Some((_, known)) => *known = is,
            None => {
                list.truncate(count);
                list.push((name.into(), is));
            }
        }
        count += 1;
    }
    list.truncate(count);
}
