//! Senders at a rate, and instants by chance: the time that a test takes by itself. Nobody here waits for anything to happen.
#![allow(dead_code, reason = "each test program uses its part")]

use rand_core::Rng;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of a packet that is not counted.
pub const END: u32 = u32::MAX;

/// Packets that follow at once, at most, where a sender woke too late: the receive ring of a veth has room for 256, and what it loses
/// no node has seen.
const AT_ONCE: u32 = 100;

/// Numbered packets with a gap between them, in a thread of their own.
pub struct Pace {
    gap: Duration,
    /// Those for which the sender woke too late follow at once.
    by_the_clock: bool,
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    sent: u32,
    stopped: bool,
    ended: bool,
}

impl Pace {
    /// At least this gap between any two.
    pub fn apart(gap: Duration) -> Pace {
        Pace { gap, by_the_clock: false, state: Mutex::default(), more: Condvar::new() }
    }

    /// As many as these gaps fit into the time, unless that were too many at once.
    pub fn by_the_clock(gap: Duration) -> Pace {
        Pace { by_the_clock: true, ..Pace::apart(gap) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends 0, 1, 2 and so on, until it is told to stop; then `END`, for who waits for another one.
    pub fn run(&self, mut send: impl FnMut(u32)) {
        let mut begin = Instant::now();
        while !self.state().stopped {
            let number = self.sent();
            if self.by_the_clock {
                let (due, now) = (self.gap * number, begin.elapsed());
                std::thread::sleep(due.saturating_sub(now));
                begin += now.saturating_sub(due + self.gap * AT_ONCE);
            }
            send(number);
            self.state().sent += 1;
            self.more.notify_all();
            if !self.by_the_clock {
                std::thread::sleep(self.gap);
            }
        }
        self.state().ended = true;
        send(END);
    }

    /// How many were sent so far.
    pub fn sent(&self) -> u32 {
        self.state().sent
    }

    /// Waits until so many more were sent; says how many that are in all.
    pub fn await_more(&self, count: u32) -> u32 {
        let state = self.state();
        let until = state.sent + count;
        drop(self.more.wait_while(state, |state| state.sent < until).unwrap_or_else(PoisonError::into_inner));
        until
    }

    pub fn stop(&self) {
        self.state().stopped = true;
    }

    /// Stops it in the end, also where a test has failed: else whoever waits for its thread would wait for ever.
    pub fn stops_with_this(&self) -> Stops<'_> {
        Stops(self)
    }

    /// Whether it has sent all that it counts.
    pub fn has_ended(&self) -> bool {
        self.state().ended
    }
}

/// Sends again and again, a gap apart, what may be lost or come too early, until an answer has come; `take` looks for one and does
/// not wait.
pub fn again<T>(gap: Duration, count: u32, mut send: impl FnMut(), mut take: impl FnMut() -> Option<T>) -> Option<T> {
    (0..count).find_map(|_| {
        send();
        std::thread::sleep(gap);
        take()
    })
}

/// Lets time pass until an instant by chance, in which nothing in particular happens.
pub fn until_some_instant(random: &mut impl Rng, within: Duration) {
    std::thread::sleep(within.mul_f64(f64::from(random.next_u32()) / f64::from(u32::MAX)));
}

/// Stops a sender when it is dropped.
pub struct Stops<'a>(&'a Pace);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
