//! Names and shapes of the maps shared by the kernel half and the node (`bpf/contract.h`, `bpf/sockets.h`).

use super::told::{LISTS, PATTERNS, SHAPES};
use crate::contract::{
    ALLOWANCES, CEILINGS, CODES, CUTS, FLOW_PLACES, FLOWS, GRAPHS, LINES, NEIGHBOUR_PLACES, NEXT_HOPS, PORTS, PROGRAMS,
    SENDS, SOCKETS, STATIONS, account, addr, allowance, budget, cached_flow, ceiling, channels, code, current, cut,
    cut_flow, cut_usage, flow, graph_words, line, neighbour, next_hop, node, owners, pattern, port, prefix,
    punt_counts, punts, record, replicas, route, scratch, seen, send, spent, usage, window,
};
use crate::sys::bpf::{MapKind, MapShape, possible_cpus};
use crate::topology::neighbours::NEIGHBOURS_MAX;
use std::io;

/// Routes: what there is room for, which takes memory only as it is used (some 200 bytes each).
const ROUTES: u32 = 1 << 21;
/// Places of the flow cache: for each CPU at most, and bytes for all CPUs at most.
const FLOW_CACHE: u32 = 32768;
const FLOW_CACHE_BYTES: usize = 64 << 20;

/// Records of what code has sent: for each CPU at most, and bytes for all CPUs at most.
const RECORDS: u32 = 128;
const RECORDS_SIZE: usize = 32 << 20;
/// Sets of links that copies leave by.
pub const SETS: u32 = 256;

/// Bytes of a number: keys of arrays, and values that are numbers or descriptors.
const NUMBER: usize = 4;

/// The map of what each half has spent, shared with the programs.
pub const ACCOUNTS: &str = "accounts_map";

/// The maps whose values begin with a lock.
pub const BUDGETS: &str = "budgets_map";
pub const ALLOWED: &str = "allowances_map";

/// The map that says by its content whether a process listens: never pinned, so the kernel empties it when the process is gone.
pub const RAISE: &str = "raise_map";

/// Maps with a part for each CPU, whose entries begin where cache lines do, as those of the kernel's own kind need not.
const FLOW_CACHE_MAP: &str = "flow_cache_map";
pub const USAGE: &str = "usage_map";
pub const CEILINGS_MAP: &str = "ceilings_map";

/// The interfaces that packets leave by, and maps of those that copies leave by: each entry an interface and a program behind it.
pub const TRANSMIT: &str = "transmit_map";
pub const SETS_OF_LINKS: &str = "links_map";
pub const DEVICES: MapShape = shape(MapKind::Devices, NUMBER, 2 * NUMBER, PORTS);

/// The map of programs that were found at interfaces.
pub const FOUND: MapShape = shape(MapKind::Programs, NUMBER, NUMBER, PORTS);

/// Name and shape of each; of those for children the part of one record.
pub const LAYOUT: [(&str, MapShape); 29] = [
    ("node_map", array(node::SIZE, 1)),
    ("zero_map", array(NUMBER, 1)),
    ("ports_map", array(port::SIZE, PORTS)),
    ("codes_map", shared(code::SIZE, CODES)),
    ("neighbour_places_map", array(neighbour::SIZE, NEIGHBOUR_PLACES)),
    ("next_hops_map", each_cpu(next_hop::SIZE, NEXT_HOPS)),
    (FLOW_CACHE_MAP, shared(cached_flow::SIZE, 0)),
    (USAGE, shared(usage::SIZE, PROGRAMS)),
    (BUDGETS, array(budget::SIZE, PROGRAMS)),
    (ACCOUNTS, shared(account::SIZE, PROGRAMS)),
    (CEILINGS_MAP, shared(ceiling::SIZE, CEILINGS)),
    ("current_map", each_cpu(current::SIZE, 1)),
    ("stations_map", shape(MapKind::Programs, NUMBER, NUMBER, STATIONS)),
    ("found_map", FOUND),
    ("programs_map", shape(MapKind::Programs, NUMBER, NUMBER, PROGRAMS)),
    (TRANSMIT, DEVICES),
    (SETS_OF_LINKS, shape(MapKind::Sets, size_of::<u64>(), NUMBER, SETS)),
    ("records_map", shared(record::SIZE, 1)),
    ("sends_map", shared(send::SIZE, SENDS)),
    ("lines_map", shared(line::SIZE, LINES)),
    ("window_map", each_cpu(window::SIZE, 1)),
    ("replicas_map", each_cpu(replicas::SIZE, PROGRAMS)),
    ("routes_map", shape(MapKind::Prefixes, prefix::SIZE, route::SIZE, ROUTES)),
    ("neighbours_map", array(addr::SIZE, NEIGHBOURS_MAX as u32)),
    ("sockets_map", shape(MapKind::Sockets, NUMBER, NUMBER, SOCKETS)),
    ("punts_map", shared(punts::SIZE, SOCKETS)),
    ("flows_map", array(flow::SIZE, SOCKETS * FLOWS)),
    ("punt_counts_map", each_cpu(punt_counts::SIZE, PORTS)),
    (RAISE, shape(MapKind::Programs, NUMBER, NUMBER, 1)),
];

/// Name and shape of the maps of channels (`bpf/channel.h`, `bpf/cut.h`), which are pinned nowhere. Budgets and
/// accounts are those of domains that have channels.
pub const CUT_LAYOUT: [(&str, MapShape); 13] = [
    ("shapes_map", SHAPES),
    ("owners_map", shape(MapKind::Hash, pattern::SIZE, owners::SIZE, PATTERNS)),
    ("lists_map", LISTS),
    ("channels_map", array(channels::SIZE, 1)),
    ("cuts_map", array(cut::SIZE, CUTS)),
    ("cut_usage_map", each_cpu(cut_usage::SIZE, CUTS)),
    ("cut_flows_map", each_cpu(cut_flow::SIZE, FLOW_PLACES)),
    ("scratch_map", each_cpu(scratch::SIZE, 1)),
    (ALLOWED, array(allowance::SIZE, ALLOWANCES)),
    ("spent_map", shared(spent::SIZE, ALLOWANCES)),
    (BUDGETS, array(budget::SIZE, CUTS)),
    (ACCOUNTS, shared(account::SIZE, CUTS)),
    ("graphs_map", shape(MapKind::Programs, NUMBER, NUMBER, GRAPHS)),
];

/// Name and shape of the map of each generation of a graph.
pub const GRAPH_MAP: (&str, MapShape) = ("graph_words_map", each_cpu(graph_words::SIZE, 1));

/// Bytes of the ring buffer that the kernel half tells what it has had by, while somebody captures.
pub const RING: usize = 4 << 20;

/// Name and shape of the maps of that (`bpf/seen.h`), which are there as long as somebody captures.
pub const SEEN_MAPS: [(&str, MapShape); 2] =
    [("seen_map", each_cpu(seen::SIZE, 1)), ("ring_map", shape(MapKind::Ring, 0, 0, RING as u32))];

const fn array(value: usize, entries: u32) -> MapShape {
    shape(MapKind::Array, NUMBER, value, entries)
}

const fn shared(value: usize, entries: u32) -> MapShape {
    shape(MapKind::SharedArray, NUMBER, value, entries)
}

const fn each_cpu(value: usize, entries: u32) -> MapShape {
    shape(MapKind::PerCpuArray, NUMBER, value, entries)
}

const fn shape(kind: MapKind, key: usize, value: usize, entries: u32) -> MapShape {
    MapShape { kind, key, value, entries }
}

/// Name and shape of each, on this machine.
pub fn layout() -> io::Result<impl Iterator<Item = (&'static str, MapShape)>> {
    let (cpus, flows) = (possible_cpus()? as u32, cached_flows()?);
    let records = records()? * cpus;
    Ok(LAYOUT.into_iter().map(move |(name, shape)| match name {
        FLOW_CACHE_MAP => (name, MapShape { entries: flows * cpus, ..shape }),
        USAGE | CEILINGS_MAP => (name, MapShape { entries: shape.entries * cpus, ..shape }),
        "records_map" | "sends_map" | "lines_map" => (name, MapShape { entries: records * shape.entries, ..shape }),
        _ => (name, shape),
    }))
}

/// Records of what code has sent for each CPU, a power of two.
pub fn records() -> io::Result<u32> {
    let fit = (RECORDS_SIZE / (send::SIZE * SENDS as usize) / possible_cpus()?).max(16) as u32;
    Ok(RECORDS.min(1 << fit.ilog2()))
}

/// Places of the flow cache for each CPU, a power of two.
pub fn cached_flows() -> io::Result<u32> {
    let fit = (FLOW_CACHE_BYTES / cached_flow::SIZE / possible_cpus()?).max(2) as u32;
    Ok(FLOW_CACHE.min(1 << fit.ilog2()))
}
