//! Rules are added and removed: their cases find places on ways and in groups, and the log has the change. Example: a rule with two cases
//! of which the second has no room leaves nothing behind.

use super::super::group::{Fail, Group, New};
use super::super::pattern::{Case, DEPTH_MAX, Op, Spot, Wanted};
use super::{CHANGES_MAX, Change, Classifier, ENTRIES_MAX, PlacedCase, RuleNumber, Ruled};

fn spots(tests: &[(Spot, Op)]) -> Vec<Spot> {
    let mut spots: Vec<_> = tests.iter().map(|(spot, _)| *spot).collect();
    spots.sort_unstable();
    spots.dedup();
    spots
}

impl<T> Classifier<T> {
    /// Adds a rule that was read with what is taught now; among those of one order the one with the smaller number is first.
    pub fn add(&mut self, wanted: &Wanted, order: u32, owner: T) -> Result<RuleNumber, String> {
        let cases = wanted.cases(self.root)?;
        if cases.is_empty() {
            return Err("this rule can never hold: its parts contradict each other".into());
        }
        if self.entries + cases.len() > ENTRIES_MAX {
            return Err(format!("there are as many rules as can be: {ENTRIES_MAX} cases"));
        }
        let number = self.free.pop().unwrap_or(self.rules.len() as u32);
        let rank = u64::from(order) << 32 | u64::from(number);
        let mut placed = Vec::with_capacity(cases.len());
        for case in cases {
            match self.place(case, rank) {
                Ok(case) => placed.push(case),
                Err(why) => {
                    placed.into_iter().for_each(|case| self.take_out(case));
                    self.free.push(number);
                    self.rules.resize_with(self.rules.len().max(number as usize + 1), || None);
                    return Err(why);
                }
            }
        }
        let rule = Some(Ruled { order, owner, cases: placed });
        match self.rules.get_mut(number as usize) {
            Some(place) => *place = rule,
            None => self.rules.push(rule),
        }
        self.note(Change::Added(number));
        Ok(number)
    }

    /// Takes a rule out.
    pub fn remove(&mut self, number: RuleNumber) -> Option<T> {
        let rule = self.rules.get_mut(number as usize)?.take()?;
        rule.cases.into_iter().for_each(|case| self.take_out(case));
        self.free.push(number);
        self.note(Change::Removed(number));
        Some(rule.owner)
    }

    fn place(&mut self, case: Case, rank: u64) -> Result<PlacedCase, String> {
        if case.fails.iter().chain([&case.holds]).any(|pattern| pattern.way.len() > DEPTH_MAX) {
            return Err(format!("a rule has at most {DEPTH_MAX} headers"));
        }
        let gone = || "a protocol of this rule is not taught any more".to_owned();
        let way = self.ways.enter(&self.protocols, &case.holds.way).ok_or_else(gone)?;
        let ends = case.holds.ends;
        let group = self.group(way, ends);
        let has_room = self.groups[group as usize].as_ref().is_some_and(|group| group.has_room(&case.holds.tests));
        // From here on it is held, so that a refusal lets go of it.
        self.ways.hold(way, ends, &spots(&case.holds.tests));
        self.entries += 1;
        let mut placed = PlacedCase { way, group, entry: u32::MAX, fails: Vec::new(), case };
        let mut fails = Vec::new();
        for pattern in &placed.case.fails {
            let Some(way) = self.ways.enter(&self.protocols, &pattern.way) else { break };
            self.ways.hold(way, pattern.ends, &spots(&pattern.tests));
            placed.fails.push(way);
            fails.push(Fail { way, ends: pattern.ends, tests: pattern.tests.clone() });
        }
        if !has_room || fails.len() < placed.case.fails.len() {
            self.take_out(placed);
            return Err(
                "rules with these headers look at too many different fields: 64 pieces of 32 bits can be".into()
            );
        }
        if let Some(group) = &mut self.groups[group as usize] {
            let new = New { rank, cost: placed.case.holds.cost, tests: &placed.case.holds.tests, fails };
            placed.entry = group.add(new);
        }
        Ok(placed)
    }

    /// The group of a way's rules.
    fn group(&mut self, way: u32, ends: bool) -> u32 {
        if let Some(group) = self.ways.one(way).own[usize::from(ends)] {
            return group;
        }
        let free = self.groups.iter().position(Option::is_none).unwrap_or(self.groups.len());
        match self.groups.get_mut(free) {
            Some(place) => *place = Some(Group::default()),
            None => self.groups.push(Some(Group::default())),
        }
        self.ways.one_mut(way).own[usize::from(ends)] = Some(free as u32);
        self.ways.renew(way);
        free as u32
    }

    fn take_out(&mut self, placed: PlacedCase) {
        let PlacedCase { case, way, group, entry, fails } = placed;
        let place = &mut self.groups[group as usize];
        if let Some(group) = place {
            if entry != u32::MAX {
                group.remove(entry);
            }
            if group.is_empty() {
                *place = None;
                self.ways.one_mut(way).own[usize::from(case.holds.ends)] = None;
                self.ways.renew(way);
            }
        }
        self.entries -= 1;
        for (way, pattern) in fails.into_iter().zip(&case.fails) {
            self.ways.release(way, pattern.ends, &spots(&pattern.tests));
        }
        self.ways.release(way, case.holds.ends, &spots(&case.holds.tests));
    }

    fn note(&mut self, change: Change) {
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
        self.changed = self.changed.wrapping_add(1);
        // An answer of long ago would look like one of today.
        if self.changed == 0 || self.ways.is_worn() {
            self.flows.clear();
            self.ways.restamp();
        }
    }
}
