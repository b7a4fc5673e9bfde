//! Hellos on the wire: a node says once a second by each port that it is there, so that its neighbours know it before it
//! has sent a packet.
//!
//! ```text
//!  0: version (8) = 1 | zero (8) | interval (16), tenths of a second, from 1
//!  4: zero (32)
//!  8: age (64), nanoseconds since the node began
//! 16: address (128) of the sender on this link
//! ```
//!
//! It is the payload of an ANEP packet with type id [`HELLO`](super::anep::type_id::HELLO). It goes to one neighbour, or
//! to everybody on an Ethernet link ([`super::plan::everybody`]), and nothing answers it.

use super::{Addr, Error, Result, field, put};

/// Length in bytes.
pub const LENGTH: usize = 32;
/// The version this implementation speaks.
pub const VERSION: u8 = 1;
/// The longest interval, in tenths of a second.
pub const INTERVAL_MAX: u16 = 600;

const INTERVAL: usize = 2;
const AGE: usize = 8;
const ADDRESS: usize = 16;

/// A hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Tenths of a second until the next one at the latest, 1 to [`INTERVAL_MAX`].
    pub interval: u16,
    /// Nanoseconds since the sender began.
    pub age: u64,
    /// Its address.
    pub address: Addr,
}

impl Hello {
    /// Reads one that fills `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Hello> {
        let whole = bytes.first_chunk::<LENGTH>().ok_or(Error::Truncated)?;
        if bytes.len() != LENGTH {
            return Err(Error::Length);
        }
        if whole[0] != VERSION {
            return Err(Error::Version);
        }
        let interval = u16::from_be_bytes(field::<INTERVAL, _, _>(whole));
        let address = Addr(field::<ADDRESS, _, _>(whole));
        let zeroes = whole[1] == 0 && field::<4, 4, _>(whole) == [0; 4];
        if !zeroes || !(1..=INTERVAL_MAX).contains(&interval) || address.is_unspecified() {
            return Err(Error::Malformed);
        }
        Ok(Hello { interval, age: u64::from_be_bytes(field::<AGE, _, _>(whole)), address })
    }

    /// Writes it to the beginning of `to`; gives its length.
    pub fn emit(&self, to: &mut [u8]) -> Result<usize> {
        let whole = to.first_chunk_mut::<LENGTH>().ok_or(Error::Truncated)?;
        if !(1..=INTERVAL_MAX).contains(&self.interval) || self.address.is_unspecified() {
            return Err(Error::Malformed);
        }
        *whole = [0; LENGTH];
        whole[0] = VERSION;
        put::<INTERVAL, 2, _>(whole, self.interval.to_be_bytes());
        put::<AGE, 8, _>(whole, self.age.to_be_bytes());
        put::<ADDRESS, 16, _>(whole, self.address.0);
        Ok(LENGTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_survives_its_encoding_and_no_other_bytes_are_one() {
        let hello = Hello { interval: 10, age: 5_000_000_000, address: Addr::v4([10, 0, 0, 1]) };
        let mut bytes = [0xff; LENGTH];
        assert_eq!(hello.emit(&mut bytes), Ok(LENGTH));
        assert_eq!(Hello::parse(&bytes), Ok(hello));
        assert_eq!(Hello::parse(&bytes[..31]), Err(Error::Truncated));
        assert_eq!(Hello::parse(&[&bytes[..], &[0]].concat()), Err(Error::Length));
        for (at, value, error) in [(0, 2, Error::Version), (1, 1, Error::Malformed), (3, 0, Error::Malformed)] {
            let mut other = bytes;
            other[at] = value;
            assert_eq!(Hello::parse(&other), Err(error), "byte {at}");
        }
        assert!(Hello { interval: INTERVAL_MAX + 1, ..hello }.emit(&mut bytes).is_err());
        assert!(Hello { address: Addr::UNSPECIFIED, ..hello }.emit(&mut bytes).is_err());
    }
}
