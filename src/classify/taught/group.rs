//! The rules of one way: what each asks of the way's headers. Example: of ethernet, ip, udp a thousand rules over addresses and ports.
//!
//! What rules look at are columns, numbers of at most 32 bits. An entry is one case of a rule, a cache line. Entries are in tuple space
//! first (`tuples.rs`); when they are many, [`Group::settle`] puts them into maps or trees (`maps.rs`, `trees.rs`), and
//! later ones lie over these.

use super::maps::{Maps, ROWS_MAX};
use super::pattern::{Op, Spot};
use super::trees::Trees;
use super::tuples::Tuples;
use super::values::{COLUMNS_MAX, NONE, Values};
use super::ways::{Reading, Ways};
use crate::sys::cache;

/// Tests within an entry.
const INLINE: usize = 5;
/// Whose rule was removed.
pub(super) const DEAD: u64 = u64::MAX;
/// Rules that stay in tuple space however few the others are.
const FEW: usize = 64;
/// Tables that are looked at rather than a tree.
const TABLES: usize = 4;

/// A pattern that must not hold.
#[derive(Clone, Debug)]
pub(super) struct Fail {
    pub(super) way: u32,
    pub(super) ends: bool,
    pub(super) tests: Vec<(Spot, Op)>,
}

/// What an entry asks besides.
#[derive(Clone, Debug, Default)]
struct Extra {
    tests: Vec<(u8, Op)>,
    fails: Vec<Fail>,
}

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Entry {
    /// Order and number of its rule: the smaller, the earlier.
    rank: u64,
    extra: u32,
    count: u8,
    columns: [u8; INLINE],
    low: [u32; INLINE],
    high: [u32; INLINE],
}

/// The rules.
#[derive(Debug, Default)]
pub(super) struct Group {
    columns: Vec<Spot>,
    entries: Vec<Entry>,
    costs: Vec<u32>,
    extras: Vec<Extra>,
    free: Vec<u32>,
    tuples: Tuples,
    maps: Maps,
    trees: Trees,
    /// Entries in maps or trees, those of them that are dead, and those over them.
    settled: usize,
    dead: usize,
    over: usize,
}

/// A packet as groups see it.
pub(super) struct Look<'a> {
    pub(super) ways: &'a Ways,
    pub(super) reading: &'a Reading,
    pub(super) bytes: &'a [u8],
}

/// What is added.
pub(super) struct New<'a> {
    pub(super) rank: u64,
    pub(super) cost: u32,
    pub(super) tests: &'a [(Spot, Op)],
    pub(super) fails: Vec<Fail>,
}

impl Group {
    pub(super) fn is_empty(&self) -> bool {
        self.settled == self.dead && self.over == 0
    }

    /// How many entries are in trees, and how many over them.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.settled - self.dead, self.over)
    }

    /// Whether there is room for what these tests look at.
    pub(super) fn has_room(&self, tests: &[(Spot, Op)]) -> bool {
        let mut new: Vec<_> = tests.iter().map(|(spot, _)| spot).filter(|spot| !self.columns.contains(spot)).collect();
        new.sort_unstable();
        new.dedup();
        self.columns.len() + new.len() <= COLUMNS_MAX
    }

    fn column(&mut self, spot: &Spot) -> u8 {
        let at = self.columns.iter().position(|known| known == spot).unwrap_or_else(|| {
            self.columns.push(*spot);
            self.columns.len() - 1
        });
        at as u8
    }

    /// Adds an entry; `has_room` was asked.
    pub(super) fn add(&mut self, new: New<'_>) -> u32 {
        let New { rank, cost, tests, fails } = new;
        let mut entry =
            Entry { rank, extra: NONE, count: 0, columns: [0; INLINE], low: [0; INLINE], high: [0; INLINE] };
        let mut extra = Extra { tests: Vec::new(), fails };
        for (spot, op) in tests {
            let column = self.column(spot);
            match op {
                Op::Range(low, high) if usize::from(entry.count) < INLINE => {
                    let at = usize::from(entry.count);
                    (entry.columns[at], entry.low[at], entry.high[at]) = (column, *low, *high);
                    entry.count += 1;
                }
                op => extra.tests.push((column, *op)),
            }
        }
        let at = self.free.pop().unwrap_or(self.entries.len() as u32);
        if !extra.tests.is_empty() || !extra.fails.is_empty() {
            entry.extra = at;
        }
        let place = at as usize;
        if place == self.entries.len() {
            cache::make_room(&mut self.entries, place + 1);
            self.entries.push(entry);
            self.costs.push(cost);
            self.extras.push(extra);
        } else {
            (self.entries[place], self.costs[place], self.extras[place]) = (entry, cost, extra);
        }
        let tests = self.tests(at);
        let widths: Vec<_> = self.columns.iter().map(|spot| spot.bits.count).collect();
        let entries = &self.entries;
        self.tuples.add(at, rank, &tests, &widths, |at| entries[at as usize].rank);
        self.over += 1;
        at
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, at: u32) {
        let tests = self.tests(at);
        let widths: Vec<_> = self.columns.iter().map(|spot| spot.bits.count).collect();
        if self.tuples.remove(at, &tests, &widths) {
            self.over -= 1;
            self.free.push(at);
        } else {
            self.dead += 1;
        }
        self.entries[at as usize].rank = DEAD;
        self.extras[at as usize] = Extra::default();
    }

    /// All tests of an entry.
    fn tests(&self, at: u32) -> Vec<(u8, Op)> {
        let entry = &self.entries[at as usize];
        let inline =
            (0..usize::from(entry.count)).map(|at| (entry.columns[at], Op::Range(entry.low[at], entry.high[at])));
        inline.chain(self.extras[at as usize].tests.iter().copied()).collect()
    }

    /// Makes maps or trees of everything, if many entries lie over them or are dead.
    pub(super) fn settle(&mut self) {
        let many = self.over > FEW.max(self.settled / 8) || self.tuples.tables() > TABLES && self.settled < 16 * FEW;
        let is_due = many || self.dead > self.settled / 2;
        if !is_due {
            return;
        }
        let live: Vec<u32> =
            (0..self.entries.len() as u32).filter(|at| self.entries[*at as usize].rank != DEAD).collect();
        self.free = (0..self.entries.len() as u32).filter(|at| self.entries[*at as usize].rank == DEAD).collect();
        let mut sorted = live;
        sorted.sort_unstable_by_key(|at| self.entries[*at as usize].rank);
        let widths: Vec<_> = self.columns.iter().map(|spot| spot.bits.count).collect();
        let all: Vec<_> = sorted.iter().map(|at| (*at, self.entries[*at as usize].rank, self.tests(*at))).collect();
        self.tuples = Tuples::default();
        (self.maps, self.trees) = (Maps::default(), Trees::default());
        (self.settled, self.dead, self.over) = (0, 0, 0);
        if all.len() > FEW || many {
            self.settled = all.len();
            match all.len() > ROWS_MAX {
                true => self.trees = Trees::new(&all, &widths),
                false => self.maps = Maps::new(&all, widths.len()),
            }
        } else {
            self.over = all.len();
            let entries = &self.entries;
            for (at, rank, tests) in all {
                self.tuples.add(at, rank, &tests, &widths, |at| entries[at as usize].rank);
            }
        }
    }

    #[inline]
    fn values(&self, look: &Look<'_>) -> Values {
        let mut values = Values { values: [0; COLUMNS_MAX], absent: 0 };
        for (at, (to, spot)) in values.values.iter_mut().zip(&self.columns).enumerate() {
            match look.reading.value(spot, look.bytes) {
                Some(value) => *to = value,
                None => values.absent |= 1 << at,
            }
        }
        values
    }

    /// The earliest rule that holds, if it is before `best`.
    pub(super) fn first(&self, look: &Look<'_>, best: &mut u64) {
        let values = self.values(look);
        let check = |at: u32, best: &mut u64, of_map: bool| {
            let entry = &self.entries[at as usize];
            if entry.rank >= *best {
                // A dead one has no rank: those behind it may have.
                return entry.rank != DEAD;
            }
            let holds = self.holds(at, entry, &values, look, of_map);
            if holds {
                *best = entry.rank;
            }
            holds
        };
        let foresee = |at: u32| cache::prefetch_at(&self.entries, at as usize);
        self.maps.look(&values, best, |at, best| check(at, best, true));
        self.trees.look(&values, best, foresee, |at, best| check(at, best, false));
        self.tuples.look(&values, best, |at, best| check(at, best, false));
    }

    /// All rules that hold, with what they are worth.
    pub(super) fn all(&self, look: &Look<'_>, found: &mut Vec<(u32, u64)>) {
        let values = self.values(look);
        let mut check = |at: u32, of_map: bool| {
            let entry = &self.entries[at as usize];
            if entry.rank != DEAD && self.holds(at, entry, &values, look, of_map) {
                found.push((self.costs[at as usize], entry.rank));
            }
            false
        };
        let mut never = DEAD;
        let foresee = |at: u32| cache::prefetch_at(&self.entries, at as usize);
        self.maps.look(&values, &mut never, |at, _| check(at, true));
        self.trees.look(&values, &mut never, foresee, |at, _| check(at, false));
        self.tuples.look(&values, &mut never, |at, _| check(at, false));
    }

    /// Whether one entry holds of a packet on its way.
    pub(super) fn is_one(&self, at: u32, look: &Look<'_>) -> bool {
        let entry = &self.entries[at as usize];
        entry.rank != DEAD && self.holds(at, entry, &self.values(look), look, false)
    }

    /// Whether an entry holds; those that maps have found do, if all that they ask for are ranges of what the packet has.
    #[inline]
    fn holds(&self, at: u32, entry: &Entry, values: &Values, look: &Look<'_>, of_map: bool) -> bool {
        if of_map && entry.extra == NONE && values.absent == 0 {
            return true;
        }
        for test in 0..usize::from(entry.count).min(INLINE) {
            let column = usize::from(entry.columns[test]) % COLUMNS_MAX;
            let value = values.values[column];
            if value < entry.low[test] || value > entry.high[test] || values.absent >> column & 1 == 1 {
                return false;
            }
        }
        entry.extra == NONE || self.holds_too(at, values, look)
    }

    /// What does not fit into an entry.
    fn holds_too(&self, at: u32, values: &Values, look: &Look<'_>) -> bool {
        let extra = &self.extras[at as usize];
        let test = |(column, op): &(u8, Op)| {
            let column = usize::from(*column) % COLUMNS_MAX;
            values.absent >> column & 1 == 0 && op.holds(values.values[column])
        };
        let fails = |fail: &Fail| {
            let has =
                |(spot, op): &(Spot, Op)| look.reading.value(spot, look.bytes).is_some_and(|value| op.holds(value));
            !(look.ways.is_on(look.reading, fail.way, fail.ends) && fail.tests.iter().all(has))
        };
        extra.tests.iter().all(test) && extra.fails.iter().all(fails)
    }
}
