//! A resolved topology: interfaces, addresses, neighbours and routes of each node.
//!
//! [`Topology::parse`] is the only way to one. So its names fit into the kernel, its addresses are distinct, and its
//! routes lead somewhere. It does no I/O but reading the file; [`super::plan`] turns it into commands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::address::{Cidr, Mac};
use super::error::Error;
use super::file::Kind;
use super::run::EveryNode;
use super::{LabFile, resolve, route, worlds};
use crate::link::LinkQuality;
use crate::wire::{Addr, Prefix};

/// A lab's network.
#[derive(Clone, Debug, Serialize)]
pub struct Topology {
    /// The lab's name.
    pub name: String,
    /// The nodes, sorted by name.
    pub nodes: Vec<Node>,
    /// Where the chance of shaped links begins.
    pub seed: u64,
    /// Whether the file has traffic.
    #[serde(skip)]
    pub has_traffic: bool,
    #[serde(skip)]
    pub(crate) text: String,
    #[serde(skip)]
    pub(crate) path: PathBuf,
}

/// A node: one network namespace.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// The node's name.
    pub name: String,
    /// What it does with packets that are not for it.
    pub kind: Kind,
    /// Whether an anode node is meant to run here.
    pub active: bool,
    /// That node's configuration as written in the topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anode: Option<toml::Table>,
    /// What the file says about all nodes.
    #[serde(skip)]
    pub(crate) every: EveryNode,
    /// Addresses of the node itself, on its loopback interface.
    pub addresses: Vec<Cidr>,
    /// The interfaces, in the order of the links.
    pub interfaces: Vec<Interface>,
    /// Static routes, besides those to the links' own blocks.
    pub routes: Vec<Route>,
    /// Neighbours that need no resolution.
    pub neighbours: Vec<Neighbour>,
    /// Kernel parameters that the topology sets, beside the lab's own.
    pub sysctls: BTreeMap<String, String>,
}

/// One end of a link.
#[derive(Clone, Debug, Serialize)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its addresses.
    pub addresses: Vec<Cidr>,
    /// The node and the interface at the other end.
    pub peer: (String, String),
    /// Number of the link in the file, from 0.
    pub link: usize,
    /// Which of the link's two ends it is, 0 or 1.
    #[serde(skip)]
    pub(crate) end: usize,
    /// Number of the segment: all interfaces that hear each other's broadcasts.
    pub segment: usize,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// What the link is like, in each of its directions.
    #[serde(flatten)]
    pub quality: LinkQuality,
    /// What the link adds to a path.
    pub cost: u32,
    /// Whether computed routes use the link.
    pub routed: bool,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Route {
    /// The destinations.
    pub to: Prefix,
    /// The next hop; absent if the destinations are on the link.
    pub via: Option<Addr>,
    /// Name of the outgoing interface.
    pub interface: String,
}

/// A neighbour that needs no resolution.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Neighbour {
    /// Its address.
    pub addr: Addr,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Name of the interface that leads to it.
    pub interface: String,
}

impl Topology {
    /// Reads and resolves a lab file.
    pub fn load(path: impl AsRef<Path>) -> Result<Topology, Error> {
        Topology::of(LabFile::load(path)?)
    }

    /// Resolves the text of a lab file; `path` is for messages, and for the name of a lab that has none.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Topology, Error> {
        Topology::of(LabFile::parse(text, path)?)
    }

    /// The network of a lab, unless a lab cannot be so.
    pub fn of(file: LabFile) -> Result<Topology, Error> {
        match worlds::fits_lab(&file.file) {
            Ok(()) => Topology::resolved(file),
            Err(problem) => Err(file.error(problem)),
        }
    }

    /// The network of any world.
    pub(crate) fn resolved(file: LabFile) -> Result<Topology, Error> {
        let LabFile { file, text, path } = file;
        let statics = file.static_neighbours.as_ref().is_some_and(|statics| *statics.get_ref());
        let (has_traffic, seed) = (!file.traffic.is_empty(), file.seed.unwrap_or_default());
        let every = file.node.as_ref().map(|every| every.get_ref().clone());
        let (name, mut nodes, given) = match resolve::resolve(file, &path) {
            Ok(resolved) => resolved,
            Err(problem) => return Err(Error::at(&path, &text, problem)),
        };
        let computed = route::compute(&nodes);
        for ((node, computed), given) in nodes.iter_mut().zip(computed).zip(given) {
            node.routes = given.unwrap_or(computed);
            node.every = every.clone().unwrap_or_default();
        }
        if statics {
            enter_neighbours(&mut nodes);
        }
        Ok(Topology { name, nodes, seed, has_traffic, text, path })
    }

    /// The same network as another lab, so that several can be up at once. The name must be one
    /// that a lab file may have: small letters, digits and `_`, at most 16.
    pub fn renamed(mut self, name: &str) -> Result<Topology, Error> {
        if !resolve::is_lab_name(name) {
            let (what, remedy) = resolve::lab_name_problem(name);
            return Err(Error::Wrong { path: self.path, line: 1, what, remedy });
        }
        self.name = name.to_owned();
        Ok(self)
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok().and_then(|at| self.nodes.get(at))
    }

    /// All nodes by name, as lines of a hosts file: a name's first line has the address that it means.
    pub fn hosts(&self) -> String {
        let lines = self.nodes.iter().flat_map(|node| node.all_addresses().map(move |addr| (addr, &node.name)));
        lines.map(|(addr, name)| format!("{addr} {name}\n")).collect()
    }

    /// The number of links.
    pub fn links(&self) -> usize {
        self.nodes
            .iter()
            .flat_map(|node| &node.interfaces)
            .map(|interface| interface.link)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// The name of a node's namespace.
    pub fn namespace(&self, node: &str) -> String {
        namespace(&self.name, node)
    }
}

/// The name of a node's namespace.
pub(crate) fn namespace(lab: &str, node: &str) -> String {
    format!("an-{lab}-{node}")
}

impl Node {
    /// All addresses, the node's own before those of its interfaces.
    pub fn all_addresses(&self) -> impl Iterator<Item = Addr> + '_ {
        let interfaces = self.interfaces.iter().flat_map(|interface| &interface.addresses);
        self.addresses.iter().chain(interfaces).map(|cidr| cidr.addr)
    }

    /// The node's first IPv4 address.
    pub fn v4(&self) -> Option<Addr> {
        self.all_addresses().find(Addr::is_v4)
    }

    /// The node's first IPv6 address.
    pub fn v6(&self) -> Option<Addr> {
        self.all_addresses().find(|addr| !addr.is_v4())
    }

    /// The interface of that name.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }
}

/// Enters every interface of a segment as a neighbour at all others, unless given already.
fn enter_neighbours(nodes: &mut [Node]) {
    let mut members: BTreeMap<usize, Vec<(usize, Addr, Mac)>> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for interface in &node.interfaces {
            let segment = members.entry(interface.segment).or_default();
            segment.extend(interface.addresses.iter().map(|cidr| (at, cidr.addr, interface.mac)));
        }
    }
    for (at, node) in nodes.iter_mut().enumerate() {
        for interface in &node.interfaces {
            let on_link = |addr: Addr| interface.addresses.iter().any(|own| own.prefix.contains(addr));
            for (other, addr, mac) in members.get(&interface.segment).into_iter().flatten() {
                let known = node.neighbours.iter().any(|n| n.addr == *addr && n.interface == interface.name);
                if *other != at && on_link(*addr) && !known {
                    node.neighbours.push(Neighbour { addr: *addr, mac: *mac, interface: interface.name.clone() });
                }
            }
        }
    }
}
