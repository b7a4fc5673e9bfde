//! Which packets of a neighbour have come already: a window over their counters (RFC 6479), without shifting.

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
    seen: [u64; WORDS as usize],
}

impl Window {
    /// A window in which all counters up to `floor` have come.
    pub fn above(floor: u64) -> Window {
        Window { newest: floor, floor, seen: [0; WORDS as usize] }
    }

    /// Whether a packet with this counter may come. Nothing changes: it may be forged.
    #[inline]
    pub fn admits(&self, counter: u64) -> bool {
        if counter > self.newest {
            return true;
        }
        counter > self.floor && self.newest - counter < WINDOW && self.word(counter) >> (counter % BITS) & 1 == 0
    }

    /// One has come, and was no forgery.
    #[inline]
    pub fn came(&mut self, counter: u64) {
        if counter > self.newest {
            let (from, to) = (self.newest / BITS, counter / BITS);
            for word in from + 1..=to.min(from + WORDS) {
                self.seen[(word % WORDS) as usize] = 0;
            }
            self.newest = counter;
        }
        self.seen[(counter / BITS % WORDS) as usize] |= 1 << (counter % BITS);
    }

    #[inline]
    fn word(&self, counter: u64) -> u64 {
        self.seen[(counter / BITS % WORDS) as usize]
    }
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
    fn it_agrees_with_a_set_whatever_the_order() {
        for seed in 0..20 {
            let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
            let (mut window, mut came, mut newest) = (Window::above(1 << 40), HashSet::new(), 1u64 << 40);
            for _ in 0..20_000 {
                let step = match chance.next_u64() % 100 {
                    0 => chance.next_u64() % 5000,
                    _ => chance.next_u64() % 3,
                };
                let counter = (newest + step).saturating_sub(chance.next_u64() % 1100);
                let late = newest.saturating_sub(counter) >= WINDOW && counter <= newest;
                let expected = counter > 1 << 40 && !late && !came.contains(&counter);
                assert_eq!(take(&mut window, counter), expected, "seed {seed}, {counter} behind {newest}");
                if expected {
                    came.insert(counter);
                    newest = newest.max(counter);
                }
            }
        }
    }
}
