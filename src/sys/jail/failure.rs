//! Failures to make a jail, as the maker reports them.

use super::Part;
use std::io;

/// Why a jail could not be made, and for want of what.
#[derive(Debug)]
pub struct Failure {
    pub part: Option<Part>,
    pub error: io::Error,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure { part: None, error }
    }
}

/// Says for want of what something failed.
pub trait Lacking<T> {
    /// It failed for want of `part`, while doing `what`.
    fn lacking(self, part: Part, what: &str) -> Result<T, Failure>;
    /// It failed while doing `what`.
    fn while_doing(self, what: &str) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> Lacking<T> for Result<T, E> {
    fn lacking(self, part: Part, what: &str) -> Result<T, Failure> {
        self.while_doing(what).map_err(|failure| Failure { part: Some(part), ..failure })
    }

    fn while_doing(self, what: &str) -> Result<T, Failure> {
        self.map_err(|error| {
            let error = error.into();
            Failure { part: None, error: io::Error::new(error.kind(), format!("{what}: {error}")) }
        })
    }
}
