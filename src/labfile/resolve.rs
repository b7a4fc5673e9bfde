//! From the file's entries to nodes with interfaces: names, numbers, addresses, and every check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::address::{Cidr, Mac};
use super::file::{End, File, Kind, LinkEntry, NeighbourEntry, NodeEntry, RouteEntry};
use super::ground::NODES_MAX;
use super::problem::{Result, problem};
use super::run::EveryNode;
use super::topology::{Interface, Neighbour, Node, Route};
use super::{automatic, ground, names, quality};
use crate::wire::{Addr, Digest, Prefix};

/// Links that a node may have: an interface's number is one byte of its Ethernet address.
const INTERFACES_MAX: usize = 250;
/// Longest name of an interface: the kernel's IFNAMSIZ without the final zero.
const INTERFACE_NAME_MAX: usize = 15;
/// Longest name of a node: it is behind the name of its interface in a meter.
const NODE_NAME_MAX: usize = 16;
const LAB_NAME_MAX: usize = 16;
/// Longest name of a running node, `LAB.NODE`.
const CALLED_MAX: usize = 32;
/// The smallest MTU for IPv4 (RFC 791) and IPv6 (RFC 8200), and the largest that veth accepts.
const MTU_MIN_V4: u32 = 68;
const MTU_MIN_V6: u32 = 1280;
const MTU_MAX: u32 = 65535;

/// Whether a lab may have this name. Without `-`, `an-LAB-NODE` can be taken apart again.
pub(crate) fn is_lab_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    (1..=LAB_NAME_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

pub(crate) fn lab_name_problem(name: &str) -> (String, String) {
    let remedy = format!("use 1 to {LAB_NAME_MAX} small letters, digits or '_'");
    (format!("'{name}' cannot name a lab"), remedy)
}

fn is_node_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    (1..=NODE_NAME_MAX).contains(&name.len()) && !name.starts_with('-') && name.bytes().all(allowed)
}

fn is_interface_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    (1..=INTERFACE_NAME_MAX).contains(&name.len())
        && name.bytes().all(allowed)
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !["lo", "all", "default", BRIDGE].contains(&name)
}

/// The interface that joins a switch's links.
pub(crate) const BRIDGE: &str = "bridge";

/// The lab's name, its nodes without computed routes, and the routes that the file gives.
pub(crate) type Resolved = (String, Vec<Node>, Vec<Option<Vec<Route>>>);

/// The lab's name for a file that has none: as it is called, or its folder.
pub(crate) fn name_of(path: &Path) -> Result<String> {
    let stem = path.file_stem().filter(|stem| *stem != "topology" && *stem != "lab");
    let stem = stem.or_else(|| path.parent()?.file_name()).unwrap_or_default().to_string_lossy();
    let name: String = stem.to_lowercase().replace(['-', '.', ' '], "_").chars().take(LAB_NAME_MAX).collect();
    if is_lab_name(&name) {
        return Ok(name);
    }
    problem(0, format!("the file has no name, and '{stem}' cannot name a lab"), "write name = \"LAB\" at its top")
}

/// Resolves a file.
pub(crate) fn resolve(mut file: File, path: &Path) -> Result<Resolved> {
    ground::spread(&mut file)?;
    automatic::fill(&mut file)?;
    let name_at = file.name.as_ref().map_or(0, |name| name.span().start);
    let name = match file.name {
        Some(name) => name.into_inner(),
        None => name_of(path)?,
    };
    if !is_lab_name(&name) {
        let (what, remedy) = lab_name_problem(&name);
        return problem(name_at, what, remedy);
    }
    let links: Vec<(usize, LinkEntry)> = file.links.into_iter().map(|l| (l.span().start, l.into_inner())).collect();
    let entries: Vec<(usize, String, NodeEntry)> =
        file.nodes.into_iter().map(|(name, entry)| (name.span().start, name.into_inner(), entry)).collect();
    if entries.is_empty() || entries.len() > NODES_MAX {
        return problem(
            name_at,
            format!("{} nodes", entries.len()),
            format!("give 1 to {NODES_MAX} [nodes.NAME] tables"),
        );
    }
    let mut nodes = Vec::new();
    for (at, node_name, entry) in &entries {
        nodes.push(node(*at, node_name, entry, &links)?);
        if entry.active == Some(true) && name.len() + ".".len() + node_name.len() > CALLED_MAX {
            let what = format!("'{name}.{node_name}' is longer than a running node may be called");
            return problem(*at, what, format!("shorten one of them: {CALLED_MAX} bytes together, with the dot"));
        }
    }
    let blocks: Vec<&[Prefix]> = entries.iter().map(|(_, _, entry)| entry.prefixes.as_slice()).collect();
    connect(&mut nodes, &blocks, &links)?;
    number_segments(&mut nodes);
    distinct_addresses(&entries, &nodes, &links)?;
    let places: Vec<usize> = entries.iter().map(|(at, ..)| *at).collect();
    names::resolve(&mut nodes, &places)?;
    let mut given = Vec::new();
    for ((at, _, entry), node) in entries.into_iter().zip(&mut nodes) {
        for neighbour in &entry.neighbours {
            let resolved = static_neighbour(at, node, neighbour)?;
            node.neighbours.push(resolved);
        }
        let routes = entry.routes.map(|routes| routes.iter().map(|route| static_route(at, node, route)).collect());
        given.push(routes.transpose()?);
    }
    Ok((name, nodes, given))
}

/// A node before its links.
fn node(at: usize, name: &str, entry: &NodeEntry, links: &[(usize, LinkEntry)]) -> Result<Node> {
    if !is_node_name(name) {
        let remedy = format!("use 1 to {NODE_NAME_MAX} small letters, digits, '-' or '_', the first no '-'");
        return problem(at, format!("'{name}' cannot name a node"), remedy);
    }
    let degree = links.iter().flat_map(|(_, link)| link.ends.iter().flatten()).filter(|end| end.node == name).count();
    if degree > INTERFACES_MAX {
        return problem(at, format!("node '{name}' has {degree} links"), format!("give it at most {INTERFACES_MAX}"));
    }
    let kind = entry.kind.unwrap_or(if degree > 1 { Kind::Router } else { Kind::Host });
    let active = entry.active == Some(true);
    let layer_3 = active || !entry.addresses.is_empty() || !entry.neighbours.is_empty() || entry.routes.is_some();
    if kind == Kind::Switch && layer_3 {
        let what = format!("the switch '{name}' has addresses, routes, neighbours or is active");
        return problem(at, what, "make it a router, or move them to the nodes behind it");
    }
    if kind != Kind::Switch && !entry.prefixes.is_empty() {
        let what = format!("node '{name}' has prefixes but is no switch");
        return problem(at, what, "write kind = \"switch\", or give the node addresses and the links prefixes");
    }
    if entry.anode.is_some() && !active {
        let what = format!("node '{name}' has an anode section but is not active");
        return problem(at, what, "write active = true, or remove the section");
    }
    if entry.anode.as_ref().is_some_and(|config| config.contains_key("run_dir")) {
        let what = format!("node '{name}' has a run_dir in its anode section");
        return problem(at, what, "leave it out: a node of a lab has /run/anode/LAB.NODE, where commands look for it");
    }
    for key in entry.sysctls.keys() {
        let below_net = key.starts_with("net.") || key.starts_with("net/");
        if !below_net || key.contains("..") || key.contains(char::is_whitespace) {
            let what = format!("node '{name}' sets '{key}', which is not a parameter of a network namespace");
            return problem(at, what, "only parameters below net. belong to a node, such as net.ipv4.ip_forward");
        }
    }
    Ok(Node {
        name: name.to_owned(),
        kind,
        active,
        anode: entry.anode.clone(),
        addresses: entry.addresses.clone(),
        interfaces: Vec::new(),
        routes: Vec::new(),
        neighbours: Vec::new(),
        every: EveryNode::default(),
        sysctls: entry.sysctls.iter().map(|(key, value)| (key.clone(), value.0.clone())).collect(),
    })
}

/// Gives the nodes their interfaces, link by link.
fn connect(nodes: &mut [Node], blocks: &[&[Prefix]], links: &[(usize, LinkEntry)]) -> Result<()> {
    let mut behind_switch: BTreeMap<usize, u32> = BTreeMap::new();
    let mut shaped = quality::Shaped::default();
    for (number, (at, link)) in links.iter().enumerate() {
        let Some([a, b]) = &link.ends else { continue };
        let (at_a, at_b) = (position(*at, nodes, &a.node)?, position(*at, nodes, &b.node)?);
        if at_a == at_b {
            return problem(*at, format!("the link joins '{}' with itself", a.node), "name two nodes");
        }
        let frames = quality::quality(*at, link, &mut shaped)?;
        let names = (interface_name(*at, nodes, at_a, a, b)?, interface_name(*at, nodes, at_b, b, a)?);
        let switched = [at_a, at_b].into_iter().find(|at| nodes.get(*at).is_some_and(|node| node.kind == Kind::Switch));
        if switched.is_some() && !link.prefixes.is_empty() {
            let what = format!("the link to the switch in '{}'–'{}' has prefixes", a.node, b.node);
            return problem(*at, what, "give them to the switch: [nodes.SWITCH] prefixes = […]");
        }
        for (own, end, name, peer_name, peer, first) in
            [(at_a, a, &names.0, &names.1, b, true), (at_b, b, &names.1, &names.0, a, false)]
        {
            let Some(node) = nodes.get(own) else { continue };
            let addresses = match (&end.addresses, switched) {
                (Some(given), _) => given.clone(),
                (None, _) if node.kind == Kind::Switch => Vec::new(),
                (None, Some(switch)) => {
                    let count = behind_switch.entry(switch).or_default();
                    *count += 1;
                    numbered(*at, blocks.get(switch).copied().unwrap_or_default(), *count)?
                }
                (None, None) => numbered(*at, &link.prefixes, if first { 1 } else { 2 })?,
            };
            check_interface(*at, node, link, name, &addresses)?;
            let mac = end.mac.unwrap_or(Mac::of(own as u16 + 1, node.interfaces.len() as u8 + 1));
            let interface = Interface {
                name: name.clone(),
                mac,
                addresses,
                peer: (peer.node.clone(), peer_name.clone()),
                link: number,
                end: usize::from(!first),
                segment: number,
                mtu: link.mtu(),
                quality: frames,
                cost: link.cost.unwrap_or(1),
                routed: link.routed.unwrap_or(true),
            };
            nodes[own].interfaces.push(interface);
        }
    }
    Ok(())
}

fn position(at: usize, nodes: &[Node], name: &str) -> Result<usize> {
    match nodes.iter().position(|node| node.name == name) {
        Some(position) => Ok(position),
        None => problem(at, format!("the link names '{name}', which is no node"), format!("add [nodes.{name}]")),
    }
}

/// `to-PEER`, with `-2` and so on for further links to the same peer. A name that is too long for an interface keeps its beginning, and
/// four digits of its digest tell it from others: `to-gate-of-the-west` is `to-gate-of-5c1e`.
fn usual_name(peer: &str, number: usize) -> String {
    let behind = if number > 1 { format!("-{number}") } else { String::new() };
    let room = INTERFACE_NAME_MAX - "to-".len() - behind.len();
    if peer.len() <= room {
        return format!("to-{peer}{behind}");
    }
    let digest = hex::encode(&Digest::of(peer.as_bytes()).0[..2]);
    let kept: String = peer.chars().take(room - 1 - digest.len()).collect();
    format!("to-{kept}-{digest}{behind}")
}

/// The name that the file gives, or the usual one.
fn interface_name(at: usize, nodes: &[Node], own: usize, end: &End, peer: &End) -> Result<String> {
    let taken = |name: &str| nodes.get(own).is_some_and(|node| node.interface(name).is_some());
    let usual = || (1..=INTERFACES_MAX).map(|number| usual_name(&peer.node, number)).find(|name| !taken(name));
    let name = end.interface.clone().or_else(usual).unwrap_or_default();
    if !is_interface_name(&name) {
        let what = format!("'{name}' cannot name an interface of '{}'", end.node);
        let remedy = format!(
            "give the end an `interface` of 1 to {INTERFACE_NAME_MAX} letters, digits, `-` or `_`, not reserved"
        );
        return problem(at, what, remedy);
    }
    if taken(&name) {
        return problem(at, format!("'{}' has two interfaces '{name}'", end.node), "give one another `interface`");
    }
    Ok(name)
}

fn numbered(at: usize, blocks: &[Prefix], number: u32) -> Result<Vec<Cidr>> {
    let mut addresses = Vec::new();
    for block in blocks {
        match Cidr::numbered(*block, number) {
            Some(cidr) => addresses.push(cidr),
            None => return problem(at, format!("{block} has no address number {number}"), "give a larger block"),
        }
    }
    Ok(addresses)
}

fn check_interface(at: usize, node: &Node, link: &LinkEntry, name: &str, addresses: &[Cidr]) -> Result<()> {
    if node.kind == Kind::Switch && !addresses.is_empty() {
        return problem(
            at,
            format!("the switch '{}' has an address on {name}", node.name),
            "remove it: switches have none",
        );
    }
    let least = if addresses.iter().any(|cidr| !cidr.addr.is_v4()) { MTU_MIN_V6 } else { MTU_MIN_V4 };
    if !(least..=MTU_MAX).contains(&link.mtu()) {
        return problem(at, format!("mtu = {} is out of range", link.mtu()), format!("use {least} to {MTU_MAX}"));
    }
    if let Some(cost) = link.cost.filter(|cost| *cost == 0 || *cost > 1 << 16) {
        return problem(at, format!("cost = {cost} is out of range"), "use 1 to 65536");
    }
    Ok(())
}

/// Gives all interfaces that hear each other the same segment number: the smallest of their links.
fn number_segments(nodes: &mut [Node]) {
    loop {
        let mut joined = BTreeMap::new();
        for switch in nodes.iter().filter(|node| node.kind == Kind::Switch) {
            let least = switch.interfaces.iter().map(|i| i.segment).min();
            let others = switch.interfaces.iter().map(|i| i.segment).filter(|s| Some(*s) != least);
            joined.extend(others.zip(least.into_iter().cycle()));
        }
        if joined.is_empty() {
            return;
        }
        for interface in nodes.iter_mut().flat_map(|node| &mut node.interfaces) {
            interface.segment = joined.get(&interface.segment).copied().unwrap_or(interface.segment);
        }
    }
}

fn distinct_addresses(
    entries: &[(usize, String, NodeEntry)],
    nodes: &[Node],
    links: &[(usize, LinkEntry)],
) -> Result<()> {
    let mut addresses: BTreeSet<Addr> = BTreeSet::new();
    let mut macs: BTreeSet<(usize, Mac)> = BTreeSet::new();
    for ((at, _, _), node) in entries.iter().zip(nodes) {
        let own = node.addresses.iter().map(|cidr| (*at, cidr.addr));
        let link_at = |link: usize| links.get(link).map_or(*at, |(at, _)| *at);
        let ends = node.interfaces.iter().flat_map(|i| i.addresses.iter().map(move |cidr| (i.link, cidr.addr)));
        for (at, addr) in own.chain(ends.map(|(link, addr)| (link_at(link), addr))) {
            if !addresses.insert(addr) {
                return problem(
                    at,
                    format!("{addr} is given twice ('{}' has it too)", node.name),
                    "change one of them",
                );
            }
            if addr.is_unspecified() {
                return problem(at, format!("'{}' has the address {addr}", node.name), "give an address of a host");
            }
        }
        for interface in &node.interfaces {
            if !macs.insert((interface.segment, interface.mac)) {
                let what = format!("{} is given twice on one segment ('{}' has it too)", interface.mac, node.name);
                return problem(link_at(interface.link), what, "change one `mac`");
            }
        }
    }
    Ok(())
}

/// The interface that the entry names, or else the one whose blocks hold the address.
fn toward(at: usize, node: &Node, named: Option<&str>, addr: Option<Addr>) -> Result<String> {
    let on_link =
        |addr: Addr| node.interfaces.iter().find(|i| i.addresses.iter().any(|cidr| cidr.prefix.contains(addr)));
    let found = match (named, addr) {
        (Some(name), _) => node.interface(name),
        (None, Some(addr)) => on_link(addr),
        (None, None) => None,
    };
    match (found, named, addr) {
        (Some(interface), _, _) => Ok(interface.name.clone()),
        (None, Some(name), _) => {
            problem(at, format!("'{}' has no interface '{name}'", node.name), "name one of its links")
        }
        (None, None, Some(addr)) => problem(
            at,
            format!("no link of '{}' leads to {addr}", node.name),
            "use an address of a neighbour, or name the `interface`",
        ),
        (None, None, None) => {
            problem(at, format!("a route of '{}' leads nowhere", node.name), "give `via` or `interface`")
        }
    }
}

fn static_route(at: usize, node: &Node, entry: &RouteEntry) -> Result<Route> {
    if entry.via.is_some_and(|via| via.is_v4() != entry.to.addr.is_v4()) {
        let what = format!("a route of '{}' to {} goes via another address family", node.name, entry.to);
        return problem(at, what, "use a next hop of the same family");
    }
    let interface = toward(at, node, entry.interface.as_deref(), entry.via)?;
    Ok(Route { to: entry.to, via: entry.via, interface })
}

fn static_neighbour(at: usize, node: &Node, entry: &NeighbourEntry) -> Result<Neighbour> {
    let interface = toward(at, node, entry.interface.as_deref(), Some(entry.address))?;
    Ok(Neighbour { addr: entry.address, mac: entry.mac, interface })
}
