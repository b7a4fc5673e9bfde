//! The clock of a worker's work: the system's monotonic clock, corrected by the thread's own CPU time.
//!
//! Example: a packet takes 900 µs by the monotonic clock, of which another process had the CPU for 880. It is charged 20.
//! The CPU time of a thread costs a system call (0.4 µs), the monotonic clock none (0.02 µs). So the first is read
//! only where it can say something new: when a piece of work was long enough to have been interrupted, and after each
//! millisecond of work.

use crate::manage::cpu::Gaps;
use crate::node::entry::WorkClock;
use crate::sys::clock::{Clock, thread_cpu};
use std::sync::Arc;

/// A piece of work that took longer may have been interrupted, in nanoseconds.
const LONG: u64 = 50_000;

/// Work after which the thread's CPU time is read in any case, in nanoseconds.
const EACH: u64 = 1_000_000;

/// Both clocks of one thread: it is made wherever, and read by that thread only.
pub(super) struct ThreadClock<W, C> {
    wall: W,
    cpu: C,
    /// What the wall clock and the CPU time showed when both were read last; nothing before the first reading.
    both: Option<(u64, u64)>,
    /// Nanoseconds of rest since then.
    rested: u64,
    /// The last reading of the wall clock, and the last that was given out.
    last: u64,
    shown: u64,
    /// What of the wall clock's time was no work, and what of that was lost to others.
    off: u64,
    lost: u64,
    gaps: Arc<Gaps>,
}

/// The clock of the calling thread's work, or of that of the thread that reads it first.
pub(super) fn thread_clock(
    clock: Clock,
    gaps: Arc<Gaps>,
) -> ThreadClock<impl Fn() -> u64 + Send, impl Fn() -> u64 + Send> {
    ThreadClock { gaps, ..ThreadClock::new(move || clock.now(), thread_cpu) }
}

impl<W: Fn() -> u64 + Send, C: Fn() -> u64 + Send> ThreadClock<W, C> {
    fn new(wall: W, cpu: C) -> ThreadClock<W, C> {
        ThreadClock { wall, cpu, both: None, rested: 0, last: 0, shown: 0, off: 0, lost: 0, gaps: Arc::default() }
    }

    #[cold]
    fn read_both(&mut self, now: u64) {
        let cpu = (self.cpu)();
        if let Some((wall, before)) = self.both {
            let busy = now.saturating_sub(wall).saturating_sub(self.rested);
            let lost = busy.saturating_sub(cpu.saturating_sub(before));
            self.off += lost;
            self.lost += lost;
            self.gaps.note(lost);
        }
        (self.both, self.rested) = (Some((now, cpu)), 0);
    }
}

impl<W: Fn() -> u64 + Send, C: Fn() -> u64 + Send> WorkClock for ThreadClock<W, C> {
    #[inline]
    fn read(&mut self) -> u64 {
        let now = (self.wall)();
        self.at(now)
    }

    #[inline]
    fn at(&mut self, now: u64) -> u64 {
        // A time that was read before another one says nothing new.
        let now = now.max(self.last);
        let since = self.both.map_or(u64::MAX, |(wall, _)| now.saturating_sub(wall).saturating_sub(self.rested));
        if now.saturating_sub(self.last) >= LONG || since >= EACH {
            self.read_both(now);
        }
        self.last = now;
        // What was lost in short pieces comes off later ones, which are not less than nothing.
        self.shown = self.shown.max(now.saturating_sub(self.off));
        self.shown
    }

    fn rested(&mut self, nanoseconds: u64) {
        self.off += nanoseconds;
        self.rested += nanoseconds;
        self.last += nanoseconds;
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    const US: u64 = 1000;

    /// A clock over two numbers, and how often CPU time was read.
    struct Given {
        clock: Box<dyn WorkClock>,
        wall: Arc<AtomicU64>,
        cpu: Arc<AtomicU64>,
        read: Arc<AtomicU64>,
    }

    impl Given {
        fn new() -> Given {
            let [wall, cpu, read] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
            wall.store(77 * US, Relaxed);
            let (w, c, r) = (wall.clone(), cpu.clone(), read.clone());
            let cpu_time = move || {
                r.fetch_add(1, Relaxed);
                c.load(Relaxed)
            };
            let mut clock = Box::new(ThreadClock::new(move || w.load(Relaxed), cpu_time));
            clock.read();
            Given { clock, wall, cpu, read }
        }

        /// What the clock shows of a piece of work that had the CPU for so long, and others for so long.
        fn work(&mut self, own: u64, others: u64) -> u64 {
            let before = self.clock.read();
            self.wall.fetch_add(own + others, Relaxed);
            self.cpu.fetch_add(own, Relaxed);
            self.clock.read() - before
        }
    }

    #[test]
    fn what_others_have_of_the_cpu_is_no_work() {
        let mut given = Given::new();
        assert_eq!(given.work(20 * US, 0), 20 * US);
        assert_eq!(given.work(20 * US, 880 * US), 20 * US);
        assert_eq!(given.work(300 * US, 0), 300 * US);
        assert_eq!(
            (given.clock.lost(), given.read.load(Relaxed)),
            (880 * US, 3),
            "read at first and for the long ones"
        );
    }

    #[test]
    fn rest_is_neither_work_nor_lost_and_costs_no_system_call() {
        let mut given = Given::new();
        for _ in 0..100 {
            given.wall.fetch_add(9000 * US, Relaxed);
            given.clock.rested(9000 * US);
            assert_eq!(given.work(US, 0), US);
        }
        assert_eq!((given.clock.lost(), given.read.load(Relaxed)), (0, 1));
    }

    #[test]
    fn short_interruptions_are_found_after_a_millisecond() {
        let mut given = Given::new();
        let shown: u64 = (0..1000).map(|_| given.work(5 * US, 5 * US)).sum();
        assert!((5000 * US..=5500 * US).contains(&shown), "{shown}");
        assert!(given.read.load(Relaxed) <= 11);
    }

    #[test]
    fn gaps_of_a_millisecond_are_counted_and_rest_is_none() {
        let gaps = Arc::new(Gaps::default());
        let time = Arc::new(AtomicU64::new(0));
        let wall = time.clone();
        let mut clock = ThreadClock { gaps: gaps.clone(), ..ThreadClock::new(move || wall.load(Relaxed), || 0) };
        clock.read();
        for (gap, rest) in [(999 * US, 0), (1000 * US, 0), (3000 * US, 0), (0, 9000 * US)] {
            time.fetch_add(gap + rest, Relaxed);
            clock.rested(rest);
            clock.read();
        }
        assert_eq!(gaps.seen(), (2, 3000 * US));
    }

    #[test]
    fn it_never_goes_back() {
        let mut given = Given::new();
        for _ in 0..50 {
            given.work(0, 19 * US);
        }
        // What was lost before is more than this piece took: 950 µs were shown as work.
        assert_eq!(given.work(55 * US, 0), 0);
        assert_eq!(given.work(2000 * US, 0), (2055 - 950) * US, "then all is right again");
        assert_eq!(given.clock.lost(), 950 * US);
    }

    #[test]
    fn a_thread_that_works_has_its_own_cpu_time() {
        let mut clock = thread_clock(Clock::start(), Arc::default());
        let (began, before) = (clock.read(), thread_cpu());
        let mut sum = 0u64;
        while thread_cpu() - before < 3_000_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31) + 1);
        }
        let (shown, used) = (clock.read() - began, thread_cpu() - before);
        assert!(shown >= 2_900_000 && shown <= used + 1_000_000, "{shown} of {used}");
    }
}
