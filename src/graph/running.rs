//! Graphs of running nodes, as they are asked for, made ready, and run: one generation of each at a time.
//!
//! ```text
//! text ─▶ checked, engines made (any thread) ─▶ bound to the node's ports ─▶ takes over from the generation before ─▶ runs
//!              │ wrong                               │ no such port
//!              └──────────────┬──────────────────────┘
//!                             └─▶ refused; the generation before runs on
//! ```
//!
//! A device of the text is a port of the node, by its name. Captures and the host are none, so a text with those is refused here.

use super::class::{BroughtClass, BroughtClasses};
use super::edges::EdgeKind;
use super::fused::{self, FusedPart, Fusion};
use super::load::{self, ClassTable};
use super::remote::{PartPlace, Remotes};
use super::scratch::Scratch;
use super::table::Graph;
use crate::clean;
use crate::core::reason::Reason;
use crate::frame::{Frame, FramePool, PortId};
use click::diagnostic::{Severity, render_all};
use click::edit::{Edit, Refused, edit};
use click::source::Sources;
use std::sync::Arc;

/// Graphs of one node, at most.
pub const GRAPHS_MAX: usize = 256;

/// Bytes of the text of one.
pub const TEXT_MAX: usize = 256 << 10;

/// What one may take: specifications of packets.
pub const TAKES_MAX: usize = 64;

/// Letters of a graph's name.
const NAME_MAX: usize = 32;

/// How long a graph rests that has more to do at once, in nanoseconds: a source without a rate does not keep its worker.
const REST: u64 = 50_000;

/// Packets that are taken through a graph together, at most.
pub const RUN_MAX: usize = 16;

/// Of what the smallest queue holds, so many parts come together: copies have room too.
const ROOM_PARTS: u64 = 4;

/// No edge of a graph.
const NO_EDGE: u16 = u16::MAX;

/// A graph that a node is to run: a `[[graph]]` of its configuration, or one that an operator applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSpec {
    /// Its name, which its domain has too.
    pub name: String,
    /// The role of its domain.
    pub role: String,
    /// Which packets it takes: protocol and address of channels, as `eth0/ip 10.0.2.0/24`.
    #[serde(default)]
    pub take: Vec<String>,
    /// In Click's language.
    pub text: String,
    /// Where it runs.
    #[serde(default)]
    pub place: GraphPlace,
}

/// Where a graph is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GraphPlace {
    /// In the kernel if it can and may, else in user space.
    #[default]
    Auto,
    /// In the kernel, or not at all.
    Kernel,
    /// In user space.
    User,
}

impl core::str::FromStr for GraphPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<GraphPlace, String> {
        match text {
            "auto" => Ok(GraphPlace::Auto),
            "kernel" => Ok(GraphPlace::Kernel),
            "user" => Ok(GraphPlace::User),
            _ => Err(format!("place: '{}' is none: auto, kernel, user", clean::shown(text))),
        }
    }
}

/// A graph whose engines are made, for whichever node.
pub struct PreparedGraph {
    pub(crate) spec: GraphSpec,
    graph: Graph,
    /// Nodes that have parts of it, and the text of each part.
    away: Vec<(String, String)>,
    /// The offer that they have accepted.
    pub offer: Option<u32>,
}

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

impl GraphSpec {
    /// Makes its engines; or says all that is wrong, each mistake of the text with its place.
    pub fn prepare(self) -> Result<PreparedGraph, String> {
        self.prepare_with(&BroughtClasses::default())
    }

    /// The same where extensions have brought classes.
    pub fn prepare_with(self, brought: &BroughtClasses) -> Result<PreparedGraph, String> {
        let named = |why: String| format!("graph {}: {why}", clean::shown(&self.name));
        self.check().map_err(named)?;
        let loaded = load::load_parts(&self.text, brought);
        let (graph, away) = loaded.map_err(|wrong| named(shown(&self.name, &self.text, &wrong)))?;
        check_edges(&graph, &self.take).map_err(named)?;
        for part in &away {
            check_part(&part.graph).map_err(|why| named(format!("at {}: {why}", part.node)))?;
        }
        let away = away.into_iter().map(|part| (part.node, part.text)).collect();
        Ok(PreparedGraph { spec: self, graph, away, offer: None })
    }

    /// Makes the engines of a part that a node of this address has sent, and names it after both.
    pub fn prepare_part(mut self, from: &str) -> Result<PreparedGraph, String> {
        self.check()?;
        let graph = load::load_part(&self.text).map_err(|wrong| shown(&self.name, &self.text, &wrong))?;
        check_part(&graph)?;
        self.name = format!("{}@{from}", self.name);
        Ok(PreparedGraph { spec: self, graph, away: Vec::new(), offer: None })
    }

    /// Its text without some connections and engines, and with others; nothing is made of it yet.
    pub fn edited(&self, changes: Edit<'_>, brought: &BroughtClasses) -> Result<String, String> {
        let why = |refused| match refused {
            Refused::Text(text, wrong) => shown(&self.name, &text, &wrong),
            Refused::Absent(why) => clean::shown(&why).to_string(),
        };
        let edited = edit(&self.text, &ClassTable::with(brought), changes);
        edited.map_err(|refused| format!("graph {}: {}", clean::shown(&self.name), why(refused)))
    }

    fn check(&self) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || self.name.len() > NAME_MAX || !self.name.chars().all(is_plain) {
            return Err(format!("a graph's name is 1 to {NAME_MAX} letters, digits, '-', '_' or '.'"));
        }
        if self.text.len() > TEXT_MAX {
            return Err(format!("a text has at most {TEXT_MAX} bytes, and this one {}", self.text.len()));
        }
        if self.take.len() > TAKES_MAX {
            return Err(format!(
                "take: at most {TAKES_MAX} specifications of packets, and these are {}",
                self.take.len()
            ));
        }
        match self
            .take
            .iter()
            .enumerate()
            .find(|(at, take)| self.take[..*at].iter().any(|other| other.trim() == take.trim()))
        {
            Some((_, twice)) => Err(format!("take: '{twice}' stands twice")),
            None => Ok(()),
        }
    }
}

impl PreparedGraph {
    /// What it was made of.
    pub fn spec(&self) -> &GraphSpec {
        &self.spec
    }

    /// The classes of extensions that it has engines of.
    pub fn brought(&self) -> impl Iterator<Item = &Arc<BroughtClass>> {
        self.graph.brought()
    }

    /// How many engines it has.
    pub fn engines(&self) -> usize {
        self.graph.engines().len()
    }

    /// The names of the devices by which packets leave.
    pub fn exits(&self) -> impl Iterator<Item = &str> {
        let places = &self.graph.places;
        places.exits.iter().filter_map(|at| places.all.get(usize::from(*at))).map(|(_, name)| name.as_str())
    }

    /// The names of its devices.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        let devices = self.graph.places.all.iter().filter(|(kind, _)| *kind == EdgeKind::Device);
        devices.map(|(_, name)| name.as_str())
    }

    /// The nodes that are to have parts of it, and the text of each part.
    pub fn away(&self) -> &[(String, String)] {
        &self.away
    }

    /// For a node with these ports, and with its other parts at these places; the name of a device that is no port is given back.
    pub fn bind(
        self,
        number: u32,
        port: impl Fn(&str) -> Option<PortId>,
        places: Vec<PartPlace>,
    ) -> Result<(GraphSpec, GraphGeneration), String> {
        let PreparedGraph { spec, graph, away, .. } = self;
        let nodes: Vec<String> = away.into_iter().map(|(node, _)| node).collect();
        let remotes = Remotes::new(&graph, &nodes, places);
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

/// Where a specification of packets begins: the port's name.
pub fn port_of(take: &str) -> &str {
    take.trim_start().split(['/', ' ']).next().unwrap_or_default()
}

/// A part at another node takes nothing there but what comes by connections of the graph.
fn check_part(graph: &Graph) -> Result<(), String> {
    let mut entrances = (0..).zip(&graph.places.all).filter(|(edge, _)| graph.is_entrance(*edge));
    match entrances.find(|(_, (kind, _))| *kind == EdgeKind::Device) {
        Some((_, (_, name))) => Err(format!(
            "FromDevice({name}) takes packets there, which is for whoever has that node to say: take them here, or by a graph of its own"
        )),
        None => check_edges(graph, &[]),
    }
}

/// Devices and connections to other nodes alone, and each device that gives packets has some to give.
fn check_edges(graph: &Graph, takes: &[String]) -> Result<(), String> {
    let mut comes = Vec::new();
    for (edge, (kind, name)) in (0..).zip(&graph.places.all) {
        match kind {
            EdgeKind::Dump => {
                return Err(format!(
                    "'{name}' is a capture, and a node has none: run this text by anode graph run, or capture at a port (pcap)"
                ));
            }
            EdgeKind::Host => {
                return Err(
                    "FromHost and ToHost are not there in a node: make a pair of interfaces (ip link add … type veth), make \
                     one end a port, and use FromDevice and ToDevice with it"
                        .into(),
                );
            }
            EdgeKind::Device if graph.is_entrance(edge) => comes.push(name.as_str()),
            EdgeKind::Device | EdgeKind::Remote => {}
        }
    }
    for take in takes {
        let port = port_of(take);
        if port == "*" {
            return Err(format!("take: '{take}' is of all ports: name one of FromDevice, or of each a specification"));
        }
        if !comes.contains(&port) {
            return Err(format!("take: '{take}' is of {port}, and the text has no FromDevice({port})"));
        }
    }
    let gives = |name: &&&str| !takes.iter().any(|take| port_of(take) == **name);
    match comes.iter().find(gives) {
        Some(name) => Err(format!(
            "nothing would come by FromDevice({name}): say in take which packets, as '{name}/ip 10.0.2.0/24'"
        )),
        None => Ok(()),
    }
}

/// What is wrong with a text, with carets.
fn shown(name: &str, text: &str, wrong: &[click::diagnostic::Diagnostic]) -> String {
    let mut sources = Sources::default();
    sources.add(name, "", text);
    let cleaned = sources.shown_as(clean::line, clean::blotted);
    format!("its text is wrong\n{}", render_all(wrong, &cleaned, Severity::Error, false))
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

    fn refused(take: &[&str], text: &str) -> Option<String> {
        spec(take, text).prepare().err()
    }

    const TEXT: &str = "FromDevice(a) -> Queue -> ToDevice(b);";

    #[test]
    fn what_no_node_can_run_is_refused_with_its_cause_and_a_remedy() {
        assert_eq!(refused(&["a/ip *"], TEXT), None);
        assert_eq!(refused(&[], "TimedSource(1) -> Queue -> ToDevice(b);"), None);
        for (take, text, said) in [
            (&[][..], TEXT, "nothing would come by FromDevice(a): say in take"),
            (&["a/ip *", "b/ip *"], TEXT, "take: 'b/ip *' is of b, and the text has no FromDevice(b)"),
            (&["*/ip *"], TEXT, "take: '*/ip *' is of all ports"),
            (&["a/ip *", "a/ip *"], TEXT, "take: 'a/ip *' stands twice"),
            (&["a/arp", " a/arp"], TEXT, "take: ' a/arp' stands twice"),
            (&["a"], "FromDevice(a) -> ToDump(x);", "'x' is a capture, and a node has none"),
            (&["a"], "FromDevice(a) -> ToHost;", "FromHost and ToHost are not there in a node"),
            (&["a"], "FromDevice(a) -> Quue -> ToDevice(b);", "g:1:18"),
            (
                &["a/ip *"],
                "FromDevice(a) -> Queue @remote(n) -> ToDevice(b);",
                "packets cannot be pulled from another node",
            ),
            (&["a/ip *"], "FromDevice(a) -> Strip @remote(n) -> Discard;", "'Strip@2' lacks LENGTH"),
            (&["a/ip *"], "FromDevice(a) -> ToRemote(1);", "unknown class 'ToRemote'"),
            (
                &["a/ip *"],
                "FromDevice(a) -> Discard; FromDevice(b) @remote(n) -> Discard;",
                "at n: FromDevice(b) takes packets there",
            ),
            (&["a/ip *"], "FromDevice(a) -> ToDump(x) @remote(n);", "at n: 'x' is a capture, and a node has none"),
        ] {
            let why = refused(take, text).unwrap_or_default();
            assert!(why.starts_with("graph g: ") && why.contains(said), "{text}: {why}");
        }
        let long = format!("// {}\n{TEXT}", "x".repeat(TEXT_MAX));
        assert!(refused(&["a"], &long).is_some_and(|why| why.contains("at most 262144 bytes")));
        let many: Vec<String> = (0..=TAKES_MAX).map(|port| format!("a/ip/udp *:{port}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(refused(&many, TEXT).is_some_and(|why| why.contains("at most 64 specifications")));
        for name in ["", "a b", &"x".repeat(NAME_MAX + 1)] {
            let named = GraphSpec { name: name.into(), ..spec(&["a"], TEXT) };
            assert!(named.prepare().err().is_some_and(|why| why.contains("1 to 32 letters")), "{name}");
        }
    }

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
