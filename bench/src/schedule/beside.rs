//! The share that a domain keeps beside one that wants more than its own.
//!
//! Both have one weight. The good one always has work; the figure is how many of its packets run in a second of CPU
//! time, in halves of what runs when it is alone: 1 is its fair share. What it costs to take packets in counts too,
//! also of those that are dropped.

use super::super::series::{Key, Series, Target};
use super::super::{Error, Report, Settings};
use super::bed::{Bed, Spent, weight};
use anode::schedule::Policy;

const REGIME: &str = "beside a domain that wants too much";
const METRIC: &str = "throughput in fair shares";
/// Where the time goes: what its packet costs to run, of all CPU time that for reading packets, and that which is in no packet's cost.
const OWN: &str = "CPU time of a packet of the good domain";
const TAKING_IN: &str = "share of taking packets in";
const BETWEEN: &str = "share that is in no packet's cost";
/// The good domain alone.
const ALONE: &str = "alone";
/// At most three in a hundred less than the fair share.
const SHARE: f64 = 0.97;

/// What a packet of the good domain costs, in nanoseconds.
const COST: u64 = 5_000;
/// Packets of the other one that come in a round, as many as a worker takes in, if the port always has more.
const BUSY: usize = 256;
/// Packets of it that wait.
const WAITING: usize = 64;

/// The other one.
#[derive(Clone, Copy)]
enum Other {
    /// It is sent four packets for each that can run.
    Greedy,
    /// It is sent as many as a worker takes in, and they cost nothing to run.
    Flooded,
    /// It keeps what it gets, and is ended for it.
    Leaking,
    /// Its packets take forty times as long.
    Looping,
}

impl Other {
    const ALL: [Other; 4] = [Other::Greedy, Other::Flooded, Other::Leaking, Other::Looping];

    fn name(self) -> &'static str {
        match self {
            Other::Greedy => "greedy",
            Other::Flooded => "flooded",
            Other::Leaking => "leaking",
            Other::Looping => "looping",
        }
    }

    /// Nanoseconds of a packet, and packets that come in each round.
    fn load(self) -> (u64, usize) {
        match self {
            Other::Greedy | Other::Leaking => (COST, BUSY),
            Other::Flooded => (0, BUSY),
            Other::Looping => (40 * COST, 64),
        }
    }
}

/// Measures all of them.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let length = if settings.quick { 100_000_000 } else { 300_000_000 };
    let mut series = Series::default();
    settings.rounds(REGIME, |_| {
        let alone = throughput(None, length)?;
        explain(&mut series, ALONE, &alone);
        for other in Other::ALL {
            let beside = throughput(Some(other), length)?;
            series.push(key(other.name()), 2.0 * beside.rate() / alone.rate());
            explain(&mut series, other.name(), &beside);
        }
        Ok(())
    })?;
    for other in Other::ALL {
        let values = series.values(&key(other.name())).to_vec();
        let label = format!("throughput beside a {} domain, in fair shares", other.name());
        report.targets.extend(Target::at_least(label, &values, SHARE));
    }
    report.note(
        "Beside others: two domains of one weight under `wfq`; 1 is half of what the good one has alone. A \
                 domain that leaks is ended after 100 ms, and then the good one has all.",
    );
    Ok(series)
}

fn key(variant: &str) -> Key {
    Key { variant: variant.into(), size: None, regime: REGIME.into(), metric: METRIC, unit: "1" }
}

/// What was done, and in what time.
struct Done {
    packets: u64,
    time: u64,
    spent: Spent,
}

impl Done {
    /// Packets of the good domain in a nanosecond of CPU time.
    fn rate(&self) -> f64 {
        self.packets as f64 / self.time as f64
    }
}

/// Says where the time went.
fn explain(series: &mut Series, variant: &str, done: &Done) {
    let Spent { taking_in, running, of_member } = done.spent;
    let time = done.time as f64;
    let mut add = |metric, unit, value| series.push(Key { metric, unit, ..key(variant) }, value);
    add(OWN, "ns", of_member as f64 / done.packets.max(1) as f64);
    add(TAKING_IN, "1", taking_in as f64 / time);
    add(BETWEEN, "1", 1.0 - (taking_in + running) as f64 / time);
}

/// Lets the good domain work, alone or beside another.
fn throughput(other: Option<Other>, length: u64) -> Result<Done, Error> {
    let good = weight(100, COST);
    let mut bed = match other {
        None | Some(Other::Leaking) => Bed::new(Policy::Wfq, &[good])?,
        Some(other) => Bed::new(Policy::Wfq, &[good, weight(100, other.load().0)])?,
    };
    if let Some(Other::Leaking) = other {
        bed.join_leaking(&weight(100, COST))?;
    }
    let (mut fed, mut done, mut now) = (0, 0, bed.now());
    loop {
        if now >= length {
            return Ok(Done { packets: done, time: now, spent: bed.spent });
        }
        let more = WAITING - (fed - done as usize);
        fed += more;
        let flood = other.map_or(0, |other| other.load().1);
        let after = bed.take_in(&[(0, more), (1, flood)], now);
        let (ran, ended) = bed.round(after - now, flood >= BUSY, 0, after);
        done += ran;
        now = ended;
    }
}
