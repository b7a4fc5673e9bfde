//! One direction of a link: rate, queue, delay, jitter, loss, doubling and reordering of its frames.
//!
//! A frame waits for those before it (serialisation), travels for the delay, and may be lost, doubled, or held back on
//! the way. The queue is no list: the time at which the line becomes free gives the number of waiting bytes. So it is a function
//! of what was put on it when, and of a source of chance; it reads no clock. The simulator drives it by virtual time, the process
//! that carries a lab's links by the system's clock.

use super::quality::LinkQuality;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;

/// The time over which load is averaged, in nanoseconds.
pub const WINDOW: u64 = 100_000_000;

/// What waits on a changed line takes so long at most, in nanoseconds.
const TIME_MAX: u128 = 1 << 62;

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

/// Where the chance of one direction of a lab's link begins: the link's number in the file, and the end that sends, 0 or 1.
pub fn chance(seed: u64, link: usize, end: usize) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add((2 * link + end) as u64))
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
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

/// What of a line's time frames have taken and will take. Any time after its last change tells queue and load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineUse {
    /// Capacity; 0 when nothing ever waits.
    pub bits_per_second: u64,
    /// When the last frame put on it has left, in nanoseconds.
    pub free_at: u64,
    /// Nanoseconds that all frames so far take.
    pub busy: u64,
    /// Number of the window in which it changed last.
    pub window: u64,
    /// Nanoseconds taken before that window.
    pub at_window: u64,
    /// Nanoseconds taken before the window before it.
    pub before_window: u64,
}

impl LineUse {
    /// Bytes that wait at `now`.
    #[inline]
    pub fn queued(&self, now: u64) -> u32 {
        let waiting = u128::from(self.free_at.saturating_sub(now)) * u128::from(self.bits_per_second) / 8_000_000_000;
        waiting.min(u128::from(u32::MAX)) as u32
    }

    /// Share of the last full window of 100 ms before `now` in which it was busy, in thousandths; none without a limit of its rate.
    pub fn load(&self, now: u64) -> Option<u32> {
        let (before, at) = self.marks(now / WINDOW);
        (self.bits_per_second > 0).then(|| (at.saturating_sub(before) * 1000 / WINDOW).min(1000) as u32)
    }

    /// Nanoseconds taken before `at`, no earlier than the last change: from there on it is busy until it is free.
    fn taken(&self, at: u64) -> u64 {
        self.busy.saturating_sub(self.free_at.saturating_sub(at))
    }

    /// Nanoseconds taken before the window before this one, and before this one.
    fn marks(&self, window: u64) -> (u64, u64) {
        let start = |window: u64| self.taken(window.saturating_mul(WINDOW));
        match window.saturating_sub(self.window) {
            0 => (self.before_window, self.at_window),
            1 => (self.at_window, start(window)),
            _ => (start(window - 1), start(window)),
        }
    }

    /// The same with another capacity, by which what waits at `now` takes so long.
    fn changed(&self, bits_per_second: u64, now: u64, time: u64) -> LineUse {
        let mut line = *self;
        line.turn_to(now);
        let busy = line.taken(now) + time;
        LineUse { bits_per_second, busy, free_at: now + time, ..line }
    }

    /// Has the marks be those of the window at `now`.
    #[inline]
    fn turn_to(&mut self, now: u64) {
        let window = now / WINDOW;
        if window > self.window {
            (self.before_window, self.at_window) = self.marks(window);
            self.window = window;
        }
    }

    /// A frame that takes so long is put on it at `now`; gives when it has left.
    #[inline]
    fn take(&mut self, now: u64, time: u64) -> u64 {
        self.turn_to(now);
        self.busy += time;
        self.free_at = self.free_at.max(now) + time;
        self.free_at
    }
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct LinkModel {
    /// How many causes keep it cut.
    pub cuts: u16,
    line: LineUse,
    /// What is left of a nanosecond, in bits times nanoseconds: without it many short frames would leave too early.
    rest: u128,
    queue_bytes: u64,
    queue_packets: usize,
    /// When frames leave that have not, if they are counted.
    leaving: VecDeque<u64>,
    delay: u64,
    jitter: u64,
    /// When the last frame arrives that was not held back, if times differ.
    latest: u64,
    loss: Chance,
    duplicate: Chance,
    reorder: Chance,
    reorder_ns: u64,
}

impl LinkModel {
    /// One on which nothing is yet. The quality was [checked](LinkQuality::check).
    pub fn new(quality: &LinkQuality) -> LinkModel {
        LinkModel {
            cuts: 0,
            line: LineUse { bits_per_second: quality.bits_per_second(), ..LineUse::default() },
            rest: 0,
            queue_bytes: u64::from(quality.queue_bytes),
            queue_packets: quality.queue_packets as usize,
            leaving: VecDeque::new(),
            delay: (quality.delay_ms * 1e6) as u64,
            jitter: (quality.jitter_ms * 1e6) as u64,
            latest: 0,
            loss: Chance::new(quality.loss),
            duplicate: Chance::new(quality.duplicate),
            reorder: Chance::new(quality.reorder),
            reorder_ns: (quality.reorder_ms * 1e6) as u64,
        }
    }

    /// The same link with another quality from `now` on: bytes that wait leave first, by its rate. Frames on it keep the times that
    /// they were told.
    pub fn changed(&self, quality: &LinkQuality, now: u64) -> LinkModel {
        let mut model = LinkModel::new(quality);
        let rate = model.line.bits_per_second;
        let time = (u128::from(self.queued(now)) * 8_000_000_000).checked_div(rate.into()).unwrap_or(0);
        model.line = self.line.changed(rate, now, time.min(TIME_MAX) as u64);
        model.cuts = self.cuts;
        model
    }

    /// Whether frames ever wait for it.
    pub fn is_limited(&self) -> bool {
        self.line.bits_per_second > 0
    }

    /// What of its time is taken.
    pub fn line(&self) -> &LineUse {
        &self.line
    }

    /// Bytes that wait at `now`.
    #[inline]
    pub fn queued(&self, now: u64) -> u32 {
        self.line.queued(now)
    }

    /// A frame of so many bytes is put on the line at `now`, which is no earlier than before.
    #[inline]
    pub fn carry(&mut self, now: u64, bytes: usize, rng: &mut Xoshiro256PlusPlus) -> Fate {
        let mut left = now;
        if self.is_limited() {
            if u64::from(self.queued(now)) + bytes as u64 > self.queue_bytes || !self.has_place(now) {
                return Fate::Full;
            }
            let (work, rate) = (bytes as u128 * 8_000_000_000 + self.rest, u128::from(self.line.bits_per_second));
            self.rest = work % rate;
            left = self.line.take(now, (work / rate) as u64);
            if self.queue_packets > 0 {
                self.leaving.push_back(left);
            }
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

    /// Whether one more frame may wait, where frames are counted.
    #[inline]
    fn has_place(&mut self, now: u64) -> bool {
        if self.queue_packets == 0 {
            return true;
        }
        while self.leaving.front().is_some_and(|left| *left <= now) {
            self.leaving.pop_front();
        }
        self.leaving.len() < self.queue_packets
    }

    #[inline]
    fn arrival(&mut self, left: u64, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let mut at = left + self.delay;
        if self.jitter > 0 {
            at = (at - self.jitter + rng.next_u64() % (2 * self.jitter + 1)).max(self.latest);
            self.latest = at;
        }
        let held = if self.reorder.strikes(rng) && self.reorder_ns > 0 { rng.next_u64() % self.reorder_ns } else { 0 };
        at + held
    }
}

#[cfg(test)]
mod tests;
