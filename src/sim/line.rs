//! One direction of a link: delay, loss, doubling and reordering of its frames.
//!
//! A frame waits for those before it (serialisation), travels for the delay, and may be lost, doubled, or held back on
//! the way. The queue is not a list: the time at which the line becomes free gives the number of waiting bytes.

use super::network::{Carries, Line};
use crate::frame::{PeerId, PortId};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A chance, as the share of 2^64 random numbers that are below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chance(u64);

impl Chance {
    fn new(share: f64) -> Chance {
        // A share of 1 saturates: it fails once in 2^64 times.
        Chance((share * 18_446_744_073_709_551_616.0) as u64)
    }

    #[inline]
    fn strikes(self, rng: &mut Xoshiro256PlusPlus) -> bool {
        self.0 > 0 && rng.next_u64() < self.0
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It arrives then (nanoseconds).
    Arrives(u64),
    /// It arrives twice.
    Twice(u64, u64),
    /// It is lost.
    Lost,
    /// The link is cut.
    Cut,
    /// Too many wait already.
    Full,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    /// The node at the end.
    pub(super) to: u32,
    /// Its port there.
    pub(super) to_port: PortId,
    /// The peer that frames come from there.
    pub(super) to_peer: PeerId,
    /// How many causes keep the link cut.
    pub(super) cuts: u16,
    delay: u64,
    bits_per_second: u64,
    queue_bytes: u64,
    loss: Chance,
    duplicate: Chance,
    reorder: Chance,
    reorder_ns: u64,
    /// When the last frame put on it has left, in nanoseconds.
    free_at: u64,
}

impl Direction {
    pub(super) fn new(to: usize, to_port: usize, line: &Line) -> Direction {
        Direction {
            to: to as u32,
            to_port: PortId(to_port as u16),
            to_peer: if line.carries == Carries::Overlay { PeerId(0) } else { PeerId::NONE },
            cuts: 0,
            delay: (line.delay_ms * 1e6) as u64,
            bits_per_second: (line.rate_mbit * 1e6) as u64,
            queue_bytes: u64::from(line.queue_bytes),
            loss: Chance::new(line.loss),
            duplicate: Chance::new(line.duplicate),
            reorder: Chance::new(line.reorder),
            reorder_ns: (line.reorder_ms * 1e6) as u64,
            free_at: 0,
        }
    }

    /// Whether frames ever wait for it.
    pub(super) fn is_limited(&self) -> bool {
        self.bits_per_second > 0
    }

    /// Bytes that wait at `now`.
    #[inline]
    pub(super) fn queued(&self, now: u64) -> u32 {
        let waiting = u128::from(self.free_at.saturating_sub(now)) * u128::from(self.bits_per_second) / 8_000_000_000;
        waiting.min(u128::from(u32::MAX)) as u32
    }

    /// A frame of so many bytes is put on the line at `now`.
    #[inline]
    pub(super) fn carry(&mut self, now: u64, bytes: usize, rng: &mut Xoshiro256PlusPlus) -> Fate {
        let mut left = now;
        if self.is_limited() {
            if u64::from(self.queued(now)) + bytes as u64 > self.queue_bytes {
                return Fate::Full;
            }
            let time = bytes as u128 * 8_000_000_000 / u128::from(self.bits_per_second);
            left = self.free_at.max(now) + time as u64;
            self.free_at = left;
        }
        if self.cuts > 0 {
            return Fate::Cut;
        }
        if self.loss.strikes(rng) {
            return Fate::Lost;
        }
        let first = self.arrival(left, rng);
        if self.duplicate.strikes(rng) {
            let second = self.arrival(left, rng);
            return Fate::Twice(first, second);
        }
        Fate::Arrives(first)
    }

    #[inline]
    fn arrival(&self, left: u64, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let held = if self.reorder.strikes(rng) && self.reorder_ns > 0 { rng.next_u64() % self.reorder_ns } else { 0 };
        left + self.delay + held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;

    const MS: u64 = 1_000_000;

    fn rng() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(1)
    }

    #[test]
    fn frames_wait_for_those_before_them_and_a_full_queue_refuses() {
        let line = Line { rate_mbit: 8.0, queue_bytes: 2500, ..Line::default() };
        let mut direction = Direction::new(1, 0, &line);
        let rng = &mut rng();
        assert_eq!(direction.carry(0, 1000, rng), Fate::Arrives(2 * MS));
        assert_eq!(direction.carry(0, 1000, rng), Fate::Arrives(3 * MS));
        assert_eq!(direction.queued(0), 2000);
        assert_eq!(direction.carry(0, 1000, rng), Fate::Full);
        assert_eq!(direction.queued(MS), 1000);
        assert_eq!(direction.carry(MS, 1000, rng), Fate::Arrives(4 * MS));
        assert_eq!(direction.queued(60_000 * MS), 0);
    }

    #[test]
    fn chances_strike_as_often_as_they_say() {
        let line = Line { loss: 0.2, duplicate: 0.1, ..Line::default() };
        let mut direction = Direction::new(1, 0, &line);
        let rng = &mut rng();
        let fates: Vec<_> = (0..100_000).map(|_| direction.carry(0, 100, rng)).collect();
        let lost = fates.iter().filter(|fate| **fate == Fate::Lost).count();
        let twice = fates.iter().filter(|fate| matches!(fate, Fate::Twice(..))).count();
        assert!((19_000..21_000).contains(&lost), "{lost}");
        assert!((7_400..8_600).contains(&twice), "{twice}");
    }

    #[test]
    fn a_cut_link_carries_nothing() {
        let mut direction = Direction::new(1, 0, &Line::default());
        direction.cuts = 1;
        assert_eq!(direction.carry(0, 100, &mut rng()), Fate::Cut);
    }
}
