//! The codes of the kernel half: which slot each has, and how far it is.

use super::maps::{CodeEntry, PROGRAMS, code_place};
use crate::code::link::Linked;
use crate::wire::Digest;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How far a code is.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Its programs are being made.
    Coming,
    /// Its programs are there; its capsules do not run here yet.
    Loaded,
    /// Its capsules run here.
    Runs,
    /// They do, since a process that has gone: nobody in this one knows of it yet. With its state.
    Adopted(Arc<OwnedFd>),
}

/// A code, and its place.
#[derive(Clone, Debug)]
pub struct Held {
    /// What the map says of it, or will.
    pub entry: CodeEntry,
    /// How far it is.
    pub stage: Stage,
}

/// All of them.
#[derive(Debug)]
pub struct Slots {
    codes: HashMap<Digest, Held>,
    free: Vec<u32>,
}

/// What stands in the way of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSlot {
    /// It, or another at its place, is here.
    Taken,
    /// There is no slot left.
    Full,
}

impl Slots {
    /// With these codes, which run.
    pub fn new(held: Vec<Held>) -> Slots {
        let codes: HashMap<_, _> = held.into_iter().map(|held| (held.entry.name, held)).collect();
        let taken: Vec<u32> = codes.values().map(|held| held.entry.slot).collect();
        Slots { codes, free: (1..PROGRAMS).rev().filter(|slot| !taken.contains(slot)).collect() }
    }

    /// A slot for a code: its own if it was adopted, with what it is made of and its state.
    pub fn claim(&mut self, name: &Digest, window: u32) -> Result<Held, NoSlot> {
        if let Some(held) = self.codes.get(name) {
            return if matches!(held.stage, Stage::Adopted(_)) { Ok(held.clone()) } else { Err(NoSlot::Taken) };
        }
        if self.codes.keys().any(|other| code_place(other) == code_place(name)) {
            return Err(NoSlot::Taken);
        }
        let slot = self.free.pop().ok_or(NoSlot::Full)?;
        let held = Held { entry: CodeEntry { name: *name, slot, window, made_of: [0; 24] }, stage: Stage::Coming };
        self.codes.insert(*name, held.clone());
        Ok(held)
    }

    /// Sets how far a code is.
    pub fn set(&mut self, held: Held) {
        self.codes.insert(held.entry.name, held);
    }

    /// A code.
    pub fn of(&self, name: &Digest) -> Option<&Held> {
        self.codes.get(name)
    }

    /// Takes a code out. Its slot is free after [`Slots::release`].
    pub fn take(&mut self, name: &Digest) -> Option<Held> {
        self.codes.remove(name)
    }

    /// Lets others have a slot.
    pub fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// All codes.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        self.codes.values()
    }
}

/// A digest of programs as they were linked, to find out later whether others are the same.
pub fn made_of(programs: &[Linked]) -> [u8; 24] {
    let mut hash = Sha256::new();
    for program in programs {
        hash.update(program.bytes());
        program.maps.iter().for_each(|name| hash.update(name));
        program.functions.iter().for_each(|(at, owner)| hash.update(format!("{at}{owner:?}")));
    }
    let mut made_of = [0; 24];
    made_of.copy_from_slice(&hash.finalize()[..24]);
    made_of
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(first: u8, last: u8) -> Digest {
        let mut name = [0; 32];
        (name[0], name[31]) = (first, last);
        Digest(name)
    }

    #[test]
    fn slots_are_given_once_and_come_back() {
        let mut slots = Slots::new(Vec::new());
        let one = slots.claim(&name(1, 0), 4).unwrap();
        assert_eq!(slots.claim(&name(1, 0), 4).unwrap_err(), NoSlot::Taken, "the same");
        assert_eq!(slots.claim(&name(1, 9), 4).unwrap_err(), NoSlot::Taken, "another at its place");
        let two = slots.claim(&name(2, 0), 4).unwrap();
        assert_eq!((one.entry.slot, two.entry.slot), (1, 2));
        slots.take(&name(1, 0));
        slots.release(1);
        assert_eq!(slots.claim(&name(1, 9), 4).unwrap().entry.slot, 1);
    }

    #[test]
    fn there_are_only_so_many() {
        let mut slots = Slots::new(Vec::new());
        let digest = |number: u16| {
            let mut name = [0; 32];
            name[..2].copy_from_slice(&number.to_le_bytes());
            Digest(name)
        };
        for number in 1..PROGRAMS as u16 {
            slots.claim(&digest(number), 0).unwrap();
        }
        assert_eq!(slots.claim(&digest(PROGRAMS as u16), 0).unwrap_err(), NoSlot::Full);
    }
}
