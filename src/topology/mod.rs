//! The node's view of its network: ports, neighbours and routes.

pub mod ceiling;
pub mod gauge;
pub mod neighbours;
pub mod reach;
pub mod resolve;
pub mod routes;
mod tree;
mod way;

use crate::frame::{PeerId, PortId};
use crate::wire::Addr;
pub use ceiling::Ceiling;
pub use gauge::Gauge;
pub use neighbours::{Neighbour, Neighbours, Port};
pub use reach::Reach;
pub use routes::{Leads, NextHop, RouteChange, Routes};
use std::sync::Arc;
pub use tree::PrefixTree;
pub use way::{Flow, Router, Way};
use way::{RuledWays, Ways};

/// Ports, neighbours and routes of one node.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The ports, by [`PortId`].
    pub ports: Vec<Port>,
    /// Active nodes next to this one.
    pub neighbours: Neighbours,
    routes: Arc<Routes>,
    ways: Ways,
    /// How often the routes have changed, and the ports.
    changes: [u32; 2],
    /// In the place of routes and ways, while rules decide.
    ruled: Option<RuledWays>,
}

impl Topology {
    /// What is known at the start. Overlay neighbours stay what they are; Ethernet ones can be added.
    pub fn new(ports: Vec<Port>, neighbours: Neighbours, routes: Arc<Routes>) -> Topology {
        Topology { ports, neighbours, routes, ways: Ways::default(), ruled: None, changes: [0; 2] }
    }

    /// The routing table.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Control replaces the routing table, and says who is asked in its place, if somebody is.
    pub fn set_routes(&mut self, routes: Arc<Routes>, router: Option<Arc<dyn Router>>) {
        self.routes = routes;
        self.ways.clear();
        self.ruled = router.map(RuledWays::new);
        self.changes[0] = self.changes[0].wrapping_add(1);
    }

    /// The routing table and who is asked in its place, for others to have the same.
    pub fn routing(&self) -> (Arc<Routes>, Option<Arc<dyn Router>>) {
        (self.routes.clone(), self.ruled.as_ref().map(RuledWays::shared))
    }

    /// How often routes or ports have changed.
    #[inline]
    pub fn changes(&self) -> u32 {
        self.changes[0].wrapping_add(self.changes[1])
    }

    /// How often the routes have changed, and the ports.
    pub fn each_change(&self) -> [u32; 2] {
        self.changes
    }

    /// A port has other addresses, or another link, than before; or it is one more.
    pub fn set_port(&mut self, id: PortId, port: Port) {
        let at = usize::from(id.0);
        if at == self.ports.len() {
            self.ports.push(port);
        } else if let Some(place) = self.ports.get_mut(at) {
            *place = port;
        }
        self.ways.clear();
        self.changes[1] = self.changes[1].wrapping_add(1);
        if let Some(ruled) = &mut self.ruled {
            ruled.clear();
        }
    }

    /// A port has another ceiling or capacity; its link and its ways are what they were.
    pub fn set_port_limits(&mut self, id: PortId, ceiling: Ceiling, bits_per_second: u64) {
        if let Some(port) = self.ports.get_mut(usize::from(id.0)) {
            (port.ceiling, port.bits_per_second) = (ceiling, bits_per_second);
            self.changes[1] = self.changes[1].wrapping_add(1);
        }
    }

    /// What the node knows of the way of a packet.
    #[inline]
    pub fn way_of(&mut self, flow: &Flow) -> &Way {
        if self.ruled.is_some() { self.ruled_way(flow) } else { self.way_to(flow.to) }
    }

    /// What the node knows of the way of its own packets to a destination.
    #[inline]
    pub fn way(&mut self, to: Addr) -> &Way {
        if self.ruled.is_some() { self.ruled_way(&Flow::of_node(to)) } else { self.way_to(to) }
    }

    #[cold]
    fn ruled_way(&mut self, flow: &Flow) -> &Way {
        let Some(mut ruled) = self.ruled.take() else { return self.way_to(flow.to) };
        let place = ruled.place(flow);
        if place.as_ref().is_none_or(|(known, _)| known != flow) {
            let here = self.is_own(flow.to);
            let next = if here { None } else { ruled.router().next_hop(flow) };
            let way = self.way_by(flow.to, here, next);
            *ruled.place(flow) = Some((*flow, way));
        }
        let place = self.ruled.insert(ruled).place(flow);
        &place.get_or_insert_with(|| (*flow, Way::nowhere(flow.to))).1
    }

    #[inline]
    fn way_to(&mut self, to: Addr) -> &Way {
        if self.ways.place(to).as_ref().is_none_or(|way| way.to != to) {
            let way = self.find_way(to);
            *self.ways.place(to) = Some(way);
        }
        self.ways.place(to).get_or_insert_with(|| Way::nowhere(to))
    }

    #[cold]
    fn find_way(&self, to: Addr) -> Way {
        self.way_by(to, self.is_own(to), self.routes.next_hop(to))
    }

    fn way_by(&self, to: Addr, here: bool, next: Option<NextHop>) -> Way {
        let peer = next.map_or(PeerId::NONE, |next| self.peer(next, to));
        Way { to, here, own: self.address_by(next, to), next, peer }
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
        let next = match &self.ruled {
            Some(ruled) => ruled.router().next_hop(&Flow::of_node(peer)),
            None => self.routes.next_hop(peer),
        };
        self.address_by(next, peer)
    }

    fn address_by(&self, next: Option<NextHop>, peer: Addr) -> Addr {
        let routed = next.and_then(|next| self.port(next.port));
        let first = || self.ports.iter().find(|port| !port.is_vacant());
        routed.or_else(first).map_or(Addr::UNSPECIFIED, |port| port.address_towards(peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Link;
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
            ceiling: Ceiling::default(),
        };
        let mut neighbours = Neighbours::default();
        neighbours.add(Neighbour { addr: addr(2), port: PortId(0), peer: PeerId(0) });
        neighbours.add(Neighbour { addr: addr(3), port: PortId(0), peer: PeerId(1) });
        let via =
            |n| Arc::new(Routes::new([("10.0.0.0/24".parse().unwrap(), NextHop { port: PortId(0), via: addr(n) })]));
        let mut topology = Topology::new(vec![port], neighbours, via(2));
        for (n, peer) in [(2, PeerId(0)), (3, PeerId(1))] {
            topology.set_routes(via(n), None);
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

    /// Sends by the port that the last byte of the source says, and counts who asks.
    #[derive(Debug, Default)]
    struct BySource(core::sync::atomic::AtomicUsize);

    impl Router for BySource {
        fn next_hop(&self, flow: &Flow) -> Option<NextHop> {
            self.0.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
            Some(NextHop { port: PortId(flow.from.0[15].into()), via: flow.from })
        }
    }

    #[test]
    fn where_rules_decide_each_flow_has_its_way_and_is_asked_for_once() {
        let addr = |n: u8| Addr::v4([10, 0, 0, n]);
        let port = |n: u8| Port {
            name: "p".into(),
            link: Link::Overlay,
            addresses: vec![(Addr::v4([10, 0, n, 1]), Prefix::new(Addr::v4([10, 0, n, 0]), 120))],
            mtu: 1500,
            bits_per_second: 0,
            ceiling: Ceiling::default(),
        };
        let mut topology = Topology::new(vec![port(0), port(1)], Neighbours::default(), Arc::default());
        let router = Arc::new(BySource::default());
        topology.set_routes(Arc::default(), Some(router.clone()));
        for _ in 0..3 {
            for from in [0, 1] {
                let flow = Flow { from: addr(from), port: Some(PortId(1)), ..Flow::of_node(addr(9)) };
                let way = *topology.way_of(&flow);
                assert_eq!(way.next, Some(NextHop { port: PortId(from.into()), via: addr(from) }));
                assert_eq!(way.own, Addr::v4([10, 0, from, 1]), "the address of that side");
            }
        }
        assert_eq!(router.0.load(core::sync::atomic::Ordering::Relaxed), 2);
        let own = Flow { from: addr(1), ..Flow::of_node(Addr::v4([10, 0, 1, 1])) };
        assert!(topology.way_of(&own).here && topology.way_of(&own).next.is_none());
        topology.set_routes(Arc::default(), None);
        assert_eq!(topology.way_of(&own).next, None);
        assert_eq!(router.0.load(core::sync::atomic::Ordering::Relaxed), 2, "nobody asks any more");
    }
}
