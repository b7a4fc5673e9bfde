//! Cut-through paths in the kernel half beside Linux's own forwarding: CPU time of a packet in the one-CPU flood and in fair bursts, and
//! the highest rate without loss, found by bisection (RFC 2544 §26.1).

use super::super::compile::{KernelPrograms, Programs};
use super::super::flood::{Channel, Flood, Rhythm, Stream, Variant, judge};
use super::super::node::NodeGateway;
use super::super::report::Report;
use super::super::series::{Key, Series};
use super::super::{Error, Settings};

const BASE: &str = "dropped at ingress";
const LINUX: &str = "Linux forwarding";
const CACHE: &str = "XDP with next-hop cache";
const IP: &str = "IP cut-through";
const UDP: &str = "UDP cut-through";

/// What others are compared with.
pub(super) const BASELINES: &[&str] = &[LINUX, CACHE, IP];

/// Targets, CPU time: variant, circumstances, baseline, ratio.
const LIMITS: [(&str, &str, &str, f64); 4] = [
    (IP, "flood, batches of 64, ordinary packets", LINUX, 0.29),
    (IP, "fair bursts of 128, ordinary packets", LINUX, 0.38),
    (UDP, "flood, batches of 64, ordinary packets", IP, 1.05),
    (UDP, "fair bursts of 128, ordinary packets", IP, 1.05),
];

/// Octets of payload, and of the headers of an IP packet around it.
const SIZES: &[usize] = &[1, 64, 256, 512, 1024, 1400];
const QUICK_SIZES: &[usize] = &[1, 1400];
const HEADERS: usize = 28;

/// The role of its domain: no bound is in the way.
const ROLE: &str = "routes = \"kernel\"\n[[role]]\nname = \"cut\"\n\
                    limits = { packets_per_second = 1_000_000_000, steps_per_second = 1_000_000_000_000 }\n\
                    grants = { channels = 4, bandwidth = 100_000_000_000 }";

/// Throughput: frames that enter together, frames in a trial, the rates between which is looked, how close is close enough.
const BATCH: u32 = 64;
const TRIAL: u32 = 1 << 16;
const QUICK_TRIAL: u32 = 1 << 14;
const RATES: [f64; 2] = [50_000.0, 8_000_000.0];
const CLOSE: f64 = 1.02;
const QUICK_CLOSE: f64 = 1.10;
/// Trials at one rate of which one must be without loss: others use this machine too.
const TRIES: usize = 3;
const QUICK_SEARCHES: usize = 2;
const THROUGHPUT: &str = "highest rate without loss";

/// Runs this part.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let programs = Programs::ready()?;
    let kernel = programs.kernel()?;
    if let Err(error) = Channel::new(&programs, &kernel, settings.cpus(), Rhythm::Flood) {
        report.note(format!("SKIPPED cut-through paths: {error}."));
        return Ok(Series::default());
    }
    let flood = Flood { settings, programs: &programs, kernel: &kernel };
    let mut all = flood.measure(variants(&kernel), &streams(settings.quick), &[], report)?;
    judge(&all, &LIMITS, report);
    all.extend(throughput(&flood, report)?);
    report.note("Cut-through in the kernel half; datagrams have checksums, which UDP cut-through carries over.");
    Ok(all)
}

fn variants(kernel: &KernelPrograms) -> Vec<Variant<'_>> {
    let node = |name| NodeGateway::new(name, &[]).configured(ROLE, "kernel = true");
    vec![
        Variant::xdp(BASE, kernel, "drop"),
        Variant::linux(LINUX),
        Variant::xdp(CACHE, kernel, "cache"),
        Variant::node(node(IP).cut("if0/ip 198.18.2.0/24", "if1/ip * proto 17")),
        Variant::node(node(UDP).cut("if0/ip/udp *:9", "if1/ip/udp *:6000 -> *:*")),
    ]
}

/// Every size in full batches and in fair bursts, the smallest also alone.
fn streams(quick: bool) -> Vec<Stream> {
    let sizes = if quick { QUICK_SIZES } else { SIZES };
    let ordinary = |size: &usize, batch| Stream::ordinary(size + HEADERS, batch).summed();
    let mut all: Vec<Stream> = sizes.iter().map(|size| ordinary(size, 64)).collect();
    all.extend(sizes[..1].iter().map(|size| ordinary(size, 1)));
    let fair = |size: &usize| Stream { rhythm: Rhythm::Fair, ..ordinary(size, 128) };
    all.extend(sizes.iter().filter(|size| [1, 1400].contains(*size)).map(fair));
    all
}

/// The highest rate at which every frame of a trial arrives, round by round.
fn throughput(flood: &Flood<'_>, report: &mut Report) -> Result<Series, Error> {
    let (settings, mut series) = (flood.settings, Series::default());
    let cpus = Settings { two_cpus: true, ..settings.clone() }.cpus();
    if cpus.generator == cpus.gateway {
        report.note("SKIPPED throughput: there is only one CPU for generator and router.");
        return Ok(series);
    }
    let sizes = if settings.quick { &QUICK_SIZES[..1] } else { SIZES };
    let variants: Vec<Variant<'_>> =
        variants(flood.kernel).into_iter().filter(|variant| !variant.drops() && variant.missing().is_none()).collect();
    let most = if settings.quick { QUICK_SEARCHES } else { super::super::ROUNDS_MIN };
    let few = Settings { round_count: settings.round_count.min(most), ..settings.clone() };
    let make = || Channel::new(flood.programs, flood.kernel, cpus, Rhythm::Fair);
    let mut channels = variants.iter().map(|_| make()).collect::<Result<Vec<Channel>, Error>>()?;
    few.rounds("throughput", |_| {
        channels.rotate_left(1);
        for (variant, channel) in variants.iter().zip(&mut channels) {
            let mut running = channel.with_router(|channel| variant.start(&channel.site))?;
            for size in sizes {
                let stream = Stream { rhythm: Rhythm::Fair, ..Stream::ordinary(size + HEADERS, BATCH).summed() };
                let sent = channel.load(&stream, &[])?;
                variant.warm(channel, running.as_mut(), 1, &sent)?;
                let rate = bisect(settings.quick, |rate| is_whole(channel, settings.quick, rate))?;
                let (regime, size) = (format!("batches of {BATCH}, two CPUs"), Some(stream.size as u32));
                let key =
                    Key { variant: variant.name.into(), size, regime, metric: THROUGHPUT, unit: "million packets/s" };
                series.push(key, rate / 1e6);
            }
        }
        Ok(())
    })?;
    report.note(format!(
        "Throughput without loss as in RFC 2544, by bisection to {:.0} %; a trial has {} frames, and a rate counts if one of {TRIES} trials is whole. \
         Generator on one CPU, router and sink on another.",
        (if settings.quick { QUICK_CLOSE } else { CLOSE } - 1.0) * 100.0,
        if settings.quick { QUICK_TRIAL } else { TRIAL },
    ));
    Ok(series)
}

/// Whether all frames arrive at a rate.
fn is_whole(channel: &mut Channel, quick: bool, rate: f64) -> Result<bool, Error> {
    let (count, interval) = (if quick { QUICK_TRIAL } else { TRIAL }, (f64::from(BATCH) * 1e9 / rate) as u32);
    for _ in 0..TRIES {
        let flow = channel.offer(count, BATCH, interval)?;
        if flow.arrived == flow.sent {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The highest rate that `holds`, nearly; 0 if not even the lowest does.
fn bisect(quick: bool, mut holds: impl FnMut(f64) -> Result<bool, Error>) -> Result<f64, Error> {
    let [mut low, mut high] = RATES;
    if !holds(low)? {
        return Ok(0.0);
    }
    while high / low > if quick { QUICK_CLOSE } else { CLOSE } {
        let middle = (low * high).sqrt();
        if holds(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::super::super::gateway::TOTAL_CPU;
    use super::*;

    #[test]
    fn the_bisection_finds_the_rate_from_below() {
        for limit in [60_000.0, 1_234_567.0, 7_999_999.0] {
            let found = bisect(false, |rate| Ok(rate <= limit)).unwrap();
            assert!(found <= limit && found * CLOSE >= limit, "{found} for {limit}");
        }
        assert_eq!(bisect(true, |_| Ok(false)).unwrap(), 0.0);
    }

    #[test]
    fn every_target_is_about_a_stream_that_is_measured() {
        for (_, regime, ..) in LIMITS {
            assert!(streams(true).iter().any(|stream| stream.regime() == regime), "{regime}");
        }
    }

    #[test]
    fn cut_through_paths_are_judged_beside_linux_and_each_other() {
        let (mut series, mut report) = (Series::default(), Report::new("paths"));
        let regime = streams(true)[0].regime();
        for _ in 0..5 {
            for (variant, value) in [(LINUX, 1000.0), (IP, 280.0), (UDP, 300.0)] {
                let (size, regime) = (Some(29), regime.clone());
                series.push(Key { variant: variant.into(), size, regime, metric: TOTAL_CPU, unit: "ns" }, value);
            }
        }
        judge(&series, &LIMITS, &mut report);
        assert_eq!(report.targets.iter().map(|target| target.met).collect::<Vec<_>>(), [true, false]);
    }
}
