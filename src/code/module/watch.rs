//! A clock that watches a module's functions: each may work for so many milliseconds, as a thread of any process.
//!
//! wasmtime compares a number, the epoch, where code loops. A thread raises it every [`TICK_MS`] while a function runs, and sleeps
//! when none does: a module that waits costs nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Thread};
use std::time::Duration;
use wasmtime::Engine;

/// Milliseconds between two numbers, at most; a quarter of a function's time, if that is less.
const TICK_MS: u64 = 50;

/// The clock of one module.
pub(super) struct Watch {
    thread: Thread,
    shared: Arc<Shared>,
    /// Numbers that may pass while a function runs.
    ticks: u64,
}

#[derive(Default)]
struct Shared {
    works: AtomicBool,
    sleeps: AtomicBool,
}

impl Watch {
    /// One by which functions have so many milliseconds.
    pub(super) fn start(engine: &Engine, milliseconds: u64) -> io::Result<Watch> {
        let shared = Arc::<Shared>::default();
        let tick_ms = (milliseconds / 4).clamp(1, TICK_MS);
        let (engine, of_thread) = (engine.clone(), shared.clone());
        let tick = move || {
            loop {
                if of_thread.works.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(tick_ms));
                    engine.increment_epoch();
                } else {
                    of_thread.sleeps.store(true, Ordering::SeqCst);
                    if !of_thread.works.load(Ordering::SeqCst) {
                        std::thread::park();
                    }
                    of_thread.sleeps.store(false, Ordering::SeqCst);
                }
            }
        };
        let thread = Builder::new().name("anode-ticks".into()).spawn(tick)?.thread().clone();
        // The first number may be near: so a function is ended before the node would end its domain.
        let ticks = (milliseconds / tick_ms).max(2);
        Ok(Watch { thread, shared, ticks })
    }

    /// A function begins: how many numbers it has.
    pub(super) fn begin(&self) -> u64 {
        self.shared.works.store(true, Ordering::SeqCst);
        if self.shared.sleeps.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        self.ticks
    }

    /// None runs.
    pub(super) fn end(&self) {
        self.shared.works.store(false, Ordering::SeqCst);
    }
}
