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
use anode::node::survey::{SLICE_NS, Survey, Surveyed};
use anode::schedule::Policy;
use anode::seen::ring::{Listener, Teller, ring};
use anode::sys::clock::thread_cpu;
use std::time::{Duration, Instant};

const DOMAINS: usize = 10_000;

/// Datagrams of a batch.
const BATCH: usize = 64;

/// CPU time in which one survey is made.
const SECOND: u64 = 1_000_000_000;

/// Events are told of one packet in so many.
const ONE_IN: u64 = 100;

/// Series of the text for Prometheus: of so many domains, four each.
const METERED: usize = 480;

/// CPU time of one turn of two that are compared.
const TURN: u64 = 5_000_000;

/// Targets: packets beside a survey each second; microseconds of a slice; milliseconds of the list, and of 2,000 series; what events cost,
/// told or not.
const BESIDE: f64 = 0.99;
const HELD_US: f64 = 50.0;
const LIST_MS: f64 = 100.0;
const METRICS_MS: f64 = 20.0;
const EVENTS: f64 = 1.02;
const NOBODY: f64 = 1.01;

fn key(variant: &str, metric: &'static str, unit: &'static str) -> Key {
    Key { variant: variant.into(), size: None, regime: "10,000 domains".into(), metric, unit }
}

/// One of two that take turns: packets for all domains in turn, beside a survey or events if there are any.
#[derive(Default)]
struct Side {
    survey: Option<Survey>,
    /// Slices so far; and those still to come in which nothing is copied: what the machine alone makes of them.
    slices: usize,
    empty: usize,
    told: Option<(Teller, Listener)>,
    /// Branches of events that each packet takes once more.
    more: usize,
    packets: u64,
    spent: u64,
    /// The longest slice of the survey, and whether that is done.
    longest_ns: u64,
    done: bool,
    heard: Vec<u8>,
}

impl Side {
    fn surveyed() -> Side {
        // With room, as whoever asks a node gives it.
        Side { survey: Some(Survey::of(Surveyed::Counters).with_room(DOMAINS + 100)), ..Side::default() }
    }

    /// Packets of its turn.
    fn turn(&mut self, bed: &mut Bed) {
        bed.trace(self.told.is_some());
        let begun = thread_cpu();
        while thread_cpu() - begun < TURN {
            self.batch(bed);
        }
        self.spent += thread_cpu() - begun;
    }

    fn batch(&mut self, bed: &mut Bed) {
        for _ in 0..BATCH {
            self.packets += 1;
            let traced = self.told.is_some() && self.packets.is_multiple_of(ONE_IN);
            let now = bed.now_cheap();
            let member = (self.packets as usize * 7919) % DOMAINS;
            bed.feed_numbered(member, now, if traced { self.packets } else { 0 });
            bed.run_at(now, 100);
            bed.would_tell(self.more);
        }
        if let Some((teller, listener)) = &mut self.told {
            bed.tell_events(teller);
            if listener.hear(&mut self.heard, usize::MAX) {
                self.heard.clear();
            }
        }
        if let (false, Some(survey)) = (self.done, &mut self.survey) {
            let began = thread_cpu();
            self.done = bed.survey(survey, || thread_cpu() - began > SLICE_NS);
            self.longest_ns = self.longest_ns.max(thread_cpu() - began);
            self.slices += 1;
        }
        if self.empty > 0 {
            self.empty -= 1;
            let began = thread_cpu();
            while thread_cpu() - began <= SLICE_NS {}
            self.longest_ns = self.longest_ns.max(thread_cpu() - began);
        }
    }

    /// Packets in a nanosecond of its CPU time.
    fn rate(&self) -> f64 {
        self.packets as f64 / self.spent as f64
    }
}

/// Both take turns until each has had so much CPU time: what the machine does besides meets both. Who is first changes.
fn beside(bed: &mut Bed, sides: [&mut Side; 2], each: u64) {
    for turn in 0.. {
        for at in 0..2 {
            sides[(at + turn) % 2].turn(bed);
        }
        if sides.iter().all(|side| side.spent >= each) {
            return bed.trace(false);
        }
    }
}

/// What the branches cost where nobody listens: each packet takes them, and on one side takes them twice.
fn nobody_listens(settings: &Settings, bed: &mut Bed, report: &mut Report) -> Result<Series, Error> {
    let (mut series, count) = (Series::default(), bed.events_of_one(0));
    let key = key("events of nobody: each branch twice / once", "time of a packet", "ratio");
    settings.rounds("events of nobody", |_| {
        let [mut once, mut twice] = [Side::default(), Side { more: count, ..Side::default() }];
        beside(bed, [&mut once, &mut twice], SECOND);
        series.push(key.clone(), once.rate() / twice.rate());
        Ok(())
    })?;
    report.note(format!(
        "A packet has {count} places where an event would be told; what they cost is what they cost once more."
    ));
    report.targets.extend(Target::at_most("events that nobody listens to", series.values(&key), NOBODY));
    Ok(series)
}

/// Measures it.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let (mut series, mut bed) = (Series::default(), Bed::crowd(Policy::Wfq, DOMAINS)?);
    let surveyed = key("a survey each second / none", "packets a second", "ratio");
    let held = key("a survey each second", "longest slice", "µs");
    let empty = key("as many in which nothing is copied", "longest slice", "µs");
    let list = key("all domains, as the control socket has them", "from the question to the line", "ms");
    let text = key("2,000 series", "text for Prometheus", "ms");
    let events = key("none / events of 1 % of packets", "packets a second", "ratio");
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    settings.rounds("snapshots and events", |_| {
        let (mut none, mut with) = (Side::default(), Side::surveyed());
        beside(&mut bed, [&mut none, &mut with], SECOND);
        series.push(surveyed.clone(), with.rate() / none.rate());
        series.push(held.clone(), with.longest_ns as f64 / 1e3);
        let (mut one, mut other) = (Side { empty: with.slices, ..Side::default() }, Side::default());
        beside(&mut bed, [&mut one, &mut other], SECOND / 10);
        series.push(empty.clone(), one.longest_ns as f64 / 1e3);
        let found = with.survey.filter(|_| with.done).and_then(Survey::counters);
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
        let metered = metrics::text(
            &Counted { status: &Default::default(), domains: &domains[..METERED], environments: &[] },
            false,
        );
        series.push(text.clone(), ms(begun.elapsed()));
        if metered.series < 2000 || line.len() < DOMAINS * 100 {
            return Err(Error::Node(format!("{} series, a line of {} bytes", metered.series, line.len())));
        }
        let (mut none, mut traced) = (Side::default(), Side { told: Some(ring(1 << 20)), ..Side::default() });
        beside(&mut bed, [&mut none, &mut traced], SECOND);
        let missed = traced.told.as_ref().map_or(0, |(_, listener)| listener.missed());
        if missed > 0 {
            return Err(Error::Node(format!("{missed} events were missed")));
        }
        series.push(events.clone(), none.rate() / traced.rate());
        Ok(())
    })?;
    let least =
        Target::at_least("packets beside a survey of 10,000 domains each second", series.values(&surveyed), BESIDE);
    let most = [
        ("the longest slice of a survey, µs", &held, HELD_US),
        ("a list of 10,000 domains, ms", &list, LIST_MS),
        ("metrics of 2,000 series, ms", &text, METRICS_MS),
        ("events of 1 % of packets", &events, EVENTS),
    ];
    let most = most.into_iter().filter_map(|(name, key, limit)| Target::at_most(name, series.values(key), limit));
    report.targets.extend(least.into_iter().chain(most));
    series.extend(nobody_listens(settings, &mut bed, report)?);
    Ok(series)
}
