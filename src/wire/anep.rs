//! ANEP, the Active Network Encapsulation Protocol (draft-active-anep, Alexander et al. 1997): the header of every
//! active packet.
//!
//! It has a version, a type id that names the environment, and options. Natively an ANEP packet is the payload of UDP
//! port [`UDP_PORT`] or of IP protocol [`IP_PROTOCOL`]; in an overlay it is a whole datagram between neighbours. A
//! packet of an unknown type is discarded or forwarded by default routing, as its flag says. Authentication options are
//! carried, not judged.

pub use super::anep_option::{Identifier, Opt, Options, option_type};
use super::anep_option::{OPTION_HEADER, check_options, emit_option};
use super::checksum::checksum;
use super::{Error, Result, field, put};
use crate::contract;

/// Length in bytes of a header without options.
pub const HEADER: usize = 8;
/// The version this implementation speaks.
pub const VERSION: u8 = 1;
/// The UDP destination port of native packets (IANA "active-net").
pub const UDP_PORT: u16 = contract::PORT as u16;
/// The IP protocol that carries ANEP directly (IANA "A/N").
pub const IP_PROTOCOL: u8 = contract::ANEP as u8;

/// What follows the ANEP header.
pub mod type_id {
    /// Reserved by the draft for error messages.
    pub const RESERVED: u16 = 0;
    /// Routing messages of the ANON overlay (not ours).
    pub const ANON: u16 = 1;
    /// The anetd daemon's messages (not ours).
    pub const ANETD: u16 = 51;
    /// A capsule ([`crate::wire::capsule`]).
    pub const CAPSULE: u16 = crate::contract::CAPSULE as u16;
    /// A code-fetch message ([`crate::wire::fetch`]).
    pub const FETCH: u16 = 0x0ac1;
    /// A PLAN packet.
    pub const PLAN: u16 = 0x0ac2;
    /// A revocation ([`crate::wire::revocation`]).
    pub const REVOCATION: u16 = 0x0ac3;
    /// A hello ([`crate::wire::hello`]).
    pub const HELLO: u16 = 0x0ac4;
    /// A message about parts of graphs ([`crate::wire::part`]).
    pub const PART: u16 = 0x0ac5;
}

const FLAGS: usize = 1;
const TYPE_ID: usize = 2;
const HEADER_WORDS: usize = 4;
const PACKET_LENGTH: usize = 6;

const DISCARD: u8 = 0x80;
/// A packet whose lengths and options were checked: reading it cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER],
    options: &'a [u8],
    payload: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks version, lengths and the chain of options. Bytes behind the packet are left out.
    #[inline(always)]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Packet<'a>> {
        let header = bytes.first_chunk::<HEADER>().ok_or(Error::Truncated)?;
        if header[0] != VERSION {
            return Err(Error::Version);
        }
        let header_len = usize::from(u16::from_be_bytes(field::<HEADER_WORDS, _, _>(header))) * 4;
        let packet_len = usize::from(u16::from_be_bytes(field::<PACKET_LENGTH, _, _>(header)));
        if header_len < HEADER || packet_len < header_len {
            return Err(Error::Length);
        }
        let bytes = bytes.get(..packet_len).ok_or(Error::Truncated)?;
        let (head, payload) = bytes.split_at_checked(header_len).ok_or(Error::Length)?;
        let options = head.get(HEADER..).ok_or(Error::Length)?;
        if !options.is_empty() {
            check_options(options)?;
        }
        Ok(Packet { header, options, payload, bytes })
    }

    /// The packet that these bytes are, all of them, if it was checked before and has a header of so many bytes.
    #[inline]
    pub fn again(bytes: &'a [u8], header_len: usize) -> Option<Packet<'a>> {
        let (head, payload) = bytes.split_at_checked(header_len)?;
        let (header, options) = head.split_first_chunk::<HEADER>()?;
        Some(Packet { header, options, payload, bytes })
    }

    /// What follows the header, see [`type_id`].
    #[inline]
    pub fn type_id(&self) -> u16 {
        u16::from_be_bytes(field::<TYPE_ID, _, _>(self.header))
    }

    /// Whether a node that does not know the type must discard the packet instead of forwarding it.
    #[inline]
    pub fn discard_if_unknown(&self) -> bool {
        self.header[FLAGS] & DISCARD != 0
    }

    /// Length of header and options in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER + self.options.len()
    }

    /// What follows header and options.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The packet's own bytes, without what may follow it in the datagram.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The options in their order.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options::new(self.options)
    }

    /// Whether an option that is not known here asks for the packet to be discarded.
    #[inline]
    pub fn unknown_option_discards(&self) -> bool {
        self.options().any(|option| option.discard_if_unknown && !option.is_known())
    }

    /// Whether the integrity checksum is right, or absent.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        let covered = self.options().any(|option| !option.private && option.kind == option_type::CHECKSUM);
        !covered || checksum(self.bytes) == 0
    }
}

/// Writes a header without options for `payload_len` bytes that follow it, with the flag that lets
/// nodes that do not know the type forward the packet. Returns [`HEADER`].
#[inline]
pub fn emit_basic(buf: &mut [u8], type_id: u16, payload_len: usize) -> Result<usize> {
    let header = buf.first_chunk_mut::<HEADER>().ok_or(Error::Truncated)?;
    emit_header(header, type_id, false, HEADER, payload_len)?;
    Ok(HEADER)
}

#[inline]
fn emit_header(
    header: &mut [u8; HEADER],
    type_id: u16,
    discard: bool,
    header_len: usize,
    payload_len: usize,
) -> Result<()> {
    let packet_len = header_len.checked_add(payload_len).ok_or(Error::Length)?;
    let packet_len = u16::try_from(packet_len).map_err(|_| Error::Length)?;
    let words = u16::try_from(header_len / 4).map_err(|_| Error::Length)?;
    header[0] = VERSION;
    header[FLAGS] = if discard { DISCARD } else { 0 };
    put::<TYPE_ID, _, _>(header, type_id.to_be_bytes());
    put::<HEADER_WORDS, _, _>(header, words.to_be_bytes());
    put::<PACKET_LENGTH, _, _>(header, packet_len.to_be_bytes());
    Ok(())
}

/// A whole packet as values: the draft's own options and the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// What the payload is, see [`type_id`].
    pub type_id: u16,
    /// Whether nodes that do not know the type must discard the packet.
    pub discard_if_unknown: bool,
    /// The source identifier option.
    pub source: Option<Identifier>,
    /// The destination identifier option.
    pub destination: Option<Identifier>,
    /// The authentication option's scheme and value (a multiple of 4 bytes).
    pub authentication: Option<(u32, &'a [u8])>,
    /// Whether the packet carries an integrity checksum.
    pub checksum: bool,
    /// What follows the header.
    pub payload: &'a [u8],
}

impl<'a> Repr<'a> {
    /// Reads a packet: verifies its checksum, takes the known options, passes over unknown ones
    /// unless they ask for the packet to be discarded (`Malformed`, as is an option that stands twice).
    pub fn parse(packet: &Packet<'a>) -> Result<Repr<'a>> {
        if !packet.verify_checksum() {
            return Err(Error::Checksum);
        }
        let mut repr = Repr {
            type_id: packet.type_id(),
            discard_if_unknown: packet.discard_if_unknown(),
            source: None,
            destination: None,
            authentication: None,
            checksum: false,
            payload: packet.payload(),
        };
        for option in packet.options() {
            let twice = match option.kind {
                _ if !option.is_known() => option.discard_if_unknown,
                option_type::SOURCE => repr.source.replace(Identifier::parse(option.payload)?).is_some(),
                option_type::DESTINATION => repr.destination.replace(Identifier::parse(option.payload)?).is_some(),
                option_type::CHECKSUM => core::mem::replace(&mut repr.checksum, true),
                _ => {
                    let (scheme, value) = option.payload.split_first_chunk::<4>().ok_or(Error::Truncated)?;
                    repr.authentication.replace((u32::from_be_bytes(*scheme), value)).is_some()
                }
            };
            if twice {
                return Err(Error::Malformed);
            }
        }
        Ok(repr)
    }

    /// Length of header and options in bytes.
    pub fn header_len(&self) -> usize {
        let mut scratch = [0; Identifier::LONGEST];
        let identifiers = [self.source, self.destination];
        let identifiers: usize = identifiers.iter().flatten().map(|id| OPTION_HEADER + id.emit(&mut scratch)).sum();
        let authentication = self.authentication.map_or(0, |(_, value)| OPTION_HEADER + 4 + value.len());
        HEADER + identifiers + authentication + if self.checksum { OPTION_HEADER + 4 } else { 0 }
    }

    /// Length of the packet in bytes.
    pub fn len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    /// Never: every packet has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the packet at the beginning of `buf` and returns its length. `Truncated` if it does
    /// not fit, `Length` if it exceeds 65535 bytes or the authentication is no multiple of 4 bytes.
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize> {
        let buf = buf.get_mut(..self.len()).ok_or(Error::Truncated)?;
        let (header, rest) = buf.split_first_chunk_mut::<HEADER>().ok_or(Error::Truncated)?;
        emit_header(header, self.type_id, self.discard_if_unknown, self.header_len(), self.payload.len())?;
        let mut at = 0;
        for (kind, identifier) in [(option_type::SOURCE, self.source), (option_type::DESTINATION, self.destination)] {
            if let Some(identifier) = identifier {
                let mut payload = [0; Identifier::LONGEST];
                let length = identifier.emit(&mut payload);
                at = emit_option(rest, at, kind, &[payload.get(..length).unwrap_or_default()])?;
            }
        }
        if let Some((scheme, value)) = self.authentication {
            at = emit_option(rest, at, option_type::AUTHENTICATION, &[&scheme.to_be_bytes(), value])?;
        }
        let sum_at = HEADER + at + OPTION_HEADER;
        if self.checksum {
            at = emit_option(rest, at, option_type::CHECKSUM, &[&[0; 4]])?;
        }
        rest.get_mut(at..).ok_or(Error::Truncated)?.copy_from_slice(self.payload);
        if self.checksum {
            let sum = checksum(buf);
            buf.get_mut(sum_at..sum_at + 2).ok_or(Error::Truncated)?.copy_from_slice(&sum.to_be_bytes());
        }
        Ok(self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Addr;
    use super::*;

    fn repr() -> Repr<'static> {
        Repr {
            type_id: type_id::CAPSULE,
            discard_if_unknown: true,
            source: Some(Identifier::Ip(Addr::v4([10, 0, 0, 1]))),
            destination: Some(Identifier::Ethernet([1, 2, 3, 4, 5, 6])),
            authentication: Some((2, b"certificate.")),
            checksum: true,
            payload: b"odd",
        }
    }

    #[test]
    fn the_basic_header_is_a_packet_that_unknowing_nodes_forward() {
        let mut buf = [0xff; HEADER + 5];
        assert_eq!(emit_basic(&mut buf, type_id::FETCH, 4), Ok(HEADER));
        let packet = Packet::new_checked(&buf).unwrap();
        assert_eq!((packet.type_id(), packet.header_len(), packet.payload().len()), (type_id::FETCH, HEADER, 4));
        assert!(!packet.discard_if_unknown() && packet.verify_checksum());
        assert_eq!(emit_basic(&mut buf, 1, 65528), Err(Error::Length));
        assert_eq!(emit_basic(&mut buf, 1, usize::MAX), Err(Error::Length));
        assert_eq!(emit_basic(&mut buf[..7], 1, 0), Err(Error::Truncated));
    }

    #[test]
    fn options_round_trip_and_the_checksum_covers_everything() {
        let mut buf = [0; 200];
        let length = repr().emit(&mut buf).unwrap();
        let packet = Packet::new_checked(&buf[..length]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr()));
        // The checksum option's own header is left out: bent, it is another option, and nothing is covered.
        let option = length - repr().payload.len() - 8;
        for at in (0..length).filter(|at| !(option..option + 4).contains(at)) {
            let mut bent = buf;
            bent[at] ^= 0x10;
            assert!(!Packet::new_checked(&bent[..length]).is_ok_and(|packet| packet.verify_checksum()), "byte {at}");
        }
    }

    #[test]
    fn lying_lengths_are_refused() {
        let cases: [(&[u8], Error); 7] = [
            (&[1, 0, 0, 1, 0, 2, 0], Error::Truncated),
            (&[2, 0, 0, 1, 0, 2, 0, 8], Error::Version),
            (&[1, 0, 0, 1, 0, 1, 0, 8], Error::Length),
            (&[1, 0, 0, 1, 0, 3, 0, 8], Error::Length),
            (&[1, 0, 0, 1, 0, 2, 0, 9], Error::Truncated),
            (&[1, 0, 0, 1, 0, 3, 0, 12, 0, 1, 0, 0], Error::Length),
            (&[1, 0, 0, 1, 0, 3, 0, 12, 0, 1, 0, 2], Error::Length),
        ];
        for (bytes, error) in cases {
            assert_eq!(Packet::new_checked(bytes), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn the_bits_of_an_option_are_told_apart() {
        for (word, private, discard, kind) in [
            (0x0001, false, false, 1),
            (0x4001, false, true, 1),
            (0x8001, true, false, 1),
            (0xffff, true, true, 0x3fff),
        ] {
            let [a, b] = u16::to_be_bytes(word);
            let bytes = [1, 0, 0, 1, 0, 4, 0, 16, a, b, 0, 2, 1, 2, 3, 4];
            let packet = Packet::new_checked(&bytes).unwrap();
            let expected = Opt { private, discard_if_unknown: discard, kind, payload: &[1, 2, 3, 4] };
            assert_eq!(packet.options().collect::<Vec<_>>(), vec![expected]);
            assert_eq!(packet.unknown_option_discards(), discard && private, "{word:#x}");
        }
    }

    #[test]
    fn an_unknown_option_discards_only_if_it_says_so() {
        let mut bytes = [1, 0, 0, 1, 0, 3, 0, 12, 0x00, 0x77, 0, 1];
        assert!(Repr::parse(&Packet::new_checked(&bytes).unwrap()).is_ok());
        bytes[8] = 0x40;
        let packet = Packet::new_checked(&bytes).unwrap();
        assert!(packet.unknown_option_discards());
        assert_eq!(Repr::parse(&packet), Err(Error::Malformed));
    }
}
