//! What is said of graphs that run, and what operators say to their engines.

use super::parts::{GraphPart, Kept};
use super::{EditorAsk, GraphEditor, GraphRefusal, Running, RunningGraphs};
use crate::clean;
use crate::core::domain::DomainId;
use crate::core::reason::Drops;
use crate::graph::class::BroughtClasses;
use crate::graph::engine::Placed;
use crate::graph::placement::GraphPlace;
use crate::graph::running::GraphGeneration;
use crate::graph::spec::GraphSpec;
use crate::graph::swap::GraphWire;
use crate::node::Node;
use crate::node::wishing::EditStatus;
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
    /// How often locked fields of a packet were blanked, as it went to another place.
    pub blanked: u64,
}

/// An engine of a running graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphEngine {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Where it is to be.
    pub asked: GraphPlace,
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
    /// What waits to run in its place, and for what; where it has no generation, itself.
    pub waits: Option<String>,
    /// Its edits that code of capsules may wish for.
    pub edits: Vec<EditStatus>,
    /// What its domain has dropped, by reason.
    pub drops: Drops,
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
    fn status(&self, graphs: &RunningGraphs) -> GraphStatus {
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
            waits: graphs.waits(&self.spec.name),
            edits: Vec::new(),
            drops: Drops::default(),
        }
    }

    fn shown(&self, graphs: &RunningGraphs) -> ShownGraph {
        let graph = &self.now.graph;
        let fused = self.now.kernel().map_or(&[][..], |part| &part.fusion.engines);
        let engine = |(at, placed): (u16, &Placed)| GraphEngine {
            name: placed.name.to_string(),
            class: placed.class.name().to_owned(),
            asked: placed.place,
            in_kernel: fused.contains(&at),
            held: graph.held_by(at),
        };
        ShownGraph {
            status: self.status(graphs),
            engines: (0..).zip(graph.engines()).map(engine).collect(),
            wires: graph.wires(),
            said: self.said.iter().cloned().collect(),
            text: self.spec.text.clone(),
        }
    }
}

impl Node {
    /// All graphs, those among them that wait to run.
    pub fn graphs(&mut self) -> Vec<GraphStatus> {
        self.settle_graphs();
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let mut all: Vec<_> = graphs.map_or(Vec::new(), |graphs| {
            graphs.list.iter().map(|graph| graph.status(graphs)).chain(graphs.all_waiting()).collect()
        });
        all.iter_mut().for_each(|status| self.fill(status));
        all
    }

    /// One of them with its engines.
    pub fn graph(&mut self, name: &str) -> Result<ShownGraph, String> {
        self.settle_graph(name);
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let shown = graphs.and_then(|graphs| match graphs.find(name) {
            Some(graph) => Some(graph.shown(graphs)),
            None => graphs.shown_waiting(name),
        });
        let mut shown = shown.ok_or_else(|| no_graph(name))?;
        self.fill(&mut shown.status);
        Ok(shown)
    }

    /// What is not known where graphs are.
    fn fill(&self, status: &mut GraphStatus) {
        status.edits = self.edits_of(&status.name, &status.role);
        let domain = self.cx.core.domains.by_id(status.domain);
        status.drops = domain.map_or_else(Drops::default, |domain| domain.counts.drops.clone());
    }

    /// What one of them was asked for as, or is where nothing runs of it yet.
    pub fn graph_spec(&self, name: &str) -> Option<GraphSpec> {
        let graphs: &RunningGraphs = self.environments.get()?;
        graphs.find(name).map(|graph| &graph.spec).or_else(|| graphs.waiting_spec(name)).cloned()
    }

    /// The graphs that have engines of these extensions, or are marshalled by them, of whichever generation, one that is accepted and does
    /// not run yet among them; but none of `besides`.
    pub fn graphs_with(&self, extensions: &[String], besides: &[String]) -> Vec<String> {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let has = |graph: &&Running| {
            let generations = graph.older.iter().map(|(before, _)| before).chain([&graph.now]);
            let next = graph.hosted.as_ref().and_then(|hosted| hosted.next.as_ref());
            let next = next.into_iter().flat_map(|(_, next)| next.brought());
            generations
                .flat_map(GraphGeneration::brought)
                .chain(next)
                .any(|class| extensions.contains(&class.extension))
        };
        let all = graphs.into_iter().flat_map(|graphs| &graphs.list).filter(has);
        all.map(|graph| graph.spec.name.clone()).filter(|name| !besides.contains(name)).collect()
    }

    /// Whether a graph runs that has engines of an extension which is not loaded as it was then.
    pub fn is_graph_outdated(&self, name: &str) -> bool {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let graph = graphs.and_then(|graphs| graphs.find(name));
        graph.is_some_and(|graph| graph.now.brought().any(|class| class.is_gone()))
    }

    /// Extensions have brought these classes, and no others.
    pub fn set_brought(&mut self, classes: BroughtClasses) {
        if let Some(graphs) = self.environments.get_mut::<RunningGraphs>() {
            graphs.brought = classes;
        }
    }

    /// Refuses a program that has nothing to do with a graph, or has changed some, or looked at some, too often.
    pub fn admit_editor(
        &mut self,
        now: u64,
        editor: &GraphEditor,
        name: &str,
        asks: EditorAsk,
    ) -> Result<(), GraphRefusal> {
        let role = &editor.role;
        let graphs: Option<&mut RunningGraphs> = self.environments.get_mut();
        let is_its =
            |graph: &&Running| graph.spec.name == name && graph.spec.role == role.name && graph.owner().is_none();
        if let Some(graphs) = graphs {
            graphs.edits.count(now, role, asks)?;
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
