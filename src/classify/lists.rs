//! Lists of shapes, by what a shared mask leaves of a rule. Example: under the mask "UDP to 10.0.0.0/8", and there under 10.0.0.0/8,
//! the shapes 10.1.0.0/16 and 10.1.2.0/24, since there are rules of these.
//!
//! Who has found what a mask leaves of a packet looks by the shapes of its list alone. Both halves do, by tables of their own:
//! [`super::table`] for the kernel half, [`super::shapes`] here.

use super::groups::{Regrouped, ShapeGroups};
use super::shape::Shape;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Groups of shapes, and the lists of their masks; patterns `P` are what rules ask for.
#[derive(Debug)]
pub struct ShapeLists<P> {
    /// What is left of a pattern behind the mask of a coarser shape: of another mask another pattern.
    behind: fn(&P, Shape) -> P,
    groups: ShapeGroups,
    /// How many patterns of which shapes are within each.
    lists: HashMap<P, BTreeMap<Shape, usize>>,
}

/// What a change has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Relisted<P> {
    /// Whether masks are others, or stand for others.
    pub masks: bool,
    /// Patterns whose lists are longer now.
    pub longer: Vec<P>,
    /// Patterns whose lists are shorter now.
    pub shorter: Vec<P>,
}

/// Gives each pattern of a shape.
pub trait OfShape<P> {
    /// Those that are there now.
    fn each(&self, shape: Shape, say: &mut dyn FnMut(&P));
}

impl<P: Copy + Ord + Hash> ShapeLists<P> {
    /// None yet.
    pub fn new(behind: fn(&P, Shape) -> P) -> ShapeLists<P> {
        ShapeLists { behind, groups: ShapeGroups::default(), lists: HashMap::new() }
    }

    /// Masks and shapes.
    pub fn groups(&self) -> &ShapeGroups {
        &self.groups
    }

    /// What is left of a pattern behind a mask.
    pub fn behind(&self, pattern: &P, mask: Shape) -> P {
        (self.behind)(pattern, mask)
    }

    /// The shapes that have patterns within this one, the most specific first.
    pub fn list(&self, within: &P) -> impl Iterator<Item = Shape> {
        self.lists.get(within).into_iter().flat_map(|shapes| shapes.keys().rev().copied())
    }

    /// A pattern has come, and is among all.
    pub fn add(&mut self, shape: Shape, pattern: &P, all: &dyn OfShape<P>) -> Relisted<P> {
        let regrouped = self.groups.add(shape);
        let is_known = regrouped == Regrouped::default();
        let mut relisted = self.regroup(regrouped, all);
        if let Some(mask) = self.groups.mask_of(shape).filter(|_| is_known) {
            let within = (self.behind)(pattern, mask);
            if self.enlist(within, shape) {
                relisted.longer.push(within);
            }
        }
        relisted
    }

    /// A pattern of a shape that has come is among all already, and in lists.
    pub fn count(&mut self, shape: Shape) {
        self.groups.add(shape);
    }

    /// A pattern has gone, and is not among all any more.
    pub fn remove(&mut self, shape: Shape, pattern: &P, all: &dyn OfShape<P>) -> Relisted<P> {
        let within = self.groups.mask_of(shape).map(|mask| (self.behind)(pattern, mask));
        let shorter = within.filter(|within| self.strike(*within, shape));
        let regrouped = self.groups.remove(shape);
        let mut relisted = self.regroup(regrouped, all);
        relisted.shorter.extend(shorter);
        relisted.shorter.sort_unstable();
        relisted.shorter.dedup();
        relisted
    }

    fn regroup(&mut self, Regrouped { masks, listed, unlisted }: Regrouped, all: &dyn OfShape<P>) -> Relisted<P> {
        let (mut longer, mut shorter) = (Vec::new(), Vec::new());
        for (mask, shape) in listed {
            all.each(shape, &mut |pattern| {
                let within = (self.behind)(pattern, mask);
                longer.extend(self.enlist(within, shape).then_some(within));
            });
        }
        for (mask, shape) in unlisted {
            all.each(shape, &mut |pattern| {
                let within = (self.behind)(pattern, mask);
                shorter.extend(self.strike(within, shape).then_some(within));
            });
        }
        longer.sort_unstable();
        longer.dedup();
        Relisted { masks, longer, shorter }
    }

    /// One pattern more of a shape is within another: whether it is the first.
    fn enlist(&mut self, within: P, shape: Shape) -> bool {
        let count = self.lists.entry(within).or_default().entry(shape).or_default();
        *count += 1;
        *count == 1
    }

    /// One pattern less: whether it was the last.
    fn strike(&mut self, within: P, shape: Shape) -> bool {
        let Some(shapes) = self.lists.get_mut(&within) else { return false };
        let Some(count) = shapes.get_mut(&shape) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        shapes.remove(&shape);
        if shapes.is_empty() {
            self.lists.remove(&within);
        }
        true
    }
}
