//! What the node knows of the network around it: its ports, neighbours and routes.

pub mod gauge;
pub mod neighbours;
pub mod resolve;
pub mod routes;

use crate::port::PortId;
use crate::wire::Addr;
pub use gauge::Gauge;
pub use neighbours::{Link, Neighbour, Neighbours, Port};
pub use routes::{NextHop, Routes};
use std::sync::Arc;

/// Ports, neighbours and routes of one node.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The ports, by [`PortId`].
    pub ports: Vec<Port>,
    /// Active nodes next to this one.
    pub neighbours: Neighbours,
    /// The routing table: replaced whole by control.
    pub routes: Arc<Routes>,
}

impl Topology {
    /// The port with this index.
    #[inline]
    pub fn port(&self, id: PortId) -> Option<&Port> {
        self.ports.get(usize::from(id.0))
    }

    /// Whether `addr` is an address of this node.
    #[inline]
    pub fn is_own(&self, addr: Addr) -> bool {
        self.ports.iter().any(|port| port.addresses.iter().any(|(own, _)| *own == addr))
    }

    /// The node's address towards `peer`: that of the outgoing port, or the first one of the family.
    pub fn address_towards(&self, peer: Addr) -> Addr {
        let routed = self.routes.next_hop(peer).and_then(|next| self.port(next.port));
        match routed.or(self.ports.first()) {
            Some(port) => port.address_towards(peer),
            None => Addr::UNSPECIFIED,
        }
    }
}
