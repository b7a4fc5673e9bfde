//! The hash table of all rules of one shape; each entry is one cache line.
//!
//! Open addressing, with at least three of four places free: a packet is nearly always found in the first line, and
//! that line can be asked for before the packet's turn comes. Places depend on a secret of the node.

use crate::classify::fields::Field;
use crate::classify::rule::{DemuxKey, KeyTuple, Layer, Rule};
use crate::classify::shape::Shape;
use crate::sys::cache;

/// Rules that differ only in their keys. Of these the kernel half holds the first few.
pub const KEYS_MAX: usize = 64;

/// Places for each flow, at least.
const SPARSE: usize = 4;

/// Places of the smallest table.
const LEAST: usize = 8;

/// Why a rule finds no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// Another one means the same packets.
    Exists,
    /// There are as many keys of this flow as can be.
    Full,
}

/// What a rule's fields must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Flow {
    pub(super) source: [u64; 2],
    pub(super) destination: [u64; 2],
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    /// What the layer below says is inside: Ethernet's type, IP's protocol, ANEP's type.
    pub(super) kind: u16,
    pub(super) port: u16,
}

/// Those with keys, longer ones first.
type Keyed<T> = Vec<(DemuxKey, T)>;

#[derive(Debug)]
#[repr(align(64))]
struct Entry<T> {
    flow: Flow,
    /// Whose it is, if no key decides.
    plain: Option<T>,
    keyed: Option<Box<Keyed<T>>>,
}

/// All rules of one shape.
#[derive(Debug)]
pub(super) struct Group<T> {
    pub(super) shape: Shape,
    pub(super) flows: Flows<T>,
}

/// The table.
#[derive(Debug)]
pub(super) struct Flows<T> {
    places: Vec<Option<Entry<T>>>,
    used: usize,
    secret: u64,
}

impl Flow {
    /// Its fields in four words, and the last in one.
    #[inline]
    fn hash(&self, secret: u64) -> usize {
        let ports = [self.source_port, self.destination_port, self.kind, self.port];
        let last = ports.iter().fold(0, |word, port| word << 16 | u64::from(*port));
        let first = mix(self.source[0] ^ secret, self.source[1] ^ 0x9e37_79b9_7f4a_7c15);
        let second = mix(self.destination[0] ^ secret.rotate_left(32), self.destination[1] ^ 0xc2b2_ae3d_27d4_eb4f);
        mix(last ^ first ^ secret, second ^ 0x1656_67b1_9e37_79f9) as usize
    }
}

/// Both halves of a product depend on all bits of its factors.
#[inline]
fn mix(one: u64, other: u64) -> u64 {
    let wide = u128::from(one) * u128::from(other);
    (wide >> 64) as u64 ^ wide as u64
}

impl<T: Copy + PartialEq> Flows<T> {
    pub(super) fn new(secret: u64) -> Flows<T> {
        Flows { places: Vec::new(), used: 0, secret }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Flow> {
        self.places.iter().flatten().map(|entry| &entry.flow)
    }

    #[inline]
    fn home(&self, flow: &Flow) -> usize {
        flow.hash(self.secret) & self.places.len().wrapping_sub(1)
    }

    /// Where a flow is, or the free place where it would be.
    #[inline]
    fn place(&self, flow: &Flow) -> usize {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = self.home(flow);
        // Most places are free.
        while let Some(Some(entry)) = self.places.get(at) {
            if entry.flow == *flow {
                break;
            }
            at = (at + 1) & mask;
        }
        at
    }

    /// Asks for the memory of a flow's entry.
    #[inline]
    pub(super) fn foresee(&self, flow: &Flow) {
        cache::prefetch_at(&self.places, self.home(flow));
    }

    /// Whose a packet of a flow with this payload is.
    #[inline(always)]
    pub(super) fn owner(&self, flow: &Flow, payload: &[u8]) -> Option<T> {
        let entry = self.places.get(self.place(flow))?.as_ref()?;
        match &entry.keyed {
            None => entry.plain,
            Some(keyed) => first_of(keyed, payload).or(entry.plain),
        }
    }

    pub(super) fn add(&mut self, flow: Flow, key: &[KeyTuple], owner: T) -> Result<(), NoPlace> {
        if (self.used + 1) * SPARSE > self.places.len() {
            self.grow();
        }
        let at = self.place(&flow);
        let place = &mut self.places[at];
        self.used += usize::from(place.is_none());
        let entry = place.get_or_insert(Entry { flow, plain: None, keyed: None });
        let keyed = entry.keyed.as_deref().map_or(&[][..], Vec::as_slice);
        let taken = if key.is_empty() { entry.plain.is_some() } else { keyed.iter().any(|(other, _)| other == key) };
        if taken {
            return Err(NoPlace::Exists);
        }
        if keyed.len() + usize::from(entry.plain.is_some()) >= KEYS_MAX {
            return Err(NoPlace::Full);
        }
        if key.is_empty() {
            entry.plain = Some(owner);
        } else {
            let keyed = entry.keyed.get_or_insert_default();
            let place = keyed.partition_point(|(other, _)| other.len() >= key.len());
            keyed.insert(place, (key.to_vec(), owner));
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, flow: &Flow, key: &[KeyTuple], owner: T) {
        let at = self.place(flow);
        let Some(Some(entry)) = self.places.get_mut(at) else { return };
        if key.is_empty() {
            entry.plain = entry.plain.filter(|other| *other != owner);
        } else if let Some(keyed) = &mut entry.keyed {
            keyed.retain(|(other, whose)| *whose != owner || other != key);
            if keyed.is_empty() {
                entry.keyed = None;
            }
        }
        if entry.plain.is_none() && entry.keyed.is_none() {
            self.close(at);
        }
    }

    /// A rule has another owner, in the place of the one before.
    pub(super) fn replace(&mut self, flow: &Flow, key: &[KeyTuple], before: T, after: T) {
        let at = self.place(flow);
        let Some(Some(entry)) = self.places.get_mut(at) else { return };
        let keyed = entry.keyed.iter_mut().flat_map(|keyed| keyed.iter_mut());
        let of_key = keyed.filter(|(other, _)| other == key).map(|(_, owner)| owner);
        let owner = if key.is_empty() { entry.plain.as_mut() } else { of_key.last() };
        owner.into_iter().filter(|owner| **owner == before).for_each(|owner| *owner = after);
    }

    /// Frees a place, and moves those behind it up that had to go past it.
    fn close(&mut self, mut hole: usize) {
        let mask = self.places.len() - 1;
        self.places[hole] = None;
        self.used -= 1;
        let mut at = (hole + 1) & mask;
        while let Some(entry) = &self.places[at] {
            let home = self.home(&entry.flow);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = self.places[at].take();
                hole = at;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let count = (self.places.len() * 2).max(LEAST);
        let mut places = Vec::new();
        cache::make_room(&mut places, count);
        places.resize_with(count, || None);
        let before = core::mem::replace(&mut self.places, places);
        for entry in before.into_iter().flatten() {
            let at = self.place(&entry.flow);
            self.places[at] = Some(entry);
        }
    }
}

/// The owner of the first key that holds.
#[cold]
fn first_of<T: Copy>(keyed: &Keyed<T>, payload: &[u8]) -> Option<T> {
    keyed.iter().find(|(key, _)| key.iter().all(|tuple| tuple.holds(payload))).map(|(_, owner)| *owner)
}

impl Flow {
    pub(super) fn of(rule: &Rule) -> Flow {
        let number = |field| rule.asks(field).as_number();
        Flow {
            source: rule.asks(Field::Source).as_words(),
            destination: rule.asks(Field::Destination).as_words(),
            source_port: number(Field::SourcePort),
            destination_port: number(Field::DestinationPort),
            kind: match rule.layer {
                Layer::Link => number(Field::Type),
                Layer::Anep => rule.kind.unwrap_or(0),
                _ => number(Field::Protocol),
            },
            port: rule.port.map_or(0, |port| port.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn flow(port: u16) -> Flow {
        Flow { destination_port: port, ..Flow::default() }
    }

    proptest! {
        /// Against a map, with flows that stand in each other's way.
        #[test]
        fn what_was_added_is_found_until_it_is_removed(
            secret in any::<u64>(),
            steps in prop::collection::vec((0u16..40, any::<bool>()), 1..300),
        ) {
            let (mut flows, mut model) = (Flows::new(secret), HashMap::new());
            for (port, add) in steps {
                let known = model.contains_key(&port);
                if add {
                    let added = flows.add(flow(port), &[], u32::from(port));
                    prop_assert_eq!(added, if known { Err(NoPlace::Exists) } else { Ok(()) });
                    model.insert(port, u32::from(port));
                } else {
                    flows.remove(&flow(port), &[], u32::from(port));
                    model.remove(&port);
                }
                for port in 0..40 {
                    prop_assert_eq!(flows.owner(&flow(port), b""), model.get(&port).copied());
                }
                prop_assert_eq!(flows.used, model.len());
                prop_assert!(flows.places.len() >= SPARSE * flows.used);
            }
        }
    }

    #[test]
    fn a_flow_that_many_share_has_room_for_a_few_keys() {
        let key = |value| [KeyTuple { offset: 0, length: 1, value, mask: 0xff }];
        let mut flows = Flows::new(1);
        for value in 0..KEYS_MAX as u64 {
            flows.add(flow(1), &key(value), value).unwrap();
        }
        assert_eq!(flows.add(flow(1), &key(99), 99), Err(NoPlace::Full));
        assert_eq!(flows.add(flow(1), &[], 99), Err(NoPlace::Full));
        flows.remove(&flow(1), &key(0), 0);
        flows.add(flow(1), &[], 99).unwrap();
        assert_eq!([0, 2, 77].map(|byte| flows.owner(&flow(1), &[byte])), [Some(99), Some(2), Some(99)]);
    }

    #[test]
    fn an_entry_is_a_cache_line() {
        assert_eq!(size_of::<Option<Entry<crate::graph::Taker>>>(), cache::LINE);
    }
}
