//! The Internet checksum: one's complement sums of 16-bit words (RFC 1071) and their incremental
//! update (RFC 1624).
//!
//! IPv4, ICMP, UDP and ANEP's integrity option all use it. A [`Sum`] is fed pieces in any number;
//! every piece but the last must have an even length. [`update`] changes a checksum when one
//! 16-bit word of the covered bytes changes, without looking at the others.

use super::Addr;

/// Bytes of an IPv4 header without options.
const HEADER: usize = 20;

/// A running one's complement sum.
///
/// RFC 1071 §2: the sum does not depend on the byte order in which words are added, and wider words
/// may be added as long as the carries are folded in at the end. So this adds 32-bit words in the
/// machine's own order, and [`Sum::finish`] alone folds and swaps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    #[inline]
    pub const fn new() -> Sum {
        Sum(0)
    }

    /// Adds bytes that begin at an even offset; an odd last byte counts as if a zero followed it.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        if let Ok(header) = <&[u8; HEADER]>::try_from(bytes) {
            return self.header(header);
        }
        let (words, rest) = bytes.as_chunks::<4>();
        let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
        let last = match *rest {
            [a, b, c] => [a, b, c, 0],
            [a, b] => [a, b, 0, 0],
            [a] => [a, 0, 0, 0],
            _ => [0; 4],
        };
        Sum(self.0 + sum + u32::from_ne_bytes(last) as u64)
    }

    /// Adds what most sums are of: no loop is needed.
    #[inline(always)]
    fn header(self, header: &[u8; HEADER]) -> Sum {
        let (words, _) = header.as_chunks::<4>();
        let word = |at: usize| u64::from(u32::from_ne_bytes(words[at]));
        Sum(self.0 + (word(0) + word(1)) + (word(2) + word(3)) + word(4))
    }

    /// Adds one 16-bit word.
    #[inline]
    #[must_use]
    pub const fn word(self, word: u16) -> Sum {
        Sum(self.0 + word.to_be() as u64)
    }

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

    /// The checksum: the complement of the sum. Zero if the bytes held their own right checksum.
    #[inline]
    pub const fn finish(self) -> u16 {
        !u16::from_be(fold(self.0))
    }
}

#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
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
