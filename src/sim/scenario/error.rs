//! Causes for a scenario not to run.

use super::super::network::Problem;
use crate::labfile;
use core::fmt;

/// Why a scenario cannot be run.
#[derive(Debug)]
pub enum Error {
    /// The file cannot be used.
    Written(labfile::Error),
    /// The network is impossible.
    Network(Problem),
    /// A code cannot be had.
    Code {
        /// Its file.
        file: String,
        /// Why.
        cause: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Written(error) => error.fmt(f),
            Error::Network(problem) => problem.fmt(f),
            Error::Code { file, cause } => write!(f, "code {file}: {cause}"),
        }
    }
}

impl core::error::Error for Error {}

impl From<labfile::Error> for Error {
    fn from(error: labfile::Error) -> Error {
        Error::Written(error)
    }
}
