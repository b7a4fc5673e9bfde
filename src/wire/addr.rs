//! Network addresses: 16 bytes, IPv4 as IPv4-mapped IPv6 (RFC 4291 §2.5.5.2).
//!
//! One type serves both families, so routing, capsule headers and state never branch on the
//! family; only the IP headers themselves do.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network address in its 16-byte wire form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Addr(pub [u8; 16]);

impl Addr {
    /// All zeroes: no address.
    pub const UNSPECIFIED: Addr = Addr([0; 16]);

    /// An IPv4 address in mapped form.
    #[inline]
    pub const fn v4(bytes: [u8; 4]) -> Addr {
        // Through one wide number and not byte by byte: addresses are made and compared for every packet.
        Addr((0xffff_0000_0000 | u32::from_be_bytes(bytes) as u128).to_be_bytes())
    }

    /// The four bytes if this is an IPv4-mapped address.
    #[inline]
    pub fn bytes_v4(&self) -> Option<[u8; 4]> {
        let [.., a, b, c, d] = self.0;
        self.is_v4().then_some([a, b, c, d])
    }

    /// Whether this is an IPv4-mapped address.
    #[inline]
    pub fn is_v4(&self) -> bool {
        u128::from_be_bytes(self.0) >> 32 == 0xffff
    }

    /// Whether no address is given.
    #[inline]
    pub fn is_unspecified(&self) -> bool {
        *self == Addr::UNSPECIFIED || *self == Addr::v4([0; 4])
    }

    /// Whether this is an IPv6 address that says nothing beyond its link (fe80::/10).
    pub fn is_link_local(&self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
    }

    /// The same address as the standard library's type.
    pub fn ip(&self) -> IpAddr {
        match self.bytes_v4() {
            Some(bytes) => IpAddr::V4(Ipv4Addr::from(bytes)),
            None => IpAddr::V6(Ipv6Addr::from(self.0)),
        }
    }
}

impl From<IpAddr> for Addr {
    fn from(ip: IpAddr) -> Addr {
        match ip {
            IpAddr::V4(v4) => Addr::v4(v4.octets()),
            IpAddr::V6(v6) => Addr(v6.octets()),
        }
    }
}

impl FromStr for Addr {
    type Err = std::net::AddrParseError;
    fn from_str(text: &str) -> Result<Addr, Self::Err> {
        text.parse::<IpAddr>().map(Addr::from)
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.ip(), f)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for Addr {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Addr {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Addr, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An address block: the first `length` bits of `addr` (of its 128; an IPv4 /24 is a /120 here).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// The block's first address: bits behind `length` are zero.
    pub addr: Addr,
    /// Leading bits that count, 0 to 128.
    pub length: u8,
}

impl Prefix {
    /// The block of the given length (of 128 bits) that holds `addr`.
    pub fn new(addr: Addr, length: u8) -> Prefix {
        let length = length.min(128);
        Prefix { addr: Addr((u128::from_be_bytes(addr.0) & mask(length)).to_be_bytes()), length }
    }

    /// The block that holds `addr`, by so many bits of its own family: 32 of IPv4 at most, 128 of IPv6.
    pub fn of(addr: Addr, bits: u8) -> Option<Prefix> {
        let widest = if addr.is_v4() { 32 } else { 128 };
        (bits <= widest).then(|| Prefix::new(addr, 128 - widest + bits))
    }

    /// The block that holds `addr` alone.
    pub fn host(addr: Addr) -> Prefix {
        Prefix { addr, length: 128 }
    }

    /// Whether the block is one of IPv4.
    pub fn is_v4(&self) -> bool {
        self.length >= 96 && self.addr.is_v4()
    }

    /// Whether the block holds `addr`.
    pub fn contains(&self, addr: Addr) -> bool {
        (u128::from_be_bytes(addr.0) ^ u128::from_be_bytes(self.addr.0)) & mask(self.length) == 0
    }
}

fn mask(length: u8) -> u128 {
    if length == 0 { 0 } else { u128::MAX << (128 - u32::from(length.min(128))) }
}

impl FromStr for Prefix {
    type Err = String;
    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong = || format!("'{text}' is not an address block such as 10.1.0.0/16 or 2001:db8::/32");
        let (addr, bits) = match text.split_once('/') {
            Some((addr, bits)) => (addr, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let addr: Addr = addr.parse().map_err(|_| wrong())?;
        match bits {
            Some(bits) => Prefix::of(addr, bits).ok_or_else(wrong),
            None => Ok(Prefix::host(addr)),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.is_v4() { self.length - 96 } else { self.length };
        write!(f, "{}/{bits}", self.addr)
    }
}

impl serde::Serialize for Prefix {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Prefix {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Prefix, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_round_trip_as_text() {
        for text in ["10.1.2.3", "2001:db8::7", "::1", "0.0.0.0"] {
            assert_eq!(text.parse::<Addr>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_prefix_holds_its_own_addresses_only() {
        let block: Prefix = "10.1.0.0/16".parse().unwrap();
        assert!(block.contains("10.1.255.9".parse().unwrap()));
        assert!(!block.contains("10.2.0.1".parse().unwrap()));
        assert!(!block.contains("2001:db8::1".parse().unwrap()));
        assert_eq!(block.to_string(), "10.1.0.0/16");
        assert!("0.0.0.0/0".parse::<Prefix>().unwrap().contains("8.8.8.8".parse().unwrap()));
        assert!("::/0".parse::<Prefix>().unwrap().contains("2001::1".parse().unwrap()));
    }

    #[test]
    fn a_prefix_longer_than_its_family_is_refused() {
        assert!("10.0.0.0/33".parse::<Prefix>().is_err());
        assert!("::/129".parse::<Prefix>().is_err());
        assert!("10.0.0.0/x".parse::<Prefix>().is_err());
    }
}
