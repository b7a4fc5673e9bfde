//! The capsule header: the name of the code, the addresses, and the bound on the frames that it may still cause.
//!
//! It is the payload of an ANEP packet with type id [`CAPSULE`](super::anep::type_id::CAPSULE), as in PAN (Nygren et
//! al., OPENARCH 1999) and ANTS before it. A hash names the code, the previous node has it, and every hop spends one of
//! the bound and children share it. Bytes before [`LOCKED`] belong to the node; from there on the capsule sees and
//! changes its *window*. Nothing here judges the addresses: that is the node's business.

use super::{Addr, Digest, Error, Result, field, put};
use crate::contract::{self, capsule as layout};

/// Length of the header in bytes; the capsule's payload follows it.
pub const HEADER: usize = layout::SIZE;
/// Bytes at the beginning that the capsule's own code can neither see nor change.
pub const LOCKED: usize = contract::LOCKED as usize;
/// The version this implementation speaks.
pub const VERSION: u8 = 1;

/// Offset of the flags, all zero in this version (8 bit).
pub const FLAGS: usize = layout::FLAGS.at();
/// Offset of the application port (16 bit).
pub const APP_PORT: usize = layout::APP_PORT.at();
/// Offset of the resource bound (32 bit).
pub const BOUND: usize = layout::BOUND.at();
/// Offset of the code name (32 bytes).
pub const CODE: usize = layout::CODE.at();
/// Offset of the previous node's address (16 bytes).
pub const PREVIOUS: usize = layout::PREVIOUS.at();
/// Offset of the source address (16 bytes).
pub const SOURCE: usize = layout::SOURCE.at();
/// Offset of the destination address (16 bytes).
pub const DESTINATION: usize = layout::DESTINATION.at();

// The window begins with the two addresses, which end the header.
const _: () = assert!(LOCKED == SOURCE && DESTINATION == SOURCE + 16 && HEADER == DESTINATION + 16);

/// A capsule whose header was checked: reading it cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks length, version and flags.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Packet<'a>> {
        let (header, payload) = bytes.split_first_chunk::<HEADER>().ok_or(Error::Truncated)?;
        check(header)?;
        Ok(Packet { header, payload })
    }

    /// The port of the application that the capsule is delivered to.
    #[inline]
    pub fn app_port(&self) -> u16 {
        u16::from_be_bytes(field::<APP_PORT, _, _>(self.header))
    }

    /// Work that the capsule and its children may still cause, in hops.
    #[inline]
    pub fn bound(&self) -> u32 {
        u32::from_be_bytes(field::<BOUND, _, _>(self.header))
    }

    /// The name of the code that runs on this capsule.
    #[inline]
    pub fn code(&self) -> Digest {
        Digest(field::<CODE, _, _>(self.header))
    }

    /// The active node that sent the capsule to this one.
    #[inline]
    pub fn previous(&self) -> Addr {
        Addr(field::<PREVIOUS, _, _>(self.header))
    }

    /// The node that injected the capsule.
    #[inline]
    pub fn source(&self) -> Addr {
        Addr(field::<SOURCE, _, _>(self.header))
    }

    /// The node that the capsule is for.
    #[inline]
    pub fn destination(&self) -> Addr {
        Addr(field::<DESTINATION, _, _>(self.header))
    }

    /// The bytes behind the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A capsule whose header was checked, for changes in place.
#[derive(Debug)]
pub struct PacketMut<'a> {
    header: &'a mut [u8; HEADER],
    payload: &'a mut [u8],
}

impl<'a> PacketMut<'a> {
    /// Checks length, version and flags.
    #[inline]
    pub fn new_checked(bytes: &'a mut [u8]) -> Result<PacketMut<'a>> {
        let (header, payload) = bytes.split_first_chunk_mut::<HEADER>().ok_or(Error::Truncated)?;
        check(header)?;
        Ok(PacketMut { header, payload })
    }

    /// The same capsule for reading.
    #[inline]
    pub fn as_packet(&self) -> Packet<'_> {
        Packet { header: self.header, payload: self.payload }
    }

    /// Sets the application port.
    #[inline]
    pub fn set_app_port(&mut self, port: u16) {
        put::<APP_PORT, _, _>(self.header, port.to_be_bytes());
    }

    /// Sets the resource bound.
    #[inline]
    pub fn set_bound(&mut self, bound: u32) {
        put::<BOUND, _, _>(self.header, bound.to_be_bytes());
    }

    /// Sets the address of the node that sends the capsule on.
    #[inline]
    pub fn set_previous(&mut self, node: Addr) {
        put::<PREVIOUS, _, _>(self.header, node.0);
    }

    /// Sets the source.
    #[inline]
    pub fn set_source(&mut self, node: Addr) {
        put::<SOURCE, _, _>(self.header, node.0);
    }

    /// Sets the destination.
    #[inline]
    pub fn set_destination(&mut self, node: Addr) {
        put::<DESTINATION, _, _>(self.header, node.0);
    }

    /// The bytes behind the header.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.payload
    }
}

#[inline]
fn check(header: &[u8; HEADER]) -> Result<()> {
    if header[0] != VERSION {
        return Err(Error::Version);
    }
    if header[FLAGS] != 0 {
        return Err(Error::Malformed);
    }
    Ok(())
}

/// The header's fields as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The port of the application that the capsule is delivered to.
    pub app_port: u16,
    /// Work that the capsule and its children may still cause, in hops.
    pub bound: u32,
    /// The name of the code that runs on this capsule.
    pub code: Digest,
    /// The active node that sent the capsule to this one.
    pub previous: Addr,
    /// The node that injected the capsule.
    pub source: Addr,
    /// The node that the capsule is for.
    pub destination: Addr,
}

impl Header {
    /// Reads the header at the beginning of `bytes`; the payload behind it may have any length.
    #[inline(always)]
    pub fn parse(bytes: &[u8]) -> Result<Header> {
        Packet::new_checked(bytes).map(|packet| Header::of(&packet))
    }

    /// The fields of a header that was checked before, at the beginning of `bytes`; none if they are cut short.
    #[inline(always)]
    pub fn again(bytes: &[u8]) -> Option<Header> {
        let (header, payload) = bytes.split_first_chunk::<HEADER>()?;
        Some(Header::of(&Packet { header, payload }))
    }

    #[inline(always)]
    fn of(packet: &Packet<'_>) -> Header {
        Header {
            app_port: packet.app_port(),
            bound: packet.bound(),
            code: packet.code(),
            previous: packet.previous(),
            source: packet.source(),
            destination: packet.destination(),
        }
    }

    /// Writes the header at the beginning of `buf` and returns [`HEADER`]; `Truncated` if it does not fit.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize> {
        let header = buf.first_chunk_mut::<HEADER>().ok_or(Error::Truncated)?;
        header[0] = VERSION;
        header[FLAGS] = 0;
        put::<APP_PORT, _, _>(header, self.app_port.to_be_bytes());
        put::<BOUND, _, _>(header, self.bound.to_be_bytes());
        put::<CODE, _, _>(header, self.code.0);
        put::<PREVIOUS, _, _>(header, self.previous.0);
        put::<SOURCE, _, _>(header, self.source.0);
        put::<DESTINATION, _, _>(header, self.destination.0);
        Ok(HEADER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            app_port: 0x1234,
            bound: 64,
            code: Digest([7; 32]),
            previous: Addr::v4([10, 0, 0, 1]),
            source: Addr::v4([10, 0, 0, 2]),
            destination: Addr([0x20; 16]),
        }
    }

    #[test]
    fn a_header_comes_back_as_it_was_written() {
        let mut bytes = [0xff; HEADER + 3];
        assert_eq!(header().emit(&mut bytes), Ok(HEADER));
        assert_eq!(Header::parse(&bytes), Ok(header()));
        assert_eq!((Header::again(&bytes), Header::again(&bytes[..HEADER - 1])), (Some(header()), None));
        assert_eq!(Packet::new_checked(&bytes).map(|packet| packet.payload().len()), Ok(3));
        assert_eq!(header().emit(&mut [0; HEADER - 1]), Err(Error::Truncated));
    }

    #[test]
    fn version_and_flags_must_be_known() {
        let mut bytes = [0; HEADER];
        header().emit(&mut bytes).unwrap();
        bytes[0] = 2;
        assert_eq!(Header::parse(&bytes), Err(Error::Version));
        bytes[0] = 1;
        bytes[FLAGS] = 0x80;
        assert_eq!(Header::parse(&bytes), Err(Error::Malformed));
        assert_eq!(Header::parse(&bytes[..HEADER - 1]), Err(Error::Truncated));
    }

    #[test]
    fn setters_change_their_field_only() {
        let mut bytes = [0; HEADER];
        header().emit(&mut bytes).unwrap();
        let mut packet = PacketMut::new_checked(&mut bytes).unwrap();
        packet.set_bound(9);
        packet.set_previous(Addr::v4([1, 1, 1, 1]));
        packet.set_app_port(5);
        assert_eq!(packet.as_packet().bound(), 9);
        let expected = Header { bound: 9, previous: Addr::v4([1, 1, 1, 1]), app_port: 5, ..header() };
        assert_eq!(Header::parse(&bytes), Ok(expected));
    }
}
