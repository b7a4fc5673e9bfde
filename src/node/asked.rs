//! Who was asked for credentials of one code, and when each can be asked again.
//!
//! Example: a neighbour has none, since it asks the owner itself at that moment; a second later it has. So an answer
//! holds for a while only: for 1 s, then 2 s, 4 s … 60 s. Who was asked longest ago gives way to who was never asked,
//! so that nobody is kept from being asked by many others.

use crate::frame::Payer;

/// Neighbours, or all strangers of a port together, that are remembered for one code.
const MOST: usize = 64;

/// For how long who was asked is not asked again, in nanoseconds; it doubles each time.
const PAUSE: u64 = 1_000_000_000;

/// The longest such time.
const PAUSE_MAX: u64 = 60_000_000_000;

/// One who was asked.
struct Row {
    payer: Payer,
    /// How often, as far as that counts.
    times: u8,
    /// When it was the last time.
    at: u64,
}

impl Row {
    fn again(&self) -> u64 {
        let pause = PAUSE << self.times.saturating_sub(1).min(6);
        self.at.saturating_add(pause.min(PAUSE_MAX))
    }
}

/// All of them, in the order of their numbers.
#[derive(Default)]
pub(super) struct Asked(Vec<Row>);

impl Asked {
    /// Whether one may be asked: never was, or its pause is over. In a full list somebody's first one must be.
    #[inline]
    pub(super) fn may_ask(&self, payer: Payer, now: u64) -> bool {
        match self.find(payer) {
            Ok(at) => self.0.get(at).is_some_and(|row| now >= row.again()),
            Err(_) => self.0.len() < MOST || self.oldest().is_some_and(|(_, at)| now >= at.saturating_add(PAUSE)),
        }
    }

    /// One is asked now; in a full list who was asked longest ago is forgotten.
    pub(super) fn note(&mut self, payer: Payer, now: u64) {
        if self.find(payer).is_err() && self.0.len() >= MOST {
            self.oldest().into_iter().for_each(|(place, _)| _ = self.0.remove(place));
        }
        match self.find(payer) {
            Ok(at) => {
                self.0.get_mut(at).into_iter().for_each(|row| (row.times, row.at) = (row.times.saturating_add(1), now));
            }
            Err(at) => self.0.insert(at, Row { payer, times: 1, at: now }),
        }
    }

    fn find(&self, payer: Payer) -> Result<usize, usize> {
        self.0.binary_search_by_key(&payer, |row| row.payer)
    }

    /// The place of who was asked longest ago, and when.
    fn oldest(&self) -> Option<(usize, u64)> {
        self.0.iter().enumerate().map(|(place, row)| (place, row.at)).min_by_key(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_asked_is_asked_again_after_pauses_that_double() {
        let mut asked = Asked::default();
        let (mut now, mut pauses) = (0, vec![]);
        for _ in 0..9 {
            assert!(asked.may_ask(Payer(1), now));
            asked.note(Payer(1), now);
            let next = (1..).map(|seconds| now + seconds * PAUSE).find(|at| asked.may_ask(Payer(1), *at)).unwrap();
            pauses.push((next - now) / PAUSE);
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(asked.may_ask(Payer(2), now), "each has pauses of its own");
    }

    #[test]
    fn in_a_full_list_who_was_asked_longest_ago_gives_way_to_who_never_was() {
        let mut asked = Asked::default();
        (0..MOST as u16).for_each(|number| asked.note(Payer(number), u64::from(number)));
        assert!(!asked.may_ask(Payer(999), PAUSE - 1));
        assert!(asked.may_ask(Payer(999), PAUSE));
        asked.note(Payer(999), PAUSE);
        assert!(asked.0.len() == MOST && asked.find(Payer(0)).is_err() && asked.find(Payer(1)).is_ok());
        // And who gave way is asked as anew.
        asked.note(Payer(0), 2 * PAUSE);
        assert!(asked.may_ask(Payer(0), 3 * PAUSE) && asked.0.len() == MOST);
    }
}
