//! Routes: longest-prefix match over 16-byte addresses. Example: 10.0.3.0/24 by 10.0.1.2 on port 1.
//!
//! A table is built by control and never changed: the node gets a new one when routes change (static routes, or a copy
//! of the kernel's FIB). Look-ups go through one hash table for each occurring prefix length, longest first.

use crate::frame::PortId;
use crate::wire::{Addr, Prefix};
use std::collections::HashMap;

/// Where packets for a destination go next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The outgoing port.
    pub port: PortId,
    /// The next router; unspecified when the destination is on the link itself.
    pub via: Addr,
}

/// An immutable routing table.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// Longest prefixes first.
    by_length: Vec<(u8, HashMap<Addr, NextHop, foldhash::fast::FixedState>)>,
}

impl Routes {
    /// Builds a table; of two routes for the same prefix the first one counts.
    pub fn new(routes: impl IntoIterator<Item = (Prefix, NextHop)>) -> Routes {
        let mut table = Routes::default();
        for (prefix, next) in routes {
            let at = table.by_length.binary_search_by(|(length, _)| prefix.length.cmp(length));
            let at = at.unwrap_or_else(|at| {
                table.by_length.insert(at, (prefix.length, HashMap::default()));
                at
            });
            table.by_length[at].1.entry(prefix.addr).or_insert(next);
        }
        table
    }

    /// The route of the longest prefix that holds `to`.
    #[inline]
    pub fn next_hop(&self, to: Addr) -> Option<NextHop> {
        self.by_length.iter().find_map(|(length, hosts)| hosts.get(&Prefix::new(to, *length).addr).copied())
    }

    /// All routes, longest prefixes first.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, NextHop)> {
        self.by_length.iter().flat_map(|(length, hosts)| {
            hosts.iter().map(|(addr, next)| (Prefix { addr: *addr, length: *length }, *next))
        })
    }

    /// Routes in the table.
    pub fn len(&self) -> usize {
        self.by_length.iter().map(|(_, hosts)| hosts.len()).sum()
    }

    /// Whether there is no route at all.
    pub fn is_empty(&self) -> bool {
        self.by_length.is_empty()
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
    fn the_first_of_equal_routes_counts() {
        let hop = |port| NextHop { port: PortId(port), via: Addr::UNSPECIFIED };
        let prefix: Prefix = "10.0.0.0/8".parse().unwrap();
        let table = Routes::new([(prefix, hop(1)), (prefix, hop(2))]);
        assert_eq!(table.next_hop("10.1.1.1".parse().unwrap()), Some(hop(1)));
    }
}
