//! The difference between a topology and the host, as lines for `ip -batch`.
//!
//! Pure functions: [`super::build`] runs the lines, in the order of the functions here. Equal parts have no lines. So a
//! second `up` changes nothing, and an `up` after a crash at any point does the rest.

use std::collections::{BTreeMap, BTreeSet};

use super::observe::{Link, Observed, ROUTE_PROTOCOL};
use crate::labfile::Kind;
use crate::labfile::resolve::BRIDGE;
use crate::labfile::topology::{Interface, Neighbour, Node, Route, Topology};
use crate::labfile::{Cidr, Mac};

/// The alias of a lab namespace's loopback interface: the proof that the lab made the namespace.
pub(super) fn marker(lab: &str) -> String {
    format!("anode lab {lab}")
}

/// The alias of a link's end: which lab made it, and which end is its peer.
fn alias(lab: &str, interface: &Interface) -> String {
    let (node, name) = &interface.peer;
    format!("{}: {node} {name}", marker(lab))
}

/// Within a namespace, before its links are made: mark it, remove links that should not be.
pub(super) fn prepare(topology: &Topology, node: &Node, observed: &BTreeMap<&str, Observed>) -> Vec<String> {
    let mut lines = Vec::new();
    let none = Observed::default();
    let here = observed.get(node.name.as_str()).unwrap_or(&none);
    let marker = marker(&topology.name);
    let lo = here.links.get("lo");
    if lo.is_none_or(|lo| lo.alias != marker) {
        lines.push(format!("link set dev lo alias \"{marker}\""));
    }
    if lo.is_none_or(|lo| !lo.enabled) {
        lines.push("link set dev lo up".into());
    }
    if node.kind == Kind::Switch && !here.links.contains_key(BRIDGE) {
        let at = topology.nodes.iter().position(|n| n.name == node.name).unwrap_or_default();
        let mac = Mac::of(at as u16 + 1, 0);
        lines.push(format!("link add name {BRIDGE} address {mac} type bridge stp_state 0 mcast_snooping 0"));
    }
    lines
}

/// Links of the lab within a namespace that must go before new ones are made.
pub(super) fn stale(topology: &Topology, node: &Node, observed: &BTreeMap<&str, Observed>) -> Vec<String> {
    let Some(here) = observed.get(node.name.as_str()) else { return Vec::new() };
    let stale = |(name, link): &(&String, &Link)| match node.interface(name) {
        Some(interface) => is_ours(link, Some(interface)) && !is_intact(topology, node, interface, observed),
        None if *name == BRIDGE => link.kind == "bridge" && node.kind != Kind::Switch,
        None => is_ours(link, None),
    };
    here.links.iter().filter(stale).map(|(name, _)| format!("link del dev {name}")).collect()
}

/// From any namespace: the links that are missing.
pub(super) fn links(topology: &Topology, observed: &BTreeMap<&str, Observed>) -> Vec<String> {
    let mut made = BTreeSet::new();
    let mut lines = Vec::new();
    for node in &topology.nodes {
        for end in node.interfaces.iter().filter(|end| !is_intact(topology, node, end, observed)) {
            let Some(peer) = peer(topology, end).filter(|_| made.insert(end.link)) else { continue };
            let side = |node: &str, i: &Interface| {
                let namespace = topology.namespace(node);
                format!("{} netns {namespace} address {} mtu {}", i.name, i.mac, i.mtu)
            };
            let (here, there) = (side(&node.name, end), side(&end.peer.0, peer));
            lines.push(format!("link add {here} type veth peer name {there}"));
        }
    }
    lines
}

/// Within a namespace whose links are there: everything else that differs.
pub(super) fn configure(topology: &Topology, node: &Node, here: &Observed) -> Vec<String> {
    let wanted = Wanted::of(node);
    let mut lines = Vec::new();
    let known = |interface: &str| interface == "lo" || node.interface(interface).is_some();
    lines.extend(here.routes.difference(&wanted.routes).filter(|r| known(&r.interface)).map(|r| route("del", r)));
    // Before the addresses, with which the kernel drops neighbours itself.
    for n in here.neighbours.difference(&wanted.neighbours).filter(|n| known(&n.interface)) {
        lines.push(format!("neighbour del {} dev {}", n.addr, n.interface));
    }
    for (interface, cidr) in here.addresses.difference(&wanted.addresses) {
        if known(interface) && !is_link_local(cidr) {
            lines.push(format!("address del {cidr} dev {interface}"));
        }
    }
    if let Some(bridge) = here.links.get(BRIDGE).filter(|_| node.kind == Kind::Switch) {
        lines.extend((!bridge.enabled).then(|| format!("link set dev {BRIDGE} up")));
    }
    for interface in &node.interfaces {
        if let Some(link) = here.links.get(&interface.name) {
            lines.extend(adjust(topology, node, interface, link));
        }
    }
    for (interface, cidr) in wanted.addresses.difference(&here.addresses) {
        let nodad = if cidr.addr.is_v4() { "" } else { " nodad" };
        lines.push(format!("address replace {cidr} dev {interface}{nodad}"));
    }
    lines.extend(wanted.routes.difference(&here.routes).map(|r| route("replace", r)));
    for n in wanted.neighbours.difference(&here.neighbours) {
        lines.push(format!("neighbour replace {} lladdr {} dev {} nud permanent", n.addr, n.mac, n.interface));
    }
    lines
}

/// In the namespace of shaped links: no frames are joined to longer ones on their way in. They are each a frame of the link.
pub(super) fn apart(node: &Node) -> Vec<String> {
    node.interfaces.iter().map(|interface| format!("link set dev {} gro_max_size 1", interface.name)).collect()
}

/// The namespace's kernel parameters: the lab's, then the topology's over them.
pub(super) fn sysctls(node: &Node) -> BTreeMap<String, String> {
    let forward = if node.kind == Kind::Router { "1" } else { "0" };
    let v6 = if node.kind == Kind::Switch { "1" } else { "0" };
    let mut values = BTreeMap::from([("net/ipv4/ip_forward".to_owned(), forward.to_owned())]);
    for scope in ["all", "default"] {
        let mut set = |family: &str, key: &str, value: &str| {
            values.insert(format!("net/{family}/conf/{scope}/{key}"), value.to_owned());
        };
        // Paths may be asymmetric, and nobody but the topology gives routes or addresses.
        set("ipv4", "rp_filter", "0");
        set("ipv4", "send_redirects", "0");
        set("ipv4", "accept_redirects", "0");
        set("ipv4", "promote_secondaries", "1");
        set("ipv6", "disable_ipv6", v6);
        set("ipv6", "forwarding", forward);
        set("ipv6", "accept_ra", "0");
        set("ipv6", "accept_redirects", "0");
        set("ipv6", "router_solicitations", "0");
        // Addresses serve at once: the topology has none twice.
        set("ipv6", "accept_dad", "0");
    }
    for (key, value) in &node.sysctls {
        values.insert(key.replace('.', "/"), value.clone());
    }
    values
}

/// Whether the link of this interface is as it should be at both ends.
fn is_intact(topology: &Topology, node: &Node, end: &Interface, observed: &BTreeMap<&str, Observed>) -> bool {
    let link = |node: &str, name: &str| observed.get(node).and_then(|here| here.links.get(name));
    let (Some(peer), Some(here)) = (peer(topology, end), link(&node.name, &end.name)) else { return false };
    let Some(there) = link(&end.peer.0, &end.peer.1) else { return false };
    let joined = here.peer_index == Some(there.index) && there.peer_index == Some(here.index);
    let named = |link: &Link, end: &Interface| link.alias.is_empty() || link.alias == alias(&topology.name, end);
    joined && is_end(here, end) && is_end(there, peer) && named(here, end) && named(there, peer)
}

fn is_end(link: &Link, end: &Interface) -> bool {
    link.kind == "veth" && link.mac == Some(end.mac)
}

/// Whether a lab made the link: by its alias, or by its address if a crash came before the alias.
fn is_ours(link: &Link, end: Option<&Interface>) -> bool {
    let marked = link.alias.starts_with("anode lab ") || link.mac.is_some_and(|mac| mac.0.starts_with(&Mac::LAB));
    link.kind == "veth" && (marked || end.is_some_and(|end| link.mac == Some(end.mac)))
}

fn peer<'a>(topology: &'a Topology, end: &Interface) -> Option<&'a Interface> {
    topology.node(&end.peer.0)?.interface(&end.peer.1)
}

fn adjust(topology: &Topology, node: &Node, interface: &Interface, link: &Link) -> Vec<String> {
    let name = &interface.name;
    let alias = alias(&topology.name, interface);
    let mut lines = Vec::new();
    lines.extend((link.alias != alias).then(|| format!("link set dev {name} alias \"{alias}\"")));
    lines.extend((link.mtu != interface.mtu).then(|| format!("link set dev {name} mtu {}", interface.mtu)));
    let master = (node.kind == Kind::Switch).then_some(BRIDGE);
    if link.master.as_deref() != master {
        lines.push(
            master.map_or(format!("link set dev {name} nomaster"), |m| format!("link set dev {name} master {m}")),
        );
    }
    lines.extend((!link.enabled).then(|| format!("link set dev {name} up")));
    lines
}

fn route(verb: &str, route: &Route) -> String {
    let via = route.via.map_or(String::new(), |via| format!(" via {via}"));
    format!("route {verb} {}{via} dev {} proto {ROUTE_PROTOCOL}", route.to, route.interface)
}

fn is_link_local(cidr: &Cidr) -> bool {
    matches!(cidr.addr.0, [0xfe, 0x80..=0xbf, ..])
}

struct Wanted {
    addresses: BTreeSet<(String, Cidr)>,
    routes: BTreeSet<Route>,
    neighbours: BTreeSet<Neighbour>,
}

impl Wanted {
    fn of(node: &Node) -> Wanted {
        let own = node.addresses.iter().map(|cidr| ("lo".to_owned(), *cidr));
        let links = node.interfaces.iter().flat_map(|i| i.addresses.iter().map(|cidr| (i.name.clone(), *cidr)));
        Wanted {
            addresses: own.chain(links).collect(),
            routes: node.routes.iter().cloned().collect(),
            neighbours: node.neighbours.iter().cloned().collect(),
        }
    }
}
