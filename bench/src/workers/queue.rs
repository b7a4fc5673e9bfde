//! The queue between two workers. Example: worker 1 hands 100,000 packets a second to worker 0, which finds three waiting when it
//! comes round, at 99 of 100 looks.

use super::super::capsules::micro::{Stand, compiler};
use super::super::series::{Key, Series};
use super::super::{Error, Settings};
use anode::code::bundle::Bundle;
use anode::manage::worker::crew::{Way, between};
use anode::node::workers::Joint;
use anode::sys::poll::Waker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

const QUEUE: &str = "queue between two workers";
const ORDINARY: &str = "ordinary threads";
const REALTIME: &str = "real-time threads";

/// Packets a second that one worker hands to another, and for how long, in microseconds.
const PACED: u64 = 100_000;
const PACED_US: u64 = 400_000;

/// Packets that wait between two workers while one hands 100,000 a second to the other, as figure 8 of Bowman shows its queues between
/// threads: under the system's ordinary scheduling, and as real-time threads.
pub(super) fn queue(settings: &Settings, code: &Bundle) -> Result<Series, Error> {
    let mut series = Series::default();
    settings.rounds(QUEUE, |_| {
        for (variant, realtime) in [(ORDINARY, false), (REALTIME, true)] {
            let mut lengths = queue_lengths(code, realtime)?;
            lengths.sort_unstable();
            let last = lengths.len().saturating_sub(1);
            for (metric, at) in [("median", last / 2), ("99 of 100", last * 99 / 100), ("longest", last)] {
                let key = Key { variant: variant.into(), size: None, regime: QUEUE.into(), metric, unit: "packets" };
                series.push(key, lengths.get(at).copied().unwrap_or(0) as f64);
            }
        }
        Ok(())
    })?;
    Ok(series)
}

/// Says that a thread has ended, in whatever way.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// How many packets waited each time when the first worker came round.
fn queue_lengths(code: &Bundle, realtime: bool) -> Result<Vec<usize>, Error> {
    let way = || -> Result<Way, Error> {
        let (orders, _) = channel();
        Ok(Way { orders, waker: Waker::new().map_err(|error| Error::Node(error.to_string()))? })
    };
    let (mut further, mut ring) = between((0, way()?), (1, way()?));
    let joint = Joint::new(2, 64);
    let [mut first, mut second] = [Stand::empty(code)?, Stand::empty(code)?];
    first.driver.node.set_worker(0, joint.clone());
    second.driver.node.set_worker(1, joint);
    first.load(code, &compiler()?)?;
    // Where that is not allowed both variants are the same, which the figures show.
    let prefer = move || {
        if realtime {
            drop(anode::sys::realtime::be_realtime(10))
        }
    };
    let done = AtomicBool::new(false);
    let mut lengths = Vec::with_capacity(1 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _done = Done(&done);
            prefer();
            let began = Instant::now();
            for packet in 0..PACED * PACED_US / 1_000_000 {
                while began.elapsed().as_nanos() < u128::from(packet) * 1_000_000_000 / u128::from(PACED) {
                    std::hint::spin_loop();
                }
                second.receive();
                while let Some(handed) = second.driver.out.handed.pop() {
                    if let Err(handed) = ring.hand(handed) {
                        second.driver.turn(0, |node, turn| node.not_handed(turn, handed));
                    }
                }
                ring.take_back(|frame| second.keep(frame));
            }
        });
        let taking = scope.spawn(|| {
            prefer();
            while !done.load(Ordering::Acquire) {
                let waiting = further.waiting();
                if waiting == 0 {
                    std::thread::yield_now();
                    continue;
                }
                if lengths.len() < lengths.capacity() {
                    lengths.push(waiting);
                }
                let now = first.now;
                further.take(&mut first.driver.at(now), &mut |_, _| {});
                first.driver.out.frames.drain(..).for_each(|frame| first.driver.out.pool.give(frame));
            }
        });
        taking.join().unwrap_or_else(|why| std::panic::resume_unwind(why));
    });
    Ok(lengths)
}
