//! Programs from a seed to the scanner, the linker and the kernel's verifier: the targets of `fuzz/` without a fuzzer.
//!
//! Nothing that the scanner accepts has a call that is not of its own or by symbol; nothing that is linked has one in
//! its mobile code that the linker did not make; and of what is linked, the verifier takes some and refuses
//! the rest with a reason.
//!
//!     SEED=42 ANODE_CASES=100000 cargo test --release --test halves generated:: -- --nocapture

use crate::dice::Dice;
use crate::instructions;
use crate::place::Place;
use crate::programs;
use crate::sample::{Body, Sample, Stage};
use anode::code::bundle::Insn;
use anode::kernel;

fn number(name: &str, fallback: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(fallback)
}

/// Dice, and how many cases.
fn cases(fallback: u64) -> (Dice, u64) {
    let (seed, cases) = (number("SEED", 4), number("ANODE_CASES", fallback));
    println!("SEED={seed} ANODE_CASES={cases}");
    (Dice::new(seed), cases)
}

fn bytes(dice: &mut Dice) -> Vec<u8> {
    let length = dice.below(160);
    dice.bytes(length)
}

#[test]
fn what_the_scanner_accepts_passes_a_second_opinion() {
    let (mut dice, cases) = cases(20_000);
    let mut accepted = 0;
    for _ in 0..cases {
        let mut representation = programs::program(&bytes(&mut dice)).encode();
        accepted += u64::from(instructions::scanned(&representation));
        // Bent in a few places: few pass, and none with anything in it.
        for _ in 0..1 + dice.below(3) {
            let at = dice.below(representation.len());
            match dice.below(4) {
                0 => representation[at] = dice.below(256) as u8,
                1 => representation[at] ^= 1 << dice.below(8),
                2 => representation.truncate(at.max(1)),
                _ => representation.insert(at, dice.below(256) as u8),
            }
        }
        instructions::scanned(&representation);
    }
    println!("{accepted} of {cases} accepted");
    assert!(accepted * 4 > cases, "{accepted} of {cases}: too few to say anything");
}

#[test]
fn what_is_linked_has_no_call_but_those_of_the_linker() {
    let (mut dice, cases) = cases(20_000);
    let environments = [programs::environment(), kernel::environment().unwrap()];
    let mut linked = 0;
    for _ in 0..cases {
        let program = programs::program(&bytes(&mut dice));
        for environment in &environments {
            linked += u64::from(instructions::linked(environment, &program).is_some());
        }
    }
    assert!(linked * 4 > cases, "{linked} of {cases}: too few to say anything");
}

/// The second opinions would notice: else they say nothing.
#[test]
fn the_second_opinions_are_sharp() {
    let about = ["only symbols", "this opcode", "only plain 64-bit", "a register above", "its target"];
    let scanner = Sample::all().into_iter().filter(|sample| sample.stage == Stage::Scanner);
    for sample in scanner.filter(|sample| about.iter().any(|word| sample.reason.starts_with(word))) {
        let Body::Program(program) = &sample.body else { panic!("{}", sample.name()) };
        // That jumps stay in their function is the scanner's rule alone.
        let alone = sample.name() == "jump-into-another-function";
        assert!(alone || instructions::second_opinion(&program.encode()).is_err(), "{}", sample.name());
    }
    let environment = programs::environment();
    let program = programs::program(&[3, 8, 9, 7, 0, 8, 0, 8, 1, 5, 8, 2, 4]);
    let linked = instructions::linked(&environment, &program).unwrap();
    let helper = Insn { opcode: 0x85, imm: 12, ..Insn::default() };
    for at in 0..linked.len() {
        let mut bent = linked.clone();
        bent[at] = helper;
        assert!(instructions::only_calls_of_the_linker(&environment, &program, &bent).is_err(), "instruction {at}");
    }
}

#[test]
fn what_is_linked_is_verified_or_refused_with_a_reason() {
    let Some(place) = Place::new() else { return };
    let environment = kernel::environment().unwrap();
    let (mut dice, cases) = cases(1500);
    let (mut taken, mut refused) = (0, 0);
    // A fifth as many, since the verifier takes its time.
    for _ in 0..cases / 5 {
        let program = programs::program(&bytes(&mut dice));
        if instructions::linked(&environment, &program).is_none() {
            continue;
        }
        match place.load(&program, 8) {
            Ok(()) => taken += 1,
            Err(why) => {
                let log = why.split_once("the kernel's verifier refuses it: ").map_or("", |(_, log)| log);
                assert!(log.lines().count() > 1, "refused without a log: {why}\n{program:?}");
                refused += 1;
            }
        }
    }
    println!("{taken} verified, {refused} refused");
    assert!(taken > 0 && refused > 0, "{taken} verified, {refused} refused: the programs are all alike");
}
