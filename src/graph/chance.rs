//! Chance for engines: the same numbers each time, so that what a graph does can be repeated.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Numbers by chance, of one engine.
pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// Those of the engine of this name.
    pub fn of(name: &str) -> Chance {
        let seed = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Chance(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Whether something happens that has this probability.
    pub fn strikes(&mut self, probability: f64) -> bool {
        (self.0.next_u64() >> 11) as f64 / ((1u64 << 53) as f64) < probability
    }
}
