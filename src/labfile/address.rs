//! Addresses in a lab file: blocks with their length (`10.0.1.0/24`), and addresses of interfaces.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::wire::{Addr, Prefix};

/// An interface's address and the block that is on the link with it, written `10.0.1.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    /// The address itself.
    pub addr: Addr,
    /// The block around it.
    pub prefix: Prefix,
}

impl Cidr {
    /// The address with this number within a block, if the block has room for it (an IPv4 block's
    /// broadcast address is not room).
    pub fn numbered(prefix: Prefix, number: u32) -> Option<Cidr> {
        let at = |n: u128| Some(Addr(u128::from_be_bytes(prefix.addr.0).checked_add(n)?.to_be_bytes()));
        let addr = at(u128::from(number)).filter(|addr| prefix.contains(*addr))?;
        let broadcast = addr.is_v4() && prefix.length <= 126 && !prefix.contains(at(u128::from(number) + 1)?);
        (!broadcast).then_some(Cidr { addr, prefix })
    }
}

impl FromStr for Cidr {
    type Err = String;
    fn from_str(text: &str) -> Result<Cidr, String> {
        let prefix: Prefix = text.parse()?;
        let addr = text.split_once('/').map_or(text, |(addr, _)| addr);
        let addr = addr.parse().map_err(|_| format!("'{text}' is not an address such as 10.0.1.1/24"))?;
        Ok(Cidr { addr, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = if self.addr.is_v4() { 96 } else { 0 };
        write!(f, "{}/{}", self.addr, self.prefix.length.saturating_sub(widest))
    }
}

/// An Ethernet address, written `02:61:6e:00:01:01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The first three bytes of the addresses that a lab gives out: locally administered, "an".
    pub(crate) const LAB: [u8; 3] = [0x02, 0x61, 0x6e];

    /// The lab's address for an interface, both counted from 1 within the topology.
    pub(crate) fn of(node: u16, interface: u8) -> Mac {
        let [high, low] = node.to_be_bytes();
        let [a, b, c] = Mac::LAB;
        Mac([a, b, c, high, low, interface])
    }
}

impl FromStr for Mac {
    type Err = String;
    fn from_str(text: &str) -> Result<Mac, String> {
        let bytes = text.split(':').map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2));
        let bytes: Option<Vec<u8>> = bytes.collect();
        let bytes = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        match bytes {
            Some(bytes) if bytes[0] & 1 == 0 => Ok(Mac(bytes)),
            Some(_) => Err(format!("'{text}' is a group address; the first byte must be even")),
            None => Err(format!("'{text}' is not an Ethernet address such as 02:00:00:00:00:01")),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

macro_rules! as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
as_text!(Cidr);
as_text!(Mac);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_as_text() {
        for text in ["10.0.1.1/24", "fd00:0:1::1/64", "10.0.0.1/32"] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), text);
        }
        assert_eq!("02:61:6e:00:01:ff".parse::<Mac>().unwrap().to_string(), "02:61:6e:00:01:ff");
    }

    #[test]
    fn a_block_has_room_up_to_its_broadcast_address() {
        let block: Prefix = "10.0.1.0/30".parse().unwrap();
        assert_eq!(Cidr::numbered(block, 2).unwrap().to_string(), "10.0.1.2/30");
        assert_eq!(Cidr::numbered(block, 3), None);
        assert_eq!(Cidr::numbered(block, 4), None);
        let block: Prefix = "fd00::/126".parse().unwrap();
        assert_eq!(Cidr::numbered(block, 3).unwrap().to_string(), "fd00::3/126");
        assert_eq!(Cidr::numbered(block, 4), None);
    }

    #[test]
    fn malformed_and_group_ethernet_addresses_are_refused() {
        for text in ["02:00:00:00:00", "02:00:00:00:00:0", "02:00:00:00:00:zz", "03:00:00:00:00:01", "0200:00:00:00:00"]
        {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }
}
