//! Programs that want more than is theirs: each is refused before a packet, for a reason that is stated here.
//!
//! Some break a rule of `docs/bundle.md` and never get to the kernel; the others are well-formed, and what they do
//! with memory, time or addresses is refused by its verifier, in a thread of few rights.

#[path = "halves/place.rs"]
mod place;

use anode::code::bundle::{Insn, Program};
use anode::code::check;
use place::Place;

const LDX64: u8 = 0x79;
const LDX8: u8 = 0x71;
const STX64: u8 = 0x7b;
const ST8: u8 = 0x72;
const MOV: u8 = 0xb7;
const MOVX: u8 = 0xbf;
const ADD: u8 = 0x07;
const ADDX: u8 = 0x0f;
const JEQ: u8 = 0x15;
const JLT: u8 = 0xa5;
const JA: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: Insn = Insn { opcode: 0x95, dst: 0, src: 0, off: 0, imm: 0 };

/// Payload octets in the windows of these programs.
const WINDOW: u32 = 8;

fn insn(opcode: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { opcode, dst, src, off, imm }
}

/// A program with `body` behind the checks that neither pointer is NULL, then a verdict.
fn program(symbols: &[&str], body: &[Insn]) -> Program {
    let after = body.len() as i16;
    let mut code = vec![insn(JEQ, 1, 0, after + 1, 0), insn(JEQ, 2, 0, after, 0)];
    code.extend(body);
    code.extend([insn(MOV, 0, 0, 0, 1), EXIT]);
    Program { symbols: symbols.iter().map(|name| (*name).to_owned()).collect(), code }
}

fn symbol(index: i32) -> Insn {
    insn(CALL, 0, 14, 0, index)
}

#[test]
fn smuggled_calls_and_addresses_break_the_rules() {
    let wide = |src| [insn(0x18, 3, src, 0, 1), Insn::default()];
    let cases: Vec<(&str, Vec<Insn>)> = vec![
        ("a helper", vec![insn(CALL, 0, 0, 0, 1)]),
        ("a tail call", vec![insn(CALL, 0, 0, 0, 12)]),
        ("a kernel function", vec![insn(CALL, 0, 2, 0, 1)]),
        ("a call by register", vec![insn(0x8d, 3, 0, 0, 0)]),
        ("a map", wide(1).to_vec()),
        ("a map's value", wide(2).to_vec()),
        ("a kernel variable", wide(3).to_vec()),
        ("a function's address", wide(4).to_vec()),
        ("a map by index", wide(5).to_vec()),
        ("a constant cut in two", vec![insn(JA, 0, 0, 1, 0), wide(0)[0], wide(0)[1]]),
        ("a packet by LD_ABS", vec![insn(0x20, 0, 0, 0, 0)]),
        ("a packet by LD_IND", vec![insn(0x40, 0, 1, 0, 0)]),
        ("an atomic operation", vec![insn(0xdb, 2, 1, 0, 0)]),
        ("may_goto", vec![insn(0xe5, 0, 0, 0, 0)]),
        ("gotol", vec![insn(0x06, 0, 0, 0, 0)]),
        ("a cast of address spaces", vec![insn(MOVX, 3, 1, 1, 0)]),
        ("a probing load", vec![insn(0x39, 3, 1, 0, 0)]),
        ("register 11", vec![insn(MOV, 11, 0, 0, 0)]),
        ("the frame pointer", vec![insn(ADD, 10, 0, 0, -8)]),
        ("a jump out of the program", vec![insn(JA, 0, 0, 100, 0)]),
        ("a symbol that nobody has", vec![symbol(3)]),
    ];
    for (what, body) in cases {
        let bytes = program(&[], &body).encode();
        assert!(check::bpf(&bytes).is_err(), "{what}");
    }
    let unknown = program(&["an_root"], &[symbol(0)]).encode();
    assert!(check::bpf(&unknown).unwrap_err().to_string().contains("an_root"));
}

/// What is wanted, a program that does it, and a word of the verifier's reason.
type Case = (&'static str, Program, &'static str);

/// Programs that want memory or addresses.
fn memory() -> Vec<Case> {
    let end = 32 + WINDOW as i16;
    vec![
        ("before the window", program(&[], &[insn(LDX64, 3, 2, -8, 0)]), "invalid"),
        ("writes locked fields", program(&[], &[insn(ST8, 2, 0, -50, 0)]), "invalid"),
        ("behind the window", program(&[], &[insn(LDX8, 3, 2, end, 0)]), "invalid"),
        ("behind the context", program(&[], &[insn(LDX8, 3, 1, 64, 0)]), "invalid"),
        (
            "does not look for NULL",
            Program { symbols: vec![], code: vec![insn(LDX8, 3, 2, 0, 0), insn(MOV, 0, 0, 0, 1), EXIT] },
            "mem_or_null",
        ),
        ("an address into the packet", program(&[], &[insn(STX64, 2, 1, 0, 0)]), "leaks addr"),
        ("an address into the context", program(&[], &[insn(STX64, 1, 10, 0, 0)]), "leaks addr"),
        ("an address as the verdict", program(&[], &[insn(MOVX, 0, 2, 0, 0), EXIT]), "return"),
        (
            "an unknown distance",
            program(&[], &[insn(LDX8, 3, 2, 0, 0), insn(ADDX, 2, 3, 0, 0), insn(ST8, 2, 0, 0, 0)]),
            "prohibited",
        ),
        ("what the stack held before", program(&[], &[insn(LDX64, 3, 10, -8, 0), insn(STX64, 2, 3, 0, 0)]), "stack"),
        ("a stack too deep", program(&[], &[insn(ST8, 10, 0, -513, 0)]), "stack"),
    ]
}

/// Programs that want time, or misuse calls.
fn time_and_calls() -> Vec<Case> {
    vec![
        ("runs for ever", program(&[], &[insn(JA, 0, 0, -1, 0)]), "loop"),
        (
            "runs for long",
            program(
                &[],
                &[insn(MOV, 3, 0, 0, 0), insn(ADD, 3, 0, 0, 1), insn(MOVX, 4, 3, 0, 0), insn(JLT, 3, 0, -3, 2_000_000)],
            ),
            "too complex",
        ),
        (
            "calls itself",
            Program { symbols: vec![], code: vec![insn(CALL, 0, 1, 0, -1), insn(MOV, 0, 0, 0, 1), EXIT] },
            "too deep",
        ),
        (
            "a call that writes behind the window",
            program(&["an_node_name"], &[insn(MOVX, 1, 2, 0, 0), insn(ADD, 1, 0, 0, 32), symbol(0)]),
            "invalid",
        ),
        (
            "a call that reads what the stack held before",
            program(
                &["an_state_put"],
                &[
                    insn(MOVX, 2, 10, 0, 0),
                    insn(ADD, 2, 0, 0, -64),
                    insn(MOV, 1, 0, 0, 1),
                    insn(MOV, 3, 0, 0, 9),
                    symbol(0),
                ],
            ),
            "stack",
        ),
        (
            "an address as a key",
            program(
                &["an_state_add"],
                &[insn(MOVX, 1, 10, 0, 0), insn(MOV, 2, 0, 0, 1), insn(MOV, 3, 0, 0, 9), symbol(0)],
            ),
            "pointer",
        ),
        ("a number as an address", program(&["an_node_name"], &[insn(MOV, 1, 0, 0, 4096), symbol(0)]), "scalar"),
    ]
}

#[test]
fn memory_time_and_addresses_of_others_are_refused_by_the_verifier() {
    let Some(place) = Place::new() else { return };
    let cases = memory().into_iter().chain(time_and_calls());
    for (what, program, reason) in cases {
        check::bpf(&program.encode()).unwrap_or_else(|refusal| panic!("{what}: {refusal}"));
        let said = place.load(&program, WINDOW).expect_err(what);
        assert!(said.contains("verifier") && said.to_lowercase().contains(reason), "{what}: {said}");
    }
    assert_eq!(place.load(&program(&[], &[]), WINDOW), Ok(()), "the frame of these programs is good");
}
