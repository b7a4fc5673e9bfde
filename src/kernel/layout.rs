//! Name and shape of the maps that the kernel half and the node share (`bpf/contract.h`, `bpf/sockets.h`).

use crate::sys::bpf::{MapKind, MapShape, possible_cpus};
use crate::topology::neighbours::NEIGHBOURS_MAX;
use std::io;

/// Places for codes.
pub const CODES: u32 = 4096;
/// Places where a code can stand.
pub const PROBES: u32 = 16;
/// Programs of codes; number 0 is none.
pub const PROGRAMS: u32 = 1024;
/// Interface indices.
pub const PORTS: u32 = 4096;
/// Places for neighbours.
pub const NEAR: u32 = 1024;
/// Routes.
const ROUTES: u32 = 65_536;
/// Places for destinations.
pub const NEXT_HOPS: u32 = 8192;
/// Places for known flows: for each CPU at most, and octets for all CPUs at most.
const KNOWN: u32 = 32768;
const KNOWN_OCTETS: usize = 64 << 20;

/// Octets of `struct port`, `struct near` and `struct known`.
pub const PORT_SIZE: usize = 64;
pub const NEAR_SIZE: usize = 48;
const KNOWN_SIZE: usize = 64;

/// AF_XDP sockets of a node, and flows told apart at each.
pub const SOCKETS: u32 = 128;
pub const FLOWS: u32 = 256;

/// Records of what code has sent: for each CPU at most, and octets for all CPUs at most.
const RECORDS: u32 = 128;
const RECORDS_SIZE: usize = 32 << 20;
/// Children of a packet, and it itself; lines for the log.
pub const CHILDREN: u32 = 16;
pub const SENDS: u32 = CHILDREN + 1;
pub const LINES: u32 = 4;
/// Octets of `struct record`, `struct send` and `struct line`.
pub const RECORD: usize = 80;
pub const SEND: usize = 584;
pub const LINE: usize = 16;
/// Bits for each link in the name of a set of them, and links.
pub const LINK_BITS: u32 = 6;
pub const LINKS: u32 = 10;
/// Sets of links that copies leave by.
pub const SETS: u32 = 256;

/// The map of what each half has spent, shared with the programs.
pub const ACCOUNTS: &str = "accounts_map";

/// The map whose values have a lock, and their octets.
pub const BUDGETS: &str = "budgets_map";
pub const BUDGET: usize = 72;
/// Where a budget says how long one packet can take, a `u32` of nanoseconds.
pub const BUDGET_MOST: core::ops::Range<usize> = 12..16;

/// Octets of `struct node`.
pub const NODE: usize = 56;

/// The map that says by its content whether a process listens: never pinned, so the kernel empties it when the process is gone.
pub const RAISE: &str = "raise_map";

/// Maps with a part for each CPU, whose entries begin where cache lines do, as those of the kernel's own kind need not.
const KNOWN_FLOWS: &str = "known_map";
pub const USAGE: &str = "usage_map";
pub const CEILINGS_MAP: &str = "ceilings_map";

/// Ports with ceilings of their own; others share one with the port so many numbers before.
pub const CEILINGS: u32 = 64;

/// The interfaces that packets leave by, and maps of those that copies leave by: each entry an interface and a program behind it.
pub const TRANSMIT: &str = "transmit_map";
pub const SETS_OF_LINKS: &str = "links_map";
pub const DEVICES: MapShape = shape(MapKind::Devices, 4, 8, PORTS);

/// Name and shape of each; of those for children the part of one record.
pub const LAYOUT: [(&str, MapShape); 28] = [
    ("node_map", shape(MapKind::Array, 4, NODE, 1)),
    ("zero_map", shape(MapKind::Array, 4, 4, 1)),
    ("ports_map", shape(MapKind::Array, 4, PORT_SIZE, PORTS)),
    ("codes_map", shape(MapKind::SharedArray, 4, 64, CODES)),
    ("near_map", shape(MapKind::Array, 4, NEAR_SIZE, NEAR)),
    ("next_hops_map", shape(MapKind::PerCpuArray, 4, 64, NEXT_HOPS)),
    (KNOWN_FLOWS, shape(MapKind::SharedArray, 4, KNOWN_SIZE, 0)),
    (USAGE, shape(MapKind::SharedArray, 4, 64, PROGRAMS)),
    (BUDGETS, shape(MapKind::Array, 4, BUDGET, PROGRAMS)),
    (ACCOUNTS, shape(MapKind::SharedArray, 4, 128, PROGRAMS)),
    (CEILINGS_MAP, shape(MapKind::SharedArray, 4, 64, CEILINGS)),
    ("current_map", shape(MapKind::PerCpuArray, 4, 128, 1)),
    ("stations_map", shape(MapKind::Programs, 4, 4, 4)),
    ("programs_map", shape(MapKind::Programs, 4, 4, PROGRAMS)),
    (TRANSMIT, DEVICES),
    (SETS_OF_LINKS, shape(MapKind::Sets, 8, 4, SETS)),
    ("records_map", shape(MapKind::SharedArray, 4, RECORD, 1)),
    ("sends_map", shape(MapKind::SharedArray, 4, SEND, SENDS)),
    ("lines_map", shape(MapKind::SharedArray, 4, LINE, LINES)),
    ("window_map", shape(MapKind::PerCpuArray, 4, 592, 1)),
    ("broods_map", shape(MapKind::PerCpuArray, 4, 64, PROGRAMS)),
    ("routes_map", shape(MapKind::Prefixes, 20, 24, ROUTES)),
    ("neighbours_map", shape(MapKind::Array, 4, 16, NEIGHBOURS_MAX as u32)),
    ("sockets_map", shape(MapKind::Sockets, 4, 4, SOCKETS)),
    ("punts_map", shape(MapKind::SharedArray, 4, 128, SOCKETS)),
    ("flows_map", shape(MapKind::Array, 4, 16, SOCKETS * FLOWS)),
    ("lifted_map", shape(MapKind::PerCpuArray, 4, 40, PORTS)),
    (RAISE, shape(MapKind::Programs, 4, 4, 1)),
];

/// Cut-through channels, and the bandwidths that they share; number 0 is none.
pub const CUTS: u32 = 1024;
pub const ALLOWANCES: u32 = 2048;

/// The other map whose values have a lock, and their octets.
pub const ALLOWED: &str = "allowances_map";
pub const ALLOWANCE: usize = 48;

/// Places for flows of channels, and patterns of filters.
pub const FLOW_PLACES: u32 = 4096;
const OWNERS: u32 = 65_536;

/// Name and shape of the maps of channels (`bpf/channel.h`, `bpf/cut.h`), which are pinned nowhere. Budgets and accounts are those of domains that
/// have channels.
pub const CUT_LAYOUT: [(&str, MapShape); 11] = [
    ("shapes_map", shape(MapKind::Array, 4, 776, 1)),
    ("owners_map", shape(MapKind::Hash, 48, 424, OWNERS)),
    ("channels_map", shape(MapKind::Array, 4, 8, 1)),
    ("cuts_map", shape(MapKind::Array, 4, 56, CUTS)),
    ("cut_usage_map", shape(MapKind::PerCpuArray, 4, 128, CUTS)),
    ("cut_flows_map", shape(MapKind::PerCpuArray, 4, 192, FLOW_PLACES)),
    ("scratch_map", shape(MapKind::PerCpuArray, 4, 176, 1)),
    (ALLOWED, shape(MapKind::Array, 4, ALLOWANCE, ALLOWANCES)),
    ("spent_map", shape(MapKind::SharedArray, 4, 128, ALLOWANCES)),
    (BUDGETS, shape(MapKind::Array, 4, BUDGET, CUTS)),
    (ACCOUNTS, shape(MapKind::SharedArray, 4, 128, CUTS)),
];

const fn shape(kind: MapKind, key: usize, value: usize, entries: u32) -> MapShape {
    MapShape { kind, key, value, entries }
}

/// Name and shape of each, on this machine.
pub fn layout() -> io::Result<impl Iterator<Item = (&'static str, MapShape)>> {
    let (cpus, known) = (possible_cpus()? as u32, known()?);
    let records = records()? * cpus;
    Ok(LAYOUT.into_iter().map(move |(name, shape)| match name {
        KNOWN_FLOWS => (name, MapShape { entries: known * cpus, ..shape }),
        USAGE | CEILINGS_MAP => (name, MapShape { entries: shape.entries * cpus, ..shape }),
        "records_map" | "sends_map" | "lines_map" => (name, MapShape { entries: records * shape.entries, ..shape }),
        _ => (name, shape),
    }))
}

/// Records of what code has sent for each CPU, a power of two.
pub fn records() -> io::Result<u32> {
    let fit = (RECORDS_SIZE / (SEND * SENDS as usize) / possible_cpus()?).max(16) as u32;
    Ok(RECORDS.min(1 << fit.ilog2()))
}

/// Places for known flows for each CPU, a power of two.
pub fn known() -> io::Result<u32> {
    let fit = (KNOWN_OCTETS / KNOWN_SIZE / possible_cpus()?).max(2) as u32;
    Ok(KNOWN.min(1 << fit.ilog2()))
}
