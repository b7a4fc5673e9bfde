//! What engines know of flows and stations, where their program in the kernel looks it up: a table of each program, shared by its engines.
//!
//! ```text
//! packet ─▶ its ends, or where it goes next ─┬─ known ─▶ other ends, or a link address ─▶ on
//!                                            └─ not known ─▶ up, as it came: the engine in user space knows, or learns
//! ```
//!
//! So the table is a copy of what the engine in user space has, and never more: whoever is not there goes up. An engine puts a flow there
//! with its second packet, so that a scan of ports costs the kernel nothing. A new generation has a new table, which fills again.

use crate::contract::plan::{FOUND_BYTES, FusedKey, FusedNext, FusedStep, IP_AT};
use core::fmt::Debug;
use std::sync::Arc;

/// Bytes of what is looked for.
pub const KEY: usize = 16;

/// What is found, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableEntry {
    /// New ends of a flow as they stand in a packet, or a link address.
    pub bytes: [u8; FOUND_BYTES],
    /// By which output packets go on.
    pub output: u16,
    /// What the new ends add to the sums of IP and of the transport, in the machine's order.
    pub sums: [u16; 2],
    /// How long it holds.
    pub holds: Holds,
}

/// How long an entry holds, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holds {
    /// As long as the program runs.
    #[default]
    Ever,
    /// From now on.
    For(u64),
    /// As long as no time between two of its packets is longer.
    Idle(u64),
}

/// Time until an entry is put there again that found no room, or of which packets come up all the same, in nanoseconds.
pub const AGAIN: u64 = 1_000_000_000;

/// When an entry was put there last, or tried to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tried(Option<u64>);

impl Tried {
    /// Whether it may be by now: not for each packet.
    pub fn is_due(self, now: u64) -> bool {
        self.0.is_none_or(|at| at.saturating_add(AGAIN) <= now)
    }

    /// It is now.
    pub fn note(&mut self, now: u64) {
        self.0 = Some(now);
    }
}

/// The table of a program, as whoever has it knows it.
pub trait GraphTable: Send + Sync + Debug {
    /// Puts an entry there, if there is room.
    fn put(&self, engine: u16, key: [u8; KEY], found: &TableEntry) -> bool;

    /// Takes it out.
    fn remove(&self, engine: u16, key: [u8; KEY]);

    /// For how many nanoseconds no packet has been of an entry; nothing: it is not there.
    fn idle(&self, engine: u16, key: [u8; KEY]) -> Option<u64>;

    /// An entry, for whoever wants to know what the program does; nothing: it is not there.
    fn found(&self, engine: u16, key: [u8; KEY]) -> Option<TableEntry>;
}

/// One engine's part of it.
#[derive(Clone, Debug)]
pub struct EngineTable {
    /// All of it.
    pub table: Arc<dyn GraphTable>,
    /// The engine's number.
    pub engine: u16,
}

impl EngineTable {
    /// See [`GraphTable::put`].
    pub fn put(&self, key: [u8; KEY], found: &TableEntry) -> bool {
        self.table.put(self.engine, key, found)
    }

    /// See [`GraphTable::remove`].
    pub fn remove(&self, key: [u8; KEY]) {
        self.table.remove(self.engine, key);
    }

    /// See [`GraphTable::idle`].
    pub fn idle(&self, key: [u8; KEY]) -> Option<u64> {
        self.table.idle(self.engine, key)
    }
}

/// Bytes of a plain packet at which a look-up of its ends looks: version and length, protocol, ends, flags of TCP.
const ENDS: [(u16, usize); 4] = [(IP_AT, 1), (IP_AT + 9, 1), (IP_AT + 12, 12), (IP_AT + 33, 1)];

/// Bytes that get new ends: the sum of IP, ends, the sums of UDP and of TCP.
const READDRESSED: [(u16, usize); 2] = [(IP_AT + 10, 18), (IP_AT + 36, 2)];

/// Whether a step changes some of these bytes of the packet because something was found.
pub(super) fn rewrites(step: &FusedStep, meets: impl Fn(u16, usize) -> bool) -> bool {
    match step {
        FusedStep::Readdress => READDRESSED.iter().any(|(at, bytes)| meets(*at, *bytes)),
        FusedStep::PutFound(at, bytes) => meets(*at, (*bytes).into()),
        _ => false,
    }
}

/// Whether a look-up finds before these steps what it finds behind them.
pub(super) fn may_precede(
    key: FusedKey,
    steps: &[FusedStep],
    changes: impl Fn(&FusedStep, (u16, u16)) -> bool,
) -> bool {
    let end = |(at, bytes): (u16, usize)| (at, at + bytes as u16);
    let is_changed = |bytes: (u16, u16)| steps.iter().any(|step| changes(step, bytes));
    match key {
        FusedKey::Ends => !ENDS.into_iter().any(|bytes| is_changed(end(bytes))),
        // What was found before is still to be written.
        FusedKey::Next(_) if steps.iter().any(|step| matches!(step, FusedStep::PutFound(..))) => false,
        FusedKey::Next(FusedNext::Frame(at)) => !is_changed(end((at, 4))),
        FusedKey::Next(FusedNext::Flow(_) | FusedNext::Known(_)) => true,
    }
}
