//! Whether the workers of a node come round: a hang of one ends the process, and the kernel half serves on.
//!
//! Example: native code that the operator trusts never returns. Its worker has been at one packet for ten seconds; the
//! clock of the wasm backstop, which looks at each worker every 5 ms, says so and ends the process. Only that thread's
//! own looks are counted: while the machine sleeps or the process is stopped there are none. A worker that waits for
//! packets, or rests because its share of the CPU is used up, is not at work.

use crate::code::run::wasm::Compiler;
use crate::frame::WorkerId;
use crate::say_err;
use crate::sys::process::HeapLooks;
use crate::sys::threads::{self, Duty};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// Period of the clock that stops code which runs too long, and between two looks at the workers.
const TICK: Duration = Duration::from_millis(5);

/// The rounds of a worker: it alone writes them. The lowest bit says that it is at work.
#[derive(Debug, Default)]
pub struct Rounds(AtomicU64);

impl Rounds {
    /// A round begins, or goes on after a rest.
    #[inline]
    pub fn work(&self) {
        self.0.store((self.0.load(Relaxed) | 1).wrapping_add(2), Relaxed);
    }

    /// The worker waits, or rests.
    #[inline]
    pub fn rest(&self) {
        self.0.store(self.0.load(Relaxed) & !1, Relaxed);
    }
}

/// One worker as the watchdog has seen it.
struct Watched {
    rounds: Arc<Rounds>,
    last: u64,
    /// Looks in a row in which it was at work in the same round.
    looks: u64,
}

/// Who looks at the workers of a node.
pub struct Watchdog {
    workers: Vec<Watched>,
    /// Looks after which a round is a hang; 0: never.
    most: u64,
}

impl Watchdog {
    /// For these workers, the first one first, of which none may be at one round for so many seconds; 0: for ever.
    pub fn new(workers: impl Iterator<Item = Arc<Rounds>>, hang_s: u32) -> Watchdog {
        let most = u64::from(hang_s) * 1_000_000_000 / TICK.as_nanos() as u64;
        Watchdog { workers: workers.map(|rounds| Watched { rounds, last: 0, looks: 0 }).collect(), most }
    }

    /// Looks at each, a tick after the last time; gives the first that hangs.
    pub fn look(&mut self) -> Option<WorkerId> {
        for (worker, watched) in (0..).zip(&mut self.workers) {
            let now = watched.rounds.0.load(Relaxed);
            let hangs = now == watched.last && now & 1 == 1;
            watched.last = now;
            watched.looks = if hangs { watched.looks + 1 } else { 0 };
            if self.most > 0 && watched.looks >= self.most {
                return Some(worker);
            }
        }
        None
    }
}

/// Ends the process at once, and says why.
pub fn end(worker: WorkerId, why: &str) -> ! {
    // Not by the log, whose thread would write it later.
    say_err!("ERROR anode: worker {worker} {why}: the process ends, and a kernel half serves on");
    std::process::abort()
}

/// The clock behind the wasm backstop, which also looks at the heap for programs, and sees whether workers hang.
pub(super) fn tick(compiler: Compiler, mut watchdog: Watchdog, stop: Arc<AtomicBool>) -> io::Result<()> {
    threads::start("anode-tick", Duty::Ticks, move || {
        let mut heap = HeapLooks::default();
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
            compiler.tick();
            heap.look();
            if let Some(worker) = watchdog.look() {
                end(worker, "has not come round for as long as [cpu] hang_s says");
            }
        }
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(hang_s: u32) -> (Arc<Rounds>, Watchdog) {
        let rounds = Arc::new(Rounds::default());
        let others = [Arc::new(Rounds::default()), rounds.clone()];
        (rounds, Watchdog::new(others.into_iter(), hang_s))
    }

    #[test]
    fn one_that_is_at_work_and_does_not_come_round_hangs_after_so_many_looks() {
        let (rounds, mut dog) = watch(1);
        rounds.work();
        assert!((0..200).all(|_| dog.look().is_none()));
        assert_eq!(dog.look(), Some(1), "a second of looks, each 5 ms after another");
        rounds.work();
        assert_eq!(dog.look(), None, "it has come round after all");
    }

    #[test]
    fn one_that_works_rests_or_waits_does_not_hang() {
        let (rounds, mut dog) = watch(1);
        assert!((0..1000).all(|_| dog.look().is_none()), "it has not begun");
        for round in 0..1000 {
            rounds.work();
            if round % 3 == 0 {
                rounds.rest();
                assert!((0..300).all(|_| dog.look().is_none()));
            }
            assert_eq!(dog.look(), None);
        }
        let (rounds, mut dog) = watch(0);
        rounds.work();
        assert!((0..10_000).all(|_| dog.look().is_none()), "nobody is to look");
    }
}
