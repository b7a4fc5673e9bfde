//! What a graph of a node is asked to be: its text, what it takes, and where; and what is wrong with it, before anything is made of it.
//!
//! A device of the text is a port of the node, by its name. So is the host, if its role says that it has the other end of that port.
//! Captures are none, so a text with those is refused here.

use super::class::{BroughtClass, BroughtClasses};
use super::edges::EdgeKind;
use super::load::{self, ClassTable, GRAPH_MAX};
use super::placement::GraphPlace;
use super::remote::{PartMarshal, node_of};
use super::table::Graph;
use crate::clean;
use click::classes::nearest;
use click::diagnostic::{Severity, render_all};
use click::edit::{Edit, Refused, edit, parts};
use click::source::Sources;
use std::sync::Arc;

/// Bytes of the text of one.
pub const TEXT_MAX: usize = 256 << 10;

/// What one may take: specifications of packets.
pub const TAKES_MAX: usize = 64;

/// Letters of a graph's name.
const NAME_MAX: usize = 32;

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

/// A graph whose engines are made, for whichever node.
pub struct PreparedGraph {
    pub(crate) spec: GraphSpec,
    pub(super) graph: Graph,
    /// Nodes that have parts of it, and the text of each part.
    pub(super) away: Vec<(String, String)>,
    /// What marshals packets between here and each of these; of a part, and whoever has the rest of it.
    pub(super) marshals: Vec<Option<PartMarshal>>,
    /// The offer that they have accepted.
    pub offer: Option<u32>,
    /// Whether it waits for them, and whoever asks for it does not.
    pub waits: bool,
}

impl GraphSpec {
    /// Makes its engines; or says all that is wrong, each mistake of the text with its place.
    pub fn prepare(self) -> Result<PreparedGraph, String> {
        self.prepare_with(&BroughtClasses::default())
    }

    /// The same where extensions have brought classes.
    pub fn prepare_with(self, brought: &BroughtClasses) -> Result<PreparedGraph, String> {
        self.prepare_within(brought, GRAPH_MAX)
    }

    /// The same of a text that may have so many engines: of one that has many more none is made.
    pub fn prepare_within(self, brought: &BroughtClasses, most: usize) -> Result<PreparedGraph, String> {
        let named = |why: String| format!("graph {}: {why}", clean::shown(&self.name));
        self.check().map_err(named)?;
        let loaded = load::load_parts(&self.text, self.place, brought, most);
        let (graph, away) = loaded.map_err(|wrong| named(shown(&self.name, &self.text, &wrong)))?;
        check_edges(&graph, &self.take).map_err(named)?;
        for part in &away {
            check_part(&part.graph).map_err(|why| named(format!("at {}: {why}", part.node)))?;
        }
        let away: Vec<_> = away.into_iter().map(|part| (part.node, part.text)).collect();
        let marshals = marshals(&away, brought).map_err(named)?;
        Ok(PreparedGraph { spec: self, graph, away, marshals, offer: None, waits: false })
    }

    /// Makes the engines of a part that a node of this address has sent and that may have so many, and names it after both.
    /// `marshal`: what marshals its packets, if not the node itself.
    pub fn prepare_part(
        mut self,
        from: &str,
        most: usize,
        marshal: Option<PartMarshal>,
    ) -> Result<PreparedGraph, String> {
        self.check()?;
        let graph = load::load_part(&self.text, most).map_err(|wrong| shown(&self.name, &self.text, &wrong))?;
        check_part(&graph)?;
        self.name = format!("{}@{from}", self.name);
        Ok(PreparedGraph { spec: self, graph, away: Vec::new(), marshals: vec![marshal], offer: None, waits: false })
    }

    /// Its text without some connections and engines, and with others, so many engines at most; nothing is made of it yet.
    pub fn edited(&self, changes: Edit<'_>, brought: &BroughtClasses, most: usize) -> Result<String, String> {
        let why = |refused| match refused {
            Refused::Text(text, wrong) => shown(&self.name, &text, &wrong),
            Refused::Absent(why) => clean::shown(&why).to_string(),
        };
        let edited = edit(&self.text, &ClassTable::with(brought).within(most), changes);
        edited.map_err(|refused| format!("graph {}: {}", clean::shown(&self.name), why(refused)))
    }

    /// The same of a change as programs say it: chains that go, engines that go, statements that come.
    pub fn edited_as(&self, said: [&str; 3], brought: &BroughtClasses, most: usize) -> Result<String, String> {
        let [disconnect, remove, connect] = parts(said);
        self.edited(Edit { disconnect: &disconnect, remove: &remove, connect: &connect }, brought, most)
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

    /// The classes of extensions that it has engines of, and those that marshal its packets.
    pub fn brought(&self) -> impl Iterator<Item = &Arc<BroughtClass>> {
        self.graph.brought().chain(self.marshalling())
    }

    /// What marshals its packets.
    fn marshalling(&self) -> impl Iterator<Item = &Arc<BroughtClass>> {
        self.marshals.iter().flatten().map(|by| &by.class)
    }

    /// What marshals packets between here and the part of this number.
    pub fn marshal(&self, part: usize) -> Option<&BroughtClass> {
        self.marshals.get(part)?.as_ref().map(|by| &*by.class)
    }

    /// Writes to one of its engines, `ENGINE.HANDLER`, before it runs.
    pub fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        let (engine, of) = handler
            .rsplit_once('.')
            .ok_or_else(|| format!("{handler}: a handler is named ENGINE.HANDLER, as c.count"))?;
        let names = || self.graph.engines().iter().map(|placed| &*placed.name);
        let Some(at) = self.graph.find(engine) else {
            let near = nearest(engine, names()).map_or(String::new(), |near| format!("; did you mean '{near}'?"));
            return Err(format!("'{engine}' is no engine of graph {}{near}", self.spec.name));
        };
        match self.graph.write(at, of, value) {
            Some(written) => written.map_err(|why| format!("{handler}={value}: {why}")),
            None => Err(format!("{engine} has no handler {of} that is written to: anode graph doc has all")),
        }
    }

    /// How many engines it has.
    pub fn engines(&self) -> usize {
        self.graph.engines().len()
    }

    /// The names of the devices by which packets leave, connections to other nodes aside.
    pub fn exits(&self) -> impl Iterator<Item = &str> {
        let places = &self.graph.places;
        let exits = places.exits.iter().filter_map(|at| places.all.get(usize::from(*at)));
        exits.filter(|(kind, _)| *kind != EdgeKind::Remote).map(|(_, name)| name.as_str())
    }

    /// The names of the ports that it has: devices, and those whose other end is the host's.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        let places = self.graph.places.all.iter();
        let ports = places.filter(|(kind, _)| matches!(kind, EdgeKind::Device | EdgeKind::Host));
        ports.map(|(_, name)| name.as_str())
    }

    /// The names of the ports whose other end is the host's.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        let places = self.graph.places.all.iter();
        places.filter(|(kind, _)| *kind == EdgeKind::Host).map(|(_, name)| name.as_str())
    }

    /// What of it is to be in the kernel, and nowhere else, as it is written.
    pub fn in_kernel(&self) -> Option<String> {
        if self.spec.place == GraphPlace::Kernel {
            return Some("place = \"kernel\"".into());
        }
        let placed = self.graph.engines().iter().find(|placed| placed.place == GraphPlace::Kernel);
        placed.map(|placed| format!("{} @kernel", placed.name))
    }

    /// The same, which waits for its parts if it has any at other nodes.
    pub fn that_waits(mut self) -> PreparedGraph {
        self.waits = true;
        self
    }

    /// The nodes that are to have parts of it, and the text of each part.
    pub fn away(&self) -> &[(String, String)] {
        &self.away
    }
}

/// What marshals packets between here and each of these nodes, one for each.
fn marshals(away: &[(String, String)], brought: &BroughtClasses) -> Result<Vec<Option<PartMarshal>>, String> {
    let mut all = Vec::new();
    for (at, (place, _)) in away.iter().enumerate() {
        let (node, by) = node_of(place);
        if away[..at].iter().any(|(other, _)| node_of(other).0 == node) {
            return Err(format!("packets to {node} are marshalled in two ways: use one for all its engines"));
        }
        let made = by.map(|name| PartMarshal::new(name, brought)).transpose();
        all.push(made.map_err(|why| format!("@remote({node}, …): {why}"))?);
    }
    Ok(all)
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
        None => match graph.places.all.iter().find(|(kind, _)| *kind == EdgeKind::Host) {
            Some(_) => {
                Err("FromHost and ToHost are of the host of the node that has the graph, and not of another one's"
                    .into())
            }
            None => check_edges(graph, &[]),
        },
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
            EdgeKind::Host if name.is_empty() => {
                return Err(
                    "ToHost() names no port: make a pair of interfaces (ip link add … type veth), one end of which is a port, \
                     as ToHost(PORT)"
                        .into(),
                );
            }
            EdgeKind::Host if graph.places.all.contains(&(EdgeKind::Device, name.clone())) => {
                return Err(format!("{name} is a device of the text and the host's: one port is one of them"));
            }
            EdgeKind::Device | EdgeKind::Host if graph.is_entrance(edge) => comes.push(name.as_str()),
            EdgeKind::Device | EdgeKind::Host | EdgeKind::Remote => {}
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
        Some(name) => {
            Err(format!("nothing would come by {name}: say in take which packets, as '{name}/ip 10.0.2.0/24'"))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

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
            (&[][..], TEXT, "nothing would come by a: say in take"),
            (&["a/ip *", "b/ip *"], TEXT, "take: 'b/ip *' is of b, and the text has no FromDevice(b)"),
            (&["*/ip *"], TEXT, "take: '*/ip *' is of all ports"),
            (&["a/ip *", "a/ip *"], TEXT, "take: 'a/ip *' stands twice"),
            (&["a/arp", " a/arp"], TEXT, "take: ' a/arp' stands twice"),
            (&["a"], "FromDevice(a) -> ToDump(x);", "'x' is a capture, and a node has none"),
            (&["a"], "FromDevice(a) -> ToHost;", "ToHost() names no port: make a pair of interfaces"),
            (&["a"], "FromDevice(a) -> ToHost(a);", "a is a device of the text and the host's"),
            (&["b"], "FromHost(a) -> Discard;", "take: 'b' is of b"),
            (&["a"], "FromDevice(a) -> Quue -> ToDevice(b);", "g:1:18"),
            (
                &["a/ip *"],
                "FromDevice(a) -> Counter @remote(n, x/Y) -> Discard;",
                "@remote(n, …): no extension that is loaded marshals packets as x/Y; there is none",
            ),
            (
                &["a/ip *"],
                "FromDevice(a) -> Counter @remote(n) -> Counter @remote(n, x/Y) -> Discard;",
                "packets to n are marshalled in two ways",
            ),
            (
                &["a/ip *"],
                "FromDevice(a) -> Counter @remote(n, Y) -> Discard;",
                "'Y' is no procedure that marshals packets",
            ),
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
}
