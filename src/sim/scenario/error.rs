//! Causes for a scenario not to run.

use super::super::network::Problem;
use core::fmt;

/// Why a scenario cannot be run.
#[derive(Debug)]
pub enum Error {
    /// The file is not TOML of this form.
    Toml(toml::de::Error),
    /// The network is impossible.
    Network(Problem),
    /// A name that nothing has.
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A number out of range.
    Number {
        /// Where it is.
        field: String,
        /// What was given.
        found: f64,
        /// What is possible.
        expected: &'static str,
    },
    /// Two keys contradict each other.
    Contradiction {
        /// What to do.
        remedy: &'static str,
    },
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
            Error::Toml(error) => write!(f, "{error}"),
            Error::Network(problem) => write!(f, "{problem}"),
            Error::Unknown { what, name } => write!(f, "there is no {what} '{name}': define it, or correct the name"),
            Error::Number { field, found, expected } => write!(f, "{field} = {found}: give {expected}"),
            Error::Contradiction { remedy } => f.write_str(remedy),
            Error::Code { file, cause } => write!(f, "code {file}: {cause}"),
        }
    }
}

impl core::error::Error for Error {}

impl From<toml::de::Error> for Error {
    fn from(error: toml::de::Error) -> Error {
        Error::Toml(error)
    }
}
