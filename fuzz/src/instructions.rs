//! A second opinion on bpf representations: RFC 9669 read again, without a line of the scanner or the linker.
//!
//! Whatever the scanner accepts must be of the instructions in the table here, and call nothing but symbols and its own
//! functions; whatever the linker makes of it must have no call in the mobile code but those that the linker made, and
//! around it nothing but the environment. These functions are fuzz targets, and `tests/halves/generated.rs` calls them
//! with programs from a seed.

use crate::code::bundle::{Insn, Program};
use crate::code::check;
use crate::code::link::{
    Constants, Function, KEEP, LinkEnvironment, LinkError, MOST, Reference, SETS, SLOT, WINDOW, link,
};

/// Opcodes of RFC 9669, appendix A, groups base32, base64, divmul32 and divmul64, that mobile code may have; without
/// packet access, atomics, the conditional jumps' newer relatives, calls by register and long jumps. `0x85` and `0x18`
/// are looked at more closely.
const ALLOWED: [u8; 116] = [
    // Arithmetic of 64 bits with a constant, and with a register.
    0x07, 0x17, 0x27, 0x37, 0x47, 0x57, 0x67, 0x77, 0x87, 0x97, 0xa7, 0xb7, 0xc7, 0xd7, 0x0f, 0x1f, 0x2f, 0x3f, 0x4f,
    0x5f, 0x6f, 0x7f, 0x9f, 0xaf, 0xbf, 0xcf, // Of 32 bits, and the two orders of bytes.
    0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x84, 0x94, 0xa4, 0xb4, 0xc4, 0xd4, 0xdc, 0x0c, 0x1c, 0x2c, 0x3c,
    0x4c, 0x5c, 0x6c, 0x7c, 0x9c, 0xac, 0xbc, 0xcc, // Loads, with and without sign; stores.
    0x61, 0x69, 0x71, 0x79, 0x81, 0x89, 0x91, 0x62, 0x6a, 0x72, 0x7a, 0x63, 0x6b, 0x73, 0x7b,
    // Jumps on 64 bits.
    0x05, 0x15, 0x25, 0x35, 0x45, 0x55, 0x65, 0x75, 0xa5, 0xb5, 0xc5, 0xd5, 0x1d, 0x2d, 0x3d, 0x4d, 0x5d, 0x6d, 0x7d,
    0xad, 0xbd, 0xcd, 0xdd, // On 32 bits.
    0x16, 0x26, 0x36, 0x46, 0x56, 0x66, 0x76, 0xa6, 0xb6, 0xc6, 0xd6, 0x1e, 0x2e, 0x3e, 0x4e, 0x5e, 0x6e, 0x7e, 0xae,
    0xbe, 0xce, 0xde, // Call, exit, and the constant of 64 bits.
    0x85, 0x95, 0x18,
];

const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const WIDE: u8 = 0x18;

/// Any bytes to the scanner; whether it accepts them. What it accepts passes the second opinion.
pub fn scanned(bytes: &[u8]) -> bool {
    let accepted = check::bpf(bytes).is_ok();
    if accepted && let Err(why) = second_opinion(bytes) {
        panic!("accepted, and {why}");
    }
    accepted
}

/// The instructions of a representation, and how many symbols it has; from its bytes.
fn parts(bytes: &[u8]) -> Option<(usize, Vec<[u8; 8]>)> {
    let number = |at: usize, size: usize| {
        bytes
            .get(at..at + size)
            .map(|bytes| bytes.iter().rev().fold(0usize, |value, byte| value << 8 | usize::from(*byte)))
    };
    let (symbols, count) = (number(6, 2)?, number(8, 4)?);
    let mut at = 12;
    for _ in 0..symbols {
        at += bytes.get(at..)?.iter().position(|byte| *byte == 0)? + 1;
    }
    // Padding goes to a multiple of eight bytes from the beginning.
    let code = bytes.get(at.next_multiple_of(8)..)?;
    (code.len() == count * 8).then(|| (symbols, code.as_chunks::<8>().0.to_vec()))
}

/// Whether a representation has nothing but allowed instructions, or what it has.
pub fn second_opinion(bytes: &[u8]) -> Result<(), String> {
    let (symbols, code) = parts(bytes).ok_or("it has another form")?;
    let mut second = vec![false; code.len()];
    let mut targets = vec![];
    let mut at = 0;
    while let Some([opcode, registers, o0, o1, imm @ ..]) = code.get(at).copied() {
        let (dst, src) = (registers & 15, registers >> 4);
        let (off, imm) = (i64::from(i16::from_le_bytes([o0, o1])), i64::from(i32::from_le_bytes(imm)));
        let wrong = |what: &str| Err(format!("instruction {at}, {opcode:#04x}, {what}"));
        if !ALLOWED.contains(&opcode) {
            return wrong("has an opcode that is not allowed");
        }
        if dst > 10 || src > 10 && opcode != CALL {
            return wrong("has a register that does not exist");
        }
        let writes = matches!(opcode & 7, 0 | 1 | 4 | 7);
        if dst == 10 && writes {
            return wrong("writes the frame pointer");
        }
        match opcode {
            CALL if src == 14 && (0..symbols as i64).contains(&imm) => {}
            CALL if src == 1 => targets.push((at, at as i64 + 1 + imm)),
            CALL => return wrong("calls what is neither a symbol nor its own"),
            EXIT => {}
            WIDE => {
                let whole = code.get(at + 1).is_some_and(|next| next[..4] == [0; 4]);
                if src != 0 || off != 0 || !whole {
                    return wrong("is no plain constant");
                }
                second[at + 1] = true;
                at += 1;
            }
            _ if opcode & 7 == 5 || opcode & 7 == 6 => targets.push((at, at as i64 + 1 + off)),
            // A move with an offset other than those of sign extension casts address spaces or reads per-CPU memory.
            0xbf | 0xbc if !matches!(off, 0 | 8 | 16 | 32) => return wrong("is no plain move"),
            _ => {}
        }
        at += 1;
    }
    for (at, to) in targets {
        let inside = usize::try_from(to).ok().and_then(|to| second.get(to));
        if inside != Some(&false) {
            return Err(format!("instruction {at} goes to {to}"));
        }
    }
    Ok(())
}

/// Constants as for a code in a node.
const CONSTANTS: Constants = Constants { slot: 7, window: 16, sets: 256, keep_ms: 300_000, children: 16 };

/// Any program to the scanner, and what it accepts to the linker: what comes of it, if it can be linked. It has
/// no call that the linker did not make.
pub fn linked(environment: &LinkEnvironment, program: &Program) -> Option<Vec<Insn>> {
    if !scanned(&program.encode()) {
        return None;
    }
    match link(environment, program, CONSTANTS) {
        Ok(linked) => {
            if let Err(why) = only_calls_of_the_linker(environment, program, &linked.code) {
                panic!("linked, and {why}");
            }
            Some(linked.code)
        }
        Err(LinkError::NoCall(_)) => None,
        Err(error) => panic!("accepted, and {error}"),
    }
}

/// The mobile code in a linked program is what it was but for its symbols, and around it is the environment.
pub fn only_calls_of_the_linker(
    environment: &LinkEnvironment,
    program: &Program,
    linked: &[Insn],
) -> Result<(), String> {
    let runner = environment.runner_of(program);
    let entry = runner.code.len();
    let mut end = entry + program.code.len();
    same(runner, linked.get(..entry).ok_or("too short")?)?;
    let mut starts = vec![];
    for symbol in &program.symbols {
        let call = environment.calls.iter().find(|call| call.name == *symbol).ok_or("a call that does not exist")?;
        starts.push(end);
        same(call, linked.get(end..end + call.code.len()).ok_or("too short")?)?;
        end += call.code.len();
    }
    if linked.len() != end {
        return Err(format!("{} instructions where {end} were expected", linked.len()));
    }
    let mut second = false;
    for (at, (before, after)) in program.code.iter().zip(&linked[entry..]).enumerate() {
        let place = entry + at;
        let was_second = second;
        second = !was_second && before.opcode == WIDE;
        let to = place as i64 + 1 + i64::from(after.imm);
        let right = if before.opcode != CALL || was_second {
            before == after && (was_second || before.opcode != WIDE || after.src == 0)
        } else if before.src == 14 {
            let start = starts.get(before.imm as usize).copied();
            *after == (Insn { src: 1, imm: after.imm, ..*before }) && start == usize::try_from(to).ok()
        } else {
            before == after && after.src == 1 && (entry as i64..(entry + program.code.len()) as i64).contains(&to)
        };
        if !right {
            return Err(format!("instruction {at} of the code became {after:?}"));
        }
    }
    Ok(())
}

/// A function of the environment is as it was but for maps, the call of the code, and constants.
fn same(function: &Function, linked: &[Insn]) -> Result<(), String> {
    for (at, (before, after)) in function.code.iter().zip(linked).enumerate() {
        let refers = function.references.iter().find(|(place, _)| *place == at).map(|(_, reference)| reference);
        let source = refers.map(|reference| match reference {
            Reference::Code | Reference::Function(_) => 1,
            Reference::Map(_) => 5,
            Reference::Value(_) => 6,
        });
        let constant = [SLOT, WINDOW, SETS, KEEP, MOST].contains(&before.imm);
        let masked = |insn: &Insn| Insn { src: 0, imm: 0, ..*insn };
        let right = match (source, constant) {
            (Some(source), _) => masked(before) == masked(after) && after.src == source,
            (_, true) => Insn { imm: 0, ..*before } == Insn { imm: 0, ..*after },
            _ => before == after,
        };
        if !right {
            return Err(format!("instruction {at} of {} became {after:?}", function.name));
        }
    }
    Ok(())
}
