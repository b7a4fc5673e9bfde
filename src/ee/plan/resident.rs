//! Data that programs leave at the node for those that come later.
//!
//! A value stands under a name and a key; who does not know the key cannot get at it. It is kept for as long as its
//! program says, five minutes at most. There is room for so many values of so much weight; when it is used up,
//! putting another one raises an exception until something has expired.

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
    weight: u64,
    until: u64,
}

/// What was at a place before.
#[derive(Debug)]
pub struct Before(Place, Option<Kept>);

/// The data of one node.
#[derive(Default)]
pub struct Resident {
    kept: HashMap<Place, Kept>,
    weight: u64,
}

impl Resident {
    /// The value at a place.
    pub fn value(&self, now: u64, name: &[u8], key: [u8; 16]) -> Option<Value> {
        let kept = self.kept.get(&(name.into(), key))?;
        (kept.until > now).then(|| kept.value.clone())
    }

    /// Puts a value at a place for so many seconds; kept for no time, what is there goes. None if there is no room.
    pub fn put(&mut self, now: u64, place: Place, value: &Value, seconds: i64) -> Option<Before> {
        if place.0.len() > NAME_MAX {
            return None;
        }
        if seconds <= 0 {
            let before = self.take(&place);
            return Some(Before(place, before));
        }
        let weight = u64::from(value.extent().weight) + 4;
        let freed = self.kept.get(&place).map_or(0, |kept| kept.weight);
        let more = usize::from(freed == 0);
        if self.weight - freed + weight > WEIGHT_MAX || self.kept.len() + more > VALUES_MAX {
            self.sweep(now);
            if self.weight + weight > WEIGHT_MAX || self.kept.len() >= VALUES_MAX {
                return None;
            }
        }
        let before = self.take(&place);
        let until = now.saturating_add(seconds.min(SECONDS_MAX) as u64 * 1_000_000_000);
        self.weight += weight;
        self.kept.insert(place.clone(), Kept { value: value.clone(), weight, until });
        Some(Before(place, before))
    }

    /// Puts back what was there.
    pub fn undo(&mut self, Before(place, kept): Before) {
        self.take(&place);
        if let Some(kept) = kept {
            self.weight += kept.weight;
            self.kept.insert(place, kept);
        }
    }

    fn take(&mut self, place: &Place) -> Option<Kept> {
        let kept = self.kept.remove(place)?;
        self.weight -= kept.weight;
        Some(kept)
    }

    /// Forgets what has expired.
    pub fn sweep(&mut self, now: u64) {
        self.kept.retain(|_, kept| kept.until > now);
        self.weight = self.kept.values().map(|kept| kept.weight).sum();
    }

    /// How many values there are, and their weight.
    pub fn size(&self) -> (usize, u64) {
        (self.kept.len(), self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn place(name: &str) -> Place {
        (name.as_bytes().into(), [1; 16])
    }

    #[test]
    fn values_last_as_long_as_they_should_and_five_minutes_at_most() {
        let mut resident = Resident::default();
        assert!(resident.put(0, place("a"), &Value::Int(1), 1).is_some());
        assert!(resident.put(0, place("b"), &Value::Int(2), i64::MAX).is_some());
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
        let first = resident.put(0, place("a"), &Value::Int(1), 9).unwrap();
        let second = resident.put(0, place("a"), &Value::Int(2), 9).unwrap();
        let third = resident.put(0, place("a"), &Value::Unit, 0).unwrap();
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
            resident.put(now, place(&number.to_string()), &heavy, 1).is_some()
        };
        let fit = (0..10).filter(|number| put(&mut resident, 0, *number)).count();
        assert_eq!(fit, 4);
        assert!(put(&mut resident, 0, 0), "in the place of what it replaces");
        assert!(put(&mut resident, SECOND, 9));
        for number in 0..2 * VALUES_MAX {
            resident.put(SECOND, place(&number.to_string()), &Value::Unit, 1);
        }
        assert_eq!(resident.size().0, VALUES_MAX);
        assert!(resident.put(0, ([0; NAME_MAX + 1].into(), [0; 16]), &Value::Unit, 1).is_none());
    }
}
