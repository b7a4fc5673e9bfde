//! Connections of a graph that lead to other nodes: which, and what of it is there.
//!
//! Such a connection is an edge of the graph ([`EdgeKind::Remote`]). Its packets leave and come in by
//! ports of numbers that no port of a node has.

use super::class::{BroughtClass, BroughtClasses, Marshals};
use super::edges::EdgeKind;
use super::table::Graph;
use crate::frame::{Frame, PeerId, PortId};
use crate::wire::Addr;
use core::fmt;
use std::sync::Arc;

/// The first of the numbers that stand for connections to other nodes; ports of a node have smaller ones.
const FIRST: u16 = 0xf000;

/// Where another part of a graph is: at a neighbour, in a generation of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartPlace {
    /// The port towards the neighbour.
    pub port: PortId,
    /// Which neighbour of an overlay port.
    pub peer: PeerId,
    /// Its address.
    pub addr: Addr,
    /// The graph, as the node that has it calls it.
    pub graph: u32,
    /// The generation of the part.
    pub generation: u32,
}

/// A connection that leads there, or comes from there.
#[derive(Clone, Copy, Debug)]
struct RemoteEdge {
    number: u16,
    /// Which of the places.
    place: usize,
    /// Which edge of the graph.
    edge: u16,
}

/// What marshals packets between two parts, at one of both.
pub struct PartMarshal {
    /// Which.
    pub class: Arc<BroughtClass>,
    /// The one that does it here.
    pub marshal: Box<dyn Marshals>,
}

impl PartMarshal {
    /// That of this name.
    pub fn new(name: &str, brought: &BroughtClasses) -> Result<PartMarshal, String> {
        let class = brought.marshal(name)?.clone();
        let marshal = class.marshal().map_err(|why| format!("{name}: {why}"))?;
        Ok(PartMarshal { class, marshal })
    }
}

impl fmt::Debug for PartMarshal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PartMarshal").field(&self.class.name).finish()
    }
}

/// The node of a place as a text has it, and what marshals packets on the way there.
pub fn node_of(place: &str) -> (&str, Option<&str>) {
    place.split_once(',').map_or((place, None), |(node, by)| (node, Some(by)))
}

/// The connections of one generation, and the places they lead to.
#[derive(Debug, Default)]
pub struct Remotes {
    edges: Vec<RemoteEdge>,
    /// The other parts.
    pub places: Vec<PartPlace>,
    /// Their texts, until whoever keeps them up has taken these.
    pub texts: Vec<Vec<u8>>,
    /// What marshals packets between here and each of the places, if not the node itself.
    pub marshals: Vec<Option<PartMarshal>>,
}

impl Remotes {
    /// Those of a graph whose text names these nodes, in the order of their places; of a part, which names none, all lead to one place.
    pub fn new(graph: &Graph, nodes: &[String], places: Vec<PartPlace>, marshals: Vec<Option<PartMarshal>>) -> Remotes {
        let mut edges = Vec::new();
        for (edge, (kind, name)) in (0..).zip(&graph.places.all) {
            let Some((number, node)) = name.split_once(' ').filter(|_| *kind == EdgeKind::Remote) else { continue };
            let place = nodes.iter().position(|known| known == node).unwrap_or(0);
            edges.extend(number.parse().ok().map(|number| RemoteEdge { number, place, edge }));
        }
        Remotes { edges, places, texts: Vec::new(), marshals }
    }

    /// The port that stands for an edge.
    pub fn port(&self, edge: u16) -> Option<PortId> {
        self.edges.iter().position(|known| known.edge == edge).map(|at| PortId(FIRST + at as u16))
    }

    fn of(&self, port: PortId) -> Option<&RemoteEdge> {
        self.edges.get(usize::from(port.0.checked_sub(FIRST)?))
    }

    /// The edge that a port stands for.
    #[inline]
    pub fn edge(&self, port: PortId) -> Option<u16> {
        self.of(port).map(|edge| edge.edge)
    }

    /// Where packets go that leave by a port, and the number of their connection.
    #[inline]
    pub fn leads(&self, port: PortId) -> Option<(PartPlace, u16)> {
        let edge = self.of(port)?;
        Some((*self.places.get(edge.place)?, edge.number))
    }

    /// What marshals packets that leave by a port.
    pub fn marshal(&mut self, port: PortId) -> Option<&mut PartMarshal> {
        let place = self.of(port)?.place;
        self.marshals.get_mut(place)?.as_mut()
    }

    /// Bytes of memory that what marshals here has.
    pub fn keep(&self) -> u64 {
        self.marshals.iter().flatten().map(|by| by.marshal.keeps()).sum()
    }

    /// A packet has come from a place, marshalled or not: whether it is as it is to be, and what it was before.
    pub fn unpack(&mut self, place: usize, frame: &mut Frame, is_packed: bool, now: u64) -> bool {
        match self.marshals.get_mut(place).and_then(Option::as_mut) {
            Some(by) => is_packed && by.marshal.unpack(frame, now),
            None => !is_packed,
        }
    }

    /// By which port packets come in that are from a place, by the connection of that number.
    pub fn entrance(&self, graph: &Graph, place: usize, number: u16) -> Option<PortId> {
        let is_it = |edge: &RemoteEdge| (edge.place, edge.number) == (place, number) && graph.is_entrance(edge.edge);
        self.edges.iter().position(is_it).map(|at| PortId(FIRST + at as u16))
    }

    /// The place at this neighbour's of a graph.
    pub fn place(&self, (port, addr): (PortId, Addr), graph: u32) -> Option<usize> {
        let is_it = |place: &PartPlace| (place.port, place.addr, place.graph) == (port, addr, graph);
        self.places.iter().position(is_it)
    }
}
