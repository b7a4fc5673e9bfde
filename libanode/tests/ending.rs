//! "Ended means ended" under every interleaving of running functions, closed domains and waiting threads (loom). The
//! protocol is that of `crew::Desk`: one lock, one bell, and [`Runs`] between them.

use anode1::crew::runs::Runs;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// What a desk has of it.
struct Desk {
    /// The functions that run and who waits, and which domains take work.
    state: Mutex<(Runs, Vec<u32>)>,
    end: Condvar,
    /// Functions that are between their first and last step, by domain.
    busy: [AtomicUsize; 3],
}

impl Desk {
    /// Domain 1, and 2 below it.
    fn new() -> Arc<Desk> {
        let mut runs = Runs::default();
        runs.add(1, None);
        runs.add(2, Some(1));
        Arc::new(Desk {
            state: Mutex::new((runs, vec![1, 2])),
            end: Condvar::new(),
            busy: [0; 3].map(AtomicUsize::new),
        })
    }

    /// Runs a function for a domain if that is open.
    fn work(&self, thread: u64, domain: u32, function: impl FnOnce()) {
        let mut state = self.state.lock().unwrap();
        if !state.1.contains(&domain) {
            return;
        }
        state.0.begin(thread, domain);
        drop(state);
        self.busy[domain as usize].fetch_add(1, Ordering::SeqCst);
        function();
        self.busy[domain as usize].fetch_sub(1, Ordering::SeqCst);
        if self.state.lock().unwrap().0.end(thread, domain) {
            self.end.notify_all();
        }
    }

    /// Closes a domain and those below it, if nobody has.
    fn close(&self, top: u32) {
        let mut state = self.state.lock().unwrap();
        let (runs, open) = &mut *state;
        open.retain(|domain| !runs.is_within(*domain, top));
    }

    fn terminate(&self, thread: u64, top: u32) {
        self.close(top);
        let mut state = self.state.lock().unwrap();
        state.0.wait(thread, top);
        self.end.notify_all();
        while state.0.holds(thread, top) {
            state = self.end.wait(state).unwrap();
        }
        state.0.waited(thread, top);
        let (runs, open) = &mut *state;
        runs.forget(|domain| open.contains(&domain));
    }

    fn busy(&self, domain: usize) -> usize {
        self.busy[domain].load(Ordering::SeqCst)
    }
}

fn in_every_order(check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(check);
}

#[test]
fn nothing_runs_when_a_call_returns_whoever_closed_the_domain() {
    in_every_order(|| {
        let desk = Desk::new();
        let (working, closing) = (desk.clone(), desk.clone());
        let worker = thread::spawn(move || working.work(10, 2, thread::yield_now));
        // The thread that leads hears of the end from the node.
        let leader = thread::spawn(move || closing.close(1));
        desk.terminate(1, 1);
        assert_eq!((desk.busy(1), desk.busy(2)), (0, 0));
        worker.join().unwrap();
        leader.join().unwrap();
    });
}

#[test]
fn two_functions_that_end_each_other_both_come_back_and_nobody_outside_is_early() {
    in_every_order(|| {
        let desk = Desk::new();
        let (first, second) = (desk.clone(), desk.clone());
        let one = thread::spawn(move || first.work(10, 1, || first.terminate(10, 2)));
        let two = thread::spawn(move || second.work(11, 2, || second.terminate(11, 1)));
        desk.terminate(1, 1);
        assert_eq!((desk.busy(1), desk.busy(2)), (0, 0));
        one.join().unwrap();
        two.join().unwrap();
    });
}
