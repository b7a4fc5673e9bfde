//! The maps that the kernel half and the node share: `bpf/contract.h` in Rust.

use crate::sys::bpf::{Map, MapKind};
use crate::topology::NextHop;
use crate::topology::neighbours::NEIGHBOURS_MAX;
use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Digest, Prefix};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Places for codes.
pub const CODES: u32 = 4096;
/// Programs of codes; number 0 is none.
pub const PROGRAMS: u32 = 1024;
/// Where a capsule header can stand in a frame: behind IPv4, behind UDP over it, behind IPv6. A code has
/// a program for each.
pub const OFFSETS: [u32; 3] = [42, 50, 62];
/// Interface indices.
pub const PORTS: u32 = 4096;
/// Places for neighbours.
const NEAR: u32 = 1024;
/// Routes.
const ROUTES: u32 = 65_536;
/// Places for destinations.
const NEXT_HOPS: u32 = 16384;

/// AF_XDP sockets of a node, and flows told apart at each.
pub const SOCKETS: u32 = 128;
const FLOWS: u32 = 256;

/// An interface as the kernel half sees it: `struct port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEntry {
    /// Its index.
    pub interface: u32,
    /// The port's number in the node.
    pub number: u32,
    /// Octets of the largest IP packet.
    pub mtu: u32,
    /// Its own link address: frames for others are left alone.
    pub mac: Mac,
    /// The node's IPv4 address on it, if it has one.
    pub v4: Option<Addr>,
    /// The node's IPv6 address on it, if it has one.
    pub v6: Option<Addr>,
}

/// What became of the packets of one code in the kernel half: `struct usage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KernelUsage {
    /// Packets its program ran on.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
    /// Sent on to a next hop.
    pub forwarded: u64,
    /// Given to the user half with a verdict.
    pub passed_up: u64,
    /// Dropped by the code.
    pub dropped_by_code: u64,
    /// Dropped for a verdict that does not exist.
    pub dropped_for_verdict: u64,
}

/// Capsules at the ingress: `struct counts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KernelCounts {
    /// Capsules seen, in the form that the kernel half handles.
    pub received: u64,
    /// Frames that pretended to come from the kernel half.
    pub dropped_forged: u64,
}

/// All maps.
#[derive(Debug)]
pub struct Maps {
    list: Vec<(&'static str, Map)>,
}

/// Name, kind, octets of key and value, entries.
const LAYOUT: [(&str, MapKind, usize, usize, u32); 17] = [
    ("node_map", MapKind::Array, 4, 40, 1),
    ("ports_map", MapKind::Array, 4, 56, PORTS),
    ("codes_map", MapKind::Array, 4, 64, CODES),
    ("near_map", MapKind::Array, 4, 24, NEAR),
    ("next_hops_map", MapKind::PerCpuArray, 4, 72, NEXT_HOPS),
    ("usage_map", MapKind::PerCpuArray, 4, 48, PROGRAMS),
    ("counts_map", MapKind::PerCpuArray, 4, 16, 1),
    ("current_map", MapKind::PerCpuArray, 4, 136, 1),
    ("act_map", MapKind::Programs, 4, 4, 1),
    ("programs_map", MapKind::Programs, 4, 4, PROGRAMS * OFFSETS.len() as u32),
    ("transmit_map", MapKind::Devices, 4, 4, PORTS),
    ("routes_map", MapKind::Prefixes, 20, 24, ROUTES),
    ("neighbours_map", MapKind::Array, 4, 16, NEIGHBOURS_MAX as u32),
    ("sockets_map", MapKind::Sockets, 4, 4, SOCKETS),
    ("punts_map", MapKind::SharedArray, 4, 128, SOCKETS),
    ("flows_map", MapKind::Array, 4, 16, SOCKETS * FLOWS),
    ("lifted_map", MapKind::PerCpuArray, 4, 32, PORTS),
];

impl Maps {
    /// Makes them.
    pub fn create() -> io::Result<Maps> {
        let make = |(name, kind, key, value, entries)| Ok((name, Map::create(kind, name, key, value, entries)?));
        let list = LAYOUT.into_iter().map(make).collect::<io::Result<_>>()?;
        Ok(Maps { list })
    }

    /// The descriptor of a map.
    pub fn descriptor(&self, name: &str) -> Option<i32> {
        self.list.iter().find(|(known, _)| *known == name).map(|(_, map)| map.as_fd().as_raw_fd())
    }

    /// Makes some of them.
    pub(super) fn create_some(names: &[&str]) -> io::Result<Maps> {
        let wanted = LAYOUT.into_iter().filter(|(name, ..)| names.contains(name));
        let make = |(name, kind, key, value, entries)| Ok((name, Map::create(kind, name, key, value, entries)?));
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
    pub fn set_node(&self, generation: u64, name: &[u8; 16], origin: u64, neighbours: u32) -> io::Result<()> {
        let mut value = [0; 40];
        value[..8].copy_from_slice(&generation.to_ne_bytes());
        value[8..24].copy_from_slice(name);
        value[24..32].copy_from_slice(&origin.to_ne_bytes());
        value[32..36].copy_from_slice(&neighbours.to_ne_bytes());
        self.set("node_map", 0, &value)
    }

    /// Tells of an interface, and lets capsules leave by it.
    pub fn set_port(&self, port: &PortEntry) -> io::Result<()> {
        let mut value = [0; 56];
        let words = [1, port.number, port.mtu];
        value[..12].copy_from_slice(&words.map(u32::to_ne_bytes).concat());
        value[12..18].copy_from_slice(&port.mac.0);
        value[24..40].copy_from_slice(&port.v4.map_or([0; 16], |addr| addr.0));
        value[40..].copy_from_slice(&port.v6.map_or([0; 16], |addr| addr.0));
        self.set("ports_map", port.interface, &value)?;
        self.set("transmit_map", port.interface, &port.interface.to_ne_bytes())
    }

    /// Tells of code, or with slot 0 that there is none at its place.
    pub fn set_code(&self, name: &Digest, slot: u32, window: u32) -> io::Result<()> {
        let mut value = [0; 64];
        value[..32].copy_from_slice(&name.0);
        value[32..36].copy_from_slice(&slot.to_ne_bytes());
        value[36..40].copy_from_slice(&window.to_ne_bytes());
        self.set("codes_map", code_place(name), &value)
    }

    /// Puts the programs of a code, one for each of [`OFFSETS`], into its slot.
    pub fn set_programs(&self, slot: u32, programs: &[impl AsFd]) -> io::Result<()> {
        for (form, program) in (0..).zip(programs) {
            self.set("programs_map", slot + form * PROGRAMS, &program.as_fd().as_raw_fd().to_ne_bytes())?;
        }
        Ok(())
    }

    /// Puts in the program that acts on verdicts.
    pub fn set_act(&self, program: &impl AsFd) -> io::Result<()> {
        self.set("act_map", 0, &program.as_fd().as_raw_fd().to_ne_bytes())
    }

    /// Empties a slot.
    pub fn remove_programs(&self, slot: u32) -> io::Result<()> {
        let map = self.of("programs_map")?;
        (0..OFFSETS.len() as u32).try_for_each(|form| map.remove(&(slot + form * PROGRAMS).to_ne_bytes()))
    }

    /// Tells of a neighbour behind an interface, by its number; nothing: there is none.
    pub fn set_near(&self, addr: Addr, interface: u32, number: Option<u32>) -> io::Result<()> {
        let mut value = [0; 24];
        value[..16].copy_from_slice(&addr.0);
        value[16..20].copy_from_slice(&interface.to_ne_bytes());
        value[20..].copy_from_slice(&number.map_or(0, |number| number + 1).to_ne_bytes());
        self.set("near_map", place(addr, interface, NEAR), &value)
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

    /// Takes a route out.
    pub fn remove_route(&self, to: Prefix) -> io::Result<()> {
        self.of("routes_map")?.remove(&prefix(to))
    }

    /// What became of the packets of the code in a slot.
    pub fn usage(&self, slot: u32) -> io::Result<KernelUsage> {
        let [packets, bytes, forwarded, passed_up, dropped_by_code, dropped_for_verdict] =
            self.sums("usage_map", slot)?;
        Ok(KernelUsage { packets, bytes, forwarded, passed_up, dropped_by_code, dropped_for_verdict })
    }

    /// Forgets what became of the packets of the code in a slot.
    pub fn clear_usage(&self, slot: u32) -> io::Result<()> {
        let map = self.of("usage_map")?;
        map.set(&slot.to_ne_bytes(), &vec![0; map.value_size()])
    }

    /// Capsules at the ingress.
    pub fn counts(&self) -> io::Result<KernelCounts> {
        let [received, dropped_forged] = self.sums("counts_map", 0)?;
        Ok(KernelCounts { received, dropped_forged })
    }

    /// The counters of an entry, over all CPUs.
    pub(super) fn sums<const COUNT: usize>(&self, name: &str, key: u32) -> io::Result<[u64; COUNT]> {
        let map = self.of(name)?;
        let mut value = vec![0; map.value_size()];
        map.get(&key.to_ne_bytes(), &mut value)?;
        let mut sums = [0u64; COUNT];
        for cpu in value.chunks_exact(8 * COUNT) {
            for (sum, word) in sums.iter_mut().zip(cpu.as_chunks::<8>().0) {
                *sum += u64::from_ne_bytes(*word);
            }
        }
        Ok(sums)
    }
}

/// `struct prefix`.
fn prefix(to: Prefix) -> [u8; 20] {
    let mut key = [0; 20];
    key[..4].copy_from_slice(&u32::from(to.length).to_ne_bytes());
    key[4..].copy_from_slice(&to.addr.0);
    key
}

/// Where a code stands.
pub fn code_place(name: &Digest) -> u32 {
    let [a, b, ..] = name.0;
    u32::from(u16::from_le_bytes([a, b])) & (CODES - 1)
}

/// `place` of bpf/wire.h.
fn place(addr: Addr, seed: u32, entries: u32) -> u32 {
    let half = |at: usize| addr.0[at..].first_chunk().map_or(0, |octets| u64::from_ne_bytes(*octets));
    let mixed = (half(0) ^ half(8) ^ u64::from(seed)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as u32 & (entries - 1)
}
