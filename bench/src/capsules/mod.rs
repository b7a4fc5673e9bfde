//! `anode bench capsules`: the cost of a wasm capsule beside plain forwarding in C, and of a node that waits for one.
//!
//! Gateways come first, since they are what users see: a whole `anode node run` process in which a capsule's code forwards every
//! packet, against C programs that forward unread ([`super::gateway`]). [`micro`] takes the same work apart without I/O, [`load`] measures
//! how code gets ready, [`simulator`] how many packet-hops a core simulates. The capsule is `forward.c`, the smallest there is: all that is
//! measured is the node's. The targets are those of the active overhead in PAN, set for this machine's plain C.

mod load;
pub(super) mod micro;
pub(super) mod process;
mod simulator;

use super::compile::Programs;
use super::gateway::{GATEWAY_CPU, Gateway, Load, compare};
use super::guests::Guests;
use super::micro::COST;
use super::node::NodeGateway;
use super::place::Place;
use super::plain::PlainC;
use super::report::Report;
use super::series::{Key, Series, Target};
use super::{Error, Settings};

/// The baseline's name.
pub(super) const PLAIN: &str = "plain C";
pub(super) const NODE: &str = "wasm capsule";
/// The same node with packets that run when they come: what queues and shares cost is the difference.
const FIFO: &str = "wasm capsule, fifo";

/// Packets that go to another next hop than the one before: runs for one socket address are packets then.
const ALTERNATING: &str = "udp, two next hops in turn";

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
    all.extend(gateways(settings, &programs, &guests, &loads(settings.quick), report)?);
    all.extend(simulator::run(settings, &guests)?);
    let hops = all.values(&simulator::key()).to_vec();
    report.targets.extend(Target::at_least("simulator, packet-hops/s on one core", &hops, simulator::HOPS));
    all.extend(micro::proved::run(settings, &guests)?);
    all.extend(load::run(settings, &programs)?);
    load::judge(&all, report);
    report.rows = all.rows(&[PLAIN, micro::FRAME, micro::proved::BARE]);
    let class = programs.scheduling_class();
    let cpus = if settings.two_cpus { "two CPUs" } else { "one CPU" };
    report.note(format!("Generator and gateway ran under {class} on {cpus}; gateway CPU excludes generator and sink."));
    report.note(format!("{COST} of the micro-benchmark includes refilling the frame, which is a row of its own."));
    Ok(())
}

/// The node beside plain C, over UDP sockets and, with root, over AF_PACKET, with IP packets of these sizes in bursts of these lengths.
pub(super) fn gateways(
    settings: &Settings,
    programs: &Programs,
    guests: &Guests,
    loads: &[(u32, usize)],
    report: &mut Report,
) -> Result<Series, Error> {
    let cpus = settings.cpus();
    let node = NodeGateway::new(NODE, std::slice::from_ref(&guests.forward));
    let fifo = NodeGateway::new(FIFO, std::slice::from_ref(&guests.forward));
    let fifo = fifo.configured("[cpu]\nscheduler = \"fifo\"\n", "");
    let plain = PlainC::new(programs, PLAIN, 0);
    let gateways: [&dyn Gateway; 3] = [&plain, &node, &fifo];
    let alternating = [to_two(guests, loads.first().copied().unwrap_or((128, 128)))];
    let load = |(burst, ip_length): &(u32, usize)| Load::new(*burst, guests.packet(*ip_length));
    let loads: Vec<Load> = loads.iter().map(load).collect();
    let mut all = compare(settings, "udp", &gateways, &loads, &|| Place::udp(programs, cpus))?;
    all.extend(compare(settings, ALTERNATING, &gateways, &alternating, &|| Place::udp_with_two(programs, cpus))?);
    judge(&all, UDP_RATIO, report);
    match compare(settings, "packet", &gateways, &loads, &|| Place::packet(programs, cpus)) {
        Ok(packet) => {
            judge(&packet, PACKET_RATIO, report);
            all.extend(packet);
        }
        Err(Error::NoNamespace) => report.note(format!("SKIPPED packet: {}.", Error::NoNamespace)),
        Err(error) => return Err(error),
    }
    Ok(all)
}

/// Bursts of capsules to two next hops in turn.
fn to_two(guests: &Guests, (burst, ip_length): (u32, usize)) -> Load {
    let other = Some(guests.packet_to_other(ip_length));
    Load { other, ..Load::new(burst, guests.packet(ip_length)) }
}

/// Three sizes in bursts, and the smallest in shorter ones and alone: burst and bytes of the IP packet.
fn loads(quick: bool) -> Vec<(u32, usize)> {
    if quick { vec![(128, 128), (128, 1400)] } else { vec![(128, 128), (128, 512), (128, 1400), (16, 128), (1, 128)] }
}

/// A target for each circumstance in which node and plain C were compared.
pub(super) fn judge(series: &Series, limit: f64, report: &mut Report) {
    let of_plain = |key: &&Key| key.variant == PLAIN && key.metric == GATEWAY_CPU;
    for key in series.keys().filter(of_plain) {
        let name = format!("{}, {} B: {NODE} / {PLAIN}", key.regime, key.size.unwrap_or_default());
        report.targets.extend(Target::at_most(name, &series.ratios(key, NODE, PLAIN), limit));
    }
}

#[cfg(test)]
mod tests {
    use super::super::gateway::SHARE;
    use super::*;

    #[test]
    fn plain_c_sends_to_two_next_hops_in_turn() {
        let programs = Programs::ready().unwrap();
        let load = to_two(&Guests::build().unwrap(), (128, 128));
        assert_ne!(load.other.as_ref(), Some(&load.payload));
        let settings = Settings::quiet(1);
        let make = || Place::udp_with_two(&programs, settings.cpus());
        let series = compare(&settings, ALTERNATING, &[&PlainC::new(&programs, PLAIN, 0)], &[load], &make).unwrap();
        let rows = series.rows(&[]);
        let share = rows.iter().find(|row| row.metric == SHARE).unwrap();
        assert_eq!((share.summary.min, share.regime.as_str()), (1.0, "udp, two next hops in turn, bursts of 128"));
    }
}
