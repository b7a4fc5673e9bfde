//! Resident data: values left at the node by programs for later programs. Example: `put("best", key, 7, 60)`.
//!
//! A value stands under a name and a key; who does not know the key cannot get at it. It is kept for as long as its
//! program says, five minutes at most. It is kept as bytes, with the codes of its chunks, as it would travel: so what
//! it counts is what it takes, and it keeps nothing else alive. There is room for so many values of so many bytes, and
//! each holder has a share of it ([`Shares`]): a principal whose signature counts, or all others of one neighbour
//! together, or all strangers of a port. When its share is used up, putting another one raises an exception until
//! something has expired.

use super::holders::Holder;
use crate::frame::shares::Shares;
use std::collections::HashMap;
use std::sync::Arc;

/// Values kept.
const VALUES_MAX: usize = 4096;

/// Bytes of all of them.
const BYTES_MAX: u64 = 4 << 20;

/// Bytes that keeping a value takes besides its own and those of its name, at most.
const AROUND: usize = 256;

/// The longest name.
const NAME_MAX: usize = 64;

/// The longest time, in seconds.
pub const SECONDS_MAX: i64 = 300;

/// Name and key of a value.
pub type ResidentPlace = (Box<[u8]>, [u8; 16]);

#[derive(Debug)]
struct Kept {
    value: Arc<[u8]>,
    holder: Holder,
    /// What it counts.
    bytes: u64,
    until: u64,
}

/// What was at a place before.
#[derive(Debug)]
pub struct Before(ResidentPlace, Option<Kept>);

/// The data of one node.
pub struct Resident {
    kept: HashMap<ResidentPlace, Kept>,
    bytes: Shares<Holder>,
    counts: Shares<Holder>,
    /// Nothing expires before.
    first: u64,
}

impl Default for Resident {
    fn default() -> Resident {
        let (bytes, counts) = (Shares::new(BYTES_MAX), Shares::new(VALUES_MAX as u64));
        Resident { kept: HashMap::new(), bytes, counts, first: u64::MAX }
    }
}

impl Resident {
    /// The bytes at a place.
    pub fn value(&self, now: u64, name: &[u8], key: [u8; 16]) -> Option<Arc<[u8]>> {
        let kept = self.kept.get(&(name.into(), key))?;
        (kept.until > now).then(|| kept.value.clone())
    }

    /// Puts bytes at a place for so many seconds; kept for no time, what is there goes. None if their holder has no room.
    pub fn put(
        &mut self,
        now: u64,
        holder: Holder,
        place: ResidentPlace,
        value: &[u8],
        seconds: i64,
    ) -> Option<Before> {
        if place.0.len() > NAME_MAX {
            return None;
        }
        if seconds <= 0 {
            let before = self.take(&place);
            return Some(Before(place, before));
        }
        let bytes = (value.len() + place.0.len() + AROUND) as u64;
        let before = self.take(&place);
        if !self.has_room(holder, bytes) {
            self.sweep(now);
        }
        if !self.has_room(holder, bytes) {
            self.undo(Before(place, before));
            return None;
        }
        let until = now.saturating_add(seconds.min(SECONDS_MAX) as u64 * 1_000_000_000);
        self.keep(place.clone(), Kept { value: value.into(), holder, bytes, until });
        Some(Before(place, before))
    }

    fn has_room(&self, holder: Holder, bytes: u64) -> bool {
        self.bytes.fits(holder, bytes) && self.counts.fits(holder, 1)
    }

    fn keep(&mut self, place: ResidentPlace, kept: Kept) {
        self.bytes.take_back(kept.holder, kept.bytes);
        self.counts.take_back(kept.holder, 1);
        self.first = self.first.min(kept.until);
        self.kept.insert(place, kept);
    }

    /// Puts back what was there.
    pub fn undo(&mut self, Before(place, kept): Before) {
        self.take(&place);
        if let Some(kept) = kept {
            self.keep(place, kept);
        }
    }

    fn take(&mut self, place: &ResidentPlace) -> Option<Kept> {
        let kept = self.kept.remove(place)?;
        self.bytes.give(kept.holder, kept.bytes);
        self.counts.give(kept.holder, 1);
        Some(kept)
    }

    /// Forgets what has expired. Where nothing can have, nothing is looked at: who has no room may try as often as it likes.
    pub fn sweep(&mut self, now: u64) {
        if self.first <= now {
            self.retain(|kept| kept.until > now);
        }
    }

    /// Forgets what a holder has, who is none any more.
    pub fn leave(&mut self, holder: Holder) {
        self.retain(|kept| kept.holder != holder);
    }

    fn retain(&mut self, stays: impl Fn(&Kept) -> bool) {
        let Resident { kept, bytes, counts, first } = self;
        *first = u64::MAX;
        kept.retain(|_, kept| {
            let stays = stays(kept);
            if stays {
                *first = kept.until.min(*first);
            } else {
                bytes.give(kept.holder, kept.bytes);
                counts.give(kept.holder, 1);
            }
            stays
        });
    }

    /// How many values there are, and what they count.
    pub fn size(&self) -> (usize, u64) {
        (self.kept.len(), self.bytes.held())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Payer;

    const SECOND: u64 = 1_000_000_000;

    fn place(name: &str) -> ResidentPlace {
        (name.as_bytes().into(), [1; 16])
    }

    #[test]
    fn values_last_as_long_as_they_should_and_five_minutes_at_most() {
        let mut resident = Resident::default();
        assert!(resident.put(0, Holder::HERE, place("a"), b"1", 1).is_some());
        assert!(resident.put(0, Holder::HERE, place("b"), b"2", i64::MAX).is_some());
        let value = |resident: &Resident, name: &str, now| resident.value(now, name.as_bytes(), [1; 16]);
        assert_eq!(value(&resident, "a", SECOND - 1).as_deref(), Some(&b"1"[..]));
        assert_eq!(value(&resident, "a", SECOND), None);
        assert_eq!(value(&resident, "b", 300 * SECOND - 1).as_deref(), Some(&b"2"[..]));
        assert_eq!(resident.value(0, b"a", [2; 16]), None, "another key");
        resident.sweep(SECOND);
        assert_eq!((resident.size().0, resident.first), (1, 300 * SECOND));
        resident.sweep(300 * SECOND);
        assert_eq!(resident.size(), (0, 0));
    }

    #[test]
    fn what_is_undone_was_never_done() {
        let mut resident = Resident::default();
        let first = resident.put(0, Holder::HERE, place("a"), b"1", 9).unwrap();
        let second = resident.put(0, Holder::Principal(1), place("a"), b"2", 9).unwrap();
        let third = resident.put(0, Holder::HERE, place("a"), b"", 0).unwrap();
        for (before, value) in [(third, Some(&b"2"[..])), (second, Some(b"1")), (first, None)] {
            resident.undo(before);
            assert_eq!(resident.value(0, b"a", [1; 16]).as_deref(), value);
        }
        assert_eq!(resident.size(), (0, 0));
    }

    #[test]
    fn room_is_bounded_and_comes_back() {
        let mut resident = Resident::default();
        let heavy = vec![7; 60_000];
        let put = |resident: &mut Resident, now, number: usize| {
            resident.put(now, Holder::HERE, place(&number.to_string()), &heavy, 1).is_some()
        };
        let fit = (0..200).filter(|number| put(&mut resident, 0, *number)).count();
        assert_eq!(fit, 34, "of 69 that there is room for");
        assert!(resident.size().1 <= BYTES_MAX / 2);
        assert!(put(&mut resident, 0, 0), "in the place of what it replaces");
        assert!(put(&mut resident, SECOND, 300));
        for number in 0..2 * VALUES_MAX {
            resident.put(SECOND, Holder::HERE, place(&number.to_string()), b"", 1);
        }
        assert_eq!(resident.size().0, VALUES_MAX / 2);
        assert!(resident.put(0, Holder::HERE, ([0; NAME_MAX + 1].into(), [0; 16]), b"", 1).is_none());
    }

    #[test]
    fn what_strangers_of_one_neighbour_put_leaves_room_for_those_of_others() {
        let mut resident = Resident::default();
        let heavy = vec![7; 60_000];
        let neighbour = |row| Holder::Behind(Payer(row));
        for number in 0..200 {
            resident.put(0, neighbour(0), place(&number.to_string()), &heavy, 300);
        }
        let others = [neighbour(1), neighbour(2), Holder::Principal(3), Holder::HERE];
        for (number, holder) in others.into_iter().enumerate() {
            let place = place(&format!("other {number}"));
            assert!(resident.put(1, holder, place, &heavy, 300).is_some());
        }
    }
}
