//! Soft state of a code that the kernel half runs: `bpf/state.h` from the user half's side.
//!
//! One map for each code, in sets of four entries under a lock. Both halves read and write it, so the code has one
//! state. A read and the write that follows it are two steps here: a count that both halves raise at the
//! same instant may miss one.

use super::own;
use crate::contract::{WAYS as ENTRIES, entry, set};
use crate::core::state_store::{SharedState, VALUE, Value};
use crate::sys::bpf::{Map, MapKind, MapShape};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Entries of a set.
const WAYS: usize = ENTRIES as usize;

// A value is what code calls one, and a set has no bytes between its entries.
const _: () = assert!(VALUE == entry::VALUE.size() && set::WAYS.size() == WAYS * entry::SIZE);

/// What the map is called.
pub(super) const NAME: &str = "state_map";

/// Sets of the largest: what a role can have of entries fits.
const SETS_MAX: u32 = 1 << 20;

/// The soft state of one code.
#[derive(Debug)]
pub struct CodeState {
    map: Map,
    sets: u32,
    keep_ms: u32,
}

impl CodeState {
    /// State of at least `entries` entries, kept for at most `keep_ms`.
    pub fn create(entries: u32, keep_ms: u32) -> io::Result<CodeState> {
        let sets = sets_for(entries);
        let map = own::map(NAME, shape(sets))?;
        Ok(CodeState { map, sets, keep_ms })
    }

    /// State that is there already, if it is of this size.
    pub fn adopt(map: OwnedFd, entries: u32, keep_ms: u32) -> io::Result<CodeState> {
        let sets = sets_for(entries);
        Ok(CodeState { map: Map::adopt(map, shape(sets))?.locked(), sets, keep_ms })
    }

    /// How many sets it has.
    pub fn sets(&self) -> u32 {
        self.sets
    }

    /// Longest keep time in milliseconds.
    pub fn keep_ms(&self) -> u32 {
        self.keep_ms
    }

    /// What is kept at `now`: key, value, and until when.
    pub fn entries(&self, now: u64) -> io::Result<Vec<(u64, Value, u64)>> {
        let (mut found, mut set) = (Vec::new(), [0; set::SIZE]);
        for at in 0..self.sets {
            self.map.get(&at.to_ne_bytes(), &mut set)?;
            let entries = entries(&set).filter(|entry| until(entry) > now);
            found.extend(entries.map(|entry| (key_of(entry), entry::VALUE.of(entry), until(entry))));
        }
        Ok(found)
    }

    fn set_of(&self, key: u64) -> [u8; 4] {
        place_of_key(key, self.sets).to_ne_bytes()
    }
}

impl AsFd for CodeState {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// `set_place` of bpf/state.h.
pub(super) fn place_of_key(key: u64, sets: u32) -> u32 {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 & (sets - 1)
}

pub(super) fn sets_for(entries: u32) -> u32 {
    entries.div_ceil(WAYS as u32).next_power_of_two()
}

fn shape(sets: u32) -> MapShape {
    MapShape { kind: MapKind::Array, key: 4, value: set::SIZE, entries: sets }
}

/// Whether a map can be one of these.
pub(super) fn is_shape(wanted: MapShape) -> bool {
    wanted.entries.is_power_of_two() && wanted.entries <= SETS_MAX && wanted == shape(wanted.entries)
}

/// The entries of a set.
fn entries(set: &[u8; set::SIZE]) -> impl Iterator<Item = &[u8; entry::SIZE]> {
    set[set::WAYS.range()].as_chunks().0.iter()
}

fn key_of(entry: &[u8; entry::SIZE]) -> u64 {
    u64::from_ne_bytes(entry::KEY.of(entry))
}

fn until(entry: &[u8; entry::SIZE]) -> u64 {
    u64::from_ne_bytes(entry::UNTIL.of(entry))
}

impl SharedState for CodeState {
    fn value(&self, key: u64, now: u64) -> Option<Value> {
        let mut set = [0; set::SIZE];
        self.map.get(&self.set_of(key), &mut set).ok()?;
        let found = entries(&set).find(|entry| key_of(entry) == key && until(entry) > now);
        found.map(|entry| entry::VALUE.of(entry))
    }

    fn put(&self, key: u64, value: &Value, keep_ms: u32, now: u64) -> bool {
        let end = match keep_ms.min(self.keep_ms) {
            0 => 0,
            keep => now + u64::from(keep) * 1_000_000,
        };
        let (place, mut set) = (self.set_of(key), [0; set::SIZE]);
        if self.map.get(&place, &mut set).is_err() {
            return false;
        }
        let own = entries(&set).position(|entry| key_of(entry) == key && until(entry) > 0);
        let free = || entries(&set).position(|entry| until(entry) <= now);
        let at = match own {
            Some(at) => at,
            // What is to be taken away is not there.
            None if end == 0 => return true,
            None => free().unwrap_or((now >> 10) as usize % WAYS),
        };
        if let Some(entry) = set[set::WAYS.range()].as_chunks_mut::<{ entry::SIZE }>().0.get_mut(at) {
            entry::KEY.put(entry, key.to_ne_bytes());
            entry::UNTIL.put(entry, end.to_ne_bytes());
            entry::VALUE.put(entry, *value);
        }
        self.map.set(&place, &set).is_ok()
    }
}
