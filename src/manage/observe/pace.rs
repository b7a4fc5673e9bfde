//! How often snapshots are taken: so seldom that workers spend a hundredth of their time on them, and once a second is
//! always often enough.
//!
//! Example: a snapshot of 10,000 domains costs the worker 5 ms, so the next one begins half a second later. Of a small node
//! it costs 20 µs, and the next one begins after 2 ms. Whoever asks meanwhile waits for the next one, and all who wait
//! are given the same one.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The pause behind a snapshot, in times that the snapshot took of a worker.
const PAUSE: u32 = 100;

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Something that is taken seldom, and given to all who wait for it.
#[derive(Debug)]
pub struct Paced<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// How many were begun.
    begun: u64,
    /// Whether one is being taken.
    under_way: bool,
    /// The last one, and its number.
    last: Option<(u64, Arc<T>)>,
    /// When the next one may begin.
    next: Option<Instant>,
}

impl<T> Default for Paced<T> {
    fn default() -> Paced<T> {
        let state = State { begun: 0, under_way: false, last: None, next: None };
        Paced { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<T> Paced<T> {
    /// One that was begun after this was called: taken by this thread, or by another that waits too. `take` says how long a worker has
    /// worked for it.
    pub fn fresh(&self, take: impl FnOnce() -> Result<(T, Duration), String>) -> Result<Arc<T>, String> {
        // What it holds is right between any two statements.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = state.begun + 1;
        loop {
            if let Some((number, last)) = &state.last
                && *number >= wanted
            {
                return Ok(last.clone());
            }
            let pause = state.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()));
            if state.under_way {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else if !pause.is_zero() {
                state = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
            } else {
                break;
            }
        }
        state.begun += 1;
        state.under_way = true;
        let number = state.begun;
        drop(state);
        let taken = Taken { paced: self, pause: Duration::ZERO, found: None };
        taken.by(number, take)
    }
}

/// One that is being taken: whoever waits is told when this goes.
struct Taken<'a, T> {
    paced: &'a Paced<T>,
    pause: Duration,
    found: Option<(u64, Arc<T>)>,
}

impl<T> Taken<'_, T> {
    fn by(mut self, number: u64, take: impl FnOnce() -> Result<(T, Duration), String>) -> Result<Arc<T>, String> {
        let (found, worked) = take()?;
        let found = Arc::new(found);
        self.pause = (worked * PAUSE).min(PAUSE_MAX);
        self.found = Some((number, found.clone()));
        Ok(found)
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        let mut state = self.paced.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.under_way = false;
        state.next = Some(Instant::now() + self.pause);
        if self.found.is_some() {
            state.last = self.found.take();
        }
        self.paced.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn all_who_wait_are_given_one_that_was_begun_after_they_asked() {
        let (paced, taken, asked) = (Paced::default(), AtomicU64::new(0), Barrier::new(101));
        let take = |worked| taken.fetch_add(1, Ordering::SeqCst).checked_add(1).map(|number| (number, worked));
        let first = paced.fresh(|| take(Duration::from_millis(2)).ok_or_else(String::new)).unwrap();
        assert_eq!(*first, 1);
        std::thread::scope(|scope| {
            let asking: Vec<_> = (0..100)
                .map(|_| {
                    scope.spawn(|| {
                        asked.wait();
                        paced.fresh(|| take(Duration::from_secs(3600)).ok_or_else(String::new)).map(|number| *number)
                    })
                })
                .collect();
            asked.wait();
            // Some of them may ask while the second is taken, and none of them is given the first.
            let given: Vec<_> = asking.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect();
            assert!(given.iter().all(|number| (2..=3).contains(number)), "{given:?}");
        });
        assert!(taken.load(Ordering::SeqCst) <= 3);
    }

    #[test]
    fn who_fails_keeps_nobody_from_it() {
        let paced = Paced::<u32>::default();
        assert_eq!(paced.fresh(|| Err("not now".into())), Err("not now".into()));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| paced.fresh(|| panic!("within"))));
        assert!(panicked.is_err());
        assert_eq!(paced.fresh(|| Ok((7, Duration::ZERO))).as_deref(), Ok(&7));
    }
}
