//! What the status says of following: rules of policy routing, and how routes are followed.

use crate::kernel::Untold;
use crate::sys::netlink::Rules;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

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
    /// Since when routes are known to have changed that are not read yet.
    behind: Mutex<Option<Instant>>,
    /// What the kernel half has not taken.
    untold: Mutex<Untold>,
}

impl Report {
    /// The rules of the last look.
    pub fn rules(&self) -> Rules {
        *hold(&self.rules)
    }

    /// How routes are followed.
    pub fn followed(&self) -> model::status::Followed {
        let [changes, reads, overruns] =
            [&self.changes, &self.reads, &self.overruns].map(|count| count.load(Ordering::Relaxed));
        let behind = hold(&self.behind).map(|since| since.elapsed().as_millis());
        let Untold { now, failures, retries } = *hold(&self.untold);
        model::status::Followed {
            changes,
            reads,
            overruns,
            behind_ms: behind.map_or(0, |ms| u64::try_from(ms).unwrap_or(u64::MAX)),
            untold: now,
            untold_ever: failures,
            told_again: retries,
        }
    }

    /// Whether routes have changed that are not read yet.
    pub(super) fn falls_behind(&self, behind: bool) {
        let mut since = hold(&self.behind);
        *since = behind.then(|| since.unwrap_or_else(Instant::now));
    }

    /// What the kernel half has not taken by now; gives what was known before.
    pub(super) fn keep_untold(&self, untold: Untold) -> Untold {
        core::mem::replace(&mut *hold(&self.untold), untold)
    }

    /// Takes down those of this look; says whether they are others.
    pub(super) fn renew(&self, rules: Rules) -> bool {
        let mut last = hold(&self.rules);
        core::mem::replace(&mut *last, rules) != rules
    }
}

/// Each is whole between any two statements.
fn hold<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
