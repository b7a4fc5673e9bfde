//! The network of a simulation: nodes, the links between them, and their properties.
//!
//! Node number i (from 0) has the address 10.0.0.0 + i + 1, or fd00:: + i + 1, or both. An overlay port has that
//! address alone. A port of an Ethernet link is in a subnet of its own besides (172.16.0.0 + 4k/30 and fd01:0:0:k::/64
//! for link k), as on real interfaces, and its neighbour's hardware address must be resolved first.

pub use super::problem::Problem;
use super::problem::{ETHERNET_LINKS_MAX, WORKERS_MAX};
use crate::ee::plan::Config;
use crate::frame::WorkerId;
pub use crate::labfile::{Carries, Family, Shape};
use crate::labfile::{Topology, ground};
use crate::link::{LinkQuality, Unfit, quality};
use crate::node::Sizes;
use crate::node::proofs::{Demands, Guard, NeighbourKey};
use crate::topology::Ceiling;
use crate::topology::Neighbour;
use crate::trust::Roles;
use crate::wire::{Addr, Digest, Prefix};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a link is like, in each of its directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// What travels on it.
    pub carries: Carries,
    /// Time from end to end, in milliseconds.
    pub delay_ms: f64,
    /// By how much that differs at most, to either side, in milliseconds; frames stay in order.
    pub jitter_ms: f64,
    /// Capacity in Mbit/s; 0 when nothing ever waits.
    pub rate_mbit: f64,
    /// Bytes that can wait for a link of limited capacity; more are dropped as `queue-full`.
    pub queue_bytes: u32,
    /// Frames that can wait for it; 0 when only bytes count.
    pub queue_packets: u32,
    /// Share of frames that are lost, 0 to 1.
    pub loss: f64,
    /// Share of frames that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// Share of frames that are held back and may be overtaken, 0 to 1.
    pub reorder: f64,
    /// For how long at most they are held back, in milliseconds.
    pub reorder_ms: f64,
    /// Bytes of the largest IP or ANEP packet.
    pub mtu: usize,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            carries: Carries::Overlay,
            delay_ms: ground::DELAY_MS,
            jitter_ms: 0.0,
            rate_mbit: 0.0,
            queue_bytes: quality::QUEUE_BYTES,
            queue_packets: 0,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_ms: quality::REORDER_MS,
            mtu: 1500,
        }
    }
}

/// A link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// One end: the number of a node.
    pub a: usize,
    /// The other end.
    pub b: usize,
    /// What it is like.
    pub line: Line,
}

/// A network.
#[derive(Clone, Debug)]
pub struct Network {
    /// The nodes' names, by number.
    pub names: Vec<String>,
    /// The links. The ports of a node are numbered in their order.
    pub links: Vec<Link>,
    /// Workers of each node.
    pub workers: WorkerId,
    /// Which addresses nodes have.
    pub family: Family,
    /// Addresses and routes that a lab file gives its nodes and the ends of its links, in their order.
    pub given: Option<Arc<Topology>>,
    /// The most that a resource bound counts for that comes in by a port.
    pub ceiling: Ceiling,
    /// Sizes of the nodes' tables.
    pub sizes: Sizes,
    /// What code may use, by whose it is.
    pub roles: Arc<Roles>,
    /// Nodes with another policy than `roles`.
    pub own_roles: BTreeMap<usize, Arc<Roles>>,
    /// The nodes' PLAN environments.
    pub plan: Config,
    /// Nodes with another one than `plan`.
    pub own_plan: BTreeMap<usize, Config>,
    /// What clocks on walls show at the beginning, in seconds since 1970.
    pub unix_s: u64,
    /// From which the two ends of every link have a key, if they have one.
    pub secret: Option<[u8; 32]>,
    /// Ends of links whose key is another one: the number of the node, and of the link.
    pub wrong_keys: Vec<(usize, usize)>,
    /// What all ports demand.
    pub demands: Demands,
    /// The role in which neighbours have parts of their graphs, if they may have any.
    pub parts: Option<String>,
    /// Time from a representation's arrival until it can run, in nanoseconds.
    pub prepare_ns: u64,
    /// Time a look into a node's store takes, in nanoseconds.
    pub look_up_ns: u64,
    /// Tenths of a second between two hellos of each port; 0: none, as in all that was kept before there were any.
    pub hello: u16,
}

impl Network {
    /// A network of `nodes` nodes n0, n1 … without links.
    pub fn unlinked(nodes: usize) -> Network {
        Network {
            names: (0..nodes).map(|number| format!("n{number}")).collect(),
            links: Vec::new(),
            workers: 1,
            family: Family::V4,
            given: None,
            ceiling: Ceiling::default(),
            sizes: Sizes { codes: 256, object_bytes: 1 << 20, state_entries: 1024, ..Sizes::default() },
            roles: Arc::default(),
            own_roles: BTreeMap::new(),
            plan: Config::default(),
            own_plan: BTreeMap::new(),
            unix_s: 1_800_000_000,
            secret: None,
            wrong_keys: Vec::new(),
            demands: Demands::default(),
            parts: None,
            prepare_ns: 2_000_000,
            look_up_ns: 50_000,
            hello: 0,
        }
    }

    /// A network of this shape with the same line everywhere; `seed` chooses random links.
    pub fn new(shape: Shape, line: Line, seed: u64) -> Result<Network, Problem> {
        let (nodes, links) = shape.links(&mut Xoshiro256PlusPlus::seed_from_u64(seed))?;
        let mut network = Network::unlinked(nodes);
        network.links = links.into_iter().map(|(a, b)| Link { a, b, line }).collect();
        Ok(network)
    }

    /// Adds a link.
    pub fn link(&mut self, a: usize, b: usize, line: Line) -> &mut Network {
        self.links.push(Link { a, b, line });
        self
    }

    /// The number of the node with this name.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// The network of a lab file: its nodes and links, with its addresses and routes.
    pub fn of(topology: Topology) -> Network {
        let mut network = Network::unlinked(0);
        network.names = topology.nodes.iter().map(|node| node.name.clone()).collect();
        let mut links = BTreeMap::new();
        for node in &topology.nodes {
            for end in node.interfaces.iter().filter(|end| end.end == 0) {
                let numbers = (network.number(&node.name), network.number(&end.peer.0));
                let (Some(a), Some(b)) = numbers else { continue };
                links.insert(end.link, Link { a, b, line: Line::of(&end.quality, end.mtu) });
            }
        }
        network.links = links.into_values().collect();
        network.given = Some(Arc::new(topology));
        network
    }

    /// The address of a node: IPv4 unless it has none.
    pub fn address(&self, node: usize) -> Addr {
        self.addresses(node).next().unwrap_or(Addr::UNSPECIFIED)
    }

    /// The IPv4 and the IPv6 address of a node, as far as it has them.
    pub fn addresses(&self, node: usize) -> impl Iterator<Item = Addr> + use<> {
        let (one, other) = match &self.given {
            Some(given) => (given.nodes[node].v4(), given.nodes[node].v6()),
            None => (self.family.has_v4().then(|| ground::v4(node)), self.family.has_v6().then(|| ground::v6(node))),
        };
        one.into_iter().chain(other)
    }

    /// Says what is wrong with it, if anything.
    pub fn check(&self) -> Result<(), Problem> {
        let nodes = self.names.len();
        if nodes == 0 || nodes > super::NODES_MAX {
            return Err(Problem::Nodes { nodes });
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(Problem::Workers { workers: self.workers });
        }
        for &Link { a, b, line } in &self.links {
            if a == b || a >= nodes || b >= nodes {
                return Err(Problem::Link { ends: (a, b) });
            }
            line.check()?;
        }
        let ethernet = self.links.iter().filter(|link| link.line.carries == Carries::Ethernet);
        if ethernet.count() > ETHERNET_LINKS_MAX { Err(Problem::Subnets) } else { Ok(()) }
    }

    /// The addresses of one end of a link, each with its subnet, the address others use first.
    pub(super) fn port_addresses(&self, link: usize, node: usize) -> Vec<(Addr, Prefix)> {
        let own = self.addresses(node).map(|addr| (addr, Prefix::host(addr)));
        if let Some(given) = &self.given {
            let all = given.nodes[node].all_addresses().map(|addr| (addr, Prefix::host(addr)));
            let here = self.subnet_addresses(link, node);
            let others = all.filter(|(addr, _)| !here.iter().any(|(known, _)| known == addr));
            return here.iter().copied().chain(others).collect();
        }
        match self.links[link].line.carries {
            Carries::Overlay => own.collect(),
            Carries::Ethernet => self.subnet_addresses(link, node).into_iter().chain(own).collect(),
        }
    }

    /// The addresses in the link's own subnets of one of its ends.
    pub(super) fn subnet_addresses(&self, link: usize, node: usize) -> Vec<(Addr, Prefix)> {
        let end = usize::from(self.links[link].a != node);
        match &self.given {
            Some(given) => {
                let here = given.nodes[node].interfaces.iter().find(|here| (here.link, here.end) == (link, end));
                here.into_iter().flat_map(|here| &here.addresses).map(|cidr| (cidr.addr, cidr.prefix)).collect()
            }
            None => ground::subnets(link, end as u8 + 1, self.family).collect(),
        }
    }
}

impl Network {
    /// Keys and demands of a node whose ports are ends of these links.
    pub(super) fn guard(&self, node: usize, links: &[usize], neighbours: &[Neighbour]) -> Option<Guard> {
        if self.secret.is_none() && !self.demands.any() {
            return None;
        }
        let key = |neighbour: &Neighbour| {
            let link = *links.get(usize::from(neighbour.port.0))?;
            let wrong = u8::from(self.wrong_keys.contains(&(node, link)));
            let secret = Digest::of(&[&self.secret?[..], &(link as u64).to_be_bytes(), &[wrong]].concat()).0;
            let id = 2 * link as u32 + u32::from(neighbour.addr.is_v4());
            Some(NeighbourKey { port: neighbour.port, addr: neighbour.addr, id, secret })
        };
        let keys = neighbours.iter().filter_map(key).collect();
        let part = |neighbour: &Neighbour| Some((neighbour.port, neighbour.addr, self.parts.clone()?));
        let parts = neighbours.iter().filter_map(part).collect();
        Some(Guard { demands: vec![self.demands; links.len()], keys, parts, unix_ns: self.unix_s * 1_000_000_000 })
    }
}

impl Line {
    /// A link of a lab: Ethernet.
    pub(super) fn of(quality: &LinkQuality, mtu: u32) -> Line {
        let LinkQuality { delay_ms, jitter_ms, rate_mbit, queue_bytes, queue_packets, .. } = *quality;
        let LinkQuality { loss, duplicate, reorder, reorder_ms, .. } = *quality;
        let (carries, mtu) = (Carries::Ethernet, mtu as usize);
        Line {
            carries,
            delay_ms,
            jitter_ms,
            rate_mbit,
            queue_bytes,
            queue_packets,
            loss,
            duplicate,
            reorder,
            reorder_ms,
            mtu,
        }
    }

    /// What its links do to frames.
    pub fn quality(&self) -> LinkQuality {
        let Line { delay_ms, jitter_ms, rate_mbit, queue_bytes, queue_packets, .. } = *self;
        let Line { loss, duplicate, reorder, reorder_ms, .. } = *self;
        LinkQuality { delay_ms, jitter_ms, rate_mbit, queue_bytes, queue_packets, loss, duplicate, reorder, reorder_ms }
    }

    fn check(&self) -> Result<(), Problem> {
        let wrong = |Unfit { field, found, expected }| Problem::Line { field, found, expected };
        self.quality().check().map_err(wrong)?;
        let mtu = Unfit { field: "mtu", found: self.mtu as f64, expected: "bytes up to 1944" };
        if self.mtu > 1944 { Err(wrong(mtu)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_an_ethernet_link_share_their_subnets_with_nobody_else() {
        let line = Line { carries: Carries::Ethernet, ..Line::default() };
        let mut network = Network::new(Shape::Line { nodes: 300 }, line, 0).unwrap();
        network.family = Family::Both;
        let ends = |link: usize| {
            let link_ends = network.links[link];
            [link_ends.a, link_ends.b].map(|node| network.subnet_addresses(link, node))
        };
        for link in 0..299 {
            let [a, b] = ends(link);
            for ((one, subnet), (other, same)) in a.into_iter().zip(b) {
                assert!(one != other && subnet == same && subnet.contains(one) && subnet.contains(other));
            }
        }
        assert_eq!(network.port_addresses(1, 2)[0].0.to_string(), "172.16.0.6");
        assert_eq!(network.port_addresses(1, 2)[2].0.to_string(), "10.0.0.3");
        assert_eq!(network.port_addresses(298, 299)[1].0.to_string(), "fd01:0:0:12a::2");
    }

    #[test]
    fn impossible_networks_are_refused() {
        let mut network = Network::unlinked(2);
        assert_eq!(network.check(), Ok(()));
        network.link(0, 2, Line::default());
        assert_eq!(network.check(), Err(Problem::Link { ends: (0, 2) }));
        network.links.clear();
        network.link(0, 1, Line { loss: 1.5, ..Line::default() });
        assert!(matches!(network.check(), Err(Problem::Line { field: "loss", .. })));
        assert_eq!(Network::unlinked(0).check(), Err(Problem::Nodes { nodes: 0 }));
        let workers = Network { workers: 65, ..Network::unlinked(1) };
        assert_eq!(workers.check(), Err(Problem::Workers { workers: 65 }));
    }
}
