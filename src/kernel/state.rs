//! Soft state of code in the kernel half: `bpf/state.h` from the user half's side.
//!
//! One map for each code, in sets of four entries under a lock. Both halves read and write it, so the code has one
//! state. User space can read a set under its lock but not change one entry: its write replaces the whole set, and
//! loses changes of the kernel half since the read. So a program in the kernel changes the entry (`bpf/state.bpf.c`),
//! in one step under the lock. It is loaded once for each map; one run is one system call, which needs no privilege.

use super::own;
use crate::abi::CallError;
use crate::contract::{STATE_ADD, STATE_EXCHANGE, STATE_MAX, STATE_PUT, WAYS as ENTRIES, entry, set, state_call};
use crate::core::kept::{KeptValue, PAGE, Page};
use crate::core::state_store::{Change, Refused, SharedState, VALUE, Value};
use crate::sys::bpf::{Map, MapKind, MapShape, Program};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Entries of a set.
const WAYS: usize = ENTRIES as usize;

// A value is what code calls one, and a set has no bytes between its entries.
const _: () = assert!(VALUE == entry::VALUE.size() && set::WAYS.size() == WAYS * entry::SIZE);

/// What the map is called.
pub(super) const NAME: &str = "state_map";

pub(super) static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/state.bpf.o"));

/// Sets of the largest: what a role can have of entries fits.
const SETS_MAX: u32 = 1 << 20;

/// Sets that are looked at for one page, at most.
const LOOKED_AT: u32 = 4096;

/// What the program returns: it is done; or the number was another.
const DONE: u32 = 0;
const CHANGED: u32 = CallError::Changed as u32;

/// The soft state of one code.
#[derive(Debug)]
pub struct CodeState {
    map: Map,
    /// What changes it.
    program: Program,
    sets: u32,
    keep_ms: u32,
}

impl CodeState {
    /// State of at least `entries` entries, kept for at most `keep_ms`.
    pub fn create(entries: u32, keep_ms: u32) -> io::Result<CodeState> {
        CodeState::of(own::map(NAME, shape(sets_for(entries)))?, entries, keep_ms)
    }

    /// State that is there already, if it is of this size.
    pub fn adopt(map: OwnedFd, entries: u32, keep_ms: u32) -> io::Result<CodeState> {
        CodeState::of(Map::adopt(map, shape(sets_for(entries)))?.locked(), entries, keep_ms)
    }

    fn of(map: Map, entries: u32, keep_ms: u32) -> io::Result<CodeState> {
        let find = |name: &str| match name {
            NAME => Ok(map.as_fd()),
            _ => Err(io::Error::other(format!("no map {name}"))),
        };
        let program = own::load("state", find)?;
        Ok(CodeState { map, program, sets: sets_for(entries), keep_ms })
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

pub(super) fn shape(sets: u32) -> MapShape {
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
    fn value(&self, key: u64, now: u64) -> Result<Option<Value>, Refused> {
        let mut set = [0; set::SIZE];
        self.map.get(&self.set_of(key), &mut set).map_err(|_| Refused::Failed)?;
        let found = entries(&set).find(|entry| key_of(entry) == key && until(entry) > now);
        Ok(found.map(|entry| entry::VALUE.of(entry)))
    }

    fn change(&self, key: u64, change: Change<'_>, keep_ms: u32, now: u64) -> Result<u64, Refused> {
        let (kind, number, value) = match change {
            Change::Put(value) => (STATE_PUT, 0, Some(value)),
            Change::Add(delta) => (STATE_ADD, delta, None),
            Change::Max(least) => (STATE_MAX, least, None),
            Change::Exchange { expected, value } => (STATE_EXCHANGE, expected, Some(value)),
        };
        let until = match keep_ms.min(self.keep_ms) {
            0 => 0,
            keep => now + u64::from(keep) * 1_000_000,
        };
        let mut call = [0; state_call::SIZE];
        state_call::KEY.put(&mut call, key.to_ne_bytes());
        state_call::NOW.put(&mut call, now.to_ne_bytes());
        state_call::UNTIL.put(&mut call, until.to_ne_bytes());
        state_call::NUMBER.put(&mut call, number.to_ne_bytes());
        state_call::VALUE.put(&mut call, value.copied().unwrap_or([0; VALUE]));
        state_call::CHANGE.put(&mut call, kind.to_ne_bytes());
        state_call::SETS.put(&mut call, self.sets.to_ne_bytes());
        match self.program.run_with(&mut call) {
            Ok(DONE) => Ok(u64::from_ne_bytes(state_call::NUMBER.of(&call))),
            Ok(CHANGED) => Err(Refused::Changed),
            Ok(_) => Err(Refused::Full),
            Err(_) => Err(Refused::Failed),
        }
    }

    /// Each set is read under its lock, which holds for a copy of four entries.
    fn page(&self, from: u64, now: u64) -> Result<Page, Refused> {
        let (mut page, mut set) = (Page::default(), [0; set::SIZE]);
        let begin = u32::try_from(from).unwrap_or(u32::MAX).min(self.sets);
        for at in begin..self.sets {
            if at - begin == LOOKED_AT || page.entries.len() >= PAGE {
                page.next = Some(at.into());
                break;
            }
            self.map.get(&at.to_ne_bytes(), &mut set).map_err(|_| Refused::Failed)?;
            let kept = entries(&set).filter(|entry| until(entry) > now);
            let kept =
                kept.map(|entry| KeptValue { key: key_of(entry), value: entry::VALUE.of(entry), until: until(entry) });
            page.entries.extend(kept);
        }
        Ok(page)
    }
}
