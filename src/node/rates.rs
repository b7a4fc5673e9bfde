//! Rates of requests: the look-ups and code requests that each neighbour may cause in a second.

use crate::core::bucket::TokenBucket;
use std::collections::HashMap;
use std::hash::Hash;

/// Neighbours with remembered rates; the one that has been silent for longest gives way.
pub(super) const PEERS_MAX: usize = 1024;

/// What one neighbour may still ask for.
struct Rate {
    bucket: TokenBucket,
    /// The count of all charges when it was charged last.
    used: u64,
}

/// A rate for each neighbour, or for whatever tells who asks.
pub(super) struct Rates<K> {
    list: HashMap<K, Rate, foldhash::fast::FixedState>,
    charges: u64,
    per_second: u64,
    burst: u64,
}

impl<K: Copy + Eq + Hash> Rates<K> {
    /// Each neighbour may have so much a second, and so much at once.
    pub(super) fn new(per_second: u64, burst: u64) -> Rates<K> {
        Rates { list: HashMap::default(), charges: 0, per_second, burst }
    }

    /// Each neighbour may have so much from now on; what it has left stays, as far as there is room for it.
    pub(super) fn renew(&mut self, now: u64, per_second: u64, burst: u64) {
        (self.per_second, self.burst) = (per_second, burst);
        self.list.values_mut().for_each(|rate| rate.bucket.renew(now, per_second, burst));
    }

    /// Charges a neighbour; false if that is beyond its rate.
    pub(super) fn charge(&mut self, now: u64, who: K, amount: u64) -> bool {
        if self.list.len() >= PEERS_MAX && !self.list.contains_key(&who) {
            let idle = self.list.iter().min_by_key(|(_, rate)| rate.used).map(|(source, _)| *source);
            idle.and_then(|idle| self.list.remove(&idle));
        }
        self.charges += 1;
        let (per_second, burst) = (self.per_second, self.burst);
        let full = || Rate { bucket: TokenBucket::new(per_second, burst), used: 0 };
        let rate = self.list.entry(who).or_insert_with(full);
        rate.used = self.charges;
        rate.bucket.take(now, amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_rate_gives_nobody_more_at_once_than_is_left() {
        let mut rates = Rates::new(1, 100);
        assert!(rates.charge(0, 0, 90));
        rates.renew(0, 1000, 50);
        assert!(!rates.charge(0, 0, 11) && rates.charge(0, 0, 10) && rates.charge(0, 1, 50) && !rates.charge(0, 1, 1));
        assert!(rates.charge(50_000_000, 0, 50));
    }

    #[test]
    fn many_neighbours_give_none_a_full_bucket_who_goes_on_asking() {
        let mut rates = Rates::new(1, 100);
        assert!(rates.charge(0, 0, 100));
        for peer in 1..5000 {
            assert!(!rates.charge(0, 0, 2), "with {peer} others");
            assert!(rates.charge(0, peer, 100));
        }
        assert_eq!(rates.list.len(), PEERS_MAX);
        assert!(!rates.charge(0, 4999, 2));
    }
}
