//! The bpf representation: instructions and the names of what they call.
//!
//! ```text
//! "ANBP" | version(16)=1 | symbols(16) | instructions(32)          little endian, like all of it
//! symbol names, each ended by NUL, sorted, unique | zeroes up to a multiple of 8 bytes
//! instructions, 8 bytes each (RFC 9669)
//! ```
//!
//! The form is canonical: one program has one encoding, apart from what [`crate::code::check`]
//! decides about the instructions (that every symbol is used, for one).

use super::Error;

/// The bytes before the symbol names.
pub const PROGRAM_HEADER: usize = 12;
const MAGIC: &[u8; 4] = b"ANBP";
const VERSION: u16 = 1;
const SYMBOL_MAX: usize = 64;

/// One BPF instruction (RFC 9669 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Insn {
    /// The opcode: class in its three lowest bits.
    pub opcode: u8,
    /// Destination register, 0 to 15 as encoded.
    pub dst: u8,
    /// Source register, 0 to 15 as encoded.
    pub src: u8,
    /// Signed offset: bytes in memory, or instructions for jumps.
    pub off: i16,
    /// Immediate.
    pub imm: i32,
}

impl Insn {
    /// Decodes little endian bytes; any 8 bytes are an instruction, if perhaps a forbidden one.
    pub fn decode(bytes: [u8; 8]) -> Insn {
        let [opcode, registers, o0, o1, i0, i1, i2, i3] = bytes;
        Insn {
            opcode,
            dst: registers & 15,
            src: registers >> 4,
            off: i16::from_le_bytes([o0, o1]),
            imm: i32::from_le_bytes([i0, i1, i2, i3]),
        }
    }

    /// Encodes to little endian bytes.
    pub fn encode(self) -> [u8; 8] {
        let [o0, o1] = self.off.to_le_bytes();
        let [i0, i1, i2, i3] = self.imm.to_le_bytes();
        [self.opcode, self.dst & 15 | self.src << 4, o0, o1, i0, i1, i2, i3]
    }
}

/// A bpf representation, decoded.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Program {
    /// The names that calls with source register 14 refer to by index; sorted.
    pub symbols: Vec<String>,
    /// The instructions; the entry is the first.
    pub code: Vec<Insn>,
}

impl Program {
    /// Decodes the form; total. The instructions are not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Program, Error> {
        let wrong = |cause| Err(Error::Program { cause });
        if bytes.len() > super::REPRESENTATION_MAX {
            return wrong("longer than 65536 bytes");
        }
        let Some((header, rest)) = bytes.split_first_chunk::<PROGRAM_HEADER>() else {
            return wrong("shorter than its header");
        };
        let [m0, m1, m2, m3, v0, v1, s0, s1, c0, c1, c2, c3] = *header;
        if [m0, m1, m2, m3] != *MAGIC {
            return wrong("it does not begin with ANBP");
        }
        if u16::from_le_bytes([v0, v1]) != VERSION {
            return wrong("a version other than 1");
        }
        let (symbols, code) = names(rest, u16::from_le_bytes([s0, s1]))?;
        let (chunks, tail) = code.as_chunks::<8>();
        if !tail.is_empty() || chunks.len() as u64 != u64::from(u32::from_le_bytes([c0, c1, c2, c3])) {
            return wrong("its length is not that of the instructions it announces");
        }
        if chunks.is_empty() {
            return wrong("it has no instructions");
        }
        Ok(Program { symbols, code: chunks.iter().map(|chunk| Insn::decode(*chunk)).collect() })
    }

    /// Encodes the form. The caller keeps the symbols sorted, unique and used.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(self.symbols.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.code.len() as u32).to_le_bytes());
        for symbol in &self.symbols {
            out.extend_from_slice(symbol.as_bytes());
            out.push(0);
        }
        out.resize(out.len().next_multiple_of(8), 0);
        self.code.iter().for_each(|insn| out.extend_from_slice(&insn.encode()));
        out
    }
}

/// Splits `count` names and the padding off `bytes`, which begin behind the header.
fn names(bytes: &[u8], count: u16) -> Result<(Vec<String>, &[u8]), Error> {
    let wrong = |cause| Err(Error::Program { cause });
    let mut names: Vec<String> = Vec::new();
    let mut rest = bytes;
    for _ in 0..count {
        let Some(length) = rest.iter().take(SYMBOL_MAX + 1).position(|&byte| byte == 0) else {
            return wrong("a symbol name is not ended, or longer than 64 bytes");
        };
        let (name, after) = rest.split_at(length);
        if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            return wrong("a symbol name has other characters than letters, digits and '_'");
        }
        let name = String::from_utf8_lossy(name).into_owned();
        if names.last().is_some_and(|last| *last >= name) {
            return wrong("its symbols are not sorted and unique");
        }
        names.push(name);
        rest = &after[1..];
    }
    let used = PROGRAM_HEADER + bytes.len() - rest.len();
    match rest.split_at_checked(used.next_multiple_of(8) - used) {
        Some((padding, code)) if padding.iter().all(|&byte| byte == 0) => Ok((names, code)),
        Some(_) => wrong("the padding behind its symbols is not zero"),
        None => wrong("it ends inside its symbols"),
    }
}
