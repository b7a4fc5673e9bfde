//! Rounds of the flood: variants take turns, each in a line of namespaces of its own, as in [`super::super::gateway::compare`].

use std::ops::AddAssign;

use super::super::compile::{KernelPrograms, Programs};
use super::super::gateway::{Running, SHARE, SHARE_UNIT, TOTAL_CPU, WAKE_UPS, end_all};
use super::super::report::Report;
use super::super::series::{Key, Series};
use super::super::{Error, Settings};
use super::stream::Sink;
use super::variant::Variant;
use super::{Channel, Flow, Rhythm, Stream, rest};
use anode::code::bundle::Bundle;

/// CPU time of the router's receiving thread, which does the sink's part too.
pub(crate) const ROUTER_CPU: &str = "router CPU per packet, sink included";
/// The same with that of the node's process, where packets may go by it.
pub(crate) const ROUTER_AND_NODE_CPU: &str = "router and node CPU per packet that left, sink included";
/// CPU time without that of what is dropped at the ingress in the same round: what the way from there on costs.
const BEYOND_BASE: &str = "CPU per packet beyond ingress, sink included";
/// CPU time of the node's process: what has not been left to the kernel.
const NODE_CPU: &str = "the node's process, CPU per packet";
/// Frames of which the capture at the node had no room for the record.
const MISSED: &str = "share that the capture missed";
/// Frames that the Linux stack of the router forwarded.
const BY_LINUX: &str = "share that Linux forwarded";

/// Frames of a variant in a round, and the slices they come in. A call of the kernel costs about 0.2 ms more than its frames.
const FRAMES: u32 = 1 << 19;
const QUICK_FRAMES: u32 = 1 << 18;
const SLICES: u32 = 8;
const QUICK_SLICES: u32 = 4;
/// Frames in single file cost several times as much, so there are fewer.
const LONE_SHARE: u32 = 4;
/// Fair bursts pause most of the time, so there are fewer still.
const FAIR_SHARE: u32 = 16;
/// Fair bursts fit into every queue: a slice of which some were lost was disturbed by others, and is sent again so often at most.
const FAIR_TRIES: usize = 4;
/// In fair bursts of so many; in shorter ones fewer, for the same time.
const FAIR_BATCH: u32 = 128;

/// What else is measured of a variant at the end of a round of fair bursts, while its router still runs.
pub(crate) type Besides<'b> = &'b mut dyn FnMut(&Variant<'_>, &mut Channel, Option<&mut Running>) -> Result<(), Error>;

/// What a comparison needs.
pub(crate) struct Flood<'a> {
    /// How long and where.
    pub(crate) settings: &'a Settings,
    /// What starts programs in their place.
    pub(crate) programs: &'a Programs,
    /// Generator, sink and routers.
    pub(crate) kernel: &'a KernelPrograms,
}

impl Flood<'_> {
    /// Measures those of the variants that are there, under each of the streams.
    pub(crate) fn measure(
        &self,
        variants: Vec<Variant<'_>>,
        streams: &[Stream],
        bundles: &[Bundle],
        report: &mut Report,
    ) -> Result<Series, Error> {
        self.measure_and(variants, streams, bundles, report, &mut |_, _, _| Ok(()))
    }

    /// The same, and more of each variant behind the fair bursts of a round.
    pub(crate) fn measure_and(
        &self,
        mut variants: Vec<Variant<'_>>,
        streams: &[Stream],
        bundles: &[Bundle],
        report: &mut Report,
        besides: Besides<'_>,
    ) -> Result<Series, Error> {
        let mut nothing = |_: &Variant<'_>, _: &mut Channel, _: Option<&mut Running>| Ok(());
        variants.retain(|variant| match variant.missing().map_or_else(|| self.trial(variant, streams, bundles), Err) {
            Ok(()) => true,
            Err(why) => {
                report.note(format!("SKIPPED {}: {why}.", variant.name));
                false
            }
        });
        let one = self.settings.cpus();
        let two = Settings { two_cpus: true, ..self.settings.clone() }.cpus();
        let mut all = Series::default();
        let groups =
            [(Rhythm::Flood, Sink::Xdp, one), (Rhythm::Flood, Sink::Stack, one), (Rhythm::Fair, Sink::Xdp, two)];
        for (rhythm, sink, cpus) in groups {
            let of_group = |stream: &Stream| (stream.rhythm, stream.sink) == (rhythm, sink);
            let streams: Vec<Stream> = streams.iter().copied().filter(of_group).collect();
            if streams.is_empty() {
                continue;
            }
            if rhythm == Rhythm::Fair && cpus.generator == cpus.gateway {
                report.note("SKIPPED fair bursts: there is only one CPU for generator and router.");
                continue;
            }
            let able: Vec<&Variant<'_>> = variants.iter().filter(|variant| variant.is_for(rhythm)).collect();
            let make = || Channel::to(sink, self.programs, self.kernel, cpus, rhythm);
            rest(report);
            let besides: Besides<'_> = if rhythm == Rhythm::Fair { &mut *besides } else { &mut nothing };
            all.extend(compare(self.settings, &able, (&streams, bundles), &make, report, besides)?);
        }
        Ok(all)
    }

    /// Whether a node that accepts its configuration can do with it what is to be measured, here.
    fn trial(&self, variant: &Variant<'_>, streams: &[Stream], bundles: &[Bundle]) -> Result<(), String> {
        let flood = streams.iter().find(|stream| stream.rhythm == Rhythm::Flood);
        let Some(stream) = flood.filter(|_| variant.is_node() && variant.is_for(Rhythm::Flood)) else { return Ok(()) };
        let tried = || {
            let mut channel = Channel::new(self.programs, self.kernel, self.settings.cpus(), Rhythm::Flood)?;
            let mut running = channel.with_router(|channel| variant.start(&channel.site))?;
            let sent = channel.load(stream, variant.bundles().unwrap_or(bundles))?;
            variant.warm(&mut channel, running.as_mut(), 1, &sent)
        };
        tried().map_err(|error| match error {
            Error::Silent { state, .. } => format!("no frame comes through that its process did not forward ({state})"),
            other => other.to_string(),
        })
    }
}

/// Measures the variants against each other under each of the streams, as [`super::super::gateway::compare`] does: each
/// has a line of namespaces of its own, which are exchanged from round to round, and within a round they take turns in
/// short slices.
fn compare(
    settings: &Settings,
    variants: &[&Variant<'_>],
    (streams, bundles): (&[Stream], &[Bundle]),
    make: &dyn Fn() -> Result<Channel, Error>,
    report: &mut Report,
    besides: Besides<'_>,
) -> Result<Series, Error> {
    let mut channels = variants.iter().map(|_| make()).collect::<Result<Vec<Channel>, Error>>()?;
    let mut series = Series::default();
    settings.rounds("flood", |round| {
        channels.rotate_left(1);
        let start = |(variant, channel): (&&Variant<'_>, &mut Channel)| {
            channel.with_router(|channel| variant.start(&channel.site))
        };
        let started = variants.iter().zip(&mut channels).map(start);
        let mut started = started.collect::<Result<Vec<Option<Running>>, Error>>()?;
        for stream in streams {
            for ((variant, channel), running) in variants.iter().zip(&mut channels).zip(&mut started) {
                let sent = channel.load(stream, variant.bundles().unwrap_or(bundles))?;
                variant.warm(channel, running.as_mut(), stream.codes, &sent)?;
            }
            let done = one_round((round, settings.quick), variants, &mut channels, &started, stream)?;
            push(&mut series, variants, stream, &done);
            for variant in variants {
                // Of a packet that the kernel half sends on, one record has both frames.
                if let Some([seen, missed]) = variant.heard() {
                    let share = missed as f64 / (missed + seen / 2).max(1) as f64;
                    series.push(key(variant, stream, MISSED, SHARE_UNIT), share);
                }
            }
        }
        for ((variant, channel), running) in variants.iter().zip(&mut channels).zip(&mut started) {
            besides(variant, channel, running.as_mut())?;
        }
        end_all(started.into_iter().flatten());
        rest(report);
        Ok(())
    })?;
    Ok(series)
}

/// What a variant did in a round.
#[derive(Clone, Copy, Default)]
struct Done {
    flow: Flow,
    /// Packets that Linux forwarded.
    by_linux: u64,
    /// Times the router fell asleep.
    sleeps: u64,
    /// CPU time of the process behind the router.
    process_ns: u64,
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Done) {
        self.flow += other.flow;
        self.by_linux += other.by_linux;
        self.sleeps += other.sleeps;
        self.process_ns += other.process_ns;
    }
}

/// Sends so many frames, and reads before and after what they did.
fn one_slice(channel: &mut Channel, router: &Option<Running>, frames: u32, batch: u32) -> Result<Done, Error> {
    let process_ns = || router.as_ref().map_or(0, Running::cpu_ns);
    let (by_linux, sleeps, spent) = (channel.forwarded_by_linux(), channel.sleeps(), process_ns());
    let (flow, _) = channel.run(frames, batch)?;
    Ok(Done {
        flow,
        by_linux: channel.forwarded_by_linux().saturating_sub(by_linux),
        sleeps: channel.sleeps().saturating_sub(sleeps),
        process_ns: process_ns().saturating_sub(spent),
    })
}

/// Alternates between the channels.
fn one_round(
    (round, quick): (usize, bool),
    variants: &[&Variant<'_>],
    channels: &mut [Channel],
    started: &[Option<Running>],
    stream: &Stream,
) -> Result<Vec<Done>, Error> {
    let (frames, slices) = if quick { (QUICK_FRAMES, QUICK_SLICES) } else { (FRAMES, SLICES) };
    let share = match (stream.rhythm, stream.batch) {
        (Rhythm::Fair, batch) => FAIR_SHARE * FAIR_BATCH / batch.min(FAIR_BATCH),
        (Rhythm::Flood, 1) => LONE_SHARE,
        (Rhythm::Flood, _) => 1,
    };
    let tries = if stream.rhythm == Rhythm::Fair { FAIR_TRIES } else { 1 };
    let mut sums = vec![Done::default(); channels.len()];
    for slice in 0..slices as usize {
        for step in 0..channels.len() {
            // Forwards in even slices, backwards in odd ones, so that a drift in time meets all alike.
            let i = if (round + slice).is_multiple_of(2) { step } else { channels.len() - 1 - step };
            let (channel, sum) = (&mut channels[i], &mut sums[i]);
            let mut slice = one_slice(channel, &started[i], frames / slices / share, stream.batch)?;
            for _ in 1..if variants[i].drops() { 1 } else { tries } {
                if slice.flow.arrived == slice.flow.sent * u64::from(variants[i].copies) {
                    break;
                }
                slice = one_slice(channel, &started[i], frames / slices / share, stream.batch)?;
            }
            *sum += slice;
        }
    }
    let of_all = |time: fn(&Flow) -> u64| sums.iter().map(|done| time(&done.flow)).sum::<u64>();
    // Softirqs run within the process. A kernel that books their time elsewhere leaves nothing to read.
    if stream.rhythm == Rhythm::Flood && of_all(|flow| flow.cpu_ns) < of_all(|flow| flow.wall_ns) / 2 {
        return Err(Error::HiddenTime);
    }
    Ok(sums)
}

fn push(series: &mut Series, variants: &[&Variant<'_>], stream: &Stream, done: &[Done]) {
    let cost = |variant: &Variant<'_>, done: &Done| {
        let through = if variant.drops() { done.flow.sent } else { done.flow.arrived };
        done.flow.cpu_ns as f64 / through.max(1) as f64
    };
    let is_any_by_process = stream.copied || variants.iter().any(|variant| variant.is_by_process());
    let base =
        variants.iter().zip(done).find(|(variant, _)| variant.drops()).map(|(variant, done)| cost(variant, done));
    for (variant, done) in variants.iter().zip(done) {
        let mut add = |metric, unit, value| series.push(key(variant, stream, metric, unit), value);
        let (sent, ns) = (done.flow.sent.max(1) as f64, cost(variant, done));
        add(metric(stream.rhythm), "ns", ns);
        if stream.rhythm == Rhythm::Fair {
            add(WAKE_UPS, "packets", sent / done.sleeps.max(1) as f64);
        }
        if variant.is_node() {
            add(NODE_CPU, "ns", done.process_ns as f64 / sent);
        }
        if is_any_by_process && !variant.drops() {
            let both = (done.flow.cpu_ns + done.process_ns) as f64;
            add(ROUTER_AND_NODE_CPU, "ns", both / done.flow.arrived.max(1) as f64);
        }
        if !variant.drops() {
            if let Some(base) = base {
                add(BEYOND_BASE, "ns", ns - base);
            }
            add(SHARE, SHARE_UNIT, done.flow.arrived as f64 / (sent * f64::from(variant.copies)));
            add(BY_LINUX, SHARE_UNIT, done.by_linux as f64 / sent);
        }
    }
}

fn key(variant: &Variant<'_>, stream: &Stream, metric: &'static str, unit: &'static str) -> Key {
    Key { variant: variant.name.into(), size: Some(stream.size as u32), regime: stream.regime(), metric, unit }
}

/// The figure that ratios are quoted from.
fn metric(rhythm: Rhythm) -> &'static str {
    match rhythm {
        Rhythm::Flood => TOTAL_CPU,
        Rhythm::Fair => ROUTER_CPU,
    }
}
