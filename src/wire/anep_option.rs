//! ANEP options: type, length, value, and a flag for nodes that do not know the type.
//!
//! They stand between [`anep`](super::anep)'s basic header and the payload. Public types mean the same in every packet;
//! private ones belong to the type id. Every length counts 32-bit words, the option's header included. Addresses stand
//! in identifiers, one scheme per family.

use super::{Addr, Error, Result, field, put};

/// Types of public options.
pub mod option_type {
    /// Who sent the packet: an identifier.
    pub const SOURCE: u16 = 1;
    /// Who the packet is for: an identifier.
    pub const DESTINATION: u16 = 2;
    /// A checksum over the whole packet.
    pub const CHECKSUM: u16 = 3;
    /// A certificate or signature that no negotiation preceded.
    pub const AUTHENTICATION: u16 = 4;
}

/// Length in bytes of what stands before an option's value.
pub(super) const OPTION_HEADER: usize = 4;
const OPTION_PRIVATE: u16 = 0x8000;
const OPTION_DISCARD: u16 = 0x4000;
const OPTION_TYPE: u16 = 0x3fff;

/// One option as it stands in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt<'a> {
    /// The type means something only together with the packet's type id.
    pub private: bool,
    /// A node that does not know the option must discard the packet.
    pub discard_if_unknown: bool,
    /// The option's type (14 bit), see [`option_type`].
    pub kind: u16,
    /// The option's value, padded to a multiple of 4 bytes.
    pub payload: &'a [u8],
}

impl<'a> Opt<'a> {
    /// Whether the option is one of the draft's own.
    #[inline]
    pub fn is_known(&self) -> bool {
        !self.private && (option_type::SOURCE..=option_type::AUTHENTICATION).contains(&self.kind)
    }

    /// Length on the wire in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        OPTION_HEADER + self.payload.len()
    }

    /// Never: every option has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Reads the option at the beginning of `bytes`, and gives what follows it.
    #[inline]
    fn split(bytes: &'a [u8]) -> Result<(Opt<'a>, &'a [u8])> {
        let header = bytes.first_chunk::<OPTION_HEADER>().ok_or(Error::Truncated)?;
        let word = u16::from_be_bytes(field::<0, _, _>(header));
        let length = usize::from(u16::from_be_bytes(field::<2, _, _>(header))) * 4;
        let (option, rest) = bytes.split_at_checked(length).ok_or(Error::Length)?;
        let payload = option.get(OPTION_HEADER..).ok_or(Error::Length)?;
        let private = word & OPTION_PRIVATE != 0;
        Ok((Opt { private, discard_if_unknown: word & OPTION_DISCARD != 0, kind: word & OPTION_TYPE, payload }, rest))
    }
}

/// The options of a packet, in their order.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// The options in bytes that `check_options` has accepted.
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Options<'a> {
        Options { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Opt<'a>;

    #[inline]
    fn next(&mut self) -> Option<Opt<'a>> {
        let (option, rest) = Opt::split(self.rest).ok()?;
        self.rest = rest;
        Some(option)
    }
}

/// Checks that the chain of options ends where the header ends.
pub(super) fn check_options(mut rest: &[u8]) -> Result<()> {
    while !rest.is_empty() {
        let (option, after) = Opt::split(rest)?;
        if !option.private && option.kind == option_type::CHECKSUM && option.payload.len() != 4 {
            return Err(Error::Length);
        }
        rest = after;
    }
    Ok(())
}

/// Who a packet is from or for, in one of the draft's addressing schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identifier {
    /// Scheme 1 (IPv4) or 2 (IPv6).
    Ip(Addr),
    /// Scheme 3: an IEEE 802.3 address.
    Ethernet([u8; 6]),
}

impl Identifier {
    /// Bytes of the longest value.
    pub(super) const LONGEST: usize = 4 + 16;

    /// Reads an option's value.
    pub(super) fn parse(payload: &[u8]) -> Result<Identifier> {
        match *payload {
            [0, 0, 0, 1, a, b, c, d] => Ok(Identifier::Ip(Addr::v4([a, b, c, d]))),
            [0, 0, 0, 2, ref value @ ..] => {
                let bytes = <[u8; 16]>::try_from(value).map_err(|_| Error::Length)?;
                // A mapped address has scheme 1; accepting both forms would give one node two names.
                let addr = Addr(bytes);
                if addr.is_v4() { Err(Error::Malformed) } else { Ok(Identifier::Ip(addr)) }
            }
            [0, 0, 0, 3, a, b, c, d, e, f, 0, 0] => Ok(Identifier::Ethernet([a, b, c, d, e, f])),
            [0, 0, 0, 1 | 3, ..] => Err(Error::Length),
            [_, _, _, _, ..] => Err(Error::Malformed),
            _ => Err(Error::Truncated),
        }
    }

    /// Writes an option's value and returns its length.
    pub(super) fn emit(&self, payload: &mut [u8; Identifier::LONGEST]) -> usize {
        match *self {
            Identifier::Ip(addr) => match addr.bytes_v4() {
                Some(bytes) => {
                    put::<0, _, _>(payload, 1u32.to_be_bytes());
                    put::<4, _, _>(payload, bytes);
                    8
                }
                None => {
                    put::<0, _, _>(payload, 2u32.to_be_bytes());
                    put::<4, _, _>(payload, addr.0);
                    20
                }
            },
            Identifier::Ethernet(address) => {
                put::<0, _, _>(payload, 3u32.to_be_bytes());
                put::<4, _, _>(payload, address);
                12
            }
        }
    }
}

/// Writes one option at offset `at` of `buf` and returns the offset behind it.
pub(super) fn emit_option(buf: &mut [u8], at: usize, kind: u16, payload: &[&[u8]]) -> Result<usize> {
    let length = OPTION_HEADER + payload.iter().map(|piece| piece.len()).sum::<usize>();
    if !length.is_multiple_of(4) {
        return Err(Error::Length);
    }
    let words = u16::try_from(length / 4).map_err(|_| Error::Length)?;
    let option = buf.get_mut(at..at + length).ok_or(Error::Truncated)?;
    let (header, mut rest) = option.split_first_chunk_mut::<OPTION_HEADER>().ok_or(Error::Truncated)?;
    put::<0, _, _>(header, kind.to_be_bytes());
    put::<2, _, _>(header, words.to_be_bytes());
    for piece in payload {
        let (to, after) = rest.split_at_mut_checked(piece.len()).ok_or(Error::Truncated)?;
        to.copy_from_slice(piece);
        rest = after;
    }
    Ok(at + length)
}
