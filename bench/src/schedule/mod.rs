//! `anode bench schedule`: queues, shares and deadlines under each scheduler, and the cost of a decision.
//!
//! A running node by real clocks ([`live`]): shares of three environments of weights 1:2:4 under overload, in the
//! node's process, in processes, and PLAN, capsules and a process mixed; of one with thirty domains below it; and
//! deadlines. Then what needs no node of its own, as a second table: queues between threads under time-sharing and
//! real-time scheduling ([`pipeline`], Bowman's figure 8). Shares of domains under `wfq` beside their weights, and
//! deadlines under twice the load, in a node whose domains burn CPU time ([`bed`]). What a domain has left of its share
//! beside one that wants too much ([`beside`]). The cost of a decision, and of a packet's whole way through the node,
//! with 10 and with 10,000 domains.

mod bed;
mod beside;
mod live;
pub(crate) mod observed;
mod picture;
mod pipeline;

use std::hint::black_box;
use std::time::Duration;

use super::micro::{COST, Micro};
use super::report::Report;
use super::series::{Key, Series, Target};
use super::{Error, Settings};
use anode::schedule::{PathScheduler, Policy, Share};
use anode::trust::grants::Grants;
use bed::{Bed, Member, weight};
use pipeline::{Mode, Seen};

/// Real-time over time-sharing queues: the paper's order of magnitude.
const QUEUES: f64 = 0.1;
/// How far a domain's share may be from its weight's.
const SHARES: f64 = 0.02;
/// A decision with 10,000 domains over one with 10.
const DECISIONS: f64 = 1.3;

const FEW: usize = 10;
const MANY: usize = 10_000;

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let mut all = live::run(settings, report)?;
    all.extend(queues(settings, report)?);
    all.extend(shares(settings, report)?);
    all.extend(deadlines(settings, report)?);
    all.extend(beside::run(settings, report)?);
    all.extend(decisions(settings, report)?);
    all.extend(paths(settings, report)?);
    report.rows = all.rows(&[Mode::TimeSharing.name(), "10 domains"]);
    Ok(())
}

fn key(variant: &str, regime: &str, metric: &'static str, unit: &'static str) -> Key {
    Key { variant: variant.into(), size: None, regime: regime.into(), metric, unit }
}

/// Queue lengths between threads.
fn queues(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let length = Duration::from_millis(if settings.quick { 400 } else { 1000 });
    let cpu = settings.cpus().gateway;
    let (mut series, mut last) = (Series::default(), Vec::new());
    let ran = settings.rounds("queues between threads", |_| {
        last.clear();
        for mode in Mode::ALL {
            let seen = pipeline::run(mode, cpu, length)?;
            for (queue, lengths) in [("a-flow input queue", &seen.input), ("a-flow output queue", &seen.output)] {
                let mean = lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64;
                let most = lengths.iter().copied().max().unwrap_or(0);
                series.push(key(mode.name(), queue, "mean length", "packets"), mean);
                series.push(key(mode.name(), queue, "largest length", "packets"), most as f64);
            }
            let dropped = seen.dropped as f64 / seen.packets.max(1) as f64;
            series.push(key(mode.name(), "queues between threads", "share dropped", "1"), dropped);
            last.push((mode, seen));
        }
        Ok(())
    });
    if let Err(error) = ran {
        report.note(format!("SKIPPED queues between threads: {error}."));
        return Ok(Series::default());
    }
    let (real, shared) = (Mode::RealTime.name(), Mode::TimeSharing.name());
    let ratios = series.ratios(&key(real, "a-flow input queue", "mean length", "packets"), real, shared);
    report.targets.extend(Target::at_most("a-flow input queue: real-time / time-sharing", &ratios, QUEUES));
    let curves: Vec<(&str, &Seen)> = last.iter().map(|(mode, seen)| (mode.name(), seen)).collect();
    report.figures.push(("queues".into(), picture::svg(&curves)));
    report.note(
        "Queues between threads: three threads on one CPU beside two that compute; the node has none of these queues.",
    );
    Ok(series)
}

/// Shares of domains that always have work.
fn shares(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let mixes: [(&str, Vec<Member>); 2] = [
        ("equal packets", [1, 2, 3, 4].map(|w| weight(w * 100, 5_000)).to_vec()),
        (
            "packets of 2 to 50 µs",
            vec![weight(100, 50_000), weight(200, 2_000), weight(300, 10_000), weight(400, 5_000)],
        ),
    ];
    let packets = if settings.quick { 8_000 } else { 20_000 };
    let mut series = Series::default();
    for (name, members) in &mixes {
        settings.rounds(name, |_| {
            for policy in [Policy::Wfq, Policy::Priority] {
                let off = deviation(policy, members, packets)?;
                series.push(key(policy.name(), name, "largest deviation from the weights' shares", "1"), off);
            }
            Ok(())
        })?;
        let values = series.values(&key("wfq", name, "largest deviation from the weights' shares", "1")).to_vec();
        report.targets.extend(Target::at_most(format!("{name}: deviation under wfq"), &values, SHARES));
    }
    report.note(
        "Shares: `priority` with equal priorities gives a packet to each in turn, for comparison; `wfq` gives time.",
    );
    Ok(series)
}

/// The largest deviation of a domain's share of the CPU from that of its weight.
fn deviation(policy: Policy, members: &[Member], packets: usize) -> Result<f64, Error> {
    let mut bed = Bed::new(policy, members)?;
    // Enough waits for each that none runs dry before it is fed again.
    const WAITING: u64 = 64;
    let mut fed = vec![0; members.len()];
    let mut done = 0;
    while done < packets {
        let now = bed.now();
        for (member, fed) in fed.iter_mut().enumerate() {
            while *fed < WAITING {
                bed.feed(member, now);
                *fed += 1;
            }
        }
        let before = bed.cpu();
        let mut at = bed.now();
        for _ in 0..WAITING / 2 {
            match bed.run(at) {
                Some(after) => at = after,
                None => return Err(Error::Node("a domain ran dry".into())),
            }
        }
        done += WAITING as usize / 2;
        let costs = members.iter().map(|member| member.cost);
        for (((fed, before), after), cost) in fed.iter_mut().zip(before).zip(bed.cpu()).zip(costs) {
            // An upper bound of how many have run, as each took at least its cost.
            *fed = fed.saturating_sub((after - before) / cost);
        }
    }
    let cpu = bed.cpu();
    let (used, weights) = (cpu.iter().sum::<u64>() as f64, members.iter().map(|m| m.grants.weight).sum::<u32>());
    let off = |(cpu, member): (&u64, &Member)| {
        let fair = used * f64::from(member.grants.weight) / f64::from(weights);
        (*cpu as f64 / fair - 1.0).abs()
    };
    Ok(cpu.iter().zip(members).map(off).fold(0.0, f64::max))
}

/// Deadlines of domains that want 0.6 of the CPU, beside some that want 1.3.
fn deadlines(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    const REGIME: &str = "deadlines at twice the load";
    const METRIC: &str = "share of deadlines missed";
    let length = if settings.quick { 200_000_000 } else { 500_000_000 };
    let mut series = Series::default();
    settings.rounds(REGIME, |_| {
        for policy in [Policy::Wfq, Policy::Edf, Policy::Bert] {
            let (missed, packets) = at_twice_the_load(policy, length)?;
            series.push(key(policy.name(), REGIME, METRIC, "1"), missed as f64 / packets.max(1) as f64);
        }
        Ok(())
    })?;
    for policy in ["edf", "bert"] {
        let values = series.values(&key(policy, REGIME, METRIC, "1")).to_vec();
        report.targets.extend(Target::at_most(format!("feasible deadlines missed under {policy}"), &values, 0.0));
    }
    report.note(
        "Deadlines: forty domains with a packet of 60 µs each 1 to 10.75 ms, due before the next one, want 0.6 of the \
         CPU; four others, without deadlines and with ten \
         times the weight, want 1.3. Feasible: cost / time between packets, summed over those with deadlines, is at most 1.",
    );
    Ok(series)
}

/// Deadlines missed and packets of the domains with deadlines.
fn at_twice_the_load(policy: Policy, length: u64) -> Result<(u64, u64), Error> {
    const TIMED: usize = 40;
    let every = |n: usize| 1_000_000 + n as u64 * 250_000;
    let timed = |n: usize| {
        let grants = Grants { deadline_us: (every(n) / 1000) as u32, priority: 1, ..Grants::default() };
        Member { grants, cost: 60_000 }
    };
    let greedy = Member { grants: Grants { weight: 1000, ..Grants::default() }, cost: 100_000 };
    let members: Vec<Member> = (0..TIMED).map(timed).chain([greedy; 4]).collect();
    let gaps: Vec<u64> = (0..TIMED).map(every).chain([300_000; 4]).collect();
    let mut next: Vec<u64> = (0..members.len() as u64).map(|n| n * 37_000).collect();
    let mut bed = Bed::new(policy, &members)?;
    loop {
        let now = bed.now();
        if now >= length {
            break;
        }
        for (member, (next, gap)) in next.iter_mut().zip(&gaps).enumerate() {
            while *next <= now {
                bed.feed(member, now);
                *next += gap;
            }
        }
        if bed.run(bed.now()).is_none() {
            let soonest = next.iter().copied().min().unwrap_or(now);
            bed.skip(soonest.saturating_sub(now));
        }
    }
    Ok(((0..TIMED).map(|member| bed.missed(member)).sum(), (0..TIMED).map(|member| bed.packets(member)).sum()))
}

/// What a decision of a scheduler costs.
fn decisions(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let mut all = Series::default();
    for policy in Policy::ALL {
        let regime = format!("a decision of {}", policy.name());
        let mut micro = Micro::new(&regime, None);
        for count in [FEW, 1000, MANY] {
            let mut scheduler = crowded(policy, count);
            let (mut now, mut mixed) = (0, 1u64);
            micro = micro.variant(&format!("{count} domains"), move || {
                mixed = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let cost = 300 + (mixed >> 54);
                let flow = scheduler.next(now);
                now += cost;
                if let Some(flow) = black_box(flow) {
                    scheduler.charge(flow, cost, true, now);
                }
            });
        }
        let series = micro.run(settings)?;
        judge(&series, &regime, report);
        all.extend(series);
    }
    Ok(all)
}

fn crowded(policy: Policy, count: usize) -> PathScheduler {
    let mut scheduler = PathScheduler::new(policy);
    for flow in 0..count {
        let share = Share {
            weight: 20 + (flow % 7) as u32 * 20,
            priority: (flow % 4) as u8,
            deadline_ns: if flow % 4 == 1 { 1_000_000 + (flow as u64 % 50) * 100_000 } else { 0 },
        };
        scheduler.enter(flow, share, 0);
        scheduler.wake(flow, 0);
    }
    scheduler
}

/// What a datagram's whole way costs: found, queued, chosen, handed to its domain, whose work costs nothing.
fn paths(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let mut all = Series::default();
    for policy in [Policy::Fifo, Policy::Wfq] {
        let regime = format!("a datagram through the node, {}", policy.name());
        let mut micro = Micro::new(&regime, None);
        for count in [FEW, MANY] {
            let mut bed = Bed::crowd(policy, count)?;
            let mut at = 0usize;
            micro = micro.variant(&format!("{count} domains"), move || {
                // Evenly, but not in the order of memory.
                at = (at + 7919) % count;
                let now = bed.now_cheap();
                bed.feed(at, now);
                if policy.waits() {
                    bed.run_at(now, 500);
                }
                assert_eq!(bed.dropped(), 0, "a datagram of the benchmark was dropped");
            });
        }
        let series = micro.run(settings)?;
        judge(&series, &regime, report);
        all.extend(series);
    }
    Ok(all)
}

fn judge(series: &Series, regime: &str, report: &mut Report) {
    let ratios = series.ratios(&key("", regime, COST, "ns"), &format!("{MANY} domains"), &format!("{FEW} domains"));
    report.targets.extend(Target::at_most(format!("{regime}: {MANY} domains / {FEW}"), &ratios, DECISIONS));
}
