//! Shares and deadlines of a running node, by real clocks.
//!
//! ```text
//! generator (a thread on the other CPU) ──UDP──▶ anode node run ─┬─▶ environments in its process, PLAN, capsules
//!                                                one CPU         └─▶ environments in jailed processes, on the same CPU
//! ```
//!
//! Each environment is sent more than it can have run, by real packets through one overlay port. What each used is what
//! the node says of its domain and all below it (`cpu_ns` of `anode domain ls --json`), and that is compared with what
//! the worker's thread and the control groups used: their difference is a row too, so that nothing is in nobody's
//! account. `bed` has the same node without sockets, in virtual time.

mod member;
mod stand;

use super::super::series::{Key, Series, Target};
use super::super::{Error, Report, Settings};
use super::bed::{Bed, Member, weight};
use anode::schedule::Policy;
use anode::trust::grants::Grants;
use member::{Environment, Kind};
use stand::{Spent, Stand};
use std::time::Duration;

/// How far a share may be from its weight's, and how many deadlines of 10,000 may be missed.
const SHARES: f64 = 0.02;
const MISSED: f64 = 10.0;

const SHARES_OFF: &str = "largest deviation from the weights' shares";
const UNACCOUNTED: &str = "share of the CPU time used that is in no domain's account";
const PER_10000: &str = "deadlines missed of 10,000";

/// Microseconds of a packet.
const COST: u32 = 200;
/// Packets a second for each environment that is overloaded: more than all of a CPU runs. One that is to have most of
/// it gets three times what it can run ([`rate`]), so that it never waits for packets while the worker waits for the
/// CPU.
const RATE: u64 = 6000;

/// For how long packets come before it counts.
const WARM: Duration = Duration::from_millis(1500);

/// The deadline experiment: microseconds of a packet, of a deadline, and packets a second: 2 % of a CPU.
const TIMED: u32 = 50;
const DEADLINE_US: u32 = 2000;
const TIMED_RATE: u64 = 400;
/// Packets a second of the other one, more than a CPU runs.
const BESIDE_RATE: u64 = 24_000;

/// What stands beside each other, by name.
fn mixes() -> Vec<(&'static str, Vec<Environment>)> {
    let weights = [100, 200, 400];
    let all = |kind: Kind| weights.iter().map(|weight| Environment::new(kind, *weight, COST)).collect::<Vec<_>>();
    let [plan, capsules, process] = [Kind::Plan, Kind::Capsules, Kind::Process];
    let mixed = [(plan, 100), (capsules, 200), (process, 400)];
    let below = |kind| vec![Environment::new(kind, 100, COST).with_domains(30), Environment::new(process, 400, COST)];
    vec![
        ("1:2:4 in the node's process", all(Kind::Object)),
        ("1:2:4 in processes", all(Kind::Process)),
        ("1:2:4 PLAN, capsules, process", mixed.map(|(kind, weight)| Environment::new(kind, weight, COST)).into()),
        ("1:4, the first with 30 domains below it", below(Kind::Object)),
        ("1:4, both processes, the first with 30 domains", below(Kind::Process)),
    ]
}

/// Runs what needs a node.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    // A node is loaded for seconds, so a quick run has one of each.
    let settings = &Settings { round_count: if settings.quick { 1 } else { settings.round_count }, ..settings.clone() };
    let mut series = Series::default();
    virtual_deadlines(&mut series, report)?;
    if settings.two_cpus_there() {
        let length = Duration::from_millis(if settings.quick { 4000 } else { 8000 });
        for (name, members) in mixes() {
            if let Err(error) = settings.rounds(name, |_| shares(settings, name, &members, length, &mut series)) {
                report.note(format!("SKIPPED {name}: {error}."));
            }
            let values = series.values(&key(name, SHARES_OFF, "1")).to_vec();
            report.targets.extend(Target::at_most(
                format!("a running node, {name}: deviation of shares"),
                &values,
                SHARES,
            ));
        }
        deadlines(settings, report, &mut series)?;
    } else {
        report.note("SKIPPED a running node: its packets come from a second CPU, and there is one.");
    }
    report.note(
        "A running node: all of it on one CPU, with its environments; packets of about 200 µs through one overlay \
         port, for each environment more than the CPU runs.",
    );
    Ok(series)
}

fn key(variant: &str, metric: &'static str, unit: &'static str) -> Key {
    Key { variant: variant.into(), size: None, regime: "a running node, by real clocks".into(), metric, unit }
}

/// Packets a second for an environment of this weight among all.
fn rate(weight: u32, weights: u32) -> u64 {
    RATE.max(RATE * 5 * u64::from(weight) / (2 * u64::from(weights)))
}

/// One node, overloaded.
fn shares(
    settings: &Settings,
    name: &str,
    members: &[Environment],
    length: Duration,
    series: &mut Series,
) -> Result<(), Error> {
    let stand = Stand::start(members, Policy::Wfq, settings.apart())?;
    let weights: u32 = members.iter().map(|member| member.weight).sum();
    let rates: Vec<_> = members.iter().map(|member| rate(member.weight, weights)).collect();
    let Spent { of_members, overloaded, total, .. } = stand.load(&rates, WARM, length)?;
    if let Some(at) = overloaded.iter().position(|dropped| *dropped == 0) {
        return Err(Error::Node(format!("{} was not overloaded", members[at].name(at))));
    }
    let used: f64 = of_members.iter().sum();
    let fair = |member: &Environment| f64::from(member.weight) / f64::from(weights);
    let off = of_members.iter().zip(members).map(|(own, member)| (own / used / fair(member) - 1.0).abs());
    series.push(key(name, SHARES_OFF, "1"), off.fold(0.0, f64::max));
    series.push(key(name, UNACCOUNTED, "1"), 1.0 - used / total);
    Ok(())
}

/// Deadlines of one environment beside another that is overloaded.
fn deadlines(settings: &Settings, report: &mut Report, series: &mut Series) -> Result<(), Error> {
    let packets = if settings.quick { 2_000 } else { 10_000 };
    let length = Duration::from_millis(packets * 1000 / TIMED_RATE);
    let name = "deadline of 2 ms, 2 % load, beside packets of 50 µs";
    let members = [
        Environment::new(Kind::Object, 100, TIMED).with_deadline(DEADLINE_US),
        Environment::new(Kind::Object, 100, TIMED),
    ];
    let run = settings.rounds(name, |_| {
        let stand = Stand::start(&members, Policy::Edf, settings.apart())?;
        let spent = stand.load(&[TIMED_RATE, BESIDE_RATE], WARM, length)?;
        let run = spent.packets[0].max(1);
        series.push(key(name, PER_10000, "1"), spent.missed as f64 * 1e4 / run as f64);
        series.push(key(name, "packets of the environment with deadlines that arrived", "of 1"), spent.arrived);
        series.push(key(name, "gaps: 1 ms or more without the CPU, with work", "gaps"), spent.gaps as f64);
        series.push(key(name, "the longest gap", "ms"), spent.longest_gap_ms);
        series.push(key(name, "deadlines missed beyond those within gaps", "1"), spent.missed_beside_no_gap());
        Ok(())
    });
    if let Err(error) = run {
        report.note(format!("SKIPPED {name}: {error}."));
    }
    let values = |metric, unit| series.values(&key(name, metric, unit)).to_vec();
    report.targets.extend(Target::at_most(
        format!("a running node, {name}: missed of 10,000"),
        &values(PER_10000, "1"),
        MISSED,
    ));
    Ok(())
}

/// The same in virtual time, where nothing comes between: ten thousand packets.
fn virtual_deadlines(series: &mut Series, report: &mut Report) -> Result<(), Error> {
    const COST_NS: u64 = TIMED as u64 * 1000;
    let timed = Grants { deadline_us: DEADLINE_US, priority: 1, ..Grants::default() };
    let name = "deadline of 2 ms, 2 % load, in virtual time";
    for policy in [Policy::Edf, Policy::Bert] {
        let mut bed = Bed::new(policy, &[Member { grants: timed, cost: 0 }, weight(100, 0)])?;
        let (mut now, mut due, every) = (0, 0, 1_000_000_000 / TIMED_RATE);
        while bed.packets(0) < 10_000 {
            while due <= now {
                bed.feed(0, due);
                due += every;
            }
            bed.feed(1, now);
            bed.run_at(now, COST_NS);
            now += COST_NS;
        }
        series.push(key(&format!("{name}, {}", policy.name()), PER_10000, "1"), bed.missed(0) as f64);
        let label = format!("{name}, {}: missed of 10,000", policy.name());
        report.targets.extend(Target::at_most(label, &[bed.missed(0) as f64], 0.0));
    }
    Ok(())
}
