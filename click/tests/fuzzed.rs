//! The fuzz target of the crate without a fuzzer: configurations from a printed seed, bent as a fuzzer bends them. `SEED=n` replays,
//! `ANODE_CASES=n` is their number.

#[path = "../../fuzz/src/clicks.rs"]
mod clicks;
mod common;

use common::generate::{Choices, source};

/// Cases, unless the environment says otherwise.
const CASES: u64 = 6000;

struct Random(u64);

impl Random {
    fn new() -> Random {
        let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let time = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = given.unwrap_or_else(time);
        println!("SEED={seed}");
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }

    /// Some damage: bytes of the language put in, bytes taken out or doubled, or a part of another input.
    fn bend(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        const SIGNS: &[&str] = &[
            "->", "=>", "::", "||", "|", "{", "}", "(", ")", "[", "]", ",", ";", "\"", "'", "\\<", "$a", "#", "//",
            "/*", "...",
        ];
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(12)).min(bytes.len());
            match self.below(6) {
                0 => drop(bytes.drain(at..end)),
                1 => drop(bytes.splice(at..at, self.bytes(4))),
                2 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
                3 if !other.is_empty() => {
                    let from = self.below(other.len());
                    let to = (from + self.below(60)).min(other.len());
                    bytes.splice(at..end, other[from..to].to_vec());
                }
                _ => {
                    let sign = SIGNS[self.below(SIGNS.len())];
                    bytes.splice(at..at, sign.bytes());
                }
            }
        }
    }
}

#[test]
fn bent_configurations_are_understood_or_explained() {
    let cases = std::env::var("ANODE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let mut random = Random::new();
    let (mut last, mut right, mut bent_right) = (Vec::new(), 0, 0);
    for _ in 0..cases {
        let text = source(&mut Choices::new(&random.bytes(160)));
        right += u64::from(clicks::source(text.as_bytes()));
        let mut bent = text.clone().into_bytes();
        random.bend(&mut bent, &last);
        bent_right += u64::from(clicks::source(String::from_utf8_lossy(&bent).as_bytes()));
        clicks::arguments(String::from_utf8_lossy(&bent).as_bytes());
        last = text.into_bytes();
    }
    println!("{right} and {bent_right} of {cases} are graphs");
    // Otherwise hardly more than the parser would be tested.
    assert!(right > cases / 50 && bent_right > cases / 200, "{right} and {bent_right} of {cases} are graphs");
}
