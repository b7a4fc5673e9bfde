//! What it costs packets that somebody looks at a node: the status of 10,000 domains each second, and events of one packet in a hundred.
//!
//! The node is one without sockets ([`super::bed`]), driven as the worker drives it: a batch of 64 datagrams, then a slice of the
//! survey if one is under way. Time is the CPU time of this thread, so that other processes cost nobody anything.

use super::bed::Bed;
use crate::report::Report;
use crate::series::{Key, Series, Target};
use crate::{Error, Settings};
use anode::core::ledger::Unaccounted;
use anode::manage::observe::metrics::{self, Counted};
use anode::manage::observe::told;
use anode::node::survey::{Survey, Surveyed};
use anode::schedule::Policy;
use anode::seen::ring::{Listener, Teller, ring};
use anode::sys::clock::thread_cpu;
use std::time::{Duration, Instant};

const DOMAINS: usize = 10_000;

/// Datagrams of a batch.
const BATCH: usize = 64;

/// CPU time in which one survey is made, and of which a slice may take so much.
const SECOND: u64 = 1_000_000_000;
const SLICE: u64 = 40_000;

/// Events are told of one packet in so many.
const ONE_IN: u64 = 100;

/// Series of the text for Prometheus: of so many domains, four each.
const METERED: usize = 480;

/// Targets: packets beside a survey each second; microseconds of a slice; milliseconds of the list, and of 2,000 series; what events cost.
const BESIDE: f64 = 0.99;
const HELD_US: f64 = 50.0;
const LIST_MS: f64 = 100.0;
const METRICS_MS: f64 = 20.0;
const EVENTS: f64 = 1.02;

fn key(variant: &str, metric: &'static str, unit: &'static str) -> Key {
    Key { variant: variant.into(), size: None, regime: "10,000 domains".into(), metric, unit }
}

/// What passes in a second of CPU time, and what was surveyed meanwhile.
struct Passed {
    packets: u64,
    longest_ns: u64,
    survey: Option<Survey>,
}

/// A second of packets for all domains in turn, beside a survey or events if there are any.
fn second(bed: &mut Bed, mut survey: Option<Survey>, told: &mut Option<(Teller, Listener)>) -> Passed {
    let (begun, mut packets, mut longest_ns, mut done) = (thread_cpu(), 0u64, 0, survey.is_none());
    let mut heard = Vec::new();
    while thread_cpu() - begun < SECOND {
        for _ in 0..BATCH {
            packets += 1;
            let trace = if told.is_some() && packets.is_multiple_of(ONE_IN) { packets } else { 0 };
            let now = bed.now_cheap();
            bed.feed_numbered((packets as usize * 7919) % DOMAINS, now, trace);
            bed.run_at(now, 100);
        }
        if let Some((teller, listener)) = told {
            bed.tell_events(teller);
            if listener.hear(&mut heard, usize::MAX) {
                heard.clear();
            }
        }
        if let (false, Some(survey)) = (done, &mut survey) {
            let began = thread_cpu();
            done = bed.survey(survey, || thread_cpu() - began > SLICE);
            longest_ns = longest_ns.max(thread_cpu() - began);
        }
    }
    Passed { packets, longest_ns, survey: survey.filter(|_| done) }
}

/// Measures it.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let (mut series, mut bed) = (Series::default(), Bed::crowd(Policy::Wfq, DOMAINS)?);
    let beside = key("a survey each second / none", "packets a second", "ratio");
    let held = key("a survey each second", "longest slice", "µs");
    let list = key("all domains, as the control socket has them", "from the question to the line", "ms");
    let text = key("2,000 series", "text for Prometheus", "ms");
    let events = key("none / events of 1 % of packets", "packets a second", "ratio");
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    settings.rounds("snapshots and events", |_| {
        let none = second(&mut bed, None, &mut None);
        let with = second(&mut bed, Some(Survey::of(Surveyed::Counters)), &mut None);
        series.push(beside.clone(), with.packets as f64 / none.packets as f64);
        series.push(held.clone(), with.longest_ns as f64 / 1e3);
        let found = with.survey.and_then(Survey::counters);
        let (status, domains, _) = found.ok_or_else(|| Error::Node("no survey within a second".into()))?;
        if status.unaccounted_by != Unaccounted::default() || domains.len() < DOMAINS {
            return Err(Error::Node(format!("{} domains, {:?}", domains.len(), status.unaccounted_by)));
        }
        let begun = Instant::now();
        let mut survey = Survey::of(Surveyed::Counters);
        while !bed.survey(&mut survey, || true) {}
        let (_, all, _) = survey.counters().ok_or_else(|| Error::Node("no survey".into()))?;
        let rows: Vec<_> = all.iter().map(|domain| told::domain(domain, None, 0)).collect();
        let line = serde_json::to_string(&rows).map_err(|error| Error::Node(error.to_string()))?;
        series.push(list.clone(), ms(begun.elapsed()));
        let begun = Instant::now();
        let metered = metrics::text(&Counted { status: &Default::default(), domains: &domains[..METERED] }, false);
        series.push(text.clone(), ms(begun.elapsed()));
        if metered.series < 2000 || line.len() < DOMAINS * 100 {
            return Err(Error::Node(format!("{} series, a line of {} bytes", metered.series, line.len())));
        }
        let mut told = Some(ring(1 << 20));
        bed.trace(true);
        let traced = second(&mut bed, None, &mut told);
        bed.trace(false);
        let missed = told.map_or(0, |(_, listener)| listener.missed());
        if missed > 0 {
            return Err(Error::Node(format!("{missed} events were missed")));
        }
        series.push(events.clone(), none.packets as f64 / traced.packets as f64);
        Ok(())
    })?;
    let least =
        Target::at_least("packets beside a survey of 10,000 domains each second", series.values(&beside), BESIDE);
    let most = [
        ("the longest slice of a survey, µs", &held, HELD_US),
        ("a list of 10,000 domains, ms", &list, LIST_MS),
        ("metrics of 2,000 series, ms", &text, METRICS_MS),
        ("events of 1 % of packets", &events, EVENTS),
    ];
    let most = most.into_iter().filter_map(|(name, key, limit)| Target::at_most(name, series.values(key), limit));
    report.targets.extend(least.into_iter().chain(most));
    Ok(series)
}
