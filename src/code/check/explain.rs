//! A refusal, explained to the author: the instruction, its source line if known, and a remedy.

use super::refusal::remedy;
use super::{BundleRefusal, Refusal, disassemble};
use crate::code::bundle::{Bundle, Kind, Lines, Program};
use core::fmt;
use wasmparser::{Parser, Payload};

/// What is said of one refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Of which representation.
    pub kind: Kind,
    /// What is wrong.
    pub why: String,
    /// The instruction, with its place.
    pub instruction: Option<String>,
    /// File and line of the source.
    pub source: Option<String>,
    /// What to do.
    pub remedy: Option<&'static str>,
}

impl Explanation {
    /// Explains why `bytes` are refused.
    pub fn of(kind: Kind, bytes: &[u8], lines: Option<&Lines>, refusal: &Refusal) -> Explanation {
        let (place, instruction) = match refusal {
            Refusal::Bpf { at, .. } => {
                let text = Program::parse(bytes).ok().map(|program| disassemble(&program, *at));
                (Some(*at), text.map(|text| format!("{at}: {text}")))
            }
            Refusal::Instruction { name, offset } => (Some(*offset), Some(format!("at byte {offset}: {name}"))),
            Refusal::Invalid { offset, .. } => (Some(*offset), None),
            Refusal::Limit { .. } if kind == Kind::Wasm => (longest(bytes), None),
            _ => (None, None),
        };
        let source = lines.zip(place).and_then(|(lines, place)| lines.find(kind, place));
        Explanation { kind, why: refusal.to_string(), instruction, source, remedy: remedy(refusal) }
    }
}

/// Where the longest function of a module begins: what is too much is there.
fn longest(module: &[u8]) -> Option<usize> {
    let bodies = Parser::new(0).parse_all(module).filter_map(|payload| match payload {
        Ok(Payload::CodeSectionEntry(body)) => Some(body.range()),
        _ => None,
    });
    bodies.max_by_key(|range| range.len()).map(|range| range.start)
}

impl BundleRefusal {
    /// Explains it, if it is about a representation of `bundle`.
    pub fn explain(&self, bundle: &Bundle) -> Option<Explanation> {
        let BundleRefusal::Representation { kind, refusal } = self else { return None };
        Some(Explanation::of(*kind, bundle.representation(*kind)?, bundle.lines(), refusal))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{source}: ")?;
        }
        write!(f, "{}: {}", self.kind, self.why)?;
        let remedy = self.remedy.map(str::to_owned);
        for (what, said) in [("instruction", &self.instruction), ("remedy", &remedy)] {
            if let Some(said) = said {
                write!(f, "\n  {what}: {said}")?;
            }
        }
        Ok(())
    }
}
