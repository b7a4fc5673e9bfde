//! What is said of graphs that run, and what operators say to their engines.

use super::parts::{GraphPart, Kept};
use super::{GraphEditor, GraphRefusal, Running, RunningGraphs};
use crate::clean;
use crate::core::domain::DomainId;
use crate::graph::engine::Placed;
use crate::graph::spec::{GraphPlace, GraphSpec};
use crate::graph::swap::GraphWire;
use crate::node::Node;
use crate::nodeos::interface::Error;
use crate::wire::Addr;

/// What has become of the packets of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphTraffic {
    /// Those that came in.
    pub came: u64,
    /// Those that began in it.
    pub begun: u64,
    /// Those that left by a port.
    pub left: u64,
    /// Those that engines have used up.
    pub used: u64,
    /// Those that were dropped.
    pub dropped: u64,
    /// Those that its engines hold, of all generations.
    pub held: u64,
}

/// An engine of a running graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphEngine {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Whether packets come to it in the kernel.
    pub in_kernel: bool,
    /// Packets that it holds.
    pub held: u64,
}

/// What is known of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphStatus {
    /// Its name.
    pub name: String,
    /// The role of its domain.
    pub role: String,
    /// Which packets it takes.
    pub take: Vec<String>,
    /// Who pays.
    pub domain: DomainId,
    /// The number of its generation.
    pub generation: u32,
    /// Generations before that still hold something.
    pub older: usize,
    /// Its packets.
    pub traffic: GraphTraffic,
    /// Engines of its generation.
    pub engines: usize,
    /// Where it is to run.
    pub asked: GraphPlace,
    /// Whether it runs in the kernel; why not, or not all of it.
    pub in_kernel: bool,
    /// See [`GraphStatus::in_kernel`].
    pub why: String,
    /// Packets that came in there.
    pub kernel_packets: u64,
    /// Its parts at other nodes.
    pub parts: Vec<GraphPart>,
    /// Of a part of a graph, the node that has that.
    pub owner: Option<Addr>,
    /// How often a program has changed it.
    pub edited: u64,
}

/// A graph with its engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownGraph {
    /// The graph.
    pub status: GraphStatus,
    /// The engines of its generation.
    pub engines: Vec<GraphEngine>,
    /// How they are connected, by their numbers.
    pub wires: Vec<GraphWire>,
    /// What engines have printed last.
    pub said: Vec<String>,
    /// Its text.
    pub text: String,
}

impl Running {
    pub(super) fn status(&self) -> GraphStatus {
        GraphStatus {
            name: self.spec.name.clone(),
            role: self.spec.role.clone(),
            take: self.spec.take.clone(),
            domain: self.domain,
            generation: self.now.number,
            older: self.older.len(),
            traffic: self.traffic,
            engines: self.now.graph.engines().len(),
            asked: self.spec.place,
            in_kernel: self.slot.is_some(),
            why: self.why.clone(),
            kernel_packets: self.kernel_packets,
            parts: self.kept.iter().map(Kept::told).collect(),
            owner: self.owner(),
            edited: self.edited,
        }
    }

    pub(super) fn shown(&self) -> ShownGraph {
        let graph = &self.now.graph;
        let fused = self.now.kernel().map_or(&[][..], |part| &part.fusion.engines);
        let engine = |(at, placed): (u16, &Placed)| GraphEngine {
            name: placed.name.to_string(),
            class: placed.class.name().to_owned(),
            in_kernel: fused.contains(&at),
            held: graph.held_by(at),
        };
        ShownGraph {
            status: self.status(),
            engines: (0..).zip(graph.engines()).map(engine).collect(),
            wires: graph.wires(),
            said: self.said.iter().cloned().collect(),
            text: self.spec.text.clone(),
        }
    }
}

impl Node {
    /// All graphs.
    pub fn graphs(&mut self) -> Vec<GraphStatus> {
        self.settle_graphs();
        let graphs: Option<&RunningGraphs> = self.environments.get();
        graphs.map_or(Vec::new(), |graphs| graphs.list.iter().map(Running::status).collect())
    }

    /// One of them with its engines.
    pub fn graph(&mut self, name: &str) -> Result<ShownGraph, String> {
        self.settle_graph(name);
        let graphs: Option<&RunningGraphs> = self.environments.get();
        graphs.and_then(|graphs| graphs.find(name)).map(Running::shown).ok_or_else(|| no_graph(name))
    }

    /// What one of them was asked for as.
    pub fn graph_spec(&self, name: &str) -> Option<GraphSpec> {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        graphs.and_then(|graphs| graphs.find(name)).map(|graph| graph.spec.clone())
    }

    /// The graphs that have engines of these extensions, of whichever generation, if they do not stand among `besides`.
    pub fn graphs_with(&self, extensions: &[String], besides: &[String]) -> Vec<String> {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let has = |graph: &&Running| {
            let generations = graph.older.iter().map(|(before, _)| before).chain([&graph.now]);
            generations.flat_map(|it| it.graph.brought()).any(|class| extensions.contains(&class.extension))
        };
        let all = graphs.into_iter().flat_map(|graphs| &graphs.list).filter(has);
        all.map(|graph| graph.spec.name.clone()).filter(|name| !besides.contains(name)).collect()
    }

    /// Whether a graph runs that has engines of an extension which is not loaded as it was then.
    pub fn is_graph_outdated(&self, name: &str) -> bool {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let graph = graphs.and_then(|graphs| graphs.find(name));
        graph.is_some_and(|graph| graph.now.graph.brought().any(|class| class.is_gone()))
    }

    /// Refuses a program that has nothing to do with a graph, or, if it is to change it, has changed some too often.
    pub fn admit_editor(
        &mut self,
        now: u64,
        editor: &GraphEditor,
        name: &str,
        changes: bool,
    ) -> Result<(), GraphRefusal> {
        let role = &editor.role;
        let graphs: Option<&mut RunningGraphs> = self.environments.get_mut();
        let is_its =
            |graph: &&Running| graph.spec.name == name && graph.spec.role == role.name && graph.owner().is_none();
        if let Some(graphs) = graphs {
            if changes {
                graphs.edits.count(now, role)?;
            }
            if graphs.list.iter().any(|graph| is_its(&graph)) {
                return Ok(());
            }
        }
        // Of graphs of others nobody is told.
        let why = format!("no graph {} runs in the role {}", clean::shown(name), role.name);
        Err(GraphRefusal::new(Error::Unknown, why))
    }

    /// A graph has become what a program has asked for.
    pub fn count_edited(&mut self, name: &str) {
        let graphs: Option<&mut RunningGraphs> = self.environments.get_mut();
        let graph = graphs.and_then(|graphs| graphs.list.iter_mut().find(|graph| graph.spec.name == name));
        graph.into_iter().for_each(|graph| graph.edited += 1);
    }

    /// What an engine of a graph says of itself.
    pub fn read_graph(&mut self, name: &str, engine: &str, handler: &str) -> Result<String, String> {
        self.settle_graph(name);
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let graph = &graphs.and_then(|graphs| graphs.find(name)).ok_or_else(|| no_graph(name))?.now.graph;
        let at = graph.find(engine).ok_or_else(|| no_engine(name, engine))?;
        graph.read(at, handler).ok_or_else(|| no_handler(graph.engines().get(usize::from(at)), engine, handler))
    }

    /// An operator writes to an engine of a graph.
    pub fn write_graph(
        &mut self,
        now_ns: u64,
        name: &str,
        (engine, handler): (&str, &str),
        value: &str,
    ) -> Result<(), String> {
        self.settle_graph(name);
        let graphs: Option<&mut RunningGraphs> = self.environments.get_mut();
        let graph = graphs.and_then(|graphs| graphs.list.iter_mut().find(|graph| graph.spec.name == name));
        let now = &mut graph.ok_or_else(|| no_graph(name))?.now;
        let at = now.graph.find(engine).ok_or_else(|| no_engine(name, engine))?;
        // It may have been told to begin.
        now.wake = 0;
        match now.graph.write(at, handler, value) {
            Some(written) => written.map_err(|why| format!("{engine}.{handler}={value}: {why}"))?,
            None => return Err(no_handler(now.graph.engines().get(usize::from(at)), engine, handler)),
        }
        self.renew_program(now_ns, name);
        Ok(())
    }
}

pub(super) fn no_graph(name: &str) -> String {
    format!("this node runs no graph {name}: anode graph ls has all")
}

fn no_engine(graph: &str, engine: &str) -> String {
    format!("graph {graph} has no engine {engine}: anode graph show has all")
}

fn no_handler(placed: Option<&Placed>, engine: &str, handler: &str) -> String {
    let class = placed.map_or("", |placed| placed.class.name());
    format!("{engine} has no such handler {handler}: anode graph doc {class} has all")
}
