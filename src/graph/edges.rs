//! The edges of a graph by their names: devices, captures and the host. A frame that comes in or leaves has the number of one as its
//! port.

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
}

/// The places of a graph, each once.
#[derive(Clone, Debug, Default)]
pub struct GraphEdges {
    /// Their kinds and names; a frame's port is the number of one.
    pub all: Vec<(EdgeKind, String)>,
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
}
