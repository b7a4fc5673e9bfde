//! While one configuration takes the place of another, the node may have what either has.
//!
//! It opens the ports of the next one before it has that, and closes those of the last one when it has that no more.

use crate::broker::{self, Request};
use crate::config::difference::{Change, Part};

/// As long as this is there; a difference without ports needs nothing of it.
#[derive(Default)]
pub(super) struct Reach {
    reaches: bool,
}

impl Reach {
    /// For the configuration that is offered under this number, if it has other ports; `partly`: without what needs a
    /// restart. Interfaces that others have are refused.
    pub fn of(number: u64, partly: bool, changes: &[Change]) -> Result<Reach, String> {
        let reaches = changes.iter().any(|change| change.part == Some(Part::Sockets));
        if reaches {
            broker::ask(&Request::Reach { number, partly }, &[]).map_err(|error| error.to_string())?;
        }
        Ok(Reach { reaches })
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        if self.reaches
            && let Err(error) = broker::ask(&Request::Settle, &[])
        {
            tracing::warn!(%error, "the broker keeps interfaces that are no ports of this node");
        }
    }
}
