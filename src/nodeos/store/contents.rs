//! What one store holds: the entries of now, and those that snapshots still see.
//!
//! Each change has a number, the store's *version*. A snapshot is the number of the last change before it. An entry that
//! is replaced or deleted stays behind for as long as a snapshot is of a time when it was there: it counts as long, so
//! a snapshot costs nothing until something changes, and a store with snapshots is full sooner. What no snapshot sees any
//! more goes a few keys at a time.

use super::ask::{ENTRY_BYTES, PAGE_BYTES_MAX, PAGE_KEYS_MAX, SCAN_MAX, StoreEntry, StoreKey, StoreValue};
use super::registered::Registered;
use crate::core::domain::DomainId;
use libanode::error::Error;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

/// An entry of now.
#[derive(Clone, Debug)]
struct Current {
    version: u64,
    value: StoreValue,
    /// The domain with which it ends, if it does.
    domain: Option<DomainId>,
}

/// An entry as it was from one change until another.
#[derive(Clone, Debug)]
struct Former {
    from: u64,
    until: u64,
    value: StoreValue,
}

/// The entries of a store.
#[derive(Debug, Default)]
pub struct Contents {
    now: BTreeMap<StoreKey, Current>,
    former: BTreeMap<StoreKey, Vec<Former>>,
    registered: Registered,
    /// The number of the last change.
    version: u64,
    /// What is held, of now and of before.
    bytes: u64,
    /// Snapshots by their versions, and how many of each.
    snapshots: BTreeMap<u64, u32>,
    /// Whether a snapshot has ended since all former entries were looked at, and from which key on.
    looks: bool,
    from: Option<StoreKey>,
}

/// What counts of an entry that is there now.
fn cost_now(key: &[u8], current: &Current) -> u64 {
    cost(key, &current.value) + current.domain.map_or(0, |_| Registered::cost(key))
}

fn cost(key: &[u8], value: &[u8]) -> u64 {
    ENTRY_BYTES + key.len() as u64 + value.len() as u64
}

impl Contents {
    /// Those of a store that was kept, after so many changes. Nothing if they are more than so many bytes.
    pub fn restore(version: u64, entries: BTreeMap<StoreKey, (u64, StoreValue)>, limit: u64) -> Option<Contents> {
        let bytes = entries.iter().map(|(key, (_, value))| cost(key, value)).sum();
        let now = entries
            .into_iter()
            .map(|(key, (version, value))| (key, Current { version, value, domain: None }))
            .collect();
        (bytes <= limit).then_some(Contents { now, version, bytes, ..Contents::default() })
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn keys(&self) -> usize {
        self.now.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing is held, of now or of before.
    pub(super) fn is_empty(&self) -> bool {
        self.now.is_empty() && self.former.is_empty()
    }

    /// Refuses if the version under a key is another one than expected.
    fn has_version(&self, key: &[u8], expected: Option<u64>) -> Result<(), Error> {
        let there = self.now.get(key).map_or(0, |current| current.version);
        if expected.is_none_or(|expected| expected == there) { Ok(()) } else { Err(Error::Changed) }
    }

    /// Whether a snapshot sees what was put by this change and is there now.
    fn is_seen(&self, version: u64) -> bool {
        self.snapshots.last_key_value().is_some_and(|(last, _)| *last >= version)
    }

    /// Whether a value can be put, to end with a domain or not; says the number that the change would have.
    pub(super) fn may_put(
        &mut self,
        (key, value): (&[u8], &[u8]),
        expected: Option<u64>,
        limit: u64,
        domain: Option<DomainId>,
    ) -> Result<u64, Error> {
        self.has_version(key, expected)?;
        let given = match self.now.get(key) {
            Some(current) if !self.is_seen(current.version) => cost_now(key, current),
            Some(current) => cost_now(key, current) - cost(key, &current.value),
            None => 0,
        };
        let more = cost(key, value) + domain.map_or(0, |_| Registered::cost(key));
        if domain.is_some_and(|domain| !self.registered.has_room(domain, key)) {
            return Err(Error::Limit);
        }
        let fits = |bytes: u64| bytes - given + more <= limit;
        if !fits(self.bytes) {
            // What nobody sees any more makes room at once.
            self.look(usize::MAX);
        }
        if fits(self.bytes) { Ok(self.version + 1) } else { Err(Error::Limit) }
    }

    /// Puts a value for which there is room.
    pub(super) fn put(&mut self, key: StoreKey, value: StoreValue, domain: Option<DomainId>) -> u64 {
        self.take_now(&key);
        self.version += 1;
        let current = Current { version: self.version, value, domain };
        self.bytes += cost_now(&key, &current);
        if let Some(domain) = domain {
            self.registered.add(domain, key.clone());
        }
        self.now.insert(key, current);
        self.version
    }

    /// Domains have ended, and what they have registered with them: the keys, and the numbers of the changes.
    pub(super) fn end_domains(&mut self, domains: &HashSet<DomainId>) -> Vec<(StoreKey, u64)> {
        let keys = self.registered.of(domains);
        keys.into_iter()
            .map(|key| {
                let version = self.delete(&key);
                (key, version)
            })
            .collect()
    }

    /// How many entries end with domains.
    pub(super) fn registered(&self) -> usize {
        self.registered.len()
    }

    /// Whether a key can be deleted; says the number that the change would have.
    pub(super) fn may_delete(&self, key: &[u8], expected: Option<u64>) -> Result<u64, Error> {
        self.has_version(key, expected)?;
        if self.now.contains_key(key) { Ok(self.version + 1) } else { Err(Error::Unknown) }
    }

    /// Deletes what there is.
    pub(super) fn delete(&mut self, key: &[u8]) -> u64 {
        self.take_now(key);
        self.version += 1;
        self.version
    }

    /// Takes the entry of now away that the next change replaces.
    fn take_now(&mut self, key: &[u8]) {
        let Some((key, Current { version: from, value, domain })) = self.now.remove_entry(key) else { return };
        if let Some(domain) = domain {
            self.registered.remove(domain, &key);
            self.bytes -= Registered::cost(&key);
        }
        if self.is_seen(from) {
            let former = Former { from, until: self.version + 1, value };
            self.former.entry(key).or_default().push(former);
        } else {
            self.bytes -= cost(&key, &value);
        }
    }

    /// What there is under a key, or was when so many changes had been made.
    pub(super) fn get(&self, key: &[u8], at: Option<u64>) -> Option<(u64, &StoreValue)> {
        let current = self.now.get(key).filter(|current| at.is_none_or(|at| current.version <= at));
        match (current, at) {
            (Some(current), _) => Some((current.version, &current.value)),
            (None, None) => None,
            (None, Some(at)) => {
                let formers = self.former.get(key)?;
                let former = formers.iter().find(|former| former.from <= at && at < former.until)?;
                Some((former.from, &former.value))
            }
        }
    }

    /// Keys with a beginning behind a key, and behind which the list goes on.
    pub(super) fn list(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        at: Option<u64>,
    ) -> (Vec<StoreEntry>, Option<StoreKey>) {
        let begin = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let range = (begin, Bound::Unbounded);
        let mut now = self.now.range::<[u8], _>(range).map(|(key, _)| key).peekable();
        let mut former = self.former.range::<[u8], _>(range).map(|(key, _)| key).peekable();
        let (mut found, mut bytes, mut last) = (Vec::new(), 0, None);
        for _ in 0..SCAN_MAX {
            let next = match (now.peek(), former.peek()) {
                (Some(a), Some(b)) if a == b => {
                    former.next();
                    now.next()
                }
                (Some(a), Some(b)) if b < a => former.next(),
                (None, _) => former.next(),
                (Some(_), _) => now.next(),
            };
            let Some(key) = next.filter(|key| key.starts_with(prefix)) else { return (found, None) };
            if let Some((version, value)) = self.get(key, at) {
                bytes += key.len();
                if found.len() == PAGE_KEYS_MAX || bytes > PAGE_BYTES_MAX {
                    break;
                }
                let domain = self.now.get(key).filter(|current| current.version == version).and_then(|now| now.domain);
                found.push(StoreEntry { key: key.clone(), version, bytes: value.len() as u32, domain });
            }
            last = Some(key.clone());
        }
        (found, last)
    }

    /// What there is now stays readable, under the number of the last change.
    pub(super) fn snapshot(&mut self) {
        *self.snapshots.entry(self.version).or_default() += 1;
    }

    /// One snapshot of this number less.
    pub(super) fn end_snapshot(&mut self, version: u64) {
        let Some(count) = self.snapshots.get_mut(&version) else { return };
        *count -= 1;
        if *count == 0 {
            self.snapshots.remove(&version);
            (self.looks, self.from) = (true, None);
        }
    }

    /// Whether there are entries that perhaps nobody sees any more.
    pub(super) fn looks(&self) -> bool {
        self.looks
    }

    /// Looks at the former entries of so many keys, and lets go what no snapshot sees.
    pub(super) fn look(&mut self, keys: usize) {
        for _ in 0..keys {
            if !self.looks {
                return;
            }
            let begin = self.from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.former.range::<[u8], _>((begin, Bound::Unbounded)).next();
            let Some(key) = next.map(|(key, _)| key.clone()) else {
                (self.looks, self.from) = (false, None);
                return;
            };
            let (snapshots, bytes) = (&self.snapshots, &mut self.bytes);
            let Some(formers) = self.former.get_mut(&key) else { return };
            formers.retain(|former| {
                let seen = snapshots.range(former.from..former.until).next().is_some();
                if !seen {
                    *bytes -= cost(&key, &former.value);
                }
                seen
            });
            if formers.is_empty() {
                self.former.remove(&key);
            }
            self.from = Some(key);
        }
    }

    /// Lets so many entries go; how many there were.
    pub(super) fn shrink(&mut self, entries: usize) -> usize {
        let next = |_| {
            let (key, current) = self.now.pop_first()?;
            current.domain.iter().for_each(|domain| self.registered.remove(*domain, &key));
            Some(())
        };
        let now = (0..entries).map_while(next).count();
        now + (now..entries).map_while(|_| self.former.pop_first()).count()
    }
}
