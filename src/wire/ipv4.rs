//! IPv4 headers (RFC 791) with options and fragments.
//!
//! Natively a capsule travels in IPv4 like any other packet: nodes that are not active forward it
//! by this header, active ones look behind it. Fragments are recognised and never put together
//! (a capsule must fit into one packet); options are carried and can be listed, none is acted upon.
//! A hop changes the time to live and updates the checksum incrementally (RFC 1624).

use super::checksum::{self, Sum};
use super::{Addr, Error, Result, field, put};

/// Length in bytes of a header without options.
pub const HEADER: usize = 20;
/// Most bytes of options.
pub const OPTIONS_MAX: usize = 40;

const TOS: usize = 1;
const TOTAL_LENGTH: usize = 2;
const IDENTIFICATION: usize = 4;
const FRAGMENT: usize = 6;
const TTL: usize = 8;
const PROTOCOL: usize = 9;
const CHECKSUM: usize = 10;
const SOURCE: usize = 12;
const DESTINATION: usize = 16;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// A packet whose lengths were checked: reading it cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks version and lengths, not the checksum. Bytes behind the packet (a short frame's
    /// padding) are left out.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Packet<'a>> {
        let header = bytes.first_chunk::<HEADER>().ok_or(Error::Truncated)?;
        if header[0] >> 4 != 4 {
            return Err(Error::Version);
        }
        let header_len = usize::from(header[0] & 0xf) * 4;
        let total = usize::from(u16::from_be_bytes(field::<TOTAL_LENGTH, _, _>(header)));
        if header_len < HEADER || total < header_len {
            return Err(Error::Length);
        }
        let bytes = bytes.get(..total).ok_or(Error::Truncated)?;
        let (head, payload) = bytes.split_at_checked(header_len).ok_or(Error::Length)?;
        let options = head.get(HEADER..).ok_or(Error::Length)?;
        Ok(Packet { header, options, payload })
    }

    /// Length of header and options in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER + self.options.len()
    }

    /// Length of the packet in bytes.
    #[inline]
    pub fn total_len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    /// Type of service: DSCP (6 bit) and ECN (2 bit).
    #[inline]
    pub fn tos(&self) -> u8 {
        self.header[TOS]
    }

    /// What the fragments of one datagram have in common.
    #[inline]
    pub fn identification(&self) -> u16 {
        u16::from_be_bytes(field::<IDENTIFICATION, _, _>(self.header))
    }

    #[inline]
    fn fragment(&self) -> u16 {
        u16::from_be_bytes(field::<FRAGMENT, _, _>(self.header))
    }

    /// Whether routers may not fragment the packet.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.fragment() & DONT_FRAGMENT != 0
    }

    /// Whether later fragments follow this one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.fragment() & MORE_FRAGMENTS != 0
    }

    /// Where the payload stands in the datagram, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u32 {
        u32::from(self.fragment() & FRAGMENT_OFFSET) * 8
    }

    /// Whether the packet is a piece of a datagram, so that its payload may begin or end anywhere.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.fragment() & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Hops the packet may still make.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.header[TTL]
    }

    /// What the payload is.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.header[PROTOCOL]
    }

    /// The sender.
    #[inline]
    pub fn source(&self) -> Addr {
        Addr::v4(field::<SOURCE, _, _>(self.header))
    }

    /// The receiver.
    #[inline]
    pub fn destination(&self) -> Addr {
        Addr::v4(field::<DESTINATION, _, _>(self.header))
    }

    /// The options' bytes, padding included.
    #[inline]
    pub fn option_bytes(&self) -> &'a [u8] {
        self.options
    }

    /// The options in their order, up to the first that contradicts its length (RFC 791 §3.1).
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options { rest: self.options }
    }

    /// What follows header and options.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Whether the header's checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        Sum::new().bytes(self.header).bytes(self.options).finish() == 0
    }
}

/// One option of more than one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt<'a> {
    /// Copied flag (1 bit), class (2) and number (5).
    pub kind: u8,
    /// What follows kind and length.
    pub data: &'a [u8],
}

/// A packet's options; no-operations are passed over, and `Length` is the last item of a broken list.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>>;

    fn next(&mut self) -> Option<Result<Opt<'a>>> {
        while let [1, rest @ ..] = self.rest {
            self.rest = rest;
        }
        let [kind @ 2..=255, length, ..] = *self.rest else {
            // Nothing, the end of the list, or a kind without a length.
            let broken = !matches!(self.rest, [] | [0, ..]);
            self.rest = &[];
            return broken.then_some(Err(Error::Length));
        };
        let split = self.rest.split_at_checked(usize::from(length));
        match split.and_then(|(option, rest)| Some((option.get(2..)?, rest))) {
            Some((data, rest)) => {
                self.rest = rest;
                Some(Ok(Opt { kind, data }))
            }
            None => {
                self.rest = &[];
                Some(Err(Error::Length))
            }
        }
    }
}

/// A packet whose header can be changed in place; every change keeps the checksum right.
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

    /// Takes one hop from the time to live and returns what is left; nothing changes if no further
    /// hop is allowed (the time to live is 0 or 1).
    #[inline]
    pub fn decrement_ttl(&mut self) -> Option<u8> {
        let left = self.header[TTL].checked_sub(1).filter(|left| *left > 0)?;
        self.change::<TTL>(u16::from_be_bytes([left, self.header[PROTOCOL]]));
        Some(left)
    }

    /// Sets the sender.
    #[inline]
    pub fn set_source(&mut self, [a, b, c, d]: [u8; 4]) {
        self.change::<SOURCE>(u16::from_be_bytes([a, b]));
        self.change::<{ SOURCE + 2 }>(u16::from_be_bytes([c, d]));
    }

    /// Sets the receiver.
    #[inline]
    pub fn set_destination(&mut self, [a, b, c, d]: [u8; 4]) {
        self.change::<DESTINATION>(u16::from_be_bytes([a, b]));
        self.change::<{ DESTINATION + 2 }>(u16::from_be_bytes([c, d]));
    }

    /// Writes one 16-bit word and updates the checksum by the difference.
    #[inline]
    fn change<const AT: usize>(&mut self, word: u16) {
        let old = u16::from_be_bytes(field::<AT, _, _>(self.header));
        let sum = u16::from_be_bytes(field::<CHECKSUM, _, _>(self.header));
        put::<AT, _, _>(self.header, word.to_be_bytes());
        put::<CHECKSUM, _, _>(self.header, checksum::update(sum, old, word).to_be_bytes());
    }
}

/// A header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// The sender.
    pub source: [u8; 4],
    /// The receiver.
    pub destination: [u8; 4],
    /// What the payload is.
    pub protocol: u8,
    /// Hops the packet may still make.
    pub ttl: u8,
    /// Type of service: DSCP (6 bit) and ECN (2 bit).
    pub tos: u8,
    /// What the fragments of one datagram have in common.
    pub identification: u16,
    /// Flags (3 bit) and fragment offset in units of 8 bytes (13 bit).
    pub fragment: u16,
    /// The options' bytes: a multiple of 4, at most [`OPTIONS_MAX`].
    pub options: &'a [u8],
    /// Bytes that follow the header.
    pub payload_len: usize,
}

impl<'a> Repr<'a> {
    /// The header of a whole datagram without options that routers may not fragment.
    #[inline]
    pub fn new(source: [u8; 4], destination: [u8; 4], protocol: u8, ttl: u8, payload_len: usize) -> Repr<'a> {
        let (tos, identification, fragment, options) = (0, 0, DONT_FRAGMENT, &[][..]);
        Repr { source, destination, protocol, ttl, tos, identification, fragment, options, payload_len }
    }

    /// The header of a packet; `Checksum` if its checksum is wrong.
    #[inline]
    pub fn parse(packet: &Packet<'a>) -> Result<Repr<'a>> {
        if !packet.verify_checksum() {
            return Err(Error::Checksum);
        }
        Ok(Repr {
            source: field::<SOURCE, _, _>(packet.header),
            destination: field::<DESTINATION, _, _>(packet.header),
            protocol: packet.protocol(),
            ttl: packet.ttl(),
            tos: packet.tos(),
            identification: packet.identification(),
            fragment: packet.fragment(),
            options: packet.options,
            payload_len: packet.payload.len(),
        })
    }

    /// Length of header and options in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER + self.options.len()
    }

    /// Writes header and checksum at the beginning of `buf` and returns their length. `Length` if
    /// the options' or the packet's length cannot be written.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize> {
        let header_len = self.header_len();
        let total = header_len.checked_add(self.payload_len).and_then(|total| u16::try_from(total).ok());
        let total = total.ok_or(Error::Length)?;
        if self.options.len() > OPTIONS_MAX || !self.options.len().is_multiple_of(4) {
            return Err(Error::Length);
        }
        let (header, rest) = buf.split_first_chunk_mut::<HEADER>().ok_or(Error::Truncated)?;
        rest.get_mut(..self.options.len()).ok_or(Error::Truncated)?.copy_from_slice(self.options);
        header[0] = 0x40 | (header_len / 4) as u8;
        header[TOS] = self.tos;
        put::<TOTAL_LENGTH, _, _>(header, total.to_be_bytes());
        put::<IDENTIFICATION, _, _>(header, self.identification.to_be_bytes());
        put::<FRAGMENT, _, _>(header, self.fragment.to_be_bytes());
        header[TTL] = self.ttl;
        header[PROTOCOL] = self.protocol;
        put::<CHECKSUM, _, _>(header, [0; 2]);
        put::<SOURCE, _, _>(header, self.source);
        put::<DESTINATION, _, _>(header, self.destination);
        let sum = Sum::new().bytes(header).bytes(self.options).finish();
        put::<CHECKSUM, _, _>(header, sum.to_be_bytes());
        Ok(header_len)
    }
}

#[cfg(test)]
mod tests;
