//! The edges of a graph by their names: devices, captures, the host, and connections that lead to other nodes. A frame that comes in or
//! leaves has the number of one as its port.

use crate::frame::PortId;

/// What kind of place it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EdgeKind {
    /// An interface.
    Device,
    /// A file of captured packets.
    Dump,
    /// The host that the graph is on.
    Host,
    /// A connection that leads to another node: its number, and the node as the text names it; of a part of a graph nothing, which is
    /// whoever has the rest of it.
    Remote,
}

/// The name of a connection that leads to another node.
pub fn remote_name(number: u16, node: &str) -> String {
    format!("{number} {node}")
}

/// The places of a graph, each once.
#[derive(Clone, Debug, Default)]
pub struct GraphEdges {
    /// Their kinds and names; a frame's port is the number of one.
    pub all: Vec<(EdgeKind, String)>,
    /// Those by which packets leave.
    pub exits: Vec<u16>,
}

impl GraphEdges {
    /// The number of a place.
    pub fn port(&mut self, kind: EdgeKind, name: &str) -> PortId {
        let at = self.all.iter().position(|(other, known)| *other == kind && known == name).unwrap_or_else(|| {
            self.all.push((kind, name.to_owned()));
            self.all.len() - 1
        });
        PortId(at as u16)
    }

    /// The number of a place by which packets leave.
    pub fn exit(&mut self, kind: EdgeKind, name: &str) -> PortId {
        let port = self.port(kind, name);
        if !self.exits.contains(&port.0) {
            self.exits.push(port.0);
        }
        port
    }
}
