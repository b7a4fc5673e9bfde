//! `anode bench overhead`: the active overhead on every rung at which a node can stand, from the kernel's ingress to user space.
//!
//! PAN (Nygren, Garland and Kaashoek, OPENARCH 1999) showed the price of active packets as a ladder: the same capsule handled lower and
//! lower in the system, beside plain forwarding on the same rung. Here the lower rungs are in the kernel, measured by the one-CPU flood
//! ([`flood`]): Linux's own forwarding, forwarders written by hand in XDP, and the node's kernel half where there is one. The upper rungs
//! are those of [`super::capsules`], wasm over AF_PACKET and over UDP sockets beside plain C gateways, and [`sockets`], the same over AF_XDP,
//! by loss-free bursts.

mod flood;
mod napi;
mod sockets;
mod variant;

use super::capsules::{PLAIN, gateways};
use super::compile::{KernelPrograms, Programs};
use super::gateway::{Running, SHARE, SHARE_UNIT, TOTAL_CPU, WAKE_UPS};
use super::guests::{Guests, signer};
use super::node::NodeGateway;
use super::place::Cpus;
use super::report::Report;
use super::series::{Key, Series, Target};
use super::stats::paired_ratios;
use super::{Error, Settings};
use crate::code::bundle::Bundle;
use flood::{Channel, Flow, Rhythm, Stream};
use variant::Variant;

const BASE: &str = "dropped at ingress";
const LINUX: &str = "Linux forwarding";
const PASS: &str = "Linux behind XDP_PASS";
const FIB: &str = "XDP with fib lookup";
const CACHE: &str = "XDP with next-hop cache";
const HALF: &str = "kernel half";
const TRUSTED: &str = "kernel half, trusted code";

/// CPU time of the router's receiving thread, which does the sink's part too.
const ROUTER_CPU: &str = "router CPU per packet, sink included";
/// CPU time without that of [`BASE`] in the same round: what the way from the router's ingress on costs.
const BEYOND_BASE: &str = "CPU per packet beyond ingress, sink included";
/// CPU time of the node's process: what has not been left to the kernel.
const NODE_CPU: &str = "the node's process, CPU per packet";
/// Frames that the Linux stack of the router forwarded.
const BY_LINUX: &str = "share that Linux forwarded";

/// Targets of the kernel half, CPU time: variant, circumstances, baseline, ratio.
const LIMITS: [(&str, &str, &str, f64); 6] = [
    (HALF, "flood, batches of 64", LINUX, 0.32),
    (HALF, "fair bursts of 128", LINUX, 0.43),
    (HALF, "flood, batches of 1", LINUX, 0.50),
    (HALF, "flood, batches of 64", FIB, 0.90),
    (HALF, "flood, batches of 64", CACHE, 1.20),
    (TRUSTED, "flood, batches of 64", LINUX, 0.28),
];

/// What is hostile to caches: every packet has another code and another destination than the one before.
const MANY: Stream = Stream { destinations: 10_000, codes: 1000, ..Stream::plain(128, 64) };
/// What that may cost the kernel half, beside one flow of one code.
const GROWTH: f64 = 1.30;

/// Frames of a variant in a round, and the slices they come in. A call of the kernel costs about 0.2 ms more than its frames.
const FRAMES: u32 = 1 << 20;
const QUICK_FRAMES: u32 = 1 << 18;
const SLICES: u32 = 8;
const QUICK_SLICES: u32 = 4;
/// Frames in single file cost several times as much, so there are fewer.
const LONE_SHARE: u32 = 4;
/// Fair bursts pause most of the time, so there are fewer still.
const FAIR_SHARE: u32 = 16;

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let programs = Programs::ready()?;
    let guests = Guests::build()?;
    let mut all = Series::default();
    let kernel = programs.kernel()?;
    let make = |cpus, rhythm| Channel::new(&programs, &kernel, cpus, rhythm);
    match make(settings.cpus(), Rhythm::Flood) {
        Ok(_) => all.extend(flooded(settings, &kernel, &make, &guests, report)?),
        Err(error) => report.note(format!("SKIPPED in-kernel paths: {error}.")),
    }
    judge(&all, report);
    all.extend(gateways(settings, &programs, &guests, &loads(settings.quick), report)?);
    all.extend(sockets::run(settings, &programs, &kernel, &guests, &loads(settings.quick), report)?);
    report.rows = all.rows(&[LINUX, FIB, CACHE, PLAIN]);
    let class = programs.scheduling_class();
    report.note(format!(
        "In-kernel paths: generator, router and sink run in one process under {class}, and are all in its figure."
    ));
    report.note("User space: gateway CPU excludes generator and sink. Compare ratios between rungs, never figures.");
    Ok(())
}

/// The in-kernel rungs.
fn flooded(
    settings: &Settings,
    kernel: &KernelPrograms,
    make: &dyn Fn(Cpus, Rhythm) -> Result<Channel, Error>,
    guests: &Guests,
    report: &mut Report,
) -> Result<Series, Error> {
    let streams = streams(settings.quick);
    let bundles = guests.forwards(streams.iter().map(|stream| stream.codes).max().unwrap_or(1))?;
    let mut variants = vec![
        Variant::xdp(BASE, kernel, "drop"),
        Variant::linux(LINUX),
        Variant::xdp(PASS, kernel, "pass"),
        Variant::xdp(FIB, kernel, "fib"),
        Variant::xdp(CACHE, kernel, "cache"),
        Variant::node(NodeGateway::new(HALF, &bundles).configured(&with_role("sandboxed"), "kernel = true")),
        Variant::node(NodeGateway::new(TRUSTED, &bundles).configured(&with_role("trusted"), "kernel = true")),
    ];
    let flood = || make(settings.cpus(), Rhythm::Flood);
    variants.retain(|variant| match variant.missing().map_or_else(|| trial(variant, &bundles, &flood), Err) {
        Ok(()) => true,
        Err(why) => {
            report.note(format!("SKIPPED {}: {why}.", variant.name));
            false
        }
    });
    let measured = |rhythm, cpus| {
        let streams: Vec<Stream> = streams.iter().copied().filter(|stream| stream.rhythm == rhythm).collect();
        compare(settings, &variants, &streams, &bundles, &|| make(cpus, rhythm))
    };
    let mut all = measured(Rhythm::Flood, settings.cpus())?;
    let two = Settings { two_cpus: true, ..settings.clone() }.cpus();
    if two.generator == two.gateway {
        report.note("SKIPPED fair bursts: there is only one CPU for generator and router.");
    } else {
        all.extend(measured(Rhythm::Fair, two)?);
    }
    Ok(all)
}

/// A node's configuration for code that is loaded into the kernel in this form.
fn with_role(form: &str) -> String {
    let root = signer().id();
    format!("routes = \"kernel\"\n[[role]]\nname = \"bench\"\ntrusts = [\"{root}\"]\nkernel = \"{form}\"")
}

/// Whether a node that accepts its configuration can do with it what is to be measured, here.
fn trial(variant: &Variant, bundles: &[Bundle], make: &dyn Fn() -> Result<Channel, Error>) -> Result<(), String> {
    if !variant.is_node() {
        return Ok(());
    }
    let tried = || {
        let mut channel = make()?;
        let mut running = channel.with_router(|channel| variant.start(channel))?;
        let sent = channel.load(&Stream::plain(128, 64), bundles)?;
        variant.warm(&mut channel, running.as_mut(), 1, &sent)
    };
    tried().map_err(|error| match error {
        Error::Silent { state, .. } => format!("no frame comes through that its process did not forward ({state})"),
        other => other.to_string(),
    })
}

/// Every size in full batches; the smallest and the largest also alone, and with pauses; many destinations and codes.
fn streams(quick: bool) -> Vec<Stream> {
    let plain = Stream::plain;
    if quick {
        return vec![plain(128, 64), plain(1500, 64), plain(128, 1), Stream::fair(128, 128)];
    }
    let mut all: Vec<Stream> = [128, 512, 1024, 1500].map(|size| plain(size, 64)).into();
    all.extend([16, 8, 1].map(|batch| plain(128, batch)));
    all.push(plain(1500, 1));
    all.extend([128, 1500].map(|size| Stream::fair(size, 128)));
    all.push(MANY);
    all
}

/// Burst and octets of the IP packet in user space.
fn loads(quick: bool) -> Vec<(u32, usize)> {
    if quick { vec![(128, 128)] } else { vec![(128, 128), (128, 512), (128, 1024), (128, 1500), (16, 128), (1, 128)] }
}

/// Measures the variants against each other under each of the streams, as [`super::gateway::compare`] does: each has a line of namespaces
/// of its own, which are exchanged from round to round, and within a round they take turns in short slices.
fn compare(
    settings: &Settings,
    variants: &[Variant],
    streams: &[Stream],
    bundles: &[Bundle],
    make: &dyn Fn() -> Result<Channel, Error>,
) -> Result<Series, Error> {
    let mut channels = variants.iter().map(|_| make()).collect::<Result<Vec<Channel>, Error>>()?;
    let mut series = Series::default();
    settings.rounds("flood", |round| {
        channels.rotate_left(1);
        let start =
            |(variant, channel): (&Variant, &mut Channel)| channel.with_router(|channel| variant.start(channel));
        let started = variants.iter().zip(&mut channels).map(start);
        let mut started = started.collect::<Result<Vec<Option<Running>>, Error>>()?;
        for stream in streams {
            for ((variant, channel), running) in variants.iter().zip(&mut channels).zip(&mut started) {
                let sent = channel.load(stream, bundles)?;
                variant.warm(channel, running.as_mut(), stream.codes, &sent)?;
            }
            let done = one_round(round, settings.quick, &mut channels, &started, stream)?;
            push(&mut series, variants, stream, &done);
        }
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

/// Alternates between the channels.
fn one_round(
    round: usize,
    quick: bool,
    channels: &mut [Channel],
    started: &[Option<Running>],
    stream: &Stream,
) -> Result<Vec<Done>, Error> {
    let (frames, slices) = if quick { (QUICK_FRAMES, QUICK_SLICES) } else { (FRAMES, SLICES) };
    let share = match (stream.rhythm, stream.batch) {
        (Rhythm::Fair, _) => FAIR_SHARE,
        (Rhythm::Flood, 1) => LONE_SHARE,
        (Rhythm::Flood, _) => 1,
    };
    let mut sums = vec![Done::default(); channels.len()];
    for slice in 0..slices as usize {
        for step in 0..channels.len() {
            // Forwards in even slices, backwards in odd ones, so that a drift in time meets all alike.
            let i = if (round + slice).is_multiple_of(2) { step } else { channels.len() - 1 - step };
            let (channel, sum) = (&mut channels[i], &mut sums[i]);
            let process_ns = || started[i].as_ref().map_or(0, Running::cpu_ns);
            let (by_linux, sleeps, spent) = (channel.forwarded_by_linux(), channel.sleeps(), process_ns());
            sum.flow += channel.run(frames / slices / share, stream.batch)?.0;
            sum.by_linux += channel.forwarded_by_linux().saturating_sub(by_linux);
            sum.sleeps += channel.sleeps().saturating_sub(sleeps);
            sum.process_ns += process_ns().saturating_sub(spent);
        }
    }
    let of_all = |time: fn(&Flow) -> u64| sums.iter().map(|done| time(&done.flow)).sum::<u64>();
    // Softirqs run within the process. A kernel that books their time elsewhere leaves nothing to read.
    if stream.rhythm == Rhythm::Flood && of_all(|flow| flow.cpu_ns) < of_all(|flow| flow.wall_ns) / 2 {
        return Err(Error::HiddenTime);
    }
    Ok(sums)
}

fn push(series: &mut Series, variants: &[Variant], stream: &Stream, done: &[Done]) {
    let cost = |variant: &Variant, done: &Done| {
        let through = if variant.drops() { done.flow.sent } else { done.flow.arrived };
        done.flow.cpu_ns as f64 / through.max(1) as f64
    };
    let base =
        variants.iter().zip(done).find(|(variant, _)| variant.drops()).map(|(variant, done)| cost(variant, done));
    for (variant, done) in variants.iter().zip(done) {
        let mut add = |metric, unit, value| {
            let (size, regime) = (Some(stream.size as u32), stream.regime());
            series.push(Key { variant: variant.name.into(), size, regime, metric, unit }, value);
        };
        let (sent, ns) = (done.flow.sent.max(1) as f64, cost(variant, done));
        add(metric(stream.rhythm), "ns", ns);
        if stream.rhythm == Rhythm::Fair {
            add(WAKE_UPS, "packets", sent / done.sleeps.max(1) as f64);
        }
        if variant.is_node() {
            add(NODE_CPU, "ns", done.process_ns as f64 / sent);
        }
        if !variant.drops() {
            if let Some(base) = base {
                add(BEYOND_BASE, "ns", ns - base);
            }
            add(SHARE, SHARE_UNIT, done.flow.arrived as f64 / sent);
            add(BY_LINUX, SHARE_UNIT, done.by_linux as f64 / sent);
        }
    }
}

/// The figure that ratios are quoted from.
fn metric(rhythm: Rhythm) -> &'static str {
    match rhythm {
        Rhythm::Flood => TOTAL_CPU,
        Rhythm::Fair => ROUTER_CPU,
    }
}

/// The targets of the kernel half, for every size; none if it was not measured.
fn judge(series: &Series, report: &mut Report) {
    for key in series.keys().filter(|key| [TOTAL_CPU, ROUTER_CPU].contains(&key.metric)) {
        let of = |limit: &&(&str, &str, _, _)| (limit.0, limit.1) == (key.variant.as_str(), key.regime.as_str());
        for (variant, _, baseline, limit) in LIMITS.iter().filter(of) {
            let name = format!("{}, {} B: {variant} / {baseline}", key.regime, key.size.unwrap_or_default());
            report.targets.extend(Target::at_most(name, &series.ratios(key, variant, baseline), *limit));
        }
    }
    let of = |stream: &Stream| {
        let key = |key: &&Key| key.variant == HALF && key.metric == TOTAL_CPU && key.regime == stream.regime();
        series.keys().find(|at| key(at) && at.size == Some(stream.size as u32))
    };
    if let (Some(one), Some(many)) = (of(&Stream::plain(MANY.size, MANY.batch)), of(&MANY)) {
        let name = format!("{HALF}: {} / one of each", MANY.regime());
        report.targets.extend(Target::at_most(name, &paired_ratios(series.values(many), series.values(one)), GROWTH));
    }
}

#[cfg(test)]
mod tests;
