//! Soft state of a code that the kernel half runs: `bpf/state.h` from the user half's side.
//!
//! One map for each code, in sets of four entries under a lock. Both halves read and write it, so the code has one
//! state. A read and the write that follows it are two steps here: a count that both halves raise at the
//! same instant may miss one.

use super::own;
use crate::core::state_store::{SharedState, VALUE, Value};
use crate::sys::bpf::{Map, MapKind, MapShape};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Entries of a set, and their octets: key, time, value.
const WAYS: usize = 4;
const ENTRY: usize = 16 + VALUE;

/// Octets of a set: a lock, padding, entries.
pub(super) const SET: usize = 8 + WAYS * ENTRY;

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
        let (mut found, mut set) = (Vec::new(), [0; SET]);
        for at in 0..self.sets {
            self.map.get(&at.to_ne_bytes(), &mut set)?;
            let entries = set[8..].chunks_exact_mut(ENTRY).map(Entry).filter(|entry| entry.until() > now);
            found.extend(entries.map(|entry| (entry.key(), entry.value(), entry.until())));
        }
        Ok(found)
    }

    fn set_of(&self, key: u64) -> [u8; 4] {
        let at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 & (self.sets - 1);
        at.to_ne_bytes()
    }
}

impl AsFd for CodeState {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

pub(super) fn sets_for(entries: u32) -> u32 {
    entries.div_ceil(WAYS as u32).next_power_of_two()
}

fn shape(sets: u32) -> MapShape {
    MapShape { kind: MapKind::Array, key: 4, value: SET, entries: sets }
}

/// Whether a map can be one of these.
pub(super) fn is_shape(wanted: MapShape) -> bool {
    wanted.entries.is_power_of_two() && wanted.entries <= SETS_MAX && wanted == shape(wanted.entries)
}

/// An entry of a set, as octets.
struct Entry<'a>(&'a mut [u8]);

impl Entry<'_> {
    fn word(&self, at: usize) -> u64 {
        self.0[at..].first_chunk().map_or(0, |octets| u64::from_ne_bytes(*octets))
    }

    fn key(&self) -> u64 {
        self.word(0)
    }

    fn until(&self) -> u64 {
        self.word(8)
    }

    fn value(&self) -> Value {
        self.0[16..].first_chunk().copied().unwrap_or([0; VALUE])
    }

    fn write(&mut self, key: u64, until: u64, value: &Value) {
        self.0[..8].copy_from_slice(&key.to_ne_bytes());
        self.0[8..16].copy_from_slice(&until.to_ne_bytes());
        self.0[16..].copy_from_slice(value);
    }
}

impl SharedState for CodeState {
    fn value(&self, key: u64, now: u64) -> Option<Value> {
        let mut set = [0; SET];
        self.map.get(&self.set_of(key), &mut set).ok()?;
        let mut entries = set[8..].chunks_exact_mut(ENTRY).map(Entry);
        entries.find(|entry| entry.key() == key && entry.until() > now).map(|found| found.value())
    }

    fn put(&self, key: u64, value: &Value, keep_ms: u32, now: u64) -> bool {
        let until = match keep_ms.min(self.keep_ms) {
            0 => 0,
            keep => now + u64::from(keep) * 1_000_000,
        };
        let (place, mut set) = (self.set_of(key), [0; SET]);
        if self.map.get(&place, &mut set).is_err() {
            return false;
        }
        let entry = |at: usize| 8 + at * ENTRY..8 + (at + 1) * ENTRY;
        let at = {
            let look =
                |at: usize, set: &mut [u8; SET], test: &dyn Fn(&Entry<'_>) -> bool| test(&Entry(&mut set[entry(at)]));
            let own = (0..WAYS).find(|&at| look(at, &mut set, &|entry| entry.key() == key && entry.until() > 0));
            let free = (0..WAYS).find(|&at| look(at, &mut set, &|entry| entry.until() <= now));
            own.or(if until == 0 { None } else { free.or(Some((now >> 10) as usize % WAYS)) })
        };
        let Some(at) = at else { return true };
        Entry(&mut set[entry(at)]).write(key, until, value);
        self.map.set(&place, &set).is_ok()
    }
}
