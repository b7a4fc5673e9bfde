//! Who wants to know of changes, and changes that wait for them.
//!
//! A domain is told once that there is something ([`Signal`]), and then asks for it. So a watch costs one upcall however
//! much changes, and a domain that does not ask costs what its watch has room for. What finds none there is counted and
//! told with the next answer.

use super::ask::{CHANGES_BYTES_MAX, CHANGES_MAX, StoreChange, StoreId, WatchId};
use crate::core::domain::DomainId;
use std::collections::VecDeque;

/// Nanoseconds until a domain is told again that has not asked: it may have been on its way to another worker.
const AGAIN: u64 = 1_000_000_000;

/// A domain is to be told that there is something for a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Which domain.
    pub domain: DomainId,
    /// Which watch.
    pub watch: WatchId,
    /// What it was begun with.
    pub argument: u64,
}

/// A watch on a store.
#[derive(Debug)]
pub(super) struct Watching {
    pub domain: DomainId,
    pub store: StoreId,
    pub prefix: Box<[u8]>,
    pub argument: u64,
    changes: VecDeque<StoreChange>,
    bytes: usize,
    lost: u64,
    /// When the domain was told of what waits, if it was.
    told: Option<u64>,
    /// Whether the store has ended.
    pub ended: bool,
}

impl Watching {
    pub fn new(domain: DomainId, store: StoreId, prefix: Box<[u8]>, argument: u64) -> Watching {
        let changes = VecDeque::new();
        Watching { domain, store, prefix, argument, changes, bytes: 0, lost: 0, told: None, ended: false }
    }

    /// Something has changed; false if there is no room for it.
    pub fn note(&mut self, change: StoreChange) -> bool {
        let bytes = self.bytes + change.key.len();
        // Behind what is lost nothing is told before that is.
        let fits = self.lost == 0 && self.changes.len() < CHANGES_MAX && bytes <= CHANGES_BYTES_MAX;
        if fits {
            self.bytes = bytes;
            self.changes.push_back(change);
        } else {
            self.lost += 1;
        }
        fits
    }

    /// Whether the domain is to be told now.
    pub fn tells(&mut self, now: u64) -> bool {
        let waits = !self.changes.is_empty() || self.lost > 0 || self.ended;
        let tells = waits && self.told.is_none_or(|told| now.saturating_sub(told) >= AGAIN);
        if tells {
            self.told = Some(now);
        }
        tells
    }

    /// What has changed, and how many more changes there were; nothing if that is the store's end.
    pub fn take(&mut self) -> Option<(Vec<StoreChange>, u64)> {
        (self.told, self.bytes) = (None, 0);
        let taken = (core::mem::take(&mut self.changes).into(), core::mem::take(&mut self.lost));
        let last = self.ended && taken == (Vec::new(), 0);
        if last {
            // It is told of the end once.
            self.told = Some(u64::MAX);
        }
        (!last).then_some(taken)
    }
}
