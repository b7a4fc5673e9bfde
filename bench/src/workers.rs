//! `anode bench workers`: two workers of one node beside two nodes with one worker each, without I/O.
//!
//! Each thread refills frames of its own and takes them through its node ([`Stand`]). Three times: each thread runs a
//! code of its own; both run one code, which counts in soft state, under keys of their own or under one; both run one code,
//! so that they spend one budget. Each thread stays at a processor of its own, of a worker's as of a node's: on a machine whose two CPUs
//! are one core they share it. Of several rounds each is a process of its own. Then what it costs to hand a packet to the first worker,
//! and what a worker needs in memory.

mod budget;
mod queue;

use std::sync::Barrier;
use std::time::Instant;

use super::capsules::micro::{Stand, compiler};
use super::fresh;
use super::guests::{Guests, compile};
use super::micro::{COST, Micro};
use super::nodeos::stand::{Stand as Channels, Two};
use super::report::Report;
use super::series::{Key, Series, Target};
use super::{Bench, Error, Settings};
use anode::code::author::AuthorOptions;
use anode::code::bundle::{Bundle, Kind};
use anode::manage::worker::crew::{Way, between};
use anode::node::Sizes;
use anode::node::workers::{Joint, WorkerOrder};
use anode::schedule::Policy;
use anode::sys::poll::Waker;
use anode::sys::realtime::{allowed_cpus, pin};
use std::cell::RefCell;
use std::sync::mpsc::channel;

/// Capsules of each thread in one go, and how often in a round. In the time of the nodes a go is shorter than what a budget holds at
/// once: each thread has a clock of its own, and one that is held up must not find that the other has been far ahead.
const CAPSULES: u32 = 100_000;
const GOES: u32 = 4;

/// Counts packets under the key in the payload.
const COUNTS: &str = r#"#include <anode/capsule.h>
struct counts { u64 key; };
AN_CAPSULE(counts, struct counts)
{
    an_state_add(w->payload.key, 1, 60000);
    return an_forward();
}
"#;

const WORKERS: &str = "two workers of one node";
const NODES: &str = "two nodes of one worker";
const OWN: &str = "a code of its own each";
const KEYS: &str = "one code, soft state under keys of their own";
const KEY: &str = "one code, soft state under one key";
const BUDGET: &str = "one code, one budget";
const RATE: &str = "capsules";

const HANDING: &str = "handing over a capsule whose code only the first worker knows";
const DIRECT: &str = "taken in by the first worker";
const HANDED: &str = "taken in by the second, handed to the first";

const HANDING_CHANNEL: &str = "handing a packet to another worker's domain";
const AT_OWN: &str = "taken in by its domain's worker";
const AT_OTHER: &str = "taken in by the other, handed to it";

/// Bytes of a packet of a channel, IP header included.
const SIZE: usize = 84;

const MEMORY: &str = "memory";
const MORE: &str = "one more worker, 100 codes";

/// Codes of which each worker has an instance.
const CODES: u16 = 100;

/// What two workers are to have of what two nodes have.
const LEAST: [(&str, f64); 3] = [(OWN, 0.97), (KEYS, 0.85), (BUDGET, 0.92)];

/// Runs the benchmark: each round in a fresh process, since the layout of one in memory moves either variant by a half.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let all = match Bench::of("workers") {
        Some(bench) if settings.round_count > 1 => fresh::rounds(bench, settings)?,
        _ => measure(settings)?,
    };
    report.targets.extend(Target::at_most(format!("{MORE}, MiB"), all.values(&of_memory()), 24.0));
    for (regime, least) in LEAST {
        let ratios = all.ratios(&rate(WORKERS, regime), WORKERS, NODES);
        report.targets.extend(Target::at_least(format!("{regime}: workers / nodes"), &ratios, least));
    }
    for (regime, of) in [(HANDING, [HANDED, DIRECT]), (HANDING_CHANNEL, [AT_OTHER, AT_OWN])] {
        report.targets.extend(Target::at_most(format!("{regime}, added ns"), &added(&all, regime, of), 60.0));
    }
    report.targets.extend(budget::target(&all));
    report.rows = all.rows(&[NODES, DIRECT, AT_OWN]);
    report.note(
        "Both threads of a variant begin together; the rate is that of all their capsules until the last has ended.",
    );
    report.note("Each round is a process of its own.");
    Ok(())
}

/// Measures all there is, in this process.
fn measure(settings: &Settings) -> Result<Series, Error> {
    let guests = Guests::build()?;
    let counts = compile("counts", COUNTS, &AuthorOptions { only: Some(Kind::Wasm), ..AuthorOptions::default() })?;
    let codes = guests.forwards(CODES)?;
    let one = &guests.forward;
    let (own, same) = ([1u64, 2], [1u64, 1]);
    let cases = [
        (OWN, [&codes[0], &codes[1]], own),
        (KEYS, [&counts, &counts], own),
        (KEY, [&counts, &counts], same),
        (BUDGET, [one, one], own),
    ];
    // Before all others, whose memory it could have.
    let mut all = memory(settings, &codes)?;
    for (regime, codes, keys) in cases {
        all.extend(side_by_side(settings, regime, codes, keys)?);
    }
    all.extend(handing(settings, one)?);
    all.extend(channels(settings)?);
    all.extend(budget::over_admission(settings)?);
    all.extend(queue::queue(settings, one)?);
    Ok(all)
}

/// What one of two variants costs more than the other, in each round.
fn added(series: &Series, regime: &str, [with, without]: [&str; 2]) -> Vec<f64> {
    let key =
        |variant: &str| Key { variant: variant.into(), size: None, regime: regime.into(), metric: COST, unit: "ns" };
    let rounds = series.values(&key(with)).iter().zip(series.values(&key(without)));
    rounds.map(|(with, without)| with - without).collect()
}

fn rate(variant: &str, regime: &str) -> Key {
    Key { variant: variant.into(), size: None, regime: regime.into(), metric: RATE, unit: "/µs" }
}

/// Two stands that are workers of one node, the second knowing what the first has told.
fn joined(codes: [&Bundle; 2]) -> Result<[Stand; 2], Error> {
    let joint = Joint::new(2, Sizes::default().state_entries);
    let mut stands = [Stand::empty(codes[0])?, beside(|| Stand::empty(codes[1]))?];
    for (id, stand) in (0..).zip(&mut stands) {
        stand.driver.node.set_worker(id, joint.clone());
    }
    let [first, second] = &mut stands;
    let compiler = compiler()?;
    let mut orders = first.load(codes[0], &compiler)?;
    if codes[1].name() != codes[0].name() {
        orders.extend(first.load(codes[1], &compiler)?);
    }
    beside(|| obey(first, second, orders));
    first.become_of(codes[0]);
    Ok(stands)
}

/// Does this in a thread of its own, as another worker does: what it allocates is in no cache line with what this one has.
fn beside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|why| std::panic::resume_unwind(why)))
}

/// The second does what it is told, and has its marks back from the first: it holds no packets any more.
fn obey(first: &mut Stand, second: &mut Stand, orders: Vec<WorkerOrder>) {
    for order in orders {
        second.driver.turn(0, |node, turn| node.obey(turn, order));
    }
    for mark in std::mem::take(&mut second.driver.out.handed) {
        first.driver.turn(first.now, |node, turn| node.take_handed(turn, mark));
    }
    if let Some(look) = first.driver.node.next_look_at_marks() {
        first.driver.turn(look, |node, turn| node.timer(turn));
    }
    for mark in std::mem::take(&mut first.driver.out.handed) {
        second.driver.turn(0, |node, turn| node.take_handed(turn, mark));
    }
}

/// Two stands that are nodes.
fn apart(codes: [&Bundle; 2]) -> Result<[Stand; 2], Error> {
    Ok([Stand::new(codes[0])?, beside(|| Stand::new(codes[1]))?])
}

fn side_by_side(settings: &Settings, regime: &str, codes: [&Bundle; 2], keys: [u64; 2]) -> Result<Series, Error> {
    let goes = if settings.quick { 1 } else { GOES };
    let mut series = Series::default();
    let mut pairs = [(WORKERS, joined(codes)?), (NODES, apart(codes)?)];
    for (_, stands) in &mut pairs {
        for (stand, key) in stands.iter_mut().zip(keys) {
            // Two spend one budget: both together stay below it.
            stand.gap *= 2;
            stand.set_payload(&key.to_le_bytes());
        }
    }
    settings.rounds(regime, |round| {
        let mut took = [0.0; 2];
        for _ in 0..goes {
            for step in 0..2 {
                let at = (step + round) % 2;
                took[at] += together(&mut pairs[at].1, CAPSULES);
            }
        }
        for ((variant, _), took) in pairs.iter().zip(took) {
            series.push(rate(variant, regime), f64::from(CAPSULES * goes) * 2.0 / took);
        }
        Ok(())
    })?;
    for (variant, stands) in &pairs {
        for stand in stands {
            stand.balanced().map_err(|error| Error::Node(format!("{regime}, {variant}: {error}")))?;
        }
    }
    Ok(series)
}

/// This thread stays at the processor of this number, of those that there are: two that begin at one would share it for a while.
fn stay_at(at: usize) {
    let all = allowed_cpus();
    let own = all.get(at % all.len().max(1)).copied();
    // Where that is not allowed both variants move about alike, which the figures show.
    let _ = pin(own.as_slice());
}

/// Microseconds until both threads have passed so many capsules each.
fn together(stands: &mut [Stand; 2], count: u32) -> f64 {
    let barrier = Barrier::new(3);
    let now = stands.iter().map(|stand| stand.now).max().unwrap_or_default();
    stands.iter_mut().for_each(|stand| stand.now = now);
    std::thread::scope(|scope| {
        let threads: Vec<_> = stands
            .iter_mut()
            .enumerate()
            .map(|(at, stand)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    stay_at(at);
                    barrier.wait();
                    (0..count).for_each(|_| stand.pass());
                })
            })
            .collect();
        barrier.wait();
        let began = Instant::now();
        for thread in threads {
            thread.join().unwrap_or_else(|why| std::panic::resume_unwind(why));
        }
        began.elapsed().as_secs_f64() * 1e6
    })
}

/// A packet that the second worker hands to the first, through the ring, beside one that comes to the first.
fn handing(settings: &Settings, code: &Bundle) -> Result<Series, Error> {
    let way = || -> Result<Way, Error> {
        let (orders, _) = channel();
        Ok(Way { orders, waker: Waker::new().map_err(|error| Error::Node(error.to_string()))? })
    };
    let (mut further, mut ring) = between((0, way()?), (1, way()?));
    let mut direct = Stand::new(code)?;
    let joint = Joint::new(2, 64);
    let [mut first, mut second] = [Stand::empty(code)?, Stand::empty(code)?];
    first.driver.node.set_worker(0, joint.clone());
    second.driver.node.set_worker(1, joint);
    // The second is not told: it can go on with nothing.
    first.load(code, &compiler()?)?;
    let second = RefCell::new(second);
    Micro::new(HANDING, None)
        .variant(DIRECT, || direct.pass())
        .variant(HANDED, || {
            let mut second = second.borrow_mut();
            second.receive();
            while let Some(handed) = second.driver.out.handed.pop() {
                if let Err(handed) = ring.hand(handed) {
                    second.driver.turn(0, |node, turn| node.not_handed(turn, handed));
                }
            }
            let now = second.now;
            further.take(&mut first.driver.at(now), &mut |_, _| {});
            ring.take_back(|frame| second.keep(frame));
            // What the first has sent goes back to its pool, out of which the empty frame has come.
            first.driver.out.frames.drain(..).for_each(|frame| first.driver.out.pool.give(frame));
        })
        .run(settings)
}

/// A packet of a channel that comes to one worker and is of a domain at the other, beside one that comes to that.
fn channels(settings: &Settings) -> Result<Series, Error> {
    let mut direct = Channels::new(Policy::Wfq, 1, SIZE)?;
    let two = RefCell::new(Two::new(Policy::Wfq, 1, SIZE)?);
    let series = Micro::new(HANDING_CHANNEL, None)
        .variant(AT_OWN, || direct.pass())
        .variant(AT_OTHER, || two.borrow_mut().pass())
        .run(settings)?;
    two.borrow().balanced().map(|()| series)
}

/// Bytes in RAM of this process.
fn resident() -> Result<f64, Error> {
    let text = std::fs::read_to_string("/proc/self/statm").map_err(|error| Error::Node(error.to_string()))?;
    let pages: f64 = text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(f64::NAN);
    Ok(pages * rustix::param::page_size() as f64)
}

fn of_memory() -> Key {
    Key { variant: MORE.into(), size: None, regime: MEMORY.into(), metric: "resident", unit: "MiB" }
}

/// What one more worker takes that has run 100 codes.
fn memory(settings: &Settings, codes: &[Bundle]) -> Result<Series, Error> {
    let mut series = Series::default();
    let key = of_memory();
    // All stay until the last has been measured, so that none has the memory of another.
    let mut kept = Vec::new();
    settings.rounds(MEMORY, |_| {
        let joint = Joint::new(2, Sizes::default().state_entries);
        let mut first = Stand::empty(&codes[0])?;
        first.driver.node.set_worker(0, joint.clone());
        let (mut orders, compiler) = (Vec::new(), compiler()?);
        for code in codes {
            orders.extend(first.load(code, &compiler)?);
        }
        let before = resident()?;
        let mut second = Stand::empty(&codes[0])?;
        second.driver.out.pool = anode::frame::FramePool::new(anode::frame::FRAME, 512);
        second.driver.node.set_worker(1, joint);
        obey(&mut first, &mut second, orders);
        for code in codes {
            second.become_of(code);
            second.pass();
        }
        series.push(key.clone(), (resident()? - before).max(0.0) / f64::from(1 << 20));
        kept.push((first, second));
        Ok(())
    })?;
    Ok(series)
}
