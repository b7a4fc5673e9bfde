//! Shortest paths: the routes of every node, and the configuration that goes with them.
//!
//! Every node gets a host route to every other one. Paths have the fewest links. Of several, the destination chooses
//! one, so that load spreads and the same network always gets the same routes.

use super::network::{Carries, Network};
use crate::frame::{Link, PeerId, PortId};
use crate::labfile::Topology;
use crate::node::NodeConfig;
use crate::topology::{Neighbour, NextHop, Port, Routes};
use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Prefix};
use std::collections::VecDeque;
use std::sync::Arc;

/// One end of a link, as the node there sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// The link's number.
    pub(super) link: usize,
    /// The node at its other end.
    pub(super) node: usize,
}

/// The ports of every node: which link each is an end of.
pub(super) fn ends(network: &Network) -> Vec<Vec<End>> {
    let mut ends = vec![Vec::new(); network.names.len()];
    for (number, link) in network.links.iter().enumerate() {
        ends[link.a].push(End { link: number, node: link.b });
        ends[link.b].push(End { link: number, node: link.a });
    }
    ends
}

/// Configurations of all nodes, without their seeds.
pub(super) fn configurations(network: &Network, ends: &[Vec<End>]) -> Vec<NodeConfig> {
    let next = next_ports(ends);
    let nodes = ends.len();
    (0..nodes)
        .map(|node| NodeConfig {
            name: network.names[node].clone(),
            ports: ends[node].iter().map(|end| port(network, node, *end)).collect(),
            neighbours: ends[node]
                .iter()
                .enumerate()
                .flat_map(|(at, end)| neighbours(network, PortId(at as u16), *end))
                .collect(),
            routes: Arc::new(routes(network, node, &ends[node], &next[node * nodes..][..nodes])),
            roles: network.own_roles.get(&node).unwrap_or(&network.roles).clone(),
            sizes: network.sizes,
            seed: 0,
            kernel: false,
        })
        .collect()
}

fn port(network: &Network, node: usize, end: End) -> Port {
    let line = network.links[end.link].line;
    let link = match line.carries {
        Carries::Overlay => Link::Overlay,
        Carries::Ethernet => Link::Ethernet { mac: mac(end.link, node), answers: true },
    };
    Port {
        name: format!("to-{}", network.names[end.node]),
        link,
        addresses: network.port_addresses(end.link, node),
        mtu: line.mtu,
        bits_per_second: (line.rate_mbit * 1e6) as u64,
        ceiling: network.ceiling,
    }
}

/// A locally administered address.
fn mac(link: usize, node: usize) -> Mac {
    let [_, a, b, c] = (link as u32).to_be_bytes();
    let [.., d, e] = (node as u32).to_be_bytes();
    Mac([0x02 | a << 2, b, c, d, e, 0xa1])
}

fn neighbours(network: &Network, port: PortId, end: End) -> Vec<Neighbour> {
    let overlay = network.links[end.link].line.carries == Carries::Overlay;
    if !overlay && network.hello > 0 {
        // They say who they are.
        return Vec::new();
    }
    let peer = if overlay { PeerId(0) } else { PeerId::NONE };
    // In the network of a lab file as in the lab: a neighbour is one, however many addresses it has.
    let most = if network.given.is_some() { 1 } else { usize::MAX };
    vias(network, end).take(most).map(|addr| Neighbour { addr, port, peer }).collect()
}

/// The addresses under which the node at the other end is a next hop.
fn vias(network: &Network, end: End) -> Box<dyn Iterator<Item = Addr>> {
    match network.links[end.link].line.carries {
        Carries::Overlay => Box::new(network.addresses(end.node)),
        Carries::Ethernet => Box::new(network.subnet_addresses(end.link, end.node).into_iter().map(|(addr, _)| addr)),
    }
}

/// No way.
const NOWHERE: u16 = u16::MAX;

/// For each node and destination the port of the next hop; row by row.
fn next_ports(ends: &[Vec<End>]) -> Vec<u16> {
    let nodes = ends.len();
    let mut next = vec![NOWHERE; nodes * nodes];
    let mut distance = vec![u32::MAX; nodes];
    let mut frontier = VecDeque::new();
    for to in 0..nodes {
        distance.fill(u32::MAX);
        distance[to] = 0;
        frontier.push_back(to);
        while let Some(at) = frontier.pop_front() {
            for end in &ends[at] {
                if distance[end.node] == u32::MAX {
                    distance[end.node] = distance[at] + 1;
                    frontier.push_back(end.node);
                }
            }
        }
        for (from, ports) in ends.iter().enumerate() {
            if from == to || distance[from] == u32::MAX {
                continue;
            }
            let nearer = |end: &End| distance[end.node] + 1 == distance[from];
            let choices = ports.iter().filter(|end| nearer(end)).count();
            let mut chosen = ports.iter().enumerate().filter(|(_, end)| nearer(end));
            if let Some((port, _)) = chosen.nth((from + to) % choices.max(1)) {
                next[from * nodes + to] = port as u16;
            }
        }
    }
    next
}

/// The routes that a lab file gives a node, or that were computed for it as for a lab.
fn given_routes(given: &Topology, node: usize) -> Routes {
    let here = &given.nodes[node];
    let port = |name: &str| here.interfaces.iter().position(|end| end.name == name).map(|at| PortId(at as u16));
    let routes = here.routes.iter().filter_map(|route| {
        Some((route.to, NextHop { port: port(&route.interface)?, via: route.via.unwrap_or(Addr::UNSPECIFIED) }))
    });
    let links = here.interfaces.iter().enumerate().flat_map(|(at, end)| {
        let hop = NextHop { port: PortId(at as u16), via: Addr::UNSPECIFIED };
        end.addresses.iter().map(move |cidr| (cidr.prefix, hop))
    });
    Routes::new(routes.chain(links))
}

fn routes(network: &Network, node: usize, ends: &[End], next: &[u16]) -> Routes {
    if let Some(given) = &network.given {
        return given_routes(given, node);
    }
    let by_port: Vec<Vec<Addr>> = ends.iter().map(|end| vias(network, *end).collect()).collect();
    let host_routes = next.iter().enumerate().filter(|(to, port)| *to != node && **port != NOWHERE);
    let host_routes = host_routes.flat_map(|(to, &port)| {
        let vias = by_port[usize::from(port)].iter();
        network
            .addresses(to)
            .zip(vias)
            .map(move |(addr, via)| (Prefix::host(addr), NextHop { port: PortId(port), via: *via }))
    });
    Routes::new(host_routes)
}

#[cfg(test)]
mod tests {
    use super::super::network::{Family, Line};
    use super::*;
    use crate::labfile::shape::Shape;

    /// Follows the routes from node to node.
    fn hops(network: &Network, from: usize, to: usize) -> Option<usize> {
        let ends = ends(network);
        let configurations = configurations(network, &ends);
        let (mut at, mut hops) = (from, 0);
        while at != to {
            let next = configurations[at].routes.next_hop(network.address(to))?;
            at = ends[at][usize::from(next.port.0)].node;
            hops += 1;
            assert!(hops <= network.names.len(), "no loops");
        }
        Some(hops)
    }

    #[test]
    fn routes_are_shortest_paths() {
        let network = Network::new(Shape::Grid { width: 5, height: 4 }, Line::default(), 0).unwrap();
        assert_eq!(hops(&network, 0, 19), Some(7));
        assert_eq!(hops(&network, 7, 7), Some(0));
        let ring = Network::new(Shape::Ring { nodes: 9 }, Line::default(), 0).unwrap();
        assert_eq!(hops(&ring, 0, 5), Some(4));
    }

    #[test]
    fn there_is_no_route_to_another_island() {
        let mut network = Network::unlinked(4);
        network.link(0, 1, Line::default()).link(2, 3, Line::default());
        assert_eq!(hops(&network, 0, 1), Some(1));
        assert_eq!(hops(&network, 0, 2), None);
    }

    #[test]
    fn next_hops_have_the_family_of_the_destination() {
        for carries in [Carries::Overlay, Carries::Ethernet] {
            let line = Line { carries, ..Line::default() };
            let mut network = Network::new(Shape::Line { nodes: 3 }, line, 0).unwrap();
            network.family = Family::Both;
            let configurations = configurations(&network, &ends(&network));
            for to in network.addresses(2) {
                let next = configurations[0].routes.next_hop(to).unwrap();
                assert_eq!(next.via.is_v4(), to.is_v4());
                assert!(configurations[0].neighbours.iter().any(|known| known.addr == next.via));
            }
        }
    }
}
