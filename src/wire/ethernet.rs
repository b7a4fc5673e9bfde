//! Ethernet II frames (IEEE 802.3 §3.2) with at most one IEEE 802.1Q tag.
//!
//! The first station of a native packet: the port hands over a frame without its check sequence,
//! and the type decides who looks next. A frame with two tags (802.1ad) or with a length in the
//! place of the type (LLC) shows that number as its type, and so belongs to nobody here.

use core::fmt;
use core::str::FromStr;

use super::{Addr, Error, Result, field, put};

/// Length in bytes of a header without tag.
pub const HEADER: usize = 14;
/// Length in bytes of an 802.1Q tag.
pub const TAG: usize = 4;

/// What a frame carries.
pub mod ethertype {
    use crate::contract;

    /// IPv4.
    pub const IPV4: u16 = contract::IPV4 as u16;
    /// ARP.
    pub const ARP: u16 = contract::ARP as u16;
    /// An 802.1Q tag.
    pub const VLAN: u16 = contract::VLAN as u16;
    /// IPv6.
    pub const IPV6: u16 = contract::IPV6 as u16;
    /// What XDP programs of the node's pass up: see `bpf/contract.h`. The first type for local experiments (IEEE 802).
    pub const PASSED_UP: u16 = contract::PASSED_UP as u16;
}

const DESTINATION: usize = 0;
const SOURCE: usize = 6;
const ETHERTYPE: usize = 12;

/// An address of an Ethernet interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Everybody on the link.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// Whether the address means a group (broadcast included).
    #[inline]
    pub const fn is_group(&self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether another station than `own` may have it, so that frames go there: no group has it, nor nobody (RFC 1812 §3.3.2).
    #[inline]
    pub fn is_anothers(&self, own: Mac) -> bool {
        !self.is_group() && *self != Mac::default() && *self != own
    }

    /// The group address for an IP multicast address (RFC 1112 §6.4, RFC 2464 §7).
    #[inline]
    pub fn of_multicast(group: Addr) -> Mac {
        let [.., a, b, c, d] = group.0;
        if group.is_v4() { Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d]) } else { Mac([0x33, 0x33, a, b, c, d]) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacError;

impl fmt::Display for MacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an Ethernet address is six pairs of hexadecimal digits such as 02:00:00:00:00:01")
    }
}

impl core::error::Error for MacError {}

impl FromStr for Mac {
    type Err = MacError;
    fn from_str(text: &str) -> core::result::Result<Mac, MacError> {
        let mut bytes = [0; 6];
        let mut pairs = text.split(':');
        for byte in &mut bytes {
            let pair = pairs.next().filter(|pair| pair.len() == 2).ok_or(MacError)?;
            // Digits one by one: from_str_radix would also take a sign.
            for digit in pair.chars() {
                *byte = *byte << 4 | digit.to_digit(16).ok_or(MacError)? as u8;
            }
        }
        if pairs.next().is_some() { Err(MacError) } else { Ok(Mac(bytes)) }
    }
}

/// A frame whose length was checked: reading it cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameView<'a> {
    header: &'a [u8; HEADER],
    tag: Option<u16>,
    ethertype: u16,
    payload: &'a [u8],
}

impl<'a> FrameView<'a> {
    /// Checks that the header, and the tag if there is one, are there.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<FrameView<'a>> {
        let (header, payload) = bytes.split_first_chunk::<HEADER>().ok_or(Error::Truncated)?;
        let ethertype = u16::from_be_bytes(field::<ETHERTYPE, _, _>(header));
        if ethertype != ethertype::VLAN {
            return Ok(FrameView { header, tag: None, ethertype, payload });
        }
        let (tag, payload) = payload.split_first_chunk::<TAG>().ok_or(Error::Truncated)?;
        let [a, b, c, d] = *tag;
        Ok(FrameView { header, tag: Some(u16::from_be_bytes([a, b])), ethertype: u16::from_be_bytes([c, d]), payload })
    }

    /// The receiver.
    #[inline]
    pub fn destination(&self) -> Mac {
        Mac(field::<DESTINATION, _, _>(self.header))
    }

    /// The sender.
    #[inline]
    pub fn source(&self) -> Mac {
        Mac(field::<SOURCE, _, _>(self.header))
    }

    /// The tag control information of a tagged frame: priority (3 bit), drop eligible (1), VLAN (12).
    #[inline]
    pub fn tag(&self) -> Option<u16> {
        self.tag
    }

    /// The VLAN of a tagged frame; 0 means that the tag carries a priority only.
    #[inline]
    pub fn vlan(&self) -> Option<u16> {
        self.tag.map(|tag| tag & 0x0fff)
    }

    /// What the payload is, see [`ethertype`].
    #[inline]
    pub fn ethertype(&self) -> u16 {
        self.ethertype
    }

    /// Length of the header in bytes, tag included.
    #[inline]
    pub fn header_len(&self) -> usize {
        if self.tag.is_some() { HEADER + TAG } else { HEADER }
    }

    /// What follows the header, padding of short frames included.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A frame whose header can be changed in place.
#[derive(Debug)]
pub struct FrameMut<'a> {
    header: &'a mut [u8; HEADER],
}

impl<'a> FrameMut<'a> {
    /// Checks that the header is there.
    #[inline]
    pub fn new_checked(bytes: &'a mut [u8]) -> Result<FrameMut<'a>> {
        Ok(FrameMut { header: bytes.first_chunk_mut::<HEADER>().ok_or(Error::Truncated)? })
    }

    /// Sets the receiver.
    #[inline]
    pub fn set_destination(&mut self, address: Mac) {
        put::<DESTINATION, _, _>(self.header, address.0);
    }

    /// Sets the sender.
    #[inline]
    pub fn set_source(&mut self, address: Mac) {
        put::<SOURCE, _, _>(self.header, address.0);
    }
}

/// A frame's header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The receiver.
    pub destination: Mac,
    /// The sender.
    pub source: Mac,
    /// The tag control information, if the frame is tagged.
    pub tag: Option<u16>,
    /// What the payload is, see [`ethertype`].
    pub ethertype: u16,
}

impl Repr {
    /// The header of a frame.
    #[inline]
    pub fn parse(frame: &FrameView<'_>) -> Repr {
        Repr {
            destination: frame.destination(),
            source: frame.source(),
            tag: frame.tag(),
            ethertype: frame.ethertype(),
        }
    }

    /// Length of the header in bytes, tag included.
    #[inline]
    pub fn header_len(&self) -> usize {
        if self.tag.is_some() { HEADER + TAG } else { HEADER }
    }

    /// Writes the header at the beginning of `buf` and returns its length. `Malformed` if an
    /// untagged frame claims to carry a tag.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize> {
        let (header, rest) = buf.split_first_chunk_mut::<HEADER>().ok_or(Error::Truncated)?;
        put::<DESTINATION, _, _>(header, self.destination.0);
        put::<SOURCE, _, _>(header, self.source.0);
        match self.tag {
            Some(tag) => {
                let rest = rest.first_chunk_mut::<TAG>().ok_or(Error::Truncated)?;
                put::<ETHERTYPE, _, _>(header, ethertype::VLAN.to_be_bytes());
                put::<0, _, _>(rest, tag.to_be_bytes());
                put::<2, _, _>(rest, self.ethertype.to_be_bytes());
            }
            None if self.ethertype == ethertype::VLAN => return Err(Error::Malformed),
            None => put::<ETHERTYPE, _, _>(header, self.ethertype.to_be_bytes()),
        }
        Ok(self.header_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_round_trips_as_text() {
        let address: Mac = "02:00:5e:Ff:00:01".parse().unwrap();
        assert_eq!(address.to_string(), "02:00:5e:ff:00:01");
        for wrong in ["", "02:00:5e:ff:00", "02:00:5e:ff:00:01:02", "2:00:5e:ff:00:01", "+2:00:5e:ff:00:01"] {
            assert_eq!(wrong.parse::<Mac>(), Err(MacError), "{wrong}");
        }
    }

    #[test]
    fn multicast_addresses_map_into_their_families_ranges() {
        assert_eq!(Mac::of_multicast(Addr::v4([224, 129, 2, 3])).to_string(), "01:00:5e:01:02:03");
        let group: Addr = "ff02::1:ff00:7".parse().unwrap();
        assert_eq!(Mac::of_multicast(group).to_string(), "33:33:ff:00:00:07");
        assert!(Mac::of_multicast(group).is_group() && !Mac([2, 0, 0, 0, 0, 1]).is_group());
    }

    #[test]
    fn a_tag_shifts_the_payload_by_four_bytes() {
        let repr = Repr { destination: Mac([1; 6]), source: Mac([2; 6]), tag: Some(0x6007), ethertype: 0x0800 };
        let mut buf = [0; 20];
        assert_eq!(repr.emit(&mut buf), Ok(18));
        let frame = FrameView::new_checked(&buf).unwrap();
        assert_eq!((frame.vlan(), frame.payload().len(), frame.header_len()), (Some(7), 2, 18));
        assert_eq!(Repr::parse(&frame), repr);
        assert_eq!(FrameView::new_checked(&buf[..17]), Err(Error::Truncated));
        let untagged = Repr { tag: None, ethertype: ethertype::VLAN, ..repr };
        assert_eq!(untagged.emit(&mut buf), Err(Error::Malformed));
    }
}
