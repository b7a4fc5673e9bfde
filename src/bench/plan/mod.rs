//! `anode bench plan`: what packets that are programs cost, after the papers' measurements of PLAN.
//!
//! [`micro`] takes the ping packet apart without I/O, and times the checker; the gateways compare a node that routes PLAN packets with
//! programs in C that forward unread, by CPU per packet, over UDP sockets and, with root, over AF_PACKET.

mod micro;

use super::compile::Programs;
use super::gateway::{GATEWAY_CPU, Gateway, Load, PlainC, SHARE, SHARE_UNIT, compare};
use super::line::{EGRESS, INGRESS};
use super::node::NodeGateway;
use super::place::Place;
use super::report::Report;
use super::series::{Key, Series, Target};
use super::{Error, Settings};
use crate::apps::plan::Script;
use crate::wire::{Addr, anep};
use plan::packet::{Header, Packet};
use plan::value::{Host, Value};
use std::net::IpAddr;

const PLAIN: &str = "plain C";
const ROUTER: &str = "PLAN router";

/// A node that routes, over plain C: CPU per packet.
const ROUTER_RATIO: f64 = 1.3;
/// Evaluating the ping packet, in nanoseconds.
const PING_NS: f64 = 1000.0;
/// Parsing and checking 200 lines, in nanoseconds.
const CHECK_NS: f64 = 2e6;

/// Octets of ANEP, UDP and IP headers around a packet.
const AROUND: usize = 8 + 8 + 20;

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let programs = Programs::ready()?;
    let micro = micro::run(settings)?;
    let values = |variant: &str| micro.values(&micro::key(variant)).to_vec();
    report.targets.extend(Target::at_most("the ping packet, evaluated, ns", &values(micro::PING), PING_NS));
    report.targets.extend(Target::at_most("200 lines parsed and checked, ns", &values(micro::CHECK), CHECK_NS));
    let mut all = micro;
    let node = NodeGateway::new(ROUTER, &[]).forwards_plan();
    let plain = PlainC::new(&programs, PLAIN, 0);
    let gateways: [&dyn Gateway; 2] = [&plain, &node];
    let sizes: &[usize] = if settings.quick { &[256, 750] } else { &[256, 750, 1400] };
    let loads = sizes.iter().map(|length| Ok(Load::new(128, packet(*length)?)));
    let loads = loads.collect::<Result<Vec<Load>, Error>>()?;
    let cpus = settings.cpus();
    let udp = compare(settings, "udp", &gateways, &loads, &|| Place::udp(&programs, cpus))?;
    judge(&udp, report);
    all.extend(udp);
    match compare(settings, "packet", &gateways, &loads, &|| Place::packet(&programs, cpus)) {
        Ok(packet) => {
            judge(&packet, report);
            all.extend(packet);
        }
        Err(Error::NoNamespace) => report.note(format!("SKIPPED packet: {}.", Error::NoNamespace)),
        Err(error) => return Err(error),
    }
    report.rows = all.rows(&[PLAIN, micro::FRAME]);
    report.note("Routed packets carry their code whole: the generator is no node and does not learn that it need not.");
    Ok(())
}

fn judge(series: &Series, report: &mut Report) {
    let of_plain = |key: &&Key| key.variant == PLAIN && key.metric == GATEWAY_CPU;
    for key in series.keys().filter(of_plain) {
        let place = format!("{}, {} B", key.regime, key.size.unwrap_or_default());
        let name = format!("{place}: {ROUTER} / {PLAIN}");
        report.targets.extend(Target::at_most(name, &series.ratios(key, ROUTER, PLAIN), ROUTER_RATIO));
        let share = Key { variant: ROUTER.into(), metric: SHARE, unit: SHARE_UNIT, ..key.clone() };
        report.targets.extend(Target::at_least(format!("{place}: share routed"), series.values(&share), 1.0));
    }
}

/// An ANEP packet with a PLAN packet from one end of the line to the other, in an IP packet of this length. Its last octets are a
/// blob's.
fn packet(ip_length: usize) -> Result<Vec<u8>, Error> {
    let failed = || Error::Guest("the PLAN packet cannot be made".into());
    let source = "fun there(load : blob) : unit = ()";
    let script = Script::new("there", source).map_err(Error::Guest)?;
    let host = |address| Host(Addr::from(IpAddr::V4(address)).0);
    let header = Header { destination: host(EGRESS.peer), ..Header::injected(host(INGRESS.peer), 1000) };
    let with = |load: usize| {
        let chunk = script.chunk("there", [Value::Blob(vec![0x5a; load].into())])?;
        Packet { header: header.clone(), chunk }.octets()
    };
    let length = ip_length - AROUND;
    // The length of the blob's length may change with it.
    let empty = with(0).ok_or_else(failed)?.len();
    let load =
        (length.saturating_sub(empty + 2)..=length).find(|load| with(*load).is_some_and(|it| it.len() == length));
    let message = load.and_then(with).ok_or_else(failed)?;
    let mut bytes = vec![0; anep::HEADER];
    anep::emit_basic(&mut bytes, anep::type_id::PLAN, message.len()).map_err(|_| failed())?;
    bytes.extend_from_slice(&message);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_the_length_asked_for_and_end_in_a_blob() {
        for length in [256, 300, 750, 1400] {
            let packet = packet(length).unwrap();
            assert_eq!(packet.len() + 28, length);
            assert_eq!(packet[packet.len() - 4..], [0x5a; 4]);
        }
    }
}
