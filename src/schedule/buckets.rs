//! Buckets of flows, with a fast search for the first non-empty one.
//!
//! Each bucket is a list in order of arrival, linked through the flows themselves. So nothing is allocated, and a flow
//! can be taken out from anywhere. A bit for each bucket says whether it holds something, and a bit for each word of 64
//! such bits. So the first one is found by counting the zeros of a few words, for any number of flows (find-first-set
//! queues; Saeed et al., Eiffel, NSDI 2019, go further). Time, weights and deadlines are the caller's.

use crate::sys::cache;

/// Bits of a flow's number: there may be 16 million.
const BITS: u32 = 24;

/// No flow.
pub(super) const NOBODY: u32 = (1 << BITS) - 1;

/// Buckets there may be: 64 for each bit of [`WORDS_MAX`] words.
pub(super) const BUCKETS_MAX: usize = 16_384;

const WORDS_MAX: usize = BUCKETS_MAX / 64;

/// A flow's place in a bucket, in eight bytes: who stands behind, who before, and the bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link(u64);

impl Link {
    /// In no bucket.
    pub(super) const NONE: Link = Link::new(NOBODY, NOBODY, 0);

    #[inline(always)]
    const fn new(next: u32, before: u32, bucket: u16) -> Link {
        Link(next as u64 | (before as u64) << BITS | (bucket as u64) << (2 * BITS))
    }

    /// Who stands behind.
    #[inline(always)]
    pub(super) fn next(&self) -> u32 {
        self.0 as u32 & NOBODY
    }

    #[inline(always)]
    fn before(&self) -> u32 {
        (self.0 >> BITS) as u32 & NOBODY
    }

    #[inline(always)]
    fn bucket(&self) -> u16 {
        (self.0 >> (2 * BITS)) as u16
    }

    #[inline(always)]
    fn set_next(&mut self, next: u32) {
        *self = Link::new(next, self.before(), self.bucket());
    }

    #[inline(always)]
    fn set_before(&mut self, before: u32) {
        *self = Link::new(self.next(), before, self.bucket());
    }
}

/// What can stand in a bucket.
pub(super) trait Linked {
    fn link(&mut self) -> &mut Link;
}

/// The buckets.
#[derive(Debug)]
pub(super) struct Buckets {
    ends: Box<[(u32, u32)]>,
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
    pub(super) fn push<F: Linked>(&mut self, flows: &mut [F], bucket: usize, flow: u32) {
        let bucket = bucket & (self.count() - 1);
        let (first, last) = &mut self.ends[bucket];
        let before = core::mem::replace(last, flow);
        *flows[flow as usize].link() = Link::new(NOBODY, before, bucket as u16);
        match flows.get_mut(before as usize) {
            Some(last) => last.link().set_next(flow),
            None => {
                *first = flow;
                self.words[bucket / 64] |= 1 << (bucket % 64);
                self.summary[bucket / 4096] |= 1 << (bucket / 64 % 64);
            }
        }
    }

    /// Takes a flow out that is in one of these buckets.
    #[inline(always)]
    pub(super) fn remove<F: Linked>(&mut self, flows: &mut [F], flow: u32) {
        let link = core::mem::replace(flows[flow as usize].link(), Link::NONE);
        let (next, before, bucket) = (link.next(), link.before(), usize::from(link.bucket()));
        match flows.get_mut(before as usize) {
            Some(flow) => flow.link().set_next(next),
            None => self.ends[bucket].0 = next,
        }
        match flows.get_mut(next as usize) {
            Some(flow) => {
                flow.link().set_before(before);
                // It will be first; with thousands of flows the one behind it is in no near cache.
                let beyond = flow.link().next();
                cache::prefetch_at(flows, beyond as usize);
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
    pub(super) fn head(&self, bucket: usize) -> u32 {
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
            steps in prop::collection::vec((any::<u16>(), any::<u32>(), any::<bool>()), 1..200),
        ) {
            let mut flows: Vec<_> = (0..64).map(|_| Only(Link::NONE)).collect();
            let (mut buckets, mut model) = (Buckets::new(count), Vec::<(usize, u32)>::new());
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
