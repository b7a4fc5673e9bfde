//! A node as a gateway: `anode node run`, configured for the place it stands in, with the capsule's code in its store.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::super::Error;
use super::super::gateway::{Gateway, Running};
use super::super::place::{EGRESS, INGRESS, Place, Side, Way};
use super::process::{Up, program};
use crate::code::bundle::Bundle;
use crate::wire::{Addr, anep, capsule};

/// Octets of Ethernet, IPv4 and UDP headers.
const FRAME_HEADERS: usize = 42;

/// The whole node process.
pub(super) struct NodeGateway<'a> {
    name: &'static str,
    bundle: &'a Bundle,
}

impl<'a> NodeGateway<'a> {
    /// A node that knows this code.
    pub(super) fn new(name: &'static str, bundle: &'a Bundle) -> NodeGateway<'a> {
        NodeGateway { name, bundle }
    }
}

impl Gateway for NodeGateway<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn start(&self, place: &Place) -> Result<Running, Error> {
        let dir = place.scratch.path().join("run");
        let config = place.scratch.path().join("node.toml");
        let text = match &place.way {
            Way::Udp { listen, previous, next } => overlay(&dir, *listen, *previous, *next),
            Way::Packet { ingress, egress } => native(&dir, ingress, egress),
        };
        std::fs::write(&config, text).map_err(|cause| Error::Write { path: config.clone(), cause })?;
        let running = place.spawn(&program()?, &["node".into(), "run".into(), config.into()])?;
        Up::wait(&dir)?.add(self.bundle)?;
        Ok(running)
    }

    /// A hop spends one of the bound and enters itself as the previous node; natively the hop limit goes down too.
    fn check(&self, sent: &[u8], arrived: &[u8]) -> Result<(), String> {
        let at = if sent.len() >= FRAME_HEADERS && sent[12..14] == [8, 0] { FRAME_HEADERS } else { 0 };
        let parse = |bytes: &[u8]| {
            let anep = anep::Packet::new_checked(&bytes[at..]).map_err(|error| error.to_string())?;
            capsule::Header::parse(anep.payload()).map_err(|error| error.to_string())
        };
        if sent.len() != arrived.len() {
            return Err(format!("{} octets came out of {}", arrived.len(), sent.len()));
        }
        let (before, after) = (parse(sent)?, parse(arrived)?);
        let own = Addr::from(IpAddr::V4(EGRESS.address));
        let expected = capsule::Header { bound: before.bound - 1, previous: own, ..before };
        let (start, end) = (at + anep::HEADER + capsule::HEADER, sent.len() - 4);
        if after != expected || (start < end && sent[start..end] != arrived[start..end]) {
            return Err(format!("{after:?} came out, not {expected:?}, or another payload"));
        }
        Ok(())
    }
}

fn overlay(dir: &Path, listen: SocketAddr, previous: SocketAddr, next: SocketAddr) -> String {
    format!(
        "name = \"bench\"\nrun_dir = {dir:?}\n[[port]]\nudp = \"{listen}\"\naddress = [\"{}/24\"]\nneighbours = [\n\
         {{ address = \"{}\", at = \"{previous}\" }},\n{{ address = \"{}\", at = \"{next}\" }},\n]\n",
        EGRESS.address, INGRESS.peer, EGRESS.peer
    )
}

fn native(dir: &Path, ingress: &Side, egress: &Side) -> String {
    format!(
        "name = \"bench\"\nrun_dir = {dir:?}\n[[port]]\npacket = \"{}\"\n[[port]]\npacket = \"{}\"\n",
        ingress.interface, egress.interface
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manage::config::NodeFile;

    #[test]
    fn the_overlay_configuration_is_one() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let text = overlay("/tmp/x".as_ref(), at(1), at(2), at(3));
        let (config, _) = NodeFile::parse(&text).unwrap().plan().unwrap();
        let next = config.routes.next_hop(Addr::from(IpAddr::V4(EGRESS.peer))).unwrap();
        assert_eq!(next.via, Addr::from(IpAddr::V4(EGRESS.peer)));
    }
}
