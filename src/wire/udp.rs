//! UDP datagrams (RFC 768; over IPv6 RFC 8200 §8.1).
//!
//! Native ANEP packets are datagrams to port [`UDP_PORT`](super::anep::UDP_PORT). A capsule may
//! change the payload, so whoever sends it on fills the checksum anew, or clears it where the family
//! allows that: over IPv4 zero means "none", over IPv6 a checksum must be there.

use super::checksum::Sum;
use super::{Addr, Error, Result, field, put};

/// Length of the header in bytes.
pub const HEADER: usize = 8;
/// UDP's number as an IP protocol.
pub const IP_PROTOCOL: u8 = crate::contract::UDP as u8;

const SOURCE_PORT: usize = 0;
const DESTINATION_PORT: usize = 2;
const LENGTH: usize = 4;
const CHECKSUM: usize = 6;

/// A datagram whose lengths were checked: reading it cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    header: &'a [u8; HEADER],
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks the lengths, not the checksum. Bytes behind the datagram are left out.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Packet<'a>> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(Error::Truncated)?;
        let length = usize::from(u16::from_be_bytes(field::<LENGTH, _, _>(header)));
        let payload_len = length.checked_sub(HEADER).ok_or(Error::Length)?;
        Ok(Packet { header, payload: rest.get(..payload_len).ok_or(Error::Truncated)? })
    }

    /// The sender's port.
    #[inline]
    pub fn source_port(&self) -> u16 {
        u16::from_be_bytes(field::<SOURCE_PORT, _, _>(self.header))
    }

    /// The receiver's port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        u16::from_be_bytes(field::<DESTINATION_PORT, _, _>(self.header))
    }

    /// The checksum as it stands in the header; zero means that there is none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes(field::<CHECKSUM, _, _>(self.header))
    }

    /// Whether the checksum is right for these addresses, or rightly absent.
    #[inline]
    pub fn verify_checksum(&self, source: Addr, destination: Addr) -> bool {
        if self.checksum() == 0 {
            return source.is_v4();
        }
        sum(self.header, self.payload, source, destination) == 0
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

#[inline]
fn sum(header: &[u8; HEADER], payload: &[u8], source: Addr, destination: Addr) -> u16 {
    let length = (HEADER + payload.len()) as u32;
    Sum::new().pseudo_header(source, destination, IP_PROTOCOL, length).bytes(header).bytes(payload).finish()
}

/// A datagram that can be changed in place.
#[derive(Debug)]
pub struct PacketMut<'a> {
    header: &'a mut [u8; HEADER],
    payload: &'a mut [u8],
}

impl<'a> PacketMut<'a> {
    /// Checks what [`Packet::new_checked`] checks.
    #[inline]
    pub fn new_checked(bytes: &'a mut [u8]) -> Result<PacketMut<'a>> {
        let payload_len = Packet::new_checked(bytes)?.payload.len();
        let (header, rest) = bytes.split_first_chunk_mut::<HEADER>().ok_or(Error::Truncated)?;
        Ok(PacketMut { header, payload: rest.get_mut(..payload_len).ok_or(Error::Truncated)? })
    }

    /// Sets the sender's port.
    #[inline]
    pub fn set_source_port(&mut self, port: u16) {
        put::<SOURCE_PORT, _, _>(self.header, port.to_be_bytes());
    }

    /// Sets the receiver's port.
    #[inline]
    pub fn set_destination_port(&mut self, port: u16) {
        put::<DESTINATION_PORT, _, _>(self.header, port.to_be_bytes());
    }

    /// What follows the header.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.payload
    }

    /// Removes the checksum: allowed over IPv4 only.
    #[inline]
    pub fn clear_checksum(&mut self) {
        put::<CHECKSUM, _, _>(self.header, [0; 2]);
    }

    /// Puts in a checksum that was right, or wrong, between other ends: it is as right or wrong between these (RFC 1624).
    pub fn carry_checksum(&mut self, checksum: u16, before: [(Addr, u16); 2], after: [(Addr, u16); 2]) {
        let mut sum = checksum;
        for ((old, old_port), (new, new_port)) in before.into_iter().zip(after) {
            for (old, new) in old.0.as_chunks::<2>().0.iter().zip(new.0.as_chunks::<2>().0) {
                sum = super::checksum::update(sum, u16::from_be_bytes(*old), u16::from_be_bytes(*new));
            }
            sum = super::checksum::update(sum, old_port, new_port);
        }
        // As where it is computed: zero would mean "none".
        let sum = if sum == 0 { 0xffff } else { sum };
        put::<CHECKSUM, _, _>(self.header, sum.to_be_bytes());
    }

    /// Computes the checksum anew.
    #[inline]
    pub fn fill_checksum(&mut self, source: Addr, destination: Addr) {
        self.clear_checksum();
        let sum = match sum(self.header, self.payload, source, destination) {
            // Zero would mean "none", and is the same number in one's complement.
            0 => 0xffff,
            sum => sum,
        };
        put::<CHECKSUM, _, _>(self.header, sum.to_be_bytes());
    }
}

/// A header as values, its checksum left aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Bytes that follow the header.
    pub payload_len: usize,
}

impl Repr {
    /// The header of a datagram; `Checksum` if its checksum is wrong for these addresses.
    #[inline]
    pub fn parse(packet: &Packet<'_>, source: Addr, destination: Addr) -> Result<Repr> {
        if !packet.verify_checksum(source, destination) {
            return Err(Error::Checksum);
        }
        Ok(Repr {
            source_port: packet.source_port(),
            destination_port: packet.destination_port(),
            payload_len: packet.payload.len(),
        })
    }

    /// Writes the header at the beginning of `buf`, without checksum, and returns [`HEADER`].
    /// [`PacketMut::fill_checksum`] adds it once the payload is there. `Length` if that is too long.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize> {
        let header = buf.first_chunk_mut::<HEADER>().ok_or(Error::Truncated)?;
        let length = HEADER.checked_add(self.payload_len).and_then(|length| u16::try_from(length).ok());
        put::<SOURCE_PORT, _, _>(header, self.source_port.to_be_bytes());
        put::<DESTINATION_PORT, _, _>(header, self.destination_port.to_be_bytes());
        put::<LENGTH, _, _>(header, length.ok_or(Error::Length)?.to_be_bytes());
        put::<CHECKSUM, _, _>(header, [0; 2]);
        Ok(HEADER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: (Addr, Addr) = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]));
    const V6: (Addr, Addr) = (Addr([0x20; 16]), Addr([0x21; 16]));

    fn datagram() -> [u8; 13] {
        let mut bytes = *b"........odd!!";
        Repr { source_port: 4000, destination_port: 3322, payload_len: 5 }.emit(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_checksum_covers_addresses_header_and_payload() {
        for (source, destination) in [V4, V6] {
            let mut bytes = datagram();
            PacketMut::new_checked(&mut bytes).unwrap().fill_checksum(source, destination);
            let packet = Packet::new_checked(&bytes).unwrap();
            assert!(packet.verify_checksum(source, destination));
            assert!(!packet.verify_checksum(source, Addr([0x22; 16])));
            bytes[12] ^= 1;
            assert!(!Packet::new_checked(&bytes).unwrap().verify_checksum(source, destination));
        }
    }

    #[test]
    fn only_ipv4_may_go_without_checksum() {
        let bytes = datagram();
        let packet = Packet::new_checked(&bytes).unwrap();
        assert!(packet.verify_checksum(V4.0, V4.1));
        assert!(!packet.verify_checksum(V6.0, V6.1));
    }

    #[test]
    fn a_checksum_of_zero_is_written_as_all_ones() {
        let mut bytes = [0; 10];
        Repr { source_port: 0, destination_port: 0, payload_len: 2 }.emit(&mut bytes).unwrap();
        // The pseudo-header of unspecified addresses, 17 and twice the length 10 sum to 37.
        bytes[8..].copy_from_slice(&(!37u16).to_be_bytes());
        let nobody = Addr::v4([0; 4]);
        PacketMut::new_checked(&mut bytes).unwrap().fill_checksum(nobody, nobody);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!(packet.checksum(), 0xffff);
        assert!(packet.verify_checksum(nobody, nobody));
    }

    #[test]
    fn lying_lengths_are_refused() {
        let mut bytes = datagram();
        bytes[5] = 7;
        assert_eq!(Packet::new_checked(&bytes), Err(Error::Length));
        bytes[5] = 14;
        assert_eq!(Packet::new_checked(&bytes), Err(Error::Truncated));
        bytes[5] = 12;
        assert_eq!(Packet::new_checked(&bytes).map(|packet| packet.payload().len()), Ok(4));
        let long = Repr { source_port: 1, destination_port: 2, payload_len: 65528 };
        assert_eq!(long.emit(&mut bytes), Err(Error::Length));
    }
}
