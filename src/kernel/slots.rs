//! The slots of codes in the kernel half: the number of each code, and how far its loading is.

use super::maps::{CodeEntry, code_places};
use crate::code::link::LinkedProgram;
use crate::contract::PROGRAMS;
use crate::trust::CodeForm;
use crate::wire::Digest;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How far a code is.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Its program is being made.
    Coming,
    /// Its program is there; its capsules do not run here yet.
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

impl CodeEntry {
    /// The places that were taken when it came, which a packet looks at before its own.
    pub fn way(&self) -> impl Iterator<Item = u32> + use<> {
        let own = self.place;
        code_places(&self.name).take_while(move |place| *place != own)
    }
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

    /// A slot and a place for a code: its own if it was adopted, with what it is made of and its state.
    pub fn claim(&mut self, name: &Digest, window: u16) -> Result<Held, NoSlot> {
        if let Some(held) = self.codes.get(name) {
            return if matches!(held.stage, Stage::Adopted(_)) { Ok(held.clone()) } else { Err(NoSlot::Taken) };
        }
        let taken: Vec<u32> = self.codes.values().map(|held| held.entry.place).collect();
        let place = code_places(name).find(|place| !taken.contains(place)).ok_or(NoSlot::Taken)?;
        let slot = self.free.pop().ok_or(NoSlot::Full)?;
        let entry = CodeEntry { name: *name, place, slot, window, made_of: [0; 24] };
        let held = Held { entry, stage: Stage::Coming };
        self.codes.insert(*name, held.clone());
        Ok(held)
    }

    /// What the map is to say of a place: the code that runs there, and how many stand behind it.
    pub fn view(&self, place: u32) -> (Option<&CodeEntry>, u16) {
        let runs = |held: &&Held| matches!(held.stage, Stage::Runs | Stage::Adopted(_)) && held.entry.place == place;
        let behind = |held: &&Held| held.entry.way().any(|passed| passed == place);
        let code = self.codes.values().find(runs).map(|held| &held.entry);
        (code, self.codes.values().filter(behind).count() as u16)
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

/// A digest of a program as it was linked, and in whose rights it is loaded, to find out later whether another is the same.
pub fn made_of(program: &LinkedProgram, form: CodeForm) -> [u8; 24] {
    let mut hash = Sha256::new_with_prefix([form as u8]);
    hash.update(program.bytes());
    program.maps.iter().for_each(|name| hash.update(name));
    program.functions.iter().for_each(|(at, owner)| hash.update(format!("{at}{owner:?}")));
    let mut made_of = [0; 24];
    made_of.copy_from_slice(&hash.finalize()[..24]);
    made_of
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::PROBES;

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
        let two = slots.claim(&name(2, 0), 4).unwrap();
        assert_eq!((one.entry.slot, two.entry.slot), (1, 2));
        slots.take(&name(1, 0));
        slots.release(1);
        assert_eq!(slots.claim(&name(3, 9), 4).unwrap().entry.slot, 1);
    }

    #[test]
    fn codes_of_one_place_stand_behind_each_other_and_are_found_when_the_first_goes() {
        let mut slots = Slots::new(Vec::new());
        let run = |slots: &mut Slots, last| {
            let held = slots.claim(&name(7, last), 4).unwrap();
            slots.set(Held { stage: Stage::Runs, ..held.clone() });
            held.entry.place
        };
        let places: Vec<u32> = (0..PROBES as u8).map(|last| run(&mut slots, last)).collect();
        assert_eq!(places, (7..7 + PROBES).collect::<Vec<_>>());
        assert_eq!(slots.claim(&name(7, 99), 4).unwrap_err(), NoSlot::Taken, "no place is left");
        let seen = |slots: &Slots, place| (slots.view(place).0.map(|entry| entry.name), slots.view(place).1);
        let last = PROBES - 1;
        assert_eq!(seen(&slots, 7), (Some(name(7, 0)), last as u16));
        assert_eq!(seen(&slots, 7 + last), (Some(name(7, last as u8)), 0));
        slots.take(&name(7, 0));
        assert_eq!(seen(&slots, 7), (None, last as u16), "packets look on");
        assert_eq!(run(&mut slots, 99), 7);
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
