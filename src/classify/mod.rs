//! What a frame is, from its bytes alone.
//!
//! On an Ethernet port, ANEP comes natively in UDP to port 3322 or in IP protocol 107, and with it
//! address resolution; everything else is the Linux stack's. On an overlay port a frame is an ANEP
//! packet. Fragments are not ours: they pass by, as they pass through nodes that are not active.

use crate::port::Envelope;
use crate::topology::Link;
use crate::wire::ethernet::{self, ethertype};
use crate::wire::{Addr, Error, anep, ipv4, ipv6, udp};
use core::ops::Range;

/// What the IP header around a native capsule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Native {
    /// The IP source.
    pub source: Addr,
    /// The IP destination.
    pub destination: Addr,
    /// What goes on with the packet.
    pub envelope: Envelope,
}

/// What a frame is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// An ANEP packet at these octets, natively with its IP header's content.
    Anep(Range<usize>, Option<Native>),
    /// An ARP packet at these octets.
    Arp(Range<usize>),
    /// An ICMPv6 message at these octets, from and to these addresses; hop limit 255 as neighbour
    /// discovery demands.
    NeighbourDiscovery(Range<usize>, Addr, Addr),
    /// Nothing an active node looks at.
    NotOurs,
}

/// Says what a frame is. An error means that it claims to be ours and is not well-formed.
#[inline]
pub fn classify(link: Link, bytes: &[u8]) -> Result<Class, Error> {
    match link {
        Link::Overlay => Ok(Class::Anep(0..bytes.len(), None)),
        Link::Ethernet { .. } => classify_ethernet(bytes),
    }
}

#[inline]
fn classify_ethernet(bytes: &[u8]) -> Result<Class, Error> {
    let Ok(frame) = ethernet::Frame::new_checked(bytes) else { return Ok(Class::NotOurs) };
    // A tagged frame belongs to the interface of its VLAN, where it comes in again without the tag.
    if frame.tag().is_some() {
        return Ok(Class::NotOurs);
    }
    let start = frame.header_len();
    match frame.ethertype() {
        ethertype::IPV4 => classify_ipv4(bytes, start),
        ethertype::IPV6 => classify_ipv6(bytes, start),
        ethertype::ARP => Ok(Class::Arp(start..bytes.len())),
        _ => Ok(Class::NotOurs),
    }
}

#[inline]
fn classify_ipv4(bytes: &[u8], start: usize) -> Result<Class, Error> {
    let Ok(packet) = ipv4::Packet::new_checked(&bytes[start..]) else { return Ok(Class::NotOurs) };
    if packet.is_fragment() {
        return Ok(Class::NotOurs);
    }
    let native = Native {
        source: packet.source(),
        destination: packet.destination(),
        envelope: Envelope {
            hop_limit: packet.ttl(),
            service: packet.tos(),
            direct: packet.protocol() == anep::IP_PROTOCOL,
        },
    };
    let end = start + packet.total_len();
    transport(bytes, start + packet.header_len()..end, packet.protocol(), native)
}

#[inline]
fn classify_ipv6(bytes: &[u8], start: usize) -> Result<Class, Error> {
    const ICMP: u8 = 58;
    let Ok(packet) = ipv6::Packet::new_checked(&bytes[start..]) else { return Ok(Class::NotOurs) };
    if packet.is_fragment() || packet.segments_left() > 0 {
        return Ok(Class::NotOurs);
    }
    let payload = start + packet.header_len()..start + packet.total_len();
    if packet.protocol() == ICMP {
        return Ok(if packet.hop_limit() == 255 {
            Class::NeighbourDiscovery(payload, packet.source(), packet.destination())
        } else {
            Class::NotOurs
        });
    }
    let native = Native {
        source: packet.source(),
        destination: packet.destination(),
        envelope: Envelope {
            hop_limit: packet.hop_limit(),
            service: packet.traffic_class(),
            direct: packet.protocol() == anep::IP_PROTOCOL,
        },
    };
    transport(bytes, payload, packet.protocol(), native)
}

#[inline]
fn transport(bytes: &[u8], payload: Range<usize>, protocol: u8, native: Native) -> Result<Class, Error> {
    const UDP: u8 = 17;
    if protocol == anep::IP_PROTOCOL {
        return Ok(Class::Anep(payload, Some(native)));
    }
    if protocol != UDP {
        return Ok(Class::NotOurs);
    }
    let Ok(datagram) = udp::Packet::new_checked(&bytes[payload.clone()]) else { return Ok(Class::NotOurs) };
    if datagram.destination_port() != anep::UDP_PORT {
        return Ok(Class::NotOurs);
    }
    // Hardware that checks sums hides them from us as often as not; a wrong one here means that the
    // packet was damaged, or that its sender left the sum to a device that does not exist.
    let length = datagram.payload().len();
    Ok(Class::Anep(payload.end - length..payload.end, Some(native)))
}
