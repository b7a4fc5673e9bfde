//! What an author may choose, and what comes of compiling one source.

use crate::code::bundle::{Kind, Lines};
use crate::trust::PrincipalKey;
use std::path::PathBuf;

/// What an author may choose.
#[derive(Debug, Default)]
pub struct AuthorOptions {
    /// Who signs; nobody if `None`.
    pub key: Option<PrincipalKey>,
    /// The title in the manifest; the source's name without its ending if `None`.
    pub title: Option<String>,
    /// Payload bytes in the window; needed for `.wasm` and `.wat`, C sources say it themselves.
    pub window: Option<u32>,
    /// Only this representation of a C source; wasm and bpf if `None`.
    pub only: Option<Kind>,
    /// A native representation of a C source too, for this processor.
    pub native: bool,
    /// Without lines, which are half of the compiler's work: what is made is the same, and what is said of it has no place.
    pub bare: bool,
    /// The compiler; `clang` or the newest `clang-N` on the path if `None`.
    pub clang: Option<PathBuf>,
}

/// The representations of one program.
pub(super) struct Parts {
    pub window: u32,
    pub wasm: Option<Vec<u8>>,
    pub bpf: Option<Vec<u8>>,
    pub native: Option<Vec<u8>>,
    pub lines: Lines,
}
