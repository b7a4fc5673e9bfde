//! The active overhead by PAN's own formula, from round trips on the same way.
//!
//! PAN measures how long a packet takes to the far end and back without a node between (none), through one that
//! forwards (passive), and through one that runs a capsule (active): t = ½ (RTT − RTT none), ActiveOverhead = (t active
//! − t passive) / t passive. Here Linux's own forwarding is passive, as it was there; both ends are one thread
//! (`bench/c/pingpong.c`), on the same CPU as what is between, so a round trip is the work of all, without the sleep of
//! an idle CPU. A negative overhead says that the active way is cheaper than Linux.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::super::compile::{KernelPrograms, Programs};
use super::super::dialogue::Dialogue;
use super::super::flood::{FORWARDING, Variant, rest};
use super::super::gateway::Running;
use super::super::guests::{header_from, packet_with};
use super::super::line::{ANEP_PORT, D_MAC, D0, EGRESS, INGRESS, IP_UDP, Line, S0, frame, frame_back};
use super::super::node::PATIENCE;
use super::super::place::{Cpus, Site, launch};
use super::super::report::Report;
use super::super::series::{Key, Series};
use super::super::stats::Summary;
use super::super::{Error, Settings};
use anode::code::bundle::Bundle;
use anode::wire::Addr;

const REGIME: &str = "ping-pong, one CPU";
const RTT: &str = "round trip";
const ONE_WAY: &str = "t: half of the round trip beyond that without a node";
const OVERHEAD: &str = "ActiveOverhead as in PAN";
/// The pair of ends without anything between.
const DIRECT: &str = "no node between";

/// Pings in a slice, and slices in a round.
const PINGS: u32 = 400;
const SLICES: usize = 5;
/// Times the usual patience: a queue of the node before may have its socket for a while.
const TRIES: u32 = 3;
/// CPU time for each ping of a probe below which a process has not forwarded it, and for itself meanwhile.
const PROBE_NS: u64 = 300;
const IDLE_SHARE: u64 = 100;

/// Two ends, and perhaps a router between them.
struct Ends {
    dialogue: Dialogue,
    site: Site,
}

impl Ends {
    fn new(programs: &Programs, kernel: &KernelPrograms, cpus: Cpus, direct: bool) -> Result<Ends, Error> {
        let line = if direct { Line::direct(programs)? } else { Line::new(programs)? };
        line.r.run("sh", &["-c", FORWARDING], "")?;
        for (holder, interface) in [(&line.s, S0), (&line.d, D0)] {
            // What is redirected to an interface without a program comes in only so.
            holder.run("ethtool", &["-K", interface, "gro", "on"], "")?;
        }
        let arguments = [line.s.netns(), S0.into(), INGRESS.peer_mac.into(), line.d.netns(), D0.into(), D_MAC.into()];
        match Dialogue::start(launch(programs, cpus.generator, None), &kernel.pingpong, &arguments)? {
            (dialogue, said) if said == "ready" => Ok(Ends { dialogue, site: Site::packet(line, programs, cpus)? }),
            (_, said) => Err(Error::Protocol(said)),
        }
    }

    /// From now on capsules of this code, if it is one, or datagrams of nobody go to and fro; gives the frame there.
    fn load(&mut self, size: usize, bundle: Option<&Bundle>) -> Result<Vec<u8>, Error> {
        let [near, far] = [INGRESS.peer, EGRESS.peer].map(|addr| Addr::from(IpAddr::V4(addr)));
        let payload = |from, to| match bundle {
            Some(bundle) => packet_with(&header_from(bundle, from, to), size - IP_UDP),
            None => vec![0x5a; size - IP_UDP],
        };
        let there = frame(EGRESS.peer, ANEP_PORT, &payload(near, far));
        let back = frame_back(ANEP_PORT, &payload(far, near));
        match self.dialogue.ask(&format!("load {} {}", hex::encode(&there), hex::encode(back)))?.as_str() {
            "ok" => Ok(there),
            other => Err(Error::Protocol(other.into())),
        }
    }

    /// The median round trip in nanoseconds, and what came to the far end last; nothing if one was lost.
    fn ping(&mut self, count: u32) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let line = self.dialogue.ask(&format!("ping {count}"))?;
        let mut words = line.strip_prefix("ping ").unwrap_or_default().split(' ').skip(1);
        let mut word = || words.next().ok_or_else(|| Error::Protocol(line.clone()));
        let (lost, median, sample) = (word()?, word()?, word().unwrap_or_default());
        let median = median.parse().map_err(|_| Error::Protocol(line.clone()))?;
        Ok((lost == "0").then(|| (median, hex::decode(sample).unwrap_or_default())))
    }

    /// Pings until all come back, and without the process if it is not to forward.
    fn warm(&mut self, variant: &Variant<'_>, running: Option<&mut Running>, sent: &[u8]) -> Result<(), Error> {
        let limit = Instant::now() + PATIENCE * TRIES;
        let spent = || running.as_ref().map_or(0, |running| running.cpu_ns());
        while Instant::now() < limit {
            let (before, began) = (spent(), Instant::now());
            let Some((_, arrived)) = self.ping(PINGS)? else { continue };
            let idle_ns = u64::from(PINGS) * PROBE_NS + began.elapsed().as_nanos() as u64 / IDLE_SHARE;
            if variant.is_by_process() || spent().saturating_sub(before) < idle_ns {
                let wrong = |what| Error::Wrong { gateway: variant.name.into(), what };
                return variant.check(sent, &arrived).map_err(wrong);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let nothing =
            Error::Silent { gateway: variant.name.into(), state: "nothing comes back".into(), log: "".into() };
        Err(running.map_or(nothing, |running| running.silent(variant.name)))
    }
}

/// Measures round trips through each variant, the first of which is the passive one.
pub(super) fn run(
    settings: &Settings,
    (programs, kernel): (&Programs, &KernelPrograms),
    variants: &[Variant<'_>],
    (sizes, bundles): (&[usize], &[Bundle]),
    report: &mut Report,
) -> Result<Series, Error> {
    let make = |direct| Ends::new(programs, kernel, settings.cpus(), direct);
    let mut direct = make(true)?;
    let mut places = variants.iter().map(|_| make(false)).collect::<Result<Vec<Ends>, Error>>()?;
    let mut series = Series::default();
    settings.rounds(REGIME, |round| {
        places.rotate_left(1);
        let started = variants.iter().zip(&places).map(|(variant, place)| variant.start(&place.site));
        let mut started = started.collect::<Result<Vec<Option<Running>>, Error>>()?;
        for size in sizes {
            direct.load(*size, bundles.first())?;
            for ((variant, place), running) in variants.iter().zip(&mut places).zip(&mut started) {
                let sent = place.load(*size, variant.bundles().unwrap_or(bundles).first())?;
                place.warm(variant, running.as_mut(), &sent)?;
            }
            let medians = one_round(round, &mut direct, &mut places)?;
            push(&mut series, variants, *size as u32, &medians);
        }
        drop(started);
        rest(report);
        Ok(())
    })?;
    Ok(series)
}

/// Median round trips: first of the ends alone, then of each place.
fn one_round(round: usize, direct: &mut Ends, places: &mut [Ends]) -> Result<Vec<f64>, Error> {
    let mut all: Vec<&mut Ends> = std::iter::once(direct).chain(places).collect();
    let mut times = vec![Vec::with_capacity(SLICES); all.len()];
    for slice in 0..SLICES {
        for step in 0..all.len() {
            let at = if (round + slice).is_multiple_of(2) { step } else { all.len() - 1 - step };
            // A slice in which something was lost has no figure.
            times[at].extend(all[at].ping(PINGS)?.map(|(median, _)| median as f64));
        }
    }
    Ok(times.iter().map(|times| Summary::of(times).map_or(f64::NAN, |summary| summary.median)).collect())
}

fn push(series: &mut Series, variants: &[Variant<'_>], size: u32, medians: &[f64]) {
    let [none, rest @ ..] = medians else { return };
    let mut add = |variant: &str, metric, unit, value: f64| {
        series.push(Key { variant: variant.into(), size: Some(size), regime: REGIME.into(), metric, unit }, value);
    };
    add(DIRECT, RTT, "µs", none / 1000.0);
    let one_way = |rtt: &f64| (rtt - none) / 2.0;
    let passive = rest.first().map_or(f64::NAN, one_way);
    for (variant, rtt) in variants.iter().zip(rest) {
        let t = one_way(rtt);
        add(variant.name, RTT, "µs", rtt / 1000.0);
        add(variant.name, ONE_WAY, "µs", t / 1000.0);
        add(variant.name, OVERHEAD, "%", (t - passive) / passive * 100.0);
    }
}
