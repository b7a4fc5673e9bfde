//! The headers of an outgoing channel, kept from one packet for the next ones.
//!
//! Packets of a channel with one receiver differ only in lengths and in checksums over lengths and payload. So the
//! headers of a sent packet are kept with the sums of all constant fields. The next packets get a copy, two or three
//! lengths, and sums that continue from the kept ones (RFC 1624). [`Head::holds`] tells by a count of changes whether
//! the way is still the same, and asks for a look at the table of link addresses when an answer there has got old.

use crate::classify::rule::Layer;
use crate::frame::{Frame, PortId};
use crate::wire::checksum::{self, Sum};
use crate::wire::{Addr, ethernet, ipv4, ipv6, udp};

/// Bytes of Ethernet, IPv6 and UDP headers.
const LENGTH_MAX: usize = ethernet::HEADER + ipv6::HEADER + udp::HEADER;

const V4: usize = ethernet::HEADER + ipv4::HEADER;
const V6: usize = ethernet::HEADER + ipv6::HEADER;

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// What the headers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stack {
    V4,
    V4Udp,
    V6,
    V6Udp,
}

/// The headers of a channel.
#[derive(Debug)]
pub struct Head {
    /// Until when they may be used, in seconds; 0: there are none.
    until: u32,
    /// The node's count of changes that they are of.
    changes: u32,
    port: PortId,
    /// Bytes of IP that the port carries.
    mtu: u16,
    /// Sum of IPv4's header without its length, and of UDP's and its pseudo-header without theirs.
    sums: [u16; 2],
    stack: Stack,
    /// Nothing but headers is put on its packets, and their bandwidth is nobody's but the domain's.
    is_plain: bool,
    bytes: [u8; LENGTH_MAX],
}

impl Head {
    /// No headers yet.
    pub fn unknown(is_plain: bool) -> Head {
        let port = PortId(0);
        Head { until: 0, changes: 0, port, mtu: 0, sums: [0; 2], stack: Stack::V4, is_plain, bytes: [0; LENGTH_MAX] }
    }

    /// They are nothing to whoever has the channel now.
    pub fn forget(&mut self) {
        self.until = 0;
    }

    /// Whether these headers are those of a packet of so many bytes now.
    #[inline]
    pub fn holds(&self, now: u64, changes: u32, length: usize) -> bool {
        now < u64::from(self.until) * SECOND && changes == self.changes && length + LENGTH_MAX <= usize::from(self.mtu)
    }

    /// Keeps the headers of a frame that has just been sent to `ends.1` by a port, if they are such as can be kept.
    pub fn keep(&mut self, frame: &Frame, layer: Layer, ends: (Addr, Addr), mtu: usize, (until, changes): (u64, u32)) {
        self.until = 0;
        let stack = match (layer, ends.1.is_v4()) {
            (Layer::Udp, true) => Stack::V4Udp,
            (Layer::Udp, false) => Stack::V6Udp,
            (Layer::Ip, true) => Stack::V4,
            (Layer::Ip, false) => Stack::V6,
            _ => return,
        };
        let length = stack.length();
        let Some(headers) = frame.bytes().get(..length).filter(|_| self.is_plain) else { return };
        self.bytes[..length].copy_from_slice(headers);
        (self.until, self.changes) = (u32::try_from(until / SECOND).unwrap_or(u32::MAX), changes);
        (self.port, self.mtu, self.stack) = (frame.port, mtu.min(usize::from(u16::MAX)) as u16, stack);
        self.sums = [0; 2];
        if stack.is_v4() {
            self.set(ethernet::HEADER + 2, 0);
            self.set(ethernet::HEADER + 10, 0);
            self.sums[0] = Sum::new().bytes(&self.bytes[ethernet::HEADER..V4]).finish();
        }
        if stack.is_udp() {
            let at = length - udp::HEADER;
            self.set(at + 4, 0);
            self.set(at + 6, 0);
            let sum = Sum::new().pseudo_header(ends.0, ends.1, udp::IP_PROTOCOL, 0);
            self.sums[1] = sum.bytes(&self.bytes[at..length]).finish();
        }
    }

    /// Bytes of the headers.
    #[inline]
    pub fn length(&self) -> usize {
        self.stack.length()
    }

    fn set(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Puts the headers in front of a payload; the port that it leaves by. Nothing if there is no room.
    #[inline]
    pub fn put(&self, frame: &mut Frame) -> Option<PortId> {
        match self.stack {
            Stack::V4Udp => self.put_v4::<{ V4 + udp::HEADER }>(frame)?,
            Stack::V4 => self.put_v4::<V4>(frame)?,
            Stack::V6Udp => self.put_v6::<{ V6 + udp::HEADER }>(frame)?,
            Stack::V6 => self.put_v6::<V6>(frame)?,
        }
        Some(self.port)
    }

    #[inline]
    fn put_v4<const LENGTH: usize>(&self, frame: &mut Frame) -> Option<()> {
        let datagram = LENGTH - V4 + frame.len();
        let sum = if LENGTH > V4 { self.datagram_sum(datagram as u16, frame.bytes()) } else { 0 };
        let mut head = *self.bytes.first_chunk::<LENGTH>()?;
        let total = (ipv4::HEADER + datagram) as u16;
        head[ethernet::HEADER + 2..][..2].copy_from_slice(&total.to_be_bytes());
        head[ethernet::HEADER + 10..][..2].copy_from_slice(&checksum::update(self.sums[0], 0, total).to_be_bytes());
        if LENGTH > V4 {
            head[V4 + 4..][..2].copy_from_slice(&(datagram as u16).to_be_bytes());
            head[V4 + 6..][..2].copy_from_slice(&sum.to_be_bytes());
        }
        *frame.prepend(LENGTH)?.first_chunk_mut()? = head;
        Some(())
    }

    #[inline]
    fn put_v6<const LENGTH: usize>(&self, frame: &mut Frame) -> Option<()> {
        let datagram = LENGTH - V6 + frame.len();
        let sum = if LENGTH > V6 { self.datagram_sum(datagram as u16, frame.bytes()) } else { 0 };
        let mut head = *self.bytes.first_chunk::<LENGTH>()?;
        head[ethernet::HEADER + 4..][..2].copy_from_slice(&(datagram as u16).to_be_bytes());
        if LENGTH > V6 {
            head[V6 + 4..][..2].copy_from_slice(&(datagram as u16).to_be_bytes());
            head[V6 + 6..][..2].copy_from_slice(&sum.to_be_bytes());
        }
        *frame.prepend(LENGTH)?.first_chunk_mut()? = head;
        Some(())
    }

    /// UDP's checksum: its length counts in the pseudo-header and in its own.
    #[inline]
    fn datagram_sum(&self, length: u16, payload: &[u8]) -> u16 {
        match Sum::new().word(!self.sums[1]).word(length).word(length).bytes(payload).finish() {
            // Zero would mean "none", and is the same number in one's complement.
            0 => 0xffff,
            sum => sum,
        }
    }
}

impl Stack {
    fn is_v4(self) -> bool {
        matches!(self, Stack::V4 | Stack::V4Udp)
    }

    fn is_udp(self) -> bool {
        matches!(self, Stack::V4Udp | Stack::V6Udp)
    }

    #[inline]
    fn length(self) -> usize {
        let ip = if self.is_v4() { V4 } else { V6 };
        ip + if self.is_udp() { udp::HEADER } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ethernet::{Mac, ethertype};
    use proptest::prelude::*;

    /// A frame as the long way makes it.
    fn long_way(payload: &[u8], layer: Layer, ends: (Addr, Addr)) -> Frame {
        let mut frame = Frame::from_bytes(payload);
        if layer == Layer::Udp {
            let header = udp::Repr { source_port: 9, destination_port: 5000, payload_len: payload.len() };
            header.emit(frame.prepend(udp::HEADER).unwrap()).unwrap();
            udp::PacketMut::new_checked(frame.bytes_mut()).unwrap().fill_checksum(ends.0, ends.1);
        }
        let protocol = if layer == Layer::Udp { udp::IP_PROTOCOL } else { 47 };
        let length = frame.len();
        match (ends.0.bytes_v4(), ends.1.bytes_v4()) {
            (Some(from), Some(to)) => {
                let header = ipv4::Repr::new(from, to, protocol, 64, length);
                header.emit(frame.prepend(ipv4::HEADER).unwrap()).unwrap();
            }
            _ => {
                let header = ipv6::Repr::new(ends.0, ends.1, protocol, 64, length);
                header.emit(frame.prepend(ipv6::HEADER).unwrap()).unwrap();
            }
        }
        let ethertype = if ends.0.is_v4() { ethertype::IPV4 } else { ethertype::IPV6 };
        let header = ethernet::Repr { destination: Mac([2; 6]), source: Mac([4; 6]), tag: None, ethertype };
        header.emit(frame.prepend(ethernet::HEADER).unwrap()).unwrap();
        frame.port = PortId(3);
        frame
    }

    proptest! {
        #[test]
        fn kept_headers_are_those_of_the_long_way(
            first in prop::collection::vec(any::<u8>(), 0..200),
            next in prop::collection::vec(any::<u8>(), 0..1400),
            v4: bool,
            is_udp: bool,
            a: [u8; 4],
            b: [u8; 4],
        ) {
            let wide = |[w, x, y, z]: [u8; 4]| Addr([0x20, 1, w, x, 0, 0, y, 0, 0, 0, 0, 0, 0, 0, 0, z]);
            let ends = if v4 { (Addr::v4(a), Addr::v4(b)) } else { (wide(a), wide(b)) };
            let layer = if is_udp { Layer::Udp } else { Layer::Ip };
            let mut head = Head::unknown(true);
            head.keep(&long_way(&first, layer, ends), layer, ends, 1500, (SECOND, 7));
            prop_assert!(head.holds(9, 7, next.len()) && !head.holds(SECOND, 7, 0) && !head.holds(9, 8, 0));
            let mut frame = Frame::from_bytes(&next);
            prop_assert_eq!(head.put(&mut frame), Some(PortId(3)));
            let expected = long_way(&next, layer, ends);
            prop_assert_eq!(frame.bytes(), expected.bytes());
        }
    }

    #[test]
    fn long_packets_and_those_with_more_to_do_go_the_long_way() {
        let ends = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]));
        let frame = long_way(b"x", Layer::Udp, ends);
        let mut head = Head::unknown(true);
        head.keep(&frame, Layer::Udp, ends, 600, (SECOND, 0));
        assert!(head.holds(1, 0, 600 - LENGTH_MAX) && !head.holds(1, 0, 601 - LENGTH_MAX));
        let mut busy = Head::unknown(false);
        busy.keep(&frame, Layer::Udp, ends, 600, (SECOND, 0));
        assert!(!busy.holds(1, 0, 1), "modules or a bandwidth of its own");
        head.keep(&frame, Layer::Anep, ends, 600, (SECOND, 0));
        assert!(!head.holds(1, 0, 1), "headers that are not kept");
    }
}
