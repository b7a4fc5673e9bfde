//! A contradiction in a topology file, with its place.

/// A contradiction and its place in the file, in bytes.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) offset: usize,
    pub(super) what: String,
    pub(super) remedy: String,
}

pub(super) type Result<T> = std::result::Result<T, Problem>;

pub(super) fn problem<T>(offset: usize, what: impl Into<String>, remedy: impl Into<String>) -> Result<T> {
    Err(Problem { offset, what: what.into(), remedy: remedy.into() })
}
