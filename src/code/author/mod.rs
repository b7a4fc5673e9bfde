//! The author's side: from a source file to a bundle.
//!
//! ```text
//! ping.c ─▶ clang wasm32 ─▶ wasm-ld ─▶ module: least memory, only the needed exports ─┐
//!        ├▶ clang bpf ─▶ ELF ─▶ program: symbols by name, functions placed ──────────┼▶ check ─▶ bundle
//!        └▶ clang ─▶ ELF ─▶ shared object: calls through a table (if asked for) ─────┘
//! ```
//!
//! Only here are object files read, since they come from the author's own compiler; what goes
//! over the network is the canonical form that [`super::check`] knows. The same source and
//! compiler give the same bytes, hence the same code name, wherever and whenever they are built.
//! A `.wasm` or `.wat` file of another language gives a bundle with that one representation.

mod c;
mod clang;
mod elf;
mod error;
mod lines;
pub mod lint;
mod module;
mod names;
mod native;
mod options;
mod program;
mod said;
pub mod toolchain;

pub use clang::write_header;
pub use error::Error;
pub use options::AuthorOptions;
pub use said::Said;

use super::bundle::{Bundle, Kind, Lines};
use super::check::{self, Explanation, Refusal};
use crate::trust::PrincipalKey;
use options::Parts;
use std::path::Path;
use std::sync::Arc;

/// Builds a bundle from a `.c`, `.wasm` or `.wat` file. Every representation passes
/// [`check::check`]. Takes about 0.2 seconds for C.
pub fn build(source: &Path, options: &AuthorOptions) -> Result<Bundle, Error> {
    build_with_warnings(source, options).map(|(bundle, _)| bundle)
}

/// As [`build`]; also returns what the compiler had to say.
pub fn build_with_warnings(source: &Path, options: &AuthorOptions) -> Result<(Bundle, String), Error> {
    let mut warnings = String::new();
    let parts = match source.extension().and_then(|ending| ending.to_str()) {
        Some("c") => c::compile(source, options, &mut warnings)?,
        Some("wasm" | "wat") => {
            let bytes = std::fs::read(source).map_err(|cause| Error::Unreadable { path: source.into(), cause })?;
            let window = options.window.ok_or_else(|| Error::NoWindow { path: source.into() })?;
            let traced = binary(source, bytes)?;
            let wasm = module::normalise(&traced)?;
            let mut lines = Lines::default();
            let names = names::Names::new(source, None);
            lines.add(Kind::Wasm, lines::wasm(&traced, &wasm, &names).unwrap_or_default());
            Parts { window, wasm: Some(wasm), bpf: None, native: None, lines }
        }
        _ => return Err(Error::Ending { path: source.into() }),
    };
    let title = match &options.title {
        Some(title) => title.clone(),
        None => source.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let bundle = bundle(&title, parts, options.key.as_ref())?;
    Ok((bundle, warnings))
}

/// Makes an unsigned bundle of what the compiler and linker made: the linked module for wasm32 and
/// the object file for bpf. The result is that of [`build`] on the same source.
pub fn from_compiled(title: &str, module: &[u8], object: &[u8]) -> Result<Bundle, Error> {
    let wasm = module::normalise(module)?;
    let program::Converted { program, window, .. } = program::convert(object).map_err(|broken| broken.error)?;
    let lines = Lines::default();
    bundle(title, Parts { window, wasm: Some(wasm), bpf: Some(program.encode()), native: None, lines }, None)
}

/// Checks the representations as a node will, and names them.
fn bundle(title: &str, parts: Parts, key: Option<&PrincipalKey>) -> Result<Bundle, Error> {
    let Parts { window, wasm, bpf, native, lines } = parts;
    let refused = |kind, bytes: &[u8], refusal: Refusal| {
        let explanation = Box::new(Explanation::of(kind, bytes, Some(&lines), &refusal));
        Error::Refused { refusal, explanation }
    };
    let mut representations: Vec<(Kind, Arc<[u8]>)> = Vec::new();
    if let Some(bytes) = wasm {
        check::wasm(&bytes, window).map_err(|refusal| refused(Kind::Wasm, &bytes, refusal))?;
        representations.push((Kind::Wasm, bytes.into()));
    }
    if let Some(bytes) = bpf {
        check::bpf(&bytes).map_err(|refusal| refused(Kind::Bpf, &bytes, refusal))?;
        representations.push((Kind::Bpf, bytes.into()));
    }
    if let Some(bytes) = native {
        check::native(&bytes, std::env::consts::ARCH).map_err(|refusal| refused(Kind::Native, &bytes, refusal))?;
        representations.push((Kind::Native, bytes.into()));
    }
    let mut bundle = Bundle::build(title, window, &representations, key).map_err(Error::Bundle)?;
    bundle.add_lines(lines);
    Ok(bundle)
}

/// The module's bytes, whether the source is binary or text.
fn binary(source: &Path, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    match wat::Parser::new().parse_bytes(Some(source), &bytes) {
        Ok(module) => Ok(module.into_owned()),
        Err(error) => Err(Error::Text { output: error.to_string() }),
    }
}
