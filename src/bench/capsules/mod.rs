//! `anode bench capsules`: what a wasm capsule costs beside plain forwarding in C, and what a node costs that waits for one.
//!
//! Gateways come first, since they are what users see: a whole `anode node run` process in which a capsule's code forwards every
//! packet, against C programs that forward unread ([`super::gateway`]). [`micro`] takes the same work apart without I/O, [`load`] measures
//! how code gets ready, [`simulator`] how many packet-hops a core simulates. The capsule is `forward.c`, the smallest there is: all that is
//! measured is the node's. The targets are those of the active overhead in PAN, set for this machine's plain C.

mod load;
mod micro;
mod process;
mod simulator;

use super::compile::Programs;
use super::gateway::{GATEWAY_CPU, Gateway, Load, PlainC, compare};
use super::guests::Guests;
use super::micro::COST;
use super::node::NodeGateway;
use super::place::Place;
use super::report::Report;
use super::series::{Key, Series, Target};
use super::{Error, Settings};

const PLAIN: &str = "plain C";
const NODE: &str = "wasm capsule";

/// Targets of the two gateways: node over plain C, gateway CPU per packet.
const UDP_RATIO: f64 = 1.15;
const PACKET_RATIO: f64 = 1.20;
/// Target of the micro-benchmark, in nanoseconds.
const WARM_NS: f64 = 150.0;

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let programs = Programs::ready()?;
    let guests = Guests::build()?;
    let micro = micro::run(settings, &guests)?;
    report.targets.extend(Target::at_most("one warm wasm capsule, ns", micro.values(&micro::whole()), WARM_NS));
    let mut all = micro;
    gateways(settings, &programs, &guests, report, &mut all)?;
    all.extend(simulator::run(settings, &guests)?);
    let hops = all.values(&simulator::key()).to_vec();
    report.targets.extend(Target::at_least("simulator, packet-hops/s on one core", &hops, simulator::HOPS));
    all.extend(load::run(settings, &programs)?);
    load::judge(&all, report);
    report.rows = all.rows(&[PLAIN, micro::FRAME]);
    let class = programs.scheduling_class();
    let cpus = if settings.two_cpus { "two CPUs" } else { "one CPU" };
    report.note(format!("Generator and gateway ran under {class} on {cpus}; gateway CPU excludes generator and sink."));
    report.note(format!("{COST} of the micro-benchmark includes refilling the frame, which is a row of its own."));
    Ok(())
}

/// The node beside plain C, over UDP sockets and, with root, over AF_PACKET.
fn gateways(
    settings: &Settings,
    programs: &Programs,
    guests: &Guests,
    report: &mut Report,
    all: &mut Series,
) -> Result<(), Error> {
    let cpus = settings.cpus();
    let (plain, node) = (PlainC::new(programs, PLAIN, 0), NodeGateway::new(NODE, &guests.forward));
    let gateways: [&dyn Gateway; 2] = [&plain, &node];
    let loads = loads(settings.quick, guests);
    let udp = compare(settings, "udp", &gateways, &loads, &|| Place::udp(programs, cpus))?;
    judge(&udp, UDP_RATIO, report);
    all.extend(udp);
    match compare(settings, "packet", &gateways, &loads, &|| Place::packet(programs, cpus)) {
        Ok(packet) => {
            judge(&packet, PACKET_RATIO, report);
            all.extend(packet);
        }
        Err(Error::NoNamespace) => report.note(format!("SKIPPED packet: {}.", Error::NoNamespace)),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Three sizes in bursts, and the smallest in shorter ones and alone.
fn loads(quick: bool, guests: &Guests) -> Vec<Load> {
    let load = |burst, ip_length| Load { burst, payload: guests.packet(ip_length) };
    if quick {
        vec![load(128, 128), load(128, 1400)]
    } else {
        vec![load(128, 128), load(128, 512), load(128, 1400), load(16, 128), load(1, 128)]
    }
}

/// A target for each circumstance in which node and plain C were compared.
fn judge(series: &Series, limit: f64, report: &mut Report) {
    let of_plain = |key: &&Key| key.variant == PLAIN && key.metric == GATEWAY_CPU;
    for key in series.keys().filter(of_plain) {
        let name = format!("{}, {} B: {NODE} / {PLAIN}", key.regime, key.size.unwrap_or_default());
        report.targets.extend(Target::at_most(name, &series.ratios(key, NODE, PLAIN), limit));
    }
}
