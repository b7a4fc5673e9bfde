//! The packets of the measurements, and nodes without processes that take them.

use super::super::Error;
use super::super::line::{EGRESS, INGRESS};
use anode::apps::plan::Script;
use anode::frame::{Link, PeerId, PortId};
use anode::node::{NodeConfig, Sizes};
use anode::topology::{Ceiling, Neighbour, NextHop, Port, Routes};
use anode::trust::Roles;
use anode::trust::limits::Limits;
use anode::wire::{Addr, Prefix, anep, plan as wire};
use plan::name::Name;
use plan::packet::{Header, Packet, slices};
use plan::value::{Callee, Chunk, Host, Value};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Bytes of ANEP, UDP and IP headers around a packet.
const AROUND: usize = 8 + 8 + 20;

/// A host of the line, as PLAN has it.
pub(super) fn host(address: Ipv4Addr) -> Host {
    Host(Addr::from(IpAddr::V4(address)).0)
}

fn failed() -> Error {
    Error::Guest("a PLAN packet cannot be made".into())
}

/// A PLAN message in an ANEP packet.
fn anep(message: &[u8]) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; anep::HEADER];
    anep::emit_basic(&mut bytes, anep::type_id::PLAN, message.len()).map_err(|_| failed())?;
    bytes.extend_from_slice(message);
    Ok(bytes)
}

/// From one end of the line to the other: an ANEP packet in an IP packet of this length, filled up by the chunk's last argument, a blob.
fn sized(ip_length: usize, chunk: impl Fn(Value) -> Option<Arc<Chunk>>) -> Result<Vec<u8>, Error> {
    let header = Header { destination: host(EGRESS.peer), ..Header::injected(host(INGRESS.peer), 1000) };
    let with = |load: usize| {
        let chunk = chunk(Value::Blob(vec![0x5a; load].into()))?;
        Packet { header: header.clone(), chunk }.bytes()
    };
    let length = ip_length - AROUND;
    // The length of the blob's length may change with it.
    let empty = with(0).ok_or_else(failed)?.len();
    let load =
        (length.saturating_sub(empty + 2)..=length).find(|load| with(*load).is_some_and(|it| it.len() == length));
    anep(&load.and_then(with).ok_or_else(failed)?)
}

/// One of the bandwidth service's packets, in an IP packet of this length.
pub(super) fn counted(ip_length: usize) -> Result<Vec<u8>, Error> {
    let count = || Callee::Service(const { Name::known("bandwidthCount") });
    sized(ip_length, |load| Chunk::new(count(), [Value::text(*b"bench"), load]).map(Arc::new))
}

/// A packet that carries its code, in an IP packet of this length.
pub(super) fn coded(ip_length: usize) -> Result<Vec<u8>, Error> {
    let script = Script::new("there", "fun there(load : blob) : unit = ()").map_err(Error::Guest)?;
    sized(ip_length, |load| script.chunk("there", [load]))
}

/// Ping packets.
pub(super) struct Ping {
    script: Script,
}

impl Ping {
    pub(super) fn new() -> Result<Ping, Error> {
        let script = Script::new("ping", include_str!("../../../apps/plan/ping.plan")).map_err(Error::Guest)?;
        Ok(Ping { script })
    }

    fn chunk(&self, from: Host, to: Host) -> Result<Arc<Chunk>, Error> {
        self.script.chunk("ping", [Value::Host(from), Value::Host(to)]).ok_or_else(failed)
    }

    /// The packet, its code in it or named by its digest.
    pub(super) fn message(&self, from: Host, to: Host, by_digest: bool) -> Result<Vec<u8>, Error> {
        let header = Header { destination: to, previous: from, by_digest, ..Header::injected(from, 1000) };
        Packet { header, chunk: self.chunk(from, to)? }.bytes().ok_or_else(failed)
    }

    /// The same in an ANEP packet.
    pub(super) fn question(&self, from: Host, to: Host, by_digest: bool) -> Result<Vec<u8>, Error> {
        anep(&self.message(from, to, by_digest)?)
    }

    /// What a neighbour says that holds the code of the answer.
    pub(super) fn have(&self) -> Result<Vec<u8>, Error> {
        let chunk = self.script.chunk("ack", []).ok_or_else(failed)?;
        let codes = slices(&chunk).ok_or_else(failed)?;
        anep(&wire::have(&codes.first().ok_or_else(failed)?.digest.0))
    }

    /// Whether this is the answer that `to` gets.
    pub(super) fn is_answer(to: Host, by_digest: bool, bytes: &[u8]) -> bool {
        let view = bytes.get(anep::HEADER..).and_then(plan::packet::View::new_checked);
        view.is_some_and(|view| view.destination() == to && !view.report() && view.by_digest() == by_digest)
    }
}

/// A node with one overlay port and two neighbours.
pub(super) fn overlay_node(own: Host, ends: [Host; 2]) -> NodeConfig {
    let own = Addr(own.0);
    let port = Port {
        name: "bench".into(),
        link: Link::Overlay,
        addresses: vec![(own, Prefix::host(own))],
        mtu: 1500,
        bits_per_second: 0,
        ceiling: Ceiling::NONE,
    };
    let ends = [(Addr(ends[0].0), PeerId(0)), (Addr(ends[1].0), PeerId(1))];
    let routes = ends.map(|(addr, _)| (Prefix::host(addr), NextHop { port: PortId(0), via: addr }));
    let limits = Limits { packets_per_second: u64::MAX >> 8, steps_per_second: u64::MAX >> 8, ..Limits::default() };
    NodeConfig {
        name: "bench".into(),
        ports: vec![port],
        neighbours: ends.map(|(addr, peer)| Neighbour { addr, port: PortId(0), peer }).into(),
        routes: Arc::new(Routes::new(routes)),
        roles: Arc::new(Roles::of_anyone(limits)),
        sizes: Sizes::default(),
        seed: 1,
        kernel: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_the_length_asked_for_and_end_in_a_blob() {
        for length in [256, 300, 750, 1400] {
            for packet in [coded(length).unwrap(), counted(length).unwrap()] {
                assert_eq!(packet.len() + 28, length);
                assert_eq!(packet[packet.len() - 4..], [0x5a; 4]);
            }
        }
    }
}
