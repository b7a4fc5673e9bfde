//! The one-CPU flood (`bench/c/flood.c`) as a value: a site in a line of namespaces, with generator and sink around it in one process.
//!
//! ```text
//! flood: test run with live frames ──▶ s0 ──▶ r0 │router│ r1 ──▶ d0, counted and dropped
//! ```
//!
//! No interface has a NAPI thread, so all of it runs in the flood's process on its CPU, and nothing but its CPU time
//! has to be read. What the kernel's softirq thread of that CPU does is added; under SCHED_FIFO it does nothing. For
//! fair bursts the same program sends from one CPU, and the NAPI of r0 is a thread on another ([`napi`]), which does
//! the routing and the sink's part.

mod napi;
mod rest;
mod rounds;
mod stream;
mod variant;

use std::ffi::OsString;
use std::fs;
use std::ops::AddAssign;

use super::Error;
use super::compile::{KernelPrograms, Programs};
use super::dialogue::Dialogue;
use super::gateway::{TOTAL_CPU, sleeps_of};
use super::line::{D_MAC, D0, Line, S0};
use super::place::{Cpus, Site, launch};
use super::report::Report;
use super::series::{Series, Target};
use anode::code::bundle::Bundle;
pub(crate) use rest::rest;
pub(crate) use rounds::{Flood, ROUTER_AND_NODE_CPU, ROUTER_CPU};
use stream::Sink;
pub(crate) use stream::{NO_CAPSULES, Rhythm, Stream};
pub(crate) use variant::Variant;

/// Frames in a test run that only finds out whether the way is open, at least.
const PROBE: u32 = 8192;
/// The same where bursts have pauses.
const FAIR_PROBE: u32 = 1024;
const PROBE_BATCH: u32 = 64;
/// From the begin of one fair burst to that of the next: even a slow router has long fallen asleep (90,000 frames a second).
const INTERVAL_NS: u32 = 1_422_000;

/// A site with the flood around it.
#[derive(Debug)]
pub(crate) struct Channel {
    dialogue: Dialogue,
    /// Where the router stands.
    pub(crate) site: Site,
    rhythm: Rhythm,
    cpus: Cpus,
    threads: Vec<u32>,
    /// Different frames that take turns.
    period: usize,
}

/// What one test run, or several added up, measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Frames sent.
    pub(crate) sent: u64,
    /// Frames that reached the sink.
    pub(crate) arrived: u64,
    /// CPU time in nanoseconds: of all in a flood, of router and sink in fair bursts.
    pub(crate) cpu_ns: u64,
    /// Wall-clock time while frames were sent, in nanoseconds.
    pub(crate) wall_ns: u64,
}

impl Channel {
    /// A line of namespaces in which Linux may forward, and the flood in it; needs root.
    pub(crate) fn new(
        programs: &Programs,
        kernel: &KernelPrograms,
        cpus: Cpus,
        rhythm: Rhythm,
    ) -> Result<Channel, Error> {
        Channel::to(Sink::Xdp, programs, kernel, cpus, rhythm)
    }

    /// The same with another sink.
    fn to(
        sink: Sink,
        programs: &Programs,
        kernel: &KernelPrograms,
        cpus: Cpus,
        rhythm: Rhythm,
    ) -> Result<Channel, Error> {
        let line = Line::new(programs)?;
        if sink == Sink::Stack {
            // Only so does its driver take redirected frames without a program.
            line.d.run("ethtool", &["-K", D0, "gro", "on"], "")?;
        }
        line.r.run("sh", &["-c", FORWARDING], "")?;
        let arguments: [OsString; 8] = [
            kernel.flood_object.clone().into(),
            line.s.netns(),
            S0.into(),
            line.d.netns(),
            D0.into(),
            D_MAC.into(),
            softirq_thread(cpus.generator).to_string().into(),
            if sink == Sink::Stack { "stack" } else { "xdp" }.into(),
        ];
        let (dialogue, line_said) = Dialogue::start(launch(programs, cpus.generator, None), &kernel.flood, &arguments)?;
        if line_said != "ready" {
            return Err(Error::Protocol(line_said));
        }
        Ok(Channel {
            dialogue,
            site: Site::packet(line, programs, cpus)?,
            rhythm,
            cpus,
            threads: Vec::new(),
            period: 1,
        })
    }

    /// From now on frames are those of `stream`; returns the first.
    pub(crate) fn load(&mut self, stream: &Stream, bundles: &[Bundle]) -> Result<Vec<u8>, Error> {
        let frames = stream.frames(bundles);
        self.period = frames.len();
        let mut frames = frames.into_iter();
        let first = frames.next().unwrap_or_default();
        self.expect_ok(&format!("load {}", hex::encode(&first)))?;
        for other in frames {
            self.expect_ok(&format!("head {}", hex::encode(&other)))?;
        }
        Ok(first)
    }

    /// Calls `start`, which starts a router here. With pauses, what receives on r0 is a thread afterwards, and watched.
    pub(crate) fn with_router<T>(&mut self, start: impl FnOnce(&Channel) -> Result<T, Error>) -> Result<T, Error> {
        let before = napi::threads();
        let started = start(self)?;
        if let (Rhythm::Fair, Some(line)) = (self.rhythm, &self.site.line) {
            self.threads = napi::make_threads(line, &before)?;
            self.expect_ok("watch 0 0")?;
            for thread in self.threads.clone() {
                self.expect_ok(&format!("watch {thread} {}", self.cpus.gateway))?;
            }
        }
        Ok(started)
    }

    /// How often the router's threads have fallen asleep so far.
    pub(crate) fn sleeps(&self) -> u64 {
        self.threads.iter().map(|thread| sleeps_of(&format!("/proc/{thread}/status"))).sum()
    }

    /// Sends `count` frames in batches and measures; also returns the first that arrived.
    pub(crate) fn run(&mut self, count: u32, batch: u32) -> Result<(Flow, Vec<u8>), Error> {
        let line = match self.rhythm {
            Rhythm::Flood => self.dialogue.ask(&format!("run {count} {batch}"))?,
            Rhythm::Fair => return self.offer_seen(count, batch, INTERVAL_NS),
        };
        parse(&line).ok_or(Error::Protocol(line))
    }

    /// The same with so much time between the begins of batches.
    pub(crate) fn offer(&mut self, count: u32, batch: u32, interval_ns: u32) -> Result<Flow, Error> {
        self.offer_seen(count, batch, interval_ns).map(|(flow, _)| flow)
    }

    /// The same, with the first that arrived.
    pub(crate) fn offer_seen(&mut self, count: u32, batch: u32, interval_ns: u32) -> Result<(Flow, Vec<u8>), Error> {
        let line = self.dialogue.ask(&format!("pace {count} {batch} {interval_ns}"))?;
        parse(&line).ok_or(Error::Protocol(line))
    }

    /// Whether all frames arrive at a rate, so many in batches, in one of so many trials.
    pub(crate) fn is_whole(&mut self, (count, batch): (u32, u32), rate: f64, tries: usize) -> Result<bool, Error> {
        for _ in 0..tries {
            let flow = self.offer(count, batch, interval_ns(batch, rate))?;
            if flow.arrived == flow.sent {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Frames of a probe: each that takes turns is among them.
    pub(crate) fn probed(&self) -> u32 {
        let least = if self.rhythm == Rhythm::Fair { FAIR_PROBE } else { PROBE };
        least.next_multiple_of(self.period as u32)
    }

    /// Sends some frames; whether so many copies of each arrived, with the first of them.
    pub(crate) fn probe(&mut self, copies: u32) -> Result<Option<Vec<u8>>, Error> {
        let (flow, sample) = self.run(self.probed(), PROBE_BATCH / copies.next_power_of_two())?;
        Ok((flow.arrived == flow.sent * u64::from(copies)).then_some(sample))
    }

    /// Packets that Linux has forwarded in the router's namespace (RFC 4293's ipSystemStatsOutForwDatagrams).
    pub(crate) fn forwarded_by_linux(&self) -> u64 {
        let line = self.site.line.as_ref();
        line.and_then(|line| line.r.proc_net("snmp")).and_then(|text| forwarded(&text)).unwrap_or(0)
    }

    fn expect_ok(&mut self, command: &str) -> Result<(), Error> {
        match self.dialogue.ask(command)?.as_str() {
            "ok" => Ok(()),
            other => Err(Error::Protocol(other.into())),
        }
    }
}

/// Nanoseconds between the begins of batches at a rate.
pub(crate) fn interval_ns(batch: u32, rate: f64) -> u32 {
    (f64::from(batch) * 1e9 / rate) as u32
}

/// Whether r0 builds packets of the stack's kind from frames that it is handed, though it has no XDP program. Only so
/// does Linux see them; where a program is to forward them, a loss would be hidden by it.
fn offload(site: &Site, on: bool) -> Result<(), Error> {
    let Some(line) = &site.line else { return Ok(()) };
    line.r.run("ethtool", &["-K", "r0", "gro", if on { "on" } else { "off" }], "")
}

/// Gives r1 this queueing discipline of Linux's, for as long as the line is there.
fn shape(site: &Site, bucket: &str) -> Result<(), Error> {
    let Some(line) = &site.line else { return Ok(()) };
    line.r.run("sh", &["-c", &format!("tc qdisc replace dev r1 root {bucket}")], "")
}

/// The router's rules of nftables are these, and no others.
fn filter(site: &Site, rules: &str) -> Result<(), Error> {
    let Some(line) = &site.line else { return Ok(()) };
    line.r.run("nft", &["-f", "-"], &format!("flush ruleset\n{rules}"))
}

/// Forwarding on, and no second look at sources, whatever this host has for its own.
pub(crate) const FORWARDING: &str =
    "cd /proc/sys/net/ipv4 && echo 1 >ip_forward && for f in conf/*/rp_filter; do echo 0 >$f; done";

/// The kernel's thread that takes over softirqs on a CPU; 0 if it cannot be seen.
pub(crate) fn softirq_thread(cpu: usize) -> u32 {
    let name = format!("ksoftirqd/{cpu}");
    let is_it = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_it).unwrap_or(0)
}

/// The figure in /proc/net/snmp: a line of names, a line of numbers.
fn forwarded(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|name| name == "ForwDatagrams")?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}

impl AddAssign for Flow {
    fn add_assign(&mut self, other: Flow) {
        self.sent += other.sent;
        self.arrived += other.arrived;
        self.cpu_ns += other.cpu_ns;
        self.wall_ns += other.wall_ns;
    }
}

fn parse(line: &str) -> Option<(Flow, Vec<u8>)> {
    let mut words = line.strip_prefix("run ")?.split_whitespace();
    let mut number = || words.next()?.parse().ok();
    let flow = Flow { sent: number()?, arrived: number()?, cpu_ns: number()?, wall_ns: number()? };
    Some((flow, hex::decode(words.next().unwrap_or_default()).ok()?))
}

/// At most so many times what the baseline costs: variant, regime, baseline, limit.
pub(crate) type Limit = (&'static str, &'static str, &'static str, f64);

/// The targets, for every size; none of what was not measured.
pub(crate) fn judge(series: &Series, limits: &[Limit], report: &mut Report) {
    for key in series.keys().filter(|key| [TOTAL_CPU, ROUTER_CPU].contains(&key.metric)) {
        let of = |limit: &&Limit| (limit.0, limit.1) == (key.variant.as_str(), key.regime.as_str());
        for (variant, _, baseline, limit) in limits.iter().filter(of) {
            let name = format!("{}, {} B: {variant} / {baseline}", key.regime, key.size.unwrap_or_default());
            report.targets.extend(Target::at_most(name, &series.ratios(key, variant, baseline), *limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_line_is_read_whole_or_not_at_all() {
        let flow = Flow { sent: 64, arrived: 63, cpu_ns: 1000, wall_ns: 2000 };
        assert_eq!(parse("run 64 63 1000 2000 0aff"), Some((flow, vec![0x0a, 0xff])));
        assert_eq!(parse("run 64 0 1000 2000 "), Some((Flow { arrived: 0, ..flow }, vec![])));
        for bad in ["", "run 1 2 3", "run a 2 3 4 00", "what?", "run 1 2 3 4 zz"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_kernel_says_how_much_it_forwarded() {
        let text = "Ip: Forwarding DefaultTTL ForwDatagrams\nIp: 1 64 7\nIcmp: InMsgs\n";
        assert_eq!(forwarded(text), Some(7));
        assert_eq!(forwarded("Ip: Forwarding\nIp: 1\n"), None);
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod kernel_tests;
