//! The flow cache: flows that have been classified, and their answers. Example: of 100,000 flows each is found with one wait for memory,
//! which a batch of packets can do at once.
//!
//! An entry is a cache line. A flow has two places beside each other, where it nearly always is, and two others for when those are
//! taken: a known flow without a place costs a look through the rules each time. What is written down is right as of some change of the
//! rules; whoever finds it looks whether later changes matter to the flow ([`super::classifier`]). So a new rule costs nothing here.

use super::ways::{FlowKey, KEY_WORDS};
use crate::sys::cache;

/// Rules of one answer; more are looked up each time.
pub(super) const ANSWER: usize = 4;
/// Places for each flow: with so many, one of fifty is in its second places, and one of thousands finds all four taken.
const SPARSE: usize = 4;
/// No rule.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct KnownFlow {
    words: [u64; KEY_WORDS],
    tag: u32,
    /// The change of the rules up to which the answer is right.
    as_of: u32,
    answer: [u32; ANSWER],
}

/// The flows.
#[derive(Debug, Default)]
pub(super) struct KnownFlows {
    places: Vec<KnownFlow>,
    secret: u64,
}

impl KnownFlow {
    #[inline(always)]
    fn is(&self, key: &FlowKey) -> bool {
        let other = self.words.iter().zip(&key.words).fold(0, |other, (one, word)| other | (one ^ word));
        other == 0 && self.tag == key.tag
    }
}

#[inline(always)]
fn mix(one: u64, other: u64) -> u64 {
    let wide = u128::from(one) * u128::from(other);
    (wide >> 64) as u64 ^ wide as u64
}

impl KnownFlows {
    /// Room for so many flows, or none. Without the secret nobody can choose flows that collide.
    pub(super) fn new(flows: usize, secret: u64) -> KnownFlows {
        let mut places = Vec::new();
        if flows > 0 {
            let count = flows.saturating_mul(SPARSE).next_power_of_two();
            cache::make_room(&mut places, count);
            places.resize(count, KnownFlow { words: [0; KEY_WORDS], tag: 0, as_of: 0, answer: [NONE; ANSWER] });
        }
        KnownFlows { places, secret }
    }

    pub(super) fn is_off(&self) -> bool {
        self.places.is_empty()
    }

    #[inline]
    pub(super) fn hash(&self, key: &FlowKey) -> u64 {
        let [a, b, c, d, e] = key.words;
        let first = mix(a ^ self.secret, b ^ 0x9e37_79b9_7f4a_7c15);
        let second = mix(c ^ self.secret.rotate_left(32), d ^ 0xc2b2_ae3d_27d4_eb4f);
        mix(first ^ e ^ 0x1656_67b1_9e37_79f9, second ^ u64::from(key.tag) ^ self.secret)
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        hash as usize & self.places.len().wrapping_sub(2)
    }

    /// Asks for the memory of a flow's places.
    #[inline]
    pub(super) fn foresee(&self, hash: u64) {
        let home = self.home(hash);
        cache::prefetch_at(&self.places, home);
        cache::prefetch_at(&self.places, home + 1);
    }

    /// The place of a flow.
    #[inline]
    pub(super) fn find(&self, key: &FlowKey, hash: u64) -> Option<usize> {
        let home = self.home(hash);
        if self.is(home, key) {
            return Some(home);
        }
        if self.is(home + 1, key) { Some(home + 1) } else { self.find_other(key, hash) }
    }

    #[inline(always)]
    fn is(&self, at: usize, key: &FlowKey) -> bool {
        self.places.get(at).is_some_and(|flow| flow.is(key))
    }

    /// The same among a flow's second places.
    #[inline(never)]
    fn find_other(&self, key: &FlowKey, hash: u64) -> Option<usize> {
        let home = self.home(hash.rotate_left(32));
        [home, home + 1].into_iter().find(|at| self.is(*at, key))
    }

    /// Up to which change an answer is right.
    #[inline]
    pub(super) fn as_of(&self, at: usize) -> u32 {
        self.places[at].as_of
    }

    /// It is right up to this one, too.
    pub(super) fn confirm(&mut self, at: usize, as_of: u32) {
        self.places[at].as_of = as_of;
    }

    /// The rules of a flow.
    #[inline]
    pub(super) fn answer(&self, at: usize) -> &[u32] {
        let answer = &self.places[at].answer;
        &answer[..answer.iter().position(|rule| *rule == NONE).unwrap_or(ANSWER)]
    }

    /// Writes a flow down, in the place of itself, of a free one, or of whoever was confirmed less recently.
    pub(super) fn learn(&mut self, key: &FlowKey, hash: u64, as_of: u32, rules: &[u32]) {
        if self.places.is_empty() || rules.len() > ANSWER {
            return;
        }
        let at = self.find(key, hash).unwrap_or_else(|| self.room(hash, as_of));
        let mut answer = [NONE; ANSWER];
        answer[..rules.len()].copy_from_slice(rules);
        self.places[at] = KnownFlow { words: key.words, tag: key.tag, as_of, answer };
    }

    /// A place for a flow that has none: the first free one, or that of whoever was confirmed least recently.
    fn room(&self, hash: u64, as_of: u32) -> usize {
        let (first, second) = (self.home(hash), self.home(hash.rotate_left(32)));
        let all = [first, first + 1, second, second + 1];
        if let Some(free) = all.into_iter().find(|at| self.places[*at].tag == 0) {
            return free;
        }
        let age = |at: usize| as_of.wrapping_sub(self.places[at].as_of);
        // Of several as old as each other one by chance, so that no few flows can keep another one out.
        let from = (hash >> 62) as usize;
        let turned = (0..all.len()).map(|step| all[(from + step) % all.len()]);
        turned.max_by_key(|at| age(*at)).unwrap_or(first)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.places.iter_mut().for_each(|flow| flow.tag = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_a_cache_line_and_found_until_others_take_its_place() {
        assert_eq!(size_of::<KnownFlow>(), cache::LINE);
        let mut flows = KnownFlows::new(32, 7);
        let key = |number: u64| FlowKey { words: [number, 0, 0, 0, 9], tag: 2 };
        for number in 0..1000 {
            let hash = flows.hash(&key(number));
            assert_eq!(flows.find(&key(number), hash), None);
            flows.learn(&key(number), hash, 3, &[number as u32, 5]);
            let at = flows.find(&key(number), hash).unwrap();
            assert_eq!((flows.answer(at), flows.as_of(at)), (&[number as u32, 5][..], 3));
        }
        let found = (0..1000).filter(|number| flows.find(&key(*number), flows.hash(&key(*number))).is_some()).count();
        assert!((112..=128).contains(&found), "{found} of 128 places");
        flows.clear();
        assert_eq!(flows.find(&key(999), flows.hash(&key(999))), None);
    }

    #[test]
    fn without_room_nothing_is_known() {
        let mut flows = KnownFlows::new(0, 7);
        let key = FlowKey { words: [1; KEY_WORDS], tag: 2 };
        let hash = flows.hash(&key);
        flows.learn(&key, hash, 0, &[1]);
        flows.foresee(hash);
        assert!(flows.is_off() && flows.find(&key, hash).is_none());
    }
}
