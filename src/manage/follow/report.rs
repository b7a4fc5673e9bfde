//! What the status says of following: rules of policy routing, and how routes are followed.

use crate::sys::netlink::Rules;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The rules that the host has and how its routes are followed, for the status.
#[derive(Debug, Default)]
pub struct Report {
    rules: Mutex<Rules>,
    /// Changes of routes that the kernel has told.
    pub(super) changes: AtomicU64,
    /// How often all routes were read.
    pub(super) reads: AtomicU64,
    /// How often more changes came than the kernel keeps: then all are read.
    pub(super) overruns: AtomicU64,
}

impl Report {
    /// The rules of the last look.
    pub fn rules(&self) -> Rules {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How routes are followed.
    pub fn followed(&self) -> model::status::Followed {
        let [changes, reads, overruns] =
            [&self.changes, &self.reads, &self.overruns].map(|count| count.load(Ordering::Relaxed));
        model::status::Followed { changes, reads, overruns }
    }

    /// Takes down those of this look; says whether they are others.
    pub(super) fn renew(&self, rules: Rules) -> bool {
        let mut last = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut *last, rules) != rules
    }
}
