//! Checks of mobile code before anything compiles, links or runs it.
//!
//! Whoever can send a packet can name code, so its bytes are hostile until shown otherwise. [`wasm`] and [`bpf`] are
//! total functions from bytes to facts or a [`Refusal`]. They allocate in proportion to the input (at most 64 KiB),
//! never panic, and do no I/O. Accepted code is well-formed and calls only existing functions. The linker decides
//! whether its principal may call them; fuel and the kernel's verifier decide whether it ends in time. `docs/bundle.md`
//! states the same rules in words.

mod bpf;
mod cost;
mod depth;
mod disassemble;
mod explain;
mod native;
mod refusal;
mod sections;
mod wasm;

pub use bpf::{BpfFacts, bpf};
pub use cost::bounds;
pub use depth::{Depth, FRAMES_MAX, STACK_MAX, depth};
pub use disassemble::disassemble;
pub use explain::Explanation;
pub use native::native;
pub use refusal::{BpfFault, Refusal};
pub use wasm::{ARENA_CONTEXT, ARENA_WINDOW, GlobalValue, MEMORY_MAX, MutableGlobal, WasmFacts, wasm};

use super::bundle::{self, Bundle, Kind};
use crate::trust::PrincipalId;
use core::fmt;

/// What [`check`] found out about a bundle.
#[derive(Clone, Debug)]
pub struct Report {
    /// Who signed it, verified; `None` for unsigned code.
    pub principal: Option<PrincipalId>,
    /// Facts of the wasm representation, if it is at hand.
    pub wasm: Option<WasmFacts>,
    /// Facts of the bpf representation, if it is at hand.
    pub bpf: Option<BpfFacts>,
}

/// Why a bundle is refused: which part, and what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub enum BundleRefusal {
    /// The bundle itself: so far only a wrong signature.
    Bundle(bundle::Error),
    /// One of its representations.
    Representation {
        /// Which.
        kind: Kind,
        /// What is wrong.
        refusal: Refusal,
    },
}

impl fmt::Display for BundleRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BundleRefusal::Bundle(error) => error.fmt(f),
            BundleRefusal::Representation { kind, refusal } => write!(f, "{kind}: {refusal}"),
        }
    }
}

impl core::error::Error for BundleRefusal {}

/// Checks the signature and whatever representations are at hand. Of native code only the head is looked at:
/// it runs by trust in its principal alone.
pub fn check(bundle: &Bundle) -> Result<Report, BundleRefusal> {
    let window = bundle.manifest().window();
    let because = |kind| move |refusal| BundleRefusal::Representation { kind, refusal };
    let principal = bundle.manifest().principal().map_err(BundleRefusal::Bundle)?;
    let wasm = bundle.representation(Kind::Wasm).map(|bytes| wasm(bytes, window).map_err(because(Kind::Wasm)));
    let bpf = bundle.representation(Kind::Bpf).map(|bytes| bpf(bytes).map_err(because(Kind::Bpf)));
    if let (Some(bytes), Some(architecture)) = (bundle.representation(Kind::Native), bundle.manifest().architecture()) {
        native(bytes, architecture).map_err(because(Kind::Native))?;
    }
    Ok(Report { principal, wasm: wasm.transpose()?, bpf: bpf.transpose()? })
}

#[cfg(test)]
mod tests;
