//! The check of bpf representations: a whitelist of instructions.
//!
//! The kernel's verifier guards memory and termination. But by itself it also loads helper calls, map references and
//! atomics if the loader has the rights. So everything that is not explicitly allowed here is refused before linking.
//! Allowed: arithmetic, plain loads and stores, jumps inside a function, calls of functions of the program, calls of
//! the interface by symbol, exit (RFC 9669, groups base32 and base64, of these without byte-code for packets and
//! helpers).

use super::{BpfFault, Refusal};
use crate::abi::{Symbol, symbol};
use crate::code::bundle::{Insn, Program};

/// What the check found out about a bpf representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpfFacts {
    /// Bytes of the representation.
    pub bytes: usize,
    /// Instructions, with two for each 64-bit constant.
    pub instructions: usize,
    /// Functions, the entry included.
    pub functions: usize,
    /// The symbols called, by index in the instructions.
    pub symbols: Vec<&'static Symbol>,
}

/// Source register of a call of a symbol.
const CALL_SYMBOL: u8 = 14;
/// Source register of a call of a function of the program.
const CALL_LOCAL: u8 = 1;

const LD_IMM64: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const JA: u8 = 0x05;

/// Checks a bpf representation; total.
pub fn bpf(bytes: &[u8]) -> Result<BpfFacts, Refusal> {
    let program = Program::parse(bytes).map_err(Refusal::Form)?;
    let find = |name: &String| symbol(name).ok_or_else(|| Refusal::Symbol { name: name.clone() });
    let symbols = program.symbols.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let code = &program.code;

    let mut slots = vec![Slot::default(); code.len()];
    let mut used = vec![false; symbols.len()];
    slots[0].function = true;
    let mut at = 0;
    while at < code.len() {
        let fault = |fault| Refusal::Bpf { at, opcode: code[at].opcode, fault };
        at += match instruction(code, at, symbols.len()).map_err(fault)? {
            Kind::Plain => 1,
            Kind::Wide => {
                slots[at + 1].second = true;
                2
            }
            Kind::Jump(to) => {
                slots[at].jump = Some(to);
                1
            }
            Kind::Local(to) => {
                slots[to].function = true;
                1
            }
            Kind::Symbol(index) => {
                used[index] = true;
                1
            }
        };
    }
    targets(code, &slots)?;
    if let Some(index) = used.iter().position(|used| !used) {
        return Err(Refusal::Unused { name: program.symbols[index].clone() });
    }
    let functions = slots.iter().filter(|slot| slot.function).count();
    Ok(BpfFacts { bytes: bytes.len(), instructions: code.len(), functions, symbols })
}

/// What is known of the place of one instruction.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The second half of a 64-bit constant.
    second: bool,
    /// The first instruction of a function.
    function: bool,
    /// Where the instruction jumps to.
    jump: Option<usize>,
}

/// Jumps stay in their function and hit whole instructions; functions do not run over their end.
fn targets(code: &[Insn], slots: &[Slot]) -> Result<(), Refusal> {
    let mut function = 0;
    let owner: Vec<usize> = slots
        .iter()
        .enumerate()
        .map(|(at, slot)| {
            if slot.function {
                function = at;
            }
            function
        })
        .collect();
    let split = |slot: &Slot| slot.second && slot.function;
    if let Some(at) = slots.iter().position(split) {
        return Err(Refusal::Bpf { at, opcode: code[at].opcode, fault: BpfFault::Target });
    }
    for (at, slot) in slots.iter().enumerate() {
        let fault = |fault| Err(Refusal::Bpf { at, opcode: code[at].opcode, fault });
        if slot.jump.is_some_and(|to| slots[to].second || owner[to] != owner[at]) {
            return fault(BpfFault::Target);
        }
        let last = at + 1 == code.len() || slots[at + 1].function;
        if last && (slot.second || !matches!(code[at].opcode, EXIT | JA)) {
            return fault(BpfFault::End);
        }
    }
    Ok(())
}

enum Kind {
    Plain,
    Wide,
    Jump(usize),
    Local(usize),
    Symbol(usize),
}

/// Checks the fields of one instruction and says what it does to the flow.
fn instruction(code: &[Insn], at: usize, symbols: usize) -> Result<Kind, BpfFault> {
    let insn = code[at];
    if insn.dst > 10 || (insn.src > 10 && insn.opcode != CALL) {
        return Err(BpfFault::Register);
    }
    match insn.opcode & 7 {
        0 => constant(insn, code.get(at + 1)),
        1 => load(insn),
        2 | 3 => store(insn),
        4 | 7 => arithmetic(insn),
        _ => match insn.opcode {
            CALL => call(insn, at, code.len(), symbols),
            EXIT if insn == (Insn { opcode: EXIT, ..Insn::default() }) => Ok(Kind::Plain),
            EXIT => Err(BpfFault::Field),
            _ => jump(insn, at, code.len()),
        },
    }
}

/// Only the 64-bit constant; packet access (LD_ABS, LD_IND) and pseudo constants are refused.
fn constant(insn: Insn, next: Option<&Insn>) -> Result<Kind, BpfFault> {
    if insn.opcode != LD_IMM64 {
        return Err(BpfFault::Opcode);
    }
    let second = next.map(|next| Insn { imm: 0, ..*next });
    if insn.src != 0 || insn.off != 0 || second != Some(Insn::default()) {
        return Err(BpfFault::Immediate);
    }
    writes(insn).map(|()| Kind::Wide)
}

/// Plain and sign-extending loads.
fn load(insn: Insn) -> Result<Kind, BpfFault> {
    let double = insn.opcode & 0x18 == 0x18;
    match insn.opcode & 0xe0 {
        0x60 => {}
        0x80 if !double => {}
        _ => return Err(BpfFault::Opcode),
    }
    if insn.imm != 0 {
        return Err(BpfFault::Field);
    }
    if insn.src == 10 && insn.off >= 0 {
        return Err(BpfFault::Stack);
    }
    writes(insn).map(|()| Kind::Plain)
}

/// Plain stores of a register or a constant; atomics are another mode.
fn store(insn: Insn) -> Result<Kind, BpfFault> {
    if insn.opcode & 0xe0 != 0x60 {
        return Err(BpfFault::Opcode);
    }
    let register = insn.opcode & 7 == 3;
    if (register && insn.imm != 0) || (!register && insn.src != 0) {
        return Err(BpfFault::Field);
    }
    if insn.dst == 10 && insn.off >= 0 {
        return Err(BpfFault::Stack);
    }
    Ok(Kind::Plain)
}

/// Arithmetic of 32 and 64 bits; the fields that an operation does not use are zero.
fn arithmetic(insn: Insn) -> Result<Kind, BpfFault> {
    const NEG: u8 = 0x80;
    const MOV: u8 = 0xb0;
    const END: u8 = 0xd0;
    let (wide, register) = (insn.opcode & 7 == 7, insn.opcode & 8 != 0);
    let operation = insn.opcode & 0xf0;
    let offsets: &[i16] = match operation {
        0x30 | 0x90 => &[0, 1], // division and remainder, unsigned and signed
        MOV if register && wide => &[0, 8, 16, 32],
        MOV if register => &[0, 8, 16],
        0xe0.. => return Err(BpfFault::Opcode),
        _ => &[0],
    };
    let fields = match operation {
        NEG if register => return Err(BpfFault::Opcode),
        NEG => insn.src == 0 && insn.imm == 0,
        END if wide && register => return Err(BpfFault::Opcode),
        END => insn.src == 0 && matches!(insn.imm, 16 | 32 | 64),
        _ if register => insn.imm == 0,
        0x60 | 0x70 | 0xc0 => insn.src == 0 && (0..if wide { 64 } else { 32 }).contains(&insn.imm),
        0x30 | 0x90 => insn.src == 0 && insn.imm != 0,
        _ => insn.src == 0,
    };
    if !fields || !offsets.contains(&insn.off) {
        return Err(BpfFault::Field);
    }
    writes(insn).map(|()| Kind::Plain)
}

/// The interface by symbol, functions of the program by distance, and nothing else.
fn call(insn: Insn, at: usize, length: usize, symbols: usize) -> Result<Kind, BpfFault> {
    if insn.dst != 0 || insn.off != 0 {
        return Err(BpfFault::Field);
    }
    match insn.src {
        CALL_SYMBOL => match usize::try_from(insn.imm) {
            Ok(index) if index < symbols => Ok(Kind::Symbol(index)),
            _ => Err(BpfFault::SymbolIndex),
        },
        CALL_LOCAL => target(at, i64::from(insn.imm), length).map(Kind::Local),
        _ => Err(BpfFault::Call),
    }
}

/// Conditional jumps of 64 and 32 bits, and the unconditional one.
fn jump(insn: Insn, at: usize, length: usize) -> Result<Kind, BpfFault> {
    let (narrow, register) = (insn.opcode & 7 == 6, insn.opcode & 8 != 0);
    let fields = match insn.opcode & 0xf0 {
        0x00 if narrow || register => return Err(BpfFault::Opcode),
        0x00 => insn.dst == 0 && insn.src == 0 && insn.imm == 0,
        0x80 | 0x90 | 0xe0 | 0xf0 => return Err(BpfFault::Opcode),
        _ if register => insn.imm == 0,
        _ => insn.src == 0,
    };
    if !fields {
        return Err(BpfFault::Field);
    }
    target(at, i64::from(insn.off), length).map(Kind::Jump)
}

fn target(at: usize, distance: i64, length: usize) -> Result<usize, BpfFault> {
    // An instruction index is below 8192, so the sum cannot overflow.
    usize::try_from(at as i64 + 1 + distance).ok().filter(|to| *to < length).ok_or(BpfFault::Target)
}

fn writes(insn: Insn) -> Result<(), BpfFault> {
    if insn.dst == 10 { Err(BpfFault::Register) } else { Ok(()) }
}
