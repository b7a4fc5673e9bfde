//! Why a lab file cannot be used: the file, the line, the cause, and the remedy.

use super::problem::Problem;
use core::fmt;
use std::path::{Path, PathBuf};

/// Why a lab file cannot be used.
#[derive(Debug)]
pub enum Error {
    /// It could not be read.
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not TOML, or has unknown or ill-typed keys; the text shows line and column.
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's message, several lines.
        message: String,
    },
    /// It contradicts itself, or asks for what this world has not.
    Wrong {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
        /// What to write instead.
        remedy: String,
    },
}

impl Error {
    /// A contradiction in a text.
    pub(crate) fn at(path: &Path, text: &str, problem: Problem) -> Error {
        let Problem { offset, what, remedy } = problem;
        let line = text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
        Error::Wrong { path: path.into(), line, what, remedy }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Syntax { path, message } => {
                write!(f, "{}: {}\nremedy: {}", path.display(), message.trim_end(), remedy(message))
            }
            Error::Wrong { path, line, what, remedy } => write!(f, "{}:{line}: {what}; {remedy}", path.display()),
        }
    }
}

/// The remedy for what the parser refuses: for keys that people expect from other tools the right one.
fn remedy(message: &str) -> &'static str {
    let names = [
        ("`delay`", "write delay_ms, in milliseconds"),
        ("`latency", "write delay_ms, in milliseconds"),
        ("`jitter`", "write jitter_ms, in milliseconds"),
        ("`rate`", "write rate_mbit, in Mbit/s"),
        ("`bandwidth", "write rate_mbit, in Mbit/s"),
        ("`bw`", "write rate_mbit, in Mbit/s"),
        ("`loss_", "write loss, a share from 0 to 1"),
    ];
    let unknown = message.split("expected").next().unwrap_or_default();
    let foreign = names.iter().find(|(name, _)| unknown.contains(name)).map(|(_, remedy)| *remedy);
    foreign.unwrap_or(match message {
        _ if message.contains("unknown field") => "write one of those, or leave it out",
        _ if message.contains("invalid type") => "write a value of that type; docs/lab.md has every key",
        _ => "correct it at the mark; docs/lab.md has every key",
    })
}

/// Causes are part of the message, so there is no chain of sources to print again.
impl core::error::Error for Error {}
