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
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rng(seed: u64) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(seed)
    }

    fn model(quality: LinkQuality) -> LinkModel {
        quality.check().unwrap();
        LinkModel::new(&quality)
    }

    /// 1000 bytes take a millisecond, and as much to the other end.
    fn slow() -> LinkQuality {
        LinkQuality { rate_mbit: 8.0, delay_ms: 1.0, ..LinkQuality::default() }
    }

    #[test]
    fn frames_wait_for_those_before_them_and_a_full_queue_refuses() {
        let mut link = model(LinkQuality { queue_bytes: 2500, ..slow() });
        let rng = &mut rng(1);
        assert_eq!(link.carry(0, 1000, rng), Fate::Arrives(2 * MS));
        assert_eq!(link.carry(0, 1000, rng), Fate::Arrives(3 * MS));
        assert_eq!(link.queued(0), 2000);
        assert_eq!(link.carry(0, 1000, rng), Fate::Full);
        assert_eq!(link.queued(MS), 1000);
        assert_eq!(link.carry(MS, 1000, rng), Fate::Arrives(4 * MS));
        assert_eq!(link.queued(60_000 * MS), 0);
    }

    #[test]
    fn a_queue_may_be_full_of_frames_however_short() {
        let mut link = model(LinkQuality { queue_packets: 2, ..slow() });
        let rng = &mut rng(1);
        let fates = [0, 0, 0, MS / 10, MS / 5].map(|now| link.carry(now, 100, rng));
        let arrives = |tenths: u64| Fate::Arrives(MS + tenths * MS / 10);
        assert_eq!(fates, [arrives(1), arrives(2), Fate::Full, arrives(3), arrives(4)]);
    }

    /// In a second of 1 Mbit/s, whatever is offered, leave 125,000 bytes and no more than the last frame besides.
    #[test]
    fn no_more_leaves_than_the_rate_permits() {
        let quality = LinkQuality { rate_mbit: 1.0, queue_bytes: 20_000, ..LinkQuality::default() };
        for (gap, bytes) in [(10_000, 60), (100_000, 1514), (1_000_000, 700), (4_000_000, 9000)] {
            let (mut link, mut left) = (model(quality), 0);
            for at in (0..1000 * MS).step_by(gap) {
                if let Fate::Arrives(when) = link.carry(at, bytes, &mut rng(1)) {
                    left += if when <= 1000 * MS { bytes } else { 0 };
                }
            }
            let offered = bytes * (1000 * MS as usize / gap);
            let most = offered.min(125_000);
            assert!((most - bytes..=125_000).contains(&left), "{bytes} bytes: {left} of {most}");
        }
    }

    /// 60 bytes take 4.8 ns of 100 Gbit/s.
    #[test]
    fn parts_of_nanoseconds_add_up() {
        let mut link = model(LinkQuality { rate_mbit: 1e5, queue_bytes: 1 << 20, ..LinkQuality::default() });
        let last = (0..10_000).map(|_| link.carry(0, 60, &mut rng(1))).last();
        assert_eq!(last, Some(Fate::Arrives(48_000)));
    }

    #[test]
    fn chances_strike_as_often_as_they_say_and_as_the_seed_says() {
        let quality = LinkQuality { loss: 0.2, duplicate: 0.1, ..LinkQuality::default() };
        let run = |seed| {
            let (mut link, mut rng) = (model(quality), rng(seed));
            (0..100_000).map(|at| link.carry(at, 100, &mut rng)).collect::<Vec<_>>()
        };
        for seed in 1..9 {
            let fates = run(seed);
            let lost = fates.iter().filter(|fate| **fate == Fate::Lost).count();
            let twice = fates.iter().filter(|fate| matches!(fate, Fate::Twice(..))).count();
            assert!((19_400..20_600).contains(&lost), "{lost}");
            assert!((7_600..8_400).contains(&twice), "{twice}");
            assert_eq!(fates, run(seed));
            assert_ne!(fates, run(seed + 1));
        }
    }

    #[test]
    fn jitter_keeps_within_its_bounds_and_the_order() {
        let quality = LinkQuality { delay_ms: 10.0, jitter_ms: 4.0, ..LinkQuality::default() };
        let (mut link, mut rng) = (model(quality), rng(3));
        let mut last = 0;
        let (mut early, mut late) = (0, 0);
        for number in 0..10_000 {
            let sent = number * MS;
            let Fate::Arrives(at) = link.carry(sent, 100, &mut rng) else { panic!("lost") };
            assert!(at >= last && (sent + 6 * MS..=sent + 14 * MS).contains(&at), "{sent} {at}");
            early += u64::from(at < sent + 8 * MS);
            late += u64::from(at > sent + 12 * MS);
            last = at;
        }
        assert!(early > 100 && late > 1000, "{early} {late}");
    }

    #[test]
    fn frames_that_are_held_back_are_overtaken() {
        let quality = LinkQuality { delay_ms: 1.0, reorder: 0.1, reorder_ms: 5.0, ..LinkQuality::default() };
        let (mut link, mut rng) = (model(quality), rng(4));
        let times: Vec<u64> = (0..10_000)
            .map(|number| match link.carry(number * MS, 100, &mut rng) {
                Fate::Arrives(at) => at,
                fate => panic!("{fate:?}"),
            })
            .collect();
        let held = times.iter().zip(0..).filter(|(at, sent)| **at > (sent + 1) * MS).count();
        assert!((900..1100).contains(&held), "{held}");
        assert!(times.is_sorted_by_key(|at| at / (6 * MS)) || times.windows(2).any(|pair| pair[0] > pair[1]));
        assert!(times.windows(2).any(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn a_cut_link_carries_nothing() {
        let mut link = model(LinkQuality::default());
        link.cuts = 1;
        assert_eq!(link.carry(0, 100, &mut rng(1)), Fate::Cut);
    }

    /// What waits longer than a window is load in all windows in which it leaves, though it came in one.
    #[test]
    fn load_is_the_share_of_the_last_full_window_in_which_the_line_was_busy() {
        let mut link = model(slow());
        assert_eq!(link.line().load(5 * WINDOW), Some(0));
        // 150 ms of work, from the middle of a window on.
        for _ in 0..150 {
            assert_ne!(link.carry(WINDOW / 2, 1000, &mut rng(1)), Fate::Full);
        }
        let load = |link: &LinkModel| [0, 1, 2, 3].map(|window| link.line().load(window * WINDOW + 7));
        assert_eq!(load(&link), [Some(0), Some(500), Some(1000), Some(0)]);
        // As much as one frame more in the next window.
        link.carry(WINDOW + WINDOW / 4, 1000, &mut rng(1));
        assert_eq!(link.line().load(WINDOW + WINDOW / 2), Some(500));
        assert_eq!([2, 3, 4].map(|window| link.line().load(window * WINDOW)), [Some(1000), Some(10), Some(0)]);
        assert_eq!(
            model(LinkQuality::default()).line().load(WINDOW),
            None,
            "nothing is known of a line without a rate"
        );
    }

    #[test]
    fn a_changed_link_lets_what_is_on_it_leave_first() {
        let mut link = model(slow());
        link.carry(0, 5000, &mut rng(1));
        let mut faster = link.changed(&LinkQuality { rate_mbit: 80.0, ..slow() }, 0);
        assert_eq!(faster.carry(0, 1000, &mut rng(1)), Fate::Arrives(MS / 2 + MS / 10 + MS));
    }

    /// What waits are bytes, whatever the rate was by which they came.
    #[test]
    fn a_changed_link_has_as_many_bytes_waiting_as_before() {
        let quality = |rate_mbit| LinkQuality { rate_mbit, ..LinkQuality::default() };
        let mut link = model(quality(1.0));
        while link.carry(0, 1000, &mut rng(1)) != Fate::Full {}
        let (now, waits) = (WINDOW, link.queued(WINDOW));
        for rate in [100.0, 1.0, 0.1] {
            let mut changed = link.changed(&quality(rate), now);
            assert!((waits - 2..=waits).contains(&changed.queued(now)), "{rate}");
            assert_ne!(changed.carry(now, 1000, &mut rng(1)), Fate::Full, "{rate}");
        }
        // All of the window before was busy; 250 kB take 20 ms of this one.
        let faster = link.changed(&quality(100.0), now);
        let load = |window: u64| faster.line().load(window * WINDOW);
        assert_eq!((load(1), load(3)), (Some(1000), Some(0)));
        assert!((190..=210).contains(&load(2).unwrap()), "{:?}", load(2));
        let unlimited = link.changed(&quality(0.0), now);
        assert_eq!((unlimited.queued(now), unlimited.line().load(now)), (0, None));
    }
}
