//! Values by address prefixes, in a tree whose copies share what they have in common. Example: a million routes, of which
//! each worker has a copy, and ten of which change.
//!
//! A node of the tree decides by six bits of the address. It has the values of prefixes that end within these, and the
//! nodes below; nodes with nothing to decide are left out. Which of the prefixes hold an address, and how many lie
//! before one, are a mask and a count of bits (as in Eatherton, Varghese, Dittia: "Tree Bitmap", 2004). A copy of the tree
//! is one reference. What is changed afterwards is copied first if another copy has it: the nodes on the way, at most 22.

use crate::wire::{Addr, Prefix};
use std::sync::Arc;

/// Bits by which a node decides.
const STRIDE: u32 = 6;

/// Bits before the first of an address, so that hosts end in the last row of a node and fill it.
const LEAD: u32 = 3;

/// Of the addresses of one node, by their six bits: which of its prefixes hold them.
const HOLDERS: [u64; 1 << STRIDE] = holders();

/// Values by prefixes.
#[derive(Clone, Debug)]
pub struct PrefixTree<T> {
    root: Option<Arc<Branch<T>>>,
    values: usize,
}

/// A node: all addresses that begin as `base`, as far as `depth` says.
#[derive(Clone, Debug)]
struct Branch<T> {
    base: u128,
    /// Bits before those that decide here, a multiple of [`STRIDE`] with [`LEAD`].
    depth: u32,
    /// The prefixes that end here: shorter ones first, then by address.
    ends: u64,
    /// Where nodes are below.
    below: u64,
    values: Vec<T>,
    branches: Vec<Arc<Branch<T>>>,
}

/// A place in the tree: of the node, and of the prefix there.
#[derive(Clone, Copy)]
struct Place {
    base: u128,
    depth: u32,
    end: u32,
}

impl Place {
    fn of(prefix: Prefix) -> Place {
        let (base, length) = (u128::from_be_bytes(prefix.addr.0), u32::from(prefix.length) + LEAD);
        let (depth, row) = (length / STRIDE * STRIDE, length % STRIDE);
        Place { base, depth, end: place_in_row(row, index(base, depth)) }
    }
}

impl<T> Default for PrefixTree<T> {
    fn default() -> PrefixTree<T> {
        PrefixTree { root: None, values: 0 }
    }
}

impl<T> PrefixTree<T> {
    /// The value of the longest prefix that holds `to`.
    #[inline]
    pub fn longest(&self, to: Addr) -> Option<&T> {
        let addr = u128::from_be_bytes(to.0);
        let (mut at, mut best) = (self.root.as_deref(), None);
        while let Some(branch) = at.filter(|branch| branch.holds(addr)) {
            let index = index(addr, branch.depth);
            let ends = branch.ends & HOLDERS[index as usize];
            if ends != 0 {
                best = Some((branch, 63 - ends.leading_zeros()));
            }
            at = branch.below(index);
        }
        best.and_then(|(branch, end)| branch.values.get(rank(branch.ends, end)))
    }

    /// The value of a prefix itself.
    pub fn get(&self, prefix: Prefix) -> Option<&T> {
        let place = Place::of(prefix);
        let mut at = self.root.as_deref()?;
        while at.depth < place.depth && at.holds(place.base) {
            at = at.below(index(place.base, at.depth))?;
        }
        let is_it = at.depth == place.depth && at.holds(place.base) && at.ends >> place.end & 1 == 1;
        at.values.get(rank(at.ends, place.end)).filter(|_| is_it)
    }

    /// All values with their prefixes.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, &T)> {
        let (mut waiting, mut ends) = (Vec::from_iter(self.root.as_deref()), None::<(&Branch<T>, u64)>);
        core::iter::from_fn(move || {
            loop {
                if let Some((branch, rest)) = ends.as_mut().filter(|(_, rest)| *rest != 0) {
                    let end = rest.trailing_zeros();
                    *rest &= *rest - 1;
                    return Some((branch.prefix(end), branch.values.get(rank(branch.ends, end))?));
                }
                let branch = waiting.pop()?;
                waiting.extend(branch.branches.iter().rev().map(|below| &**below));
                ends = Some((branch, branch.ends));
            }
        })
    }

    /// Prefixes that have a value.
    pub fn len(&self) -> usize {
        self.values
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }
}

impl<T: Clone> PrefixTree<T> {
    /// Gives a prefix a value; gives the one it had.
    pub fn set(&mut self, prefix: Prefix, value: T) -> Option<T> {
        let place = Place::of(prefix);
        let before = match &mut self.root {
            Some(root) => set(root, &place, value),
            root => {
                *root = Some(Arc::new(Branch::of(&place, value)));
                None
            }
        };
        self.values += usize::from(before.is_none());
        before
    }

    /// Takes a prefix out; gives the value it had.
    pub fn remove(&mut self, prefix: Prefix) -> Option<T> {
        // What has none is not copied.
        self.get(prefix)?;
        let (place, root) = (Place::of(prefix), self.root.as_mut()?);
        let (value, rest) = remove(root, &place)?;
        match rest {
            Rest::Stays => {}
            Rest::Gone => self.root = None,
            Rest::Is(other) => self.root = Some(other),
        }
        self.values -= 1;
        Some(value)
    }

    /// The value of a prefix, to be changed.
    pub fn get_mut(&mut self, prefix: Prefix) -> Option<&mut T> {
        self.get(prefix)?;
        let place = Place::of(prefix);
        let mut at = Arc::make_mut(self.root.as_mut()?);
        while at.depth < place.depth {
            let below = rank(at.below, index(place.base, at.depth));
            at = Arc::make_mut(at.branches.get_mut(below)?);
        }
        at.values.get_mut(rank(at.ends, place.end))
    }
}

impl<T> Branch<T> {
    /// One with a single value.
    fn of(place: &Place, value: T) -> Branch<T> {
        Branch { ends: 1 << place.end, values: vec![value], ..Branch::empty(place.base, place.depth) }
    }

    fn empty(base: u128, depth: u32) -> Branch<T> {
        let base = if depth == 0 { 0 } else { base & u128::MAX << (128 + LEAD - depth) };
        Branch { base, depth, ends: 0, below: 0, values: Vec::new(), branches: Vec::new() }
    }

    /// Whether an address begins as all here.
    #[inline]
    fn holds(&self, addr: u128) -> bool {
        (addr ^ self.base).leading_zeros() + LEAD >= self.depth
    }

    #[inline]
    fn below(&self, index: u32) -> Option<&Branch<T>> {
        if self.below >> index & 1 == 0 {
            return None;
        }
        self.branches.get(rank(self.below, index)).map(|below| &**below)
    }

    fn put_below(&mut self, branch: Arc<Branch<T>>) {
        let index = index(branch.base, self.depth);
        self.branches.reserve_exact(1);
        self.branches.insert(rank(self.below, index), branch);
        self.below |= 1 << index;
    }

    /// The prefix that ends here at this place.
    fn prefix(&self, end: u32) -> Prefix {
        let row = (end + 1).ilog2();
        let bits = u128::from(end + 1 - (1 << row)) << (STRIDE - row);
        let shifted = if self.depth == 0 { bits << (122 + LEAD) } else { bits << 122 >> (self.depth - LEAD) };
        Prefix { addr: Addr((self.base | shifted).to_be_bytes()), length: (self.depth + row - LEAD) as u8 }
    }
}

/// What is left of a node that a value was taken out of.
enum Rest<T> {
    Stays,
    Gone,
    /// It had nothing to decide any more: this is in its place.
    Is(Arc<Branch<T>>),
}

fn set<T: Clone>(at: &mut Arc<Branch<T>>, place: &Place, value: T) -> Option<T> {
    let common = (place.base ^ at.base).leading_zeros() + LEAD;
    if common < at.depth || place.depth < at.depth {
        // One that decides between what is here and the prefix comes before.
        let depth = place.depth.min(common.min(at.depth) / STRIDE * STRIDE);
        let above = if depth == place.depth {
            Branch::of(place, value)
        } else {
            let mut above = Branch::empty(place.base, depth);
            above.put_below(Arc::new(Branch::of(place, value)));
            above
        };
        let was = core::mem::replace(at, Arc::new(above));
        Arc::make_mut(at).put_below(was);
        return None;
    }
    let branch = Arc::make_mut(at);
    if branch.depth == place.depth {
        let rank = rank(branch.ends, place.end);
        if branch.ends >> place.end & 1 == 1 {
            return branch.values.get_mut(rank).map(|was| core::mem::replace(was, value));
        }
        branch.ends |= 1 << place.end;
        // Most nodes have few: room for more would be most of the tree.
        branch.values.reserve_exact(1);
        branch.values.insert(rank, value);
        return None;
    }
    let index = index(place.base, branch.depth);
    let rank = rank(branch.below, index);
    match branch.branches.get_mut(rank).filter(|_| branch.below >> index & 1 == 1) {
        Some(below) => set(below, place, value),
        None => {
            branch.put_below(Arc::new(Branch::of(place, value)));
            None
        }
    }
}

/// Takes out what is there.
fn remove<T: Clone>(at: &mut Arc<Branch<T>>, place: &Place) -> Option<(T, Rest<T>)> {
    let branch = Arc::make_mut(at);
    let value = if branch.depth == place.depth {
        let value = branch.values.remove(rank(branch.ends, place.end));
        branch.ends &= !(1 << place.end);
        value
    } else {
        let index = index(place.base, branch.depth);
        let rank = rank(branch.below, index);
        let (value, rest) = remove(branch.branches.get_mut(rank)?, place)?;
        match rest {
            Rest::Stays => {}
            Rest::Is(other) => branch.branches[rank] = other,
            Rest::Gone => {
                branch.branches.remove(rank);
                branch.below &= !(1 << index);
            }
        }
        value
    };
    let rest = match (branch.ends, branch.branches.len()) {
        (0, 0) => Rest::Gone,
        (0, 1) => branch.branches.pop().map_or(Rest::Gone, Rest::Is),
        _ => Rest::Stays,
    };
    Some((value, rest))
}

/// The six bits of an address behind so many.
#[inline]
fn index(addr: u128, depth: u32) -> u32 {
    let shifted = if depth == 0 { addr >> LEAD } else { addr << (depth - LEAD) };
    (shifted >> (128 - STRIDE)) as u32
}

/// How many bits are set before this one.
#[inline]
fn rank(bits: u64, at: u32) -> usize {
    (bits & !(u64::MAX << at)).count_ones() as usize
}

/// The place of a prefix that ends behind `row` of the six bits: row by row, so that longer ones come later.
const fn place_in_row(row: u32, index: u32) -> u32 {
    (1 << row) - 1 + (index >> (STRIDE - row))
}

const fn holders() -> [u64; 1 << STRIDE] {
    let mut all = [0; 1 << STRIDE];
    let mut index = 0;
    while index < 1 << STRIDE {
        let mut row = 0;
        while row < STRIDE {
            all[index as usize] |= 1 << place_in_row(row, index);
            row += 1;
        }
        index += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Few bits and many lengths, so that prefixes lie in each other.
    fn prefix() -> impl Strategy<Value = Prefix> {
        let dense = (any::<[bool; 4]>(), any::<u8>(), 0..=128u8).prop_map(|(v6, last, length)| {
            let high = v6.iter().fold(0u128, |high, bit| high << 31 | u128::from(*bit));
            Prefix::new(Addr((high << 29 | u128::from(last) << 1).to_be_bytes()), length)
        });
        let v4 = (any::<[u8; 2]>(), 96..=128u8)
            .prop_map(|([a, b], length)| Prefix::new(Addr::v4([10, a & 3, b, a]), length));
        prop_oneof![dense, v4]
    }

    fn agree(tree: &PrefixTree<u32>, model: &BTreeMap<(u8, [u8; 16]), u32>, asked: &[Prefix]) {
        assert_eq!(tree.len(), model.len());
        let all: BTreeMap<_, _> = tree.iter().map(|(of, value)| ((of.length, of.addr.0), *value)).collect();
        assert_eq!((all.len(), &all), (tree.iter().count(), model));
        for prefix in asked {
            assert_eq!(tree.get(*prefix), model.get(&(prefix.length, prefix.addr.0)));
            let mut holding = model.iter().rev();
            let longest =
                holding.find(|((length, addr), _)| Prefix { addr: Addr(*addr), length: *length }.contains(prefix.addr));
            assert_eq!(tree.longest(prefix.addr), longest.map(|(_, value)| value), "{prefix}");
        }
    }

    proptest! {
        #[test]
        fn it_is_as_a_list_that_is_searched_and_copies_stay_what_they_were(
            steps in vec((prefix(), any::<bool>(), any::<u32>()), 1..200),
            more in vec(prefix(), 0..40),
        ) {
            let (mut tree, mut model, mut kept) = (PrefixTree::default(), BTreeMap::new(), Vec::new());
            let asked: Vec<Prefix> = steps.iter().map(|step| step.0).chain(more).collect();
            for (number, (prefix, sets, value)) in steps.into_iter().enumerate() {
                let key = (prefix.length, prefix.addr.0);
                if sets || value % 4 == 0 {
                    prop_assert_eq!(tree.set(prefix, value), model.insert(key, value));
                } else if value % 4 == 1 {
                    let changed = model.get_mut(&key).map(|is| { *is += 1; *is });
                    prop_assert_eq!(tree.get_mut(prefix).map(|is| { *is += 1; *is }), changed);
                } else {
                    prop_assert_eq!(tree.remove(prefix), model.remove(&key));
                }
                if number % 16 == 0 {
                    kept.push((tree.clone(), model.clone()));
                }
            }
            kept.push((tree, model));
            kept.iter().for_each(|(tree, model)| agree(tree, model, &asked));
            // Nothing is left of what is all taken out.
            let (mut tree, model) = kept.pop().unwrap();
            for (length, addr) in model.keys() {
                let prefix = Prefix { addr: Addr(*addr), length: *length };
                prop_assert!(tree.remove(prefix).is_some());
            }
            prop_assert!(tree.is_empty() && tree.root.is_none());
        }
    }
}
