//! The rules as a table of the kernel half has them: patterns, and for each the keys and owners of its rules.
//!
//! Example: UDP to port 5000 of any host with a key of two bytes, and the same without a key, are two keys of one
//! pattern. Patterns with the same mask are of one [`Shape`]. The kernel half looks once for each mask; of more shapes than it has
//! masks several share one ([`super::groups`]), and a list says within which of its patterns there are rules of which of them. A
//! table says what a change of a rule changes of all that, and its user tells the maps (`kernel/told.rs`).

use super::groups::ShapeGroups;
use super::lists::{OfShape, Relisted, ShapeLists};
use super::rule::{DemuxKey, Rule};
use super::shape::Shape;
use std::collections::BTreeMap;
use std::hash::Hash;

/// The rules of one pattern: keys, longer ones before shorter ones, as in the user half's table; each with its owner.
type Keyed<T> = Vec<(DemuxKey, T)>;

/// A pattern, and the shape that it is of.
pub type Shaped<P> = (Shape, P);

/// How rules become patterns `P`, of which the bytes go into a map.
#[derive(Clone, Copy, Debug)]
pub struct Patterns<P> {
    /// That of a rule.
    pub of: fn(&Rule) -> Shaped<P>,
    /// What is left of a pattern behind the mask of a coarser shape.
    pub behind: fn(&P, Shape) -> P,
}

/// Rules by patterns, and their owners.
#[derive(Debug)]
pub struct RuleTable<P, T> {
    of: fn(&Rule) -> Shaped<P>,
    lists: ShapeLists<P>,
    keyed: AllKeyed<P, T>,
}

/// All rules.
#[derive(Debug)]
struct AllKeyed<P, T>(BTreeMap<Shape, BTreeMap<P, Keyed<T>>>);

impl<P: Ord, T> OfShape<P> for AllKeyed<P, T> {
    fn each(&self, shape: Shape, say: &mut dyn FnMut(&P)) {
        self.0.get(&shape).into_iter().flat_map(BTreeMap::keys).for_each(say);
    }
}

/// What a change of a rule has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<P> {
    /// The pattern whose keys are others now: see [`RuleTable::keys`].
    pub pattern: Shaped<P>,
    /// Whether the masks are others too.
    pub masks: bool,
    /// Patterns whose lists are longer now, to be told before the masks are.
    pub lists: Vec<P>,
    /// Patterns whose lists are shorter now, to be told when nobody looks by the masks before any more.
    pub later: Vec<P>,
}

impl<P: Copy + Ord + Hash, T: Copy + Default> RuleTable<P, T> {
    /// No rules yet.
    pub fn new(patterns: Patterns<P>) -> RuleTable<P, T> {
        let Patterns { of, behind } = patterns;
        RuleTable { of, lists: ShapeLists::new(behind), keyed: AllKeyed(BTreeMap::new()) }
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.keyed.0.is_empty()
    }

    /// Masks, the most specific first, and shapes.
    pub fn groups(&self) -> &ShapeGroups {
        self.lists.groups()
    }

    /// The keys of a pattern and their owners; empty if no rule has it.
    pub fn keys(&self, pattern: &Shaped<P>) -> &[(DemuxKey, T)] {
        let keys = self.keyed.0.get(&pattern.0).and_then(|patterns| patterns.get(&pattern.1));
        keys.map_or(&[], Vec::as_slice)
    }

    /// The shapes that have rules within a pattern of a mask that stands for several, the most specific first.
    pub fn list(&self, within: &P) -> impl Iterator<Item = Shape> {
        self.lists.list(within)
    }

    /// A rule is there, with the owner that is everybody's first, or it is not any more. Gives what has to be told, if anything.
    pub fn change(&mut self, rule: &Rule, exists: bool) -> Option<Changed<P>> {
        let pattern = (self.of)(rule);
        let is_new = self.keys(&pattern).is_empty();
        if is_new && !exists {
            return None;
        }
        let keys = self.keyed.0.entry(pattern.0).or_default().entry(pattern.1).or_default();
        keys.retain(|(key, _)| *key != rule.key);
        if exists {
            let at = keys.partition_point(|(key, _)| key.len() >= rule.key.len());
            keys.insert(at, (rule.key.clone(), T::default()));
        }
        let is_gone = keys.is_empty();
        let (shape, own) = &pattern;
        let Relisted { masks, longer, shorter } = if is_new {
            self.lists.add(*shape, own, &self.keyed)
        } else if is_gone {
            self.forget(&pattern);
            self.lists.remove(*shape, own, &self.keyed)
        } else {
            return Some(Changed { pattern, masks: false, lists: Vec::new(), later: Vec::new() });
        };
        Some(Changed { pattern, masks, lists: longer, later: shorter })
    }

    /// A rule that is there has another owner: the pattern that has to be told.
    pub fn give(&mut self, rule: &Rule, owner: T) -> Option<Shaped<P>> {
        let pattern = (self.of)(rule);
        let keys = self.keyed.0.get_mut(&pattern.0)?.get_mut(&pattern.1)?;
        keys.iter_mut().filter(|(key, _)| *key == rule.key).for_each(|(_, whose)| *whose = owner);
        Some(pattern)
    }

    fn forget(&mut self, (shape, pattern): &Shaped<P>) {
        let Some(patterns) = self.keyed.0.get_mut(shape) else { return };
        patterns.remove(pattern);
        if patterns.is_empty() {
            self.keyed.0.remove(shape);
        }
    }
}

#[cfg(test)]
mod tests;
