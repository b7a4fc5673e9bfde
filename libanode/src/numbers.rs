//! Hash tables by numbers of the node or the library; nobody chooses these to collide, so the hash is simple.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

/// A table whose keys are such numbers.
pub type Numbers<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Spreads numbers over all bits by one multiplication.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The table takes the place from the low bits and a mark from the high ones.
        self.0 = mixed ^ mixed >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_lie_apart() {
        let hash = |number: u64| {
            let mut spread = Spread::default();
            spread.write_u64(number);
            spread.finish()
        };
        let places: std::collections::HashSet<u64> = (0..256).map(|number| hash(number << 16) & 1023).collect();
        assert!(places.len() > 128, "{} places", places.len());
    }
}
