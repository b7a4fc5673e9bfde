//! IPv6 headers (RFC 8200) and the extension headers that may stand before UDP or ANEP.
//!
//! [`Packet::new_checked`] walks the chain (hop-by-hop, destination options, routing, fragment,
//! authentication), at most [`EXTENSIONS_MAX`] headers, and shows what comes behind it. The
//! headers' contents are not acted upon: who forwards a packet must look at
//! [`Packet::segments_left`] and [`Packet::is_fragment`]. An IPv4-mapped address in an IPv6 header
//! is malformed, because everywhere else here it means IPv4 (RFC 4942 §2.2). Jumbograms are not spoken.

use super::{Addr, Error, Result, field, put};

/// Length in bytes of the fixed header.
pub const HEADER: usize = 40;
/// Most extension headers that are walked; a longer chain is malformed.
pub const EXTENSIONS_MAX: usize = 8;

/// Numbers of the headers that are walked, and of the end of the chain.
pub mod next_header {
    /// Hop-by-hop options: only directly behind the fixed header.
    pub const HOP_BY_HOP: u8 = 0;
    /// Routing.
    pub const ROUTING: u8 = 43;
    /// Fragment.
    pub const FRAGMENT: u8 = 44;
    /// Authentication (RFC 4302).
    pub const AUTHENTICATION: u8 = 51;
    /// Nothing follows.
    pub const NONE: u8 = 59;
    /// Destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
}

const PAYLOAD_LENGTH: usize = 4;
const NEXT_HEADER: usize = 6;
const HOP_LIMIT: usize = 7;
const SOURCE: usize = 8;
const DESTINATION: usize = 24;

/// What a fragment header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where the payload stands in the datagram, in bytes.
    pub offset: u32,
    /// Whether later fragments follow this one.
    pub more: bool,
    /// What the fragments of one datagram have in common.
    pub identification: u32,
}

/// A packet whose lengths and extension headers were checked: reading it cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER],
    chain: Chain,
    payload: &'a [u8],
}

/// What the extension headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chain {
    /// Their length in bytes.
    length: usize,
    fragment: Option<Fragment>,
    segments_left: u8,
    /// What follows them.
    protocol: u8,
}

impl<'a> Packet<'a> {
    /// Checks version, lengths, addresses and the chain of extension headers. Bytes behind the
    /// packet (a short frame's padding) are left out.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Packet<'a>> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(Error::Truncated)?;
        if header[0] >> 4 != 6 {
            return Err(Error::Version);
        }
        let length = usize::from(u16::from_be_bytes(field::<PAYLOAD_LENGTH, _, _>(header)));
        let payload = rest.get(..length).ok_or(Error::Truncated)?;
        if mapped::<SOURCE>(header) || mapped::<DESTINATION>(header) {
            return Err(Error::Malformed);
        }
        let chain = match header[NEXT_HEADER] {
            first if is_extension(first) => walk(first, payload)?,
            protocol => Chain { length: 0, fragment: None, segments_left: 0, protocol },
        };
        let payload = payload.get(chain.length..).ok_or(Error::Truncated)?;
        Ok(Packet { header, chain, payload })
    }

    /// Length in bytes of the fixed header and the extension headers that were walked.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER + self.chain.length
    }

    /// Length of the packet in bytes.
    #[inline]
    pub fn total_len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    /// Traffic class: DSCP (6 bit) and ECN (2 bit).
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        self.header[0] << 4 | self.header[1] >> 4
    }

    /// Flow label (20 bit).
    #[inline]
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes(field::<0, _, _>(self.header)) & 0xf_ffff
    }

    /// Hops the packet may still make.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.header[HOP_LIMIT]
    }

    /// The sender.
    #[inline]
    pub fn source(&self) -> Addr {
        Addr(field::<SOURCE, _, _>(self.header))
    }

    /// The receiver; not the last one if [`Packet::segments_left`] is not zero.
    #[inline]
    pub fn destination(&self) -> Addr {
        Addr(field::<DESTINATION, _, _>(self.header))
    }

    /// Receivers that a routing header still has in store.
    #[inline]
    pub fn segments_left(&self) -> u8 {
        self.chain.segments_left
    }

    /// The fragment header, if there is one.
    #[inline]
    pub fn fragment(&self) -> Option<Fragment> {
        self.chain.fragment
    }

    /// Whether the packet is a piece of a datagram. A fragment header around a whole datagram
    /// (RFC 6946) does not make it one.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.chain.fragment.is_some_and(|fragment| fragment.offset != 0 || fragment.more)
    }

    /// What the payload is: the number at the end of the chain.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.chain.protocol
    }

    /// What follows the extension headers.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Goes along the chain until something comes that is no extension header. Kept out of the way of
/// packets that have none, and so are read without a detour over memory.
#[inline(never)]
fn walk(first: u8, payload: &[u8]) -> Result<Chain> {
    let mut chain = Chain { length: 0, fragment: None, segments_left: 0, protocol: first };
    for at in 0..EXTENSIONS_MAX {
        if chain.protocol == next_header::HOP_BY_HOP && at != 0 {
            return Err(Error::Malformed);
        }
        let rest = payload.get(chain.length..).ok_or(Error::Truncated)?;
        let header = rest.first_chunk::<8>().ok_or(Error::Truncated)?;
        let units = usize::from(header[1]);
        chain.length += match chain.protocol {
            next_header::FRAGMENT => 8,
            next_header::AUTHENTICATION => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        match chain.protocol {
            next_header::FRAGMENT => chain.fragment = Some(fragment(header)),
            next_header::ROUTING => chain.segments_left = header[3],
            _ => {}
        }
        chain.protocol = header[0];
        // In a later fragment the chain's end lies in the first: what follows is mere data.
        if !is_extension(chain.protocol) || chain.fragment.is_some_and(|fragment| fragment.offset != 0) {
            return Ok(chain);
        }
    }
    Err(Error::Malformed)
}

/// Whether the address at `AT` is an IPv4-mapped one.
#[inline]
fn mapped<const AT: usize>(header: &[u8; HEADER]) -> bool {
    Addr(field::<AT, _, _>(header)).is_v4()
}

#[inline]
fn is_extension(number: u8) -> bool {
    matches!(
        number,
        next_header::HOP_BY_HOP
            | next_header::ROUTING
            | next_header::FRAGMENT
            | next_header::AUTHENTICATION
            | next_header::DESTINATION_OPTIONS
    )
}

fn fragment(header: &[u8; 8]) -> Fragment {
    let word = u16::from_be_bytes(field::<2, _, _>(header));
    let identification = u32::from_be_bytes(field::<4, _, _>(header));
    Fragment { offset: u32::from(word & 0xfff8), more: word & 1 != 0, identification }
}

/// A packet whose fixed header can be changed in place.
#[derive(Debug)]
pub struct PacketMut<'a> {
    header: &'a mut [u8; HEADER],
}

impl<'a> PacketMut<'a> {
    /// Checks what [`Packet::new_checked`] checks.
    #[inline]
    pub fn new_checked(bytes: &'a mut [u8]) -> Result<PacketMut<'a>> {
        Packet::new_checked(bytes)?;
        Ok(PacketMut { header: bytes.first_chunk_mut::<HEADER>().ok_or(Error::Truncated)? })
    }

    /// Takes one hop from the hop limit and returns what is left; nothing changes if no further
    /// hop is allowed (the hop limit is 0 or 1).
    #[inline]
    pub fn decrement_hop_limit(&mut self) -> Option<u8> {
        let left = self.header[HOP_LIMIT].checked_sub(1).filter(|left| *left > 0)?;
        self.header[HOP_LIMIT] = left;
        Some(left)
    }

    /// Sets the sender.
    #[inline]
    pub fn set_source(&mut self, addr: Addr) {
        put::<SOURCE, _, _>(self.header, addr.0);
    }

    /// Sets the receiver.
    #[inline]
    pub fn set_destination(&mut self, addr: Addr) {
        put::<DESTINATION, _, _>(self.header, addr.0);
    }
}

/// A header without extension headers, as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The sender.
    pub source: Addr,
    /// The receiver.
    pub destination: Addr,
    /// What the payload is.
    pub protocol: u8,
    /// Hops the packet may still make.
    pub hop_limit: u8,
    /// Traffic class: DSCP (6 bit) and ECN (2 bit).
    pub traffic_class: u8,
    /// Flow label (20 bit).
    pub flow_label: u32,
    /// Bytes that follow the header.
    pub payload_len: usize,
}

impl Repr {
    /// The header of a packet with neither traffic class nor flow label.
    #[inline]
    pub fn new(source: Addr, destination: Addr, protocol: u8, hop_limit: u8, payload_len: usize) -> Repr {
        Repr { source, destination, protocol, hop_limit, traffic_class: 0, flow_label: 0, payload_len }
    }

    /// The fixed header of a packet as if it had no extension headers.
    #[inline]
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr {
            source: packet.source(),
            destination: packet.destination(),
            protocol: packet.protocol(),
            hop_limit: packet.hop_limit(),
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            payload_len: packet.payload.len(),
        }
    }

    /// Writes the header at the beginning of `buf` and returns [`HEADER`]. `Length` if the payload
    /// is too long, `Malformed` for an IPv4 address or a flow label of more than 20 bits.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize> {
        let header = buf.first_chunk_mut::<HEADER>().ok_or(Error::Truncated)?;
        let length = u16::try_from(self.payload_len).map_err(|_| Error::Length)?;
        if self.source.is_v4() || self.destination.is_v4() || self.flow_label > 0xf_ffff {
            return Err(Error::Malformed);
        }
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
        put::<0, _, _>(header, word.to_be_bytes());
        put::<PAYLOAD_LENGTH, _, _>(header, length.to_be_bytes());
        header[NEXT_HEADER] = self.protocol;
        header[HOP_LIMIT] = self.hop_limit;
        put::<SOURCE, _, _>(header, self.source.0);
        put::<DESTINATION, _, _>(header, self.destination.0);
        Ok(HEADER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(first: u8, payload: &[u8]) -> Vec<u8> {
        let repr = Repr::new(Addr([0x20; 16]), Addr([0x21; 16]), first, 64, payload.len());
        let mut bytes = vec![0; HEADER];
        repr.emit(&mut bytes).unwrap();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn end(first: u8, payload: &[u8]) -> Result<(u8, usize)> {
        Packet::new_checked(&packet(first, payload)).map(|packet| (packet.protocol(), packet.payload().len()))
    }

    #[test]
    fn the_chain_is_walked_to_its_end() {
        let chain = [[60, 0, 1, 4, 0, 0, 0, 0], [43, 0, 1, 4, 0, 0, 0, 0], [17, 0, 4, 3, 0, 0, 0, 0], [9; 8]].concat();
        assert_eq!(end(0, &chain), Ok((17, 8)));
        let bytes = packet(0, &chain);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!((packet.header_len(), packet.segments_left(), packet.total_len()), (64, 3, 72));
        assert_eq!(end(51, &[107, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]), Ok((107, 1)));
        assert_eq!(end(59, &[1, 2]), Ok((59, 2)));
        assert_eq!(end(50, &[1, 2]), Ok((50, 2)));
    }

    #[test]
    fn a_broken_chain_is_refused() {
        assert_eq!(end(60, &[17, 0, 0, 0, 0, 0, 0]), Err(Error::Truncated));
        assert_eq!(end(60, &[17, 1, 0, 0, 0, 0, 0, 0]), Err(Error::Truncated));
        assert_eq!(end(60, &[0, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0]), Err(Error::Malformed));
        assert_eq!(end(60, &[60, 0, 0, 0, 0, 0, 0, 0].repeat(EXTENSIONS_MAX)), Err(Error::Malformed));
    }

    #[test]
    fn behind_a_later_fragment_there_is_only_data() {
        let later = [60, 0, 0, 8, 0, 0, 0, 5, 1, 2];
        let bytes = packet(44, &later);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert!(packet.is_fragment());
        assert_eq!(packet.fragment(), Some(Fragment { offset: 8, more: false, identification: 5 }));
        assert_eq!((packet.protocol(), packet.payload()), (60, &[1, 2][..]));
    }

    #[test]
    fn a_whole_datagram_in_a_fragment_header_is_whole() {
        let bytes = packet(44, &[17, 0, 0, 0, 0, 0, 0, 5]);
        assert!(!Packet::new_checked(&bytes).unwrap().is_fragment());
        let bytes = packet(44, &[17, 0, 0, 1, 0, 0, 0, 5]);
        assert!(Packet::new_checked(&bytes).unwrap().is_fragment());
    }

    #[test]
    fn mapped_addresses_do_not_pass_for_ipv4() {
        let mut bytes = packet(17, &[]);
        bytes[SOURCE..SOURCE + 16].copy_from_slice(&Addr::v4([10, 0, 0, 1]).0);
        assert_eq!(Packet::new_checked(&bytes), Err(Error::Malformed));
        let repr = Repr::new(Addr([1; 16]), Addr::v4([1; 4]), 17, 1, 0);
        assert_eq!(repr.emit(&mut bytes), Err(Error::Malformed));
    }

    #[test]
    fn the_hop_limit_stops_at_one() {
        let mut bytes = packet(17, &[]);
        for left in (1..64).rev() {
            assert_eq!(PacketMut::new_checked(&mut bytes).unwrap().decrement_hop_limit(), Some(left));
        }
        assert_eq!(PacketMut::new_checked(&mut bytes).unwrap().decrement_hop_limit(), None);
    }
}
