//! Maps of bits over some hundred rules: for each interval of a column those that hold there (Lakshman and Stiliadis, SIGCOMM 1998).
//! Example: source in the 17th interval, destination port in the third; the rules in both maps hold.
//!
//! The intervals of a column are found by halving; then all maps are put together, 64 rules at once. For sets of this size that is
//! sooner done than a way down a tree, and rules that hold are found together, as the modes `all` and `best` want them. Memory grows with
//! the square of the rules, so larger sets have trees (`trees.rs`).

use super::pattern::Op;
use super::trees::Row;
use super::values::{COLUMNS_MAX, Values};

/// Rules of one set.
pub(super) const ROWS_MAX: usize = 2048;
/// Words of the longest map.
const WORDS: usize = ROWS_MAX / 64;

/// A column: where intervals begin, and the map of each.
#[derive(Debug)]
struct Line {
    column: usize,
    begins: Vec<u32>,
    maps: Vec<u64>,
}

/// The maps of all columns.
#[derive(Debug, Default)]
pub(super) struct Maps {
    lines: Vec<Line>,
    /// Entries and their ranks, in the order of the ranks.
    entries: Vec<u32>,
    words: usize,
    best: u64,
}

impl Maps {
    /// Maps of these rows, at most `ROWS_MAX`, which stand in the order of their ranks.
    pub(super) fn new(rows: &[Row], columns: usize) -> Maps {
        let words = rows.len().div_ceil(64);
        let lines = (0..columns).filter_map(|column| Line::new(column, rows, words)).collect();
        let best = rows.first().map_or(u64::MAX, |(_, rank, _)| *rank);
        Maps { lines, entries: rows.iter().map(|(entry, ..)| *entry).collect(), words, best }
    }

    /// Calls `check` for entries that may hold, in the order of their ranks, until it says that this is enough.
    #[inline]
    pub(super) fn look(&self, values: &Values, best: &mut u64, mut check: impl FnMut(u32, &mut u64) -> bool) {
        if self.entries.is_empty() || self.best >= *best {
            return;
        }
        let mut all = [u64::MAX; WORDS];
        let all = &mut all[..self.words.min(WORDS)];
        for line in &self.lines {
            let map = line.map(values.values[line.column % COLUMNS_MAX], self.words);
            all.iter_mut().zip(map).for_each(|(all, word)| *all &= word);
        }
        for (at, word) in all.iter().enumerate() {
            let mut word = *word;
            while word != 0 {
                let row = at * 64 + word.trailing_zeros() as usize;
                word &= word - 1;
                if self.entries.get(row).is_some_and(|entry| check(*entry, best)) {
                    return;
                }
            }
        }
    }
}

/// What a row wants of a column: all of it but for masks, which are left to the entry.
fn range(row: &Row, column: usize) -> (u32, u32) {
    let ranges = row.2.iter().filter(|(of, _)| usize::from(*of) == column);
    ranges.fold((0, u32::MAX), |(low, high), (_, op)| match op {
        Op::Range(from, to) => (low.max(*from), high.min(*to)),
        Op::Mask(..) => (low, high),
    })
}

impl Line {
    /// Nothing, if no row wants anything of the column.
    fn new(column: usize, rows: &[Row], words: usize) -> Option<Line> {
        let ranges: Vec<_> = rows.iter().map(|row| range(row, column)).collect();
        let edges = |(low, high): &(u32, u32)| [Some(*low), high.checked_add(1)];
        let mut begins: Vec<u32> = ranges.iter().flat_map(edges).flatten().chain([0]).collect();
        begins.sort_unstable();
        begins.dedup();
        if begins.len() == 1 {
            return None;
        }
        let mut maps = vec![0; begins.len() * words];
        for (row, (low, high)) in ranges.iter().enumerate() {
            let first = begins.partition_point(|begin| begin < low);
            let last = begins.partition_point(|begin| begin <= high);
            for interval in first..last {
                maps[interval * words + row / 64] |= 1 << (row % 64);
            }
        }
        Some(Line { column, begins, maps })
    }

    #[inline]
    fn map(&self, value: u32, words: usize) -> &[u64] {
        // The last interval that begins at or before the value, by steps without branches.
        let (mut at, mut left) = (0, self.begins.len());
        while left > 1 {
            let half = left / 2;
            at += if self.begins[at + half] <= value { half } else { 0 };
            left -= half;
        }
        self.maps.get(at * words..).and_then(|rest| rest.get(..words)).unwrap_or_default()
    }
}
