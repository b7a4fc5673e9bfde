//! One's complement sums of 16-bit words (RFC 1071), without what the words mean.
//!
//! [`super::checksum`] sums headers with it, and taught protocols their own. The library behind `nodeos.h` has it too, for
//! classifiers of programs.

/// Bytes of an IPv4 header without options.
const HEADER: usize = 20;

/// A running one's complement sum.
///
/// RFC 1071 §2: the sum does not depend on the byte order in which words are added, and wider words
/// may be added as long as the carries are folded in at the end. So this adds 32-bit words in the
/// machine's own order, and [`Sum::finish`] alone folds and swaps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(pub(super) u64);

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

    /// The checksum: the complement of the sum. Zero if the bytes held their own right checksum.
    #[inline]
    pub const fn finish(self) -> u16 {
        !u16::from_be(fold(self.0))
    }
}

/// A sum's words and carries in one word of 16 bits.
#[inline]
pub(super) const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}
