//! The active path: a UDP payload comes in, an environment changes it, and it leaves by another port in headers of its own.
//!
//! The same program (`benches/c/activeee.c`) is run in the node's process and in one of its own, beside plain C that forwards
//! frames without looking. Bursts that fit everywhere give the cost, bursts of one packet the time that a process adds; a binary search for the
//! highest rate without loss (RFC 2544 §26.1) gives throughput, of generator and gateway on different CPUs where there are two. What the
//! environment's process takes of a CPU is in its gateway's figure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::capsules::PLAIN;
use super::super::compile::{KernelPrograms, Programs};
use super::super::gateway::{BURST_TIME, GATEWAY_CPU, Gateway, Load, PlainC, Running, compare, unchanged};
use super::super::line::{EGRESS, IP_UDP};
use super::super::node::{NodeGateway, Up, program};
use super::super::place::{Cpus, Place, Scratch, Site, Way, ip_length};
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::{Error, Settings};
use crate::manage::management::OBJECT_ARGUMENT;

/// The environment in the node's process, in one of its own, and in one that polls.
const OBJECT: &str = "active path in the node";
const PROCESS: &str = "active path in a process";
const POLLING: &str = "active path in a process that polls";

/// What others are compared with.
pub(super) const BASELINES: &[&str] = &[PLAIN, OBJECT];

/// How packets come and go: for people, and as an option of ports.
const PORTS: [(&str, &str); 2] = [("packet", ""), ("xdp", "xdp = true")];

/// Octets of payloads: the sink's stamp takes four.
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

/// For how long a process polls, in microseconds.
const POLL_US: u32 = 200;

const THROUGHPUT: &str = "loss-free throughput";
/// Packets a second with which the search begins, where it ends at the latest, and how close it comes.
const RATE_FIRST: u32 = 10_000;
const RATE_MOST: u32 = 4_000_000;
const RATE_STEP: f64 = 0.03;
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
    let object = build(scratch.path())?;
    let mut all = Series::default();
    for (name, option) in PORTS {
        let gateways = Gateways::new(name, option, &programs, &kernel, &object, settings.two_cpus)?;
        match gateways.measure(settings, report) {
            Ok(series) => all.extend(series),
            Err(Error::NoNamespace) => report.note(format!("SKIPPED active paths by {name}: {}.", Error::NoNamespace)),
            Err(error) => return Err(error),
        }
    }
    report.note(format!(
        "Active paths: the first octet of each payload is changed, and both checksums are computed; plain C forwards the same frames unread. Payloads of {} octets are \
         the smallest that a stamp fits in.",
        SIZES[0]
    ));
    Ok(all)
}

/// Builds the environment's program.
fn build(folder: &Path) -> Result<PathBuf, Error> {
    let object = folder.join("activeee.so");
    for (name, text) in [
        ("activeee.c", include_str!("../../../benches/c/activeee.c")),
        ("nodeos.h", include_str!("../../../sdk/anode/nodeos.h")),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|cause| Error::Write { path, cause })?;
    }
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&cc);
    command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"]).arg(&object);
    let output = command.arg(folder.join("activeee.c")).output().map_err(|cause| Error::NoCompiler { cc, cause })?;
    match output.status.success() {
        true => Ok(object),
        false => {
            Err(Error::Compile { name: "activeee".into(), log: String::from_utf8_lossy(&output.stderr).into_owned() })
        }
    }
}

/// What is compared over one kind of port.
struct Gateways<'a> {
    name: &'static str,
    programs: &'a Programs,
    plain: Plain<'a>,
    active: Vec<Active>,
}

/// Plain C that forwards, over either kind of port.
enum Plain<'a> {
    Packet(PlainC<'a>),
    Xdp(&'a KernelPrograms),
}

impl Gateway for Plain<'_> {
    fn name(&self) -> &str {
        PLAIN
    }

    fn start(&self, site: &Site) -> Result<Running, Error> {
        match (self, &site.way) {
            (Plain::Packet(plain), _) => plain.start(site),
            (Plain::Xdp(kernel), Way::Packet { ingress, egress }) => {
                let words = [ingress.interface, egress.interface, egress.mac, egress.peer_mac].map(OsString::from);
                site.spawn(&kernel.xdpgw, &words)
            }
            (Plain::Xdp(_), Way::Udp { .. }) => Err(Error::Protocol("AF_XDP needs interfaces".into())),
        }
    }

    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        unchanged(sent, arrived)
    }
}

/// A node with the environment.
struct Active {
    node: NodeGateway<'static>,
    process: bool,
}

impl Active {
    fn new(name: &'static str, port: &str, object: &Path, process: bool, poll_us: u32) -> Result<Active, Error> {
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
        let what = if process {
            let own = program()?.to_string_lossy().into_owned();
            let command: Vec<String> = [own, OBJECT_ARGUMENT.into(), object_path].into_iter().chain(words).collect();
            let folder = object.parent().unwrap_or(object);
            format!("command = {command:?}\nreads = [{folder:?}]")
        } else {
            let library: Vec<String> = [object_path].into_iter().chain(words).collect();
            format!("library = {library:?}")
        };
        let poll = if poll_us > 0 { format!("[xdp]\nbusy_poll_us = {poll_us}\n") } else { String::new() };
        let own = format!(
            "{poll}[[role]]\nname = \"bench\"\nrepresentations = [\"native\"]\n[role.grants]\nchannels = 4\nbandwidth = 1_000_000_000_000\nmemory_bytes = \
             67_108_864\n[[ee]]\nname = \"active\"\nrole = \"bench\"\nrestart = \"never\"\n{what}"
        );
        Ok(Active { node: NodeGateway::new(name, &[]).configured(&own, port), process })
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
        Ok(running.helped_by(helper))
    }

    /// The payload's first octet is one more, if that is not the stamp's; the headers are the channel's.
    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        let headers = 14 + IP_UDP;
        let (Some(before), Some(after)) = (sent.get(headers..), arrived.get(headers..)) else {
            return Err(format!("{} octets came out", arrived.len()));
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
    fn new(
        name: &'static str,
        port: &str,
        programs: &'a Programs,
        kernel: &'a KernelPrograms,
        object: &Path,
        polls: bool,
    ) -> Result<Gateways<'a>, Error> {
        let plain = match name {
            "xdp" => Plain::Xdp(kernel),
            _ => Plain::Packet(PlainC::new(programs, PLAIN, 0)),
        };
        let mut active =
            vec![Active::new(OBJECT, port, object, false, 0)?, Active::new(PROCESS, port, object, true, 0)?];
        if polls {
            active.push(Active::new(POLLING, port, object, true, POLL_US)?);
        }
        Ok(Gateways { name, programs, plain, active })
    }

    fn all(&self) -> Vec<&dyn Gateway> {
        let active = self.active.iter().map(|active| active as &dyn Gateway);
        std::iter::once(&self.plain as &dyn Gateway).chain(active).collect()
    }

    fn place(&self, cpus: Cpus) -> Result<Place, Error> {
        let mut place = Place::packet(self.programs, cpus)?;
        place.site.port = IN_PORT;
        Ok(place)
    }

    fn measure(&self, settings: &Settings, report: &mut Report) -> Result<Series, Error> {
        let sizes: &[usize] = if settings.quick { &QUICK_SIZES } else { &SIZES };
        let make = || self.place(settings.cpus());
        let bursts: Vec<Load> = sizes.iter().map(|size| Load::new(BURST, payload(*size))).collect();
        let regime = format!("active, {}", self.name);
        let mut all = compare(settings, &regime, &self.all(), &bursts, &make)?;
        let single: Vec<Load> =
            sizes.iter().map(|size| Load { parts: PARTS, ..Load::new(1, payload(*size)) }).collect();
        all.extend(compare(settings, &regime, &self.all()[1..], &single, &make)?);
        for size in sizes {
            all.extend(self.throughput(settings, *size)?);
        }
        self.judge(&all, sizes[0], report);
        Ok(all)
    }

    fn judge(&self, all: &Series, smallest: usize, report: &mut Report) {
        let of = |variant: &str, metric: &str| {
            let keys = all.keys().filter(|key| key.variant == variant && key.metric == metric);
            keys.cloned().collect::<Vec<Key>>()
        };
        let about = |key: &Key| format!("{}, {} B", key.regime, key.size.unwrap_or_default());
        for key in of(PLAIN, GATEWAY_CPU) {
            let ratios = all.ratios(&key, OBJECT, PLAIN);
            let name = format!("{}: {OBJECT} / {PLAIN}", about(&key));
            report.targets.extend(Target::at_most(name, &ratios, PLAIN_RATIO));
        }
        for key in of(PLAIN, GATEWAY_CPU) {
            let ratios = all.ratios(&key, PROCESS, OBJECT);
            let name = format!("{}: {PROCESS} / {OBJECT}", about(&key));
            report.targets.extend(Target::at_most(name, &ratios, PROCESS_RATIO));
        }
        let small = ip_length(&payload(smallest));
        let alone = |key: &Key| key.size == Some(small) && key.regime.contains("bursts of 1");
        for key in of(OBJECT, BURST_TIME).into_iter().filter(alone) {
            for (variant, limit) in [(PROCESS, ADDED_US), (POLLING, ADDED_POLLING_US)] {
                let name = format!("{}: µs that it takes longer, {variant}", about(&key));
                report.targets.extend(Target::at_most(name, &difference(all, &key, variant), limit));
            }
        }
    }

    /// The highest rate at which nothing is lost, of each gateway in every round.
    fn throughput(&self, settings: &Settings, size: usize) -> Result<Series, Error> {
        let apart = Settings { two_cpus: true, ..settings.clone() }.cpus();
        let mut series = Series::default();
        let regime = format!("active, {}, RFC 2544", self.name);
        let mut places = self.all().iter().map(|_| self.place(apart)).collect::<Result<Vec<Place>, Error>>()?;
        settings.rounds(&regime, |_| {
            places.rotate_left(1);
            for (gateway, place) in self.all().into_iter().zip(&mut places) {
                let mut running = gateway.start(&place.site)?;
                let packet = place.site.dress(&payload(size));
                place.generator.load(BURST, &[packet])?;
                if !running.wait_until_warm(place)? {
                    return Err(running.silent(gateway.name()));
                }
                let rate = search(|pps| place.generator.pace(pps, TRIAL_MS))?;
                let key = Key {
                    variant: gateway.name().into(),
                    size: Some(ip_length(&payload(size))),
                    regime: regime.clone(),
                    metric: THROUGHPUT,
                    unit: "packets/s",
                };
                series.push(key, f64::from(rate));
            }
            Ok(())
        })?;
        Ok(series)
    }
}

/// Octets that look like nothing in particular.
fn payload(size: usize) -> Vec<u8> {
    (0..size).map(|at| at as u8).collect()
}

/// What a variant takes longer than the one of `key`, round by round.
fn difference(all: &Series, key: &Key, variant: &str) -> Vec<f64> {
    let longer = all.values(&Key { variant: variant.into(), ..key.clone() });
    longer.iter().zip(all.values(key)).map(|(longer, shorter)| longer - shorter).collect()
}

/// The highest rate for which `trial` says that all arrived. What the generator cannot offer counts as too much.
fn search(mut trial: impl FnMut(u32) -> Result<bool, Error>) -> Result<u32, Error> {
    let (mut low, mut high) = (0, RATE_FIRST);
    while high < RATE_MOST && trial(high)? {
        (low, high) = (high, high * 2);
    }
    while high - low > 1 && f64::from(high - low) > RATE_STEP * f64::from(high) {
        let middle = low + (high - low) / 2;
        match trial(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_the_highest_rate_without_loss() {
        for limit in [0, 9_000, 10_000, 123_456, 3_000_000, u32::MAX] {
            let found = search(|rate| Ok(rate <= limit)).unwrap();
            let least = f64::from(limit.min(RATE_MOST)) * (1.0 - 2.0 * RATE_STEP);
            assert!(found <= limit && (f64::from(found) >= least || limit < RATE_FIRST / 20), "{found} of {limit}");
        }
    }

    #[test]
    fn a_payload_that_was_not_touched_is_noticed() {
        let active = Active::new(OBJECT, "", "/x/activeee.so".as_ref(), false, 0).unwrap();
        assert_eq!(active.node.refusal(), None);
        let mut sent = vec![0; 14 + IP_UDP + 8];
        let mut arrived = sent.clone();
        arrived[36..38].copy_from_slice(&OUT_PORT.to_be_bytes());
        assert!(active.check(&sent, &arrived).is_err());
        sent[14 + IP_UDP] = 0xff;
        assert_eq!(active.check(&sent, &arrived), Ok(()));
    }
}
