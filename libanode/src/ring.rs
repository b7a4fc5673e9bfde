//! Rings of descriptors between the node and a process: one side puts in, the other takes out, and neither trusts the other.
//!
//! A ring is words of shared memory, each read and written as a whole:
//!
//! ```text
//! word  0  head      entries put in so far; the producer's
//!      16  tail      entries taken out so far; the consumer's
//!      32  sleeping  1 when the consumer waits to be woken
//!      48  entries   8 words each, at their number modulo the capacity
//! ```
//!
//! Each side counts for itself and writes its counter for the other to read. It never reads back what it wrote, and copies an entry
//! before it looks at it, so all the other side can do is to show nonsense: counters that are further apart than the
//! capacity ([`Nonsense`]), or entries that mean nothing. Nobody waits here; who wants to sleep says so ([`Consumer::sleep`]), and
//! who has put something in learns whether to wake ([`Producer::wakes`]).

use core::sync::atomic::Ordering::{self, Acquire, Relaxed, Release, SeqCst};

/// Words of an entry: a cache line.
pub const ENTRY_WORDS: usize = 8;

const HEAD: usize = 0;
const TAIL: usize = 16;
const SLEEPING: usize = 32;
const ENTRIES: usize = 48;

/// What goes through a ring.
pub type Entry = [u64; ENTRY_WORDS];

/// Words of a ring of this capacity.
pub const fn words(capacity: usize) -> usize {
    ENTRIES + capacity * ENTRY_WORDS
}

/// The words of shared memory.
pub trait Cells {
    /// Reads a word.
    fn load(&self, at: usize, order: Ordering) -> u64;
    /// Writes a word.
    fn store(&self, at: usize, value: u64, order: Ordering);
    /// Orders what stands before against what stands behind.
    fn fence(&self, order: Ordering);
}

/// Where a ring lies, and how many entries it holds: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its first word.
    pub base: usize,
    /// Entries.
    pub capacity: usize,
}

impl Place {
    /// The word that is 1 while the consumer sleeps.
    pub fn sleeping(&self) -> usize {
        self.base + SLEEPING
    }

    fn entry(&self, number: u64) -> usize {
        self.base + ENTRIES + (number as usize & (self.capacity - 1)) * ENTRY_WORDS
    }
}

/// The other side's counter cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonsense;

/// The side that puts in.
#[derive(Debug)]
pub struct Producer<C> {
    cells: C,
    place: Place,
    head: u64,
    tail: u64,
}

impl<C: Cells> Producer<C> {
    /// The producer of a fresh ring.
    pub fn new(cells: C, place: Place) -> Producer<C> {
        assert!(place.capacity.is_power_of_two(), "a ring's capacity");
        Producer { cells, place, head: 0, tail: 0 }
    }

    /// Puts an entry in; false if the ring is full.
    #[inline]
    pub fn push(&mut self, entry: &Entry) -> Result<bool, Nonsense> {
        if self.head.wrapping_sub(self.tail) >= self.place.capacity as u64 && !self.has_room()? {
            return Ok(false);
        }
        let at = self.place.entry(self.head);
        for (word, value) in entry.iter().enumerate() {
            self.cells.store(at + word, *value, Relaxed);
        }
        self.head = self.head.wrapping_add(1);
        // Whoever sees the new head sees the entry.
        self.cells.store(self.place.base + HEAD, self.head, Release);
        Ok(true)
    }

    /// Looks again how far the consumer is.
    #[inline]
    pub fn has_room(&mut self) -> Result<bool, Nonsense> {
        let tail = self.cells.load(self.place.base + TAIL, Acquire);
        let used = self.head.wrapping_sub(tail);
        if used > self.place.capacity as u64 {
            return Err(Nonsense);
        }
        self.tail = tail;
        Ok(used < self.place.capacity as u64)
    }

    /// How many entries the consumer has taken so far, as far as is known.
    pub fn taken(&self) -> u64 {
        self.tail
    }

    /// How many entries were put in so far.
    pub fn put(&self) -> u64 {
        self.head
    }

    /// Whether the consumer sleeps and is to be woken, which is then up to the caller. Ask behind the last push.
    #[inline]
    pub fn wakes(&self) -> bool {
        // Either the consumer sees the new head, or we see that it sleeps.
        self.cells.fence(SeqCst);
        let at = self.place.sleeping();
        let sleeps = self.cells.load(at, Relaxed) == 1;
        if sleeps {
            // Should it only be on its way to bed, it stays up: it sleeps while this is 1.
            self.cells.store(at, 0, Relaxed);
        }
        sleeps
    }
}

/// The side that takes out.
#[derive(Debug)]
pub struct Consumer<C> {
    cells: C,
    place: Place,
    tail: u64,
    head: u64,
}

impl<C: Cells> Consumer<C> {
    /// The consumer of a fresh ring.
    pub fn new(cells: C, place: Place) -> Consumer<C> {
        assert!(place.capacity.is_power_of_two(), "a ring's capacity");
        Consumer { cells, place, tail: 0, head: 0 }
    }

    /// Takes the oldest entry, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<Entry>, Nonsense> {
        if self.head == self.tail && !self.has_more()? {
            return Ok(None);
        }
        let at = self.place.entry(self.tail);
        let entry = core::array::from_fn(|word| self.cells.load(at + word, Relaxed));
        self.tail = self.tail.wrapping_add(1);
        // Whoever sees the new tail may write over the entry.
        self.cells.store(self.place.base + TAIL, self.tail, Release);
        Ok(Some(entry))
    }

    /// Looks again how far the producer is.
    #[inline]
    pub fn has_more(&mut self) -> Result<bool, Nonsense> {
        let head = self.cells.load(self.place.base + HEAD, Acquire);
        let waiting = head.wrapping_sub(self.tail);
        if waiting > self.place.capacity as u64 {
            return Err(Nonsense);
        }
        self.head = head;
        Ok(waiting > 0)
    }

    /// Says that we go to sleep; false if something has come, and then we do not.
    pub fn sleep(&mut self) -> Result<bool, Nonsense> {
        self.cells.store(self.place.sleeping(), 1, Relaxed);
        self.cells.fence(SeqCst);
        if self.has_more()? {
            self.awake();
            return Ok(false);
        }
        Ok(true)
    }

    /// Says that we do not sleep.
    pub fn awake(&self) {
        self.cells.store(self.place.sleeping(), 0, Relaxed);
    }
}
