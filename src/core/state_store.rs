//! Soft state: values that code leaves at a node for later packets, such as a counter for a minute. Nothing else
//! outlives a packet.
//!
//! A fixed table of 64-byte values, keyed by (domain, key), each with a time of expiry (the ANTS node cache). It is
//! allocated once. A domain has a quota and sees nobody else's entries.
//!
//! Domains form groups, by the principal of their code or, if unsigned, by the neighbour that brought it; so many codes
//! count as one group. The fair share of a group is the table divided by the number of groups with entries. Within that
//! share nobody can push its entries out; entries beyond it give way to groups with less. Domains share a group in the
//! same way. If others fill a domain's set of the table, a put is refused; soft state is written so that this is
//! harmless. The entries of one domain are chained, so forgetting them looks at no others.

use super::domain::DomainId;
use super::kept::{Allowance, Books, Held, KeptValue, PAGE, Page};
pub use super::kept::{Change, Refused, SharedState, VALUE, Value, number};
use std::collections::HashMap;

/// Entries that share a set of the table.
const WAYS: usize = 8;

/// Places of the table that are looked at for one page, at most.
const LOOKED_AT: usize = 4096;

/// No domain, or no entry.
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    owner: u32,
    /// The owner's entries around this one.
    before: u32,
    behind: u32,
    key: u64,
    /// Nanoseconds; zero for an entry never used.
    expires: u64,
    value: Value,
}

/// Bytes that a domain is charged for an entry.
pub const ENTRY: u64 = size_of::<Entry>() as u64;

const EMPTY: Entry = Entry { owner: NOBODY, before: NOBODY, behind: NOBODY, key: 0, expires: 0, value: [0; VALUE] };

/// The entries of a domain.
#[derive(Clone, Copy)]
struct Holding {
    first: u32,
    count: u32,
}

const NOTHING: Holding = Holding { first: NOBODY, count: 0 };

/// The entries of a group, and the number of its domains with any.
#[derive(Clone, Copy, Default)]
struct Group {
    count: u32,
    domains: u32,
}

/// The group of a domain that nobody has put into one: its own.
const ALONE: u64 = 1 << 63;

/// The soft state of one node.
pub struct StateStore {
    entries: Box<[Entry]>,
    sets: u64,
    cursor: usize,
    /// By domain.
    holdings: Vec<Holding>,
    /// Domains that were put into groups, by their places.
    members: Vec<(u32, u64)>,
    /// Groups that hold anything.
    groups: HashMap<u64, Group, foldhash::fast::FixedState>,
}

impl StateStore {
    /// A store of at least `entries` entries (of 96 bytes).
    pub fn new(entries: usize) -> StateStore {
        let sets = entries.div_ceil(WAYS).next_power_of_two().max(1);
        let entries = vec![EMPTY; sets * WAYS].into_boxed_slice();
        StateStore {
            entries,
            sets: sets as u64,
            cursor: 0,
            holdings: Vec::new(),
            members: Vec::new(),
            groups: HashMap::default(),
        }
    }

    /// A domain that holds nothing yet shares with all others of this group.
    pub fn join(&mut self, owner: DomainId, group: u64) {
        self.set_group(owner, group & !ALONE);
    }

    fn set_group(&mut self, owner: DomainId, group: u64) {
        let at = owner.index();
        if at >= self.members.len() {
            self.members.resize(at + 1, (NOBODY, 0));
        }
        self.members[at] = (owner.0, group);
    }

    /// A domain that holds nothing yet shares with another, and with all that do.
    pub fn join_with(&mut self, owner: DomainId, other: DomainId) {
        let group = self.group(other.0);
        self.set_group(owner, group);
    }

    fn group(&self, owner: u32) -> u64 {
        let known = self.members.get(DomainId(owner).index()).filter(|(of, _)| *of == owner);
        known.map_or(ALONE | u64::from(owner), |(_, group)| *group)
    }

    /// The value under `key` if it is still kept at `now` (nanoseconds).
    pub fn value(&self, owner: DomainId, key: u64, now: u64) -> Option<&Value> {
        let set = self.set(owner, key);
        self.entries[set..set + WAYS]
            .iter()
            .find(|entry| entry.owner == owner.0 && entry.key == key && entry.expires > now)
            .map(|entry| &entry.value)
    }

    /// Changes what is kept under `key`, and keeps that for `keep_ms` milliseconds, at most the domain's longest time. Kept for
    /// no time at all, it is removed. Gives the number in what was to be kept.
    pub fn change(
        &mut self,
        books: &mut impl Books,
        owner: DomainId,
        key: u64,
        change: Change<'_>,
        keep_ms: u32,
        now: u64,
    ) -> Result<u64, Refused> {
        let kept = match change {
            Change::Put(_) => None,
            _ => self.value(owner, key, now).copied(),
        };
        let value = change.of(kept.unwrap_or([0; VALUE]))?;
        self.keep(books, owner, key, &value, keep_ms, now).map(|()| number(&value))
    }

    fn keep(
        &mut self,
        books: &mut impl Books,
        owner: DomainId,
        key: u64,
        value: &Value,
        keep_ms: u32,
        now: u64,
    ) -> Result<(), Refused> {
        let Some(Allowance { is_used_up, keep_ms_max }) = books.quota(owner) else { return Err(Refused::Full) };
        let keep_ms = keep_ms.min(keep_ms_max);
        if keep_ms == 0 {
            self.remove(books, owner, key);
            return Ok(());
        }
        let expires = now + u64::from(keep_ms) * 1_000_000;
        let Some(slot) = self.slot(owner, key, is_used_up, now) else {
            books.note(owner, Held::Refused);
            return Err(Refused::Full);
        };
        if self.entries[slot].owner != owner.0 {
            if self.entries[slot].expires > now {
                books.note(DomainId(self.entries[slot].owner), Held::Displaced);
            }
            self.release(books, slot);
            self.take(books, owner, slot);
        }
        let entry = &mut self.entries[slot];
        (entry.key, entry.expires, entry.value) = (key, expires, *value);
        Ok(())
    }

    fn remove(&mut self, books: &mut impl Books, owner: DomainId, key: u64) {
        let set = self.set(owner, key);
        let holds = |entry: &Entry| entry.owner == owner.0 && entry.key == key;
        if let Some(way) = self.entries[set..set + WAYS].iter().position(holds) {
            self.release(books, set + way);
        }
    }

    /// Frees a share of the entries whose time is over; call it regularly. `share` entries are looked
    /// at in each call.
    pub fn sweep(&mut self, books: &mut impl Books, now: u64, share: usize) {
        for _ in 0..share.min(self.entries.len()) {
            self.cursor = (self.cursor + 1) % self.entries.len();
            if self.entries[self.cursor].expires <= now {
                self.release(books, self.cursor);
            }
        }
    }

    /// Frees all entries of a domain that ends.
    pub fn forget(&mut self, books: &mut impl Books, owner: DomainId) {
        while let Some(holding) = self.holdings.get(owner.index()).filter(|holding| holding.count > 0) {
            self.release(books, holding.first as usize);
        }
    }

    /// Takes out all entries of a domain, handing those still kept at `now` to `to`: key, value, and for how
    /// many milliseconds more.
    pub fn hand_over(
        &mut self,
        books: &mut impl Books,
        owner: DomainId,
        now: u64,
        mut to: impl FnMut(u64, &Value, u32),
    ) {
        while let Some(holding) = self.holdings.get(owner.index()).filter(|holding| holding.count > 0) {
            let at = holding.first as usize;
            let Entry { key, expires, value, .. } = self.entries[at];
            if expires > now {
                to(key, &value, ((expires - now) / 1_000_000) as u32);
            }
            self.release(books, at);
        }
    }

    /// Takes out what a domain keeps under a key at `now`: the value, and for how many milliseconds more.
    pub fn take_out(&mut self, books: &mut impl Books, owner: DomainId, key: u64, now: u64) -> Option<(Value, u32)> {
        let set = self.set(owner, key);
        let holds = |entry: &Entry| entry.owner == owner.0 && entry.key == key && entry.expires > now;
        let at = set + self.entries[set..set + WAYS].iter().position(holds)?;
        let Entry { value, expires, .. } = self.entries[at];
        self.release(books, at);
        Some((value, ((expires - now) / 1_000_000) as u32))
    }

    /// What a domain keeps at `now`, from a place of the table on. Entries never move, so what is there from the first
    /// page to the last is told once.
    pub fn page(&self, owner: DomainId, from: u64, now: u64) -> Page {
        let mut page = Page::default();
        let begin = usize::try_from(from).unwrap_or(usize::MAX).min(self.entries.len());
        for (at, entry) in self.entries.iter().enumerate().skip(begin) {
            if at - begin == LOOKED_AT || page.entries.len() == PAGE {
                page.next = Some(at as u64);
                break;
            }
            if entry.owner == owner.0 && entry.expires > now {
                page.entries.push(KeptValue { key: entry.key, value: entry.value, until: entry.expires });
            }
        }
        page
    }

    /// Entries the table has.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// The place of a put: the key's own entry, else a free or expired one, else one of a domain that holds
    /// more than its share if this one holds less, else the domain's entry of the set that would expire
    /// first. At the quota, only the domain's own entries serve.
    fn slot(&self, owner: DomainId, key: u64, at_quota: bool, now: u64) -> Option<usize> {
        let set = self.set(owner, key);
        let ways = set..set + WAYS;
        let own = |index: &usize| self.entries[*index].owner == owner.0;
        ways.clone()
            .find(|index| own(index) && self.entries[*index].key == key)
            .or_else(|| ways.clone().filter(own).find(|&index| self.entries[index].expires <= now))
            .or_else(|| ways.clone().find(|&index| !at_quota && self.entries[index].expires <= now))
            .or_else(|| if at_quota { None } else { self.beyond_share(owner, ways.clone()) })
            .or_else(|| ways.filter(own).min_by_key(|&index| self.entries[index].expires))
    }

    /// Of these entries, the one that has to give way to a domain whose group has less than its share, or that has less
    /// than its share of the group's: of whoever holds most and more than that, the one that would expire first.
    #[cold]
    fn beyond_share(&self, owner: DomainId, ways: core::ops::Range<usize>) -> Option<usize> {
        let (group, own) = (self.group(owner.0), self.count(owner.0));
        let of = |group: u64| self.groups.get(&group).copied().unwrap_or_default();
        let held = of(group);
        let groups = self.groups.len() as u32 + u32::from(held.count == 0);
        let share = self.entries.len() as u32 / groups.max(1);
        let owner_of = |index: usize| self.entries[index].owner;
        let last = |index: usize| (self.count(owner_of(index)), core::cmp::Reverse(self.entries[index].expires));
        let most = |index: usize| of(self.group(owner_of(index))).count;
        if held.count < share
            && let Some(index) = ways.clone().max_by_key(|&at| (most(at), last(at))).filter(|&at| most(at) > share)
        {
            return Some(index);
        }
        let domains = held.domains + u32::from(own == 0);
        let share = share.max(held.count) / domains.max(1);
        let ways = ways.filter(|&at| own < share && self.group(owner_of(at)) == group);
        ways.max_by_key(|&at| last(at)).filter(|&at| self.count(owner_of(at)) > share)
    }

    /// Entries a domain holds.
    fn count(&self, owner: u32) -> u32 {
        self.holdings.get(DomainId(owner).index()).map_or(0, |holding| holding.count)
    }

    /// Gives a free entry to a domain.
    fn take(&mut self, books: &mut impl Books, owner: DomainId, index: usize) {
        let at = owner.index();
        if at >= self.holdings.len() {
            // Once for each domain there ever is at the same time.
            self.holdings.resize(at + 1, NOTHING);
        }
        let group = self.groups.entry(self.group(owner.0)).or_default();
        let holding = &mut self.holdings[at];
        let behind = core::mem::replace(&mut holding.first, index as u32);
        group.domains += u32::from(holding.count == 0);
        group.count += 1;
        holding.count += 1;
        if let Some(entry) = self.entries.get_mut(behind as usize) {
            entry.before = index as u32;
        }
        let entry = &mut self.entries[index];
        (entry.owner, entry.before, entry.behind) = (owner.0, NOBODY, behind);
        books.note(owner, Held::Taken);
    }

    /// Frees an entry, if it is anybody's.
    fn release(&mut self, books: &mut impl Books, index: usize) {
        let Entry { owner, before, behind, .. } = self.entries[index];
        let group = self.group(owner);
        let Some(holding) = self.holdings.get_mut(DomainId(owner).index()) else { return };
        holding.count -= 1;
        if let Some(held) = self.groups.get_mut(&group) {
            held.domains -= u32::from(holding.count == 0);
            held.count -= 1;
            if held.count == 0 {
                self.groups.remove(&group);
            }
        }
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.behind = behind,
            None => holding.first = behind,
        }
        if let Some(entry) = self.entries.get_mut(behind as usize) {
            entry.before = before;
        }
        let entry = &mut self.entries[index];
        (entry.owner, entry.expires) = (NOBODY, 0);
        books.note(DomainId(owner), Held::Released);
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
mod tests;
