//! The classifier: what a frame is, from its bytes alone. Example: UDP to port 3322 with an ANEP header is a capsule, a
//! fetch or PLAN.
//!
//! On an Ethernet port, ANEP comes natively in UDP to port 3322 or in IP protocol 107, and with it
//! address resolution; everything else is the Linux stack's. On an overlay port a frame is an ANEP
//! packet. Fragments are not ours: they pass by, as they pass through nodes that are not active.

pub mod fields;
pub mod filter;
pub mod fixed;
pub mod foreign;
pub mod groups;
pub mod headers;
pub mod lists;
pub mod rule;
pub mod shape;
pub mod shapes;
pub mod table;
pub mod taught;

use crate::frame::{Envelope, Link};
use crate::wire::ethernet::ethertype;
use crate::wire::{Addr, Error, anep, ipv6, udp};
use core::ops::Range;
use headers::{Head, Inside, Layers, Transport};

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
    /// An ANEP packet at these bytes, natively with its IP header's content.
    Anep(Range<usize>, Option<Native>),
    /// An ARP packet at these bytes.
    Arp(Range<usize>),
    /// An ICMPv6 message at these bytes, with its IP header's content; hop limit 255 as neighbour discovery demands.
    Discovery(Range<usize>, Native),
    /// Nothing an active node looks at; and its layers, where rules may claim it. None: it has none to look at.
    NotOurs(Option<Layers>),
}

/// Says what a frame is. An error means that it claims to be ours and is not well-formed.
#[inline]
pub fn classify(link: Link, bytes: &[u8]) -> Result<Class, Error> {
    read(link, bytes, false)
}

/// The same; `rules`: what was read of a frame that is not ours is kept for the rules that may claim it.
#[inline(always)]
pub fn read(link: Link, bytes: &[u8], rules: bool) -> Result<Class, Error> {
    match link {
        Link::Overlay => Ok(Class::Anep(0..bytes.len(), None)),
        Link::Ethernet { .. } => read_ethernet(bytes, rules),
    }
}

#[inline(always)]
fn read_ethernet(bytes: &[u8], rules: bool) -> Result<Class, Error> {
    const ICMPV6: u8 = 58;
    if !rules && is_foreign(bytes) {
        return Ok(Class::NotOurs(None));
    }
    let Some(inside) = Inside::of(bytes) else { return Ok(Class::NotOurs(None)) };
    let is_ip = match inside.ethertype {
        ethertype::IPV4 | ethertype::IPV6 => true,
        ethertype::ARP => return Ok(Class::Arp(inside.start..bytes.len())),
        _ => false,
    };
    let head = Head::of(&inside, bytes);
    let mut transport = None;
    // Whether less was read than the guard looks at.
    let mut unclear = is_ip;
    if let Some(ip) = head.as_ref().filter(|ip| ip.is_whole) {
        unclear = false;
        match ip.protocol {
            anep::IP_PROTOCOL => return native(&inside, ip, ip.payload.clone(), bytes),
            // Hardware that checks UDP's sums hides them from us as often as not; a wrong one here means that the
            // packet was damaged, or that its sender left the sum to a device that does not exist.
            headers::UDP => match Transport::of(ip, bytes) {
                Some(datagram) if datagram.destination == anep::UDP_PORT => {
                    return native(&inside, ip, datagram.payload, bytes);
                }
                Some(datagram) => transport = Some(datagram),
                None => unclear = true,
            },
            headers::TCP if rules => transport = Transport::of(ip, bytes),
            ICMPV6 if inside.ethertype == ethertype::IPV6 && ip.hop_limit == 255 => {
                return Ok(Class::Discovery(ip.payload.clone(), ip.native(false)));
            }
            _ => {}
        }
    }
    if unclear && is_taken(bytes) {
        return Err(Error::Malformed);
    }
    Ok(Class::NotOurs(rules.then(|| Layers::read(&inside, head, transport, bytes))))
}

/// An ANEP packet in an IP packet of its own, or in a datagram.
#[inline(always)]
fn native(inside: &Inside, ip: &Head, payload: Range<usize>, bytes: &[u8]) -> Result<Class, Error> {
    // Who forwards verifies the header's sum (RFC 1812, 5.2.2), and we forward what is ours alone.
    if !ip.sum_is_right(inside, bytes) {
        return Err(Error::Checksum);
    }
    let direct = ip.protocol == anep::IP_PROTOCOL;
    Ok(Class::Anep(payload, Some(ip.native(direct))))
}

impl Head {
    /// What it says to whoever gets what is in its packet.
    fn native(&self, direct: bool) -> Native {
        let envelope = Envelope { hop_limit: self.hop_limit, service: self.service, direct };
        Native { source: self.source, destination: self.destination, envelope }
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
    let half = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u16::from_be_bytes(*bytes));
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let (version, length) = (byte(14) >> 4, bytes.len());
    let (protocol, transport) = match (half(12), version) {
        (Some(ethertype::IPV4), 4) if length >= 14 + 20 && half(20).is_some_and(|word| word & 0x3fff == 0) => {
            (byte(23), 14 + usize::from(byte(14) & 15) * 4)
        }
        (Some(ethertype::IPV6), 6) if length >= 14 + ipv6::HEADER => (byte(20), 14 + ipv6::HEADER),
        _ => return false,
    };
    let is_udp = protocol == udp::IP_PROTOCOL && length >= transport + udp::HEADER;
    protocol == anep::IP_PROTOCOL || is_udp && half(transport + 2) == Some(anep::UDP_PORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ethernet::{self, Mac};
    use crate::wire::ipv4;

    const LINK: Link = Link::Ethernet { mac: Mac([2; 6]), answers: false };

    /// A frame with a datagram of four bytes to our port, or the same with another header.
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

    /// What is kept for rules is what a reader of its own would find, and changes nothing else.
    fn one_reading_says_the_same_as_two(bytes: &[u8]) {
        match (classify(LINK, bytes), read(LINK, bytes, true)) {
            (Ok(Class::NotOurs(None)), Ok(Class::NotOurs(layers))) => assert_eq!(layers, Layers::of(bytes)),
            (without, with) => assert_eq!(without, with),
        }
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
            one_reading_says_the_same_as_two(&bytes);
            assert!(right, "{name}, {}: {:?}", if v4 { "IPv4" } else { "IPv6" }, classify(LINK, &bytes));
            for protocol in [anep::IP_PROTOCOL, 6] {
                bytes[if v4 { 23 } else { 20 }] = protocol;
                one_reading_says_the_same_as_two(&bytes);
                let ours = !matches!(classify(LINK, &bytes), Ok(Class::NotOurs(_)));
                let left_alone = v4 && (bytes[21] != 0 || bytes[14] >> 4 != 4);
                assert_eq!(ours, protocol == anep::IP_PROTOCOL && !left_alone, "{name} as protocol {protocol}");
            }
        }
    }

    /// RFC 768: the datagram is as long as its own header says.
    #[test]
    fn what_an_ip_packet_has_behind_its_datagram_is_no_part_of_it() {
        for v4 in [true, false] {
            let (mut bytes, udp) = (frame(v4), if v4 { 34 } else { 54 });
            bytes[udp + 8..].copy_from_slice(b"abcd");
            for (length, payload) in [(12, &b"abcd"[..]), (10, b"ab"), (8, b"")] {
                bytes[udp + 5] = length;
                let Ok(Class::Anep(at, _)) = classify(LINK, &bytes) else { panic!("{length}") };
                let layers = Layers::of(&bytes).unwrap();
                assert_eq!(&bytes[at.clone()], payload, "length {length}");
                assert_eq!(layers.ip.unwrap().transport.unwrap().payload, at, "both readers say the same");
            }
        }
    }
}
