//! Events: timers of domains. Example: "call me in 20 ms".
//!
//! A wheel of wheels with a resolution of a millisecond (Varghese and Lauck, SOSP 1987): a level's slot holds what is
//! due in one turn of the level below, and is taken apart when that turn begins. Scheduling and cancelling touch a few
//! entries, however many there are; entries are used again, so nothing is allocated once the most there ever were have
//! been there. An event comes at its time or up to a millisecond later, never earlier, and those of one domain can be
//! counted and taken away without looking at others'.

use super::interface::{DomainId, Error, EventId};
use crate::frame::WorkerId;
use std::collections::HashMap;

/// Events of a node.
pub const EVENTS_MAX: usize = 1 << 18;

/// Events delivered, or moved from level to level, in one call of [`Events::expire`]: packets wait no longer.
pub const EXPIRED_MAX: usize = 1024;

/// Levels: together they reach over two years. What is due later is looked at again then.
const LEVELS: usize = 6;
/// Bits of a tick that tell the slots of a level apart.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const TICK_NS: u64 = 1_000_000;
const NONE: u32 = u32::MAX;

/// An event, or a place for one.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// In milliseconds of the node's clock.
    due: u64,
    argument: u64,
    domain: DomainId,
    /// How often the place was used; odd while it is.
    generation: u32,
    slot: u16,
    next: u32,
    before: u32,
    /// The neighbours among the events of the domain. Of a free place: the next free one.
    sibling: u32,
    sibling_before: u32,
}

/// Bits of the number of an entry; those above them say in names which worker has given it.
const PLACE_BITS: u32 = EVENTS_MAX.trailing_zeros();
const _: () = assert!(EVENTS_MAX.is_power_of_two());

/// An event on its way to another worker.
#[derive(Clone, Copy, Debug)]
pub struct MovedEvent {
    event: EventId,
    domain: DomainId,
    due: u64,
    argument: u64,
}

/// The events of one domain.
#[derive(Clone, Copy, Debug)]
struct Owner {
    first: u32,
    count: u32,
}

/// All events of a node.
#[derive(Debug)]
pub struct Events {
    entries: Vec<Entry>,
    free: u32,
    /// First and last of each slot, level by level.
    slots: Box<[(u32, u32)]>,
    /// The slots of each level that hold something.
    held: [u64; LEVELS],
    owners: Vec<Owner>,
    /// Those that other workers have named, by name and by entry.
    moved: HashMap<EventId, u32>,
    names: HashMap<u32, EventId>,
    worker: WorkerId,
    /// The generation of a place that was never used: above all that whoever was here before has given.
    begin: u32,
    /// The tick that is worked on: all before it is done.
    tick: u64,
    count: usize,
}

impl Default for Events {
    fn default() -> Events {
        Events {
            entries: Vec::new(),
            free: NONE,
            slots: vec![(NONE, NONE); LEVELS * SLOTS].into(),
            held: [0; LEVELS],
            owners: Vec::new(),
            moved: HashMap::new(),
            names: HashMap::new(),
            worker: 0,
            begin: 0,
            tick: 0,
            count: 0,
        }
    }
}

impl Events {
    /// Has an event come to a domain at a time of the node's clock, in nanoseconds. [`Error::Full`] when [`EVENTS_MAX`] are waiting.
    pub fn schedule(&mut self, domain: DomainId, due_ns: u64, argument: u64) -> Result<EventId, Error> {
        let at = self.place()?;
        let due = due_ns.div_ceil(TICK_NS);
        self.enter(at, domain, due, argument);
        Ok(self.name_of(at))
    }

    /// Names events as this worker's from now on.
    pub fn name_as(&mut self, worker: WorkerId) {
        self.worker = worker;
    }

    /// Gives no name that was given by those before it, whose place it takes.
    pub fn go_on_from(&mut self, before: &Events) {
        let given = before.entries.iter().map(|entry| entry.generation).fold(before.begin, u32::max);
        // Of a free place it is even.
        self.begin = given.wrapping_add(1) & !1;
    }

    /// Takes out all events of a domain, for another worker.
    pub fn send_off(&mut self, domain: DomainId) -> Vec<MovedEvent> {
        let mut all = Vec::new();
        while let Some(first) = self.first_of(domain) {
            let Entry { due, argument, .. } = self.entries[first as usize];
            all.push(MovedEvent { event: self.name_of(first), domain, due, argument });
            self.unlink(first);
            self.release(first);
        }
        // The list of a domain has the last one first.
        all.reverse();
        all
    }

    /// Takes in what another worker has sent off: each keeps its name. Beyond [`EVENTS_MAX`] they are dropped, and never come.
    pub fn take_in(&mut self, events: Vec<MovedEvent>) {
        for MovedEvent { event, domain, due, argument } in events {
            let Ok(at) = self.place() else { return };
            self.enter(at, domain, due, argument);
            self.moved.insert(event, at);
            self.names.insert(at, event);
        }
    }

    /// The name of an entry in use.
    fn name_of(&self, at: u32) -> EventId {
        let own = || {
            let generation = self.entries.get(at as usize).map_or(0, |entry| entry.generation);
            EventId(u64::from(generation) << 32 | u64::from(self.worker) << PLACE_BITS | u64::from(at))
        };
        if self.names.is_empty() { own() } else { self.names.get(&at).copied().unwrap_or_else(own) }
    }

    fn enter(&mut self, at: u32, domain: DomainId, due: u64, argument: u64) {
        // The last millisecond that a clock can show is the last one that comes.
        let due = due.min(u64::MAX / TICK_NS);
        if domain.index() >= self.owners.len() {
            // Once for each domain there ever is at the same time.
            self.owners.resize(domain.index() + 1, Owner { first: NONE, count: 0 });
        }
        let owner = &mut self.owners[domain.index()];
        let sibling = core::mem::replace(&mut owner.first, at);
        owner.count += 1;
        if let Some(sibling) = self.entries.get_mut(sibling as usize) {
            sibling.sibling_before = at;
        }
        let entry = &mut self.entries[at as usize];
        let generation = entry.generation.wrapping_add(1);
        (entry.due, entry.argument, entry.domain, entry.generation) = (due, argument, domain, generation);
        (entry.sibling, entry.sibling_before) = (sibling, NONE);
        self.count += 1;
        self.link(at);
    }

    /// Takes an event back and says whose it was, unless it has come or was taken back before.
    pub fn cancel(&mut self, event: EventId) -> Option<DomainId> {
        let at = self.known(event)?;
        self.unlink(at);
        Some(self.release(at).0)
    }

    /// Whose an event is.
    pub fn owner(&self, event: EventId) -> Option<DomainId> {
        self.known(event).map(|at| self.entries[at as usize].domain)
    }

    /// Takes back all events of a domain: its end. How many there were.
    pub fn cancel_all(&mut self, domain: DomainId) -> usize {
        let mut count = 0;
        // The list is that of the domain's place: whoever had the place before took its events along when it ended.
        while let Some(first) = self.first_of(domain) {
            self.unlink(first);
            self.release(first);
            count += 1;
        }
        count
    }

    fn first_of(&self, domain: DomainId) -> Option<u32> {
        self.owners.get(domain.index()).map(|owner| owner.first).filter(|first| *first != NONE)
    }

    /// Events of a domain that are waiting.
    pub fn count(&self, domain: DomainId) -> u32 {
        self.owners.get(domain.index()).map_or(0, |owner| owner.count)
    }

    /// Events that are waiting.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// When [`Events::expire`] has something to do, in nanoseconds: at the next event or before.
    pub fn next_deadline(&self) -> Option<u64> {
        let (_, _, tick) = self.next_slot()?;
        Some(tick.saturating_mul(TICK_NS))
    }

    /// Tells of all events that are due, in order of their milliseconds, but does no more than [`EXPIRED_MAX`] at once: if some are left,
    /// [`Events::next_deadline`] is not later than `now`.
    pub fn expire(&mut self, now: u64, tell: &mut impl FnMut(DomainId, EventId, u64)) -> usize {
        let (today, mut told) = (now / TICK_NS, 0);
        for _ in 0..EXPIRED_MAX {
            let Some((level, slot, tick)) = self.next_slot().filter(|(_, _, tick)| *tick <= today) else {
                self.tick = self.tick.max(today);
                return told;
            };
            self.tick = self.tick.max(tick);
            let at = self.slots[level * SLOTS + slot].0;
            self.unlink(at);
            if level > 0 && self.entries[at as usize].due > self.tick {
                self.link(at);
                continue;
            }
            let event = self.name_of(at);
            let (domain, argument) = self.release(at);
            tell(domain, event, argument);
            told += 1;
        }
        told
    }

    /// The slot to be worked on next, its level, and the tick when that begins. Of slots that begin at the same time
    /// the one of the highest level comes first: what it holds may be due then.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let mut next: Option<(usize, usize, u64)> = None;
        for level in (0..LEVELS).rev() {
            if self.held[level] == 0 {
                continue;
            }
            let shift = BITS * level as u32;
            let turn = self.tick >> shift;
            let here = (turn % SLOTS as u64) as u32;
            let ahead = self.held[level].rotate_right(here).trailing_zeros();
            let slot = (here + ahead) as usize % SLOTS;
            let tick = ((turn + u64::from(ahead)) << shift).max(self.tick);
            if next.is_none_or(|(_, _, known)| tick < known) {
                next = Some((level, slot, tick));
            }
        }
        next
    }

    /// A free entry.
    fn place(&mut self) -> Result<u32, Error> {
        if let Some(entry) = self.entries.get(self.free as usize) {
            return Ok(core::mem::replace(&mut self.free, entry.sibling));
        }
        if self.entries.len() >= EVENTS_MAX {
            return Err(Error::Full);
        }
        self.entries.push(Entry {
            due: 0,
            argument: 0,
            domain: DomainId(0),
            generation: self.begin,
            slot: 0,
            next: NONE,
            before: NONE,
            sibling: NONE,
            sibling_before: NONE,
        });
        Ok(self.entries.len() as u32 - 1)
    }

    fn known(&self, event: EventId) -> Option<u32> {
        let (generation, at) = ((event.0 >> 32) as u32, event.0 as u32 & (EVENTS_MAX as u32 - 1));
        let entry = self.entries.get(at as usize);
        let is_own = entry.is_some_and(|entry| entry.generation == generation && generation % 2 == 1);
        if is_own && self.name_of(at) == event { Some(at) } else { self.moved.get(&event).copied() }
    }

    /// Puts an entry into the slot of its time: on the lowest level whose turn it shares with the tick.
    fn link(&mut self, at: u32) {
        let horizon = self.tick.saturating_add((1 << (BITS * LEVELS as u32)) - 1);
        let due = self.entries[at as usize].due.clamp(self.tick, horizon);
        let differs = (due ^ self.tick).max(1).ilog2() / BITS;
        let mut level = (differs as usize).min(LEVELS - 1);
        // Behind the end of the last level's turn: its slots go around.
        let mut slot = (due >> (BITS * level as u32)) as usize % SLOTS;
        if differs as usize >= LEVELS && slot == (self.tick >> (BITS * level as u32)) as usize % SLOTS {
            slot = (slot + SLOTS - 1) % SLOTS;
        }
        if due == self.tick {
            (level, slot) = (0, self.tick as usize % SLOTS);
        }
        let index = level * SLOTS + slot;
        let (first, last) = &mut self.slots[index];
        let before = core::mem::replace(last, at);
        if before == NONE {
            *first = at;
            self.held[level] |= 1 << slot;
        } else {
            self.entries[before as usize].next = at;
        }
        let entry = &mut self.entries[at as usize];
        (entry.slot, entry.next, entry.before) = (index as u16, NONE, before);
    }

    fn unlink(&mut self, at: u32) {
        let Entry { slot, next, before, .. } = self.entries[at as usize];
        let index = usize::from(slot);
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.next = next,
            None => self.slots[index].0 = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(entry) => entry.before = before,
            None => self.slots[index].1 = before,
        }
        if self.slots[index].0 == NONE {
            self.held[index / SLOTS] &= !(1 << (index % SLOTS));
        }
    }

    /// Frees an entry that is in no slot any more.
    fn release(&mut self, at: u32) -> (DomainId, u64) {
        if !self.names.is_empty()
            && let Some(name) = self.names.remove(&at)
        {
            self.moved.remove(&name);
        }
        let entry = &mut self.entries[at as usize];
        let Entry { domain, argument, sibling, sibling_before, .. } = *entry;
        entry.generation = entry.generation.wrapping_add(1);
        entry.sibling = core::mem::replace(&mut self.free, at);
        if let Some(other) = self.entries.get_mut(sibling as usize) {
            other.sibling_before = sibling_before;
        }
        let owner = &mut self.owners[domain.index()];
        owner.count -= 1;
        match self.entries.get_mut(sibling_before as usize) {
            Some(other) => other.sibling = sibling,
            None => owner.first = sibling,
        }
        self.count -= 1;
        (domain, argument)
    }
}

#[cfg(test)]
mod tests;
