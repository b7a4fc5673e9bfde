//! The Internet checksum: one's complement sums of 16-bit words (RFC 1071) and their incremental
//! update (RFC 1624).
//!
//! IPv4, ICMP, UDP and ANEP's integrity option all use it. A [`Sum`] is fed pieces in any number;
//! every piece but the last must have an even length. [`update`] changes a checksum when one
//! 16-bit word of the covered bytes changes, without looking at the others.

use super::Addr;
pub use super::sum::Sum;
use super::sum::fold;

impl Sum {
    /// Adds the pseudo-header that UDP and ICMPv6 put before their own bytes (RFC 768, RFC 8200 §8.1).
    ///
    /// An IPv4-mapped address counts as its four bytes: the twelve before them would add 0xffff,
    /// which is zero in one's complement, so both families need only this one formula.
    #[inline]
    #[must_use]
    pub fn pseudo_header(self, source: Addr, destination: Addr, protocol: u8, length: u32) -> Sum {
        let Sum(sum) = self.bytes(&source.0).bytes(&destination.0).word(u16::from(protocol));
        Sum(sum + u64::from(length.to_be()))
    }
}

/// The checksum of `bytes`, whose own checksum field must be zero; zero if the field holds the right value.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).finish()
}

/// `checksum` after one covered word went from `old` to `new` (RFC 1624 equation 3).
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_comes_out() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes), !0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624_comes_out() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn an_odd_last_byte_is_padded_with_zero() {
        for length in 0..70u8 {
            let bytes: Vec<u8> = (0..length).map(|at| at.wrapping_mul(37) ^ 0xa5).collect();
            let slow = bytes.chunks(2).fold(0u32, |sum, pair| {
                let sum = sum + (u32::from(pair[0]) << 8) + u32::from(*pair.get(1).unwrap_or(&0));
                (sum & 0xffff) + (sum >> 16)
            });
            assert_eq!(checksum(&bytes), !(slow as u16), "{length} bytes");
        }
    }

    #[test]
    fn a_mapped_address_counts_as_its_four_bytes() {
        let (a, b) = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]));
        let short = Sum::new().bytes(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, 8]);
        assert_eq!(Sum::new().pseudo_header(a, b, 17, 8).finish(), short.finish());
    }
}
