//! Programs from any bytes: well-formed for the most part, with something forbidden now and then.
//!
//! Bytes alone hardly ever make a program that a scanner accepts, so here each byte decides what comes next: the
//! arithmetic, loads, stores, jumps and calls of ordinary capsules with likely and unlikely offsets.

use crate::code::bundle::{Insn, Program};
use crate::code::link::{Function, LinkEnvironment, Reference, SETS, SLOT};

/// Symbols that programs call: those that the kernel half has, and first one that it has not.
const SYMBOLS: [&str; 14] = [
    "an_load",
    "an_neighbour",
    "an_neighbours",
    "an_node_name",
    "an_now",
    "an_random",
    "an_route",
    "an_state_add",
    "an_state_get",
    "an_state_put",
    // Not sorted among the others: their places are in what follows.
    "an_send",
    "an_log",
    "an_state_max",
    "an_state_exchange",
];

/// Fragments of one program.
const FRAGMENTS_MAX: usize = 24;

/// Bytes, read until there are none; then zeroes.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.next()) % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

fn insn(opcode: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { opcode, dst, src, off, imm }
}

/// A call of a symbol, by its place in [`SYMBOLS`] until the program is done.
fn symbol(index: usize) -> Insn {
    insn(0x85, 0, 14, 0, index as i32)
}

/// The program that these bytes stand for. r6 has the context, r7 the window; r3, r4, r5, r8 and r9 have numbers.
pub fn program(bytes: &[u8]) -> Program {
    let mut bytes = Bytes(bytes);
    let mut code = vec![insn(0xbf, 6, 1, 0, 0), insn(0xbf, 7, 2, 0, 0), insn(0xb7, 0, 0, 0, 1)];
    // Out of here if a pointer is NULL.
    code.extend([insn(0x55, 6, 0, 1, 0), insn(0x95, 0, 0, 0, 0), insn(0x55, 7, 0, 1, 0), insn(0x95, 0, 0, 0, 0)]);
    code.extend([8, 9].map(|register| insn(0xb7, register, 0, 0, 5)));
    for _ in 0..1 + bytes.below(FRAGMENTS_MAX) {
        fragment(&mut bytes, &mut code);
    }
    let verdict = bytes.pick(&[0, 1, 1, 2, 3]);
    code.extend([insn(0xb7, 0, 0, 0, verdict), insn(0x95, 0, 0, 0, 0)]);
    if bytes.below(4) == 0 {
        let at = bytes.below(code.len());
        // A function of the program's own, behind all the others.
        let distance = (code.len() - at - 1) as i32;
        code[at] = insn(0x85, 0, 1, 0, distance);
        code.extend([insn(0xb7, 0, 0, 0, 2), insn(0x95, 0, 0, 0, 0)]);
    }
    finish(code)
}

/// Lists the symbols that are called, and numbers the calls by that list.
fn finish(mut code: Vec<Insn>) -> Program {
    let index = |insn: &Insn| (insn.opcode == 0x85 && insn.src == 14).then_some(insn.imm as usize);
    let mut used: Vec<usize> = code.iter().filter_map(index).filter(|at| *at < SYMBOLS.len()).collect();
    used.sort_unstable_by_key(|at| SYMBOLS[*at]);
    used.dedup();
    for insn in &mut code {
        if let Some(place) = index(insn).and_then(|at| used.iter().position(|used| *used == at)) {
            insn.imm = place as i32;
        }
    }
    Program { symbols: used.into_iter().map(|at| SYMBOLS[at].to_owned()).collect(), code }
}

/// An environment like that of the kernel half, for where it is not at hand: every call, with maps and constants.
pub fn environment() -> LinkEnvironment {
    let function = |name: &str, code: Vec<Insn>, references| Function { name: name.into(), code, references };
    let (map, exit) = (insn(0x18, 1, 0, 0, 0), insn(0x95, 0, 0, 0, 0));
    let call = |name: &&str| {
        let code = vec![map, Insn::default(), insn(0xb7, 2, 0, 0, SETS), insn(0x85, 0, 0, 0, 1), exit];
        function(name, code, vec![(0, Reference::Map("state_map".into()))])
    };
    let runner = vec![insn(0xb7, 1, 0, 0, SLOT), insn(0x85, 0, 1, 0, -1), exit];
    let runner = |name: &str| function(name, runner.clone(), vec![(1, Reference::Code)]);
    LinkEnvironment {
        runner: runner("runner"),
        sender: runner("sender"),
        calls: SYMBOLS[1..].iter().map(call).collect(),
    }
}

/// Some instructions that belong together.
fn fragment(bytes: &mut Bytes<'_>, code: &mut Vec<Insn>) {
    const NUMBERS: [u8; 2] = [8, 9];
    let (dst, src) = (bytes.pick(&NUMBERS), bytes.pick(&NUMBERS));
    let constant = i32::from(bytes.next() as i8);
    match bytes.below(14) {
        0 => {
            let opcode = bytes.pick(&[0x07, 0x17, 0x27, 0x47, 0x57, 0xa7, 0xb7, 0x04, 0x14, 0x24, 0x54, 0xb4]);
            code.push(insn(opcode, dst, 0, 0, constant));
        }
        1 => code.push(insn(
            bytes.pick(&[0x0f, 0x1f, 0x2f, 0x3f, 0x4f, 0x5f, 0x9f, 0xaf, 0xbf, 0x0c, 0xbc]),
            dst,
            src,
            0,
            0,
        )),
        2 => code.push(insn(bytes.pick(&[0x67, 0x77, 0xc7]), dst, 0, 0, constant & 63)),
        3 => code.push(insn(
            bytes.pick(&[0x61, 0x69, 0x71, 0x79, 0x91]),
            dst,
            bytes.pick(&[6, 7]),
            bytes.pick(&[0, 8, 16, 24, 32, 40]),
            0,
        )),
        4 => code.push(insn(bytes.pick(&[0x63, 0x6b, 0x73, 0x7b]), 7, dst, bytes.pick(&[0, 8, 16, 24, 32, 40]), 0)),
        5 => code.extend([insn(0x7b, 10, dst, -8, 0), insn(0x79, src, 10, -8, 0)]),
        6 => {
            let over = 1 + bytes.below(2);
            code.push(insn(bytes.pick(&[0x15, 0x25, 0x55, 0xa5, 0x65, 0x16]), dst, 0, over as i16, constant));
            code.extend((0..over).map(|at| insn(0x07, src, 0, 0, at as i32)));
        }
        7 => code.extend([insn(0x18, dst, 0, 0, constant), insn(0, 0, 0, 0, constant)]),
        8 => code.extend([symbol(bytes.pick(&[2, 4, 5])), insn(0xbf, dst, 0, 0, 0)]),
        9 => {
            let keep = insn(0xb7, 3, 0, 0, 1000);
            code.extend([
                insn(0xbf, 1, dst, 0, 0),
                insn(0xbf, 2, src, 0, 0),
                keep,
                symbol(if constant & 1 == 0 { 7 } else { 12 }),
                insn(0xbf, dst, 0, 0, 0),
            ]);
        }
        10 => {
            // A value on the stack, read or kept.
            code.extend((1..=8).map(|at| insn(0x7b, 10, dst, -8 * at, 0)));
            code.extend([insn(0xbf, 1, src, 0, 0), insn(0xbf, 2, 10, 0, 0), insn(0x07, 2, 0, 0, -64)]);
            let called = bytes.pick(&[1, 6, 8, 8, 9, 9, 0]);
            if called == 9 && constant & 1 == 1 {
                // The number that is expected stands before the value.
                code.extend([insn(0xbf, 3, 2, 0, 0), insn(0xbf, 2, dst, 0, 0)]);
                code.extend([insn(0xb7, 4, 0, 0, constant), symbol(13)]);
            } else {
                code.extend([insn(0xb7, 3, 0, 0, constant), symbol(called)]);
            }
        }
        11 => code.extend([insn(0xbf, 1, 7, 0, 0), symbol(3)]),
        12 => code.extend([insn(0xbf, 1, dst, 0, 0), insn(0xbf, 2, src, 0, 0), symbol(bytes.pick(&[10, 10, 11]))]),
        _ => unlikely(bytes, code, dst, constant),
    }
}

/// Something that is hardly ever right.
fn unlikely(bytes: &mut Bytes<'_>, code: &mut Vec<Insn>, dst: u8, constant: i32) {
    match bytes.below(16) {
        0 => code.push(insn(0x85, 0, bytes.pick(&[0, 2, 3]), 0, constant)),
        1 => code.extend([insn(0x18, dst, bytes.pick(&[1, 2, 3, 4, 5, 6]), 0, constant), Insn::default()]),
        2 => code.push(insn(0xdb, 7, dst, 0, bytes.pick(&[0, 1, 0xe1, 0xf1]))),
        3 => code.push(insn(bytes.next(), bytes.next() & 15, bytes.next() & 15, 0, constant)),
        4 => code.push(insn(0x05, 0, 0, constant as i16, 0)),
        5 => code.push(insn(0x85, 0, 14, 0, constant)),
        6 => code.push(insn(0x7b, 7, bytes.pick(&[6, 7, 10]), 0, 0)),
        7 => code.push(insn(0x79, dst, bytes.pick(&[6, 7, 10]), constant as i16, 0)),
        8 => code.push(insn(0x0f, 7, dst, 0, 0)),
        9 => code.push(insn(0x85, 0, 1, 0, constant)),
        10 => code.push(insn(0xe5, 0, 0, 0, 0)),
        11 => code.push(insn(0xbf, dst, dst, bytes.pick(&[1, -1, 8, 16, 32]), 0)),
        12 => code.push(insn(0xbf, dst, bytes.pick(&[6, 7]), 0, 0)),
        13 => code.push(insn(0x95, 0, 0, 0, 0)),
        14 => code.push(insn(0x07, 10, 0, 0, constant)),
        _ => code.push(insn(0x73, 7, dst, constant as i16, 0)),
    }
}
