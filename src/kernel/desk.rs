//! The kernel half's verdict on code at its author's desk: links it as a node would and has it verified, and nothing runs.
//!
//! ```text
//! code ── link ──▶ calls that are not there? ── depth ──▶ too deep? ── loader ──▶ the kernel's verifier, in its jail
//!         no privilege needed                                          as root
//! ```
//!
//! The maps are those that the linked program refers to, and go with the verdict. Where there is no root, or the loader
//! cannot be started, the verdict is by what can be told without it, and says so.

use super::error::{CODE_MAX, LoadError};
use super::half::environment;
use super::layout::layout;
use super::loader::{Loader, Wanted};
use super::{own, state};
use crate::code::bundle::Program as Code;
use crate::code::check::{Depth, depth};
use crate::code::link::{self, Constants, LinkError, LinkedProgram};
use crate::sys::bpf::Map;
use crate::trust::limits::Limits;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

/// What the kernel half says of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs there. The verifier went through so many instructions; or it was not asked, for this reason.
    Takes(Result<u32, String>),
    /// It has no such call, so the code runs in the user half: nothing is wrong with it.
    Lacks(String),
    /// It refuses the code.
    Refuses(Fault),
}

/// Why code is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The cause; the verifier's is in its words.
    pub why: String,
    /// The instruction of the code, if it is about one.
    pub at: Option<usize>,
    /// What to do.
    pub remedy: &'static str,
}

/// The verdict on checked code whose role has these limits. `loader` is this program, if the kernel is to be asked.
pub fn verdict(code: &Code, window: u32, limits: &Limits, loader: Result<PathBuf, String>) -> io::Result<Verdict> {
    let environment = environment()?;
    let sets = state::sets_for(limits.state_entries);
    let (keep_ms, children) = (limits.keep_ms_max, limits.children_per_packet);
    let constants = Constants { slot: 1, window, sets, keep_ms, children };
    let linked = match link::link(&environment, code, constants) {
        Ok(linked) => linked,
        Err(LinkError::NoCall(call)) => return Ok(Verdict::Lacks(call)),
        Err(error) => return Err(io::Error::other(error.to_string())),
    };
    let begin = environment.runner_of(code).code.len();
    let place = |at: usize| in_code(&linked, code, begin, at);
    if code.code.len() > CODE_MAX {
        let why = LoadError::TooLong(code.code.len()).to_string();
        return Ok(Verdict::Refuses(Fault { why, at: Some(CODE_MAX), remedy: LONG }));
    }
    if let Err(deep) = depth(&linked.code) {
        return Ok(Verdict::Refuses(too_deep(&deep, place(deep.at()))));
    }
    let loader = match loader {
        Ok(program) => Loader::new(program, false),
        Err(why) => return Ok(Verdict::Takes(Err(why))),
    };
    let maps = linked.maps.iter().map(|name| map(name, sets)).collect::<io::Result<Vec<Map>>>()?;
    let maps: Vec<BorrowedFd<'_>> = maps.iter().map(AsFd::as_fd).collect();
    if let Err(error) = loader.start() {
        return Ok(Verdict::Takes(Err(format!("its loader cannot be started: {error}"))));
    }
    Ok(match loader.load(&Wanted { code: code.encode(), constants, maps }) {
        Ok(program) => match program.info()?.verified {
            most if most > limits.verified_instructions => {
                let why = LoadError::TooCostly(most, limits.verified_instructions).to_string();
                Verdict::Refuses(Fault { why, at: None, remedy: TOO_MUCH })
            }
            verified => Verdict::Takes(Ok(verified)),
        },
        Err(error) => understood(&error.to_string(), place),
    })
}

/// A map that a linked program refers to.
fn map(name: &str, sets: u32) -> io::Result<Map> {
    if name == state::NAME {
        return own::map(name, state::shape(sets));
    }
    let shape = layout()?.find(|(known, _)| *known == name).map(|(_, shape)| shape);
    own::map(name, shape.ok_or_else(|| io::Error::other(format!("no map {name}")))?)
}

/// The instruction of the code that one of the linked program is, or that calls the function that it is in.
fn in_code(linked: &LinkedProgram, code: &Code, begin: usize, at: usize) -> Option<usize> {
    let inside = |at: usize| at.checked_sub(begin).filter(|at| *at < code.code.len());
    let function = linked.functions.iter().rev().map(|(start, _)| *start).find(|start| *start <= at)?;
    let calls = |place: &usize| {
        let insn = linked.code[*place];
        insn.opcode == 0x85 && insn.src == 1 && *place as i64 + 1 + i64::from(insn.imm) == function as i64
    };
    inside(at).or_else(|| (begin..begin + code.code.len()).find(calls).and_then(inside))
}

fn too_deep(deep: &Depth, at: Option<usize>) -> Fault {
    Fault { why: deep.to_string(), at, remedy: deep.remedy() }
}

const TOO_MUCH: &str =
    "write loops out, by AN_EACH or #pragma clang loop unroll(full), with few rounds; or build with --only wasm";
const LONG: &str = "do what is done twice in a function, and less at once; or build with --only wasm";
const INDEX: &str =
    "index with AN_EACH, or with constants; or reach the bytes by an_load() and an_store() with --only wasm";
const ZERO: &str = "an_zero() the variable before its address is given away";
const ADDRESS: &str = "give the address of a variable of yours, not NULL or a number";
const OTHER: &str = "tests/hostile has what the verifier refuses, each with the reason; or build with --only wasm";

/// What in the verifier's words means which remedy.
const REMEDIES: [(&str, &str); 16] = [
    ("too large", TOO_MUCH),
    ("too complex", TOO_MUCH),
    ("infinite loop", TOO_MUCH),
    ("back-edge", TOO_MUCH),
    ("unbounded", INDEX),
    ("outside of the allowed memory range", INDEX),
    ("invalid access to memory", INDEX),
    ("prohibited for !root", INDEX),
    ("out of bounds", INDEX),
    ("speculative", INDEX),
    ("different maps, paths or scalars", INDEX),
    ("read from stack", ZERO),
    ("!read_ok", "give the variable a value on every way to here, and end each way with a verdict"),
    ("rdonly", "ctx is only for reading: change w"),
    ("type=scalar expected=", ADDRESS),
    ("invalid mem access 'scalar'", ADDRESS),
];

/// What the loader's words mean. Example: `Permission denied (os error 13):\n12: (71) r2 = …\nR2 unbounded memory access`.
fn understood(words: &str, place: impl Fn(usize) -> Option<usize>) -> Verdict {
    let Some((_, log)) = words.split_once('\n') else {
        return Verdict::Takes(Err(format!("the kernel was not asked: {words}")));
    };
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let instruction = |line: &str| line.split_once(": (").and_then(|(at, _)| at.trim().parse().ok());
    let named = |line: &str| line.split_once("insn ").and_then(|(_, rest)| number(rest));
    let at = log.lines().rev().find_map(named).or_else(|| log.lines().rev().find_map(instruction));
    let why = log.lines().rev().find(|line| !line.is_empty() && instruction(line).is_none());
    let why = why.unwrap_or(log).trim();
    let remedy = REMEDIES.iter().find(|(words, _)| why.contains(words)).map_or(OTHER, |(_, remedy)| remedy);
    Verdict::Refuses(Fault { why: format!("the kernel's verifier: {why}"), at: at.and_then(place), remedy })
}
