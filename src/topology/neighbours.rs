//! Neighbours and ports, as the node knows them.
//!
//! A *neighbour* is an active node that can be reached without another active node between: on an
//! overlay port a configured peer, on an Ethernet port a configured address or one that has shown
//! itself by a capsule from the port's own subnet. Code is fetched from neighbours and served to
//! neighbours only.

use crate::port::{PeerId, PortId};
use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Prefix};

/// Neighbours one node knows; more are not learned.
pub const NEIGHBOURS_MAX: usize = 256;

/// What kind of link a port has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Frames are Ethernet frames; IP addresses are resolved by ARP and neighbour discovery.
    Ethernet {
        /// The port's own hardware address.
        mac: Mac,
        /// Whether the node itself answers ARP and neighbour solicitations for its addresses; on an
        /// interface of the host, the Linux stack does.
        answers: bool,
    },
    /// Frames are ANEP packets between configured peers.
    Overlay,
}

/// A port of the node.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name: that of the interface, or one from the configuration.
    pub name: String,
    /// Its kind of link.
    pub link: Link,
    /// The node's addresses on it, each with the subnet it is in.
    pub addresses: Vec<(Addr, Prefix)>,
    /// Octets of the largest IP packet (Ethernet) or ANEP packet (overlay) it carries.
    pub mtu: usize,
    /// Its capacity in bits a second, 0 when unknown.
    pub bits_per_second: u64,
}

impl Port {
    /// The node's address on this port that `peer` can answer to: of its family, and link-local only
    /// if `peer` is; any address if there is none such.
    #[inline]
    pub fn address_towards(&self, peer: Addr) -> Addr {
        let fits = |addr: &Addr| addr.is_v4() == peer.is_v4() && addr.is_link_local() == peer.is_link_local();
        let mut own = self.addresses.iter().map(|(addr, _)| *addr);
        let first = self.addresses.first().map_or(Addr::UNSPECIFIED, |(addr, _)| *addr);
        own.find(fits).unwrap_or(first)
    }

    /// Whether `addr` is in a subnet of the port.
    pub fn on_link(&self, addr: Addr) -> bool {
        self.addresses.iter().any(|(own, subnet)| subnet.contains(addr) && *own != addr)
    }
}

/// An active node next to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub addr: Addr,
    /// The port towards it.
    pub port: PortId,
    /// Which peer of an overlay port it is.
    pub peer: PeerId,
}

/// The neighbours of a node, in the order they became known. Positions never change, so mobile code
/// can name a neighbour by its index.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    list: Vec<Neighbour>,
}

impl Neighbours {
    /// Adds one unless it is known or the table is full; gives its index.
    pub fn add(&mut self, neighbour: Neighbour) -> Option<u32> {
        if let Some(index) = self.index(neighbour.port, neighbour.addr) {
            return Some(index);
        }
        if self.list.len() >= NEIGHBOURS_MAX {
            return None;
        }
        self.list.push(neighbour);
        Some(self.list.len() as u32 - 1)
    }

    /// The index of the neighbour with this address on this port.
    #[inline]
    pub fn index(&self, port: PortId, addr: Addr) -> Option<u32> {
        self.list.iter().position(|known| known.port == port && known.addr == addr).map(|at| at as u32)
    }

    /// The neighbour behind an overlay peer.
    #[inline]
    pub fn of_peer(&self, port: PortId, peer: PeerId) -> Option<(u32, &Neighbour)> {
        let at = self.list.iter().position(|known| known.port == port && known.peer == peer)?;
        Some((at as u32, &self.list[at]))
    }

    /// The neighbour with this index.
    pub fn of(&self, index: u32) -> Option<&Neighbour> {
        self.list.get(index as usize)
    }

    /// All neighbours.
    pub fn iter(&self) -> core::slice::Iter<'_, Neighbour> {
        self.list.iter()
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_stable_and_bounded() {
        let mut neighbours = Neighbours::default();
        let at = |n: u32| Neighbour { addr: Addr(u128::from(n).to_be_bytes()), port: PortId(0), peer: PeerId::NONE };
        for n in 0..NEIGHBOURS_MAX as u32 {
            assert_eq!(neighbours.add(at(n)), Some(n));
        }
        assert_eq!(neighbours.add(at(9999)), None);
        assert_eq!(neighbours.add(at(3)), Some(3));
        assert_eq!(neighbours.len(), NEIGHBOURS_MAX);
    }

    #[test]
    fn the_own_address_has_the_family_of_the_peer() {
        let addr = |text: &str| text.parse::<Addr>().unwrap();
        let port = Port {
            name: "p".into(),
            link: Link::Overlay,
            addresses: vec![
                (addr("10.0.0.1"), "10.0.0.0/24".parse().unwrap()),
                (addr("2001:db8::1"), "2001:db8::/64".parse().unwrap()),
            ],
            mtu: 1500,
            bits_per_second: 0,
        };
        assert_eq!(port.address_towards(addr("2001:db8::9")), addr("2001:db8::1"));
        assert_eq!(port.address_towards(addr("192.0.2.1")), addr("10.0.0.1"));
        assert!(port.on_link(addr("10.0.0.7")) && !port.on_link(addr("10.0.1.7")));
        assert!(!port.on_link(addr("10.0.0.1")), "the own address is no neighbour");
    }
}
