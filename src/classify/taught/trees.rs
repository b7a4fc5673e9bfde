//! Trees of splits over many rules. Example: the destination port at most 1023, then the source below 10.3.0.0; six rules are left.
//!
//! Rules that are narrow in the same of the two most telling columns are in one tree, as in CutSplit (Li et al., INFOCOM 2018), so that
//! wide rules are not in every leaf. Each split is that of HyperSplit (Qi et al., INFOCOM 2009): the one that leaves the fewest rules on
//! both sides. Nodes of a split stand beside each other, so that a step is no branch. Copies of rules in leaves are bounded.

use super::pattern::Op;
use super::values::{COLUMNS_MAX, Values};
use crate::sys::cache;

/// Rules of a leaf that is not split.
const LEAF: usize = 6;
/// Steps from the root.
const DEPTH: u32 = 40;
/// Copies of a rule, on the average.
const COPIES: usize = 12;
/// Rules that are looked at to choose a split.
const SAMPLE: usize = 384;
/// Trees of a group, at most.
const TREES: usize = 4;
/// No column: a leaf.
const IS_LEAF: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct TreeNode {
    column: u32,
    /// The last value of the first side; of a leaf, how many entries.
    edge: u32,
    /// The first side's node, before the second's; of a leaf, its first entry.
    at: u32,
}

#[derive(Debug)]
struct Tree {
    /// No entry is before this one.
    best: u64,
    nodes: Vec<TreeNode>,
    leaves: Vec<u32>,
}

/// All trees of a group.
#[derive(Debug, Default)]
pub(super) struct Trees {
    trees: Vec<Tree>,
}

/// Entry, rank and tests.
pub(super) type Row = (u32, u64, Vec<(u8, Op)>);

/// The ranges of all rules in all columns.
struct Bounds {
    columns: usize,
    ranges: Vec<(u32, u32)>,
}

impl Bounds {
    fn new(rows: &[Row], widths: &[u8]) -> Bounds {
        let mut ranges = Vec::with_capacity(rows.len() * widths.len());
        for (.., tests) in rows {
            let from = ranges.len();
            ranges.extend(widths.iter().map(|width| (0, most(*width))));
            for (column, op) in tests {
                // Masked tests are left to the entry.
                let Op::Range(low, high) = op else { continue };
                let range = &mut ranges[from + usize::from(*column)];
                *range = (range.0.max(*low), range.1.min(*high));
            }
        }
        Bounds { columns: widths.len(), ranges }
    }

    fn of(&self, row: u32, column: usize) -> (u32, u32) {
        self.ranges[row as usize * self.columns + column]
    }
}

fn most(width: u8) -> u32 {
    u32::MAX >> (32 - u32::from(width.clamp(1, 32)))
}

impl Trees {
    /// Trees of these rows, which stand in the order of their ranks.
    pub(super) fn new(rows: &[Row], widths: &[u8]) -> Trees {
        let bounds = Bounds::new(rows, widths);
        let telling = telling(rows.len() as u32, &bounds, widths);
        let mut kinds: [Vec<u32>; TREES] = Default::default();
        for row in 0..rows.len() as u32 {
            let narrow = |column: Option<&usize>| {
                column.is_some_and(|column| {
                    let (low, high) = bounds.of(row, *column);
                    high.wrapping_sub(low) < 1 << (widths[*column] / 2)
                })
            };
            kinds[usize::from(narrow(telling.first())) * 2 + usize::from(narrow(telling.get(1)))].push(row);
        }
        let build = |rows_of: Vec<u32>| {
            let best = rows_of.first().map_or(u64::MAX, |row| rows[*row as usize].1);
            let budget = rows_of.len() * COPIES;
            let mut builder =
                Builder { bounds: &bounds, rows, tree: Tree { best, nodes: vec![], leaves: vec![] }, budget };
            builder.tree.nodes.push(TreeNode { column: IS_LEAF, edge: 0, at: 0 });
            let whole = widths.iter().map(|width| (0, most(*width))).collect();
            builder.grow(rows_of, whole);
            let Tree { best, nodes, leaves } = builder.tree;
            Tree { best, nodes: roomy(nodes), leaves: roomy(leaves) }
        };
        let mut trees: Vec<_> = kinds.into_iter().filter(|rows| !rows.is_empty()).map(build).collect();
        trees.sort_by_key(|tree| tree.best);
        Trees { trees }
    }

    /// Calls `check` for entries that may hold, in the order of their ranks within a tree, until it says that this is enough of it; before
    /// that `foresee` for some of them.
    #[inline]
    pub(super) fn look(
        &self,
        values: &Values,
        best: &mut u64,
        foresee: impl Fn(u32),
        mut check: impl FnMut(u32, &mut u64) -> bool,
    ) {
        let mut leaves: [&[u32]; TREES] = Default::default();
        self.descend(values, *best, &mut leaves);
        // Their lines are waited for together.
        leaves.iter().flat_map(|leaf| leaf.iter().take(LEAF)).for_each(|entry| foresee(*entry));
        for (tree, leaf) in self.trees.iter().zip(leaves) {
            if tree.best >= *best {
                break;
            }
            for entry in leaf {
                if check(*entry, best) {
                    break;
                }
            }
        }
    }
}

impl Trees {
    /// The leaf of each tree that may have something before `best`. All take each step together, so their nodes are waited for together.
    #[inline]
    fn descend<'a>(&'a self, values: &Values, best: u64, leaves: &mut [&'a [u32]; TREES]) {
        let mut at = [TreeNode { column: IS_LEAF, edge: 0, at: 0 }; TREES];
        for (node, tree) in at.iter_mut().zip(&self.trees).filter(|(_, tree)| tree.best < best) {
            *node = tree.nodes[0];
        }
        let mut moves = true;
        while moves {
            moves = false;
            for (node, tree) in at.iter_mut().zip(&self.trees) {
                if node.column != IS_LEAF {
                    let value = values.values[node.column as usize % COLUMNS_MAX];
                    *node = tree.nodes[node.at as usize + usize::from(value > node.edge)];
                    moves = true;
                }
            }
        }
        for ((node, tree), leaf) in at.iter().zip(&self.trees).zip(leaves) {
            let own = tree.leaves.get(node.at as usize..).and_then(|rest| rest.get(..node.edge as usize));
            *leaf = own.unwrap_or_default();
        }
    }
}

/// The same list, where large ones are looked at with less effort.
fn roomy<T>(list: Vec<T>) -> Vec<T> {
    let mut roomy = Vec::new();
    cache::make_room(&mut roomy, list.len());
    roomy.extend(list);
    roomy
}

/// The two columns with most different ranges.
fn telling(rows: u32, bounds: &Bounds, widths: &[u8]) -> Vec<usize> {
    let step = rows.div_ceil(4096).max(1) as usize;
    let different = |column: usize| {
        let mut ranges: Vec<_> = (0..rows).step_by(step).map(|row| bounds.of(row, column)).collect();
        ranges.sort_unstable();
        ranges.dedup();
        ranges.len()
    };
    let mut columns: Vec<_> = (0..widths.len()).map(|column| (core::cmp::Reverse(different(column)), column)).collect();
    columns.sort_unstable();
    columns.into_iter().filter(|(count, _)| count.0 > 1).take(2).map(|(_, column)| column).collect()
}

struct Builder<'a> {
    bounds: &'a Bounds,
    rows: &'a [Row],
    tree: Tree,
    /// Copies that may still be made.
    budget: usize,
}

/// The values of all columns that lead to a node.
type Region = Vec<(u32, u32)>;

impl Builder<'_> {
    /// Splits the root and what comes of it.
    fn grow(&mut self, rows: Vec<u32>, whole: Region) {
        let mut waiting = vec![(0, rows, whole, 0)];
        while let Some((at, rows, region, depth)) = waiting.pop() {
            let split = (rows.len() > LEAF && depth < DEPTH).then(|| self.split(&rows, &region)).flatten();
            let Some((column, edge)) = split else {
                self.leaf(at, &rows);
                continue;
            };
            let side = |keep: &dyn Fn((u32, u32)) -> bool| {
                rows.iter().copied().filter(|row| keep(self.bounds.of(*row, column))).collect::<Vec<_>>()
            };
            let (first, second) = (side(&|(low, _)| low <= edge), side(&|(_, high)| high > edge));
            let copies = (first.len() + second.len()).saturating_sub(rows.len());
            if copies > self.budget {
                self.leaf(at, &rows);
                continue;
            }
            self.budget -= copies;
            let child = self.tree.nodes.len();
            self.tree.nodes.extend([TreeNode { column: IS_LEAF, edge: 0, at: 0 }; 2]);
            self.tree.nodes[at] = TreeNode { column: column as u32, edge, at: child as u32 };
            let (mut left, mut right) = (region.clone(), region);
            left[column].1 = edge;
            right[column].0 = edge + 1;
            waiting.push((child + 1, second, right, depth + 1));
            waiting.push((child, first, left, depth + 1));
        }
    }

    fn leaf(&mut self, at: usize, rows: &[u32]) {
        let from = self.tree.leaves.len() as u32;
        self.tree.nodes[at] = TreeNode { column: IS_LEAF, edge: rows.len() as u32, at: from };
        self.tree.leaves.extend(rows.iter().map(|row| self.rows[*row as usize].0));
    }

    /// Column and edge that leave the fewest rows on both sides.
    fn split(&self, rows: &[u32], region: &Region) -> Option<(usize, u32)> {
        let step = rows.len().div_ceil(SAMPLE).max(1);
        let sample: Vec<u32> = rows.iter().copied().step_by(step).collect();
        let mut best = (usize::MAX, 0, 0);
        for (column, (low, high)) in region.iter().copied().enumerate() {
            if low == high {
                continue;
            }
            let ends = |row: &u32| {
                let (from, to) = self.bounds.of(*row, column);
                // The last value of a side, before a rule and at its end.
                [from.checked_sub(1).unwrap_or(high).min(high), to.min(high)]
            };
            let mut edges: Vec<u32> = sample.iter().flat_map(ends).filter(|edge| (low..high).contains(edge)).collect();
            edges.sort_unstable();
            edges.dedup();
            let count = edges.len();
            for at in [1, 2, 3, 4, 5].map(|part| part * count / 6) {
                let Some(edge) = edges.get(at).copied() else { continue };
                let (mut left, mut right) = (0, 0);
                for row in &sample {
                    let (from, to) = self.bounds.of(*row, column);
                    left += usize::from(from <= edge);
                    right += usize::from(to > edge);
                }
                let worst = left.max(right);
                let cost = worst * 2 + left + right;
                if worst < sample.len() && cost < best.0 {
                    best = (cost, column, edge);
                }
            }
        }
        (best.0 != usize::MAX).then_some((best.1, best.2))
    }
}
