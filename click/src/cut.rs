//! A graph in parts: one for each node that some of its elements are to be at, and what is left for this one.
//!
//! ```text
//! f -> c @remote(b) -> q     here   f -> f/to@0 :: ToRemote(0, NODE b);  c/from@0 :: FromRemote(1, NODE b) -> q
//!                            b      f/from@0 :: FromRemote(0) -> c -> c/to@0 :: ToRemote(1)
//! ```
//!
//! A connection that leads to another place becomes an element of class `ToRemote` where it begins and one of class `FromRemote` where
//! it ends, with one number. Of two other nodes each is connected with this one, which passes on what goes between them. Packets go to
//! another place by being pushed alone: who pulls waits for an answer, and may wait in vain.

use crate::arguments::Argument;
use crate::check::CheckedGraph;
use crate::classes::{Item, Processing};
use crate::diagnostic::Diagnostic;
use crate::flow::{ElementPorts, Port};
use crate::graph::{Connection, Element, Graph, Hop};
use crate::mistakes::Mistakes;
use crate::span::Span;
use std::collections::HashMap;

/// Nodes that a graph has parts at, beside this one, at most.
pub const NODES_MAX: usize = 8;

/// Connections of a graph that are cut, at most.
pub const CUTS_MAX: usize = 64;

/// The class of what sends to another place.
pub const TO_REMOTE: &str = "ToRemote";

/// The class of what comes from another place.
pub const FROM_REMOTE: &str = "FromRemote";

/// What is at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The node, as the text names it.
    pub node: String,
    /// Its elements, with those that connect it.
    pub graph: CheckedGraph,
}

/// A graph in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// What is at this node.
    pub here: CheckedGraph,
    /// What is at others, in the order in which the text names them.
    pub away: Vec<Part>,
}

/// Whether the elements of a connection are at different places.
fn is_cut(graph: &Graph, connection: &Connection) -> bool {
    let place = |hop: Hop| graph.elements.get(hop.element).and_then(Element::node);
    place(connection.from) != place(connection.to)
}

/// Says what cannot be cut.
pub(crate) fn check(graph: &Graph, ports: &[ElementPorts], mistakes: &mut Mistakes) {
    let place = |element: &Element| element.node().unwrap_or("this node").to_owned();
    let mut cuts = 0;
    for connection in graph.connections.iter().filter(|connection| is_cut(graph, connection)) {
        let ends = [connection.from, connection.to].map(|hop| graph.elements.get(hop.element));
        let [Some(from), Some(to)] = ends else { continue };
        let port =
            ports.get(connection.from.element).and_then(|ports| ports.outputs.get(connection.from.port as usize));
        let label = format!("'{}' is at {}, '{}' at {}", from.name, place(from), to.name, place(to));
        if port.is_some_and(|port| port.processing == Processing::Pull) {
            let what = Diagnostic::new(connection.span, "packets cannot be pulled from another node", label);
            let hint = format!("put a queue before '{}', at its place: what is pushed goes there", to.name);
            mistakes.add(what.hint(hint));
        } else if port.is_some_and(|port| port.item != Item::Packet) {
            let what = Diagnostic::new(connection.span, "only packets go to another node", label);
            mistakes.add(what.hint("put both elements into one place"));
        }
        cuts += 1;
        if cuts == CUTS_MAX + 1 {
            let label = format!("at most {CUTS_MAX} are");
            let what = Diagnostic::new(connection.span, "too many connections lead to another place", label);
            mistakes.add(what.hint("put elements that are connected into one place"));
        }
    }
    let nodes = nodes(graph);
    if let Some((span, node)) = nodes.get(NODES_MAX) {
        let what = Diagnostic::new(*span, format!("'{node}' is one node too many"), format!("at most {NODES_MAX}"));
        mistakes.add(what.hint("use fewer nodes, or several graphs"));
    }
}

/// The nodes that elements are to be at, each once, and where the first is declared.
fn nodes(graph: &Graph) -> Vec<(Span, &str)> {
    let mut found: Vec<(Span, &str)> = Vec::new();
    for element in &graph.elements {
        if let Some(node) = element.node().filter(|node| !found.iter().any(|(_, known)| known == node)) {
            found.push((element.span, node));
        }
    }
    found
}

/// A part while it is made.
#[derive(Default)]
struct Made {
    graph: CheckedGraph,
    /// Where an element is, by its number in the whole.
    numbers: HashMap<usize, usize>,
}

impl Made {
    fn add(&mut self, element: Element, ports: ElementPorts) -> usize {
        self.graph.graph.elements.push(element);
        self.graph.ports.push(ports);
        self.graph.graph.elements.len() - 1
    }

    fn hop(&self, hop: Hop) -> Hop {
        Hop { element: self.numbers.get(&hop.element).copied().unwrap_or(0), ..hop }
    }

    fn connect(&mut self, from: Hop, to: Hop, span: Span) {
        self.graph.graph.connections.push(Connection { from, to, span });
    }

    /// What sends a connection's packets to another place (`node`; of a part, whoever has the rest), or what has them from there.
    fn end(&mut self, cut: &Cut<'_>, sends: bool, node: Option<&str>) -> Hop {
        let text = |text: String| Argument { text, span: cut.span, used: cut.span };
        let mut arguments = vec![text(cut.number.to_string())];
        arguments.extend(node.map(|node| text(format!("NODE {node}"))));
        let word = if sends { "to" } else { "from" };
        let mut name = format!("{}/{word}@{}", cut.name, cut.port);
        while self.graph.graph.elements.iter().any(|element| element.name == name) {
            name.push('@');
        }
        let class = if sends { TO_REMOTE } else { FROM_REMOTE }.to_owned();
        let port = vec![Port { processing: Processing::Push, item: Item::Packet }];
        let ports = match sends {
            true => ElementPorts { inputs: port, outputs: vec![] },
            false => ElementPorts { inputs: vec![], outputs: port },
        };
        let element = Element { name, class, arguments, place: None, span: cut.span, within: None };
        Hop { element: self.add(element, ports), port: 0 }
    }
}

/// A connection that is cut: its number, and the port at which it begins, by which its ends are called.
struct Cut<'a> {
    number: usize,
    name: &'a str,
    port: u32,
    span: Span,
}

/// Cuts a graph; each part has the elements without a place that `is_shared`: what they say is for all.
pub fn cut(whole: &CheckedGraph, is_shared: impl Fn(&Element) -> bool) -> Parts {
    let nodes: Vec<&str> = nodes(&whole.graph).into_iter().map(|(_, node)| node).collect();
    let at = |element: &Element| {
        let node = element.node();
        node.and_then(|node| nodes.iter().position(|known| *known == node)).map_or(0, |at| at + 1)
    };
    let mut all: Vec<Made> = (0..=nodes.len()).map(|_| Made::default()).collect();
    let Graph { elements, connections, requirements, provisions } = &whole.graph;
    for (number, (element, ports)) in elements.iter().zip(&whole.ports).enumerate() {
        let own = at(element);
        for (place, made) in all.iter_mut().enumerate() {
            if place == own || own == 0 && is_shared(element) {
                let half = element.place.clone().filter(|_| place == own && own == 0);
                let added = made.add(Element { place: half, ..element.clone() }, ports.clone());
                made.numbers.insert(number, added);
            }
        }
    }
    let mut number = 0;
    for connection in connections {
        let ends = [connection.from, connection.to].map(|hop| elements.get(hop.element));
        let [Some(from), Some(to)] = ends else { continue };
        if !is_cut(&whole.graph, connection) {
            let Some(made) = all.get_mut(at(from)) else { continue };
            let (begins, ends) = (made.hop(connection.from), made.hop(connection.to));
            made.connect(begins, ends, connection.span);
            continue;
        }
        let cut = Cut { number, name: &from.name, port: connection.from.port, span: connection.span };
        separate(&mut all, connection, &cut, [(at(from), from), (at(to), to)].map(|(at, it)| (at, it.node())));
        number += 1;
    }
    for made in &mut all {
        made.graph.graph.connections.sort_by_key(|connection| (connection.from, connection.to));
    }
    let mut parts = all.into_iter().map(|made| made.graph);
    let mut here = parts.next().unwrap_or_default();
    (here.graph.requirements, here.graph.provisions) = (requirements.clone(), provisions.clone());
    let away = nodes.iter().zip(parts).map(|(node, graph)| Part { node: (*node).to_owned(), graph }).collect();
    Parts { here, away }
}

/// Puts the ends of a connection into the parts where it begins and ends; what goes from one other node to another passes this one.
fn separate(all: &mut [Made], connection: &Connection, cut: &Cut<'_>, [from, to]: [(usize, Option<&str>); 2]) {
    let ((from, sender), (to, receiver)) = (from, to);
    let mut passed = None;
    if from == 0 {
        passed = all.first().map(|here| here.hop(connection.from));
    } else if let Some(made) = all.get_mut(from) {
        let (begins, ends) = (made.hop(connection.from), made.end(cut, true, None));
        made.connect(begins, ends, cut.span);
        passed = all.first_mut().map(|here| here.end(cut, false, sender));
    }
    let (Some(passed), Some(here)) = (passed, all.first_mut()) else { return };
    if to == 0 {
        let ends = here.hop(connection.to);
        return here.connect(passed, ends, cut.span);
    }
    let leaves = here.end(cut, true, receiver);
    here.connect(passed, leaves, cut.span);
    if let Some(made) = all.get_mut(to) {
        let (begins, ends) = (made.end(cut, false, None), made.hop(connection.to));
        made.connect(begins, ends, cut.span);
    }
}
