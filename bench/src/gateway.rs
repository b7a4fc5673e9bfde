//! Gateways under measurement, and the comparison of several by loss-free bursts.
//!
//! A [`Gateway`] knows how to start itself in a [`Place`]; the C baselines are here, a node is one more implementation.
//! [`compare`] starts every gateway anew in every round, each in a place of its own, exchanges the places from round to round, and within a
//! round alternates between the gateways in short slices. A round's figure is the sum of its slices. So whatever the
//! machine does besides meets all variants alike, and neither memory layout nor place sticks to one of them.
//!
//! The figure that ratios are quoted from is the CPU time of the gateway's whole process per packet; docs/bench.md says why.

use std::fs;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::burst::Slice;
use super::guests::{packet, packet_to};
use super::line::OTHER_HOP;
use super::place::{Place, Site, ip_length};
use super::series::{Key, Series};
use super::{Error, Settings};
use anode::code::bundle::Bundle;
use anode::sys::clock::process_cpu;
use anode::wire::{Addr, anep, capsule};

/// Something that takes packets in at one end of a place and sends them out at the other.
pub(crate) trait Gateway {
    /// The variant's name in tables.
    fn name(&self) -> &str;
    /// Starts it at `site`; it need not be ready yet, the generator finds out.
    fn start(&self, site: &Site) -> Result<Running, Error>;
    /// The code it has for its capsules; none if it does not care what it forwards.
    fn bundles(&self) -> &[Bundle] {
        &[]
    }
    /// How many flows its packets are of, which differ in their ports; none: all are alike.
    fn flows(&self) -> Option<u32> {
        None
    }
    /// Checks the last packet that came out against the one that went in; the message says what is wrong.
    fn check(&self, _sent: &[u8], _arrived: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// A started gateway; it is stopped when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
    /// What must not end before it.
    beside: Option<Box<Running>>,
    /// Another process that works for it.
    helper: Option<u32>,
    /// Whether it was asked to end.
    asked: bool,
}

/// What else is measured of a gateway at the end of a round, while it still runs.
pub(crate) type Besides<'b> = &'b mut dyn FnMut(&dyn Gateway, &mut Running, &mut Place) -> Result<(), Error>;

/// What is sent: bursts of `burst` packets with this UDP payload. Its last four bytes are overwritten by burst and index.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Packets a burst.
    pub(crate) burst: u32,
    /// Payload of the UDP datagram; a gateway that has codes of its own gets capsules of these, as long.
    pub(crate) payload: Vec<u8>,
    /// How many codes take turns.
    pub(crate) codes: u16,
    /// Of the usual number of packets, so many parts are one.
    pub(crate) parts: u32,
    /// A payload for the other next hop, if packets go to two in turn.
    pub(crate) other: Option<Vec<u8>>,
}

impl Load {
    /// One code, and as many packets as usual.
    pub(crate) fn new(burst: u32, payload: Vec<u8>) -> Load {
        Load { burst, payload, codes: 1, parts: 1, other: None }
    }

    fn payloads(&self, bundles: &[Bundle]) -> Vec<Vec<u8>> {
        let length = self.payload.len();
        let other = Addr::from(IpAddr::V4(OTHER_HOP));
        let own = bundles.iter().take(self.codes.into()).flat_map(|bundle| {
            let there = self.other.as_ref().map(|_| packet_to(bundle, other, length));
            std::iter::once(packet(bundle, length)).chain(there)
        });
        if bundles.is_empty() {
            std::iter::once(&self.payload).chain(&self.other).cloned().collect()
        } else {
            own.collect()
        }
    }
}

/// Where the last byte of a capsule's destination stands in a datagram: that of the other next hop is even.
pub(crate) const LAST_OF_DESTINATION: usize = anep::HEADER + capsule::DESTINATION + 15;

/// CPU time of the gateway's process per packet: the figure ratios are quoted from.
pub(crate) const GATEWAY_CPU: &str = "gateway CPU per packet";
/// CPU time of generator, gateway and sink together per packet.
pub(crate) const TOTAL_CPU: &str = "CPU per packet, generator and sink included";
/// Wall-clock time of one burst from its first packet's departure to its last one's arrival.
pub(crate) const BURST_TIME: &str = "time per burst";
/// Packets that the gateway served per time it fell asleep.
pub(crate) const WAKE_UPS: &str = "packets per wake-up";
/// Packets that came through.
pub(crate) const SHARE: &str = "share forwarded";
/// Its unit.
pub(crate) const SHARE_UNIT: &str = "of 1";

/// Packets in a slice, about: 5–20 ms.
const SLICE_PACKETS: u32 = 4096;
/// Slices of each gateway in a round.
const SLICES: usize = 8;
const WARM_BURSTS: u32 = 20;
/// Times [`WARM_MS`] that a gateway may take until it forwards every burst whole.
const WARM_TRIES: usize = 30;
const WARM_MS: u32 = 500;
const STOP_LIMIT_SECONDS: i64 = 3;

/// Measures `gateways` against each other in the same kind of place, which `make` makes, under each of `loads`.
pub(crate) fn compare(
    settings: &Settings,
    regime: &str,
    gateways: &[&dyn Gateway],
    loads: &[Load],
    make: &dyn Fn() -> Result<Place, Error>,
) -> Result<Series, Error> {
    compare_and(settings, regime, gateways, loads, make, &mut |_, _, _| Ok(()))
}

/// The same, and more of each gateway behind the loads of a round.
pub(crate) fn compare_and(
    settings: &Settings,
    regime: &str,
    gateways: &[&dyn Gateway],
    loads: &[Load],
    make: &dyn Fn() -> Result<Place, Error>,
    besides: Besides<'_>,
) -> Result<Series, Error> {
    let mut places = gateways.iter().map(|_| make()).collect::<Result<Vec<Place>, Error>>()?;
    let mut series = Series::default();
    settings.rounds(regime, |round| {
        places.rotate_left(1);
        let started: Result<Vec<Running>, Error> =
            gateways.iter().zip(&places).map(|(g, p)| g.start(&p.site)).collect();
        let mut started = started?;
        for load in loads {
            let sums = one_round(round, gateways, &mut started, &mut places, load)?;
            let cpus = if settings.two_cpus { ", two CPUs" } else { "" };
            let codes = if load.codes == 1 { String::new() } else { format!(", {} codes", load.codes) };
            let regime = format!("{regime}, bursts of {}{cpus}{codes}", load.burst);
            for (gateway, (sum, sleeps)) in gateways.iter().zip(sums) {
                push(&mut series, gateway.name(), &regime, load, &sum, sleeps);
            }
        }
        for ((gateway, running), place) in gateways.iter().zip(&mut started).zip(&mut places) {
            besides(*gateway, running, place)?;
        }
        end_all(started);
        Ok(())
    })?;
    Ok(series)
}

/// Ends them; none is waited for before all are asked.
pub(crate) fn end_all(running: impl IntoIterator<Item = Running>) {
    let mut all: Vec<Running> = running.into_iter().collect();
    all.iter_mut().for_each(Running::ask_to_end);
}

/// Warms all gateways up under `load`, then alternates between them; returns the sums with the times each fell asleep.
fn one_round(
    round: usize,
    gateways: &[&dyn Gateway],
    started: &mut [Running],
    places: &mut [Place],
    load: &Load,
) -> Result<Vec<(Slice, u64)>, Error> {
    let bursts = (SLICE_PACKETS / load.parts / load.burst).max(1);
    for ((gateway, running), place) in gateways.iter().zip(started.iter_mut()).zip(places.iter_mut()) {
        let packets: Vec<Vec<u8>> =
            load.payloads(gateway.bundles()).iter().map(|payload| place.site.dress(payload)).collect();
        place.generator.load(load.burst, &packets)?;
        if let Some(flows) = gateway.flows() {
            place.generator.flows(flows)?;
        }
        if !running.wait_until_warm(place)? {
            return Err(running.silent(gateway.name()));
        }
        let (_, arrived) = place.generator.run(running.pid(), 1)?;
        let wrong = |what| Error::Wrong { gateway: gateway.name().into(), what };
        let known = |why| packets.iter().find(|packet| gateway.check(packet, &arrived).is_ok()).map(drop).ok_or(why);
        gateway.check(&packets[0], &arrived).or_else(known).map_err(wrong)?;
    }
    let mut sums = vec![(Slice::default(), 0); gateways.len()];
    for slice in 0..SLICES {
        for step in 0..gateways.len() {
            // Forwards in even slices, backwards in odd ones, so that a drift in time meets all alike.
            let i = if (round + slice).is_multiple_of(2) { step } else { gateways.len() - 1 - step };
            let sleeps = started[i].sleeps();
            let helped = started[i].helper_ns();
            sums[i].0 += places[i].generator.run(started[i].pid(), bursts)?.0;
            sums[i].0.gateway_ns += started[i].helper_ns() - helped;
            sums[i].1 += started[i].sleeps() - sleeps;
        }
    }
    Ok(sums)
}

fn push(series: &mut Series, variant: &str, regime: &str, load: &Load, sum: &Slice, sleeps: u64) {
    let size = Some(ip_length(&load.payload));
    let mut add = |metric, unit, value| {
        series.push(Key { variant: variant.into(), size, regime: regime.into(), metric, unit }, value);
    };
    let packets = sum.arrived.max(1) as f64;
    let bursts = sum.sent as f64 / f64::from(load.burst);
    add(GATEWAY_CPU, "ns", sum.gateway_ns as f64 / packets);
    add(TOTAL_CPU, "ns", (sum.gateway_ns + sum.own_ns) as f64 / packets);
    add(BURST_TIME, "µs", sum.wall_ns as f64 / 1000.0 / bursts);
    add(WAKE_UPS, "packets", packets / sleeps.max(1) as f64);
    add(SHARE, SHARE_UNIT, sum.arrived as f64 / sum.sent.max(1) as f64);
}

impl Running {
    /// Takes charge of a started process; `log` holds what it prints.
    pub(crate) fn new(child: Child, log: PathBuf) -> Running {
        Running { child, log, beside: None, helper: None, asked: false }
    }

    /// The same with another that ends after it.
    pub(crate) fn beside(mut self, other: Running) -> Running {
        self.beside = Some(Box::new(other));
        self
    }

    /// The same with another process that works for it: what that takes of a CPU is in its figure.
    pub(crate) fn helped_by(mut self, helper: u32) -> Running {
        self.helper = Some(helper);
        self
    }

    /// Asks it to end, once.
    fn ask_to_end(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32)
            && !self.asked
            && self.process().is_some()
        {
            let _ = kill_process(pid, Signal::TERM);
            self.asked = true;
        }
    }

    /// Its process, as long as that has not ended.
    fn process(&mut self) -> Option<OwnedFd> {
        let runs = matches!(self.child.try_wait(), Ok(None));
        pidfd_open(Pid::from_raw(self.child.id() as i32).filter(|_| runs)?, PidfdFlags::empty()).ok()
    }

    /// CPU time of the process that works for it so far.
    fn helper_ns(&self) -> u64 {
        self.helper.and_then(process_cpu).unwrap_or(0)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of its threads so far, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.pid())) else { return 0 };
        // The first figure of schedstat is the time on a CPU.
        let spent = |text: String| text.split(' ').next()?.parse::<u64>().ok();
        tasks.flatten().filter_map(|task| spent(fs::read_to_string(task.path().join("schedstat")).ok()?)).sum()
    }

    /// How often its threads have fallen asleep so far.
    fn sleeps(&self) -> u64 {
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.pid())) else { return 0 };
        tasks.flatten().map(|task| sleeps_of(&task.path().join("status").to_string_lossy())).sum()
    }

    /// Sends bursts until all arrive; `false` if the gateway has ended or takes too long.
    pub(crate) fn wait_until_warm(&mut self, place: &mut Place) -> Result<bool, Error> {
        for _ in 0..WARM_TRIES {
            if place.generator.warm(WARM_BURSTS, WARM_MS)? {
                return Ok(true);
            }
            if self.has_ended() {
                break;
            }
        }
        Ok(false)
    }

    /// Whether it has printed this.
    pub(crate) fn has_said(&self, words: &str) -> bool {
        fs::read_to_string(&self.log).is_ok_and(|log| log.contains(words))
    }

    /// Ends it; what it has printed.
    pub(crate) fn end(self) -> String {
        let log = self.log.clone();
        drop(self);
        fs::read_to_string(log).unwrap_or_default()
    }

    /// Whether it is gone.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The error for a gateway through which nothing comes.
    pub(crate) fn silent(&mut self, name: &str) -> Error {
        let ended = self.child.try_wait().ok().flatten();
        let state = ended.map_or("it runs".into(), |status| format!("it has ended: {status}"));
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(20).collect();
        Error::Silent { gateway: name.into(), state, log: tail.into_iter().rev().collect::<Vec<_>>().join("\n") }
    }
}

/// How often the thread of this status file has fallen asleep; 0 if it is gone.
pub(crate) fn sleeps_of(status: &str) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
}

impl Drop for Running {
    /// Asks the process to end, and ends it if it does not.
    fn drop(&mut self) {
        self.ask_to_end();
        if let Some(process) = self.process() {
            let limit = Timespec { tv_sec: STOP_LIMIT_SECONDS, tv_nsec: 0 };
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
