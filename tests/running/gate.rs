//! One file of tests at a time.
//!
//! Tests of one program run at once, as many as the machine has CPUs. Those that start nodes, load a CPU, or count what the host has,
//! can bear each other within their file: they were written so. They cannot bear everybody. So the first thing that they do is to
//! pass this gate, which opens for tests of one module at a time: whoever is in keeps it open for its own, and others wait.

use std::cell::OnceCell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Whose tests are in, and how many.
static INSIDE: Mutex<(String, usize)> = Mutex::new((String::new(), 0));
static LEFT: Condvar = Condvar::new();

thread_local! {
    /// Goes with the thread, and every test has a thread of its own.
    static PASSED: OnceCell<Inside> = const { OnceCell::new() };
}

/// A test that is in.
struct Inside;

fn inside() -> MutexGuard<'static, (String, usize)> {
    INSIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inside {
    fn of(group: &str) -> Inside {
        let others = |(who, count): &mut (String, usize)| *count > 0 && who != group;
        let mut inside = LEFT.wait_while(inside(), others).unwrap_or_else(PoisonError::into_inner);
        *inside = (group.to_owned(), inside.1 + 1);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        inside().1 -= 1;
        LEFT.notify_all();
    }
}

/// A node in a test's process starts that program again to be its helper, with the word "jail". To a program of tests that means: run what
/// is called so. None of them may: it would start nodes, and those helpers.
fn be_no_helper() {
    if std::env::args().next().as_deref() == Some("/proc/self/exe") {
        std::process::exit(1);
    }
}

/// Waits until no test of another file is in; this one is in until it ends. Where tests run one after the other, or in a thread that a
/// test has started, there is nothing to wait for.
pub fn pass() {
    be_no_helper();
    let thread = std::thread::current();
    if let Some((group, _)) = thread.name().and_then(|name| name.split_once("::")) {
        PASSED.with(|passed| {
            passed.get_or_init(|| Inside::of(group));
        });
    }
}
