//! Cut-through paths in the kernel half beside Linux's own forwarding: CPU time of a packet, and the highest rate
//! without loss (RFC 2544 §26.1).

use super::super::compile::{KernelPrograms, Programs};
use super::super::flood::{Channel, Flood, Rhythm, Stream, Variant, judge};
use super::super::gateway::Running;
use super::super::node::NodeGateway;
use super::super::report::Report;
use super::super::series::{Key, Series};
use super::super::{Error, Settings};
use super::rate::Search;

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

/// Bytes of payload, and of the headers of an IP packet around it.
const SIZES: &[usize] = &[1, 64, 256, 512, 1024, 1400];
const QUICK_SIZES: &[usize] = &[1, 1400];
const HEADERS: usize = 28;

/// The role of its domain: no bound is in the way.
const ROLE: &str = "routes = \"kernel\"\n[[role]]\nname = \"cut\"\n\
                    limits = { packets_per_second = 1_000_000_000, steps_per_second = 1_000_000_000_000 }\n\
                    grants = { channels = 4, bandwidth = 100_000_000_000 }";

/// Throughput: frames that enter together, frames in a trial.
const BATCH: u32 = 64;
const TRIAL: u32 = 1 << 16;
const QUICK_TRIAL: u32 = 1 << 14;
const SEARCH: Search = Search { range: [50_000.0, 8_000_000.0], first: 2_000_000.0, close: 1.02 };
const QUICK_SEARCH: Search = Search { close: 1.10, ..SEARCH };
/// Trials at one rate of which one must be without loss: others use this machine too.
const TRIES: usize = 3;
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
    let mut rates = Series::default();
    let mut search = |variant: &Variant<'_>, channel: &mut Channel, running: Option<&mut Running>| {
        throughput(settings, variant, channel, running, &mut rates)
    };
    let mut all =
        flood.measure_and(variants(&kernel, settings.quick), &streams(settings.quick), &[], report, &mut search)?;
    judge(&all, &LIMITS, report);
    describe(settings.quick, &rates, report);
    all.extend(rates);
    report.note("Cut-through in the kernel half; datagrams have checksums, which UDP cut-through carries over.");
    Ok(all)
}

/// What is compared; the floor only where there is time.
fn variants(kernel: &KernelPrograms, quick: bool) -> Vec<Variant<'_>> {
    let node = |name| NodeGateway::new(name, &[]).configured(ROLE, "kernel = true");
    let floor = (!quick).then(|| Variant::xdp(BASE, kernel, "drop"));
    let others = [
        Variant::linux(LINUX),
        Variant::xdp(CACHE, kernel, "cache"),
        Variant::node(node(IP).cut("if0/ip 198.18.2.0/24", "if1/ip * proto 17")),
        Variant::node(node(UDP).cut("if0/ip/udp *:9", "if1/ip/udp *:6000 -> *:*")),
    ];
    floor.into_iter().chain(others).collect()
}

/// Every size in full batches, the ends in fair bursts, and the smallest also alone; in little time the smallest in
/// fair bursts, and none alone.
fn streams(quick: bool) -> Vec<Stream> {
    let (sizes, fair): (_, &[usize]) = if quick { (QUICK_SIZES, &[1]) } else { (SIZES, &[1, 1400]) };
    let ordinary = |size: &usize, batch| Stream::ordinary(size + HEADERS, batch).summed();
    let mut all: Vec<Stream> = sizes.iter().map(|size| ordinary(size, 64)).collect();
    if !quick {
        all.push(ordinary(&SIZES[0], 1));
    }
    all.extend(fair.iter().map(|size| Stream { rhythm: Rhythm::Fair, ..ordinary(size, 128) }));
    all
}

/// The highest rate at which every frame of a trial arrives, of a router that has passed fair bursts; not in every round.
fn throughput(
    settings: &Settings,
    variant: &Variant<'_>,
    channel: &mut Channel,
    mut running: Option<&mut Running>,
    series: &mut Series,
) -> Result<(), Error> {
    if variant.drops() {
        return Ok(());
    }
    let quick = settings.quick;
    let (sizes, search, trial) = if quick { (&SIZES[..1], QUICK_SEARCH, QUICK_TRIAL) } else { (SIZES, SEARCH, TRIAL) };
    for size in sizes {
        let stream = Stream { rhythm: Rhythm::Fair, ..Stream::ordinary(size + HEADERS, BATCH).summed() };
        let (regime, size) = (format!("batches of {BATCH}, two CPUs"), Some(stream.size as u32));
        let key = Key { variant: variant.name.into(), size, regime, metric: THROUGHPUT, unit: "million packets/s" };
        if series.values(&key).len() >= super::searches(settings) {
            return Ok(());
        }
        let sent = channel.load(&stream, &[])?;
        variant.warm(channel, running.as_deref_mut(), 1, &sent)?;
        let before = series.values(&key).last().map(|millions| millions * 1e6);
        let rate = search.highest(before, |rate| channel.is_whole((trial, BATCH), rate, TRIES))?;
        series.push(key, rate / 1e6);
    }
    Ok(())
}

/// How throughput was found.
fn describe(quick: bool, rates: &Series, report: &mut Report) {
    let (search, trial) = if quick { (QUICK_SEARCH, QUICK_TRIAL) } else { (SEARCH, TRIAL) };
    report.note(match rates.keys().next() {
        None => "SKIPPED throughput: there is only one CPU for generator and router.".into(),
        Some(_) => format!(
            "Throughput without loss as in RFC 2544, by bisection to {:.0} %; a trial has {trial} frames, and a rate \
             counts if one of {TRIES} trials is \
             whole. Generator on one CPU, router and sink on another.",
            (search.close - 1.0) * 100.0
        ),
    });
}

#[cfg(test)]
mod tests {
    use super::super::super::gateway::TOTAL_CPU;
    use super::*;

    #[test]
    fn every_target_is_about_a_stream_that_is_measured() {
        for (_, regime, ..) in LIMITS {
            assert!(streams(true).iter().any(|stream| stream.regime() == regime), "{regime}");
        }
    }

    #[test]
    fn cut_through_paths_are_judged_beside_linux_and_each_other() {
        let (mut series, mut report) = (Series::default(), Report::new("paths", 1));
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
