//! The kernel's routes as it has told of them, by prefix. Example: 10.3.0.0/24 with metric 20 by a routing daemon, and
//! with metric 100 by hand: when the first goes, the second leads.
//!
//! Of IPv4 the kernel's order decides among routes with one metric. Of IPv6 those with one metric are one set of ways,
//! to which it adds and from which it takes. Where what is told does not fit what was told before, the whole is to be
//! read again: then nothing that was missed stays.

use crate::frame::PortId;
use crate::sys::netlink::{Change, Hop, Hops, KernelRoute};
use crate::topology::{Leads, NextHop, PrefixTree};
use crate::wire::Prefix;
use std::collections::HashMap;

/// Routes to one prefix, smaller metrics first.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    first: KernelRoute,
    rest: Vec<KernelRoute>,
}

impl Known {
    fn all(&self) -> impl Iterator<Item = &KernelRoute> {
        core::iter::once(&self.first).chain(&self.rest)
    }
}

/// What the kernel has told.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    tree: PrefixTree<Known>,
    /// Routes that have their ways from an object of next hops.
    objects: Uses,
    /// Ways that lead by an interface.
    interfaces: Uses,
}

/// How often something is used, by its number; 0 is none.
#[derive(Debug, Default)]
struct Uses(HashMap<u32, usize>);

impl Uses {
    fn count(&mut self, number: u32, by: isize) {
        if number != 0 {
            let of = self.0.entry(number).or_default();
            *of = of.saturating_add_signed(by);
            if *of == 0 {
                self.0.remove(&number);
            }
        }
    }
}

/// Whether what is told fits what was told before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It does.
    Fits,
    /// It does not, unless it is older than what was read.
    Differs,
}

impl Mirror {
    /// Takes a change down.
    pub fn hear(&mut self, to: Prefix, route: KernelRoute, change: Change) -> Told {
        if change != Change::Removed && self.tree.get(to).is_none() {
            self.count(to, &route, 1);
            self.tree.set(to, Known { first: route, rest: Vec::new() });
            return Told::Fits;
        }
        let mut all: Vec<KernelRoute> = self.tree.get(to).into_iter().flat_map(Known::all).cloned().collect();
        all.iter().for_each(|route| self.count(to, route, -1));
        let told = if to.is_v4() { hear_v4(&mut all, route, change) } else { hear_v6(&mut all, route, change) };
        all.iter().for_each(|route| self.count(to, route, 1));
        let mut all = all.into_iter();
        match all.next() {
            Some(first) => drop(self.tree.set(to, Known { first, rest: all.collect() })),
            None => drop(self.tree.remove(to)),
        }
        told
    }

    fn count(&mut self, to: Prefix, route: &KernelRoute, by: isize) {
        self.objects.count(route.object, by);
        // Each interface has a route to the addresses of its link, of which the kernel tells.
        if !is_of_link(to) {
            hops(route).iter().for_each(|hop| self.interfaces.count(hop.interface, by));
        }
    }

    /// Whether routes have their ways from this object of next hops.
    pub fn uses(&self, object: u32) -> bool {
        self.objects.0.contains_key(&object)
    }

    /// The interfaces by which routes lead.
    pub fn leads_by(&self) -> impl Iterator<Item = u32> {
        self.interfaces.0.keys().copied()
    }

    /// Where the routes to a prefix lead, given the ports of interfaces; nothing: there are none.
    pub fn leads(&self, to: Prefix, port: &impl Fn(u32) -> Option<PortId>) -> Option<Leads> {
        let known = self.tree.get(to)?;
        let one = |hop: &Hop| Some(NextHop { port: port(hop.interface)?, via: hop.via });
        let mut metric = None;
        for route in known.all() {
            // Of IPv4 the first counts, else any with its metric.
            if metric.is_some_and(|metric| metric != route.metric || to.is_v4()) {
                break;
            }
            let hops = match &route.hops {
                Hops::Nowhere => &[],
                Hops::One(hop) => core::slice::from_ref(hop),
                // Without any whose link is up the next metric counts.
                Hops::Several(hops) if !hops.iter().any(|hop| hop.up) => continue,
                Hops::Several(hops) => &hops[..],
            };
            if let Some(next) = hops.iter().filter(|hop| hop.up).find_map(one) {
                return Some(Some(next));
            }
            metric = Some(route.metric);
        }
        Some(None)
    }

    /// The prefixes of which this knows something else than another.
    pub fn differs<'a>(&'a self, other: &'a Mirror) -> impl Iterator<Item = Prefix> + 'a {
        let here = self.tree.iter().filter(|(to, known)| other.tree.get(*to) != Some(*known));
        let gone = other.tree.iter().filter(|(to, _)| self.tree.get(*to).is_none());
        here.chain(gone).map(|(to, _)| to)
    }

    /// All prefixes.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> {
        self.tree.iter().map(|(to, _)| to)
    }
}

/// Whether a prefix has addresses of one link alone, fe80::/10 (RFC 4291, section 2.5.6).
fn is_of_link(to: Prefix) -> bool {
    !to.is_v4() && to.addr.0[0] == 0xfe && to.addr.0[1] & 0xc0 == 0x80
}

/// Where routes with a metric are among others.
fn with_metric(all: &[KernelRoute], metric: u32) -> core::ops::Range<usize> {
    all.partition_point(|route| route.metric < metric)..all.partition_point(|route| route.metric <= metric)
}

fn hear_v4(all: &mut Vec<KernelRoute>, route: KernelRoute, change: Change) -> Told {
    let own = with_metric(all, route.metric);
    let same = own.clone().find(|at| is_same(&all[*at], &route));
    match change {
        Change::Removed => match (same, own.len()) {
            (Some(at), _) => drop(all.remove(at)),
            (None, 1) => drop(all.remove(own.start)),
            (None, _) => return Told::Differs,
        },
        Change::Replaced if !own.is_empty() => all[own.start] = route,
        _ if same.is_some() => return Told::Differs,
        Change::Appended => all.insert(own.end, route),
        Change::Put | Change::Replaced => all.insert(own.start, route),
    }
    Told::Fits
}

fn hear_v6(all: &mut Vec<KernelRoute>, route: KernelRoute, change: Change) -> Told {
    let own = with_metric(all, route.metric);
    let same = own.clone().find(|at| is_same(&all[*at], &route));
    let shares = |at: &usize| hops(&all[*at]).iter().any(|hop| hops(&route).iter().any(|other| is_way(hop, other)));
    let shared = own.clone().find(shares);
    match (change, same.or(shared)) {
        (Change::Removed, None) => return Told::Differs,
        (Change::Removed, Some(at)) if same.is_some() => drop(all.remove(at)),
        (Change::Removed, Some(at)) => {
            let stays = |hop: &&Hop| !hops(&route).iter().any(|gone| is_way(hop, gone));
            let left: Box<[Hop]> = hops(&all[at]).iter().filter(stays).copied().collect();
            match &*left {
                [] => drop(all.remove(at)),
                [hop] => all[at].hops = Hops::One(*hop),
                _ => all[at].hops = Hops::Several(left),
            }
        }
        (Change::Replaced, _) if !own.is_empty() => {
            let several = own.len() > 1;
            all[own.start] = route;
            // Which of them was replaced depends on what they are.
            return if several { Told::Differs } else { Told::Fits };
        }
        // All ways of the set are told.
        (_, Some(at)) => all[at] = route,
        (_, None) => all.insert(own.end, route),
    }
    Told::Fits
}

fn hops(route: &KernelRoute) -> &[Hop] {
    match &route.hops {
        Hops::Nowhere => &[],
        Hops::One(hop) => core::slice::from_ref(hop),
        Hops::Several(hops) => hops,
    }
}

/// Whether two ways are one, whether its link is up or not.
fn is_way(one: &Hop, other: &Hop) -> bool {
    (one.via, one.interface) == (other.via, other.interface)
}

/// Whether two routes are one.
fn is_same(one: &KernelRoute, other: &KernelRoute) -> bool {
    let (ours, theirs) = (hops(one), hops(other));
    let ways = || ours.iter().zip(theirs).all(|(one, other)| is_way(one, other));
    one.object == other.object && ours.len() == theirs.len() && ways()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Addr;

    /// A route with this metric by these interfaces, of which each leads to a port with its number; negative: its link is down.
    fn route(metric: u32, by: &[i32]) -> KernelRoute {
        let hop = |by: &i32| Hop { via: Addr::UNSPECIFIED, interface: by.unsigned_abs(), up: *by > 0 };
        let hops = match by {
            [] => Hops::Nowhere,
            [by] => Hops::One(hop(by)),
            several => Hops::Several(several.iter().map(hop).collect()),
        };
        KernelRoute { metric, object: 0, hops }
    }

    /// What is told, and what leads then: a port, 0 for nowhere, nothing without a route. Interface 9 is no port.
    fn follows(to: &str, steps: &[(Change, KernelRoute, Option<u16>)]) -> Vec<Told> {
        let (mut mirror, to) = (Mirror::default(), to.parse().unwrap());
        let port = |interface: u32| (interface != 9).then_some(PortId(interface as u16));
        let mut all = Vec::new();
        for (at, (change, route, expected)) in steps.iter().enumerate() {
            all.push(mirror.hear(to, route.clone(), *change));
            let leads = mirror.leads(to, &port);
            assert_eq!(leads.map(|leads| leads.map_or(0, |next| next.port.0)), *expected, "step {at}");
        }
        all
    }

    use Change::{Appended, Put, Removed, Replaced};

    #[test]
    fn the_smallest_metric_leads_and_the_next_when_it_goes() {
        let told = follows(
            "10.0.0.0/8",
            &[
                (Put, route(100, &[1]), Some(1)),
                (Put, route(20, &[2]), Some(2)),
                (Put, route(50, &[9]), Some(2)),
                (Removed, route(20, &[2]), Some(0)),
                (Removed, route(50, &[9]), Some(1)),
                (Removed, route(100, &[1]), None),
            ],
        );
        assert!(told.iter().all(|told| *told == Told::Fits), "{told:?}");
    }

    #[test]
    fn of_one_metric_the_kernels_order_counts() {
        let told = follows(
            "10.0.0.0/8",
            &[
                (Put, route(1, &[1]), Some(1)),
                (Appended, route(1, &[2]), Some(1)),
                (Put, route(1, &[3]), Some(3)),
                (Replaced, route(1, &[4]), Some(4)),
                (Removed, route(1, &[4]), Some(1)),
                (Removed, route(1, &[1]), Some(2)),
                (Replaced, route(1, &[]), Some(0)),
                (Removed, route(1, &[]), None),
                (Replaced, route(7, &[3]), Some(3)),
            ],
        );
        assert!(told.iter().all(|told| *told == Told::Fits), "{told:?}");
    }

    #[test]
    fn of_several_ways_the_first_with_a_link_and_a_port_counts() {
        let several = route(1, &[-1, 9, 3, 4]);
        let down = route(1, &[-1, -2]);
        follows("10.0.0.0/8", &[(Put, several, Some(3))]);
        follows("10.0.0.0/8", &[(Put, down, Some(0)), (Put, route(5, &[6]), Some(6))]);
    }

    #[test]
    fn ways_of_ipv6_come_and_go_one_by_one() {
        let told = follows(
            "2001:db8::/32",
            &[
                (Put, route(1024, &[1]), Some(1)),
                (Appended, route(1024, &[1, 2]), Some(1)),
                (Removed, route(1024, &[1]), Some(2)),
                (Put, route(1024, &[2]), Some(2)),
                (Replaced, route(1024, &[3, 4]), Some(3)),
                (Removed, route(1024, &[3, 4]), None),
            ],
        );
        assert!(told.iter().all(|told| *told == Told::Fits), "{told:?}");
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let put = (Put, route(1, &[1]), Some(1));
        let twice = [put.clone(), put.clone()];
        assert_eq!(follows("10.0.0.0/8", &twice)[1], Told::Differs);
        let unknown = [put.clone(), (Removed, route(2, &[1]), Some(1))];
        assert_eq!(follows("10.0.0.0/8", &unknown)[1], Told::Differs);
        assert_eq!(follows("2001:db8::/32", &unknown)[1], Told::Differs);
        assert_eq!(follows("10.0.0.0/8", &[(Removed, route(2, &[1]), None)]), [Told::Differs]);
        let three = [put.clone(), (Put, route(1, &[2]), Some(1)), (Replaced, route(1, &[3]), Some(3))];
        assert_eq!(follows("2001:db8::/32", &three)[2], Told::Differs);
    }

    #[test]
    fn objects_of_next_hops_are_known_while_routes_use_them() {
        let (mut mirror, to) = (Mirror::default(), "10.0.0.0/8".parse().unwrap());
        let of = |object| KernelRoute { object, ..route(1, &[1]) };
        mirror.hear(to, of(5), Put);
        assert!(mirror.uses(5) && !mirror.uses(6));
        mirror.hear(to, of(6), Replaced);
        assert!(mirror.uses(6) && !mirror.uses(5));
        mirror.hear(to, of(6), Removed);
        assert!(!mirror.uses(6));
    }

    #[test]
    fn interfaces_are_known_while_routes_lead_by_them() {
        let (mut mirror, to) = (Mirror::default(), "10.0.0.0/8".parse().unwrap());
        mirror.hear(to, route(1, &[1, -2]), Put);
        mirror.hear(to, route(2, &[2]), Put);
        let by = |mirror: &Mirror| mirror.leads_by().collect::<std::collections::BTreeSet<u32>>();
        assert_eq!(by(&mirror), [1, 2].into());
        mirror.hear(to, route(1, &[1, 2]), Removed);
        assert_eq!(by(&mirror), [2].into());
        mirror.hear(to, route(2, &[]), Replaced);
        assert_eq!(by(&mirror), [].into());
        mirror.hear("fe80::/64".parse().unwrap(), route(256, &[3]), Put);
        assert_eq!(by(&mirror), [].into());
    }
}
