//! The replay window: refuses packets of a neighbour that have come already, by their counters (RFC 6479), without
//! shifting.
//!
//! Counters jump now and then, by much more than the window has ([`super::proofs`]). What was sent before a jump and is
//! overtaken by what was sent behind it still counts: the window of before stays until the next jump, for that stretch
//! alone.

/// Packets behind the newest one that may still come, each once.
pub const WINDOW: u64 = 1024;

const BITS: u64 = u64::BITS as u64;
/// One word more than the window has: it is cleared while the others are full.
const WORDS: u64 = WINDOW / BITS + 1;

/// The window of one sender.
#[derive(Clone, Debug)]
pub struct Window {
    newest: u64,
    /// No counter from here down counts, whatever the words say.
    floor: u64,
    seen: Seen,
    /// The stretch before the last jump.
    before: Option<Stretch>,
}

/// A bit for each counter, by its place in a ring of words.
type Seen = [u64; WORDS as usize];

/// Counters before a jump.
#[derive(Clone, Debug)]
struct Stretch {
    newest: u64,
    /// The last one that belongs to it: what comes behind is the other window's.
    end: u64,
    seen: Seen,
}

impl Window {
    /// A window in which all counters up to `floor` have come.
    pub fn above(floor: u64) -> Window {
        Window { newest: floor, floor, seen: [0; WORDS as usize], before: None }
    }

    /// Whether a packet with this counter may come. Nothing changes: it may be forged.
    #[inline]
    pub fn admits(&self, counter: u64) -> bool {
        if counter > self.newest {
            return true;
        }
        if self.newest - counter < WINDOW {
            return counter > self.floor && is_free(&self.seen, counter);
        }
        counter > self.floor && self.before.as_ref().is_some_and(|before| before.admits(counter))
    }

    /// One has come, and was no forgery.
    #[inline]
    pub fn came(&mut self, counter: u64) {
        if counter > self.newest && counter - self.newest >= WINDOW {
            self.jump(counter);
        }
        match &mut self.before {
            Some(before) if counter <= before.end && self.newest - counter >= WINDOW => {
                mark(&mut before.seen, &mut before.newest, counter);
            }
            _ => mark(&mut self.seen, &mut self.newest, counter),
        }
    }

    /// The next counter is beyond the window. What nobody has sent since the window began is no stretch: it would let
    /// in what was recorded before.
    #[cold]
    fn jump(&mut self, to: u64) {
        let end = (to - WINDOW).min(self.newest.saturating_add(WINDOW));
        let came = self.newest > self.floor;
        self.before = came.then_some(Stretch { newest: self.newest, end, seen: self.seen });
    }
}

impl Stretch {
    fn admits(&self, counter: u64) -> bool {
        let late = counter <= self.newest && self.newest - counter >= WINDOW;
        counter <= self.end && !late && (counter > self.newest || is_free(&self.seen, counter))
    }
}

#[inline]
fn is_free(seen: &Seen, counter: u64) -> bool {
    seen[(counter / BITS % WORDS) as usize] >> (counter % BITS) & 1 == 0
}

/// Notes a counter, and clears what the newest one moves the window over.
#[inline]
fn mark(seen: &mut Seen, newest: &mut u64, counter: u64) {
    if counter > *newest {
        let (from, to) = (*newest / BITS, counter / BITS);
        for word in from + 1..=to.min(from + WORDS) {
            seen[(word % WORDS) as usize] = 0;
        }
        *newest = counter;
    }
    seen[(counter / BITS % WORDS) as usize] |= 1 << (counter % BITS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use std::collections::HashSet;

    fn take(window: &mut Window, counter: u64) -> bool {
        let admits = window.admits(counter);
        if admits {
            window.came(counter);
        }
        admits
    }

    #[test]
    fn each_counter_comes_once_and_not_too_late() {
        let mut window = Window::above(100);
        assert!(!take(&mut window, 100) && !take(&mut window, 0));
        assert!(take(&mut window, 101) && !take(&mut window, 101));
        assert!(take(&mut window, 101 + WINDOW) && !take(&mut window, 101), "just outside");
        assert!(take(&mut window, 102) && !take(&mut window, 102), "just inside");
        assert!(take(&mut window, u64::MAX) && !take(&mut window, u64::MAX) && !take(&mut window, 5000));
    }

    #[test]
    fn what_is_overtaken_by_a_jump_still_counts_once_and_nothing_from_before_the_first() {
        let mut window = Window::above(100);
        assert!(take(&mut window, 1 << 40));
        assert!(!take(&mut window, 101), "it may have been recorded before this node knew anything");
        let last = (1 << 40) + 5;
        assert!(take(&mut window, last) && take(&mut window, 2 << 40));
        for counter in [last - 2, last + 3, last + 1, last - 1] {
            assert!(take(&mut window, counter) && !take(&mut window, counter), "{counter}");
        }
        assert!(!take(&mut window, last) && !take(&mut window, last + WINDOW + 1), "come already; or of nobody's");
        assert!(take(&mut window, 3 << 40) && !take(&mut window, last + 2), "two jumps are too long ago");
        assert!(!take(&mut window, 2 << 40) && take(&mut window, (2 << 40) + 1));
    }

    #[test]
    fn it_agrees_with_a_set_whatever_the_order() {
        for seed in 0..20 {
            let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
            let (mut window, mut came, mut newest) = (Window::above(1 << 40), HashSet::new(), 1u64 << 40);
            // The newest of the stretch before the last jump, and its end.
            let mut before: Option<(u64, u64)> = None;
            for _ in 0..20_000 {
                let step = match chance.next_u64() % 100 {
                    0 => chance.next_u64() % 5000,
                    _ => chance.next_u64() % 3,
                };
                let counter = (newest + step).saturating_sub(chance.next_u64() % 3000);
                let late = newest.saturating_sub(counter) >= WINDOW;
                let of_before =
                    before.is_some_and(|(last, end)| counter <= end && last.saturating_sub(counter) < WINDOW);
                let expected = counter > 1 << 40 && (!late || of_before) && !came.contains(&counter);
                assert_eq!(take(&mut window, counter), expected, "seed {seed}, {counter} behind {newest}");
                if !expected {
                    continue;
                }
                came.insert(counter);
                match &mut before {
                    Some((last, _)) if late => *last = counter.max(*last),
                    _ if counter >= newest + WINDOW => {
                        before = (newest > 1 << 40).then_some((newest, (counter - WINDOW).min(newest + WINDOW)));
                    }
                    _ => {}
                }
                newest = newest.max(counter);
            }
        }
    }
}
