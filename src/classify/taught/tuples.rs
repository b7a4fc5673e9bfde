//! Tuple space: rules that look at the same bits are in one hash table (Srinivasan et al., SIGCOMM 1999). Example: of all rules over
//! whole destination addresses and ports a packet costs one look-up.
//!
//! Prefixes are cut to a few lengths and ranges to a prefix, so that tables are few; an entry decides for itself. The tables are for sets
//! that are small or change, as [`crate::classify::shapes`] is for the fixed fields of channels.

use super::pattern::Op;
use super::values::{COLUMNS_MAX, NONE, Values};

/// Tables of one group; what would need more is in the one that looks at nothing.
const TABLES_MAX: usize = 64;
/// Buckets of the smallest.
const LEAST: usize = 8;

/// The bits of columns that entries of one table have in common.
type TupleShape = Vec<(u8, u32, u32)>;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    head: u32,
    tail: u32,
}

#[derive(Debug)]
struct Table {
    /// Column and mask.
    shape: Vec<(u8, u32)>,
    /// No entry is before this one.
    best: u64,
    count: usize,
    buckets: Vec<Bucket>,
}

/// All tables.
#[derive(Debug, Default)]
pub(super) struct Tuples {
    tables: Vec<Table>,
    /// Of each entry the next in its bucket, and its hash.
    next: Vec<(u32, u64)>,
}

/// Bits of a column that a test fixes: mask and value.
fn fixed(op: Op, width: u8) -> (u32, u32) {
    match op {
        Op::Mask(mask, value) => (mask, value),
        Op::Range(low, high) => {
            let all = u32::MAX >> (32 - u32::from(width.clamp(1, 32)));
            let common = (low ^ high).leading_zeros() - (32 - u32::from(width));
            // 0, 8, 16, 20, 24, 28 and 32 of an address, every fourth of a port.
            let kept = if common == u32::from(width) {
                common
            } else if width > 16 && common < 16 {
                common / 8 * 8
            } else {
                common / 4 * 4
            };
            let mask = if kept == 0 { 0 } else { all & (u32::MAX << (u32::from(width) - kept)) };
            (mask, low & mask)
        }
    }
}

fn shape(tests: &[(u8, Op)], widths: &[u8]) -> TupleShape {
    let mut shape: TupleShape = Vec::new();
    for (column, op) in tests {
        let (mask, value) = fixed(*op, widths[usize::from(*column)]);
        match shape.iter_mut().find(|(known, ..)| known == column) {
            // Two tests of one column: the bits of both, and one that contradicts is never reached.
            Some((_, known, kept)) => (*kept, *known) = (*kept | value & !*known, *known | mask),
            None if mask != 0 => shape.push((*column, mask, value)),
            None => {}
        }
    }
    shape.sort_unstable();
    shape
}

#[inline]
fn mix(hash: u64, value: u32) -> u64 {
    let wide = u128::from(hash ^ u64::from(value)) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    (wide >> 64) as u64 ^ wide as u64
}

const SEED: u64 = 0xa076_1d64_78bd_642f;

impl Tuples {
    pub(super) fn add(&mut self, at: u32, rank: u64, tests: &[(u8, Op)], widths: &[u8], rank_of: impl Fn(u32) -> u64) {
        let shape = shape(tests, widths);
        let (table, hash) = self.table(&shape);
        let (table, next) = (&mut self.tables[table], &mut self.next);
        if next.len() <= at as usize {
            next.resize(at as usize + 1, (NONE, 0));
        }
        next[at as usize] = (NONE, hash);
        if (table.count + 1) * 2 > table.buckets.len() {
            table.grow(next);
        }
        table.count += 1;
        table.best = table.best.min(rank);
        let mask = table.buckets.len() - 1;
        let bucket = &mut table.buckets[hash as usize & mask];
        // Most rules are later than all others.
        if bucket.head == NONE || rank_of(bucket.tail) < rank {
            match bucket.head {
                NONE => bucket.head = at,
                _ => next[bucket.tail as usize].0 = at,
            }
            bucket.tail = at;
        } else {
            let mut before = NONE;
            let mut here = bucket.head;
            while here != NONE && rank_of(here) < rank {
                (before, here) = (here, next[here as usize].0);
            }
            next[at as usize].0 = here;
            match before {
                NONE => bucket.head = at,
                _ => next[before as usize].0 = at,
            }
        }
        self.order();
    }

    /// How many look-ups a packet costs.
    pub(super) fn tables(&self) -> usize {
        self.tables.len()
    }

    /// Takes an entry out: whether it was here.
    pub(super) fn remove(&mut self, at: u32, tests: &[(u8, Op)], widths: &[u8]) -> bool {
        let shape = shape(tests, widths);
        let is = |table: &Table, shape: &TupleShape| {
            table.shape.len() == shape.len()
                && table.shape.iter().zip(shape).all(|(one, other)| (one.0, one.1) == (other.0, other.1))
        };
        // It may be in the table that looks at nothing.
        let tables: Vec<_> = (0..self.tables.len())
            .filter(|table| is(&self.tables[*table], &shape) || self.tables[*table].shape.is_empty())
            .collect();
        for table in tables {
            if self.tables[table].take_out(at, &mut self.next) {
                if self.tables[table].count == 0 {
                    self.tables.remove(table);
                }
                return true;
            }
        }
        false
    }

    /// The table of a shape, which is made if there is room, and the hash of its values.
    fn table(&mut self, shape: &TupleShape) -> (usize, u64) {
        let same = |table: &Table, shape: &[(u8, u32, u32)]| {
            table.shape.len() == shape.len()
                && table.shape.iter().zip(shape).all(|(one, other)| (one.0, one.1) == (other.0, other.1))
        };
        let known = self.tables.iter().position(|table| same(table, shape));
        let shape: &[(u8, u32, u32)] = if known.is_none() && self.tables.len() >= TABLES_MAX { &[] } else { shape };
        let known = self.tables.iter().position(|table| same(table, shape));
        let hash = shape.iter().fold(SEED, |hash, (.., value)| mix(hash, *value));
        let at = known.unwrap_or_else(|| {
            let shape = shape.iter().map(|(column, mask, _)| (*column, *mask)).collect();
            let buckets = vec![Bucket { head: NONE, tail: NONE }; LEAST];
            self.tables.push(Table { shape, best: u64::MAX, count: 0, buckets });
            self.tables.len() - 1
        });
        (at, hash)
    }

    /// Tables with early rules are looked at first.
    fn order(&mut self) {
        if !self.tables.is_sorted_by_key(|table| table.best) {
            self.tables.sort_by_key(|table| table.best);
        }
    }

    /// Calls `check` for entries that may hold, in the order of their ranks within a bucket, until it says that this is enough of it.
    #[inline]
    pub(super) fn look(&self, values: &Values, best: &mut u64, mut check: impl FnMut(u32, &mut u64) -> bool) {
        for table in &self.tables {
            if table.best >= *best {
                break;
            }
            let value = |column: u8| values.values[usize::from(column) % COLUMNS_MAX];
            let hash = table.shape.iter().fold(SEED, |hash, (column, mask)| mix(hash, value(*column) & mask));
            let mut at = table.buckets[hash as usize & (table.buckets.len() - 1)].head;
            while at != NONE && !check(at, best) {
                at = self.next[at as usize].0;
            }
        }
    }
}

impl Table {
    fn grow(&mut self, next: &mut [(u32, u64)]) {
        let count = self.buckets.len() * 2;
        let before = core::mem::replace(&mut self.buckets, vec![Bucket { head: NONE, tail: NONE }; count]);
        // A bucket becomes two, in each of which the order stays.
        for bucket in before {
            let mut at = bucket.head;
            while at != NONE {
                let (behind, hash) = next[at as usize];
                next[at as usize].0 = NONE;
                let bucket = &mut self.buckets[hash as usize & (count - 1)];
                match bucket.head {
                    NONE => bucket.head = at,
                    _ => next[bucket.tail as usize].0 = at,
                }
                bucket.tail = at;
                at = behind;
            }
        }
    }

    fn take_out(&mut self, at: u32, next: &mut [(u32, u64)]) -> bool {
        let Some((behind, hash)) = next.get(at as usize).copied() else { return false };
        let place = hash as usize & (self.buckets.len() - 1);
        let bucket = &mut self.buckets[place];
        let (mut before, mut here) = (NONE, bucket.head);
        while here != NONE && here != at {
            (before, here) = (here, next[here as usize].0);
        }
        if here == NONE {
            return false;
        }
        match before {
            NONE => bucket.head = behind,
            _ => next[before as usize].0 = behind,
        }
        if bucket.tail == at {
            bucket.tail = before;
        }
        self.count -= 1;
        true
    }
}
