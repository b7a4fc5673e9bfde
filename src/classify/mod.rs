//! What a frame is, from its bytes alone.
//!
//! On an Ethernet port, ANEP comes natively in UDP to port 3322 or in IP protocol 107, and with it
//! address resolution; everything else is the Linux stack's. On an overlay port a frame is an ANEP
//! packet. Fragments are not ours: they pass by, as they pass through nodes that are not active.

pub mod layers;
pub mod rule;
pub mod shapes;

use crate::frame::{Envelope, Link};
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
    if is_foreign(bytes) {
        return Ok(Class::NotOurs);
    }
    // A tagged frame belongs to the interface of its VLAN, where it comes in again without the tag.
    if frame.tag().is_some() {
        return Ok(Class::NotOurs);
    }
    let start = frame.header_len();
    let class = match frame.ethertype() {
        ethertype::IPV4 => classify_ipv4(bytes, start),
        ethertype::IPV6 => classify_ipv6(bytes, start),
        ethertype::ARP => return Ok(Class::Arp(start..bytes.len())),
        _ => return Ok(Class::NotOurs),
    };
    match class {
        Ok(Class::NotOurs) if is_taken(bytes) => Err(Error::Malformed),
        class => class,
    }
}

/// Whether a frame is IPv4 without options and neither ANEP nor a datagram to its port: nothing that is ours, well-formed or not.
/// It is what most frames are, and says so sooner than a look at all that they claim.
#[inline]
fn is_foreign(bytes: &[u8]) -> bool {
    let Some(head) = bytes.first_chunk::<38>() else { return false };
    let datagram = head[23] == udp::IP_PROTOCOL && [head[36], head[37]] == anep::UDP_PORT.to_be_bytes();
    head[12..15] == [8, 0, 0x45] && head[23] != anep::IP_PROTOCOL && !datagram
}

/// Whether an untagged frame is taken away from the Linux stack: the rule of `bpf/take.h` and
/// `bpf/sockets.h`, which look at fewer fields than we do. Nobody else will see such a frame.
#[cold]
fn is_taken(bytes: &[u8]) -> bool {
    let half =
        |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|octets| u16::from_be_bytes(*octets));
    let octet = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let (version, length) = (octet(14) >> 4, bytes.len());
    let (protocol, transport) = match (half(12), version) {
        (Some(ethertype::IPV4), 4) if length >= 14 + 20 && half(20).is_some_and(|word| word & 0x3fff == 0) => {
            (octet(23), 14 + usize::from(octet(14) & 15) * 4)
        }
        (Some(ethertype::IPV6), 6) if length >= 14 + ipv6::HEADER => (octet(20), 14 + ipv6::HEADER),
        _ => return false,
    };
    let is_udp = protocol == udp::IP_PROTOCOL && length >= transport + udp::HEADER;
    protocol == anep::IP_PROTOCOL || is_udp && half(transport + 2) == Some(anep::UDP_PORT)
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
    let class = transport(bytes, start + packet.header_len()..end, packet.protocol(), native)?;
    // Who forwards verifies the header's sum (RFC 1812, 5.2.2), and we forward what is ours alone.
    if matches!(class, Class::Anep(..)) && !packet.verify_checksum() {
        return Err(Error::Checksum);
    }
    Ok(class)
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
    if protocol == anep::IP_PROTOCOL {
        return Ok(Class::Anep(payload, Some(native)));
    }
    if protocol != udp::IP_PROTOCOL {
        return Ok(Class::NotOurs);
    }
    let Ok(datagram) = udp::Packet::new_checked(&bytes[payload.clone()]) else { return Ok(Class::NotOurs) };
    if datagram.destination_port() != anep::UDP_PORT {
        return Ok(Class::NotOurs);
    }
    // Hardware that checks UDP's sums hides them from us as often as not; a wrong one here means that the
    // packet was damaged, or that its sender left the sum to a device that does not exist.
    let length = datagram.payload().len();
    Ok(Class::Anep(payload.end - length..payload.end, Some(native)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ethernet::Mac;

    const LINK: Link = Link::Ethernet { mac: Mac([2; 6]), answers: false };

    /// A frame with a datagram of four octets to our port, or the same with another header.
    fn frame(v4: bool) -> Vec<u8> {
        let inner = udp::HEADER + 4;
        let ethertype = if v4 { ethertype::IPV4 } else { ethertype::IPV6 };
        let mut bytes = vec![0; 14 + 40 + inner];
        ethernet::Repr { destination: Mac([2; 6]), source: Mac([4; 6]), tag: None, ethertype }
            .emit(&mut bytes)
            .unwrap();
        let length = if v4 {
            ipv4::Repr::new([10, 0, 0, 1], [10, 0, 0, 2], 17, 64, inner).emit(&mut bytes[14..]).unwrap()
        } else {
            let addr = |last| Addr([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            ipv6::Repr::new(addr(1), addr(2), 17, 64, inner).emit(&mut bytes[14..]).unwrap()
        };
        let header = udp::Repr { source_port: 9, destination_port: anep::UDP_PORT, payload_len: 4 };
        header.emit(&mut bytes[14 + length..]).unwrap();
        bytes.truncate(14 + length + inner);
        bytes
    }

    #[test]
    fn what_the_guard_takes_is_ours_or_malformed_and_the_rest_is_not_ours() {
        enum Is {
            Ours,
            Malformed,
            NotOurs,
        }
        type Edit = fn(&mut Vec<u8>);
        let cases: [(&str, bool, Edit, Is); 17] = [
            ("a good one", true, |_| {}, Is::Ours),
            ("a good one", false, |_| {}, Is::Ours),
            ("a wrong sum of its header", true, |b| b[24] ^= 1, Is::Malformed),
            ("a total length beyond the frame", true, |b| b[16] = 9, Is::Malformed),
            ("a header that is too short", true, |b| b[14] = 0x44, Is::NotOurs),
            ("another IP version", true, |b| b[14] = 0x65, Is::NotOurs),
            ("a UDP length beyond the packet", true, |b| b[38] = 9, Is::Malformed),
            ("a UDP length below its header", true, |b| b[39] = 7, Is::Malformed),
            ("a cut UDP header", true, |b| b.truncate(41), Is::NotOurs),
            ("a cut port", true, |b| b.truncate(37), Is::NotOurs),
            ("another port", true, |b| b[37] ^= 1, Is::NotOurs),
            ("another port and a wrong length", true, |b| (b[37], b[38]) = (1, 9), Is::NotOurs),
            ("a fragment", true, |b| b[21] = 1, Is::NotOurs),
            ("a payload length beyond the frame", false, |b| b[18] = 9, Is::Malformed),
            ("a UDP length beyond the packet", false, |b| b[58] = 9, Is::Malformed),
            (
                "a mapped address",
                false,
                |b| b[22..34].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255]),
                Is::Malformed,
            ),
            ("ICMP", false, |b| b[20] = 58, Is::NotOurs),
        ];
        for (name, v4, edit, expected) in cases {
            let mut bytes = frame(v4);
            edit(&mut bytes);
            let right = match classify(LINK, &bytes) {
                Ok(Class::Anep(..)) => matches!(expected, Is::Ours),
                Ok(_) => matches!(expected, Is::NotOurs),
                Err(_) => matches!(expected, Is::Malformed),
            };
            assert!(right, "{name}, {}: {:?}", if v4 { "IPv4" } else { "IPv6" }, classify(LINK, &bytes));
            for protocol in [anep::IP_PROTOCOL, 6] {
                bytes[if v4 { 23 } else { 20 }] = protocol;
                let ours = !matches!(classify(LINK, &bytes), Ok(Class::NotOurs));
                let left_alone = v4 && (bytes[21] != 0 || bytes[14] >> 4 != 4);
                assert_eq!(ours, protocol == anep::IP_PROTOCOL && !left_alone, "{name} as protocol {protocol}");
            }
        }
    }
}
