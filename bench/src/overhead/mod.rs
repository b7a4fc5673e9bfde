//! `anode bench overhead`: the active overhead at every place of a node, from the kernel's ingress to user space.
//!
//! PAN (Nygren, Garland and Kaashoek, OPENARCH 1999) showed the price of active packets as a ladder: the same capsule
//! handled lower and lower in the system, beside plain forwarding on the same rung. Here the lower rungs are in the
//! kernel, measured by the one-CPU flood ([`flood`]): Linux's own forwarding, forwarders written by hand in XDP, and
//! the node's kernel half where there is one. The upper rungs are those of [`super::capsules`], wasm over AF_PACKET and
//! over UDP sockets beside plain C gateways, and [`sockets`], the same over AF_XDP, by loss-free bursts.

mod cold;
mod pan;
mod prototype;
mod sockets;

use super::capsules::{PLAIN, gateways};
use super::compile::Programs;
use super::flood::{self, Channel, Flood, Rhythm, Stream, Variant};
use super::gateway::TOTAL_CPU;
use super::guests::{Guests, with_native_role, with_role};
use super::node::NodeGateway;
use super::report::Report;
use super::series::{Key, Series, Target};
use super::stats::{Summary, paired_ratios};
use super::{Error, Settings};

const BASE: &str = "dropped at ingress";
const LINUX: &str = "Linux forwarding";
const PASS: &str = "Linux behind XDP_PASS";
const FIB: &str = "XDP with fib lookup";
const CACHE: &str = "XDP with next-hop cache";
/// The same, and each destination's packets go through one of a thousand programs that do nothing.
const CODED: &str = "XDP with next-hop cache, 1000 programs";
const HALF: &str = "kernel half";
const TRUSTED: &str = "kernel half, trusted code";
const COPIED: &str = "kernel half, an extra copy";
const WASM_XDP: &str = "wasm capsule, AF_XDP";
const WASM_PACKET: &str = "wasm capsule, AF_PACKET";
/// A node that makes code ready for every capsule anew, and one that keeps it.
const LOADED: &str = "code loaded for each capsule";
const KEPT: &str = "code kept";

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

/// What there is no time for in a minute.
const LEFT_OUT: &str = "Quick: three rounds or more, 128 bytes. Left out are other sizes and bursts, many codes and destinations, an extra \
                        copy, code loaded for each capsule, and the middle of the ladder by PAN's formula.";

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let programs = Programs::ready()?;
    let guests = Guests::build()?;
    let mut all = Series::default();
    let kernel = programs.kernel()?;
    match Channel::new(&programs, &kernel, settings.cpus(), Rhythm::Flood) {
        Ok(_) => {
            all.extend(flooded(&Flood { settings, programs: &programs, kernel: &kernel }, &guests, report)?);
            all.extend(cold::run(settings, &programs, &kernel, report)?);
        }
        Err(error) => report.note(format!("SKIPPED in-kernel paths: {error}.")),
    }
    judge(&all, report);
    all.extend(gateways(settings, &programs, &guests, &loads(settings.quick), report)?);
    all.extend(sockets::run(settings, &programs, &kernel, &guests, &loads(settings.quick), report)?);
    if settings.quick {
        report.note(LEFT_OUT);
    } else {
        all.extend(prototype::run(settings, &programs, &guests, sizes(settings.quick))?);
    }
    report.rows = all.rows(&[LINUX, FIB, CACHE, PLAIN]);
    let class = programs.scheduling_class();
    report.note(format!(
        "In-kernel paths: generator, router and sink run in one process under {class}, and are all in its figure."
    ));
    report.note("User space: gateway CPU excludes generator and sink. Compare ratios between rungs, never figures.");
    Ok(())
}

/// The in-kernel rungs.
fn flooded(flood: &Flood<'_>, guests: &Guests, report: &mut Report) -> Result<Series, Error> {
    let streams = streams(flood.settings.quick);
    let bundles = guests.forwards(streams.iter().map(|stream| stream.codes).max().unwrap_or(1))?;
    let kernel = flood.kernel;
    let half = |name, form| NodeGateway::new(name, &bundles).configured(&with_role(form), "kernel = true");
    let mut variants = vec![
        Variant::xdp(BASE, kernel, "drop"),
        Variant::linux(LINUX),
        Variant::xdp(FIB, kernel, "fib"),
        Variant::xdp(CACHE, kernel, "cache"),
        Variant::node(half(HALF, "sandboxed")),
        Variant::node(half(TRUSTED, "trusted")),
    ];
    if !flood.settings.quick {
        variants.push(Variant::node(half(COPIED, "sandboxed")).with_extra_copy(kernel));
        variants.extend([Variant::xdp(PASS, kernel, "pass"), Variant::xdp(CODED, kernel, "codes")]);
    }
    let mut all = flood.measure(variants, &streams, &bundles, report)?;
    let native = std::slice::from_ref(&guests.native);
    let user =
        |name, codes, own: &str, port| Variant::node_in_user_space(NodeGateway::new(name, codes).configured(own, port));
    let ladder = [
        Variant::linux(LINUX),
        Variant::xdp(CACHE, kernel, "cache"),
        Variant::node(half(HALF, "sandboxed")),
        Variant::node(half(TRUSTED, "trusted")),
        Variant::node(half(COPIED, "sandboxed")).with_extra_copy(kernel),
        user("native capsule, AF_XDP", native, &with_native_role(), "xdp = true"),
        user(WASM_XDP, &bundles, &with_role("sandboxed"), "xdp = true"),
        user(WASM_PACKET, &bundles, &with_role("sandboxed"), ""),
    ];
    // The ends and the middle of the ladder, if there is little time.
    let wanted = |variant: &Variant<'_>| !flood.settings.quick || [LINUX, HALF, WASM_PACKET].contains(&variant.name);
    let able: Vec<Variant<'_>> =
        ladder.into_iter().filter(|variant| wanted(variant) && variant.missing().is_none()).collect();
    let (settings, sizes) = (flood.settings, sizes(flood.settings.quick));
    all.extend(pan::run(settings, (flood.programs, kernel), &able, (sizes, &bundles), report)?);
    Ok(all)
}

/// Every size in full batches; the smallest and the largest also alone, and with pauses; many destinations and codes.
fn streams(quick: bool) -> Vec<Stream> {
    let plain = Stream::plain;
    if quick {
        return vec![plain(128, 64), plain(128, 1), plain(128, 64).to_stack(), Stream::fair(128, 128)];
    }
    let mut all: Vec<Stream> = [128, 512, 1024, 1500].map(|size| plain(size, 64)).into();
    all.extend([16, 8, 1].map(|batch| plain(128, batch)));
    all.push(plain(1500, 1));
    all.extend([128, 1500].map(|size| plain(size, 64).to_stack()));
    all.extend([128, 1500].map(|size| Stream::fair(size, 128)));
    all.push(MANY);
    all
}

/// Bytes of the IP packets on every rung.
fn sizes(quick: bool) -> &'static [usize] {
    if quick { &[128] } else { &[128, 512, 1024, 1500] }
}

/// Burst and bytes of the IP packet in user space; packets that are alone, the worst, are there in any case.
fn loads(quick: bool) -> Vec<(u32, usize)> {
    if quick {
        vec![(128, 128), (1, 128)]
    } else {
        vec![(128, 128), (128, 512), (128, 1024), (128, 1500), (16, 128), (1, 128)]
    }
}

/// The targets of the kernel half, for every size; none if it was not measured.
fn judge(series: &Series, report: &mut Report) {
    flood::judge(series, &LIMITS, report);
    let growth = |variant: &str| {
        let at = |stream: &Stream| {
            let (regime, size) = (stream.regime(), Some(stream.size as u32));
            let is = |key: &&Key| key.variant == variant && key.metric == TOTAL_CPU && key.regime == regime;
            series.keys().find(|key| is(key) && key.size == size).map(|key| series.values(key))
        };
        Some(paired_ratios(at(&MANY)?, at(&Stream::plain(MANY.size, MANY.batch))?))
    };
    if let Some(ratios) = growth(HALF) {
        report.targets.extend(Target::at_most(format!("{HALF}: {} / one of each", MANY.regime()), &ratios, GROWTH));
    }
    for variant in [BASE, CACHE, CODED, TRUSTED] {
        if let Some(summary) = growth(variant).and_then(|ratios| Summary::of(&ratios)) {
            report.note(format!("{variant}: {} / one of each: {:.3}.", MANY.regime(), summary.median));
        }
    }
}

#[cfg(test)]
mod tests;
