//! Routes: longest-prefix match over 16-byte addresses. Example: 10.0.3.0/24 by 10.0.1.2 on port 1.
//!
//! Control has the table that it changes as routes do (static ones, or a copy of the kernel's FIB). The node and each of
//! its workers have copies, which share with it all that stays ([`PrefixTree`]). Each family has its own: no route of IPv6
//! leads to an address of IPv4.

use super::tree::PrefixTree;
use crate::frame::PortId;
use crate::wire::{Addr, Prefix};

/// Where packets for a destination go next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The outgoing port.
    pub port: PortId,
    /// The next router; unspecified when the destination is on the link itself.
    pub via: Addr,
}

/// A route that is another than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteChange {
    /// Where to.
    pub to: Prefix,
    /// What it is now; nothing: there is none any more.
    pub now: Option<Leads>,
}

/// Where a route leads; nothing: nowhere that the node could send to, though a shorter prefix would.
pub type Leads = Option<NextHop>;

/// A routing table.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    v4: PrefixTree<Leads>,
    v6: PrefixTree<Leads>,
}

impl Routes {
    /// Builds a table; of two routes for the same prefix the first one counts.
    pub fn new(routes: impl IntoIterator<Item = (Prefix, NextHop)>) -> Routes {
        let mut table = Routes::default();
        for (prefix, next) in routes {
            if table.get(prefix).is_none() {
                table.change(RouteChange { to: prefix, now: Some(Some(next)) });
            }
        }
        table
    }

    /// The route of the longest prefix that holds `to`.
    #[inline]
    pub fn next_hop(&self, to: Addr) -> Option<NextHop> {
        let family = if to.is_v4() { &self.v4 } else { &self.v6 };
        family.longest(to).copied().flatten()
    }

    /// The route of a prefix itself.
    pub fn get(&self, to: Prefix) -> Option<Leads> {
        if to.is_v4() { &self.v4 } else { &self.v6 }.get(to).copied()
    }

    /// Obeys a change; says whether it is one. Copies of the table stay what they are.
    pub fn change(&mut self, RouteChange { to, now }: RouteChange) -> bool {
        if self.get(to) == now {
            return false;
        }
        let family = if to.is_v4() { &mut self.v4 } else { &mut self.v6 };
        match now {
            Some(leads) => family.set(to, leads),
            None => family.remove(to),
        };
        true
    }

    /// All routes that lead somewhere.
    pub fn next_hops(&self) -> impl Iterator<Item = (Prefix, NextHop)> {
        self.iter().filter_map(|(to, leads)| Some((to, leads?)))
    }

    /// All routes.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, Leads)> {
        self.v4.iter().chain(self.v6.iter()).map(|(to, leads)| (to, *leads))
    }

    /// Routes in the table.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there is no route at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let via = |text: &str, port| NextHop { port: PortId(port), via: text.parse().unwrap() };
        let table = Routes::new([
            ("0.0.0.0/0".parse().unwrap(), via("10.0.0.1", 0)),
            ("10.2.0.0/16".parse().unwrap(), via("10.0.0.2", 1)),
            ("10.2.3.4/32".parse().unwrap(), via("10.0.0.3", 2)),
            ("2001:db8::/32".parse().unwrap(), via("fe80::1", 3)),
        ]);
        let port = |to: &str| table.next_hop(to.parse().unwrap()).map(|next| next.port.0);
        assert_eq!(port("9.9.9.9"), Some(0));
        assert_eq!(port("10.2.0.1"), Some(1));
        assert_eq!(port("10.2.3.4"), Some(2));
        assert_eq!(port("2001:db8::5"), Some(3));
        assert_eq!(port("2001:db9::5"), None);
        assert_eq!(table.len(), 4);
    }

    #[test]
    fn no_route_of_one_family_leads_to_the_other() {
        let hop = NextHop { port: PortId(0), via: "fe80::1".parse().unwrap() };
        let table = Routes::new([("::/0".parse().unwrap(), hop)]);
        assert_eq!(table.next_hop("2001:db8::5".parse().unwrap()), Some(hop));
        assert_eq!(table.next_hop("10.0.0.1".parse().unwrap()), None);
    }

    #[test]
    fn the_first_of_equal_routes_counts() {
        let hop = |port| NextHop { port: PortId(port), via: Addr::UNSPECIFIED };
        let prefix: Prefix = "10.0.0.0/8".parse().unwrap();
        let table = Routes::new([(prefix, hop(1)), (prefix, hop(2))]);
        assert_eq!(table.next_hop("10.1.1.1".parse().unwrap()), Some(hop(1)));
    }

    #[test]
    fn a_route_that_leads_nowhere_hides_shorter_ones_until_it_goes() {
        let hop = NextHop { port: PortId(1), via: Addr::UNSPECIFIED };
        let [all, part]: [Prefix; 2] = ["10.0.0.0/8", "10.1.0.0/16"].map(|text| text.parse().unwrap());
        let to = "10.1.1.1".parse().unwrap();
        let mut table = Routes::new([(all, hop)]);
        let before = table.clone();
        assert!(table.change(RouteChange { to: part, now: Some(None) }));
        assert!(!table.change(RouteChange { to: part, now: Some(None) }), "it is so already");
        assert_eq!((table.next_hop(to), table.len()), (None, 2));
        assert_eq!((before.next_hop(to), before.len()), (Some(hop), 1), "a copy is not changed");
        assert!(table.change(RouteChange { to: part, now: None }));
        assert_eq!((table.next_hop(to), table.len()), (Some(hop), 1));
    }
}
