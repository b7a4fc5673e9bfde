//! Objects in the order of their last use, within limits.
//!
//! The memory side keeps the bytes as the value, the disk side only the books. Each use costs one step of a logarithm;
//! pinned entries are outside the order and never go by themselves.

use crate::wire::Digest;
use std::collections::{BTreeMap, HashMap, HashSet};

#[derive(Debug)]
struct Slot<V> {
    value: V,
    size: u64,
    tick: u64,
}

/// Entries by digest, with the order of use and the sum of their sizes.
#[derive(Debug)]
pub(super) struct Lru<V> {
    slots: HashMap<Digest, Slot<V>>,
    order: BTreeMap<u64, Digest>,
    pins: HashSet<Digest>,
    bytes: u64,
    tick: u64,
    bytes_max: u64,
    entries_max: usize,
}

impl<V> Lru<V> {
    pub(super) fn new(bytes_max: u64, entries_max: usize) -> Lru<V> {
        let (slots, order, pins) = (HashMap::new(), BTreeMap::new(), HashSet::new());
        Lru { slots, order, pins, bytes: 0, tick: 0, bytes_max, entries_max }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The entry, now the last used.
    pub(super) fn touch(&mut self, digest: &Digest) -> Option<&mut V> {
        self.tick += 1;
        let slot = self.slots.get_mut(digest)?;
        if self.order.remove(&slot.tick).is_some() {
            self.order.insert(self.tick, *digest);
        }
        slot.tick = self.tick;
        Some(&mut slot.value)
    }

    /// The entry; its place in the order stays.
    pub(super) fn peek(&self, digest: &Digest) -> Option<&V> {
        self.slots.get(digest).map(|slot| &slot.value)
    }

    /// Adds an entry, now the last used, and returns those that had to go. If there is no room
    /// beside what is pinned, nothing changes and the value is lost (`None`).
    pub(super) fn insert(&mut self, digest: Digest, size: u64, value: V) -> Option<Vec<Digest>> {
        self.remove(&digest);
        let victims = self.victims(size)?;
        for victim in &victims {
            self.remove(victim);
        }
        self.tick += 1;
        if !self.pins.contains(&digest) {
            self.order.insert(self.tick, digest);
        }
        self.slots.insert(digest, Slot { value, size, tick: self.tick });
        self.bytes += size;
        Some(victims)
    }

    /// The longest unused entries that make room for one of `size` bytes.
    fn victims(&self, size: u64) -> Option<Vec<Digest>> {
        let (mut bytes, mut entries) = (self.bytes, self.slots.len());
        let mut victims = Vec::new();
        let mut oldest = self.order.values();
        while bytes + size > self.bytes_max || entries + 1 > self.entries_max {
            let victim = oldest.next()?;
            bytes -= self.slots.get(victim).map_or(0, |slot| slot.size);
            entries -= 1;
            victims.push(*victim);
        }
        Some(victims)
    }

    pub(super) fn remove(&mut self, digest: &Digest) -> Option<V> {
        let slot = self.slots.remove(digest)?;
        self.order.remove(&slot.tick);
        self.bytes -= slot.size;
        Some(slot.value)
    }

    /// Takes an entry, which may still come, out of the order.
    pub(super) fn pin(&mut self, digest: &Digest) {
        self.pins.insert(*digest);
        if let Some(slot) = self.slots.get(digest) {
            self.order.remove(&slot.tick);
        }
    }

    /// Puts an entry back into the order, as the last used; whether it was pinned.
    pub(super) fn unpin(&mut self, digest: &Digest) -> bool {
        let pinned = self.pins.remove(digest);
        if pinned && let Some(slot) = self.slots.get_mut(digest) {
            self.tick += 1;
            slot.tick = self.tick;
            self.order.insert(self.tick, *digest);
        }
        pinned
    }

    /// Digest, size and whether pinned, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Digest, u64, bool)> {
        self.slots.iter().map(|(digest, slot)| (*digest, slot.size, self.pins.contains(digest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(byte: u8) -> Digest {
        Digest([byte; 32])
    }

    #[test]
    fn the_longest_unused_goes_first_and_pinned_entries_stay() {
        let mut lru = Lru::new(100, 3);
        lru.pin(&digest(1));
        for byte in 1..=3 {
            assert_eq!(lru.insert(digest(byte), 10, ()), Some(vec![]));
        }
        lru.touch(&digest(2));
        assert_eq!(lru.insert(digest(4), 10, ()), Some(vec![digest(3)]));
        assert_eq!(lru.insert(digest(5), 75, ()), Some(vec![digest(2)]), "entries");
        assert_eq!(lru.insert(digest(6), 90, ()), Some(vec![digest(4), digest(5)]), "bytes");
        assert_eq!(lru.insert(digest(7), 91, ()), None, "the pinned 10 stay");
        assert_eq!((lru.bytes(), lru.len()), (100, 2));
        assert!(lru.unpin(&digest(1)) && !lru.unpin(&digest(1)));
        assert_eq!(lru.insert(digest(7), 91, ()), Some(vec![digest(6), digest(1)]));
        assert_eq!((lru.bytes(), lru.len()), (91, 1));
        assert_eq!(lru.insert(digest(7), 5, ()), Some(vec![]), "an entry replaces itself");
        assert_eq!((lru.bytes(), lru.len()), (5, 1));
    }
}
