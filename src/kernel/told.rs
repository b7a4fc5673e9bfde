//! Rules as maps of the kernel have them (`bpf/filters.h`): masks, patterns with their keys, and lists of shapes.
//!
//! Packets pass while a rule comes or goes, and none must be missed. What is new is told first: keys, lists, then the masks, in a set
//! beside the one that holds; one word says which does. What is old goes when no program can look for it any more.

use super::patterns::{Pattern, behind, mask_of, value};
use crate::classify::groups::MASKS;
use crate::classify::rule::Rule;
use crate::classify::table::{Changed, Patterns, RuleTable, Shaped};
use crate::contract::{self, LISTED, SHAPE_SETS, listed, pattern, shapes};
use crate::sys::bpf::{Map, MapKind, MapShape};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// Patterns of a table: as many as a node has channels of a kind, and rules over taught protocols have cases.
pub(super) const PATTERNS: u32 = 131_072 + 4096;

/// The map of sets of masks.
pub(super) const SHAPES: MapShape =
    MapShape { kind: MapKind::Array, key: 4, value: shapes::SIZE, entries: SHAPE_SETS + 1 };

/// The map of lists.
pub(super) const LISTS: MapShape =
    MapShape { kind: MapKind::Hash, key: pattern::SIZE, value: listed::SIZE, entries: PATTERNS };

/// For how long programs may still look by the masks before: a packet takes microseconds.
const GRACE: Duration = Duration::from_millis(50);

/// Lists that may wait so long.
const LATER_MAX: usize = 16_384;

/// The maps.
pub(super) struct RuleMaps<'a> {
    pub shapes: &'a Map,
    pub keys: &'a Map,
    pub lists: &'a Map,
}

/// How many shapes there are, and how many masks they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldShapes {
    /// Shapes of rules.
    pub shapes: usize,
    /// Masks that the kernel looks by.
    pub masks: usize,
}

impl HeldShapes {
    /// Whether a mask stands for several shapes.
    pub fn is_merged(&self) -> bool {
        self.shapes > self.masks
    }
}

/// The rules, and what the maps do not say yet.
#[derive(Debug)]
pub(super) struct ToldRules {
    pub(super) table: RuleTable<Pattern, u32>,
    /// The set of masks that holds.
    now: u32,
    /// Lists that are shorter now, and since when.
    later: VecDeque<(Instant, Pattern)>,
}

impl ToldRules {
    /// None yet; `of` makes patterns of them.
    pub fn new(of: fn(&Rule) -> Shaped<Pattern>) -> ToldRules {
        let table = RuleTable::new(Patterns { of, behind });
        ToldRules { table, now: 0, later: VecDeque::new() }
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// How many shapes and masks there are.
    pub fn held(&self) -> HeldShapes {
        let groups = self.table.groups();
        HeldShapes { shapes: groups.shapes().count(), masks: groups.masks().len() }
    }

    /// A rule is there or is not any more, in the table: what has to be told.
    pub fn change(&mut self, rule: &Rule, exists: bool) -> Option<Changed<Pattern>> {
        self.table.change(rule, exists)
    }

    /// A rule has another owner, in the table: what has to be told.
    pub fn give(&mut self, rule: &Rule, owner: u32) -> Option<Shaped<Pattern>> {
        self.table.give(rule, owner)
    }

    /// Whether a packet with these fields may be an owner's for whom this holds.
    pub fn may_be(&self, fields: impl Fn(u32) -> Option<Pattern>, whose: impl Fn(u32) -> bool) -> bool {
        self.table.groups().shapes().any(|shape| {
            let within = fields(shape.kernel_layer()).map(|fields| (shape, behind(&fields, shape)));
            within.is_some_and(|within| self.table.keys(&within).iter().any(|(_, owner)| whose(*owner)))
        })
    }

    /// Tells the keys of a pattern.
    pub fn tell_keys(&self, maps: &RuleMaps<'_>, pattern: &Shaped<Pattern>) -> io::Result<()> {
        match self.table.keys(pattern) {
            [] => maps.keys.remove(&pattern.1),
            keys => maps.keys.set(&pattern.1, &value(keys)),
        }
    }

    /// Tells what a change of a rule has changed; `listens`: whether frames are taken at all.
    pub fn tell(&mut self, maps: &RuleMaps<'_>, changed: &Changed<Pattern>, listens: bool) -> io::Result<()> {
        let is_gone = self.table.keys(&changed.pattern).is_empty();
        self.tell_later(maps)?;
        if !is_gone {
            self.tell_keys(maps, &changed.pattern)?;
        }
        changed.lists.iter().try_for_each(|within| self.tell_list(maps, within))?;
        if changed.masks {
            self.tell_masks(maps, listens)?;
        }
        let now = Instant::now();
        self.later.extend(changed.later.iter().map(|within| (now, *within)));
        if is_gone { self.tell_keys(maps, &changed.pattern) } else { Ok(()) }
    }

    /// Tells lists that are shorter, once nobody needs what they said before.
    fn tell_later(&mut self, maps: &RuleMaps<'_>) -> io::Result<()> {
        let is_over = |(since, _): &mut (Instant, Pattern)| since.elapsed() > GRACE;
        while let Some((_, within)) = self.later.pop_front_if(is_over) {
            self.tell_list(maps, &within)?;
        }
        while self.later.len() > LATER_MAX {
            let oldest = self.later.pop_front();
            oldest.into_iter().try_for_each(|(_, within)| self.tell_list(maps, &within))?;
        }
        Ok(())
    }

    fn tell_list(&self, maps: &RuleMaps<'_>, within: &Pattern) -> io::Result<()> {
        let mut value = [0; listed::SIZE];
        let mut shapes = self.table.list(within).map(|shape| shape.number());
        let mut count = 0u32;
        let places = value[listed::SHAPES.range()].as_chunks_mut::<4>().0;
        for (place, number) in places.iter_mut().zip(shapes.by_ref().take(LISTED as usize)) {
            *place = number.to_ne_bytes();
            count += 1;
        }
        let more = shapes.next().map_or(0, |number| number + 1);
        listed::COUNT.put(&mut value, count.to_ne_bytes());
        listed::MORE.put(&mut value, more.to_ne_bytes());
        if count > 0 {
            return maps.lists.set(within, &value);
        }
        match maps.lists.remove(within) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Tells the masks, in the next set, and then that this one holds.
    pub fn tell_masks(&mut self, maps: &RuleMaps<'_>, listens: bool) -> io::Result<()> {
        let mut all = [0; shapes::SIZE];
        let masks = self.table.groups().masks();
        let count = if listens { masks.len() as u32 } else { 0 };
        debug_assert!(masks.len() <= MASKS, "{} masks", masks.len());
        let mut merged = 0u32;
        let places = all[shapes::MASKS.range()].as_chunks_mut::<{ contract::pattern::SIZE }>().0;
        for (at, (place, (mask, is_merged))) in places.iter_mut().zip(masks).enumerate() {
            *place = mask_of(mask);
            merged |= u32::from(is_merged) << at;
        }
        shapes::COUNT.put(&mut all, count.to_ne_bytes());
        shapes::LISTENS.put(&mut all, u32::from(listens).to_ne_bytes());
        shapes::MERGED.put(&mut all, merged.to_ne_bytes());
        let next = self.now % SHAPE_SETS + 1;
        maps.shapes.set(&next.to_ne_bytes(), &all)?;
        let mut first = [0; shapes::SIZE];
        shapes::NOW.put(&mut first, next.to_ne_bytes());
        maps.shapes.set(&0u32.to_ne_bytes(), &first)?;
        self.now = next;
        Ok(())
    }
}
