//! Queues between threads, as Bowman had them (Merugu et al., figure 8): an input thread, an a-flow's thread and an
//! output thread on one CPU, beside threads that compute. It measures the queues under time-sharing and under real-time
//! scheduling.
//!
//! Packets come at a steady rate whatever the threads do. Under time-sharing each thread works as long as the system
//! lets it. Under real-time scheduling all three have the same priority and give way after a microsecond of work, which
//! is the paper's quantum. The node itself has no such queues: that is the point (`docs/node.md`).

use super::super::Error;
use anode::sys::clock::Clock;
use anode::sys::realtime;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// What a thread does, at which pace.
type Work = Box<dyn FnOnce(&Shared, Pace) + Send>;

/// Packets between two threads, at most.
const QUEUE: usize = 4096;
/// Nanoseconds between two packets that come.
const GAP: u64 = 40_000;
/// What a packet costs in each thread, in nanoseconds.
const COSTS: [u64; 3] = [1_000, 6_000, 2_000];
/// Nanoseconds of work after which a real-time thread gives way.
const QUANTUM: u64 = 1_000;
/// Threads that compute beside them.
const RIVALS: usize = 2;
/// Time between two looks at the queues.
const LOOK: Duration = Duration::from_micros(500);
/// Priority of the three threads, and of whoever looks.
const PRIORITY: u8 = 20;

/// How the threads are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    TimeSharing,
    RealTime,
}

impl Mode {
    pub(super) const ALL: [Mode; 2] = [Mode::TimeSharing, Mode::RealTime];

    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::TimeSharing => "time-sharing",
            Mode::RealTime => "real-time",
        }
    }
}

/// What was seen: the lengths of both queues, and packets that found no room.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) input: Vec<usize>,
    pub(super) output: Vec<usize>,
    pub(super) packets: u64,
    pub(super) dropped: u64,
}

/// A queue of packets that are all alike: what matters is how many there are.
#[derive(Default)]
struct Queue {
    put: AtomicUsize,
    taken: AtomicUsize,
}

impl Queue {
    fn len(&self) -> usize {
        self.put.load(Ordering::Acquire).wrapping_sub(self.taken.load(Ordering::Acquire))
    }

    fn push(&self) -> bool {
        let room = self.len() < QUEUE;
        self.put.fetch_add(usize::from(room), Ordering::AcqRel);
        room
    }

    fn pop(&self) -> bool {
        let there = self.len() > 0;
        self.taken.fetch_add(usize::from(there), Ordering::AcqRel);
        there
    }
}

#[derive(Default)]
struct Shared {
    input: Queue,
    output: Queue,
    dropped: AtomicU64,
    came: AtomicU64,
    stop: AtomicBool,
    refused: AtomicBool,
}

/// Runs it for so long on a CPU.
pub(super) fn run(mode: Mode, cpu: usize, length: Duration) -> Result<Seen, Error> {
    let shared = Arc::new(Shared::default());
    let mut threads = Vec::new();
    let mut start = |mode, work: Work| -> Result<Thread, Error> {
        let thread = spawn(&shared, mode, cpu, work)?;
        let handle = thread.thread().clone();
        threads.push(thread);
        Ok(handle)
    };
    let started = (|| {
        for _ in 0..RIVALS {
            start(
                Mode::TimeSharing,
                Box::new(|shared, pace| {
                    while !stopped(shared) {
                        pace.burn(100_000)
                    }
                }),
            )?;
        }
        let output = start(mode, Box::new(|shared, pace| drain(&shared.output, COSTS[2], shared, &pace, || ())))?;
        let flow = start(
            mode,
            Box::new(move |shared, pace| {
                let pass = || {
                    count(shared, shared.output.push());
                    output.unpark();
                };
                drain(&shared.input, COSTS[1], shared, &pace, pass);
            }),
        )?;
        start(mode, Box::new(move |shared, pace| come(shared, &pace, &flow)))
    })();
    let mut seen = Seen::default();
    if started.is_ok() {
        look(&shared, mode, length, &mut seen);
    }
    shared.stop.store(true, Ordering::Release);
    for thread in threads {
        thread.thread().unpark();
        // A thread that panicked has said so itself.
        let _ = thread.join();
    }
    started?;
    if shared.refused.load(Ordering::Acquire) {
        return Err(Error::Node("no right to real-time scheduling: CAP_SYS_NICE is missing".into()));
    }
    seen.packets = shared.came.load(Ordering::Acquire);
    seen.dropped = shared.dropped.load(Ordering::Acquire);
    Ok(seen)
}

/// Looks at the queues every now and then, from a thread that is not kept waiting if that may be.
fn look(shared: &Shared, mode: Mode, length: Duration, seen: &mut Seen) {
    let urgent = realtime::be_realtime(PRIORITY + 1).is_ok();
    let clock = Clock::start();
    while clock.now() < length.as_nanos() as u64 && !shared.refused.load(Ordering::Acquire) {
        thread::sleep(LOOK);
        seen.input.push(shared.input.len());
        seen.output.push(shared.output.len());
    }
    if urgent && realtime::be_ordinary().is_err() {
        anode::say_err!("anode: {}: a thread that only looks stays real-time", mode.name());
    }
}

/// How a thread spends time: by burning it, and giving way when it has to.
struct Pace {
    mode: Mode,
    clock: Clock,
}

impl Pace {
    fn burn(&self, nanoseconds: u64) {
        let end = anode::sys::clock::thread_cpu() + nanoseconds;
        while anode::sys::clock::thread_cpu() < end {}
        if self.mode == Mode::RealTime && nanoseconds >= QUANTUM {
            thread::yield_now();
        }
    }
}

fn spawn(shared: &Arc<Shared>, mode: Mode, cpu: usize, work: Work) -> Result<JoinHandle<()>, Error> {
    let shared = shared.clone();
    let run = move || {
        // Whoever runs the benchmark may be real-time itself.
        let placed = realtime::pin(&[cpu]).and_then(|()| match mode {
            Mode::RealTime => realtime::be_realtime(PRIORITY),
            Mode::TimeSharing => realtime::be_ordinary(),
        });
        if placed.is_err() {
            shared.refused.store(true, Ordering::Release);
            return;
        }
        work(&shared, Pace { mode, clock: Clock::start() });
    };
    thread::Builder::new().name("anode-pipeline".into()).spawn(run).map_err(|error| Error::Node(error.to_string()))
}

fn stopped(shared: &Shared) -> bool {
    shared.stop.load(Ordering::Acquire)
}

fn count(shared: &Shared, taken: bool) {
    shared.dropped.fetch_add(u64::from(!taken), Ordering::AcqRel);
}

/// The input thread: takes what has come since it looked last, and wakes the a-flow's.
fn come(shared: &Shared, pace: &Pace, flow: &Thread) {
    let mut taken = 0;
    while !stopped(shared) {
        let due = pace.clock.now() / GAP;
        if taken == due {
            thread::sleep(Duration::from_nanos((due + 1) * GAP - pace.clock.now().min((due + 1) * GAP)));
            continue;
        }
        taken += 1;
        pace.burn(COSTS[0]);
        shared.came.store(taken, Ordering::Release);
        count(shared, shared.input.push());
        flow.unpark();
    }
}

/// A thread that works on what waits before it.
fn drain(queue: &Queue, cost: u64, shared: &Shared, pace: &Pace, pass: impl Fn()) {
    while !stopped(shared) {
        if queue.pop() {
            pace.burn(cost);
            pass();
        } else {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_whatever_the_threads_do_and_none_is_lost_uncounted() {
        let cpu = realtime::allowed_cpus()[0];
        let seen = run(Mode::TimeSharing, cpu, Duration::from_millis(50)).unwrap();
        assert!(!seen.input.is_empty() && seen.input.len() == seen.output.len());
        assert!(seen.packets > 0 && seen.dropped <= seen.packets);
        assert!(seen.input.iter().chain(&seen.output).all(|length| *length <= QUEUE));
    }
}
