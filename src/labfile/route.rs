//! Static routes by shortest paths (Dijkstra), for IPv4 and IPv6 each on the links that carry it.
//!
//! Only routers are passed through, and links with `routed = false` are not used. Of several shortest paths the one
//! over earlier links wins, so the same file gives the same routes. A path leads to every block of a router's routed
//! links and to every node's own addresses.

use std::collections::{BTreeMap, BTreeSet};

use super::file::Kind;
use super::topology::{Interface, Node, Route};
use crate::wire::{Addr, Prefix};

/// The routes of every node, in the nodes' order.
pub(crate) fn compute(nodes: &[Node]) -> Vec<Vec<Route>> {
    let mut segments: BTreeMap<usize, Vec<(usize, &Interface)>> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate().filter(|(_, node)| node.kind != Kind::Switch) {
        for interface in &node.interfaces {
            segments.entry(interface.segment).or_default().push((at, interface));
        }
    }
    let from = |at: usize| {
        let families = [true, false].into_iter();
        families.flat_map(|v4| Paths::from(at, v4, nodes, &segments).routes(nodes)).collect()
    };
    (0..nodes.len()).map(from).collect()
}

/// The first step of a path: the outgoing interface and the next node's address.
type Hop<'a> = (&'a str, Addr);

struct Paths<'a> {
    source: usize,
    v4: bool,
    /// Reached nodes, nearest first, each with the first step there (none at the source).
    reached: Vec<(usize, Option<Hop<'a>>)>,
}

impl<'a> Paths<'a> {
    fn from(
        source: usize,
        v4: bool,
        nodes: &'a [Node],
        segments: &BTreeMap<usize, Vec<(usize, &'a Interface)>>,
    ) -> Self {
        let mut reached = Vec::new();
        let mut done = vec![false; nodes.len()];
        let mut best: BTreeMap<usize, (u64, usize, Option<Hop<'a>>)> = BTreeMap::from([(source, (0, 0, None))]);
        let mut found = 0;
        while let Some((distance, _, at)) = best.iter().map(|(at, (d, order, _))| (*d, *order, *at)).min() {
            let Some((_, _, hop)) = best.remove(&at) else { break };
            done[at] = true;
            reached.push((at, hop));
            if at != source && nodes[at].kind != Kind::Router {
                continue;
            }
            for own in nodes[at].interfaces.iter().filter(|interface| interface.routed) {
                for (next, theirs) in segments.get(&own.segment).into_iter().flatten() {
                    let Some(gateway) = gateway(own, theirs, v4).filter(|_| !done[*next]) else { continue };
                    let total = distance + u64::from(own.cost.max(theirs.cost));
                    found += 1;
                    let candidate = (total, found, hop.or(Some((own.name.as_str(), gateway))));
                    let known = best.entry(*next).or_insert(candidate);
                    if candidate.0 < known.0 {
                        *known = candidate;
                    }
                }
            }
        }
        Paths { source, v4, reached }
    }

    fn routes(&self, nodes: &[Node]) -> Vec<Route> {
        let mut known: BTreeSet<Prefix> = BTreeSet::new();
        let mut routes = Vec::new();
        for (at, hop) in &self.reached {
            let node = &nodes[*at];
            let links =
                node.interfaces.iter().filter(|i| *at == self.source || (node.kind == Kind::Router && i.routed));
            let blocks = links.flat_map(|i| &i.addresses).chain(&node.addresses).map(|cidr| cidr.prefix);
            for to in blocks.filter(|block| block.addr.is_v4() == self.v4) {
                let new = known.insert(to);
                if let Some((interface, via)) = hop.filter(|_| new) {
                    routes.push(Route { to, via: Some(via), interface: interface.to_owned() });
                }
            }
        }
        routes
    }
}

/// The address of `theirs` that is on the link for `own`.
fn gateway(own: &Interface, theirs: &Interface, v4: bool) -> Option<Addr> {
    let on_link = |addr: &Addr| own.addresses.iter().any(|cidr| cidr.prefix.contains(*addr) && cidr.addr != *addr);
    let addresses = theirs.addresses.iter().map(|cidr| cidr.addr).filter(|addr| addr.is_v4() == v4);
    addresses.into_iter().find(on_link).filter(|_| theirs.routed)
}
