//! Nodes and links to elements and connections: what goes into a tunnel comes out at its other end.
//!
//! With `a -> c/input`, and behind that `c/input -> q`, `a` is connected with `q`. From each output, links are followed through
//! tunnels until they come to elements. A tunnel is entered once from each output, so a circle of tunnels ends.

use super::expand::{Flat, FlatKind};
use crate::classes::Bounds;
use crate::diagnostic::Diagnostic;
use crate::graph::{Connection, Element, ElementPlace, Graph, Hop};
use crate::mistakes::Mistakes;
use std::collections::{HashMap, HashSet};

/// Links that are followed, at most, for each connection that there may be.
const STEPS_MAX: usize = 16;

/// Ports that are connected with an end of a compound or tunnel: the hop, whether it is an output, and the end's name.
#[derive(Debug, Default)]
pub(crate) struct Loose(HashMap<(Hop, bool), String>);

impl Loose {
    /// The end of a compound that a port is connected with.
    pub(crate) fn end(&self, hop: Hop, output: bool) -> Option<&str> {
        self.0.get(&(hop, output)).map(String::as_str)
    }
}

/// Joins what tunnels connect.
pub(super) fn join(flat: Flat, bounds: Bounds, mistakes: &mut Mistakes) -> (Graph, Loose) {
    let mut graph = Graph::default();
    let mut places = Vec::with_capacity(flat.nodes.len());
    for node in &flat.nodes {
        let FlatKind::Element { class, arguments } = &node.kind else {
            places.push(None);
            continue;
        };
        places.push(Some(graph.elements.len()));
        let (name, class, arguments) = (node.name.clone(), class.clone(), arguments.clone());
        let place = node.place.clone().filter(|place| *place != ElementPlace::Auto);
        let place = place.map(|place| place.map(|node| node.to_string()));
        graph.elements.push(Element { name, class, arguments, place, span: node.span, within: node.within });
    }
    let mut joiner = Joiner { flat: &flat, places, behind: HashMap::new(), loose: Loose::default(), steps: 0 };
    for (at, link) in flat.links.iter().enumerate() {
        joiner.behind.entry(link.from).or_default().push(at);
    }
    joiner.ends();
    graph.connections = joiner.connections(bounds.connections, mistakes);
    (graph, joiner.loose)
}

struct Joiner<'a> {
    flat: &'a Flat,
    /// The elements of nodes.
    places: Vec<Option<usize>>,
    /// The links that begin at an output.
    behind: HashMap<(usize, u32), Vec<usize>>,
    loose: Loose,
    steps: usize,
}

impl Joiner<'_> {
    fn hop(&self, (node, port): (usize, u32)) -> Option<Hop> {
        self.places.get(node).copied().flatten().map(|element| Hop { element, port })
    }

    /// Writes down which elements' ports are connected with ends.
    fn ends(&mut self) {
        let name = |node: usize| self.flat.nodes.get(node).map_or(String::new(), |node| node.name.clone());
        let mut found = HashMap::new();
        for link in &self.flat.links {
            match (self.hop(link.from), self.hop(link.to)) {
                (Some(from), None) => found.insert((from, true), format!("{} [{}]", name(link.to.0), link.to.1)),
                (None, Some(to)) => found.insert((to, false), format!("{} [{}]", name(link.from.0), link.from.1)),
                _ => None,
            };
        }
        self.loose = Loose(found);
    }

    fn connections(&mut self, most: usize, mistakes: &mut Mistakes) -> Vec<Connection> {
        let mut found: HashMap<(Hop, Hop), Connection> = HashMap::new();
        for link in &self.flat.links {
            let Some(from) = self.hop(link.from) else { continue };
            for to in self.targets(link.to, STEPS_MAX * most) {
                found.entry((from, to)).or_insert(Connection { from, to, span: link.span });
            }
            if self.steps > STEPS_MAX * most || found.len() > most {
                let label = format!("at most {most} connections");
                let what = Diagnostic::new(link.span, "too many connections through compounds and tunnels", label);
                mistakes.add(what.hint("connect fewer elements with the same port of a compound"));
                break;
            }
        }
        let mut connections: Vec<Connection> = found.into_values().collect();
        connections.sort_by_key(|connection| (connection.from, connection.to));
        connections
    }

    /// The inputs of elements to which a link leads; none any more when so many have been followed.
    fn targets(&mut self, to: (usize, u32), steps: usize) -> Vec<Hop> {
        let (mut found, mut entered, mut waiting) = (Vec::new(), HashSet::new(), vec![to]);
        while let Some((node, port)) = waiting.pop().filter(|_| self.steps <= steps) {
            self.steps += 1;
            if let Some(hop) = self.hop((node, port)) {
                found.push(hop);
                continue;
            }
            let exit = match self.flat.nodes.get(node).map(|node| &node.kind) {
                Some(FlatKind::Tunnel { exit: Some(exit) }) => *exit,
                _ => continue,
            };
            if entered.insert((node, port)) {
                let links = self.behind.get(&(exit, port)).into_iter().flatten();
                waiting.extend(links.filter_map(|at| self.flat.links.get(*at)).map(|link| link.to));
                self.steps += waiting.len() / 64;
            }
        }
        found
    }
}
