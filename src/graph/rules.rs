//! Rules of channels at several workers: each worker has all of them, so each can tell whose a packet is.
//!
//! ```text
//! worker 1: channel begins ─▶ lock ─▶ what others have told ─▶ own rules ─▶ told to others ─▶ unlock
//! worker 0: frames come in ─▶ something told? ─▶ own rules ─▶ whose is each frame
//! ```
//!
//! Changes have one order, that in which workers had the lock, and each makes them all in it. So a rule is refused that
//! another worker has, and the first of two keys is the same everywhere (`claims`). The lock is held for one change, by workers
//! alone. A worker looks for changes before each batch of frames, and ten times a second at least.

use crate::classify::filter::Filter;
use crate::core::domain::DomainId;
use crate::frame::WorkerId;
use crate::nodeos::interface::InChanId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whose packets an incoming channel brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taker {
    /// The channel.
    pub channel: InChanId,
    /// Its domain.
    pub domain: DomainId,
    /// The worker that has both.
    pub worker: WorkerId,
}

/// A rule that has another owner from now on, or its first, or none.
#[derive(Clone, Debug)]
pub(super) struct RuleChange {
    pub(super) rule: Filter,
    pub(super) before: Option<Taker>,
    pub(super) after: Option<Taker>,
}

/// What the workers of a node have told each other of rules.
#[derive(Debug)]
pub(super) struct Told {
    /// For each worker, what it has not heard yet.
    pub(super) news: Vec<Vec<RuleChange>>,
    /// All rules, by their channels, with a number that is the higher the later: for a worker that begins anew.
    pub(super) all: HashMap<InChanId, (u64, Filter, Taker)>,
    count: u64,
}

/// The same, for each of them.
#[derive(Clone, Debug)]
pub struct SharedRules {
    told: Arc<Mutex<Told>>,
    /// Whether that is anything.
    pub(super) some: Arc<[AtomicBool]>,
}

impl Told {
    /// Whether a channel has its rule at that worker: a late word of the worker before says nothing of it.
    pub(super) fn holds(&self, taker: &Taker) -> bool {
        self.all.get(&taker.channel).is_some_and(|(.., holder)| holder == taker)
    }

    pub(super) fn note(&mut self, changes: &[RuleChange]) {
        for RuleChange { rule, before, after } in changes {
            match (before, after) {
                (None, Some(after)) => {
                    self.count += 1;
                    self.all.insert(after.channel, (self.count, rule.clone(), *after));
                }
                (Some(before), Some(after)) => {
                    let held = self.all.get_mut(&before.channel).filter(|(.., taker)| taker == before);
                    held.into_iter().for_each(|(.., taker)| *taker = *after);
                }
                (Some(before), None) => {
                    if self.holds(before) {
                        self.all.remove(&before.channel);
                    }
                }
                (None, None) => {}
            }
        }
    }
}

impl SharedRules {
    /// For so many workers.
    pub fn new(workers: WorkerId) -> SharedRules {
        let each = 0..workers;
        let told = Told { news: each.clone().map(|_| Vec::new()).collect(), all: HashMap::new(), count: 0 };
        SharedRules { told: Arc::new(Mutex::new(told)), some: each.map(|_| AtomicBool::new(false)).collect() }
    }

    pub(super) fn told(&self) -> MutexGuard<'_, Told> {
        // What it holds is right between any two statements.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_some(&self, worker: WorkerId) -> bool {
        self.some.get(usize::from(worker)).is_some_and(|some| some.load(Ordering::Acquire))
    }
}
