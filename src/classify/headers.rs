//! Reads the headers of an Ethernet frame: the one place of the user half for that. The classifier
//! ([`super::classify`]) and channels use it.
//!
//! Three steps, each of which believes no length: the link (`Inside::of`), IP (`Head::of`), TCP or UDP (`Transport::of`). Whoever reads
//! says what each step means to it. The kernel half reads the same fields ([`super::fields`]) and leaves to this one what is unusual.

use crate::wire::checksum::checksum;
use crate::wire::ethernet::{self, ethertype};
use crate::wire::{Addr, ipv4, ipv6};
use core::ops::Range;

/// TCP's number in IP headers.
pub const TCP: u8 = crate::contract::TCP as u8;
/// UDP's.
pub const UDP: u8 = crate::wire::udp::IP_PROTOCOL;

/// What an untagged frame has inside. A tagged one belongs to the interface of its VLAN, where it comes in again without the tag.
pub(super) struct Inside {
    pub ethertype: u16,
    pub start: usize,
}

impl Inside {
    /// Reads the Ethernet header; nothing if there is none, or a tag.
    #[inline(always)]
    pub fn of(bytes: &[u8]) -> Option<Inside> {
        let frame = ethernet::FrameView::new_checked(bytes).ok()?;
        let inside = Inside { ethertype: frame.ethertype(), start: frame.header_len() };
        frame.tag().is_none().then_some(inside)
    }
}

/// The header of an IP packet with correct lengths.
pub(super) struct Head {
    pub source: Addr,
    pub destination: Addr,
    pub protocol: u8,
    pub hop_limit: u8,
    pub service: u8,
    /// Where it begins.
    start: usize,
    pub payload: Range<usize>,
    /// Whether its payload begins with that protocol's header and its destination is its last one: it is no fragment, and no
    /// routing header has further ones in store.
    pub is_whole: bool,
}

impl Head {
    /// Reads an IP header; nothing if there is none with correct lengths. The checksum of IPv4 is not looked at.
    #[inline(always)]
    pub fn of(inside: &Inside, bytes: &[u8]) -> Option<Head> {
        match inside.ethertype {
            ethertype::IPV4 => Head::of_v4(inside.start, bytes),
            ethertype::IPV6 => Head::of_v6(inside.start, bytes),
            _ => None,
        }
    }

    #[inline(always)]
    fn of_v4(start: usize, bytes: &[u8]) -> Option<Head> {
        let packet = ipv4::Packet::new_checked(bytes.get(start..)?).ok()?;
        Some(Head {
            source: packet.source(),
            destination: packet.destination(),
            protocol: packet.protocol(),
            hop_limit: packet.ttl(),
            service: packet.tos(),
            start,
            payload: start + packet.header_len()..start + packet.total_len(),
            is_whole: !packet.is_fragment(),
        })
    }

    #[inline(always)]
    fn of_v6(start: usize, bytes: &[u8]) -> Option<Head> {
        let packet = ipv6::Packet::new_checked(bytes.get(start..)?).ok()?;
        Some(Head {
            source: packet.source(),
            destination: packet.destination(),
            protocol: packet.protocol(),
            hop_limit: packet.hop_limit(),
            service: packet.traffic_class(),
            start,
            payload: start + packet.header_len()..start + packet.total_len(),
            is_whole: !packet.is_fragment() && packet.segments_left() == 0,
        })
    }

    /// Whether the sum of the header is right; IPv6 has none.
    #[inline(always)]
    pub fn sum_is_right(&self, inside: &Inside, bytes: &[u8]) -> bool {
        let header = || bytes.get(self.start..self.payload.start);
        inside.ethertype != ethertype::IPV4 || header().is_some_and(|header| checksum(header) == 0)
    }
}

/// What a frame consists of, from its bytes alone. Ranges are within the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    /// What the Ethernet header says is behind it.
    pub ethertype: u16,
    /// The IP packet, if it is a good one.
    pub ip: Option<Ip>,
}

/// An IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Its sender.
    pub source: Addr,
    /// Its receiver.
    pub destination: Addr,
    /// What its payload is.
    pub protocol: u8,
    /// Where its header begins.
    pub start: usize,
    /// Its payload.
    pub payload: Range<usize>,
    /// The TCP or UDP header, unless the packet is a fragment.
    pub transport: Option<Transport>,
}

impl Layers {
    /// Reads an Ethernet frame; nothing if it is none, or a tagged one.
    #[inline(always)]
    pub fn of(bytes: &[u8]) -> Option<Layers> {
        let inside = Inside::of(bytes)?;
        let head = Head::of(&inside, bytes);
        let transport = head.as_ref().and_then(|head| Transport::of(head, bytes));
        Some(Layers::read(&inside, head, transport, bytes))
    }

    /// The layers whose headers have been read.
    #[inline(always)]
    pub(super) fn read(inside: &Inside, head: Option<Head>, transport: Option<Transport>, bytes: &[u8]) -> Layers {
        let head = head.filter(|head| head.sum_is_right(inside, bytes));
        let ip = head.map(|head| {
            let Head { source, destination, protocol, start, payload, .. } = head;
            Ip { source, destination, protocol, start, payload, transport }
        });
        Layers { ethertype: inside.ethertype, ip }
    }
}

/// A TCP or UDP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The sender's port.
    pub source: u16,
    /// The receiver's.
    pub destination: u16,
    /// What is behind the header.
    pub payload: Range<usize>,
}

impl Transport {
    /// Reads what is behind an IP header; nothing if that is neither, or only a piece of it, or lies about its length.
    #[inline(always)]
    pub(super) fn of(ip: &Head, bytes: &[u8]) -> Option<Transport> {
        if !ip.is_whole {
            return None;
        }
        let header = bytes.get(ip.payload.clone())?;
        let half = |at: usize| Some(u16::from_be_bytes(*header.get(at..)?.first_chunk()?));
        let (length, end) = match ip.protocol {
            UDP => {
                let length = usize::from(half(4)?);
                (8, if (8..=header.len()).contains(&length) { ip.payload.start + length } else { return None })
            }
            TCP => (usize::from(header.get(12)? >> 4) * 4, ip.payload.end),
            _ => return None,
        };
        let payload = ip.payload.start + length..end;
        let whole = length >= 8 && payload.start <= payload.end;
        Some(Transport { source: half(0)?, destination: half(2)?, payload: if whole { payload } else { return None } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ethernet::Mac;
    use crate::wire::udp;

    /// A datagram of four bytes.
    fn datagram(v4: bool) -> Vec<u8> {
        let mut bytes = vec![0; 14 + 40 + 12];
        let ethertype = if v4 { ethertype::IPV4 } else { ethertype::IPV6 };
        let header = ethernet::Repr { destination: Mac([2; 6]), source: Mac([4; 6]), tag: None, ethertype };
        header.emit(&mut bytes).unwrap();
        let length = if v4 {
            ipv4::Repr::new([10, 0, 0, 1], [10, 0, 0, 2], UDP, 64, 12).emit(&mut bytes[14..]).unwrap()
        } else {
            ipv6::Repr::new(Addr([0xfd; 16]), Addr([0xfe; 16]), UDP, 64, 12).emit(&mut bytes[14..]).unwrap()
        };
        let header = udp::Repr { source_port: 9, destination_port: 5000, payload_len: 4 };
        header.emit(&mut bytes[14 + length..]).unwrap();
        bytes.truncate(14 + length + 12);
        bytes
    }

    #[test]
    fn layers_are_found_and_lies_are_not_believed() {
        for v4 in [true, false] {
            let good = datagram(v4);
            let ip = Layers::of(&good).unwrap().ip.unwrap();
            let transport = ip.transport.unwrap();
            assert_eq!((transport.source, transport.destination, transport.payload.len()), (9, 5000, 4));
            assert_eq!(transport.payload.end, good.len());
            for length in 0..good.len() {
                let layers = Layers::of(&good[..length]);
                assert!(layers.is_none_or(|layers| layers.ip.is_none()), "{length} bytes of it");
            }
            let mut lying = good.clone();
            let at = ip.payload.start + 4;
            for claimed in [0u16, 7, 13, 65535] {
                lying[at..at + 2].copy_from_slice(&claimed.to_be_bytes());
                assert_eq!(Layers::of(&lying).unwrap().ip.unwrap().transport, None, "UDP length {claimed}");
            }
        }
        let mut fragment = datagram(true);
        fragment[21] = 1;
        let header: [u8; 20] = fragment[14..34].try_into().unwrap();
        let sum = crate::wire::checksum::Sum::new().bytes(&{
            let mut header = header;
            header[10..12].fill(0);
            header
        });
        fragment[24..26].copy_from_slice(&sum.finish().to_be_bytes());
        let ip = Layers::of(&fragment).unwrap().ip.unwrap();
        assert_eq!((ip.transport, ip.protocol), (None, UDP), "a fragment has no ports");
    }
}
