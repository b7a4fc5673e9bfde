//! The interface of mobile code as data: the numbers, names and errors of `sdk/anode/capsule.h`. Example: `AN_E_FULL`
//! is -3 on both sides.
//!
//! Both halves, the author's side and the policy of roles mean the same by them, so they lie below all of these.
//! Sizes and numbers are the header file's own, by [`crate::contract`]. [`symbols`] lists the calls; what a call does is
//! [`crate::code::run::scope::Scope`]'s.

pub mod symbols;

pub use symbols::{SYMBOLS, Symbol, Type, symbol};

use crate::contract::{self, an_context};
use core::fmt;

/// Children one packet can send, whatever its domain's limit says.
pub const CHILDREN_MAX: usize = 64;

/// Lines that one packet can write into the log.
pub const LINES_MAX: usize = contract::LINES as usize;

/// Bytes of the context structure.
pub const CONTEXT: usize = an_context::SIZE;

/// Bytes of the window before the payload: source and destination.
pub const ADDRESSES: usize = contract::ADDRESSES as usize;

/// The most bytes of payload in a window.
pub const WINDOW_MAX: u32 = contract::AN_WINDOW_MAX;

/// "There is none", where a call gives 32 bits.
pub const NONE: u32 = contract::AN_NONE;

/// "There is none", where a call gives 64 bits.
pub const NONE64: u64 = u64::MAX;

/// Why a call failed: `enum an_error` of the header file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum CallError {
    /// No such key, neighbour or route.
    Absent = contract::AN_E_ABSENT as i32,
    /// An offset, size or number outside what there is.
    Range = contract::AN_E_RANGE as i32,
    /// A quota is used up.
    Full = contract::AN_E_FULL as i32,
    /// The resource bound does not suffice.
    Bound = contract::AN_E_BOUND as i32,
    /// The role of the code's principal does not include the call.
    Denied = contract::AN_E_DENIED as i32,
    /// The address is this node's own.
    Here = contract::AN_E_HERE as i32,
    /// What is kept is not what was expected.
    Changed = contract::AN_E_CHANGED as i32,
}

/// Bit of the flags in the context: this node is the capsule's destination.
pub const FLAG_HERE: u32 = contract::AN_HERE;

/// Bit of the flags in the context: the capsule was injected at this node.
pub const FLAG_INJECTED: u32 = contract::AN_INJECTED;

/// In which form a program is represented, in the order of the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A WebAssembly core module: portable, runs in user space.
    Wasm,
    /// BPF instructions with symbols: runs in the kernel.
    Bpf,
    /// A shared object: only for principals whose role permits it.
    Native,
}

impl Kind {
    /// All kinds in the order of the manifest.
    pub const ALL: [Kind; 3] = [Kind::Wasm, Kind::Bpf, Kind::Native];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Wasm => "wasm",
            Kind::Bpf => "bpf",
            Kind::Native => "native",
        })
    }
}
