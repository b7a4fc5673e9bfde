//! Graphs of running nodes, made ready from what is asked for ([`super::spec`]) and run: one generation of each at a time.
//!
//! ```text
//! text ─▶ checked, engines made (any thread) ─▶ bound to the node's ports ─▶ takes over from the generation before ─▶ runs
//!              │ wrong                               │ no such port
//!              └──────────────┬──────────────────────┘
//!                             └─▶ refused; the generation before runs on
//! ```

use super::class::BroughtClass;
use super::fused::{self, FusedPart, Fusion};
use super::placement::GraphPlace;
use super::remote::{PartPlace, Remotes};
use super::scratch::Scratch;
use super::spec::{GraphSpec, PreparedGraph};
use super::table::Graph;
use crate::core::reason::Reason;
use crate::frame::{Frame, FramePool, PortId};
use std::sync::Arc;

/// Graphs of one node, at most.
pub const GRAPHS_MAX: usize = 256;

/// How long a graph rests that has more to do at once, in nanoseconds: a source without a rate does not keep its worker.
const REST: u64 = 50_000;

/// Packets that are taken through a graph together, at most.
pub const RUN_MAX: usize = 16;

/// Of what the smallest queue holds, so many parts come together: copies have room too.
const ROOM_PARTS: u64 = 4;

/// No edge of a graph.
const NO_EDGE: u16 = u16::MAX;

/// One generation of a graph.
pub struct GraphGeneration {
    /// Its number: the first is 1.
    pub number: u32,
    /// Its engines.
    pub graph: Graph,
    /// The port of each edge.
    ports: Vec<PortId>,
    /// The edge of each port.
    edges: Vec<u16>,
    /// Connections that lead to other nodes.
    pub remotes: Remotes,
    /// Packets that are taken through together, at most.
    together: usize,
    /// Those that are.
    run: Vec<Frame>,
    /// When it has something to do.
    pub wake: u64,
    /// Its part in the kernel, if it has one.
    kernel: Option<FusedPart>,
}

impl PreparedGraph {
    /// For a node with these ports, and with its other parts at these places; the name of a device that is no port is given back.
    pub fn bind(
        self,
        number: u32,
        port: impl Fn(&str) -> Option<PortId>,
        places: Vec<PartPlace>,
    ) -> Result<(GraphSpec, GraphGeneration), String> {
        let PreparedGraph { spec, graph, away, marshals, .. } = self;
        let nodes: Vec<String> = away.into_iter().map(|(node, _)| node).collect();
        let remotes = Remotes::new(&graph, &nodes, places, marshals);
        let mut ports = Vec::new();
        let mut edges = Vec::new();
        for (edge, (_, name)) in (0..).zip(&graph.places.all) {
            if let Some(id) = remotes.port(edge) {
                ports.push(id);
                continue;
            }
            let id = port(name).ok_or_else(|| name.clone())?;
            ports.push(id);
            let at = usize::from(id.0);
            if edges.len() <= at {
                edges.resize(at + 1, NO_EDGE);
            }
            edges[at] = edge;
        }
        let wake = if graph.tasks.is_empty() { u64::MAX } else { 0 };
        let together = (graph.room() / ROOM_PARTS).clamp(1, RUN_MAX as u64) as usize;
        let run = Vec::with_capacity(RUN_MAX);
        Ok((spec, GraphGeneration { number, graph, ports, edges, remotes, together, run, wake, kernel: None }))
    }
}

impl GraphGeneration {
    /// Packets come in by ports of the node, in their order.
    pub fn receive(
        &mut self,
        frames: impl Iterator<Item = Frame>,
        now: u64,
        pool: &mut FramePool,
        scratch: &mut Scratch,
    ) {
        let mut by = NO_EDGE;
        for frame in frames {
            let edge = self.edges.get(usize::from(frame.port.0)).copied();
            let edge = edge.or_else(|| self.remotes.edge(frame.port)).unwrap_or(NO_EDGE);
            if edge != by || self.run.len() >= self.together {
                self.take_through(by, now, pool, scratch);
                self.graph.work(now, pool, scratch);
            }
            by = edge;
            match edge {
                // It was taken for the generation before, which had a device there.
                NO_EDGE => scratch.dropped.push((frame, Reason::GraphDropped)),
                _ => self.run.push(frame),
            }
        }
        self.take_through(by, now, pool, scratch);
        self.work(now, pool, scratch);
    }

    /// Those that have come by one edge go their way.
    fn take_through(&mut self, edge: u16, now: u64, pool: &mut FramePool, scratch: &mut Scratch) {
        if !self.run.is_empty() {
            self.graph.receive_all(PortId(edge), &mut self.run, now, pool, scratch);
        }
    }

    /// Engines have their turns. What has left is in `scratch`, each with its port of the node.
    pub fn work(&mut self, now: u64, pool: &mut FramePool, scratch: &mut Scratch) {
        let is_busy = self.graph.work(now, pool, scratch);
        let next = self.graph.next_run(now).min(scratch.wake);
        self.wake = if is_busy { now + REST } else { next };
        for frame in &mut scratch.out {
            frame.port = self.ports.get(usize::from(frame.port.0)).copied().unwrap_or(PortId(u16::MAX));
        }
    }

    /// Its devices are other ports, or none: those of their names.
    pub fn rebind(&mut self, port: impl Fn(&str) -> Option<PortId>) {
        self.edges.fill(NO_EDGE);
        for ((edge, (_, name)), known) in (0..).zip(&self.graph.places.all).zip(&mut self.ports) {
            if self.remotes.port(edge).is_some() {
                continue;
            }
            *known = port(name).unwrap_or(PortId(u16::MAX));
            let at = usize::from(known.0);
            if port(name).is_some() {
                if self.edges.len() <= at {
                    self.edges.resize(at + 1, NO_EDGE);
                }
                self.edges[at] = edge;
            }
        }
    }

    /// What this one has counted since it was replaced, for packets of parts elsewhere that came late, is counted there.
    pub fn count_late_in(&mut self, now: &mut Graph) {
        if !self.remotes.places.is_empty() {
            now.count_late(&mut self.graph);
        }
    }

    /// The classes of extensions that it has engines of, and those that marshal its packets.
    pub fn brought(&self) -> impl Iterator<Item = &Arc<BroughtClass>> {
        self.graph.brought().chain(self.remotes.marshals.iter().flatten().map(|by| &by.class))
    }

    /// Bytes that it keeps beside packets, of whatever it has learnt of them, and the memories of modules.
    pub fn kept(&self) -> u64 {
        self.graph.kept() + self.remotes.keep()
    }

    /// Its part in the kernel, if it has one.
    pub fn kernel(&self) -> Option<&FusedPart> {
        self.kernel.as_ref()
    }

    /// Its part in the kernel, with its engines.
    pub fn kernel_and_graph(&mut self) -> (Option<&mut FusedPart>, &mut Graph) {
        (self.kernel.as_mut(), &mut self.graph)
    }

    /// It has another part in the kernel, or none, and its engines know what they may put there; gives back the part before.
    pub fn set_kernel(&mut self, part: Option<FusedPart>) -> Option<FusedPart> {
        for (at, placed) in (0..).zip(&mut self.graph.engines) {
            let table = part.as_ref().and_then(|part| part.table_of(at));
            placed.engine.iter_mut().for_each(|engine| engine.meet_table(table.clone()));
        }
        core::mem::replace(&mut self.kernel, part)
    }

    /// What it would be as one program in the kernel, whole or in parts, or why it is none.
    pub fn fuse(&self, asked: GraphPlace) -> Result<Fusion, String> {
        fused::plan(&self.graph, asked != GraphPlace::Kernel, |edge| {
            self.ports.get(usize::from(edge)).map_or(u32::MAX, |port| port.0.into())
        })
    }

    /// Takes over from the one before.
    pub fn take_over(&mut self, before: &mut GraphGeneration) -> usize {
        let both = self.graph.take_over(&mut before.graph);
        before.graph.wind_down();
        self.wake = 0;
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FRAME;

    fn spec(take: &[&str], text: &str) -> GraphSpec {
        let take = take.iter().map(|take| (*take).to_owned()).collect();
        GraphSpec { name: "g".into(), role: "ee".into(), take, text: text.into(), ..GraphSpec::default() }
    }

    const TEXT: &str = "FromDevice(a) -> Queue -> ToDevice(b);";

    #[test]
    fn devices_are_ports_by_their_names() {
        let bind = |known: &'static [&str]| {
            let port = |name: &str| known.iter().position(|port| *port == name).map(|at| PortId(at as u16));
            spec(&["a"], TEXT).prepare().unwrap().bind(7, port, Vec::new()).map(|(_, generation)| generation)
        };
        assert_eq!(bind(&["a"]).err().as_deref(), Some("b"));
        let mut generation = bind(&["x", "b", "a"]).unwrap_or_else(|name| panic!("{name}"));
        let (mut pool, mut scratch) = (FramePool::new(FRAME, 16), Scratch::default());
        let from = |port: u16| {
            let mut frame = Frame::from_bytes(&[0; 60]);
            frame.port = PortId(port);
            frame
        };
        for (port, out, dropped) in [(2, 1, 0), (0, 1, 1), (1, 1, 2), (9, 1, 3), (2, 2, 3)] {
            generation.receive([from(port)].into_iter(), 5, &mut pool, &mut scratch);
            assert_eq!((scratch.out.len(), scratch.dropped.len()), (out, dropped), "from {port}");
        }
        assert!(scratch.out.iter().all(|frame| frame.port == PortId(1)));
    }

    #[test]
    fn a_source_without_a_rate_lets_others_work() {
        let text = "InfiniteSource -> Discard;";
        let prepared = spec(&[], text).prepare().unwrap();
        let (_, mut generation) = prepared.bind(1, |_| None, Vec::new()).unwrap_or_else(|name| panic!("{name}"));
        let (mut pool, mut scratch) = (FramePool::new(FRAME, 16), Scratch::default());
        generation.work(1000, &mut pool, &mut scratch);
        assert_eq!(generation.wake, 1000 + REST);
        assert!(scratch.begun < 100_000);
    }
}
