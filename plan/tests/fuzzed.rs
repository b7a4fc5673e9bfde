//! The fuzz targets of the crate without a fuzzer: packets and programs from a printed seed, mutated as a fuzzer
//! mutates them. `SEED=n` replays, `ANODE_CASES=n` is their number.

mod common;
#[path = "../../fuzz/src/plans.rs"]
mod plans;

use common::generate::{Choices, source::source};
use common::program;
use plan::packet::{Header, Packet};
use plan::value::{Chunk, Host};
use std::sync::Arc;

/// Cases of each test, unless the environment says otherwise.
const CASES: u64 = 4000;

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

    /// Some damage: bytes changed, taken out, put in, doubled, or of another input.
    fn bend(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(12)).min(bytes.len());
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                2 => drop(bytes.drain(at..end)),
                3 => {
                    let more = self.bytes(9);
                    bytes.splice(at..at, more);
                }
                4 => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
                5 if !other.is_empty() => {
                    let from = self.below(other.len());
                    let to = (from + self.below(40)).min(other.len());
                    bytes.splice(at..end, other[from..to].to_vec());
                }
                _ => bytes.truncate(at),
            }
        }
    }
}

fn cases() -> u64 {
    std::env::var("ANODE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES)
}

fn text(random: &mut Random) -> String {
    let bytes = random.bytes(300);
    source(&mut Choices::new(&bytes))
}

#[test]
fn bent_packets_are_refused_or_mean_one_thing() {
    let mut random = Random::new();
    let (mut decoded, mut last) = (0, Vec::new());
    for _ in 0..cases() {
        let chunk = Chunk::of(&program(&text(&mut random)), "main", vec![]).unwrap();
        let header = Header::injected(Host::v4([10, 0, 0, 1]), random.below(20) as u32);
        let bytes = Packet { header, chunk: Arc::new(chunk) }.bytes().unwrap();
        assert!(plans::packet(&bytes), "as it was made");
        let mut bent = bytes.clone();
        random.bend(&mut bent, &last);
        decoded += u64::from(plans::packet(&bent));
        last = bytes;
    }
    // Otherwise nothing but the first check would be tested.
    assert!(decoded > cases() / 100, "{decoded}");
}

#[test]
fn bent_programs_are_understood_or_explained() {
    let mut random = Random::new();
    let mut last = String::new();
    for _ in 0..cases() {
        let text = text(&mut random);
        assert!(plans::source(text.as_bytes()), "as it was made");
        let mut bent = text.clone().into_bytes();
        random.bend(&mut bent, last.as_bytes());
        plans::source(String::from_utf8_lossy(&bent).as_bytes());
        last = text;
    }
}
