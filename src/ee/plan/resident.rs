//! Data that programs leave at the node for those that come later.
//!
//! A value stands under a name and a key; who does not know the key cannot get at it. It is kept for as long as its
//! program says, five minutes at most. There is room for so many values of so much weight, and each holder has a share of it
//! ([`Shares`]): a principal whose signature counts, or all others of one neighbour together, or all strangers of a port. When its share is
//! used up, putting another one raises an exception until something has expired.

use super::holders::Holder;
use crate::frame::shares::Shares;
use plan::value::Value;
use std::collections::HashMap;

/// Values kept.
const VALUES_MAX: usize = 4096;

/// Weight of all of them: about 32 octets each.
const WEIGHT_MAX: u64 = 1 << 18;

/// The longest name.
const NAME_MAX: usize = 64;

/// The longest time, in seconds.
pub const SECONDS_MAX: i64 = 300;

/// Name and key of a value.
pub type Place = (Box<[u8]>, [u8; 16]);

#[derive(Debug)]
struct Kept {
    value: Value,
    holder: Holder,
    weight: u64,
    until: u64,
}

/// What was at a place before.
#[derive(Debug)]
pub struct Before(Place, Option<Kept>);

/// The data of one node.
pub struct Resident {
    kept: HashMap<Place, Kept>,
    weights: Shares<Holder>,
    counts: Shares<Holder>,
}

impl Default for Resident {
    fn default() -> Resident {
        let (weights, counts) = (Shares::new(WEIGHT_MAX), Shares::new(VALUES_MAX as u64));
        Resident { kept: HashMap::new(), weights, counts }
    }
}

impl Resident {
    /// The value at a place.
    pub fn value(&self, now: u64, name: &[u8], key: [u8; 16]) -> Option<Value> {
        let kept = self.kept.get(&(name.into(), key))?;
        (kept.until > now).then(|| kept.value.clone())
    }

    /// Puts a value at a place for so many seconds; kept for no time, what is there goes. None if its holder has no room.
    pub fn put(&mut self, now: u64, holder: Holder, place: Place, value: &Value, seconds: i64) -> Option<Before> {
        if place.0.len() > NAME_MAX {
            return None;
        }
        if seconds <= 0 {
            let before = self.take(&place);
            return Some(Before(place, before));
        }
        let weight = u64::from(value.extent().weight) + 4;
        let before = self.take(&place);
        if !self.has_room(holder, weight) {
            self.sweep(now);
        }
        if !self.has_room(holder, weight) {
            self.undo(Before(place, before));
            return None;
        }
        let until = now.saturating_add(seconds.min(SECONDS_MAX) as u64 * 1_000_000_000);
        self.keep(place.clone(), Kept { value: value.clone(), holder, weight, until });
        Some(Before(place, before))
    }

    fn has_room(&self, holder: Holder, weight: u64) -> bool {
        self.weights.fits(holder, weight) && self.counts.fits(holder, 1)
    }

    fn keep(&mut self, place: Place, kept: Kept) {
        self.weights.take_back(kept.holder, kept.weight);
        self.counts.take_back(kept.holder, 1);
        self.kept.insert(place, kept);
    }

    /// Puts back what was there.
    pub fn undo(&mut self, Before(place, kept): Before) {
        self.take(&place);
        if let Some(kept) = kept {
            self.keep(place, kept);
        }
    }

    fn take(&mut self, place: &Place) -> Option<Kept> {
        let kept = self.kept.remove(place)?;
        self.weights.give(kept.holder, kept.weight);
        self.counts.give(kept.holder, 1);
        Some(kept)
    }

    /// Forgets what has expired.
    pub fn sweep(&mut self, now: u64) {
        self.retain(|kept| kept.until > now);
    }

    /// Forgets what a holder has, who is none any more.
    pub fn leave(&mut self, holder: Holder) {
        self.retain(|kept| kept.holder != holder);
    }

    fn retain(&mut self, stays: impl Fn(&Kept) -> bool) {
        let Resident { kept, weights, counts } = self;
        kept.retain(|_, kept| {
            let stays = stays(kept);
            if !stays {
                weights.give(kept.holder, kept.weight);
                counts.give(kept.holder, 1);
            }
            stays
        });
    }

    /// How many values there are, and their weight.
    pub fn size(&self) -> (usize, u64) {
        (self.kept.len(), self.weights.held())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Payer;

    const SECOND: u64 = 1_000_000_000;

    fn place(name: &str) -> Place {
        (name.as_bytes().into(), [1; 16])
    }

    #[test]
    fn values_last_as_long_as_they_should_and_five_minutes_at_most() {
        let mut resident = Resident::default();
        assert!(resident.put(0, Holder::HERE, place("a"), &Value::Int(1), 1).is_some());
        assert!(resident.put(0, Holder::HERE, place("b"), &Value::Int(2), i64::MAX).is_some());
        let value = |resident: &Resident, name: &str, now| resident.value(now, name.as_bytes(), [1; 16]);
        assert_eq!(value(&resident, "a", SECOND - 1), Some(Value::Int(1)));
        assert_eq!(value(&resident, "a", SECOND), None);
        assert_eq!(value(&resident, "b", 300 * SECOND - 1), Some(Value::Int(2)));
        assert_eq!(resident.value(0, b"a", [2; 16]), None, "another key");
        resident.sweep(300 * SECOND);
        assert_eq!(resident.size(), (0, 0));
    }

    #[test]
    fn what_is_undone_was_never_done() {
        let mut resident = Resident::default();
        let first = resident.put(0, Holder::HERE, place("a"), &Value::Int(1), 9).unwrap();
        let second = resident.put(0, Holder::Principal(1), place("a"), &Value::Int(2), 9).unwrap();
        let third = resident.put(0, Holder::HERE, place("a"), &Value::Unit, 0).unwrap();
        for (before, value) in [(third, Some(2)), (second, Some(1)), (first, None)] {
            resident.undo(before);
            assert_eq!(resident.value(0, b"a", [1; 16]), value.map(Value::Int));
        }
        assert_eq!(resident.size(), (0, 0));
    }

    #[test]
    fn room_is_bounded_and_comes_back() {
        let mut resident = Resident::default();
        let heavy = Value::list((0..60_000).map(Value::Int)).unwrap();
        let put = |resident: &mut Resident, now, number: usize| {
            resident.put(now, Holder::HERE, place(&number.to_string()), &heavy, 1).is_some()
        };
        let fit = (0..10).filter(|number| put(&mut resident, 0, *number)).count();
        assert_eq!(fit, 2, "of four that there is room for");
        assert!(put(&mut resident, 0, 0), "in the place of what it replaces");
        assert!(put(&mut resident, SECOND, 9));
        for number in 0..2 * VALUES_MAX {
            resident.put(SECOND, Holder::HERE, place(&number.to_string()), &Value::Unit, 1);
        }
        assert_eq!(resident.size().0, VALUES_MAX / 2);
        assert!(resident.put(0, Holder::HERE, ([0; NAME_MAX + 1].into(), [0; 16]), &Value::Unit, 1).is_none());
    }

    #[test]
    fn what_strangers_of_one_neighbour_put_leaves_room_for_those_of_others() {
        let mut resident = Resident::default();
        let heavy = Value::list((0..60_000).map(Value::Int)).unwrap();
        let neighbour = |row| Holder::Behind(Payer(row));
        for number in 0..10 {
            resident.put(0, neighbour(0), place(&number.to_string()), &heavy, 300);
        }
        let others = [neighbour(1), neighbour(2), Holder::Principal(3), Holder::HERE];
        for (number, holder) in others.into_iter().enumerate() {
            let place = place(&format!("other {number}"));
            assert!(resident.put(1, holder, place, &Value::list((0..5000).map(Value::Int)).unwrap(), 300).is_some());
        }
    }
}
