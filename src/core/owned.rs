//! A table that knows whose its entries are. Example: a domain of 100,000 ends, and its two channels are found without a look at others.
//!
//! Whose an entry is stands in the entry. The table links those of one owner in a list, in both directions, so that each comes and goes
//! in a few steps, and who goes through an owner's sees as many as he has. The list is in the entries themselves; the table keeps where
//! it begins. Nothing but the table changes it, so that it cannot say other than the entries.

use super::table::{Name, SharedPlaces, Table};
use core::hash::Hash;
use core::ops::Deref;
use std::collections::HashMap;

/// What is an owner's.
pub trait Owned<K: Copy> {
    /// What owners are known by.
    type Owner: Copy + Eq + Hash;
    /// Whose it is, as long as it is in a table.
    fn owner(&self) -> Self::Owner;
    /// The names of its owner's entries before and behind it.
    fn beside(&self) -> Beside<K>;
    /// Where they are kept.
    fn beside_mut(&mut self) -> &mut Beside<K>;
}

/// Where an entry stands among its owner's: behind which, and before which.
#[derive(Clone, Copy, Debug)]
pub struct Beside<K> {
    before: Option<K>,
    next: Option<K>,
}

impl<K> Default for Beside<K> {
    fn default() -> Beside<K> {
        Beside { before: None, next: None }
    }
}

/// A [`Table`] of what owners have. It is read as the table itself.
#[derive(Debug)]
pub struct OwnedTable<K: Name, V: Owned<K>> {
    table: Table<K, V>,
    /// The entry of each owner that came last.
    first: HashMap<V::Owner, K>,
}

impl<K: Name, V: Owned<K>> Deref for OwnedTable<K, V> {
    type Target = Table<K, V>;
    #[inline]
    fn deref(&self) -> &Table<K, V> {
        &self.table
    }
}

impl<K: Name, V: Owned<K>> OwnedTable<K, V> {
    /// An empty table for at most `most` entries.
    pub fn new(most: usize) -> OwnedTable<K, V> {
        OwnedTable { table: Table::new(most), first: HashMap::new() }
    }

    /// Takes places from a stock from now on ([`Table::share`]).
    pub fn share(&mut self, places: &SharedPlaces) {
        self.table.share(places);
    }

    /// Gives up all places ([`Table::give_up`]).
    pub fn give_up(&mut self) {
        self.table.give_up();
        self.first.clear();
        // What each table has from its beginning is still in it.
        let left: Vec<K> = self.table.iter().map(|(name, _)| name).collect();
        left.into_iter().for_each(|name| self.link(name));
    }

    /// Adds an entry; gives it back when the table is full.
    pub fn add(&mut self, value: V) -> Result<K, V> {
        let name = self.table.add(value)?;
        self.link(name);
        Ok(name)
    }

    /// Takes an entry away; its name means nothing from now on.
    pub fn remove(&mut self, name: K) -> Option<V> {
        self.unlink(name);
        self.table.remove(name)
    }

    /// Takes an entry out that goes to the table of another worker ([`Table::send_off`]).
    pub fn send_off(&mut self, name: K) -> Option<V> {
        self.unlink(name);
        self.table.send_off(name)
    }

    /// An entry comes from the table of another worker, with its name.
    pub fn take_in(&mut self, name: K, value: V) {
        self.table.take_in(name, value);
        self.link(name);
    }

    /// The entry, to change; whose it is stays as it is ([`OwnedTable::give_to`]).
    #[inline]
    pub fn get_mut(&mut self, name: K) -> Option<&mut V> {
        self.table.get_mut(name)
    }

    /// Changes whose an entry is.
    pub fn give_to(&mut self, name: K, change: impl FnOnce(&mut V)) {
        self.unlink(name);
        if let Some(value) = self.table.get_mut(name) {
            change(value);
        }
        self.link(name);
    }

    /// The entries of an owner, the last ones first.
    pub fn of(&self, owner: V::Owner) -> impl Iterator<Item = (K, &V)> {
        let entry = |name: K| {
            #[cfg(test)]
            super::table::looks::add();
            Some((name, self.table.get(name)?))
        };
        let first = self.first.get(&owner).copied().and_then(entry);
        core::iter::successors(first, move |(_, value)| value.beside().next.and_then(entry))
    }

    /// The names of what several have.
    pub fn of_all(&self, owners: &[V::Owner]) -> Vec<K> {
        owners.iter().flat_map(|owner| self.of(*owner)).map(|(name, _)| name).collect()
    }

    fn link(&mut self, name: K) {
        let Some(owner) = self.table.get(name).map(V::owner) else { return };
        let next = self.first.insert(owner, name);
        if let Some(value) = self.table.get_mut(name) {
            *value.beside_mut() = Beside { before: None, next };
        }
        if let Some(next) = next.and_then(|next| self.table.get_mut(next)) {
            next.beside_mut().before = Some(name);
        }
    }

    fn unlink(&mut self, name: K) {
        let Some(value) = self.table.get_mut(name) else { return };
        let (owner, Beside { before, next }) = (value.owner(), core::mem::take(value.beside_mut()));
        match (before, next) {
            (Some(before), _) => {
                if let Some(before) = self.table.get_mut(before) {
                    before.beside_mut().next = next;
                }
            }
            (None, Some(next)) => drop(self.first.insert(owner, next)),
            (None, None) => drop(self.first.remove(&owner)),
        }
        if let Some(next) = next.and_then(|next| self.table.get_mut(next)) {
            next.beside_mut().before = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_name;
    use std::collections::{BTreeMap, BTreeSet};

    object_name! {
        /// A thing.
        Thing
    }

    /// What is somebody's.
    struct Piece {
        owner: u8,
        beside: Beside<Thing>,
    }

    impl Owned<Thing> for Piece {
        type Owner = u8;
        fn owner(&self) -> u8 {
            self.owner
        }
        fn beside(&self) -> Beside<Thing> {
            self.beside
        }
        fn beside_mut(&mut self) -> &mut Beside<Thing> {
            &mut self.beside
        }
    }

    /// Numbers below another, from a seed.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, most: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % most
        }
    }

    #[test]
    fn what_an_owner_has_is_what_a_model_says_of_it_however_things_come_and_go() {
        let mut random = Numbers(7);
        let mut tables = [OwnedTable::<Thing, Piece>::new(512), OwnedTable::new(512)];
        let places = SharedPlaces::default();
        tables.iter_mut().for_each(|table| table.share(&places));
        let mut model = BTreeMap::<(usize, u8), BTreeSet<Thing>>::new();
        for _ in 0..20_000 {
            let (at, owner, other) = (random.below(2) as usize, random.below(9) as u8, random.below(9) as u8);
            let one = model.get(&(at, owner)).and_then(|names| names.iter().nth(random.below(3) as usize).copied());
            let mut gone = || model.get_mut(&(at, owner)).zip(one).is_some_and(|(names, one)| names.remove(&one));
            match (random.below(5), one) {
                (0 | 1, _) | (_, None) => {
                    if let Ok(name) = tables[at].add(Piece { owner, beside: Beside::default() }) {
                        model.entry((at, owner)).or_default().insert(name);
                    }
                }
                (2, Some(one)) => {
                    assert!(gone() && tables[at].remove(one).is_some() && tables[at].remove(one).is_none())
                }
                (3, Some(one)) => {
                    assert!(gone());
                    let moved = tables[at].send_off(one).unwrap();
                    tables[1 - at].take_in(one, moved);
                    model.entry((1 - at, owner)).or_default().insert(one);
                }
                (_, Some(one)) => {
                    assert!(gone());
                    tables[at].give_to(one, |piece| piece.owner = other);
                    model.entry((at, other)).or_default().insert(one);
                }
            }
            for at in [at, 1 - at] {
                let of = |owner| tables[at].of(owner).map(|(name, _)| name).collect::<BTreeSet<_>>();
                assert!(
                    (0..9)
                        .all(|owner| model.get(&(at, owner)).map_or(of(owner).is_empty(), |names| *names == of(owner)))
                );
                let places: BTreeSet<_> = tables[at].iter().map(|(name, _)| name.index()).collect();
                assert!(tables[at].first.len() <= 9 && places.len() == tables[at].len());
            }
        }
    }
}
