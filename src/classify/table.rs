//! The rules as a table of the kernel half has them: patterns, and for each the keys and owners of its rules.
//!
//! Example: UDP to port 5000 of any host with a key of two bytes, and the same without a key, are two keys of one
//! pattern. Patterns with the same mask are of one [`Shape`], and the kernel half looks once for each. A table says what a
//! change of a rule changes of both, and its user tells the maps (`kernel/filters.rs`, `kernel/channels.rs`).

use super::rule::{DemuxKey, Rule};
use super::shapes::{NoPlace, Shape};
use std::collections::BTreeMap;

/// Shapes that a table of the kernel half has.
const SHAPES: usize = crate::contract::SHAPES as usize;

/// The rules of one pattern: keys, longer ones before shorter ones, as in the user half's table; each with its owner.
type Keyed<T> = Vec<(DemuxKey, T)>;

/// Rules by patterns `P`, of which the bytes go into a map, and their owners.
#[derive(Debug)]
pub struct RuleTable<P, T> {
    /// Mask and value of a rule.
    pattern: fn(&Rule) -> (P, P),
    /// Masks, the most specific first, and how many patterns have each.
    masks: Vec<(Shape, P, u32)>,
    patterns: BTreeMap<P, Keyed<T>>,
}

/// What a change of a rule has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed<P> {
    /// The pattern whose keys are others now: see [`RuleTable::keys`].
    pub pattern: P,
    /// Whether the masks are others too.
    pub masks: bool,
}

impl<P: Copy + Ord, T: Copy + Default> RuleTable<P, T> {
    /// No rules yet; `pattern` gives mask and value of one.
    pub fn new(pattern: fn(&Rule) -> (P, P)) -> RuleTable<P, T> {
        RuleTable { pattern, masks: Vec::new(), patterns: BTreeMap::new() }
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The masks, the most specific first.
    pub fn masks(&self) -> impl ExactSizeIterator<Item = &P> {
        self.masks.iter().map(|(_, mask, _)| mask)
    }

    /// The keys of a pattern and their owners; empty if no rule has it.
    pub fn keys(&self, pattern: &P) -> &[(DemuxKey, T)] {
        self.patterns.get(pattern).map_or(&[], Vec::as_slice)
    }

    /// A rule is there, with the owner that is everybody's first, or it is not any more. Gives what has to be told, if anything.
    pub fn change(&mut self, rule: &Rule, exists: bool) -> Result<Option<Changed<P>>, NoPlace> {
        let (mask, pattern) = (self.pattern)(rule);
        let is_new = self.keys(&pattern).is_empty();
        if is_new && !exists {
            return Ok(None);
        }
        let mut masks = is_new && self.add_mask(rule, mask)?;
        let keys = self.patterns.entry(pattern).or_default();
        keys.retain(|(key, _)| *key != rule.key);
        if exists {
            let at = keys.partition_point(|(key, _)| key.len() >= rule.key.len());
            keys.insert(at, (rule.key.clone(), T::default()));
        }
        if keys.is_empty() {
            self.patterns.remove(&pattern);
            masks = self.drop_mask(&mask);
        }
        Ok(Some(Changed { pattern, masks }))
    }

    /// A rule that is there has another owner: the pattern that has to be told.
    pub fn give(&mut self, rule: &Rule, owner: T) -> Option<P> {
        let (_, pattern) = (self.pattern)(rule);
        let keys = self.patterns.get_mut(&pattern)?;
        keys.iter_mut().filter(|(key, _)| *key == rule.key).for_each(|(_, whose)| *whose = owner);
        Some(pattern)
    }

    /// One more pattern with this mask: whether the mask is new.
    fn add_mask(&mut self, rule: &Rule, mask: P) -> Result<bool, NoPlace> {
        if let Some((.., patterns)) = self.masks.iter_mut().find(|(_, known, _)| *known == mask) {
            *patterns += 1;
            return Ok(false);
        }
        if self.masks.len() >= SHAPES {
            return Err(NoPlace::Full);
        }
        let shape = Shape::of(rule).by_number();
        let at = self.masks.partition_point(|(known, ..)| *known >= shape);
        self.masks.insert(at, (shape, mask, 1));
        Ok(true)
    }

    /// One pattern with this mask less: whether that was the last.
    fn drop_mask(&mut self, mask: &P) -> bool {
        let Some(at) = self.masks.iter().position(|(_, known, _)| known == mask) else { return false };
        self.masks[at].2 -= 1;
        let last = self.masks[at].2 == 0;
        if last {
            self.masks.remove(at);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::fields::Field;
    use crate::classify::rule::{KeyTuple, Layer};
    use crate::frame::PortId;

    /// Layer, masks of all fields, and in a pattern their values.
    type Asked = (u8, [[u8; 16]; 6], [[u8; 16]; 6]);

    fn asked(rule: &Rule) -> (Asked, Asked) {
        let asked = Field::ALL.map(|field| rule.asks(field));
        let layer = (rule.layer as u8).min(Layer::Udp as u8);
        let masks = asked.map(|asked| asked.mask);
        ((layer, masks, [[0; 16]; 6]), (layer, masks, asked.map(|asked| asked.value)))
    }

    fn rule(protocol: &str, address: &str, key: &[KeyTuple]) -> Rule {
        let port = |name: &str| name.strip_prefix("if")?.parse().ok().map(PortId);
        crate::nodeos::channel::rule(protocol, address, key, port).unwrap()
    }

    const KEY: KeyTuple = KeyTuple { offset: 0, length: 1, value: 7, mask: 0xff };

    #[test]
    fn keys_of_one_pattern_stand_by_length_and_the_last_takes_it_away() {
        let mut table = RuleTable::<Asked, u32>::new(asked);
        let [plain, keyed] = [&[][..], &[KEY]].map(|key| rule("if0/ip/udp", "*:5000", key));
        let pattern = asked(&plain).1;
        let told = |masks| Ok(Some(Changed { pattern, masks }));
        assert_eq!(table.change(&plain, false), Ok(None), "nothing was there");
        assert_eq!(table.change(&plain, true), told(true));
        assert_eq!(table.change(&keyed, true), told(false));
        assert_eq!(table.give(&plain, 3), Some(pattern));
        assert_eq!(table.keys(&pattern), [(vec![KEY], 0), (vec![], 3)]);
        assert_eq!(table.change(&plain, true), told(false), "again: it is everybody's");
        assert_eq!(table.keys(&pattern), [(vec![KEY], 0), (vec![], 0)]);
        assert_eq!(table.change(&plain, false), told(false));
        assert_eq!((table.change(&keyed, false), table.is_empty()), (told(true), true));
        assert_eq!(table.give(&keyed, 3), None);
        assert_eq!(table.masks().len(), 0);
    }

    #[test]
    fn udp_and_tcp_of_the_same_fields_share_a_mask_between_the_others() {
        let mut table = RuleTable::<Asked, u32>::new(asked);
        let rules =
            ["ip/udp|*:5000", "ip/tcp|*:6000", "ip/tcp|10.0.0.1:* -> *:*", "ip/tcp|10.0.0.1:* -> *:7", "ip|", "*|"];
        let rules = rules.map(|text| text.split_once('|').unwrap()).map(|(protocol, address)| {
            rule(&if protocol == "*" { "*".to_owned() } else { format!("*/{protocol}") }, address, &[])
        });
        for rule in &rules {
            table.change(rule, true).unwrap();
        }
        let place = |rule: &Rule| table.masks().position(|mask| *mask == asked(rule).0).unwrap();
        assert_eq!(rules.each_ref().map(place), [1, 1, 2, 0, 3, 4]);
        assert_eq!(table.masks().len(), 5);
    }

    #[test]
    fn a_shape_too_many_changes_nothing() {
        let mut table = RuleTable::<Asked, u32>::new(asked);
        let of = |length: usize| Rule { layer: Layer::Ip, ..rule("*/ip", &format!("* -> 10.0.0.0/{length}"), &[]) };
        for length in 1..=SHAPES {
            assert!(table.change(&of(length), true).unwrap().unwrap().masks);
        }
        assert_eq!(table.change(&of(SHAPES + 1), true), Err(NoPlace::Full));
        assert_eq!(table.change(&of(SHAPES + 1), false), Ok(None));
        assert_eq!(table.masks().len(), SHAPES);
    }
}
