//! What the node knows of the network around it: its ports, neighbours and routes.

pub mod gauge;
pub mod neighbours;
pub mod resolve;
pub mod routes;
mod way;

use crate::port::{PeerId, PortId};
use crate::wire::Addr;
pub use gauge::Gauge;
pub use neighbours::{Link, Neighbour, Neighbours, Port};
pub use routes::{NextHop, Routes};
use std::sync::Arc;
pub use way::Way;
use way::Ways;

/// Ports, neighbours and routes of one node.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The ports, by [`PortId`].
    pub ports: Vec<Port>,
    /// Active nodes next to this one.
    pub neighbours: Neighbours,
    routes: Arc<Routes>,
    ways: Ways,
    changes: u32,
}

impl Topology {
    /// What is known at the start. Overlay neighbours stay what they are; Ethernet ones can be added.
    pub fn new(ports: Vec<Port>, neighbours: Neighbours, routes: Arc<Routes>) -> Topology {
        Topology { ports, neighbours, routes, ways: Ways::default(), changes: 0 }
    }

    /// The routing table.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Control replaces the routing table.
    pub fn set_routes(&mut self, routes: Arc<Routes>) {
        self.routes = routes;
        self.ways.clear();
        self.changes = self.changes.wrapping_add(1);
    }

    /// How often the routes have changed.
    #[inline]
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// What the node knows of a destination.
    #[inline]
    pub fn way(&mut self, to: Addr) -> &Way {
        if self.ways.place(to).as_ref().is_none_or(|way| way.to != to) {
            let way = self.find_way(to);
            *self.ways.place(to) = Some(way);
        }
        self.ways.place(to).get_or_insert_with(|| Way::nowhere(to))
    }

    #[cold]
    fn find_way(&self, to: Addr) -> Way {
        let next = self.routes.next_hop(to);
        let peer = next.map_or(PeerId::NONE, |next| self.peer(next, to));
        Way { to, here: self.is_own(to), own: self.address_towards(to), next, peer }
    }

    /// The overlay peer behind a next hop towards `to`.
    pub fn peer(&self, next: NextHop, to: Addr) -> PeerId {
        let via = if next.via.is_unspecified() { to } else { next.via };
        let index = self.neighbours.index(next.port, via);
        index.and_then(|index| self.neighbours.of(index)).map_or(PeerId::NONE, |known| known.peer)
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Prefix;

    #[test]
    fn a_way_is_as_searched_for_until_routes_change() {
        let addr = |n: u8| Addr::v4([10, 0, 0, n]);
        let port = Port {
            name: "p".into(),
            link: Link::Overlay,
            addresses: vec![(addr(1), Prefix::new(addr(1), 120))],
            mtu: 1500,
            bits_per_second: 0,
        };
        let mut neighbours = Neighbours::default();
        neighbours.add(Neighbour { addr: addr(2), port: PortId(0), peer: PeerId(0) });
        neighbours.add(Neighbour { addr: addr(3), port: PortId(0), peer: PeerId(1) });
        let via =
            |n| Arc::new(Routes::new([("10.0.0.0/24".parse().unwrap(), NextHop { port: PortId(0), via: addr(n) })]));
        let mut topology = Topology::new(vec![port], neighbours, via(2));
        for (n, peer) in [(2, PeerId(0)), (3, PeerId(1))] {
            topology.set_routes(via(n));
            for _ in 0..2 {
                for to in 1..=255 {
                    let way = topology.way(addr(to));
                    let next = Some(NextHop { port: PortId(0), via: addr(n) });
                    assert_eq!(*way, Way { to: addr(to), here: to == 1, own: addr(1), next, peer });
                }
            }
        }
        assert_eq!(topology.way(Addr::v4([9, 9, 9, 9])).next, None);
    }
}
