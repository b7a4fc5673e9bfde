//! A second opinion on bpf code by PREVAIL, a verifier by abstract interpretation (Gershuni et al., PLDI 2019). It
//! needs no privilege and runs as the program `prevail`. Its words are advice: the kernel's verifier decides.
//!
//! It is shown one function that does what a runner does, over memory of the size that the code has, and behind the code a stand-in
//! for each call that touches just the memory that the call may touch:
//!
//! ```text
//! [ window = packet, if it is long enough; context = stack ] ─▶ the code, as it is ─▶ [ stand-ins ]
//! ```
//!
//! The program runs as a process of its own, for [`PATIENCE`] at most: whatever a young verifier does with strange code, it does to
//! itself.

use super::Error;
use super::elf;
use crate::abi::{ADDRESSES, CONTEXT};
use crate::code::bundle::{Insn, Program};
use crate::code::check::disassemble;
use serde::Serialize;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program that is looked for.
pub const PREVAIL: &str = "prevail";

/// For how long it may think, if nobody says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The program, and what it may take.
#[derive(Clone, Debug)]
pub struct Prevail {
    /// Its path, or its name.
    pub program: PathBuf,
    /// For how long it may think.
    pub patience: Duration,
}

/// Bytes of what it says that are read.
const SAID_MAX: u64 = 64 << 10;

/// Pause between two looks at whether it has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// The section that the program is in: its name makes it one for XDP.
const SECTION: &str = "xdp";

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Lint {
    /// It finds nothing.
    Passes {
        /// Rounds of loops, at most.
        #[serde(skip_serializing_if = "Option::is_none")]
        rounds: Option<u64>,
    },
    /// It cannot show that the code is safe or ends.
    Doubts {
        /// In its words.
        why: String,
        /// The instruction it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        instruction: Option<String>,
        /// File and line.
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// It is not installed.
    Absent,
    /// It did not answer.
    Failed {
        /// Why.
        why: String,
    },
}

impl core::fmt::Display for Lint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Lint::Passes { rounds: Some(rounds @ 1..) } => {
                write!(f, "prevail passes it, with {rounds} rounds of loops at most")
            }
            Lint::Passes { .. } => f.write_str("prevail passes it"),
            Lint::Doubts { why, instruction, source } => {
                write!(f, "prevail cannot show that it is safe: {why}")?;
                instruction.iter().try_for_each(|text| write!(f, "; instruction {text}"))?;
                source.iter().try_for_each(|source| write!(f, "; source {source}"))?;
                f.write_str(" (advice: the kernel's verifier decides)")
            }
            Lint::Absent => f.write_str("prevail is not installed; for a second opinion: cargo install prevail"),
            Lint::Failed { why } => write!(f, "prevail gave no answer: {why}"),
        }
    }
}

/// Asks `prevail` about a checked bpf representation.
pub fn lint(
    prevail: &Prevail,
    bytes: &[u8],
    window: u32,
    line: impl FnOnce(usize) -> Option<String>,
) -> Result<Lint, Error> {
    let Ok(program) = Program::parse(bytes) else { return Ok(Lint::Failed { why: "no bpf representation".into() }) };
    let code = around(&program, window);
    let scratch = super::clang::directory()?;
    let file = scratch.join("code.o");
    let written =
        fs::write(&file, elf::object(SECTION, &code.iter().flat_map(|insn| insn.encode()).collect::<Vec<_>>()));
    let asked = match written {
        Ok(()) => ask(prevail, &file),
        Err(cause) => Err(cause),
    };
    // Nothing depends on it: a directory that stays behind is only untidy.
    let _ = fs::remove_dir_all(&scratch);
    Ok(match asked {
        Ok(said) => understand(&said, &program, line),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Lint::Absent,
        Err(error) => Lint::Failed { why: error.to_string() },
    })
}

/// What it says of an object file.
fn ask(prevail: &Prevail, file: &Path) -> io::Result<String> {
    let mut child = Command::new(&prevail.program)
        .args(["--termination", "--line-info"])
        .arg(file)
        .arg(SECTION)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let readers = [child.stdout.take().map(reader), child.stderr.take().map(reader)];
    // If it was ended, a process of its own may still hold the pipes: nobody waits for that.
    wait(&mut child, prevail.patience)?;
    Ok(readers.map(|reader| reader.and_then(|reader| reader.join().ok()).unwrap_or_default()).concat())
}

/// Reads what comes until it ends, so that nobody waits for a reader; of much the beginning is kept.
fn reader(mut from: impl io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut said = Vec::new();
        // What cannot be read is not said.
        let _ = from.by_ref().take(SAID_MAX).read_to_end(&mut said);
        let _ = io::copy(&mut from, &mut io::sink());
        String::from_utf8_lossy(&said).into_owned()
    })
}

/// Waits for the process, and ends it when it takes too long.
fn wait(child: &mut Child, patience: Duration) -> io::Result<()> {
    let until = Instant::now() + patience;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            // It may have ended just now.
            let _ = child.kill();
            child.wait()?;
            return Err(io::Error::other(format!("it took longer than {} s and was ended", patience.as_secs())));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// What its words mean: `PASS: …`, or `FAIL: …` and a line `PLACE: reason`, where a place begins with an instruction's number.
fn understand(said: &str, program: &Program, source: impl FnOnce(usize) -> Option<String>) -> Lint {
    let line = |what: &str| said.lines().find(|line| line.starts_with(what));
    if let Some(pass) = line("PASS:") {
        let rounds = pass.split_once("within ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        return Lint::Passes { rounds };
    }
    let first = || said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing").to_owned();
    if line("FAIL:").is_none() {
        return Lint::Failed { why: first().chars().take(200).collect() };
    }
    let about = |line: &str| {
        let (place, why) = line.split_once(": ")?;
        let digits = place.split(|c: char| !c.is_ascii_digit()).rfind(|part| !part.is_empty());
        // Of `1->5` or `3/12` the last number that is a place of the code counts; of the ways there the first.
        let number =
            place.split(':').next().unwrap_or(place).rsplit(['/', '>']).next().and_then(|part| part.parse().ok());
        let at: usize = number.or_else(|| digits?.parse().ok())?;
        Some((at, why.trim().to_owned()))
    };
    let Some((at, why)) = said.lines().map(str::trim).find_map(about) else {
        return Lint::Doubts { why: "no reason is given".into(), instruction: None, source: None };
    };
    let at = at.checked_sub(BEFORE).filter(|at| *at < program.code.len());
    let instruction = at.map(|at| format!("{at}: {}", disassemble(program, at)));
    let source = at.and_then(source);
    Lint::Doubts { why: crate::clean::shown(&why).to_string(), instruction, source }
}

const MOVE: u8 = 0xbf;
const SET: u8 = 0xb7;
const ADD: u8 = 0x07;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const LOAD: [u8; 2] = [0x61, 0x79];
const STORE: u8 = 0x7a;

fn insn(opcode: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { opcode, dst, src, off, imm }
}

/// Instructions before the code.
const BEFORE: usize = 10 + CONTEXT / 8;

/// The program that is shown.
fn around(program: &Program, window: u32) -> Vec<Insn> {
    let context = CONTEXT as i16;
    let words = CONTEXT / 8;
    let mut code = vec![
        insn(LOAD[0], 2, 1, 0, 0),
        insn(LOAD[0], 3, 1, 4, 0),
        insn(MOVE, 4, 2, 0, 0),
        insn(ADD, 4, 0, 0, (ADDRESSES as u32 + window) as i32),
        // if r4 > r3 goto the exit
        insn(0x2d, 4, 3, words as i16 + 3, 0),
    ];
    code.extend((0..words).map(|word| insn(STORE, 10, 0, word as i16 * 8 - context, 0)));
    code.extend([
        insn(MOVE, 1, 10, 0, 0),
        insn(ADD, 1, 0, 0, -i32::from(context)),
        insn(CALL, 0, 1, 0, 2),
        insn(SET, 0, 0, 0, 1),
        insn(EXIT, 0, 0, 0, 0),
    ]);
    debug_assert_eq!(code.len(), BEFORE);
    let mut stands: Vec<Vec<Insn>> = program.symbols.iter().map(|name| stand_in(name)).collect();
    let (mut end, mut starts) = (code.len() + program.code.len(), Vec::with_capacity(stands.len()));
    for stand in &stands {
        starts.push(end);
        end += stand.len();
    }
    for one in &program.code {
        let start = starts.get(one.imm as usize).filter(|_| one.opcode == CALL && one.src == 14);
        code.push(match start {
            Some(start) => insn(CALL, 0, 1, 0, *start as i32 - code.len() as i32 - 1),
            None => *one,
        });
    }
    stands.iter_mut().for_each(|stand| code.append(stand));
    code
}

/// What a call reads and writes behind its arguments, by register: bytes, and whether they are written.
const MEMORY: [(&str, u8, i16, bool); 7] = [
    ("an_node_name", 1, 16, true),
    ("an_state_get", 2, 64, true),
    ("an_state_put", 2, 64, false),
    ("an_state_exchange", 3, 64, false),
    ("an_neighbour", 2, 16, true),
    ("an_route", 1, 16, false),
    ("an_route", 2, 16, true),
];

/// A function that touches the memory of a call, and returns any number.
fn stand_in(name: &str) -> Vec<Insn> {
    /// `bpf_get_prandom_u32`.
    const RANDOM: i32 = 7;
    let mut code = Vec::new();
    for (_, register, bytes, writes) in MEMORY.iter().filter(|(call, ..)| *call == name) {
        let each = |at: i16| match writes {
            true => insn(STORE, *register, 0, at * 8, 0),
            false => insn(LOAD[1], 0, *register, at * 8, 0),
        };
        code.extend((0..bytes / 8).map(each));
    }
    code.extend([insn(CALL, 0, 0, 0, RANDOM), insn(EXIT, 0, 0, 0, 0)]);
    code
}
