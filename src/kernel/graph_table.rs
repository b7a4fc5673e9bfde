//! The table in which the program of a graph looks flows and stations up ([`crate::graph::fused::GraphTable`]).

use crate::contract::{graph_found, graph_key};
use crate::graph::fused::{GraphTable, Holds, KEY, TableEntry};
use crate::sys::bpf::{Map, MapKind, MapShape};
use crate::sys::clock::Clock;

/// Name and shape of the map of each generation of a graph that looks something up.
///
/// 16,384 entries: a flow has one for each direction, a station one; what has no room is user space's.
pub const TABLE_MAP: (&str, MapShape) = (
    "graph_table_map",
    MapShape { kind: MapKind::Hash, key: graph_key::SIZE, value: graph_found::SIZE, entries: 16_384 },
);

/// The longest time without a packet: the kernel adds it to a time.
const IDLE_MAX: u64 = 1 << 62;

/// The table of a generation.
#[derive(Debug)]
pub(super) struct KernelTable(pub Map);

fn key_of(engine: u16, key: [u8; KEY]) -> [u8; graph_key::SIZE] {
    let mut bytes = [0; graph_key::SIZE];
    graph_key::ENGINE.put(&mut bytes, u32::from(engine).to_ne_bytes());
    graph_key::WORD.put(&mut bytes, key);
    bytes
}

/// As the kernel's coarse clock goes, which may be a tick behind.
fn now() -> u64 {
    Clock::of_host().now()
}

impl GraphTable for KernelTable {
    fn put(&self, engine: u16, key: [u8; KEY], found: &TableEntry) -> bool {
        let mut value = [0; graph_found::SIZE];
        graph_found::BYTES.put(&mut value, found.bytes);
        graph_found::OUTPUT.put(&mut value, u32::from(found.output).to_ne_bytes());
        graph_found::OF_IP.put(&mut value, found.sums[0].to_ne_bytes());
        graph_found::OF_TRANSPORT.put(&mut value, found.sums[1].to_ne_bytes());
        graph_found::USED.put(&mut value, now().to_ne_bytes());
        let until = match found.holds {
            Holds::Ever => u64::MAX,
            Holds::For(lasts) => now().saturating_add(lasts),
            Holds::Idle(longest) => longest.min(IDLE_MAX),
        };
        graph_found::UNTIL.put(&mut value, until.to_ne_bytes());
        self.0.set(&key_of(engine, key), &value).is_ok()
    }

    fn remove(&self, engine: u16, key: [u8; KEY]) {
        // It is there, or has never had room.
        let _ = self.0.remove(&key_of(engine, key));
    }

    fn idle(&self, engine: u16, key: [u8; KEY]) -> Option<u64> {
        let mut value = [0; graph_found::SIZE];
        self.0.get(&key_of(engine, key), &mut value).ok()?;
        Some(now().saturating_sub(u64::from_ne_bytes(graph_found::USED.of(&value))))
    }

    fn found(&self, engine: u16, key: [u8; KEY]) -> Option<TableEntry> {
        let mut value = [0; graph_found::SIZE];
        self.0.get(&key_of(engine, key), &mut value).ok()?;
        let sums = [graph_found::OF_IP.of(&value), graph_found::OF_TRANSPORT.of(&value)].map(u16::from_ne_bytes);
        let (bytes, output) =
            (graph_found::BYTES.of(&value), u32::from_ne_bytes(graph_found::OUTPUT.of(&value)) as u16);
        Some(TableEntry { bytes, output, sums, holds: Holds::Ever })
    }
}
