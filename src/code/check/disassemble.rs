//! One instruction of bpf code as text, in the manner of the kernel's verifier. Total: refused instructions have a text
//! too.

use crate::code::bundle::{Insn, Program};

/// The text of the instruction with this index.
pub fn disassemble(program: &Program, at: usize) -> String {
    let Some(insn) = program.code.get(at).copied() else { return "nothing: the program has ended".into() };
    match insn.opcode & 7 {
        0 => constant(insn, program.code.get(at + 1)),
        1 => load(insn),
        2 | 3 => store(insn),
        4 | 7 => arithmetic(insn),
        _ => jump(insn, program),
    }
}

fn unknown(insn: Insn) -> String {
    let bytes: Vec<_> = insn.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("unknown: {}", bytes.join(" "))
}

/// The type of an access of this size.
fn size(insn: Insn) -> &'static str {
    match insn.opcode & 0x18 {
        0x00 => "u32",
        0x08 => "u16",
        0x10 => "u8",
        _ => "u64",
    }
}

fn constant(insn: Insn, second: Option<&Insn>) -> String {
    let high = second.map_or(0, |second| second.imm);
    match (insn.opcode, insn.src) {
        (0x18, 0) => {
            format!("r{} = {:#x} ll", insn.dst, u64::from(high as u32) << 32 | u64::from(insn.imm as u32))
        }
        (0x18, 1 | 5) => format!("r{} = map {} ll", insn.dst, insn.imm),
        (0x18, 2 | 6) => format!("r{} = map {} value at {high} ll", insn.dst, insn.imm),
        (0x18, 3) => format!("r{} = kernel variable {} ll", insn.dst, insn.imm),
        (0x18, 4) => format!("r{} = function at {} ll", insn.dst, insn.imm),
        (opcode, _) if opcode & 0xe0 == 0x20 => format!("r0 = *({} *)skb[{}]", size(insn), insn.imm),
        (opcode, _) if opcode & 0xe0 == 0x40 => format!("r0 = *({} *)skb[r{} + {}]", size(insn), insn.src, insn.imm),
        _ => unknown(insn),
    }
}

/// An address: a register and what is added.
fn address(register: u8, off: i16) -> String {
    let sign = if off < 0 { '-' } else { '+' };
    format!("r{register} {sign} {}", off.unsigned_abs())
}

fn load(insn: Insn) -> String {
    let signed = size(insn).replace('u', "s");
    let from = address(insn.src, insn.off);
    match insn.opcode & 0xe0 {
        0x60 => format!("r{} = *({} *)({from})", insn.dst, size(insn)),
        0x80 => format!("r{} = *({signed} *)({from})", insn.dst),
        _ => unknown(insn),
    }
}

fn store(insn: Insn) -> String {
    let to = format!("*({} *)({})", size(insn), address(insn.dst, insn.off));
    match (insn.opcode & 0xe0, insn.opcode & 7) {
        (0x60, 3) => format!("{to} = r{}", insn.src),
        (0x60, _) => format!("{to} = {}", insn.imm),
        (0xc0, 3) => atomic(insn, &to),
        _ => unknown(insn),
    }
}

fn atomic(insn: Insn, to: &str) -> String {
    let operation = match insn.imm & !1 {
        0x00 => "+=",
        0x40 => "|=",
        0x50 => "&=",
        0xa0 => "^=",
        0xe0 => return format!("r{} = atomic exchange of {to}", insn.src),
        0xf0 => return format!("r0 = atomic compare and exchange of {to} with r{}", insn.src),
        _ => return unknown(insn),
    };
    let fetch = if insn.imm & 1 == 1 { ", fetched" } else { "" };
    format!("lock {to} {operation} r{}{fetch}", insn.src)
}

fn arithmetic(insn: Insn) -> String {
    let register = if insn.opcode & 7 == 7 { 'r' } else { 'w' };
    let to = format!("{register}{}", insn.dst);
    let from = if insn.opcode & 8 == 0 { insn.imm.to_string() } else { format!("{register}{}", insn.src) };
    let signed = if insn.off == 1 { "s" } else { "" };
    let operation = match insn.opcode & 0xf0 {
        0x00 => "+=",
        0x10 => "-=",
        0x20 => "*=",
        0x30 => return format!("{to} {signed}/= {from}"),
        0x40 => "|=",
        0x50 => "&=",
        0x60 => "<<=",
        0x70 => ">>=",
        0x80 => return format!("{to} = -{to}"),
        0x90 => return format!("{to} {signed}%= {from}"),
        0xa0 => "^=",
        0xb0 if insn.off != 0 => return format!("{to} = (s{}){from}", insn.off),
        0xb0 => "=",
        0xc0 => "s>>=",
        0xd0 if insn.opcode & 7 == 7 => return format!("{to} = bswap{} {to}", insn.imm),
        0xd0 => {
            let order = if insn.opcode & 8 == 0 { "le" } else { "be" };
            return format!("r{} = {order}{} r{}", insn.dst, insn.imm, insn.dst);
        }
        _ => return unknown(insn),
    };
    format!("{to} {operation} {from}")
}

fn jump(insn: Insn, program: &Program) -> String {
    let register = if insn.opcode & 7 == 5 { 'r' } else { 'w' };
    let from = if insn.opcode & 8 == 0 { insn.imm.to_string() } else { format!("{register}{}", insn.src) };
    let comparison = match insn.opcode & 0xf0 {
        0x00 if insn.opcode == 0x05 => return format!("goto {:+}", insn.off),
        0x00 if insn.opcode == 0x06 => return format!("gotol {:+}", insn.imm),
        0x80 => return call(insn, program),
        0x90 if insn.opcode == 0x95 => return "exit".into(),
        0xe0 if insn.opcode == 0xe5 => return format!("may_goto {:+}", insn.off),
        0x10 => "==",
        0x20 => ">",
        0x30 => ">=",
        0x40 => "&",
        0x50 => "!=",
        0x60 => "s>",
        0x70 => "s>=",
        0xa0 => "<",
        0xb0 => "<=",
        0xc0 => "s<",
        0xd0 => "s<=",
        _ => return unknown(insn),
    };
    format!("if {register}{} {comparison} {from} goto {:+}", insn.dst, insn.off)
}

fn call(insn: Insn, program: &Program) -> String {
    let symbol = usize::try_from(insn.imm).ok().and_then(|index| program.symbols.get(index));
    match (insn.opcode, insn.src) {
        (0x85, 0) => format!("call of kernel helper {}", insn.imm),
        (0x85, 1) => format!("call {:+}", insn.imm),
        (0x85, 2) => format!("call of kernel function {}", insn.imm),
        (0x85, 14) => symbol.map_or_else(|| format!("call of symbol {}", insn.imm), |name| format!("call {name}")),
        (0x8d, _) => format!("call of the address in r{}", insn.dst),
        _ => unknown(insn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_read_as_the_kernels_verifier_writes_them() {
        let insn = |opcode, dst, src, off, imm| Insn { opcode, dst, src, off, imm };
        let cases = [
            (insn(0x18, 1, 0, 0, 5), "r1 = 0x100000005 ll"),
            (insn(0x61, 3, 1, 36, 0), "r3 = *(u32 *)(r1 + 36)"),
            (insn(0x91, 3, 10, -8, 0), "r3 = *(s8 *)(r10 - 8)"),
            (insn(0x7a, 10, 0, -16, 7), "*(u64 *)(r10 - 16) = 7"),
            (insn(0x63, 2, 3, 32, 0), "*(u32 *)(r2 + 32) = r3"),
            (insn(0xdb, 1, 2, 0, 1), "lock *(u64 *)(r1 + 0) += r2, fetched"),
            (insn(0x07, 1, 0, 0, -4), "r1 += -4"),
            (insn(0x3c, 1, 2, 1, 0), "w1 s/= w2"),
            (insn(0xdc, 1, 0, 0, 16), "r1 = be16 r1"),
            (insn(0xbf, 1, 2, 32, 0), "r1 = (s32)r2"),
            (insn(0x15, 1, 0, 5, 0), "if r1 == 0 goto +5"),
            (insn(0xae, 1, 2, -5, 0), "if w1 < w2 goto -5"),
            (insn(0x85, 0, 14, 0, 0), "call an_now"),
            (insn(0x85, 0, 0, 0, 12), "call of kernel helper 12"),
            (insn(0x85, 0, 1, 0, 3), "call +3"),
            (insn(0x95, 0, 0, 0, 0), "exit"),
            (insn(0x20, 0, 0, 0, 14), "r0 = *(u32 *)skb[14]"),
            (insn(0xff, 1, 2, 3, 4), "unknown: ff 21 03 00 04 00 00 00"),
        ];
        for (insn, text) in cases {
            let high = Insn { imm: 1, ..Insn::default() };
            let program = Program { symbols: vec!["an_now".into()], code: vec![insn, high] };
            assert_eq!(disassemble(&program, 0), text);
        }
    }

    #[test]
    fn every_instruction_has_a_text() {
        for opcode in 0..=255 {
            for (dst, src) in [(0, 0), (15, 15)] {
                let program = Program { symbols: Vec::new(), code: vec![Insn { opcode, dst, src, off: -1, imm: -1 }] };
                assert!(!disassemble(&program, 0).is_empty());
            }
        }
        assert!(disassemble(&Program::default(), 0).contains("ended"));
    }
}
