//! Whether the thread that follows interfaces and routes still comes round: whoever wants to know wakes it and waits for its word.

use crate::sys::poll::Waker;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// For how long it may be at one piece of work: a million routes take some seconds.
const WORK: Duration = Duration::from_secs(20);

/// The rounds of the thread.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Wakes it; nothing: there is none.
    waker: OnceLock<Waker>,
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    asked: u64,
    told: u64,
    /// Since when it is at work, if it is.
    works: Option<Instant>,
}

impl State {
    fn comes_round(&self, asked: u64) -> bool {
        self.told >= asked || self.works.is_some_and(|since| since.elapsed() < WORK)
    }
}

impl Rounds {
    /// From now on there is a thread, which is woken by this.
    pub fn begin(&self, waker: Waker) {
        // The same one each time: who follows anew is the thread that has followed before.
        let _ = self.waker.set(waker);
    }

    /// It has waked up: gives what it says when it is done.
    pub fn wakes(&self) -> u64 {
        self.waker.get().into_iter().for_each(Waker::rest);
        let mut state = self.state();
        state.works = Some(Instant::now());
        state.asked
    }

    /// It is done with what it woke up for.
    pub fn is_done(&self, asked: u64) {
        let mut state = self.state();
        (state.told, state.works) = (asked, None);
        self.done.notify_all();
    }

    /// Whether it comes round within this time, or is at work; also where there is none.
    pub fn come(&self, within: Duration) -> bool {
        let Some(waker) = self.waker.get() else { return true };
        let mut state = self.state();
        state.asked += 1;
        let asked = state.asked;
        waker.wake();
        let waited = self.done.wait_timeout_while(state, within, |state| !state.comes_round(asked));
        waited.unwrap_or_else(PoisonError::into_inner).0.comes_round(asked)
    }

    /// It is whole between any two statements.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_come_round_is_found_and_who_works_is_not() {
        let rounds = Rounds::default();
        let comes = || rounds.come(Duration::ZERO);
        assert!(comes(), "there is nobody");
        rounds.begin(Waker::new().unwrap());
        assert!(!comes());
        let asked = rounds.wakes();
        assert!(comes(), "it is at work");
        rounds.is_done(asked);
        assert!(!comes(), "it has not heard of this one");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| rounds.come(WORK));
            while rounds.state().asked < 4 {
                std::thread::yield_now();
            }
            rounds.is_done(rounds.wakes());
            assert!(waits.join().unwrap());
        });
    }
}
