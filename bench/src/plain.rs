//! Forwarders in plain C, with which gateways are compared: over sockets of datagrams, of frames, or AF_XDP.

use std::ffi::OsString;

use super::Error;
use super::capsules::PLAIN;
use super::compile::{KernelPrograms, Programs};
use super::gateway::{Gateway, LAST_OF_DESTINATION, Running};
use super::place::{Site, Way};

/// The plain C gateways: `udpgw` or `packetgw`, whichever fits the place.
#[derive(Debug)]
pub(crate) struct PlainC<'a> {
    programs: &'a Programs,
    name: String,
    burn_ns: u32,
}

impl<'a> PlainC<'a> {
    /// The gateway under a name; `burn_ns` nanoseconds of idle work are added to each packet.
    pub(crate) fn new(programs: &'a Programs, name: &str, burn_ns: u32) -> PlainC<'a> {
        PlainC { programs, name: name.into(), burn_ns }
    }
}

impl Gateway for PlainC<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&self, site: &Site) -> Result<Running, Error> {
        let words = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<OsString>>();
        let burn = self.burn_ns.to_string();
        match &site.way {
            Way::Udp { listen, next, other, .. } => {
                let mut list = vec![listen.to_string(), next.to_string(), burn];
                if let Some(other) = other {
                    list.extend([LAST_OF_DESTINATION.to_string(), other.to_string()]);
                }
                site.spawn(&self.programs.udpgw, &words(&list.iter().map(String::as_str).collect::<Vec<_>>()))
            }
            Way::Packet { ingress, egress } => {
                let list = [ingress.interface, egress.interface, egress.mac, egress.peer_mac, &burn];
                site.spawn(&self.programs.packetgw, &words(&list))
            }
        }
    }

    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        unchanged(sent, arrived)
    }
}

/// Whether a packet came out as it went in.
pub(crate) fn unchanged(sent: &[u8], arrived: &[u8]) -> Result<(), String> {
    // The stamp in the last four bytes differs; in a frame, the MAC addresses, the hop limit and its checksum do too.
    let kept = if sent.len() >= 42 && sent[12..15] == [8, 0, 0x45] { 26 } else { 0 };
    let end = sent.len() - 4;
    if arrived.len() == sent.len() && arrived[kept..end] == sent[kept..end] {
        Ok(())
    } else {
        Err("the payload was changed on the way".into())
    }
}

/// Plain C that forwards, over either kind of port.
pub(crate) enum Plain<'a> {
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
