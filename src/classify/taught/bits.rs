//! Where bits stand in a header, and their value. Example: the four bits behind the first four of a byte.

/// Some bits, from the first of a header's first byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bits {
    /// The byte in which they begin.
    pub byte: u32,
    /// The bit of that byte, 0 to 7, the highest first.
    pub bit: u8,
    /// How many, 1 to 128; more than 64 only of whole bytes.
    pub count: u8,
}

impl Bits {
    /// Whole bytes.
    pub const fn bytes(byte: u32, count: u8) -> Bits {
        Bits { byte, bit: 0, count: count * 8 }
    }

    /// The byte behind them.
    #[inline]
    pub fn end(&self) -> usize {
        self.byte as usize + (usize::from(self.bit) + usize::from(self.count)).div_ceil(8)
    }

    /// The largest value, of at most 64 of them.
    #[inline(always)]
    pub fn most(&self) -> u64 {
        u64::MAX >> 64u32.saturating_sub(self.count.into()).min(63)
    }

    /// Whether they can have this value.
    pub fn holds(&self, value: u64) -> bool {
        self.count > 64 || value <= self.most()
    }

    /// The value of at most 64 of them, of a header that begins at `start`; nothing if the bytes end before.
    #[inline(always)]
    pub fn read(&self, bytes: &[u8], start: usize) -> Option<u64> {
        let at = start + self.byte as usize;
        let word = match bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
            Some(word) => u64::from_be_bytes(*word),
            None => last_word(bytes, at, start + self.end())?,
        };
        // Bits before them are shifted out, then those behind them.
        Some(word.wrapping_shl(self.bit.into()).wrapping_shr(64u32.wrapping_sub(self.count.into())))
    }

    /// Pieces of at most 32 bits, the highest first, each with how many bits are behind it.
    pub fn pieces(&self) -> impl Iterator<Item = (Bits, u32)> + use<> {
        let (from, count) = (self.byte * 8 + u32::from(self.bit), u32::from(self.count));
        let first = if count.is_multiple_of(32) { 32.min(count) } else { count % 32 };
        let starts = core::iter::once((0, first)).chain((first..count).step_by(32).map(|at| (at, 32)));
        starts.map(move |(at, length)| {
            let begin = from + at;
            (Bits { byte: begin / 8, bit: (begin % 8) as u8, count: length as u8 }, count - at - length)
        })
    }
}

/// The last bytes, with zeros behind them.
#[cold]
fn last_word(bytes: &[u8], at: usize, end: usize) -> Option<u64> {
    let rest = bytes.get(at..).filter(|_| end <= bytes.len())?;
    let mut word = [0; 8];
    word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    Some(u64::from_be_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_from_the_highest_on() {
        let bytes = [0x45, 0xa0, 1, 2, 3, 4, 5, 6, 7, 8];
        let at = |byte, bit, count| Bits { byte, bit, count }.read(&bytes, 0);
        assert_eq!([at(0, 0, 4), at(0, 4, 4), at(0, 4, 8), at(1, 0, 3)], [Some(4), Some(5), Some(0x5a), Some(5)]);
        assert_eq!([at(2, 0, 64), at(9, 0, 8), at(9, 4, 8)], [Some(0x0102_0304_0506_0708), Some(8), None]);
        assert_eq!(Bits::bytes(1, 1).read(&bytes, 9), None);
        assert_eq!(Bits::bytes(0, 1).read(&bytes, usize::from(u16::MAX)), None);
    }

    #[test]
    fn pieces_are_all_bits_once() {
        let pieces = |bits: Bits| bits.pieces().collect::<Vec<_>>();
        assert_eq!(pieces(Bits::bytes(8, 16)).len(), 4);
        assert_eq!(pieces(Bits::bytes(0, 6)), [(Bits::bytes(0, 2), 32), (Bits::bytes(2, 4), 0)]);
        assert_eq!(pieces(Bits { byte: 6, bit: 2, count: 14 }), [(Bits { byte: 6, bit: 2, count: 14 }, 0)]);
        let odd = pieces(Bits { byte: 0, bit: 3, count: 33 });
        assert_eq!(odd, [(Bits { byte: 0, bit: 3, count: 1 }, 32), (Bits { byte: 0, bit: 4, count: 32 }, 0)]);
    }
}
