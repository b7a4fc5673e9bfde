//! Whom the kernel half knows on its links, and by which way packets go: the maps of neighbours, next hops and routes.

use super::{Maps, place, word64};
use crate::kernel::layout::{NEAR, NEAR_SIZE};
use crate::topology::NextHop;
use crate::wire::{Addr, Prefix};
use std::io;

impl Maps {
    /// Tells of a neighbour behind an interface, by its number; nothing: there is none.
    pub fn set_near(&self, addr: Addr, interface: u32, number: Option<u32>) -> io::Result<()> {
        let mut value = [0; NEAR_SIZE];
        value[..16].copy_from_slice(&addr.0);
        value[16..20].copy_from_slice(&interface.to_ne_bytes());
        value[20..24].copy_from_slice(&number.map_or(0, |number| number + 1).to_ne_bytes());
        self.set("near_map", place(addr, interface, NEAR), &value)
    }

    /// Whether a capsule of a neighbour behind an interface has come since this was asked last.
    pub fn take_heard(&self, addr: Addr, interface: u32) -> io::Result<bool> {
        let (map, key) = (self.of("near_map")?, place(addr, interface, NEAR).to_ne_bytes());
        let mut value = [0; NEAR_SIZE];
        map.get(&key, &mut value)?;
        let its = value[..16] == addr.0 && value[16..20] == interface.to_ne_bytes();
        let heard = its && value[24..28] != [0; 4];
        if heard {
            value[24..28].fill(0);
            map.set(&key, &value)?;
        }
        Ok(heard)
    }

    /// The neighbours that are known: address, interface, number.
    pub fn near(&self) -> io::Result<Vec<(Addr, u32, u32)>> {
        let map = self.of("near_map")?;
        let mut found = Vec::new();
        for place in 0..NEAR {
            let mut value = [0; NEAR_SIZE];
            map.get(&place.to_ne_bytes(), &mut value)?;
            let (mut addr, end) = ([0; 16], word64(&value, 16));
            addr.copy_from_slice(&value[..16]);
            let (interface, number) = (end as u32, (end >> 32) as u32);
            found.extend((number > 0).then(|| (Addr(addr), interface, number - 1)));
        }
        Ok(found)
    }

    /// Tells the address of the neighbour with this number.
    pub fn set_neighbour(&self, number: u32, addr: Addr) -> io::Result<()> {
        self.set("neighbours_map", number, &addr.0)
    }

    /// Tells of a route, or of an address of the node's own.
    pub fn set_route(&self, to: Prefix, next: Option<NextHop>) -> io::Result<()> {
        let mut value = [0; 24];
        match next {
            Some(next) => {
                value[..16].copy_from_slice(&next.via.0);
                value[16..20].copy_from_slice(&u32::from(next.port.0).to_ne_bytes());
            }
            None => value[20..].copy_from_slice(&1u32.to_ne_bytes()),
        }
        self.of("routes_map")?.set(&prefix(to), &value)
    }

    /// The prefixes of all routes and addresses that were told.
    pub fn prefixes(&self) -> io::Result<Vec<Prefix>> {
        let (map, mut found, mut last) = (self.of("routes_map")?, Vec::new(), None::<Vec<u8>>);
        while let Some(key) = map.next_key(last.as_deref())? {
            if let (Some(length), Some(addr)) = (key.first_chunk(), key[4..].first_chunk()) {
                found.push(Prefix { addr: Addr(*addr), length: u32::from_ne_bytes(*length) as u8 });
            }
            last = Some(key);
        }
        Ok(found)
    }

    /// Takes a route out.
    pub fn remove_route(&self, to: Prefix) -> io::Result<()> {
        self.of("routes_map")?.remove(&prefix(to))
    }
}

/// `struct prefix`.
fn prefix(to: Prefix) -> [u8; 20] {
    let mut key = [0; 20];
    key[..4].copy_from_slice(&u32::from(to.length).to_ne_bytes());
    key[4..].copy_from_slice(&to.addr.0);
    key
}
