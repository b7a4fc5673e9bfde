//! An a-flow beside Linux as a forwarder: CPU time of a packet, and the highest rate without loss of a link that is shaped. Example: a
//! port sends at most 100 Mbit/s, and Linux does the same by its token bucket.
//!
//! Generator, router and sink are those of `anode bench paths`: generator on one CPU, all else on another.

use super::super::compile::{KernelPrograms, Programs};
use super::super::flood::{Channel, Flood, ROUTER_AND_NODE_CPU, Rhythm, Stream, Variant, interval_ns};
use super::super::line::IP_UDP;
use super::super::node::{NodeGateway, PATIENCE};
use super::super::paths::rate::Search;
use super::super::place::Scratch;
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::settings::ROUNDS_MIN;
use super::super::{Error, Settings};
use super::flows::{FLOW, object, with_flows};
use std::path::Path;
use std::time::Instant;

const LINUX: &str = "Linux forwarding";
const SHAPED_LINUX: &str = "Linux forwarding, token bucket";
const SHAPED_FLOW: &str = "an a-flow, port discipline";

/// What others are compared with.
pub(super) const BASELINES: &[&str] = &[LINUX, SHAPED_LINUX];

/// Targets: CPU time of an a-flow over Linux, and its rate without loss over that of Linux.
const CPU_RATIO: f64 = 2.0;
const RATE_RATIO: f64 = 0.99;

/// Bytes of payload and of IP packets, and packets that enter together.
const PAYLOAD: usize = 1400;
const SIZE: usize = PAYLOAD + IP_UDP;
const BURST: u32 = 64;
/// The port of datagrams to nobody.
const PORT: u16 = super::super::flood::NO_CAPSULES;

/// The link: bits a second, Ethernet's header included, and packets that may wait before it; for Linux and for a node.
const BUCKET: &str = "tbf rate 100mbit burst 15140 limit 144200";
const DISCIPLINE: &str = "xdp = true\n[port.discipline]\nbits_per_second = 100_000_000\nburst_bytes = 15_140\n\
                          [[port.discipline.class]]\nname = \"all\"\npackets = 100\n";
/// Packets a second that the link carries.
const CARRIED: f64 = 100e6 / 8.0 / (SIZE + 14) as f64;
/// Frames that enter together there, frames in a trial, and those that show that the way is open.
const FEW: u32 = 8;
const TRIAL: u32 = 1 << 14;
const QUICK_TRIAL: u32 = 1 << 12;
const PROBE: u32 = 64;
/// Trials at one rate of which one must be without loss.
const TRIES: usize = 2;
const SEARCH: Search = Search { range: [CARRIED / 2.0, CARRIED * 2.0], first: CARRIED, close: 1.005 };
const REGIME: &str = "a link of 100 Mbit/s";
const RATE: &str = "highest rate without loss";

/// Measures it, and gives targets.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let programs = Programs::ready()?;
    let kernel = programs.kernel()?;
    let scratch = Scratch::new()?;
    let object = object(&scratch)?;
    let two = Settings { two_cpus: true, ..settings.clone() };
    let cpus = two.cpus();
    if cpus.generator == cpus.gateway {
        report.note("SKIPPED a-flows beside Linux: there is only one CPU for generator and router.");
        return Ok(Series::default());
    }
    if let Err(error) = Channel::new(&programs, &kernel, cpus, Rhythm::Fair) {
        report.note(format!("SKIPPED a-flows beside Linux: {error}."));
        return Ok(Series::default());
    }
    let flood = Flood { settings, programs: &programs, kernel: &kernel };
    let variants = vec![Variant::linux(LINUX), Variant::node_in_user_space(node(FLOW, &object, "xdp = true"))];
    let mut all = flood.measure(variants, &[stream()], &[], report)?;
    let cpu = Key { size: Some(SIZE as u32), regime: stream().regime(), ..key(FLOW, ROUTER_AND_NODE_CPU, "ns") };
    let name = format!("{}, {SIZE} bytes: {FLOW} / {LINUX}", stream().regime());
    report.targets.extend(Target::at_most(name, &all.ratios(&cpu, FLOW, LINUX), CPU_RATIO));
    let rates = shaped(&two.at_most(ROUNDS_MIN), (&programs, &kernel), &object)?;
    let ratios = rates.ratios(&key(SHAPED_FLOW, RATE, "packets/s"), SHAPED_FLOW, SHAPED_LINUX);
    let name = format!("{REGIME}: {RATE}, {SHAPED_FLOW} / {SHAPED_LINUX}");
    report.targets.extend(Target::at_least(name, &ratios, RATE_RATIO));
    all.extend(rates);
    report.note(
        "Beside Linux: AF_XDP sockets in copy mode at veth interfaces. At the shaped link 100 packets may wait; a trial is whole if all \
         its frames have arrived, once in two tries.",
    );
    Ok(all)
}

fn node(name: &'static str, object: &Path, port: &str) -> NodeGateway<'static> {
    NodeGateway::new(name, &[]).configured(&with_flows(1, PORT, object), port).passes_on()
}

fn stream() -> Stream {
    Stream { rhythm: Rhythm::Fair, ..Stream::ordinary(SIZE, BURST).summed() }
}

fn key(variant: &str, metric: &'static str, unit: &'static str) -> Key {
    Key { variant: variant.into(), size: Some(SIZE as u32), regime: REGIME.into(), metric, unit }
}

/// The highest rates without loss behind a slow link, of both in turn, each started anew.
fn shaped(
    settings: &Settings,
    (programs, kernel): (&Programs, &KernelPrograms),
    object: &Path,
) -> Result<Series, Error> {
    let variants = [
        Variant::linux(SHAPED_LINUX).through(BUCKET),
        Variant::node_in_user_space(node(SHAPED_FLOW, object, DISCIPLINE)),
    ];
    let mut series = Series::default();
    let trial = if settings.quick { QUICK_TRIAL } else { TRIAL };
    settings.rounds(REGIME, |round| {
        for step in 0..variants.len() {
            let variant = &variants[(round + step) % variants.len()];
            let mut channel = Channel::new(programs, kernel, settings.cpus(), Rhythm::Fair)?;
            let running = channel.with_router(|channel| variant.start(&channel.site))?;
            let sent = channel.load(&stream(), &[])?;
            open(&mut channel, variant, &sent)?;
            let key = key(variant.name, RATE, "packets/s");
            let before = series.values(&key).last().copied();
            let rate = SEARCH.highest(before, |rate| channel.is_whole((trial, FEW), rate, TRIES))?;
            series.push(key, rate);
            super::super::gateway::end_all(running);
        }
        Ok(())
    })?;
    Ok(series)
}

/// Waits until frames come through at half of what the link carries, and looks at one of them.
fn open(channel: &mut Channel, variant: &Variant<'_>, sent: &[u8]) -> Result<(), Error> {
    let limit = Instant::now() + PATIENCE;
    loop {
        let (flow, arrived) = channel.offer_seen(PROBE, FEW, interval_ns(FEW, CARRIED / 2.0))?;
        if flow.arrived == flow.sent {
            let wrong = |what| Error::Wrong { gateway: variant.name.into(), what };
            return variant.check(sent, &arrived).map_err(wrong);
        }
        if Instant::now() > limit {
            let state = format!("{} of {} frames came through", flow.arrived, flow.sent);
            return Err(Error::Silent { gateway: variant.name.into(), state, log: "".into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_nodes_are_configured_as_a_node_reads_it() {
        for port in ["xdp = true", DISCIPLINE] {
            assert_eq!(node(FLOW, Path::new("/tmp/flowee.so"), port).refusal(), None);
        }
    }

    #[test]
    fn the_rates_that_are_tried_are_about_what_the_link_carries() {
        let [least, most] = SEARCH.range;
        assert!(least < CARRIED && CARRIED < most && (8_600.0..8_700.0).contains(&CARRIED));
        assert_eq!(interval_ns(FEW, 8_000.0), 1_000_000);
    }
}
