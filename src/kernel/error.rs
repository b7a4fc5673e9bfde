//! Causes for code not to run in the kernel, such as the verifier's refusal.

use crate::code::link::LinkError;
use crate::contract::{CHILDREN, PROGRAMS};
use std::fmt;
use std::io;

/// Instructions of one code; the verifier's work grows with them.
pub const CODE_MAX: usize = 4096;

/// Why code does not run in the kernel.
#[derive(Debug)]
pub enum LoadError {
    /// It has so many instructions, and that is too many.
    TooLong(usize),
    /// It needs a call that is not there.
    Link(LinkError),
    /// A packet of its may send so many children, and that is too many.
    TooManyChildren(u32),
    /// Other codes stand at its places.
    Taken,
    /// All slots are in use.
    Full,
    /// The verifier went through so many instructions, and its role has so many.
    TooCostly(u32, u32),
    /// The kernel refuses it; the text is the verifier's.
    Refused(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::TooLong(found) => {
                write!(f, "{found} instructions, and the kernel half takes {CODE_MAX}: the code runs in the user half")
            }
            LoadError::Link(error) => error.fmt(f),
            LoadError::TooManyChildren(found) => write!(
                f,
                "its packets may send {found} children each, and the kernel half takes {CHILDREN} (children_per_packet): \
                 it runs in the user half"
            ),
            LoadError::Taken => f.write_str("other codes have its places in the kernel half: it runs in the user half"),
            LoadError::Full => {
                write!(f, "the kernel half has its {} codes: the code runs in the user half", PROGRAMS - 1)
            }
            LoadError::TooCostly(found, most) => write!(
                f,
                "the verifier goes through {found} instructions of it, and its role has {most} (verified_instructions): \
                 fewer branches and shorter loops, or another role"
            ),
            LoadError::Refused(error) => write!(f, "the kernel's verifier refuses it: {error}"),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<LinkError> for LoadError {
    fn from(error: LinkError) -> LoadError {
        LoadError::Link(error)
    }
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> LoadError {
        LoadError::Refused(error)
    }
}
