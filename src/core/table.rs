//! A table whose entries have names that expire with them: the name of a removed entry means no later one in the same
//! place. A name is a place and a count, good for [`GENERATIONS`] uses of the place.
//!
//! Tables of several workers give no name twice: they take places from one stock ([`SharedPlaces`]). So an entry that
//! moves to another worker keeps its name, and takes its place along: the table that has the entry has the place.

use crate::sys::cache;
use core::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bits of a name that say the place.
const PLACE_BITS: u32 = 17;

/// Entries of any one table.
pub const ENTRIES_MAX: usize = 1 << PLACE_BITS;

/// Uses of a place until a name comes again.
pub const GENERATIONS: u32 = 1 << (u32::BITS - PLACE_BITS);

/// The place in a name's bits.
#[inline]
pub const fn place_of(bits: u32) -> usize {
    bits as usize & (ENTRIES_MAX - 1)
}

/// How often the place was used before, in a name's bits.
#[inline]
const fn generation_of(bits: u32) -> u16 {
    (bits >> PLACE_BITS) as u16
}

/// A name's bits.
#[inline]
const fn bits_of(generation: u16, place: usize) -> u32 {
    (generation as u32) << PLACE_BITS | place as u32
}

/// The count of a place whose entry has gone.
#[inline]
const fn next_of(generation: u16) -> u16 {
    ((generation as u32 + 1) & (GENERATIONS - 1)) as u16
}

/// The name of an entry: a newtype over its 32 bits, generation before index.
pub trait Name: Copy {
    /// The name of these bits.
    fn of_bits(bits: u32) -> Self;
    /// Its bits.
    fn bits(self) -> u32;
}

/// Defines the name of a kind of object.
#[macro_export]
macro_rules! object_name {
    ($(#[doc = $doc:literal])+ $name:ident) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// Its place among those that exist at the same time.
            #[inline]
            pub fn index(self) -> usize {
                $crate::core::table::place_of(self.0)
            }
        }

        impl $crate::core::table::Name for $name {
            #[inline]
            fn of_bits(bits: u32) -> $name {
                $name(bits)
            }

            #[inline]
            fn bits(self) -> u32 {
                self.0
            }
        }
    };
}

/// Free places that a table keeps of those that it has in common with others, for the next entries.
const KEPT: usize = 64;

/// The places of one kind that no worker of a node has. It is looked at once for many entries, and for a moment.
#[derive(Clone, Debug, Default)]
pub struct SharedPlaces(Arc<Mutex<Stock>>);

#[derive(Debug, Default)]
struct Stock {
    /// Places that had entries, with their counts.
    free: Vec<(u32, u16)>,
    /// The first place that nobody ever had, and how many there are.
    next: usize,
    most: usize,
}

impl SharedPlaces {
    fn stock(&self) -> MutexGuard<'_, Stock> {
        // What it holds is right between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, with its count.
    fn take(&self) -> Option<(u32, u16)> {
        let mut stock = self.stock();
        let again = stock.free.pop();
        again.or_else(|| {
            let new = (stock.next < stock.most).then_some((stock.next as u32, 0));
            stock.next += usize::from(new.is_some());
            new
        })
    }
}

/// Entries of one kind, at most so many.
#[derive(Debug)]
pub struct Table<K, V> {
    places: Vec<Place<V>>,
    free: Vec<u32>,
    count: usize,
    most: usize,
    /// Places that it had before it shared them.
    base: usize,
    /// Where places come from and go to, if other workers have the same kind.
    shared: Option<SharedPlaces>,
    kind: PhantomData<K>,
}

/// Its own cache lines: what is looked at for one entry is not disturbed by others.
#[derive(Debug)]
#[repr(C, align(64))]
struct Place<V> {
    generation: u16,
    value: Option<V>,
}

impl<K: Name, V> Table<K, V> {
    /// An empty table for at most `most` entries.
    pub fn new(most: usize) -> Table<K, V> {
        Table {
            places: Vec::new(),
            free: Vec::new(),
            count: 0,
            base: 0,
            most: most.min(ENTRIES_MAX),
            shared: None,
            kind: PhantomData,
        }
    }

    /// Takes places from a stock from now on that tables of other workers take theirs from. The entries that each has
    /// already are the same in all of them.
    pub fn share(&mut self, places: &SharedPlaces) {
        let mut stock = places.stock();
        (stock.next, stock.most) = (stock.next.max(self.places.len()), self.most);
        drop(stock);
        self.base = self.places.len();
        self.shared = Some(places.clone());
    }

    /// Adds an entry; gives it back when the table is full.
    pub fn add(&mut self, value: V) -> Result<K, V> {
        let Some(index) = self.free.pop().or_else(|| self.new_place()) else { return Err(value) };
        let place = &mut self.places[index as usize];
        place.value = Some(value);
        self.count += 1;
        Ok(K::of_bits(bits_of(place.generation, index as usize)))
    }

    /// A place that this table did not have, if there is one.
    fn new_place(&mut self) -> Option<u32> {
        let (index, generation) = match &self.shared {
            Some(shared) => shared.take()?,
            None => ((self.places.len() < self.most).then_some(self.places.len() as u32)?, 0),
        };
        self.make_place(index as usize, generation);
        Some(index)
    }

    fn make_place(&mut self, index: usize, generation: u16) {
        if self.places.len() <= index {
            cache::make_room(&mut self.places, index + 1);
            self.places.resize_with(index + 1, || Place { generation: 0, value: None });
        }
        self.places[index].generation = generation;
    }

    /// Takes an entry out that goes to the table of another worker, with its place: its name is good there.
    pub fn send_off(&mut self, name: K) -> Option<V> {
        let index = self.place(name)?;
        let value = self.places[index].value.take()?;
        self.count -= 1;
        Some(value)
    }

    /// Gives up all places but those that each table has from its beginning: who goes on in place of this worker takes others.
    #[cold]
    pub fn give_up(&mut self) {
        let Some(shared) = &self.shared else { return };
        let mut taken = Vec::new();
        for (index, place) in self.places.iter_mut().enumerate().skip(self.base) {
            if place.value.take().is_some() {
                taken.push((index as u32, next_of(place.generation)));
            }
        }
        let free = self.free.drain(..).map(|index| (index, self.places[index as usize].generation));
        let mut stock = shared.stock();
        stock.free.extend(taken);
        stock.free.extend(free);
        self.count = 0;
    }

    /// An entry comes from the table of another worker, with its name.
    pub fn take_in(&mut self, name: K, value: V) {
        let (generation, index) = (generation_of(name.bits()), place_of(name.bits()));
        self.make_place(index, generation);
        self.places[index].value = Some(value);
        self.count += 1;
    }

    #[inline]
    fn place(&self, name: K) -> Option<usize> {
        let (generation, index) = (generation_of(name.bits()), place_of(name.bits()));
        (self.places.get(index)?.generation == generation).then_some(index)
    }

    /// The entry, unless it has gone.
    #[inline]
    pub fn get(&self, name: K) -> Option<&V> {
        self.places[self.place(name)?].value.as_ref()
    }

    /// The entry, to change.
    #[inline]
    pub fn get_mut(&mut self, name: K) -> Option<&mut V> {
        let index = self.place(name)?;
        self.places[index].value.as_mut()
    }

    /// Asks for the entry's memory, which will be looked at soon.
    #[inline]
    pub fn foresee(&self, index: usize) {
        cache::prefetch_at(&self.places, index);
    }

    /// Asks for the first cache lines of an entry.
    #[inline]
    pub fn foresee_first(&self, index: usize, lines: usize) {
        if let Some(place) = self.places.get(index) {
            cache::prefetch_first(place, lines * cache::LINE);
        }
    }

    /// Takes an entry away; its name means nothing from now on.
    pub fn remove(&mut self, name: K) -> Option<V> {
        let index = self.place(name)?;
        let place = &mut self.places[index];
        let value = place.value.take()?;
        place.generation = next_of(place.generation);
        self.free.push(index as u32);
        self.count -= 1;
        if self.free.len() > KEPT && self.shared.is_some() {
            self.give_places();
        }
        Some(value)
    }

    /// Gives most free places to whoever needs them.
    #[cold]
    fn give_places(&mut self) {
        let Some(shared) = &self.shared else { return };
        let given = self.free.drain(KEPT / 2..).map(|index| (index, self.places[index as usize].generation));
        shared.stock().free.extend(given);
    }

    /// All entries with their names.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            #[cfg(test)]
            looks::add();
            let name = K::of_bits(bits_of(place.generation, index));
            Some((name, place.value.as_ref()?))
        })
    }

    /// What is at this place: an entry with its name, or none. Nothing: no place is behind those before.
    pub fn at(&self, index: usize) -> Option<Option<(K, &V)>> {
        let place = self.places.get(index)?;
        let name = K::of_bits(bits_of(place.generation, index));
        Some(place.value.as_ref().map(|value| (name, value)))
    }

    /// Entries in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How many entries this thread has looked at by going through whole tables.
#[cfg(test)]
pub mod looks {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    /// One more.
    pub fn add() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// Those since the last time.
    pub fn take() -> u64 {
        LOOKS.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    object_name! {
        /// A thing.
        Thing
    }

    #[test]
    fn a_name_outlives_its_entry_without_meaning_another() {
        let mut table: Table<Thing, &str> = Table::new(1);
        let first = table.add("first").unwrap();
        assert_eq!(table.add("no room"), Err("no room"));
        assert_eq!((table.remove(first), table.remove(first)), (Some("first"), None));
        let second = table.add("second").unwrap();
        assert_eq!((first.index(), table.get(first), table.get(second)), (second.index(), None, Some(&"second")));
        assert_eq!((table.len(), table.iter().count(), table.is_empty()), (1, 1, false));
        assert_eq!(table.get(Thing(7)), None, "beyond the table");
    }

    #[test]
    fn tables_with_one_stock_of_places_give_no_name_twice_and_entries_keep_theirs() {
        let places = SharedPlaces::default();
        let mut tables = [Table::<Thing, u32>::new(300), Table::new(300)];
        let own = tables.each_mut().map(|table| table.add(0).unwrap());
        assert_eq!(own[0], own[1], "what each has from its beginning is the same");
        tables.iter_mut().for_each(|table| table.share(&places));
        let mut living = std::collections::HashMap::new();
        for round in 0..20_000u32 {
            let at = (round % 2) as usize;
            match round % 7 {
                0..4 => match tables[at].add(round) {
                    Ok(name) => assert_eq!(living.insert(name, round), None, "{name:?} is given twice"),
                    Err(_) => assert!(living.len() > 299 - 2 * KEPT, "{} and no room", living.len()),
                },
                4 => {
                    // What moves is here no more, and there under its name.
                    let names: Vec<Thing> =
                        living.keys().copied().filter(|name| tables[at].get(*name).is_some()).collect();
                    for name in names.into_iter().take(5) {
                        let value = tables[at].send_off(name).unwrap();
                        assert_eq!(tables[at].get(name), None);
                        assert_eq!(tables[at].remove(name), None);
                        tables[1 - at].take_in(name, value);
                    }
                }
                _ => {
                    let name = living.keys().copied().find(|name| tables[at].get(*name).is_some());
                    if let Some(name) = name {
                        assert_eq!(tables[at].remove(name), living.remove(&name));
                        assert_eq!(tables[at].remove(name), None);
                    }
                }
            }
            let there: usize = tables.iter().map(|table| table.len() - 1).sum();
            assert_eq!(there, living.len());
        }
        // One that fills up and ends all has taken no place from the other for good.
        let all: Vec<Thing> = living.keys().copied().collect();
        all.into_iter().for_each(|name| {
            let removed: Vec<u32> = tables.iter_mut().filter_map(|table| table.remove(name)).collect();
            assert_eq!(removed.len(), 1);
        });
        let names: Vec<Thing> = (0..).map_while(|number| tables[0].add(number).ok()).collect();
        assert!(names.len() > 299 - KEPT, "{}", names.len());
    }
}
