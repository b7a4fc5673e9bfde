//! A packet as engines of a graph look at it: where its IPv4 header is, and what is behind that.
//!
//! `Strip(14)` makes a packet begin with its IP header; `CheckIPHeader` and `MarkIPHeader` note where that is ([`Notes::network`]), which
//! stays true while headers before it come and go.

use crate::frame::{Frame, Notes};
use crate::graph::arguments::Ip4;
use crate::wire::checksum::{self, Sum};
use crate::wire::{Addr, ipv4};

/// Numbers of protocols in an IP header.
pub mod protocol {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
}

/// Notes that the IP header begins so many bytes behind the packet's beginning.
#[inline]
pub fn note_ip(frame: &mut Frame, offset: usize) {
    let at = frame.extent().0 + offset + 1;
    frame.notes.network = u16::try_from(at).unwrap_or(0);
}

/// Where the IP header begins in the packet: where that was noted, else at its beginning.
#[inline]
pub fn ip_at(frame: &Frame) -> usize {
    let Notes { network, .. } = frame.notes;
    usize::from(network).checked_sub(1 + frame.extent().0).filter(|at| *at < frame.len()).unwrap_or(0)
}

/// The bytes from the IP header on.
#[inline]
pub fn from_ip(frame: &Frame) -> &[u8] {
    frame.bytes().get(ip_at(frame)..).unwrap_or_default()
}

/// The same, to change.
#[inline]
pub fn from_ip_mut(frame: &mut Frame) -> &mut [u8] {
    let at = ip_at(frame);
    frame.bytes_mut().get_mut(at..).unwrap_or_default()
}

/// The IPv4 packet, if its lengths are right.
#[inline]
pub fn ip(frame: &Frame) -> Option<ipv4::Packet<'_>> {
    ipv4::Packet::new_checked(from_ip(frame)).ok()
}

/// Source and destination.
#[inline]
pub fn ends(frame: &Frame) -> Option<(Ip4, Ip4)> {
    let packet = ip(frame)?;
    Some((Ip4(packet.source().bytes_v4()?), Ip4(packet.destination().bytes_v4()?)))
}

/// The length of the IPv4 header.
#[inline]
fn header_length(bytes: &[u8]) -> usize {
    bytes.first().map_or(0, |first| usize::from(first & 0xf) * 4)
}

/// Puts the right checksum into an IPv4 header.
pub fn sum_ip(bytes: &mut [u8]) {
    let length = header_length(bytes);
    let Some(header) = bytes.get_mut(..length).filter(|header| header.len() >= ipv4::HEADER) else { return };
    header[10..12].fill(0);
    let sum = checksum::checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Changes two bytes of an IPv4 header, and its checksum with them.
pub fn change_word(bytes: &mut [u8], at: usize, word: [u8; 2]) {
    let Some(old) = bytes.get(at..at + 2).map(|old| u16::from_be_bytes([old[0], old[1]])) else { return };
    let Some(before) = bytes.get(10..12).map(|sum| u16::from_be_bytes([sum[0], sum[1]])) else { return };
    let sum = checksum::update(before, old, u16::from_be_bytes(word));
    bytes[at..at + 2].copy_from_slice(&word);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The offset of a transport's checksum behind its header's beginning; nothing if the packet has none.
fn sum_at(protocol: u8) -> Option<usize> {
    match protocol {
        protocol::TCP => Some(16),
        protocol::UDP => Some(6),
        _ => None,
    }
}

/// Puts the right checksum into the TCP or UDP header of an IPv4 packet that is no fragment; whether it could.
pub fn sum_transport(bytes: &mut [u8], of: u8) -> bool {
    let Ok(packet) = ipv4::Packet::new_checked(bytes) else { return false };
    let Some(at) = sum_at(of).filter(|_| packet.protocol() == of && !packet.is_fragment()) else { return false };
    let (header, total) = (packet.header_len(), packet.total_len());
    let (source, destination) = (packet.source(), packet.destination());
    let Some(segment) = bytes.get_mut(header..total).filter(|segment| segment.len() >= at + 2) else { return false };
    segment[at..at + 2].fill(0);
    let sum = transport_sum(segment, (source, destination), of).finish();
    let sum = if sum == 0 && of == protocol::UDP { 0xffff } else { sum };
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// The sum over a segment with its pseudo-header: 0 where its checksum is right.
pub fn transport_sum(segment: &[u8], (source, destination): (Addr, Addr), of: u8) -> Sum {
    Sum::new().pseudo_header(source, destination, of, segment.len() as u32).bytes(segment)
}

/// A flow of TCP or UDP, or of ICMP's questions: source and destination with their ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowEnds {
    /// The protocol.
    pub protocol: u8,
    /// From whom.
    pub source: (Ip4, u16),
    /// To whom.
    pub destination: (Ip4, u16),
}

impl FlowEnds {
    /// The flow of a packet; nothing if it is a later fragment, or has no ports.
    pub fn of(bytes: &[u8]) -> Option<FlowEnds> {
        let packet = ipv4::Packet::new_checked(bytes).ok()?;
        let (source, destination) = (Ip4(packet.source().bytes_v4()?), Ip4(packet.destination().bytes_v4()?));
        let protocol = packet.protocol();
        let has_ports = matches!(protocol, protocol::TCP | protocol::UDP) && packet.fragment_offset() == 0;
        let ports = packet.payload().first_chunk::<4>().filter(|_| has_ports)?;
        let [from, to] = [[ports[0], ports[1]], [ports[2], ports[3]]].map(u16::from_be_bytes);
        Some(FlowEnds { protocol, source: (source, from), destination: (destination, to) })
    }

    /// The flow of an ICMP echo request, or of its reply: the identifier is the port of either end (RFC 5508 §3.1). And whether it is a
    /// request.
    pub fn of_ping(bytes: &[u8]) -> Option<(FlowEnds, bool)> {
        let packet = ipv4::Packet::new_checked(bytes).ok()?;
        let is_first = packet.protocol() == protocol::ICMP && packet.fragment_offset() == 0;
        let ends = FlowEnds::beginning(bytes, packet.header_len()).filter(|_| is_first)?;
        Some((ends, packet.payload().first() == Some(&8)))
    }

    /// The flow of a packet of which an error quotes the beginning.
    pub fn quoted(bytes: &[u8]) -> Option<FlowEnds> {
        let header = header_length(bytes);
        let is_first =
            bytes.first()? >> 4 == 4 && header >= ipv4::HEADER && bytes.get(6..8)?[0] & 0x1f == 0 && bytes[7] == 0;
        FlowEnds::beginning(bytes, header).filter(|_| is_first)
    }

    /// The same of a packet that begins like that, whatever its lengths say.
    fn beginning(bytes: &[u8], header: usize) -> Option<FlowEnds> {
        let address = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(Ip4);
        let transport = bytes.get(header..header + 8)?;
        let word = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
        let protocol = *bytes.get(9)?;
        let (from, to) = match protocol {
            protocol::TCP | protocol::UDP => (word(0), word(2)),
            protocol::ICMP if matches!(transport[0], 0 | 8) => (word(4), word(4)),
            _ => return None,
        };
        Some(FlowEnds { protocol, source: (address(12)?, from), destination: (address(16)?, to) })
    }

    /// The answers' flow.
    pub fn reversed(self) -> FlowEnds {
        FlowEnds { source: self.destination, destination: self.source, ..self }
    }

    /// Gives a packet these ends instead of its own, and carries its checksums over.
    pub fn write(self, bytes: &mut [u8]) {
        let header = header_length(bytes);
        if self.protocol == protocol::ICMP {
            return self.write_ping(bytes, header);
        }
        let transport = sum_at(self.protocol).map(|at| header + at);
        let has_sum = transport.and_then(|at| bytes.get(at..at + 2)).is_some_and(|sum| sum != [0, 0])
            || self.protocol == protocol::TCP;
        let ends = [(12, self.source.0), (16, self.destination.0)];
        for (at, address) in ends {
            for half in [0, 2] {
                let word = [address.0[half], address.0[half + 1]];
                carry(bytes, transport.filter(|_| has_sum), at + half, word);
                change_word(bytes, at + half, word);
            }
        }
        for (at, port) in [(header, self.source.1), (header + 2, self.destination.1)] {
            let word = port.to_be_bytes();
            carry(bytes, transport.filter(|_| has_sum), at, word);
            if let Some(place) = bytes.get_mut(at..at + 2) {
                place.copy_from_slice(&word);
            }
        }
        // None becomes 0 by being carried over, which would say that there is none (RFC 768).
        if let Some(sum) = transport.filter(|_| has_sum && self.protocol == protocol::UDP)
            && let Some(none @ [0, 0]) = bytes.get_mut(sum..sum + 2)
        {
            none.fill(0xff);
        }
    }
}

impl FlowEnds {
    /// The same of a ping, whose checksum knows nothing of addresses.
    fn write_ping(self, bytes: &mut [u8], header: usize) {
        for (at, address) in [(12, self.source.0), (16, self.destination.0)] {
            for half in [0, 2] {
                change_word(bytes, at + half, [address.0[half], address.0[half + 1]]);
            }
        }
        let identifier = self.source.1.to_be_bytes();
        carry(bytes, Some(header + 2), header + 4, identifier);
        if let Some(place) = bytes.get_mut(header + 4..header + 6) {
            place.copy_from_slice(&identifier);
        }
    }
}

/// Gives a TCP segment other numbers: of its first byte, and of the byte that is asked for next, if one is, with what has come beyond that
/// (selective acknowledgements, RFC 2018).
pub fn renumber(bytes: &mut [u8], said: impl Fn(u32) -> u32, asked: impl Fn(u32) -> u32) {
    let header = header_length(bytes);
    change_long(bytes, header, header + 4, &said);
    if bytes.get(header + 13).is_some_and(|flags| flags & 0x10 != 0) {
        change_long(bytes, header, header + 8, &asked);
    }
    let end = header + bytes.get(header + 12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    let mut at = header + 20;
    while at + 1 < end.min(bytes.len()) {
        match (bytes[at], usize::from(bytes[at + 1])) {
            (0, _) => return,
            (1, _) => at += 1,
            (kind, length) if length >= 2 => {
                let edges = (at + 2..(at + length).min(end)).step_by(4).filter(|_| kind == SACK);
                edges.for_each(|at| change_long(bytes, header, at, &asked));
                at += length;
            }
            _ => return,
        }
    }
}

/// The option with selective acknowledgements.
const SACK: u8 = 5;

/// Changes four bytes of a TCP segment whose header begins there, with its checksum.
fn change_long(bytes: &mut [u8], header: usize, at: usize, to: &dyn Fn(u32) -> u32) {
    let Some(old) = bytes.get(at..at + 4).and_then(|old| old.try_into().ok()).map(u32::from_be_bytes) else { return };
    let new = to(old).to_be_bytes();
    for (place, byte) in (at..).zip(new) {
        change_byte(bytes, header, place, byte);
    }
}

/// Changes a byte of a TCP segment, with its checksum.
fn change_byte(bytes: &mut [u8], header: usize, at: usize, byte: u8) {
    let from = at - (at - header) % 2;
    let Some(word) = bytes.get(from..from + 2).and_then(|word| <[u8; 2]>::try_from(word).ok()) else { return };
    let mut changed = word;
    changed[at - from] = byte;
    carry(bytes, Some(header + 16), from, changed);
    bytes[at] = byte;
}

/// A transport's checksum after a word under it has changed.
fn carry(bytes: &mut [u8], sum: Option<usize>, at: usize, word: [u8; 2]) {
    let Some(sum) = sum else { return };
    let both = |at: usize| bytes.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
    if let (Some(before), Some(old)) = (both(sum), both(at)) {
        let after = checksum::update(before, old, u16::from_be_bytes(word));
        bytes[sum..sum + 2].copy_from_slice(&after.to_be_bytes());
    }
}

/// An IPv4 header without options before `payload`: written into its first 20 bytes.
pub fn write_ip(bytes: &mut [u8], (source, destination): (Ip4, Ip4), protocol: u8, (ttl, id): (u8, u16)) {
    let total = bytes.len().min(usize::from(u16::MAX)) as u16;
    let Some(header) = bytes.get_mut(..ipv4::HEADER) else { return };
    header.fill(0);
    header[0] = 0x45;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[4..6].copy_from_slice(&id.to_be_bytes());
    (header[8], header[9]) = (ttl, protocol);
    header[12..16].copy_from_slice(&source.0);
    header[16..20].copy_from_slice(&destination.0);
    sum_ip(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp() -> Vec<u8> {
        let mut bytes = vec![0; 33];
        write_ip(&mut bytes, (Ip4([10, 0, 0, 1]), Ip4([10, 0, 0, 2])), protocol::UDP, (64, 7));
        bytes[20..28].copy_from_slice(&[0x12, 0x34, 0, 53, 0, 13, 0, 0]);
        bytes[28..].copy_from_slice(b"hello");
        assert!(sum_transport(&mut bytes, protocol::UDP));
        bytes
    }

    #[test]
    fn sums_stay_right_when_the_ends_change() {
        let mut bytes = udp();
        let before = FlowEnds::of(&bytes).unwrap();
        let after =
            FlowEnds { source: (Ip4([192, 0, 2, 9]), 1024), destination: (Ip4([198, 51, 100, 7]), 80), ..before };
        after.write(&mut bytes);
        assert_eq!(FlowEnds::of(&bytes), Some(after));
        let packet = ipv4::Packet::new_checked(&bytes).unwrap();
        assert_eq!(checksum::checksum(&bytes[..20]), 0);
        let sum = transport_sum(packet.payload(), (packet.source(), packet.destination()), protocol::UDP);
        assert_eq!(sum.finish(), 0);
        after.reversed().reversed().write(&mut bytes);
        assert_eq!(before.reversed().reversed(), before);
    }

    #[test]
    fn all_numbers_of_a_segment_change_with_its_sum() {
        // Options: a no-operation, so that the blocks begin at an odd place, two blocks, and the end.
        let options = [&[1, 5, 18][..], &[0, 0, 1, 0, 0, 0, 1, 9, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 7], &[0]].concat();
        let mut bytes = vec![0; 20 + 20 + options.len() + 3];
        write_ip(&mut bytes, (Ip4([10, 0, 0, 1]), Ip4([10, 0, 0, 2])), protocol::TCP, (64, 7));
        bytes[24..32].copy_from_slice(&[0, 0, 0, 50, 0, 0, 0, 60]);
        (bytes[32], bytes[33]) = (10 << 4, 0x10);
        bytes[40..40 + options.len()].copy_from_slice(&options);
        assert!(sum_transport(&mut bytes, protocol::TCP));
        renumber(&mut bytes, |said| said + 3, |asked| asked.wrapping_sub(2));
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!([24, 28, 43, 47, 51, 55].map(word), [53, 58, 254, 263, u32::MAX - 2, 5]);
        let packet = ipv4::Packet::new_checked(&bytes).unwrap();
        let sum = transport_sum(packet.payload(), (packet.source(), packet.destination()), protocol::TCP);
        assert_eq!(sum.finish(), 0);
        // Lengths that lie.
        for lie in [0, 1, 200] {
            let mut bent = bytes.clone();
            bent[42] = lie;
            renumber(&mut bent, |said| said, |asked| asked);
            assert_eq!(bent[43..], bytes[43..]);
        }
        renumber(&mut bytes[..24], |said| said, |asked| asked);
    }

    #[test]
    fn the_header_is_found_while_headers_before_it_come_and_go() {
        let mut frame = Frame::from_bytes(&[vec![0; 14], udp()].concat());
        note_ip(&mut frame, 14);
        assert_eq!(ip_at(&frame), 14);
        frame.strip(14);
        assert_eq!((ip_at(&frame), ends(&frame)), (0, Some((Ip4([10, 0, 0, 1]), Ip4([10, 0, 0, 2])))));
        frame.prepend(18).unwrap().fill(0);
        assert_eq!(ip_at(&frame), 18);
        assert!(ip(&frame).is_some());
    }
}
