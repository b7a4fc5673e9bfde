//! Every fuzz target without a fuzzer: the committed corpus, and inputs mutated from it by a printed seed.
//!
//! `fuzz/corpus/TARGET.txt` has an input in each line, in hexadecimal; they are what coverage has kept in soaks (`fuzz/README.md`).
//! `SEED=n` replays, `ANODE_CASES=n` is how many bent inputs each target gets. What fails is printed, for `xxd -r -p`.

mod configurations;

use crate::targets;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// Bent inputs for each target.
const CASES: usize = 1500;
/// Bytes of the longest input that is kept or made.
const INPUT_MAX: usize = 2048;
/// Bytes of all inputs together.
const CORPUS_MAX: usize = 2 << 20;
/// Bytes that parsers like and dislike.
const EDGES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, 0x40, 0x08, 0x20];

struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// From SEED, or from the clock; printed, for a replay.
    fn new() -> Dice {
        let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let time = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let seed = given.unwrap_or_else(time);
        eprintln!("SEED={seed}");
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(limit)) >> 64) as u64
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

fn text(target: &str) -> String {
    std::fs::read_to_string(folder().join(target.to_owned() + ".txt")).unwrap_or_else(|why| panic!("{target}: {why}"))
}

fn inputs(target: &str) -> Vec<Vec<u8>> {
    text(target).lines().map(|line| hex::decode(line).unwrap_or_else(|why| panic!("{target}: {why}"))).collect()
}

/// Bent inputs of each target.
fn cases() -> usize {
    std::env::var("ANODE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

/// Runs a target; a failure names its input.
fn run(name: &str, target: fn(&[u8]), bytes: &[u8]) {
    if catch_unwind(|| target(bytes)).is_err() {
        panic!("target {name} fails with:\n{}", hex::encode(bytes));
    }
}

/// An input changed in some places as a fuzzer would: bytes set, cut out, put in, repeated, or another input's.
fn bend(dice: &mut Dice, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = inputs[dice.below(inputs.len() as u64) as usize].clone();
    for _ in 0..1 + dice.below(5) {
        let at = dice.below(bytes.len() as u64 + 1) as usize;
        let end = (at + dice.below(16) as usize).min(bytes.len());
        match dice.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 if at < bytes.len() => bytes[at] = EDGES[dice.below(8) as usize],
            2 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(dice.below(9) as u8).wrapping_sub(4),
            3 => drop(bytes.drain(at..end)),
            4 => drop(bytes.splice(at..at, (0..8).map(|_| dice.below(256) as u8)).collect::<Vec<_>>()),
            5 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            _ => {
                let other = &inputs[dice.below(inputs.len() as u64) as usize];
                let from = dice.below(other.len() as u64 + 1) as usize;
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
        bytes.truncate(INPUT_MAX);
    }
    bytes
}

#[test]
fn what_was_found_once_and_what_is_near_it_breaks_no_parser() {
    let dice = &mut Dice::new();
    let cases = cases();
    for (name, target) in targets::ALL {
        let inputs = inputs(name);
        inputs.iter().for_each(|input| run(name, *target, input));
        (0..cases).for_each(|_| run(name, *target, &bend(dice, &inputs)));
        println!("{name}: {} inputs, {cases} bent ones", inputs.len());
    }
}

#[test]
fn every_target_has_a_program_and_a_corpus_and_nothing_else_has() {
    let manifest = std::fs::read_to_string(folder().join("../Cargo.toml")).unwrap();
    for (name, _) in targets::ALL {
        assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"")), "{name}");
        let program = std::fs::read_to_string(folder().join(format!("../fuzz_targets/{name}.rs"))).unwrap();
        assert!(program.contains(&format!("targets::run(\"{name}\", bytes)")), "{name}: another target's program");
        assert!(inputs(name).len() >= 3, "{name}: no corpus");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), targets::ALL.len());
    assert_eq!(std::fs::read_dir(folder()).unwrap().count(), targets::ALL.len(), "fuzz/corpus");
}

#[test]
fn the_corpus_is_small_sorted_and_has_nothing_twice() {
    let mut bytes = 0;
    for (name, _) in targets::ALL {
        let text = text(name);
        let mut lines: Vec<&str> = text.lines().collect();
        bytes += text.len() / 2;
        assert!(
            lines.iter().all(|line| (1..=INPUT_MAX * 2).contains(&line.len())),
            "{name}: an input too long, or none"
        );
        let kept = lines.clone();
        lines.sort_by_key(|line| (line.len(), *line));
        lines.dedup();
        assert!(lines == kept, "{name}: python3 tools/corpus.py pack sorts and thins it");
    }
    assert!(bytes <= CORPUS_MAX, "{bytes} bytes");
}
