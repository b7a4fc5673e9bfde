//! Shapes in as many groups as the kernel half has masks. Example: of 200 shapes 12 have a mask of their own, and the others 8
//! together, each mask matching at least what its shapes do.
//!
//! As long as there are masks left each shape has one. A shape too many joins the group, or has two groups become one, for which the
//! fewest bits of the fewest rules are not looked at any more. When a mask is free again, one shape leaves a group. So a change is as
//! much work as the groups that it is about, of which there are three at most.

use super::shape::Shape;
use std::collections::BTreeMap;

/// Masks of the kernel half.
pub const MASKS: usize = crate::contract::SHAPES as usize;

/// Shapes of one mask.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    mask: Shape,
    /// Its shapes, and how many patterns each has.
    shapes: BTreeMap<Shape, usize>,
}

/// All shapes, the most specific mask first.
#[derive(Debug, Default)]
pub struct ShapeGroups(Vec<Group>);

/// What a change of shapes has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Regrouped {
    /// Whether masks are others, or stand for others.
    pub masks: bool,
    /// Shapes whose patterns stand in the lists of a mask from now on: mask, shape.
    pub listed: Vec<(Shape, Shape)>,
    /// Shapes whose patterns do not any more.
    pub unlisted: Vec<(Shape, Shape)>,
}

impl Group {
    fn of(shape: Shape) -> Group {
        Group { mask: shape, shapes: BTreeMap::from([(shape, 0)]) }
    }

    fn is_merged(&self) -> bool {
        self.shapes.len() > 1
    }

    /// Bits of patterns that a coarser mask does not look at.
    fn loss(&self, mask: Shape) -> u64 {
        let patterns: usize = self.shapes.values().sum();
        patterns as u64 * (self.mask.weight() - mask.weight())
    }

    /// What all its shapes have in common.
    fn common(&self) -> Option<Shape> {
        let mut shapes = self.shapes.keys().copied();
        let first = shapes.next()?;
        shapes.try_fold(first, Shape::common)
    }
}

/// A pair of things at these places with the least loss, by which they are one.
type Cheapest = Option<(u64, usize, usize)>;

impl ShapeGroups {
    /// Masks, and whether each stands for several shapes.
    pub fn masks(&self) -> impl ExactSizeIterator<Item = (Shape, bool)> {
        self.0.iter().map(|group| (group.mask, group.is_merged()))
    }

    /// All shapes.
    pub fn shapes(&self) -> impl Iterator<Item = Shape> {
        self.0.iter().flat_map(|group| group.shapes.keys().copied())
    }

    /// The mask in whose lists patterns of a shape stand, if it has none of its own.
    pub fn mask_of(&self, shape: Shape) -> Option<Shape> {
        let group = self.0.iter().find(|group| group.shapes.contains_key(&shape))?;
        group.is_merged().then_some(group.mask)
    }

    /// One more pattern has this shape.
    pub fn add(&mut self, shape: Shape) -> Regrouped {
        if let Some(count) = self.count(shape) {
            *count += 1;
            return Regrouped::default();
        }
        let before = self.lists();
        if self.0.len() >= MASKS {
            self.make_room(shape);
        }
        if self.count(shape).is_none() {
            self.0.push(Group::of(shape));
        }
        self.count(shape).into_iter().for_each(|count| *count += 1);
        self.changed(&before)
    }

    /// One pattern less has this shape.
    pub fn remove(&mut self, shape: Shape) -> Regrouped {
        let Some(count) = self.count(shape) else { return Regrouped::default() };
        *count = count.saturating_sub(1);
        if *count > 0 {
            return Regrouped::default();
        }
        let before = self.lists();
        for group in &mut self.0 {
            if group.shapes.remove(&shape).is_some() && group.shapes.len() == 1 {
                group.mask = group.common().unwrap_or(group.mask);
            }
        }
        self.0.retain(|group| !group.shapes.is_empty());
        self.split();
        self.changed(&before)
    }

    fn count(&mut self, shape: Shape) -> Option<&mut usize> {
        self.0.iter_mut().find_map(|group| group.shapes.get_mut(&shape))
    }

    /// Has a shape join a group, or two groups become one.
    fn make_room(&mut self, shape: Shape) {
        let newcomer = Group { shapes: BTreeMap::from([(shape, 1)]), mask: shape };
        let join = (0..self.0.len()).filter_map(|at| Some((loss(&self.0[at], &newcomer)?, at, at))).min();
        let mut pair: Cheapest = None;
        for one in 0..self.0.len() {
            for other in one + 1..self.0.len() {
                let found = loss(&self.0[one], &self.0[other]).map(|loss| (loss, one, other));
                pair = [pair, found].into_iter().flatten().min();
            }
        }
        match (join, pair) {
            (Some((loss, at, _)), pair) if pair.is_none_or(|(other, ..)| loss <= other) => {
                self.join(at, Group::of(shape));
            }
            (_, Some((_, one, other))) => {
                let group = self.0.remove(other);
                self.join(one, group);
            }
            // Shapes of Ethernet are fewer than masks.
            _ => {}
        }
    }

    /// A group has the shapes of another too. Two that have the same mask then are one.
    fn join(&mut self, at: usize, other: Group) {
        let Some(group) = self.0.get_mut(at) else { return };
        group.mask = group.mask.common(other.mask).unwrap_or(group.mask);
        group.shapes.extend(other.shapes);
        let mask = group.mask;
        // A shape alone keeps its own mask beside one that others share.
        if !group.is_merged() {
            return;
        }
        let same = |(place, group): (usize, &Group)| place != at && group.is_merged() && group.mask == mask;
        if let Some(twin) = self.0.iter().enumerate().position(same) {
            let twin = self.0.remove(twin);
            self.0.iter_mut().filter(|group| group.mask == mask && group.is_merged()).for_each(|group| {
                group.shapes.extend(twin.shapes.iter().map(|(shape, count)| (*shape, *count)));
            });
        }
    }

    /// While masks are free, shapes leave groups: first those that lose most there.
    fn split(&mut self) {
        while self.0.len() < MASKS {
            let lost = |(at, group): (usize, &Group)| {
                let of = move |(shape, count): (&Shape, &usize)| *count as u64 * (shape.weight() - group.mask.weight());
                let most = group.shapes.iter().map(|one| (of(one), *one.0)).max();
                most.filter(|_| group.is_merged()).map(|(loss, shape)| (loss, at, shape))
            };
            let Some((_, at, shape)) = self.0.iter().enumerate().filter_map(lost).max() else { return };
            let count = self.0[at].shapes.remove(&shape).unwrap_or(0);
            let mut rest = self.0.remove(at);
            rest.mask = rest.common().unwrap_or(rest.mask);
            self.0.push(Group { mask: shape, shapes: BTreeMap::from([(shape, count)]) });
            self.0.push(Group { mask: rest.mask, shapes: BTreeMap::new() });
            self.join(self.0.len() - 1, rest);
        }
    }

    /// What stands in lists: mask, shape.
    fn lists(&self) -> Vec<(Shape, Shape)> {
        let merged = self.0.iter().filter(|group| group.is_merged());
        let mut all: Vec<_> = merged.flat_map(|group| group.shapes.keys().map(|shape| (group.mask, *shape))).collect();
        all.sort_unstable();
        all
    }

    fn changed(&mut self, before: &[(Shape, Shape)]) -> Regrouped {
        self.0.sort_by_key(|group| core::cmp::Reverse(group.mask));
        let mut after = self.lists();
        let unlisted = before.iter().filter(|pair| after.binary_search(pair).is_err()).copied().collect();
        after.retain(|pair| before.binary_search(pair).is_err());
        Regrouped { masks: true, listed: after, unlisted }
    }
}

/// What is lost if two groups are one; nothing: they cannot be.
fn loss(one: &Group, other: &Group) -> Option<u64> {
    let mask = one.mask.common(other.mask)?;
    Some(one.loss(mask) + other.loss(mask))
}

#[cfg(test)]
mod tests;
