//! What a captured packet is, from its bytes alone: code, addresses, and its identity on the wire.
//!
//! The identity is a digest of what does not change between two nodes: of an ANEP packet its type and all behind its header (for a
//! capsule: code, addresses, bound, payload), of an IP packet its addresses, its protocol and all behind its header. Link headers, time to
//! live, checksums and ANEP options (such as a neighbour's proof) are left out: they are made anew for each link. So a frame that
//! leaves one node and the frame that comes in at the next have one identity, whatever code has written before. Within a node a packet
//! has the node's own number.

use crate::classify::headers::Layers;
use crate::contract::passed_up;
use crate::wire::ethernet::{self, ethertype};
use crate::wire::{Addr, Digest, anep, capsule, ipv4, ipv6, udp};

/// Bytes of an identity.
pub const IDENTITY: usize = 8;

/// What a packet is known by at every node; see above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(pub [u8; IDENTITY]);

impl Identity {
    fn of(parts: &[&[u8]]) -> Identity {
        let Digest(whole) = Digest::of(&parts.concat());
        let mut identity = [0; IDENTITY];
        identity.copy_from_slice(&whole[..IDENTITY]);
        Identity(identity)
    }
}

impl core::fmt::Display for Identity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What is known of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The type of its ANEP packet, if it is one.
    pub kind: Option<u16>,
    /// Of a capsule, its code.
    pub code: Option<Digest>,
    /// Of a capsule, its bound.
    pub bound: Option<u32>,
    /// From where and to where: of a capsule as it says, else as its IP header does.
    pub ends: Option<(Addr, Addr)>,
    /// What it is known by at every node.
    pub identity: Option<Identity>,
}

impl Look {
    /// At a captured frame: of an Ethernet port, or an IP packet of an overlay port.
    pub fn at(is_ethernet: bool, bytes: &[u8]) -> Look {
        let found = if is_ethernet { Look::at_ethernet(bytes) } else { Look::at_overlay(bytes) };
        found.unwrap_or_default()
    }

    fn at_ethernet(bytes: &[u8]) -> Option<Look> {
        let ip = Layers::of(bytes)?.ip?;
        let payload = match (&ip.transport, ip.protocol) {
            (Some(transport), udp::IP_PROTOCOL) if transport.destination == anep::UDP_PORT => {
                bytes.get(transport.payload.clone())
            }
            (_, anep::IP_PROTOCOL) => bytes.get(ip.payload.clone()),
            _ => None,
        };
        let ends = (ip.source, ip.destination);
        payload.and_then(|payload| Look::at_anep(payload, ends)).or_else(|| {
            let identity =
                Identity::of(&[&ip.source.0, &ip.destination.0, &[ip.protocol], bytes.get(ip.payload.clone())?]);
            Some(Look { ends: Some(ends), identity: Some(identity), ..Look::default() })
        })
    }

    fn at_overlay(bytes: &[u8]) -> Option<Look> {
        let (ends, datagram) = match bytes.first()? >> 4 {
            4 => {
                let ip = ipv4::Packet::new_checked(bytes).ok()?;
                ((ip.source(), ip.destination()), ip.payload())
            }
            _ => {
                let ip = ipv6::Packet::new_checked(bytes).ok()?;
                ((ip.source(), ip.destination()), ip.payload())
            }
        };
        Look::at_anep(udp::Packet::new_checked(datagram).ok()?.payload(), ends)
    }

    fn at_anep(bytes: &[u8], ends: (Addr, Addr)) -> Option<Look> {
        let packet = anep::Packet::new_checked(bytes).ok()?;
        let kind = packet.type_id();
        let identity = Identity::of(&[&kind.to_be_bytes(), packet.payload()]);
        let capsule =
            (kind == anep::type_id::CAPSULE).then(|| capsule::Packet::new_checked(packet.payload()).ok()).flatten();
        Some(Look {
            kind: Some(kind),
            code: capsule.map(|capsule| capsule.code()),
            bound: capsule.map(|capsule| capsule.bound()),
            ends: Some(capsule.map_or(ends, |capsule| (capsule.source(), capsule.destination()))),
            identity: Some(identity),
        })
    }
}

/// A frame as it came, of one that the kernel half has passed up with its verdict; and whether it was one.
pub fn original(mut bytes: Vec<u8>) -> (Vec<u8>, bool) {
    const BEHIND: usize = ethernet::HEADER + passed_up::SIZE;
    let is_passed_up = bytes.get(12..14) == Some(&ethertype::PASSED_UP.to_be_bytes()[..]) && bytes.len() >= BEHIND;
    if is_passed_up {
        // The former type is the first that it tells.
        bytes.copy_within(ethernet::HEADER..ethernet::HEADER + 2, 12);
        bytes.drain(ethernet::HEADER..BEHIND);
    }
    (bytes, is_passed_up)
}
