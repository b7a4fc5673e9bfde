//! The rungs between driver and user space: a capsule over AF_XDP, as wasm and as trusted native code, beside an AF_XDP
//! forwarder in plain C.
//!
//! Both are in copy mode, since veth knows no other, and have one memory for both interfaces. The C program forwards a frame
//! from where it was received into (`bench/c/xdpgw.c`).

use std::ffi::OsString;

use super::super::capsules::{NODE, PLAIN, judge};
use super::super::compile::{KernelPrograms, Programs};
use super::super::gateway::{Gateway, Load, Running, compare};
use super::super::guests::{Guests, with_native_role};
use super::super::node::NodeGateway;
use super::super::place::{Place, Site, Way};
use super::super::plain::unchanged;
use super::super::report::Report;
use super::super::series::Series;
use super::super::{Error, Settings};

/// Target: node over plain C, gateway CPU per packet.
const RATIO: f64 = 1.15;

/// The capsule as native code, in a role that permits it.
pub(super) const NATIVE: &str = "native capsule";

/// Measures this rung, with IP packets of these sizes in bursts of these lengths.
pub(super) fn run(
    settings: &Settings,
    programs: &Programs,
    kernel: &KernelPrograms,
    guests: &Guests,
    loads: &[(u32, usize)],
    report: &mut Report,
) -> Result<Series, Error> {
    let cpus = settings.cpus();
    let codes = std::slice::from_ref(&guests.forward);
    let node = NodeGateway::new(NODE, codes).configured("", "xdp = true");
    let native = std::slice::from_ref(&guests.native);
    let native = NodeGateway::new(NATIVE, native).configured(&with_native_role(), "xdp = true");
    let gateways: [&dyn Gateway; 3] = [&PlainXdp { kernel }, &node, &native];
    let load = |(burst, ip_length): &(u32, usize)| Load::new(*burst, guests.packet(*ip_length));
    let loads: Vec<Load> = loads.iter().map(load).collect();
    match compare(settings, "xdp", &gateways, &loads, &|| Place::packet(programs, cpus)) {
        Ok(series) => {
            judge(&series, RATIO, report);
            Ok(series)
        }
        Err(Error::NoNamespace) => {
            report.note(format!("SKIPPED xdp: {}.", Error::NoNamespace));
            Ok(Series::default())
        }
        Err(error) => Err(error),
    }
}

/// The plain AF_XDP forwarder.
struct PlainXdp<'a> {
    kernel: &'a KernelPrograms,
}

impl Gateway for PlainXdp<'_> {
    fn name(&self) -> &str {
        PLAIN
    }

    fn start(&self, site: &Site) -> Result<Running, Error> {
        let Way::Packet { ingress, egress } = &site.way else {
            return Err(Error::Protocol("AF_XDP needs interfaces".into()));
        };
        let arguments = [ingress.interface, egress.interface, egress.mac, egress.peer_mac].map(OsString::from);
        site.spawn(&self.kernel.xdpgw, &arguments)
    }

    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        unchanged(sent, arrived)
    }
}
