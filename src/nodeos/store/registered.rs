//! Entries of a store that end with a domain, by the domain: what a service says of itself in a registry is gone when it is.
//!
//! The end of a domain takes all of them away in one step, so they are few ([`REGISTERED_MAX`]). Keys stand here once more, and count.

use super::ask::{REGISTERED_MAX, StoreKey};
use crate::core::domain::DomainId;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The keys that end with domains.
#[derive(Debug, Default)]
pub(super) struct Registered {
    of: BTreeMap<DomainId, BTreeSet<StoreKey>>,
    keys: usize,
}

impl Registered {
    /// Bytes that count for one more than those of its entry.
    pub(super) fn cost(key: &[u8]) -> u64 {
        key.len() as u64
    }

    /// Whether one more may end with a domain, if this one does not yet.
    pub(super) fn has_room(&self, domain: DomainId, key: &[u8]) -> bool {
        self.of.get(&domain).is_none_or(|keys| keys.len() < REGISTERED_MAX || keys.contains(key))
    }

    pub(super) fn add(&mut self, domain: DomainId, key: StoreKey) {
        self.keys += usize::from(self.of.entry(domain).or_default().insert(key));
    }

    pub(super) fn remove(&mut self, domain: DomainId, key: &[u8]) {
        let Some(keys) = self.of.get_mut(&domain) else { return };
        self.keys -= usize::from(keys.remove(key));
        if keys.is_empty() {
            self.of.remove(&domain);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.keys
    }

    /// The keys that end with these domains. Of both sets the smaller one is gone through.
    pub(super) fn of(&self, domains: &HashSet<DomainId>) -> Vec<StoreKey> {
        let keys = |domain: &DomainId| self.of.get(domain).into_iter().flatten().cloned();
        if domains.len() < self.of.len() {
            domains.iter().flat_map(keys).collect()
        } else {
            self.of.keys().filter(|domain| domains.contains(domain)).flat_map(keys).collect()
        }
    }
}
