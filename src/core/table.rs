//! A table whose entries have names that expire with them: the name of a removed entry means no later one in the same
//! place. A name is a place and a count, good for [`GENERATIONS`] uses of the place.

use crate::sys::cache;
use core::marker::PhantomData;

/// Entries of any one table.
pub const ENTRIES_MAX: usize = 1 << 16;

/// Uses of a place until a name comes again.
pub const GENERATIONS: u32 = 1 << 16;

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
                (self.0 & 0xffff) as usize
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

/// Entries of one kind, at most so many.
#[derive(Debug)]
pub struct Table<K, V> {
    places: Vec<Place<V>>,
    free: Vec<u16>,
    most: usize,
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
        Table { places: Vec::new(), free: Vec::new(), most: most.min(ENTRIES_MAX), kind: PhantomData }
    }

    /// Adds an entry; gives it back when the table is full.
    pub fn add(&mut self, value: V) -> Result<K, V> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.places.len() < self.most => {
                let needed = self.places.len() + 1;
                cache::make_room(&mut self.places, needed);
                self.places.push(Place { generation: 0, value: None });
                (self.places.len() - 1) as u16
            }
            None => return Err(value),
        };
        let place = &mut self.places[usize::from(index)];
        place.value = Some(value);
        Ok(K::of_bits(u32::from(place.generation) << 16 | u32::from(index)))
    }

    #[inline]
    fn place(&self, name: K) -> Option<usize> {
        let (generation, index) = ((name.bits() >> 16) as u16, (name.bits() & 0xffff) as usize);
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
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index as u16);
        Some(value)
    }

    /// All entries with their names.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            #[cfg(test)]
            looks::add();
            let name = K::of_bits(u32::from(place.generation) << 16 | index as u32);
            Some((name, place.value.as_ref()?))
        })
    }

    /// What is at this place: an entry with its name, or none. Nothing: no place is behind those before.
    pub fn at(&self, index: usize) -> Option<Option<(K, &V)>> {
        let place = self.places.get(index)?;
        let name = K::of_bits(u32::from(place.generation) << 16 | index as u32);
        Some(place.value.as_ref().map(|value| (name, value)))
    }

    /// Entries in it.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
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
}
