//! The active path: a UDP payload comes in, an environment changes it, and it leaves by another port in headers of its own.
//!
//! The same program (`bench/c/activeee.c`) is run in the node's process and in one of its own, beside plain C that
//! forwards frames without looking. Bursts that fit everywhere give the cost, bursts of one packet the time that a
//! process adds. On two CPUs come the highest rate without loss (RFC 2544 §26.1) and the time that a process adds where
//! it and the node poll: the process then polls on the generator's CPU, which goes first there. What the environment's
//! process takes of a CPU is in its gateway's figure.

use std::path::Path;

use super::super::capsules::PLAIN;
use super::super::compile::{KernelPrograms, Programs, environment};
use super::super::gateway::{BURST_TIME, GATEWAY_CPU, Gateway, Load, Running, compare, compare_and};
use super::super::line::{EGRESS, IP_UDP};
use super::super::node::{NodeGateway, Up};
use super::super::place::{Cpus, Place, Scratch, Site, ip_length};
use super::super::plain::{Plain, PlainC};
use super::super::programs;
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};
use super::rate::Search;
use anode::manage::management::OBJECT_ARGUMENT;

/// The environment in the node's process and in one of its own; the same where node and process poll.
const OBJECT: &str = "active path in the node";
const PROCESS: &str = "active path in a process";
const OBJECT_POLLING: &str = "active path in a node that polls";
const PROCESS_POLLING: &str = "active path in a process that polls";

/// What others are compared with.
pub(super) const BASELINES: &[&str] = &[PLAIN, OBJECT, OBJECT_POLLING];

/// How packets come and go: for people, and as an option of ports.
const PORTS: [(&str, &str); 2] = [("xdp", "xdp = true"), ("packet", "")];
const QUICK_PORTS: usize = 1;

/// Bytes of payloads: the sink's stamp takes four.
const SIZES: [usize; 5] = [4, 64, 256, 1024, 1400];
const QUICK_SIZES: [usize; 2] = [64, 1400];

/// Packets of a burst that no queue loses.
const BURST: u32 = 64;
/// Of the usual number of packets, so many parts are sent one by one.
const PARTS: u32 = 8;

/// Targets: node over plain C; process over object; microseconds that a process adds, and one that polls.
const PLAIN_RATIO: f64 = 1.15;
const PROCESS_RATIO: f64 = 1.50;
const ADDED_US: f64 = 15.0;
const ADDED_POLLING_US: f64 = 5.0;

/// Circumstances: the generator has a CPU of its own, but for what polls there.
const APART: &str = "generator apart";

/// For how long a process polls, in microseconds.
const POLL_US: u32 = 200;

const THROUGHPUT: &str = "loss-free throughput";
const SEARCH: Search = Search { range: [10_000.0, 4_000_000.0], first: 300_000.0, close: 1.03 };
const QUICK_SEARCH: Search = Search { close: 1.10, ..SEARCH };
/// Trials at one rate of which one must be without loss: others use this machine too.
const TRIES: usize = 2;
/// Length of a trial, in milliseconds.
const TRIAL_MS: u32 = 150;

/// The port that the path is for, and that to which it leads.
const IN_PORT: u16 = 5000;
const OUT_PORT: u16 = 7000;

/// Runs this part.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let programs = Programs::ready()?;
    let kernel = programs.kernel()?;
    let scratch = Scratch::new()?;
    let object = environment(scratch.path(), "activeee", include_str!("../../c/activeee.c"))?;
    let mut all = Series::default();
    let ports = if settings.quick { &PORTS[..QUICK_PORTS] } else { &PORTS };
    for (name, option) in ports {
        let gateways = Gateways { settings, name, option, programs: &programs, kernel: &kernel, object: &object };
        match gateways.measure(report) {
            Ok(series) => all.extend(series),
            Err(Error::NoNamespace) => report.note(format!("SKIPPED active paths by {name}: {}.", Error::NoNamespace)),
            Err(error) => return Err(error),
        }
    }
    report.note(format!(
        "Active paths: the first byte of each payload is changed, and both checksums are computed; plain C forwards \
         the same frames unread. Payloads of {} bytes are \
         the smallest that a stamp fits in. Throughput without loss as in RFC 2544, by bisection to {:.0} %; a trial \
         takes {TRIAL_MS} ms, and a rate counts if one of {TRIES} is whole. Generator on one CPU, \
         gateway on another.",
        SIZES[0],
        (search(settings).close - 1.0) * 100.0
    ));
    Ok(all)
}

/// How to look for throughput.
fn search(settings: &Settings) -> Search {
    if settings.quick { QUICK_SEARCH } else { SEARCH }
}

/// What is compared over one kind of port.
struct Gateways<'a> {
    settings: &'a Settings,
    name: &'static str,
    /// An option of its ports.
    option: &'static str,
    programs: &'a Programs,
    kernel: &'a KernelPrograms,
    object: &'a Path,
}

/// A node with the environment.
struct Active {
    node: NodeGateway<'static>,
    process: bool,
    /// Where the process of the environment runs, if not where the node does.
    cpu: Option<usize>,
}

/// Where the environment of a node runs.
enum Runs {
    /// In the node's process.
    Inside,
    /// In its own, on this CPU or on the node's.
    Outside(Option<usize>),
}

impl Active {
    fn new(name: &'static str, port: &str, object: &Path, runs: Runs, poll_us: u32) -> Result<Active, Error> {
        let object_path = object.to_string_lossy().into_owned();
        let peer = EGRESS.peer;
        let words = [
            "bench".to_owned(),
            poll_us.to_string(),
            "if0/ip/udp".into(),
            format!("{peer}:{IN_PORT}"),
            "if1/ip/udp".into(),
            format!("*:6000 -> {peer}:{OUT_PORT}"),
        ];
        let process = matches!(runs, Runs::Outside(_));
        let mut cpu = None;
        let what = if let Runs::Outside(apart) = runs {
            cpu = apart;
            let own = programs::node()?.to_string_lossy().into_owned();
            let started = [own.clone(), OBJECT_ARGUMENT.into(), object_path];
            let command: Vec<String> = started.into_iter().chain(words).collect();
            let folders = [object, own.as_ref()].map(|file| file.parent().unwrap_or(file));
            format!("command = {command:?}\nreads = {folders:?}")
        } else {
            let library: Vec<String> = [object_path].into_iter().chain(words).collect();
            format!("library = {library:?}")
        };
        let poll = if poll_us > 0 { format!("[xdp]\nbusy_poll_us = {poll_us}\n") } else { String::new() };
        let own = format!(
            "{poll}[[role]]\nname = \"bench\"\nrepresentations = [\"native\"]\n[role.grants]\nchannels = 4\nbandwidth \
             = 1_000_000_000_000\nmemory_bytes = \
             67_108_864\n[[ee]]\nname = \"active\"\nrole = \"bench\"\nrestart = \"never\"\n{what}"
        );
        Ok(Active { node: NodeGateway::new(name, &[]).configured(&own, port), process, cpu })
    }
}

impl Gateway for Active {
    fn name(&self) -> &str {
        self.node.title()
    }

    fn start(&self, site: &Site) -> Result<Running, Error> {
        let running = self.node.start(site)?;
        if !self.process {
            return Ok(running);
        }
        let helper = Up::wait(&site.scratch.path().join("run"))?.environment_pid()?;
        if let Some(cpu) = self.cpu {
            anode::sys::realtime::pin_process(helper, cpu)
                .map_err(|error| Error::Node(format!("its environment cannot be put on CPU {cpu}: {error}")))?;
        }
        Ok(running.helped_by(helper))
    }

    /// The payload's first byte is one more, if that is not the stamp's; the headers are the channel's.
    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        let headers = 14 + IP_UDP;
        let (Some(before), Some(after)) = (sent.get(headers..), arrived.get(headers..)) else {
            return Err(format!("{} bytes came out", arrived.len()));
        };
        let mut expected = before.to_vec();
        if expected.len() > 4 {
            expected[0] = expected[0].wrapping_add(1);
        }
        let end = expected.len().saturating_sub(4);
        let port = u16::from_be_bytes([arrived[headers - 6], arrived[headers - 5]]);
        match after.len() == expected.len() && after[..end] == expected[..end] && port == OUT_PORT {
            true => Ok(()),
            false => Err(format!("{after:02x?} came out to port {port}, not {expected:02x?}")),
        }
    }
}

impl<'a> Gateways<'a> {
    fn plain(&self) -> Plain<'a> {
        match self.name {
            "xdp" => Plain::Xdp(self.kernel),
            _ => Plain::Packet(PlainC::new(self.programs, PLAIN, 0)),
        }
    }

    fn active(&self, name: &'static str, runs: Runs, poll_us: u32) -> Result<Active, Error> {
        Active::new(name, self.option, self.object, runs, poll_us)
    }

    fn place(&self, cpus: Cpus) -> Result<Place, Error> {
        let mut place = Place::packet(self.programs, cpus)?;
        place.site.port = IN_PORT;
        Ok(place)
    }

    fn measure(&self, report: &mut Report) -> Result<Series, Error> {
        let settings = self.settings;
        let sizes: &[usize] = if settings.quick { &QUICK_SIZES } else { &SIZES };
        let alone = if settings.quick { &sizes[..1] } else { sizes };
        let bursts = sizes.iter().map(|size| Load::new(BURST, payload(*size)));
        let loads: Vec<Load> = bursts.chain(alone.iter().map(|size| lone(*size))).collect();
        let plain = self.plain();
        let inside = self.active(OBJECT, Runs::Inside, 0)?;
        let outside = self.active(PROCESS, Runs::Outside(None), 0)?;
        let gateways: [&dyn Gateway; 3] = [&plain, &inside, &outside];
        let make = || self.place(settings.cpus());
        let mut all = compare(settings, &format!("active, {}", self.name), &gateways, &loads, &make)?;
        let apart = Settings { two_cpus: true, ..settings.clone() };
        if apart.cpus().generator == apart.cpus().gateway {
            report.note("SKIPPED throughput of active paths and polling: there is only one CPU.");
        } else {
            all.extend(self.apart(&apart, &gateways, alone)?);
        }
        self.judge(&all, sizes[0], report);
        Ok(all)
    }

    /// On two CPUs: nodes that poll, packet by packet, and the throughput of those that do not.
    fn apart(&self, apart: &Settings, gateways: &[&dyn Gateway; 3], sizes: &[usize]) -> Result<Series, Error> {
        let few = Settings { round_count: super::searches(apart), ..apart.clone() };
        let inside = self.active(OBJECT_POLLING, Runs::Inside, POLL_US)?;
        let outside = self.active(PROCESS_POLLING, Runs::Outside(Some(apart.cpus().generator)), POLL_US)?;
        let [plain, object, process] = *gateways;
        let all: [&dyn Gateway; 5] = [plain, object, process, &inside, &outside];
        let regime = format!("active, {}, {APART}", self.name);
        let mut rates = Series::default();
        let mut besides = |gateway: &dyn Gateway, running: &mut Running, place: &mut Place| {
            let searched = ![OBJECT_POLLING, PROCESS_POLLING].contains(&gateway.name());
            let sizes = if searched { sizes } else { &[] };
            sizes.iter().try_for_each(|size| self.throughput(*size, gateway, running, place, &mut rates))
        };
        let make = || self.place(apart.cpus());
        let mut series = compare_and(&few, &regime, &all, &[lone(sizes[0])], &make, &mut besides)?;
        series.extend(rates);
        Ok(series)
    }

    /// The highest rate at which nothing is lost.
    fn throughput(
        &self,
        size: usize,
        gateway: &dyn Gateway,
        running: &mut Running,
        place: &mut Place,
        series: &mut Series,
    ) -> Result<(), Error> {
        let packet = place.site.dress(&payload(size));
        place.generator.load(BURST, &[packet])?;
        if !running.wait_until_warm(place)? {
            return Err(running.silent(gateway.name()));
        }
        let key = Key {
            variant: gateway.name().into(),
            size: Some(ip_length(&payload(size))),
            regime: format!("active, {}, RFC 2544", self.name),
            metric: THROUGHPUT,
            unit: "packets/s",
        };
        let before = series.values(&key).last().copied();
        let mut holds = |rate: f64| {
            (0..TRIES).try_fold(
                false,
                |held, _| {
                    if held { Ok(true) } else { place.generator.pace(rate as u32, TRIAL_MS) }
                },
            )
        };
        let rate = search(self.settings).highest(before, &mut holds)?;
        series.push(key, rate);
        Ok(())
    }

    fn judge(&self, all: &Series, smallest: usize, report: &mut Report) {
        let of = |variant: &str, metric: &str, burst: &str| {
            let is = |key: &&Key| key.variant == variant && key.metric == metric && key.regime.contains(burst);
            all.keys().filter(is).cloned().collect::<Vec<Key>>()
        };
        let about = |key: &Key| format!("{}, {} B", key.regime, key.size.unwrap_or_default());
        let full = format!("bursts of {BURST}");
        for (variant, baseline, limit) in [(OBJECT, PLAIN, PLAIN_RATIO), (PROCESS, OBJECT, PROCESS_RATIO)] {
            for key in of(PLAIN, GATEWAY_CPU, &full) {
                let name = format!("{}: {variant} / {baseline}", about(&key));
                report.targets.extend(Target::at_most(name, &all.ratios(&key, variant, baseline), limit));
            }
        }
        let small = ip_length(&payload(smallest));
        let added = [(OBJECT, PROCESS, ADDED_US), (OBJECT_POLLING, PROCESS_POLLING, ADDED_POLLING_US)];
        for (baseline, variant, limit) in added {
            let polls = baseline == OBJECT_POLLING;
            let is = |key: &Key| key.size == Some(small) && (polls || !key.regime.contains(APART));
            for key in of(baseline, BURST_TIME, "bursts of 1").into_iter().filter(is) {
                let name = format!("{}: µs that it takes longer, {variant}", about(&key));
                report.targets.extend(Target::at_most(name, &difference(all, &key, variant), limit));
            }
        }
    }
}

/// Single packets.
fn lone(size: usize) -> Load {
    Load { parts: PARTS, ..Load::new(1, payload(size)) }
}

/// Bytes that look like nothing in particular.
fn payload(size: usize) -> Vec<u8> {
    (0..size).map(|at| at as u8).collect()
}

/// What a variant takes longer than the one of `key`, round by round.
fn difference(all: &Series, key: &Key, variant: &str) -> Vec<f64> {
    let longer = all.values(&Key { variant: variant.into(), ..key.clone() });
    longer.iter().zip(all.values(key)).map(|(longer, shorter)| longer - shorter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_was_not_touched_is_noticed() {
        let active = Active::new(OBJECT, "", "/x/activeee.so".as_ref(), Runs::Inside, 0).unwrap();
        assert_eq!(active.node.refusal(), None);
        let mut sent = vec![0; 14 + IP_UDP + 8];
        let mut arrived = sent.clone();
        arrived[36..38].copy_from_slice(&OUT_PORT.to_be_bytes());
        assert!(active.check(&sent, &arrived).is_err());
        sent[14 + IP_UDP] = 0xff;
        assert_eq!(active.check(&sent, &arrived), Ok(()));
    }
}
