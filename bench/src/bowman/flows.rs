//! A-flows: what a packet costs that one computes on, beside one that is cut through and a forwarder in plain C. And what many of them
//! cost beside few. They are figures 5 and 6 of Bowman's paper.
//!
//! ```text
//! generator ─▶ AF_XDP ─▶ channel of an a-flow ─▶ its function ─▶ its channel out ─▶ AF_XDP ─▶ sink
//!                    └─▶ cut-through of UDP, user half ──────────────────────────────┘
//! ```
//!
//! The a-flow (`bench/c/flowee.c`) runs in the node's process and sends on what it gets. Packets come in bursts that no queue loses.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::compile::{KernelPrograms, Programs, environment};
use super::super::gateway::{GATEWAY_CPU, Gateway, Load, Running, compare};
use super::super::line::{EGRESS, INGRESS, IP_UDP};
use super::super::node::NodeGateway;
use super::super::place::{Place, Scratch, Site, ip_length};
use super::super::plain::Plain;
use super::super::report::Report;
use super::super::series::{Key, Series, Target};
use super::super::settings::ROUNDS_MIN;
use super::super::{Error, Settings};

/// Bytes of IP packets, as in the figures.
const SIZES: [usize; 6] = [100, 200, 400, 800, 1428, 1500];
const QUICK_SIZES: [usize; 2] = [100, 1428];
const BURST: u32 = 64;

/// A-flows, few and many.
const FEW: u32 = 10;
const MANY: u32 = 100_000;
const QUICK_MANY: u32 = 1_000;
/// For how long so many may take to begin.
const BEGINNING: Duration = Duration::from_secs(180);

/// The port that packets are for, the first of several.
const PORT: u16 = 5000;

const REGIME: &str = "figures 5 and 6, AF_XDP";
const CROWD_REGIME: &str = "many a-flows, AF_XDP";
pub(super) const FLOW: &str = "an a-flow";
const CUT: &str = "UDP cut-through, user half";

/// Targets: an a-flow over a cut-through; many over few.
const FLOW_RATIO: f64 = 1.15;
const CROWD_RATIO: f64 = 3.0;

/// A role for a cut-through channel, and one for a-flows: no bound is in the way.
const CUT_ROLE: &str = "[[role]]\nname = \"cut\"\n\
                        limits = { packets_per_second = 1_000_000_000, steps_per_second = 1_000_000_000_000 }\n\
                        grants = { channels = 4, bandwidth = 100_000_000_000 }";
const FLOWS_ROLE: &str = "[[role]]\nname = \"flows\"\nrepresentations = [\"native\"]\n[role.limits]\n\
                          packets_per_second = 1_000_000_000\nsteps_per_second = 1_000_000_000_000\n[role.grants]\n\
                          channels = 4\ndomains = 131_000\nevents = 4\nbandwidth = 100_000_000_000\n\
                          memory_bytes = 1_073_741_824\n";

/// What others are compared with.
pub(super) const BASELINES: &[&str] = &[CUT, super::super::capsules::PLAIN];

/// A node with a-flows.
struct Flows {
    node: NodeGateway<'static>,
    count: u32,
}

impl Flows {
    fn new(name: &'static str, count: u32, object: &Path) -> Flows {
        let node = NodeGateway::new(name, &[]).configured(&with_flows(count, PORT, object), "xdp = true");
        Flows { node, count }
    }
}

/// The configuration of a node with so many a-flows, of which the first has packets from and to this port.
pub(super) fn with_flows(count: u32, port: u16, object: &Path) -> String {
    let words = [
        object.to_string_lossy().into_owned(),
        "flows".into(),
        count.to_string(),
        "if0/ip/udp".into(),
        INGRESS.peer.to_string(),
        EGRESS.peer.to_string(),
        port.to_string(),
        "if1/ip/udp".into(),
        "*:6000 -> *:*".into(),
    ];
    format!("{FLOWS_ROLE}[[ee]]\nname = \"flows\"\nrole = \"flows\"\nrestart = \"never\"\nlibrary = {words:?}\n")
}

/// Compiles the environment with the a-flows.
pub(super) fn object(scratch: &Scratch) -> Result<std::path::PathBuf, Error> {
    environment(scratch.path(), "flowee", include_str!("../../c/flowee.c"))
}

impl Gateway for Flows {
    fn name(&self) -> &str {
        self.node.title()
    }

    fn start(&self, site: &Site) -> Result<Running, Error> {
        let mut running = self.node.start(site)?;
        let limit = Instant::now() + BEGINNING;
        while !running.has_said("all a-flows are there") {
            if running.has_ended() || running.has_said("environment has ended") || Instant::now() > limit {
                return Err(running.silent(self.name()));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    fn flows(&self) -> Option<u32> {
        Some(self.count)
    }

    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        passed_on(sent, arrived)
    }
}

/// A node whose channel leads through it.
struct Cut(NodeGateway<'static>);

impl Gateway for Cut {
    fn name(&self) -> &str {
        self.0.title()
    }

    fn start(&self, site: &Site) -> Result<Running, Error> {
        self.0.start(site)
    }

    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        passed_on(sent, arrived)
    }
}

/// Whether receiver and payload are the sender's; the last four bytes are the stamp.
fn passed_on(sent: &[u8], arrived: &[u8]) -> Result<(), String> {
    let (headers, end) = (14 + IP_UDP, sent.len() - 4);
    let is_same = |range: std::ops::Range<usize>| arrived.get(range.clone()) == sent.get(range);
    match arrived.len() == sent.len() && is_same(30..34) && is_same(headers..end) {
        true => Ok(()),
        false => Err(format!("{arrived:02x?} came out of {sent:02x?}")),
    }
}

/// Measures it, and gives targets.
pub(super) fn run(settings: &Settings, report: &mut Report) -> Result<Series, Error> {
    let programs = Programs::ready()?;
    let kernel = programs.kernel()?;
    let scratch = Scratch::new()?;
    let object = object(&scratch)?;
    match measure(settings, &programs, &kernel, &object) {
        Ok(all) => {
            judge(&all, settings.quick, report);
            report.note(
                "A-flows run in the node's process and send on what they get, through AF_XDP sockets in copy mode at veth \
                 interfaces; with many, bursts meet each in turn.",
            );
            Ok(all)
        }
        Err(Error::NoNamespace) => {
            report.note(format!("SKIPPED a-flows: {}.", Error::NoNamespace));
            Ok(Series::default())
        }
        Err(error) => Err(error),
    }
}

fn measure(settings: &Settings, programs: &Programs, kernel: &KernelPrograms, object: &Path) -> Result<Series, Error> {
    let make = || {
        let mut place = Place::packet(programs, settings.cpus())?;
        place.site.port = PORT;
        Ok(place)
    };
    let plain = Plain::Xdp(kernel);
    let cut = Cut(NodeGateway::new(CUT, &[])
        .configured(CUT_ROLE, "xdp = true")
        .cut("if0/ip/udp *:5000", "if1/ip/udp *:6000 -> *:*"));
    let flow = Flows::new(FLOW, 1, object);
    let mut all = compare(settings, REGIME, &[&plain, &cut, &flow], &loads(settings.quick), &make)?;
    let many = if settings.quick { QUICK_MANY } else { MANY };
    let (few, many) = (Flows::new(crowd(FEW), FEW, object), Flows::new(crowd(many), many, object));
    let load = [Load::new(BURST, payload(SIZES[0]))];
    all.extend(compare(&settings.at_most(ROUNDS_MIN), CROWD_REGIME, &[&few, &many], &load, &make)?);
    Ok(all)
}

fn crowd(count: u32) -> &'static str {
    match count {
        FEW => "10 a-flows",
        QUICK_MANY => "1,000 a-flows",
        _ => "100,000 a-flows",
    }
}

fn payload(size: usize) -> Vec<u8> {
    vec![0x5a; size - IP_UDP]
}

fn loads(quick: bool) -> Vec<Load> {
    let sizes: &[usize] = if quick { &QUICK_SIZES } else { &SIZES };
    sizes.iter().map(|size| Load::new(BURST, payload(*size))).collect()
}

fn judge(all: &Series, quick: bool, report: &mut Report) {
    let key = |regime: &str, size: usize| Key {
        variant: String::new(),
        size: Some(ip_length(&payload(size))),
        regime: format!("{regime}, bursts of {BURST}"),
        metric: GATEWAY_CPU,
        unit: "ns",
    };
    let sizes: &[usize] = if quick { &QUICK_SIZES } else { &SIZES };
    for size in sizes {
        let ratios = all.ratios(&key(REGIME, *size), FLOW, CUT);
        let name = format!("{REGIME}: {FLOW} / {CUT}, {size} bytes");
        report.targets.extend(Target::at_most(name, &ratios, FLOW_RATIO));
    }
    let many = crowd(if quick { QUICK_MANY } else { MANY });
    let ratios = all.ratios(&key(CROWD_REGIME, SIZES[0]), many, crowd(FEW));
    report.targets.extend(Target::at_most(format!("{many} / {}", crowd(FEW)), &ratios, CROWD_RATIO));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_are_configured_as_a_node_reads_it() {
        let object = Path::new("/tmp/flowee.so");
        for flows in [Flows::new(FLOW, 1, object), Flows::new(crowd(MANY), MANY, object)] {
            assert_eq!(flows.node.refusal(), None);
        }
    }

    #[test]
    fn an_a_flow_is_judged_beside_a_cut_through() {
        let (mut series, mut report) = (Series::default(), Report::new("bowman", 1));
        for _ in 0..5 {
            for (variant, value) in [(CUT, 100.0), (FLOW, 120.0)] {
                let regime = format!("{REGIME}, bursts of {BURST}");
                let key = Key { variant: variant.into(), size: Some(100), regime, metric: GATEWAY_CPU, unit: "ns" };
                series.push(key, value);
            }
        }
        judge(&series, true, &mut report);
        assert_eq!(report.targets.iter().map(|target| target.met).collect::<Vec<_>>(), [false]);
    }
}
