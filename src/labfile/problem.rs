//! A contradiction in a lab file, with its place.

/// A contradiction and its place in the file, in bytes.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) offset: usize,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

pub(crate) fn problem<T>(offset: usize, what: impl Into<String>, remedy: impl Into<String>) -> Result<T> {
    Err(Problem { offset, what: what.into(), remedy: remedy.into() })
}
