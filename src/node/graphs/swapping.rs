//! A graph begins, becomes another one, or ends: at once, between two packets, or not at all.
//!
//! Its packets come by inlets, one for each thing that it takes. They are of ports, which have names for whoever writes a graph and numbers
//! here. A port may go and another one come in its place, so devices and inlets are looked up by their names again when ports have changed.

use super::editing::may_have_host;
use super::placing::Placed;
use super::shown::no_graph;
use super::taken::{check_take, heard, no_door};
use super::{OLDER_FOR, OLDER_MAX, Running, RunningGraphs};
use crate::core::domain::DomainId;
use crate::frame::{Link, PortId};
use crate::graph::door::GraphSlot;
use crate::graph::remote::PartPlace;
use crate::graph::running::{GRAPHS_MAX, GraphGeneration, RUN_MAX};
use crate::graph::scratch::Scratch;
use crate::graph::spec::{GraphSpec, PreparedGraph, port_of};
use crate::node::output::Turn;
use crate::node::{Cx, Ended, Node};
use crate::nodeos::interface::{ChanSpec, InChanId, NetSpec, NodeOs};
use crate::topology::Port;
use crate::wire::part::Message;
use std::collections::VecDeque;

/// Packets that may wait for a graph's turn, of each thing that it takes.
const BUFFERS: u16 = 1024;

/// By what packets of one specification come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inlet {
    /// A channel.
    Channel(InChanId),
    /// Copies of what resolves addresses at a port.
    Hears(PortId),
    /// Nothing: there is no port of its name.
    Waits,
}

/// The port that is a device of graphs.
pub(super) fn device(ports: &[Port], name: &str) -> Option<PortId> {
    let at = ports.iter().position(|port| port.name == name && port.link != Link::Overlay && !port.is_vacant())?;
    Some(PortId(at as u16))
}

/// Refuses whoever has looked at another generation than the one of this number.
pub fn is_base(base: Option<u32>, number: u32) -> Result<(), String> {
    match base.filter(|base| *base != number) {
        Some(base) => Err(format!(
            "it has generation {number} by now, and you have looked at {base}: somebody else was at it, look again (anode graph diff)"
        )),
        None => Ok(()),
    }
}

/// A generation that runs from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swapped {
    /// Its number.
    pub generation: u32,
    /// The graph's domain.
    pub domain: DomainId,
    /// Engines that have taken over what those of the same names have kept.
    pub kept: usize,
    /// Whether it runs in the kernel.
    pub in_kernel: bool,
    /// Why not, or not all of it.
    pub why: Option<String>,
}

/// What there is of a graph before it becomes another one.
pub(super) struct Before {
    pub(super) domain: DomainId,
    pub(super) number: u32,
    doors: Vec<(String, Inlet)>,
    is_new: bool,
    /// Where its program is in the kernel.
    pub(super) slot: Option<GraphSlot>,
}

impl Before {
    /// A domain, and no graph of it yet.
    pub(super) fn nothing(domain: DomainId) -> Before {
        Before { domain, number: 0, doors: Vec::new(), is_new: true, slot: None }
    }
}

impl Node {
    /// Runs a graph from now on, in the place of that of its name if there is one. `base`: the generation that whoever asks has looked at,
    /// 0 if there was none; another one is not replaced. Whatever is wrong, what ran before runs on.
    pub fn run_graph(
        &mut self,
        turn: &mut Turn<'_>,
        graph: PreparedGraph,
        base: Option<u32>,
    ) -> Result<Swapped, String> {
        let name = graph.spec().name.clone();
        let named = |why: String| format!("graph {name}: {why}");
        self.check_bounds(graph.spec(), base).map_err(named)?;
        if let Some(class) = graph.brought().find(|class| class.is_gone()) {
            return Err(named(format!("the extension {} was unloaded meanwhile", class.extension)));
        }
        let places = self.take_offer(turn.now, &graph).map_err(named)?;
        let (places, texts): (Vec<_>, Vec<_>) = places.into_iter().unzip();
        let swapped = self.swap_graph(turn, graph, (places.clone(), texts));
        if swapped.is_err() {
            self.ask(|_: &mut RunningGraphs, cx| {
                places.iter().for_each(|place| cx.tell_part(turn, place, &Message::End))
            });
        }
        swapped
    }

    fn swap_graph(
        &mut self,
        turn: &mut Turn<'_>,
        graph: PreparedGraph,
        (places, texts): (Vec<PartPlace>, Vec<Vec<u8>>),
    ) -> Result<Swapped, String> {
        let name = graph.spec().name.clone();
        let named = |why: String| format!("graph {name}: {why}");
        let number = self.generation_of(&name) + 1;
        let hosts: Vec<String> = graph.hosts().map(str::to_owned).collect();
        let bound = graph.bind(number, |name| self.device(name), places);
        let (spec, mut generation) = bound.map_err(|device| named(self.no_device(&device)))?;
        generation.remotes.texts = texts;
        let mut before = self.before(&spec).map_err(named)?;
        let role = self.cx.core.domains.of(before.domain).map(|domain| domain.role.clone());
        let may = role.map_or(Ok(()), |role| may_have_host(hosts.iter().map(String::as_str), &role));
        let may = may.and_then(|()| self.may_keep(before.domain, generation.kept()));
        let doors = may.and_then(|()| self.open_doors(turn, &spec, (before.domain, &before.doors)));
        let wanted = match doors {
            Ok(doors) => doors,
            Err(why) => {
                if before.is_new {
                    self.end_environment(turn, before.domain);
                }
                return Err(named(why));
            }
        };
        let placed = self.place_graph(spec.place, &mut generation, &before, &wanted);
        let placed = match placed {
            Ok(placed) => placed,
            Err(why) => {
                let opened: Vec<_> = wanted.into_iter().filter(|door| !before.doors.contains(door)).collect();
                self.close_doors(turn, before.domain, &opened);
                if before.is_new {
                    self.end_environment(turn, before.domain);
                }
                return Err(named(why));
            }
        };
        if let Some(slot) = before.slot.filter(|_| placed.slot.is_none()) {
            self.leave_kernel(turn.now, slot, before.domain, &before.doors);
        }
        let (in_kernel, why) = (placed.slot.is_some(), (!placed.why.is_empty()).then(|| placed.why.clone()));
        let closed: Vec<_> = before.doors.drain(..).filter(|(take, _)| !spec.take.contains(take)).collect();
        let put = (spec, wanted, generation);
        let kept = self.ask(|graphs: &mut RunningGraphs, cx| graphs.put(cx, turn, put, placed, &before)).unwrap_or(0);
        self.close_doors(turn, before.domain, &closed);
        self.forget_waiting(turn, &name);
        let Before { domain, .. } = before;
        tracing::info!(event = "node", node = self.cx.core.name, name, generation = number, kept, "a graph runs");
        Ok(Swapped { generation: number, domain, kept, in_kernel, why })
    }

    /// Ends a graph with its domain.
    pub fn end_graph(&mut self, turn: &mut Turn<'_>, name: &str) -> Result<Ended, String> {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let domain =
            graphs.and_then(|graphs| graphs.find(name)).map(|graph| graph.domain).ok_or_else(|| no_graph(name))?;
        Ok(self.end_environment(turn, domain))
    }

    /// The number of a graph's generation; 0: there is none of this name.
    pub fn generation_of(&self, name: &str) -> u32 {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        graphs.and_then(|graphs| graphs.find(name)).map_or(0, |graph| graph.now.number)
    }

    pub(super) fn check_bounds(&self, spec: &GraphSpec, base: Option<u32>) -> Result<(), String> {
        let number = self.generation_of(&spec.name);
        is_base(base, number)?;
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let Some(graphs) = graphs.filter(|_| !self.cx.is_further()) else {
            return Err("graphs run at the first worker".into());
        };
        if number == 0 && graphs.list.len() >= GRAPHS_MAX {
            return Err(format!("this node runs {GRAPHS_MAX} graphs, which are all it may: end one"));
        }
        match graphs.find(&spec.name).filter(|graph| graph.spec.role != spec.role) {
            Some(graph) => Err(format!(
                "it runs in the role {}, and keeps that as long as it runs: end it first (anode domain kill)",
                graph.spec.role
            )),
            None => Ok(()),
        }
    }

    fn no_device(&self, name: &str) -> String {
        let ports = self.cx.core.topology.ports.iter();
        let links: Vec<_> = ports.filter(|port| port.link != Link::Overlay).map(|port| &*port.name).collect();
        format!("no port with a link of its own is called {name}; there are: {}", links.join(", "))
    }

    /// What there is of it; if there is nothing, a domain is made.
    fn before(&mut self, spec: &GraphSpec) -> Result<Before, String> {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let place = graphs.and_then(|graphs| graphs.place).ok_or("there are no graphs")?;
        if let Some(graph) = graphs.and_then(|graphs| graphs.find(&spec.name)) {
            let (domain, number, doors, slot) = (graph.domain, graph.now.number, graph.doors.clone(), graph.slot);
            return Ok(Before { domain, number, doors, is_new: false, slot });
        }
        let domain = self.add_environment(&spec.name, &spec.role)?;
        if let Some(known) = self.cx.core.domains.of(domain) {
            known.environment = place;
        }
        Ok(Before::nothing(domain))
    }

    /// The port that is a device of graphs.
    fn device(&self, name: &str) -> Option<PortId> {
        device(&self.cx.core.topology.ports, name)
    }

    /// Refuses what keeps more than its domain has memory for before any packet has come: that are the memories of modules.
    fn may_keep(&self, domain: DomainId, bytes: u64) -> Result<(), String> {
        let most = self.cx.core.domains.by_id(domain).map_or(0, |domain| domain.grants.memory_bytes);
        if bytes > most {
            return Err(format!(
                "its engines of extensions have {bytes} bytes of memory, and its role {most}: grants.memory_bytes"
            ));
        }
        Ok(())
    }

    /// The channels of all that it takes; those that are new are opened, all or none.
    fn open_doors(
        &mut self,
        turn: &mut Turn<'_>,
        spec: &GraphSpec,
        (domain, before): (DomainId, &[(String, Inlet)]),
    ) -> Result<Vec<(String, Inlet)>, String> {
        let (mut doors, mut opened) = (Vec::new(), Vec::new());
        for text in &spec.take {
            if let Some(known) = before.iter().find(|(known, _)| known == text) {
                doors.push(known.clone());
                continue;
            }
            match self.open_door(turn, domain, text) {
                Ok(door) => {
                    opened.push((text.clone(), door));
                    doors.push((text.clone(), door));
                }
                Err(why) => {
                    self.close_doors(turn, domain, &opened);
                    return Err(format!("take: '{text}': {why}"));
                }
            }
        }
        Ok(doors)
    }

    fn open_door(&mut self, turn: &mut Turn<'_>, domain: DomainId, text: &str) -> Result<Inlet, String> {
        let ports = self.cx.core.topology.ports.iter();
        let ports: Vec<_> = ports.map(|port| (&*port.name, port.link != Link::Overlay)).collect();
        let classifying = self.cx.graphs.channels.taught.classifying();
        check_take(text, &ports, Some(classifying))?;
        if let Some(port) = heard(text) {
            let port = self.device(port).ok_or_else(|| self.no_device(port))?;
            self.cx.graphs.hears.push((port, domain));
            return Ok(Inlet::Hears(port));
        }
        let (protocol, address) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let net = NetSpec { buffers: BUFFERS, ..NetSpec::default() };
        let (protocol, address) = (protocol.to_owned(), address.trim().to_owned());
        let spec = ChanSpec { protocol, address, net, ..ChanSpec::default() };
        let made = self.with_os(turn, domain, |os| os.inchan_create(domain, &spec));
        let channel = made.map_err(no_door)?;
        let filter = self.cx.graphs.channels.ins.get(channel).map(|channel| channel.filter.clone());
        if !filter.is_some_and(|filter| filter.watches().iter().any(|watch| watch.is_shared)) {
            self.cx.graphs.channels.ins.get_mut(channel).into_iter().for_each(|channel| channel.joins = true);
            return Ok(Inlet::Channel(channel));
        }
        self.close_doors(turn, domain, &[(text.to_owned(), Inlet::Channel(channel))]);
        let why = "the kernel cannot decide this by itself, and Linux would have these packets as well: say it by addresses, the \
                   protocol's number and ports of fixed fields, as in eth0/ip/udp *:53";
        Err(why.into())
    }

    fn close_doors(&mut self, turn: &mut Turn<'_>, domain: DomainId, doors: &[(String, Inlet)]) {
        for (_, door) in doors {
            match *door {
                Inlet::Channel(channel) => {
                    self.cx.graphs.close_door(&mut self.cx.core, channel);
                    // It is there, and its domain's.
                    let _ = self.with_os(turn, domain, |os| os.inchan_destroy(channel));
                }
                Inlet::Hears(port) => self.cx.graphs.hears.retain(|heard| *heard != (port, domain)),
                Inlet::Waits => {}
            }
        }
    }

    /// Ports have come or gone: graphs have those of the names in their texts.
    pub(in crate::node) fn rebind_graphs(&mut self, turn: &mut Turn<'_>) {
        let ports = &self.cx.core.topology.ports;
        let Some(graphs) = self.environments.get_mut::<RunningGraphs>() else { return };
        for graph in &mut graphs.list {
            let older = graph.older.iter_mut().map(|(older, _)| older);
            older.chain([&mut graph.now]).for_each(|generation| generation.rebind(|name| device(ports, name)));
        }
        let all: Vec<_> = graphs.list.iter().map(|graph| (graph.domain, graph.doors.clone())).collect();
        for (domain, mut doors) in all {
            let mut changed = false;
            for (text, door) in &mut doors {
                let port = self.device(port_of(text));
                let before = match *door {
                    Inlet::Channel(channel) => {
                        self.cx.graphs.channels.ins.get(channel).and_then(|known| known.filter.fixed()?.port)
                    }
                    Inlet::Hears(port) => Some(port),
                    Inlet::Waits => None,
                };
                if port == before {
                    continue;
                }
                changed = true;
                self.close_doors(turn, domain, &[(text.clone(), *door)]);
                let opened = port.map_or(Ok(Inlet::Waits), |_| self.open_door(turn, domain, text));
                *door = opened.unwrap_or_else(|why| {
                    tracing::error!(node = self.cx.core.name, why, take = text, "a graph does not get what it takes");
                    Inlet::Waits
                });
            }
            if changed {
                self.ask(|graphs: &mut RunningGraphs, _| {
                    let graph = graphs.at(domain).and_then(|at| graphs.list.get_mut(at));
                    graph.into_iter().for_each(|graph| graph.doors = core::mem::take(&mut doors));
                });
            }
            self.rebind_program(turn.now, domain);
        }
    }
}

impl RunningGraphs {
    /// From here on nothing fails; how many engines go on.
    pub(super) fn put(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        (spec, doors, mut now): (GraphSpec, Vec<(String, Inlet)>, GraphGeneration),
        Placed { slot, why }: Placed,
        before: &Before,
    ) -> usize {
        let domain = before.domain;
        if before.number == 0 {
            let graph = Running::new((spec, domain, doors), now, (slot, why), turn.now);
            self.list.push(graph);
            self.renew_places();
            for graph in self.list.iter_mut().rev().take(1) {
                graph.lock(cx);
                graph.begin_parts(cx, turn);
            }
            return 0;
        }
        let Some(graph) = self.at(domain).and_then(|at| self.list.get_mut(at)) else { return 0 };
        // What can go now goes its whole way in the generation that it came into.
        graph.now.work(turn.now, &mut turn.out.pool, &mut graph.scratch);
        graph.settle(cx, turn, 0, None);
        // What the kernel has counted so far is the engines', which the next ones take over.
        graph.settle_kernel(cx);
        // What programs before an engine was written to count from now on has no engine by its number any more.
        graph.parts_before.clear();
        let kept = now.take_over(&mut graph.now);
        let before = core::mem::replace(&mut graph.now, now);
        (graph.spec, graph.doors, graph.slot, graph.why) = (spec, doors, slot, why);
        graph.lock(cx);
        graph.older.push_back((before, turn.now + OLDER_FOR));
        graph.end_older(cx, turn, OLDER_MAX);
        graph.begin_parts(cx, turn);
        kept
    }
}

impl Running {
    fn new(
        (spec, domain, doors): (GraphSpec, DomainId, Vec<(String, Inlet)>),
        now: GraphGeneration,
        (slot, why): (Option<GraphSlot>, String),
        settled: u64,
    ) -> Running {
        Running {
            name: spec.name.as_str().into(),
            spec,
            domain,
            doors,
            now,
            came: Vec::with_capacity(RUN_MAX),
            older: VecDeque::new(),
            scratch: Scratch::default(),
            traffic: Default::default(),
            charged: 0,
            said: VecDeque::new(),
            slot,
            why,
            edited: 0,
            kernel_packets: 0,
            parts_before: VecDeque::new(),
            settled,
            hosted: None,
            kept: Vec::new(),
            next_keep: 0,
        }
    }
}
