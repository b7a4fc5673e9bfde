//! The maps shared by the kernel half and the node, by name (`bpf/contract.h`): reading, writing, removing entries.

mod usage;
mod ways;

use super::layout::{BUDGETS, DEVICES, LAYOUT, RAISE, SETS_OF_LINKS, TRANSMIT, cached_flows, layout, records};
use super::own;
use crate::contract::{ACT, CODES, FAMILY, FOUND, KEPT, KEPT_NOW, LATER, LEARN, PROBES, code, node, port};
use crate::sys::bpf::{Map, MapShape, possible_cpus};
use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Digest};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

pub use usage::{KernelCounts, KernelUsage};
pub(super) use usage::{LOOKS, RATE_MAX, budget};

/// Version of the contract: raised when a map comes to mean something else and keeps its shape.
pub(super) const VERSION: u32 = 9;

// The structures of maps that outlive a process, as this version has them: what an older one has left must not be taken for the same.
const _: () = assert!(KEPT == 0xda83_0855_ba35_91c9, "{}", KEPT_NOW);

/// An interface as the kernel half sees it: `struct port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEntry {
    /// Its index.
    pub interface: u32,
    /// The port's number in the node.
    pub number: u32,
    /// Bytes of the largest IP packet.
    pub mtu: u32,
    /// Bytes of the largest IP packet that arrives when it is redirected there; 0: none does.
    pub redirected: u32,
    /// Its own link address: frames for others are left alone.
    pub mac: Mac,
    /// The most that a resource bound counts for that comes in by it and is of no signed code; capsules with a larger one go up.
    pub bound_max: u32,
    /// The node's IPv4 address on it, if it has one.
    pub v4: Option<Addr>,
    /// The node's IPv6 address on it, if it has one.
    pub v6: Option<Addr>,
}

/// A code as the kernel half knows it: `struct code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeEntry {
    /// Its name.
    pub name: Digest,
    /// Where it stands in the map.
    pub place: u32,
    /// Its slot.
    pub slot: u32,
    /// Payload bytes in its window.
    pub window: u16,
    /// A digest of its program as it was linked.
    pub made_of: [u8; 24],
}

/// All maps.
#[derive(Debug)]
pub struct Maps {
    list: Vec<(&'static str, Map)>,
}

/// What a map says of a node: the beginning of `struct node`, which is the same in all versions of the contract.
#[derive(Clone, Copy, Debug)]
pub(super) struct SaidOfNode {
    pub version: u32,
    pub generation: u64,
    /// When its clock began, in nanoseconds of the system's monotonic clock.
    pub origin: u64,
    pub neighbours: u32,
}

/// Reads it.
pub(super) fn said_of_node(map: &Map) -> io::Result<SaidOfNode> {
    const {
        let places = [node::GENERATION.at(), node::ORIGIN.at(), node::NEIGHBOURS.at(), node::VERSION.at()];
        assert!(matches!(places, [0, 24, 32, 36]), "the beginning of struct node is the same in all versions");
    }
    let mut value = [0; node::SIZE];
    map.get(&[0; 4], &mut value)?;
    Ok(SaidOfNode {
        version: u32::from_ne_bytes(node::VERSION.of(&value)),
        generation: u64::from_ne_bytes(node::GENERATION.of(&value)),
        origin: u64::from_ne_bytes(node::ORIGIN.of(&value)),
        neighbours: u32::from_ne_bytes(node::NEIGHBOURS.of(&value)),
    })
}

impl Maps {
    /// Makes them.
    pub fn create() -> io::Result<Maps> {
        Ok(Maps { list: layout()?.map(make).collect::<io::Result<_>>()? })
    }

    /// Makes these.
    pub(super) fn create_all(layout: &[(&'static str, MapShape)]) -> io::Result<Maps> {
        Ok(Maps { list: layout.iter().copied().map(make).collect::<io::Result<_>>()? })
    }

    /// Takes those that are there already, if all are and have the shape that this program gives them; the one that is
    /// of this process alone is made.
    pub fn adopt(mut find: impl FnMut(&str) -> io::Result<OwnedFd>) -> io::Result<Maps> {
        let take = |(name, shape)| {
            if name == RAISE {
                return Ok((name, own::map(name, shape)?));
            }
            let map = Map::adopt(find(name)?, shape)?;
            Ok((name, if name == BUDGETS { map.locked() } else { map }))
        };
        Ok(Maps { list: layout()?.map(take).collect::<io::Result<_>>()? })
    }

    /// Those that outlive the process, with their names.
    pub fn lasting(&self) -> impl Iterator<Item = (&'static str, &Map)> {
        self.list.iter().filter(|(name, _)| *name != RAISE).map(|(name, map)| (*name, map))
    }

    /// From now on what is the node's goes up the Linux stack by this program, as long as this process lives.
    pub fn set_raise(&self, program: &impl AsFd) -> io::Result<()> {
        self.set(RAISE, 0, &program.as_fd().as_raw_fd().to_ne_bytes())
    }

    /// From now on nothing goes up by that way.
    pub fn clear_raise(&self) -> io::Result<()> {
        remove_known(self.of(RAISE)?, 0)
    }

    /// The descriptor of a map.
    pub fn descriptor(&self, name: &str) -> io::Result<BorrowedFd<'_>> {
        self.of(name).map(AsFd::as_fd)
    }

    /// Makes some of them.
    pub(super) fn create_some(names: &[&str]) -> io::Result<Maps> {
        let wanted = LAYOUT.into_iter().filter(|(name, ..)| names.contains(name));
        let make = |(name, shape)| Ok((name, own::map(name, shape)?));
        Ok(Maps { list: wanted.map(make).collect::<io::Result<_>>()? })
    }

    pub(super) fn of(&self, name: &str) -> io::Result<&Map> {
        let found = self.list.iter().find(|(known, _)| *known == name).map(|(_, map)| map);
        found.ok_or_else(|| io::Error::other(format!("no map {name}")))
    }

    fn set(&self, name: &str, key: u32, words: &[u8]) -> io::Result<()> {
        self.of(name)?.set(&key.to_ne_bytes(), words)
    }

    /// Tells what the node is, and that what was found out of routes so far is not to be believed.
    pub fn set_node(
        &self,
        generation: u64,
        name: &[u8; 16],
        origin: u64,
        neighbours: u32,
        ruled: bool,
        permille: u32,
    ) -> io::Result<()> {
        let mut value = [0; node::SIZE];
        node::GENERATION.put(&mut value, generation.to_ne_bytes());
        node::NAME.put(&mut value, *name);
        node::ORIGIN.put(&mut value, origin.to_ne_bytes());
        node::NEIGHBOURS.put(&mut value, neighbours.to_ne_bytes());
        node::VERSION.put(&mut value, VERSION.to_ne_bytes());
        node::CACHED_FLOWS.put(&mut value, cached_flows()?.to_ne_bytes());
        node::RECORDS.put(&mut value, records()?.to_ne_bytes());
        node::RULED.put(&mut value, u32::from(ruled).to_ne_bytes());
        node::PERMILLE.put(&mut value, permille.to_ne_bytes());
        self.set("node_map", 0, &value)
    }

    /// What the node was said to be under this version of the contract: generation, when its clock began, neighbours.
    pub fn node(&self) -> io::Result<Option<(u64, u64, u32)>> {
        let said = said_of_node(self.of("node_map")?)?;
        Ok((said.version == VERSION).then_some((said.generation, said.origin, said.neighbours)))
    }

    /// Tells of an interface; says whether frames that come in by it can be copied.
    pub fn set_port(&self, entry: &PortEntry, copies: bool) -> io::Result<()> {
        let mut value = port_value(entry);
        port::COPIES.put(&mut value, u16::from(copies).to_ne_bytes());
        self.set("ports_map", entry.interface, &value)
    }

    /// The number of the port that an interface was said to be, if it was.
    pub fn port_number(&self, interface: u32) -> io::Result<Option<u32>> {
        let mut value = [0; port::SIZE];
        self.of("ports_map")?.get(&interface.to_ne_bytes(), &mut value)?;
        let is_present = port::PRESENT.of(&value) != [0; 4];
        Ok(is_present.then_some(u32::from_ne_bytes(port::NUMBER.of(&value))))
    }

    /// Lets capsules leave by an interface, behind a program if there is to be one.
    pub fn set_way_out(&self, interface: u32, behind: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.set(TRANSMIT, interface, &device(interface, behind))
    }

    /// Waits until every program that runs now has ended and its frames have left: the kernel does so when it changes a map
    /// of maps.
    pub fn wait(&self) -> io::Result<()> {
        let (map, key) = (self.of(SETS_OF_LINKS)?, u64::MAX.to_ne_bytes());
        map.set(&key, &devices(1)?.as_fd().as_raw_fd().to_ne_bytes())?;
        map.remove(&key)
    }

    /// Tells what has changed of an interface that was told of; its sockets stay.
    pub fn change_port(&self, entry: &PortEntry) -> io::Result<()> {
        let mut before = [0; port::SIZE];
        self.of("ports_map")?.get(&entry.interface.to_ne_bytes(), &mut before)?;
        let mut value = port_value(entry);
        port::SOCKETS.put(&mut value, port::SOCKETS.of(&before));
        port::FIRST_SOCKET.put(&mut value, port::FIRST_SOCKET.of(&before));
        port::COPIES.put(&mut value, port::COPIES.of(&before));
        self.set("ports_map", entry.interface, &value)
    }

    /// Takes an interface out again.
    pub fn remove_port(&self, interface: u32) -> io::Result<()> {
        self.set("ports_map", interface, &[0; port::SIZE])?;
        remove_known(self.of(TRANSMIT)?, interface)
    }

    /// Tells which code, if any, runs at a place, and how many stand behind it because it was taken.
    pub fn set_code(&self, place: u32, entry: Option<&CodeEntry>, passed: u16) -> io::Result<()> {
        let mut value = [0; code::SIZE];
        if let Some(entry) = entry {
            code::NAME.put(&mut value, entry.name.0);
            code::SLOT.put(&mut value, entry.slot.to_ne_bytes());
            code::WINDOW.put(&mut value, entry.window.to_ne_bytes());
            code::MADE_OF.put(&mut value, entry.made_of);
        }
        code::PASSED.put(&mut value, passed.to_ne_bytes());
        self.set("codes_map", place, &value)
    }

    /// All codes that run.
    pub fn codes(&self) -> io::Result<Vec<CodeEntry>> {
        let map = self.of("codes_map")?;
        let mut found = Vec::new();
        for place in 0..CODES {
            let mut value = [0; code::SIZE];
            map.get(&place.to_ne_bytes(), &mut value)?;
            let (slot, window) =
                (u32::from_ne_bytes(code::SLOT.of(&value)), u16::from_ne_bytes(code::WINDOW.of(&value)));
            let (name, made_of) = (Digest(code::NAME.of(&value)), code::MADE_OF.of(&value));
            found.extend((slot > 0).then_some(CodeEntry { name, place, slot, window, made_of }));
        }
        Ok(found)
    }

    /// Puts the program of a code into its slot.
    pub fn set_program(&self, slot: u32, program: &impl AsFd) -> io::Result<()> {
        self.set("programs_map", slot, &program.as_fd().as_raw_fd().to_ne_bytes())
    }

    /// Puts in the programs that others jump to: what looks closely, what acts on verdicts, what acts on children, what comes before them.
    pub fn set_stations(&self, programs: &[impl AsFd; 4]) -> io::Result<()> {
        let places = [LEARN, ACT, FAMILY, LATER];
        let each = places.into_iter().zip(programs).map(|(at, program)| (at, program.as_fd().as_raw_fd()));
        each.into_iter().try_for_each(|(at, program)| self.set("stations_map", at, &program.to_ne_bytes()))
    }

    /// Opens the way to programs that were found at interfaces.
    pub fn set_way_to_found(&self, program: &impl AsFd) -> io::Result<()> {
        self.set("stations_map", FOUND, &program.as_fd().as_raw_fd().to_ne_bytes())
    }

    /// Jumps to this program with what is not the node's of an interface.
    pub fn set_found(&self, interface: u32, program: &impl AsFd) -> io::Result<()> {
        self.set("found_map", interface, &program.as_fd().as_raw_fd().to_ne_bytes())
    }

    /// Empties a slot.
    pub fn remove_program(&self, slot: u32) -> io::Result<()> {
        remove_known(self.of("programs_map")?, slot)
    }

    /// The first counters of an entry, over all CPUs.
    pub(super) fn sums<const COUNT: usize>(&self, name: &str, key: u32) -> io::Result<[u64; COUNT]> {
        sums(self.of(name)?, key)
    }
}

fn make((name, shape): (&'static str, MapShape)) -> io::Result<(&'static str, Map)> {
    Ok((name, own::map(name, shape)?))
}

/// The first counters of an entry of a map, over all CPUs.
pub(super) fn sums<const COUNT: usize>(map: &Map, key: u32) -> io::Result<[u64; COUNT]> {
    let mut value = vec![0; map.value_size()];
    map.get(&key.to_ne_bytes(), &mut value)?;
    let mut sums = [0u64; COUNT];
    for cpu in value.chunks_exact(map.value_size() / possible_cpus()?) {
        for (sum, word) in sums.iter_mut().zip(cpu.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    Ok(sums)
}

/// `struct port`, without sockets.
fn port_value(entry: &PortEntry) -> [u8; port::SIZE] {
    let mut value = [0; port::SIZE];
    port::PRESENT.put(&mut value, 1u32.to_ne_bytes());
    port::NUMBER.put(&mut value, entry.number.to_ne_bytes());
    port::MTU.put(&mut value, entry.mtu.min(entry.redirected).to_ne_bytes());
    let [a, b, c, d, e, f] = entry.mac.0;
    port::MAC.put(&mut value, [a, b, c, d]);
    port::MAC_END.put(&mut value, [e, f]);
    port::V4.put(&mut value, entry.v4.map_or([0; 16], |addr| addr.0));
    port::V6.put(&mut value, entry.v6.map_or([0; 16], |addr| addr.0));
    port::BOUND_MAX.put(&mut value, entry.bound_max.to_ne_bytes());
    value
}

/// Takes an entry out, if it is there.
fn remove_known(map: &Map, key: u32) -> io::Result<()> {
    match map.remove(&key.to_ne_bytes()) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        done => done,
    }
}

fn word64(value: &[u8], at: usize) -> u64 {
    value[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// The places where a code can stand, best first.
pub fn code_places(name: &Digest) -> impl Iterator<Item = u32> + use<> {
    let [a, b, ..] = name.0;
    let home = u32::from(u16::from_le_bytes([a, b]));
    (home..home + PROBES).map(|place| place & (CODES - 1))
}

/// `place` of bpf/wire.h.
pub(super) fn place(addr: Addr, seed: u32, entries: u32) -> u32 {
    let mixed = (word64(&addr.0, 0) ^ word64(&addr.0, 8) ^ u64::from(seed)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - entries.ilog2())) as u32
}

/// A map of interfaces.
fn devices(entries: u32) -> io::Result<Map> {
    own::map(own::LINKS, MapShape { entries, ..DEVICES })
}

/// An entry of one.
fn device(interface: u32, behind: Option<BorrowedFd<'_>>) -> [u8; 8] {
    // 0 is no program: it is the descriptor of this process's input.
    let behind = behind.map_or(0, |program| program.as_raw_fd());
    let mut value = [0; 8];
    value[..4].copy_from_slice(&interface.to_ne_bytes());
    value[4..].copy_from_slice(&behind.to_ne_bytes());
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{NEIGHBOUR_PLACES, NEXT_HOPS};

    #[test]
    fn hosts_of_one_network_have_places_of_their_own() {
        let networks = [Addr::v4([10, 0, 1, 0]), Addr([0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])];
        for (network, entries) in networks.into_iter().zip([NEIGHBOUR_PLACES, NEXT_HOPS]) {
            let mut places: Vec<u32> = (0..=255)
                .map(|host| {
                    let mut addr = network;
                    addr.0[15] = host;
                    place(addr, 3, entries)
                })
                .collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), 256);
            assert!(places.iter().all(|place| *place < entries));
        }
    }
}
