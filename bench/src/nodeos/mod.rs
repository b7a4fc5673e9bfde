//! `anode bench nodeos`: the cost of the NodeOS for a packet, and the time that a domain takes to end.
//!
//! Without I/O: an Ethernet frame comes in, is found to be a channel's, an environment in the node's process gets the
//! payload and sends it by another channel, and a frame with headers of its own stands ready for the port. Traffic
//! spread evenly over many domains, each with channels of its own, shows what they cost each other (Snow on Silk §5
//! measured one path at a time).

pub(crate) mod stand;

use std::cell::RefCell;
use std::time::Instant;

use super::micro::{COST, Micro};
use super::series::{Key, Series, Target};
use super::{Error, Report, Settings};
use anode::schedule::Policy;
use stand::Stand;

const REGIME: &str = "without I/O";
/// Bytes of a frame's IP packet.
const SIZE: u32 = 128;
/// Few and many domains.
const FEW: usize = 10;
const MANY: usize = 10_000;
const QUICK_MANY: usize = 2_000;

/// Targets: one packet with few domains, nanoseconds; growth with many; a domain's end, milliseconds.
const PACKET_NS: f64 = 120.0;
const GROWTH: f64 = 1.30;
const END_MS: f64 = 10.0;

/// Domains that are ended in one round.
const ENDED: usize = 100;

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let many = if settings.quick { QUICK_MANY } else { MANY };
    let mut all = packets(settings, many)?;
    for policy in [Policy::Fifo, Policy::Wfq] {
        for coming in [Coming::Alone, Coming::Together] {
            let (few, crowd) = (name(policy, FEW, coming), name(policy, many, coming));
            let label = format!("classify, deliver, schedule, send under {}{}, ns", policy.name(), coming.name());
            report.targets.extend(Target::at_most(label, all.values(&key(&few)), PACKET_NS));
            let ratios = all.ratios(&key(&crowd), &crowd, &few);
            let label = format!("the same with {many} domains / with {FEW}, {}{}", policy.name(), coming.name());
            report.targets.extend(Target::at_most(label, &ratios, GROWTH));
        }
    }
    let ends = ends(settings, many)?;
    report.targets.extend(Target::at_most(
        format!("a domain with its channels, pool and events ends beside {many} others, ms"),
        ends.values(&end_key()),
        END_MS,
    ));
    all.extend(ends);
    let baselines = [Policy::Fifo, Policy::Wfq].map(|policy| name(policy, FEW, Coming::Alone));
    report.rows = all.rows(&[&baselines[0], &baselines[1]]);
    report.note(format!(
        "Packets come one at a time, or {} together as a busy port hands them over; either way each is \
                         for another domain than the one before.",
        stand::BATCH
    ));
    report.note(
        "A packet comes in by one Ethernet port, its payload goes to an environment in this process, and \
                 leaves in UDP, IP and Ethernet headers of its own by another; both checksums are computed.",
    );
    report.note("The frame is refilled for each packet, as a port would fill it; that is in the figures.");
    Ok(())
}

/// How packets come.
#[derive(Clone, Copy)]
enum Coming {
    Alone,
    Together,
}

impl Coming {
    fn name(self) -> String {
        match self {
            Coming::Alone => String::new(),
            Coming::Together => format!(", in batches of {}", stand::BATCH),
        }
    }
}

fn name(policy: Policy, domains: usize, coming: Coming) -> String {
    format!("{}, {domains} domains{}", policy.name(), coming.name())
}

fn key(variant: &str) -> Key {
    Key { variant: variant.into(), size: Some(SIZE), regime: REGIME.into(), metric: COST, unit: "ns" }
}

fn end_key() -> Key {
    Key {
        variant: "terminate".into(),
        size: None,
        regime: "many domains".into(),
        metric: "time of the call",
        unit: "ms",
    }
}

/// One packet, under two policies, with few and many domains.
fn packets(settings: &Settings, many: usize) -> Result<Series, Error> {
    let stands: Vec<(Policy, usize, RefCell<Stand>)> = [Policy::Fifo, Policy::Wfq]
        .into_iter()
        .flat_map(|policy| [FEW, many].map(|domains| (policy, domains)))
        .map(|(policy, domains)| Ok((policy, domains, RefCell::new(Stand::new(policy, domains, SIZE as usize)?))))
        .collect::<Result<_, Error>>()?;
    let mut micro = Micro::new(REGIME, Some(SIZE));
    for (policy, domains, stand) in &stands {
        micro = micro.variant(&name(*policy, *domains, Coming::Alone), || stand.borrow_mut().pass());
        micro = micro.variant(&name(*policy, *domains, Coming::Together), || stand.borrow_mut().pass_in_batch());
    }
    let series = micro.run(settings)?;
    stands.iter().try_for_each(|(.., stand)| stand.borrow().balanced())?;
    Ok(series)
}

/// Domains end one after the other, beside many others.
fn ends(settings: &Settings, many: usize) -> Result<Series, Error> {
    let mut stand = Stand::new(Policy::Fifo, many, SIZE as usize)?;
    // The first end has to set up what later ones have.
    let first = stand.furnish()?;
    stand.end(first)?;
    let mut series = Series::default();
    settings.rounds("ending domains", |_| {
        let mut worst: f64 = 0.0;
        for _ in 0..ENDED {
            let domain = stand.furnish()?;
            let began = Instant::now();
            stand.end(domain)?;
            worst = worst.max(began.elapsed().as_secs_f64() * 1e3);
        }
        series.push(end_key(), worst);
        Ok(())
    })?;
    Ok(series)
}
