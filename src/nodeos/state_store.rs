//! Soft state: the only thing that outlives a packet.
//!
//! A fixed table of 64-byte values, keyed by (domain, key), each with the time until which it is
//! kept (the ANTS node cache). A domain has a quota, sees nobody else's entries and can never push
//! them out: when its set of the table is taken by others, its own put is refused, and soft state
//! is written so that this is harmless. The table is allocated once.

use super::domain::{DomainId, Domains};

/// Octets of one value.
pub const VALUE: usize = 64;

/// Entries that share a set of the table.
const WAYS: usize = 8;

/// A value.
pub type Value = [u8; VALUE];

#[derive(Clone, Copy)]
struct Entry {
    owner: u32,
    key: u64,
    /// Nanoseconds; zero for an entry never used.
    expires: u64,
    value: Value,
}

const EMPTY: Entry = Entry { owner: u32::MAX, key: 0, expires: 0, value: [0; VALUE] };

/// The soft state of one node.
pub struct StateStore {
    entries: Box<[Entry]>,
    sets: u64,
    cursor: usize,
}

/// A put was refused: the quota is used up, or others hold the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl StateStore {
    /// A store of at least `entries` entries (of about 88 octets).
    pub fn new(entries: usize) -> StateStore {
        let sets = entries.div_ceil(WAYS).next_power_of_two().max(1);
        StateStore { entries: vec![EMPTY; sets * WAYS].into_boxed_slice(), sets: sets as u64, cursor: 0 }
    }

    /// The value under `key` if it is still kept at `now` (nanoseconds).
    pub fn value(&self, owner: DomainId, key: u64, now: u64) -> Option<&Value> {
        let set = self.set(owner, key);
        self.entries[set..set + WAYS]
            .iter()
            .find(|entry| entry.owner == owner.0 && entry.key == key && entry.expires > now)
            .map(|entry| &entry.value)
    }

    /// Keeps `value` under `key` for `keep_ms` milliseconds, at most the domain's longest time. Kept for
    /// no time at all, it is removed.
    pub fn put(
        &mut self,
        domains: &mut Domains,
        owner: DomainId,
        key: u64,
        value: &Value,
        keep_ms: u32,
        now: u64,
    ) -> Result<(), Full> {
        let Some(domain) = domains.of(owner) else { return Err(Full) };
        let keep_ms = keep_ms.min(domain.limits.keep_ms_max);
        if keep_ms == 0 {
            self.remove(domains, owner, key);
            return Ok(());
        }
        let expires = now + u64::from(keep_ms) * 1_000_000;
        let (quota, used) = (domain.limits.state_entries, domain.usage.state_entries);
        let at_quota = used >= quota;
        let Some(slot) = self.slot(owner, key, at_quota, now) else {
            domain.usage.state_refused += 1;
            return Err(Full);
        };
        self.release(domains, slot);
        if let Some(domain) = domains.of(owner) {
            domain.usage.state_entries += 1;
        }
        self.entries[slot] = Entry { owner: owner.0, key, expires, value: *value };
        Ok(())
    }

    fn remove(&mut self, domains: &mut Domains, owner: DomainId, key: u64) {
        let set = self.set(owner, key);
        let holds = |entry: &Entry| entry.owner == owner.0 && entry.key == key;
        if let Some(way) = self.entries[set..set + WAYS].iter().position(holds) {
            self.release(domains, set + way);
        }
    }

    /// Frees a share of the entries whose time is over; call it regularly. `share` entries are looked
    /// at in each call.
    pub fn sweep(&mut self, domains: &mut Domains, now: u64, share: usize) {
        for _ in 0..share.min(self.entries.len()) {
            self.cursor = (self.cursor + 1) % self.entries.len();
            if self.entries[self.cursor].expires <= now {
                self.release(domains, self.cursor);
            }
        }
    }

    /// Frees all entries of a domain that ends.
    pub fn forget(&mut self, domains: &mut Domains, owner: DomainId) {
        for index in 0..self.entries.len() {
            if self.entries[index].owner == owner.0 {
                self.release(domains, index);
            }
        }
    }

    /// Entries the table has.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Where a put goes: the key's own entry, else a free or expired one, else the domain's entry
    /// of the set that would expire first. At the quota, only the domain's own entries serve.
    fn slot(&self, owner: DomainId, key: u64, at_quota: bool, now: u64) -> Option<usize> {
        let set = self.set(owner, key);
        let ways = set..set + WAYS;
        let own = |index: &usize| self.entries[*index].owner == owner.0;
        ways.clone()
            .find(|index| own(index) && self.entries[*index].key == key)
            .or_else(|| ways.clone().filter(own).find(|&index| self.entries[index].expires <= now))
            .or_else(|| ways.clone().find(|&index| !at_quota && self.entries[index].expires <= now))
            .or_else(|| ways.filter(own).min_by_key(|&index| self.entries[index].expires))
    }

    fn release(&mut self, domains: &mut Domains, index: usize) {
        let entry = &mut self.entries[index];
        if entry.owner != u32::MAX {
            if let Some(domain) = domains.of(DomainId(entry.owner)) {
                domain.usage.state_entries = domain.usage.state_entries.saturating_sub(1);
            }
            entry.owner = u32::MAX;
            entry.expires = 0;
        }
    }

    fn set(&self, owner: DomainId, key: u64) -> usize {
        // The finaliser of splitmix64 (Steele et al. 2014): every bit of the key moves the set.
        let mut x = key ^ (u64::from(owner.0) << 32 | 0x9e37_79b9);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) & (self.sets - 1)) as usize * WAYS
    }
}

#[cfg(test)]
mod tests {
    use super::super::domain::{Domain, Limits};
    use super::*;

    fn two_domains(quota: u32) -> (Domains, DomainId, DomainId) {
        let mut domains = Domains::default();
        let mut domain =
            || domains.create(Domain::new("d".into(), Limits { state_entries: quota, ..Limits::default() })).unwrap();
        let (a, b) = (domain(), domain());
        (domains, a, b)
    }

    #[test]
    fn entries_are_kept_for_their_time_and_seen_by_their_owner_only() {
        let (mut domains, a, b) = two_domains(10);
        let mut store = StateStore::new(64);
        store.put(&mut domains, a, 7, &[1; VALUE], 10, 0).unwrap();
        assert_eq!(store.value(a, 7, 9_999_999), Some(&[1; VALUE]));
        assert_eq!(store.value(a, 7, 10_000_000), None);
        assert_eq!(store.value(b, 7, 0), None);
    }

    #[test]
    fn the_quota_counts_living_entries_and_updates_are_free() {
        let (mut domains, a, _) = two_domains(4);
        let mut store = StateStore::new(1024);
        for key in 0..4 {
            store.put(&mut domains, a, key, &[0; VALUE], 1000, 0).unwrap();
            store.put(&mut domains, a, key, &[1; VALUE], 1000, 0).unwrap();
        }
        assert_eq!(domains.of(a).unwrap().usage.state_entries, 4);
        let refused = (100..200).filter(|&key| store.put(&mut domains, a, key, &[0; VALUE], 1000, 0).is_err()).count();
        assert!(refused > 0);
        assert!(domains.of(a).unwrap().usage.state_entries <= 4);
        store.sweep(&mut domains, 2_000_000_000, 1024);
        assert_eq!(domains.of(a).unwrap().usage.state_entries, 0);
    }

    #[test]
    fn keeping_for_no_time_removes_the_entry_and_no_other() {
        let (mut domains, a, _) = two_domains(2);
        let mut store = StateStore::new(8);
        store.put(&mut domains, a, 1, &[1; VALUE], 1000, 0).unwrap();
        store.put(&mut domains, a, 2, &[2; VALUE], 1000, 0).unwrap();
        assert_eq!(store.put(&mut domains, a, 3, &[3; VALUE], 0, 0), Ok(()), "what is not there is gone already");
        assert_eq!((store.value(a, 1, 0), store.value(a, 2, 0)), (Some(&[1; VALUE]), Some(&[2; VALUE])));
        store.put(&mut domains, a, 1, &[1; VALUE], 0, 0).unwrap();
        assert_eq!((store.value(a, 1, 0), store.value(a, 2, 0)), (None, Some(&[2; VALUE])));
        assert_eq!(domains.of(a).unwrap().usage.state_entries, 1);
    }

    #[test]
    fn nobody_can_push_out_the_entries_of_others() {
        let (mut domains, a, b) = two_domains(1000);
        let mut store = StateStore::new(64);
        store.put(&mut domains, a, 7, &[7; VALUE], 1000, 0).unwrap();
        for key in 0..10_000 {
            let _ = store.put(&mut domains, b, key, &[0; VALUE], 100_000, 0);
        }
        assert_eq!(store.value(a, 7, 1), Some(&[7; VALUE]));
    }

    #[test]
    fn a_domain_that_ends_leaves_nothing() {
        let (mut domains, a, b) = two_domains(100);
        let mut store = StateStore::new(256);
        for key in 0..50 {
            let _ = store.put(&mut domains, a, key, &[1; VALUE], 1000, 0);
        }
        store.put(&mut domains, b, 1, &[2; VALUE], 1000, 0).unwrap();
        store.forget(&mut domains, a);
        assert!((0..50).all(|key| store.value(a, key, 0).is_none()));
        assert_eq!(domains.of(a).unwrap().usage.state_entries, 0);
        assert!(store.value(b, 1, 0).is_some());
    }
}
