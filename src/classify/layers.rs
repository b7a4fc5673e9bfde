//! The layers of an Ethernet frame, for channels: where each begins, and what addresses it.

use crate::wire::ethernet::{self, ethertype};
use crate::wire::{Addr, ipv4, ipv6};
use core::ops::Range;

/// TCP's number in IP headers.
pub const TCP: u8 = 6;
/// UDP's.
pub const UDP: u8 = 17;

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

impl Layers {
    /// Reads an Ethernet frame; nothing if it is none, or a tagged one: that belongs to the interface of its VLAN.
    #[inline(always)]
    pub fn of(bytes: &[u8]) -> Option<Layers> {
        let frame = ethernet::Frame::new_checked(bytes).ok()?;
        if frame.tag().is_some() {
            return None;
        }
        let start = frame.header_len();
        let ip = match frame.ethertype() {
            ethertype::IPV4 => ip_v4(bytes, start),
            ethertype::IPV6 => ip_v6(bytes, start),
            _ => None,
        };
        Some(Layers { ethertype: frame.ethertype(), ip })
    }
}

#[inline(always)]
fn ip_v4(bytes: &[u8], start: usize) -> Option<Ip> {
    let packet = ipv4::Packet::new_checked(&bytes[start..]).ok()?;
    if !packet.verify_checksum() {
        return None;
    }
    let payload = start + packet.header_len()..start + packet.total_len();
    let transport = if packet.is_fragment() { None } else { transport(bytes, payload.clone(), packet.protocol()) };
    let (source, destination) = (packet.source(), packet.destination());
    Some(Ip { source, destination, protocol: packet.protocol(), start, payload, transport })
}

#[inline(always)]
fn ip_v6(bytes: &[u8], start: usize) -> Option<Ip> {
    let packet = ipv6::Packet::new_checked(&bytes[start..]).ok()?;
    let payload = start + packet.header_len()..start + packet.total_len();
    let whole = !packet.is_fragment() && packet.segments_left() == 0;
    let transport = if whole { transport(bytes, payload.clone(), packet.protocol()) } else { None };
    let (source, destination) = (packet.source(), packet.destination());
    Some(Ip { source, destination, protocol: packet.protocol(), start, payload, transport })
}

#[inline(always)]
fn transport(bytes: &[u8], segment: Range<usize>, protocol: u8) -> Option<Transport> {
    let header = bytes.get(segment.clone())?;
    let half = |at: usize| Some(u16::from_be_bytes(*header.get(at..)?.first_chunk()?));
    let (length, end) = match protocol {
        UDP => {
            let length = usize::from(half(4)?);
            (8, if (8..=header.len()).contains(&length) { segment.start + length } else { return None })
        }
        TCP => (usize::from(header.get(12)? >> 4) * 4, segment.end),
        _ => return None,
    };
    let payload = segment.start + length..end;
    let whole = length >= 8 && payload.start <= payload.end;
    Some(Transport { source: half(0)?, destination: half(2)?, payload: if whole { payload } else { return None } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ethernet::Mac;
    use crate::wire::udp;

    /// A datagram of four octets.
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
                assert!(layers.is_none_or(|layers| layers.ip.is_none()), "{length} octets of it");
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
