//! Reads the samples of `tests/hostile/`: purpose, stage of refusal, reason, and bytes.
//!
//! ```text
//! # What it wants, in words.
//! stage: scanner           where it ends: manifest, file, form, wasm, scanner, linker, verifier, contained
//! reason: only symbols     text of the refusal; for what is contained, what becomes of its packet
//! symbols: an_now          of the code (optional)
//! window: 8                payload bytes in its window (8 unless given)
//! frame: whole             instructions as they are; else behind the checks for NULL, and a verdict behind them
//! code:
//!   85 r0 r0 +0 12         ; opcode, destination, source, offset, immediate (RFC 9669); a comment
//!   times 4096 bf r3 r3 +0 0
//! ```
//!
//! In the place of `code:`, `bytes:` has bytes in hexadecimal, `text:` one line as it is, `wat:` a module.

#![allow(dead_code)]

use anode::code::bundle::{Insn, Program};
use std::path::{Path, PathBuf};

/// Where a sample ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The manifest is refused.
    Manifest,
    /// The bundle file is refused.
    File,
    /// The bytes are no bpf representation.
    Form,
    /// The check of modules refuses it.
    Wasm,
    /// The check of instructions refuses it.
    Scanner,
    /// The linker refuses it, or it is never linked.
    Linker,
    /// The kernel's verifier refuses it.
    Verifier,
    /// It runs, and does no more than it may.
    Contained,
}

/// What a sample consists of.
#[derive(Debug)]
pub enum Body {
    Program(Program),
    Bytes(Vec<u8>),
    Text(String),
    Module(String),
}

#[derive(Debug)]
pub struct Sample {
    pub path: PathBuf,
    pub stage: Stage,
    pub reason: String,
    pub window: u32,
    pub body: Body,
}

impl Sample {
    /// All samples.
    pub fn all() -> Vec<Sample> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "sample")).collect();
        paths.sort();
        paths.into_iter().map(Sample::read).collect()
    }

    fn read(path: PathBuf) -> Sample {
        let text = std::fs::read_to_string(&path).unwrap();
        let (header, body) = ["code:\n", "bytes:\n", "text:\n", "wat:\n"]
            .iter()
            .find_map(|kind| text.split_once(&format!("\n{kind}")).map(|(header, body)| (header, (*kind, body))))
            .unwrap_or_else(|| panic!("{}: no code:, bytes:, text: or wat:", path.display()));
        assert!(header.starts_with("# "), "{}: say what it wants", path.display());
        let field = |name: &str| {
            let line = header.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.map(str::to_owned)
        };
        let need = |name: &str| field(name).unwrap_or_else(|| panic!("{}: no {name}", path.display()));
        let whole = field("frame").is_some_and(|frame| frame == "whole");
        let symbols = field("symbols").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let body = match body {
            ("code:\n", text) => Body::Program(program(symbols, instructions(text), whole)),
            ("bytes:\n", text) => Body::Bytes(bytes(text)),
            ("text:\n", text) => Body::Text(text.strip_suffix('\n').unwrap_or(text).to_owned()),
            (_, text) => Body::Module(text.to_owned()),
        };
        let window = field("window").map_or(8, |window| window.parse().unwrap());
        let (stage, reason) = (stage(&need("stage")), need("reason"));
        Sample { stage, reason, window, body, path }
    }

    /// Its name: that of its file.
    pub fn name(&self) -> String {
        self.path.file_stem().unwrap().to_string_lossy().into_owned()
    }
}

fn stage(name: &str) -> Stage {
    match name {
        "manifest" => Stage::Manifest,
        "file" => Stage::File,
        "form" => Stage::Form,
        "wasm" => Stage::Wasm,
        "scanner" => Stage::Scanner,
        "linker" => Stage::Linker,
        "verifier" => Stage::Verifier,
        "contained" => Stage::Contained,
        other => panic!("no stage {other}"),
    }
}

/// Lines without comments, each with how often it stands there.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(|line| line.split(';').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(|line| match line.strip_prefix("times ") {
        Some(rest) => {
            let (count, rest) = rest.split_once(' ').unwrap();
            (count.parse().unwrap(), rest)
        }
        None => (1, line),
    })
}

fn bytes(text: &str) -> Vec<u8> {
    lines(text).flat_map(|(count, line)| hex::decode(line.replace(' ', "")).unwrap().repeat(count)).collect()
}

fn instructions(text: &str) -> Vec<Insn> {
    let register = |field: &str| field.strip_prefix('r').unwrap().parse().unwrap();
    lines(text)
        .flat_map(|(count, line)| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [opcode, dst, src, off, imm] = fields[..] else { panic!("five fields, not: {line}") };
            let opcode = u8::from_str_radix(opcode, 16).unwrap();
            let (off, imm) = (off.parse().unwrap(), imm.parse().unwrap());
            vec![Insn { opcode, dst: register(dst), src: register(src), off, imm }; count]
        })
        .collect()
}

/// Code behind the checks that neither pointer is NULL, then a verdict; or the code as it is.
fn program(symbols: Vec<String>, body: Vec<Insn>, whole: bool) -> Program {
    const JEQ: u8 = 0x15;
    if whole {
        return Program { symbols, code: body };
    }
    let check = |dst, off| Insn { opcode: JEQ, dst, src: 0, off, imm: 0 };
    let after = body.len() as i16;
    let mut code = vec![check(1, after + 1), check(2, after)];
    code.extend(body);
    code.extend([Insn { opcode: 0xb7, imm: 1, ..Insn::default() }, Insn { opcode: 0x95, ..Insn::default() }]);
    Program { symbols, code }
}
