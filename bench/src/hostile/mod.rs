//! `anode bench hostile`: the share that an innocent neighbour keeps beside each attack.
//!
//! ```text
//! generator ─┬─ attacker ──▶ port a ┐
//!            └─ innocent ──▶ port b ┤ anode node run, on a CPU of its own ─▶ port c ──▶ sink, counted
//! ```
//!
//! A real node with its own defaults, in a process of its own. The innocent's packets cost some microseconds of the
//! worker each. First it is found how many a second the node takes without loss; half of that is the innocent's fair
//! share, as in `anode bench schedule`. It is sent just that, alone and beside each attack, a fresh node each time, in
//! turns; the figure is what arrives beside the attack over what arrives alone. Beside that, ordinary traffic through a
//! router whose kernel half is flooded with capsules, on one CPU, is compared with plain Linux under the same flood
//! ([`ordinary`]). Generator and sink are one thread on the other CPU: what it offered, and how much of its CPU that
//! took, stand in the result. A generator that is late would flatter the node, so its packets that were not sent in
//! time count as not arrived.

mod attack;
mod ordinary;
mod road;
mod serve;

use super::compile::Programs;
use super::report::Report;
use super::series::{Key, Series, Target};
use super::{Error, Settings};
use attack::{Attack, Codes};
use road::{Passed, Road};
use std::time::Duration;

const REGIME: &str = "an innocent neighbour at its fair share";
const FAIR: &str = "throughput / fair share";
const OFFERED: &str = "offered by the attacker";
const BUSY: &str = "generator's CPU";
const ALONE: &str = "alone";

/// At most three in a hundred less than the fair share.
const SHARE: f64 = 0.97;
/// Rates of the innocent between which the loss-free one is sought, packets a second, and steps.
const RATES: (f64, f64) = (2_000.0, 200_000.0);
const STEPS: usize = 8;
/// What may be lost where a rate counts as loss-free.
const LOSS: f64 = 0.001;

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let settings = Settings { two_cpus: true, ..settings.clone() };
    let cpus = settings.cpus();
    if cpus.generator == cpus.gateway {
        report.note("SKIPPED: generator and node need a CPU each.");
        return Ok(());
    }
    let programs = Programs::ready()?;
    let codes = Codes::build()?;
    let length = Duration::from_millis(if settings.quick { 500 } else { 2000 });
    let rate = loss_free(&Road::start(None, &codes, &programs, cpus)?, length / 2)? / 2.0;
    let mut series = Series::default();
    let mut missing: Vec<(Attack, String)> = Vec::new();
    settings.rounds(REGIME, |_| {
        let alone = pass(None, rate, length, (&codes, &programs, cpus))?;
        push(&mut series, ALONE, 1.0, &alone);
        for attack in Attack::ALL {
            if missing.iter().any(|(known, _)| *known == attack) {
                continue;
            }
            match pass(Some(attack), rate, length, (&codes, &programs, cpus)) {
                Ok(beside) => push(&mut series, attack.name(), beside.share() / alone.share(), &beside),
                Err(Error::Node(why)) if attack.needs_environments() => missing.push((attack, why)),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })?;
    judge(&series, &missing, rate, report);
    let kernel = codes.kernel()?;
    series.extend(ordinary::run(&settings, &programs, [&kernel[0], &kernel[1]], report)?);
    report.rows = series.rows(&[ALONE, ordinary::LINUX]);
    Ok(())
}

fn judge(series: &Series, missing: &[(Attack, String)], rate: f64, report: &mut Report) {
    for (attack, why) in missing {
        report.note(format!("SKIPPED {}: {why}.", attack.name()));
    }
    for attack in Attack::ALL {
        let values = series.values(&key(attack.name(), FAIR, "1")).to_vec();
        report.targets.extend(Target::at_least(
            format!("throughput beside {}, in fair shares", attack.name()),
            &values,
            SHARE,
        ));
    }
    report.note(format!(
        "The innocent's fair share is {rate:.0} packets a second, half of what the node takes without loss; it is sent just that."
    ));
    for attack in Attack::ALL {
        report.note(format!("{}: {}", attack.name(), attack.help()));
    }
}

fn key(variant: &str, metric: &'static str, unit: &'static str) -> Key {
    Key { variant: variant.into(), size: None, regime: REGIME.into(), metric, unit }
}

fn push(series: &mut Series, variant: &str, fair: f64, passed: &Passed) {
    series.push(key(variant, FAIR, "1"), fair);
    series.push(key(variant, OFFERED, "packets/s"), passed.attacked as f64 / passed.seconds);
    series.push(key(variant, BUSY, "of 1"), passed.cpu_seconds / passed.seconds);
}

/// A fresh node, and what of the innocent's packets passes it.
fn pass(
    attack: Option<Attack>,
    rate: f64,
    length: Duration,
    (codes, programs, cpus): (&Codes, &Programs, super::place::Cpus),
) -> Result<Passed, Error> {
    Road::start(attack, codes, programs, cpus)?.run(rate, length)
}

/// The highest rate that a calm node takes without loss, about.
fn loss_free(road: &Road, length: Duration) -> Result<f64, Error> {
    let (mut low, mut high) = RATES;
    for _ in 0..STEPS {
        let middle = (low * high).sqrt();
        if road.run(middle, length)?.share() >= 1.0 - LOSS { low = middle } else { high = middle }
    }
    Ok(low)
}
