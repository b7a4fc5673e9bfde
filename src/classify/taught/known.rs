//! The flow cache: flows that have been classified, and their answers. Example: of 100,000 flows each is found with one wait for memory,
//! which a batch of packets can do at once.
//!
//! An entry is a cache line, and a flow has two places. What is written down is right as of some change of the rules; whoever finds
//! it looks whether later changes matter to the flow ([`super::classifier`]). So a new rule costs nothing here.

use super::ways::{FlowKey, KEY_WORDS};
use crate::sys::cache;

/// Rules of one answer; more are looked up each time.
pub(super) const ANSWER: usize = 4;
/// Places for each flow: with so many, one of fifty finds both of its places taken.
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
        let is = |at: &usize| self.places.get(*at).is_some_and(|flow| flow.is(key));
        if is(&home) { Some(home) } else { Some(home + 1).filter(is) }
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
        let home = self.home(hash);
        let own = self.find(key, hash);
        let age =
            |at: usize| if self.places[at].tag == 0 { u32::MAX } else { as_of.wrapping_sub(self.places[at].as_of) };
        let older = match age(home).cmp(&age(home + 1)) {
            core::cmp::Ordering::Greater => 0,
            core::cmp::Ordering::Less => 1,
            // By chance, so that two flows cannot keep a third one out.
            core::cmp::Ordering::Equal => (hash >> 63) as usize,
        };
        let mut answer = [NONE; ANSWER];
        answer[..rules.len()].copy_from_slice(rules);
        self.places[own.unwrap_or(home + older)] = KnownFlow { words: key.words, tag: key.tag, as_of, answer };
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
        assert!((96..=128).contains(&found), "{found} of 128 places");
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
