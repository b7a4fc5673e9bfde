//! What a graph of a node is asked to be: its text, what it takes, and where; and what is wrong with it, before anything is made of it.
//!
//! A device of the text is a port of the node, by its name. Captures and the host are none, so a text with those is refused here.

use super::class::{BroughtClass, BroughtClasses};
use super::edges::EdgeKind;
use super::load::{self, ClassTable};
use super::table::Graph;
use crate::clean;
use click::diagnostic::{Severity, render_all};
use click::edit::{Edit, Refused, edit};
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
    pub(super) graph: Graph,
    /// Nodes that have parts of it, and the text of each part.
    pub(super) away: Vec<(String, String)>,
    /// The offer that they have accepted.
    pub offer: Option<u32>,
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
}
