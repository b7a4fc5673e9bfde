//! Buckets of flows, with a fast search for the first non-empty one.
//!
//! Each bucket is a list in order of arrival, linked through the flows themselves. So nothing is allocated, and a flow
//! can be taken out from anywhere. A bit for each bucket says whether it holds something, and a bit for each word of 64
//! such bits. So the first one is found by counting the zeros of a few words, for any number of flows (find-first-set
//! queues; Saeed et al., Eiffel, NSDI 2019, go further). Time, weights and deadlines are the caller's.

use crate::sys::cache;

/// No flow.
pub(super) const NOBODY: u16 = u16::MAX;

/// Buckets there may be: 64 for each bit of [`WORDS_MAX`] words.
pub(super) const BUCKETS_MAX: usize = 16_384;

const WORDS_MAX: usize = BUCKETS_MAX / 64;

/// A flow's place in a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    next: u16,
    before: u16,
    bucket: u16,
}

impl Link {
    /// In no bucket.
    pub(super) const NONE: Link = Link { next: NOBODY, before: NOBODY, bucket: 0 };

    /// Who stands behind.
    pub(super) fn next(&self) -> u16 {
        self.next
    }
}

/// What can stand in a bucket.
pub(super) trait Linked {
    fn link(&mut self) -> &mut Link;
}

/// The buckets.
#[derive(Debug)]
pub(super) struct Buckets {
    ends: Box<[(u16, u16)]>,
    words: Box<[u64]>,
    summary: [u64; WORDS_MAX / 64],
}

impl Buckets {
    /// `count` empty buckets, a power of two from 64 to [`BUCKETS_MAX`].
    pub(super) fn new(count: usize) -> Buckets {
        let count = count.next_power_of_two().clamp(64, BUCKETS_MAX);
        let (ends, words) = (vec![(NOBODY, NOBODY); count], vec![0; count / 64]);
        Buckets { ends: ends.into(), words: words.into(), summary: [0; WORDS_MAX / 64] }
    }

    /// How many there are.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Puts a flow behind all others of a bucket.
    #[inline(always)]
    pub(super) fn push<F: Linked>(&mut self, flows: &mut [F], bucket: usize, flow: u16) {
        let bucket = bucket & (self.count() - 1);
        let (first, last) = &mut self.ends[bucket];
        let before = core::mem::replace(last, flow);
        *flows[usize::from(flow)].link() = Link { next: NOBODY, before, bucket: bucket as u16 };
        match flows.get_mut(usize::from(before)) {
            Some(last) => last.link().next = flow,
            None => {
                *first = flow;
                self.words[bucket / 64] |= 1 << (bucket % 64);
                self.summary[bucket / 4096] |= 1 << (bucket / 64 % 64);
            }
        }
    }

    /// Takes a flow out that is in one of these buckets.
    #[inline(always)]
    pub(super) fn remove<F: Linked>(&mut self, flows: &mut [F], flow: u16) {
        let link = flows[usize::from(flow)].link();
        let Link { next, before, bucket } = core::mem::replace(link, Link::NONE);
        let bucket = usize::from(bucket);
        match flows.get_mut(usize::from(before)) {
            Some(flow) => flow.link().next = next,
            None => self.ends[bucket].0 = next,
        }
        match flows.get_mut(usize::from(next)) {
            Some(flow) => {
                flow.link().before = before;
                // It will be first; with thousands of flows the one behind it is in no near cache.
                let beyond = flow.link().next;
                cache::prefetch_at(flows, usize::from(beyond));
            }
            None => self.ends[bucket].1 = before,
        }
        if self.ends[bucket].0 == NOBODY {
            self.words[bucket / 64] &= !(1 << (bucket % 64));
            if self.words[bucket / 64] == 0 {
                self.summary[bucket / 4096] &= !(1 << (bucket / 64 % 64));
            }
        }
    }

    /// The first flow of a bucket.
    #[inline]
    pub(super) fn head(&self, bucket: usize) -> u16 {
        self.ends[bucket].0
    }

    /// The first bucket that holds a flow, looking from `start` on and around the end.
    #[inline]
    pub(super) fn first_from(&self, start: usize) -> Option<usize> {
        let rest = self.words[start / 64] & (u64::MAX << (start % 64));
        if rest != 0 {
            return Some(start / 64 * 64 + rest.trailing_zeros() as usize);
        }
        let word = self.word_from(start / 64 + 1).or_else(|| self.word_from(0))?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The first word that is not zero, from `start` to the end.
    #[inline]
    fn word_from(&self, start: usize) -> Option<usize> {
        let at = start / 64;
        let rest = self.summary.get(at)? & (u64::MAX << (start % 64));
        if rest != 0 {
            return Some(at * 64 + rest.trailing_zeros() as usize);
        }
        let more = self.summary[at + 1..].iter().position(|word| *word != 0)? + at + 1;
        Some(more * 64 + self.summary[more].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Only(Link);

    impl Linked for Only {
        fn link(&mut self) -> &mut Link {
            &mut self.0
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn the_first_is_the_first_and_order_within_a_bucket_is_kept(
            count in prop::sample::select(vec![64usize, 256, 4096, 16_384]),
            steps in prop::collection::vec((any::<u16>(), any::<u16>(), any::<bool>()), 1..200),
        ) {
            let mut flows: Vec<_> = (0..64).map(|_| Only(Link::NONE)).collect();
            let (mut buckets, mut model) = (Buckets::new(count), Vec::<(usize, u16)>::new());
            for (bucket, flow, put) in steps {
                let (bucket, flow) = (usize::from(bucket) % count, flow % 64);
                let known = model.iter().position(|(_, other)| *other == flow);
                match (known, put) {
                    (None, true) => {
                        buckets.push(&mut flows, bucket, flow);
                        model.push((bucket, flow));
                    }
                    (Some(at), false) => {
                        buckets.remove(&mut flows, flow);
                        model.remove(at);
                    }
                    _ => {}
                }
                let distance = |other: usize| other.wrapping_sub(bucket) & (count - 1);
                let expected = model.iter().map(|(other, _)| *other).min_by_key(|other| distance(*other));
                prop_assert_eq!(buckets.first_from(bucket), expected);
                if let Some(first) = expected {
                    let head = model.iter().find(|(bucket, _)| *bucket == first).map(|(_, flow)| *flow);
                    prop_assert_eq!(Some(buckets.head(first)), head);
                }
            }
        }
    }
}
