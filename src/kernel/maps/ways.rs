//! The kernel half's maps of neighbours, next hops and routes, and of the links that copies leave by.

use super::{Maps, SETS_OF_LINKS, device, devices, place, word64};
use crate::contract::{self, NEIGHBOUR_PLACES, neighbour, route};
use crate::frame::PortId;
use crate::sys::bpf::Map;
use crate::topology::{Leads, NextHop};
use crate::wire::{Addr, Prefix};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

impl Maps {
    /// Tells of a neighbour behind an interface, by its number; nothing: there is none.
    pub fn set_neighbour_place(&self, addr: Addr, interface: u32, number: Option<u32>) -> io::Result<()> {
        let mut value = [0; neighbour::SIZE];
        neighbour::ADDR.put(&mut value, addr.0);
        neighbour::INTERFACE.put(&mut value, interface.to_ne_bytes());
        neighbour::NUMBER.put(&mut value, number.map_or(0, |number| number + 1).to_ne_bytes());
        self.set("neighbour_places_map", place(addr, interface, NEIGHBOUR_PLACES), &value)
    }

    /// Whether a capsule of a neighbour behind an interface has come since this was asked last.
    pub fn take_heard(&self, addr: Addr, interface: u32) -> io::Result<bool> {
        let (map, key) = (self.of("neighbour_places_map")?, place(addr, interface, NEIGHBOUR_PLACES).to_ne_bytes());
        let mut value = [0; neighbour::SIZE];
        map.get(&key, &mut value)?;
        let its = neighbour::ADDR.of(&value) == addr.0 && neighbour::INTERFACE.of(&value) == interface.to_ne_bytes();
        let heard = its && neighbour::HEARD.of(&value) != [0; 4];
        if heard {
            neighbour::HEARD.put(&mut value, [0; 4]);
            map.set(&key, &value)?;
        }
        Ok(heard)
    }

    /// The neighbours that are known: address, interface, number.
    pub fn neighbours(&self) -> io::Result<Vec<(Addr, u32, u32)>> {
        let map = self.of("neighbour_places_map")?;
        let mut found = Vec::new();
        for place in 0..NEIGHBOUR_PLACES {
            let mut value = [0; neighbour::SIZE];
            map.get(&place.to_ne_bytes(), &mut value)?;
            let (interface, number) =
                (u32::from_ne_bytes(neighbour::INTERFACE.of(&value)), u32::from_ne_bytes(neighbour::NUMBER.of(&value)));
            found.extend((number > 0).then(|| (Addr(neighbour::ADDR.of(&value)), interface, number - 1)));
        }
        Ok(found)
    }

    /// Tells the address of the neighbour with this number.
    pub fn set_neighbour(&self, number: u32, addr: Addr) -> io::Result<()> {
        self.set("neighbours_map", number, &addr.0)
    }

    /// Tells of a route.
    pub fn set_route(&self, to: Prefix, leads: Leads) -> io::Result<()> {
        let mut value = [0; route::SIZE];
        route::VIA.put(&mut value, leads.map_or([0; 16], |next| next.via.0));
        let port = leads.map_or(contract::NOWHERE, |next| next.port.0.into());
        route::PORT.put(&mut value, port.to_ne_bytes());
        self.of("routes_map")?.set(&prefix(to), &value)
    }

    /// Tells of an address of the node's own.
    pub fn set_own(&self, addr: Addr) -> io::Result<()> {
        let mut value = [0; route::SIZE];
        route::HERE.put(&mut value, 1u32.to_ne_bytes());
        self.of("routes_map")?.set(&prefix(Prefix::host(addr)), &value)
    }

    /// Where the route to an address leads.
    pub fn route_to(&self, to: Addr) -> io::Result<Leads> {
        let mut value = [0; route::SIZE];
        match self.of("routes_map")?.get(&prefix(Prefix::host(to)), &mut value) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            done => done?,
        }
        let [here, port] = [route::HERE.of(&value), route::PORT.of(&value)].map(u32::from_ne_bytes);
        let leads = here == 0 && port != contract::NOWHERE;
        Ok(leads.then(|| NextHop { port: PortId(port as u16), via: Addr(route::VIA.of(&value)) }))
    }

    /// The prefixes of all routes and addresses that were told.
    pub fn prefixes(&self) -> io::Result<Vec<Prefix>> {
        let (map, mut found, mut last) = (self.of("routes_map")?, Vec::new(), None::<Vec<u8>>);
        while let Some(key) = map.next_key(last.as_deref())? {
            if let Some(key) = key.first_chunk::<{ contract::prefix::SIZE }>() {
                let (length, addr) = (contract::prefix::LENGTH.of(key), contract::prefix::ADDR.of(key));
                found.push(Prefix { addr: Addr(addr), length: u32::from_ne_bytes(length) as u8 });
            }
            last = Some(key);
        }
        Ok(found)
    }

    /// Takes a route out.
    pub fn remove_route(&self, to: Prefix) -> io::Result<()> {
        match self.of("routes_map")?.remove(&prefix(to)) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            done => done,
        }
    }

    /// Makes a set of links that copies leave by: those of these interfaces, one or more times each, all behind a program.
    pub fn set_links(&self, name: u64, interfaces: &[u32], behind: BorrowedFd<'_>) -> io::Result<Map> {
        let set = devices(interfaces.len() as u32)?;
        Maps::fill_links(&set, interfaces, behind)?;
        self.of(SETS_OF_LINKS)?.set(&name.to_ne_bytes(), &set.as_fd().as_raw_fd().to_ne_bytes())?;
        Ok(set)
    }

    /// Puts a program behind all links of a set, one after the other.
    pub fn fill_links(set: &Map, interfaces: &[u32], behind: BorrowedFd<'_>) -> io::Result<()> {
        let mut each = (0u32..).zip(interfaces);
        each.try_for_each(|(at, interface)| set.set(&at.to_ne_bytes(), &device(*interface, Some(behind))))
    }

    /// Takes a set of links away.
    pub fn remove_links(&self, name: u64) -> io::Result<()> {
        match self.of(SETS_OF_LINKS)?.remove(&name.to_ne_bytes()) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            done => done,
        }
    }

    /// The names of all sets of links.
    pub fn links(&self) -> io::Result<Vec<u64>> {
        let (map, mut found, mut last) = (self.of(SETS_OF_LINKS)?, Vec::new(), None::<Vec<u8>>);
        while let Some(key) = map.next_key(last.as_deref())? {
            found.push(word64(&key, 0));
            last = Some(key);
        }
        Ok(found)
    }
}

/// `struct prefix`.
fn prefix(to: Prefix) -> [u8; contract::prefix::SIZE] {
    let mut key = [0; contract::prefix::SIZE];
    contract::prefix::LENGTH.put(&mut key, u32::from(to.length).to_ne_bytes());
    contract::prefix::ADDR.put(&mut key, to.addr.0);
    key
}
