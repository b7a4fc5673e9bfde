//! A token bucket that several threads take from, in one word. Example: of 1,000 packets a second, and 100 at once, two
//! workers take 32 at a time; together they never have more than the rate and the burst allow.
//!
//! The word is the moment at which the bucket will be full again (a virtual scheduling algorithm, ITU-T I.371): what is
//! taken moves it into the future, by the time in which that much comes back. There is no lock: who meets another one
//! tries again with what that one has left.

use super::sync::{AtomicU64, Relaxed};
use crate::core::bucket::TokenBucket;

/// Moments are in parts of a nanosecond.
const PARTS: u64 = 16;
const SECOND: u64 = 1_000_000_000 * PARTS;

/// Nine years, which is longer than any host runs: later nothing comes back. The sum of three is still a number.
const FOREVER: u64 = 1 << 62;

/// Tokens that come back at a steady rate up to a burst. What is charged afterwards may overdraw them, by what comes
/// back in a second at most for each thread.
#[derive(Debug)]
#[repr(align(64))]
pub struct CommonBucket {
    /// When it will be full.
    full_at: AtomicU64,
    rate: AtomicU64,
    burst: AtomicU64,
    /// Time in which one token comes back, and in which all do.
    each: AtomicU64,
    depth: AtomicU64,
    /// The longest time in which what is owed comes back.
    debt: u64,
    /// Whether a single thread takes from it: nobody changes it meanwhile.
    is_ones: bool,
}

/// A token is there this part of its time early: times are rounded up one by one, and that adds up.
const EARLY: u64 = 64;

/// Time in which so many tokens come back, rounded up.
fn time(amount: u64, rate: u64) -> u64 {
    if amount == 0 {
        return 0;
    }
    match (amount.checked_mul(SECOND), rate) {
        (_, 0) => FOREVER,
        (Some(whole), rate) => whole.div_ceil(rate).min(FOREVER),
        (None, rate) => {
            let time = (u128::from(amount) * u128::from(SECOND)).div_ceil(u128::from(rate));
            u64::try_from(time).unwrap_or(FOREVER).min(FOREVER)
        }
    }
}

fn parts(now: u64) -> u64 {
    now.saturating_mul(PARTS).min(FOREVER)
}

impl CommonBucket {
    /// A full bucket that gains `rate` tokens a second and holds `burst`. So many threads may each owe what comes back in a second.
    pub fn new(rate: u64, burst: u64, threads: u16) -> CommonBucket {
        CommonBucket {
            full_at: AtomicU64::new(0),
            rate: AtomicU64::new(rate),
            burst: AtomicU64::new(burst),
            each: AtomicU64::new(time(1, rate)),
            depth: AtomicU64::new(time(burst, rate)),
            debt: SECOND * u64::from(threads),
            is_ones: threads == 1,
        }
    }

    /// One that goes on from a bucket of one thread: what is there is there, and what is owed is owed.
    pub fn going_on_from(bucket: &TokenBucket) -> CommonBucket {
        let (rate, burst) = (bucket.rate(), bucket.burst());
        let common = CommonBucket::new(rate, burst, 1);
        let missing = i128::from(burst) - i128::from(bucket.tokens());
        let missing = time(u64::try_from(missing).unwrap_or(0), rate);
        common.full_at.store(parts(bucket.used_at()) + missing, Relaxed);
        common
    }

    /// A bucket of one thread that goes on from this one.
    pub fn back(&self, now: u64) -> TokenBucket {
        let (full_at, limit) = (self.full_at.load(Relaxed).max(parts(now)), parts(now) + self.depth.load(Relaxed));
        let tokens = |time: u64| (time / self.each.load(Relaxed)) as i64;
        let there = tokens(limit.saturating_sub(full_at)) - tokens(full_at.saturating_sub(limit));
        TokenBucket::holding(self.rate(), self.burst.load(Relaxed), there, now)
    }

    /// Tokens that come back in a second.
    pub fn rate(&self) -> u64 {
        self.rate.load(Relaxed)
    }

    /// Takes so many tokens at `now` (nanoseconds), or as many as there are but for those to be kept, if these are enough; how many.
    pub fn take(&self, now: u64, (least, most): (u64, u64), keep: u64) -> u64 {
        let (now, each) = (parts(now), self.each.load(Relaxed));
        let limit = now + self.depth.load(Relaxed) + each / EARLY;
        let mut taken = 0;
        self.change(|full_at| {
            let from = full_at.max(now);
            taken = (limit.saturating_sub(from) / each).saturating_sub(keep).min(most);
            taken = if taken < least { 0 } else { taken };
            (taken > 0).then(|| from + time(taken, self.rate()))
        });
        taken
    }

    /// Whether any token is there.
    pub fn has_any(&self, now: u64) -> bool {
        let (now, each) = (parts(now), self.each.load(Relaxed));
        self.full_at.load(Relaxed).max(now) + each <= now + self.depth.load(Relaxed) + each / EARLY
    }

    /// Takes so many tokens, there or not, for work of a cost that is known only afterwards.
    pub fn charge(&self, now: u64, amount: u64) {
        let (now, cost) = (parts(now), time(amount, self.rate()));
        let most = now + self.depth.load(Relaxed) + self.debt;
        self.change(|full_at| Some((full_at.max(now) + cost).min(most.max(full_at))));
    }

    /// Takes what was spent elsewhere since that was charged last, maybe long ago. Who spent it keeps to the same budget, so that
    /// it leaves a debt only if it is more than has come back meanwhile.
    pub fn charge_elsewhere(&self, now: u64, amount: u64) {
        let (now, cost) = (parts(now), time(amount, self.rate()));
        let limit = now + self.depth.load(Relaxed);
        self.change(|full_at| {
            let there = full_at.max(now) + cost;
            let owed = full_at + cost;
            Some(if owed > limit { owed.min(limit + self.debt).max(full_at) } else { there.min(limit).max(full_at) })
        });
    }

    /// Has another rate and burst from `now` on: what is there stays, as far as that holds it. One thread at a time may do this.
    pub fn renew(&self, now: u64, rate: u64, burst: u64) {
        let now = parts(now);
        if (self.rate(), self.burst.load(Relaxed)) == (rate, burst) {
            return;
        }
        self.rate.store(rate, Relaxed);
        self.burst.store(burst, Relaxed);
        let (each, deep) = (time(1, rate), time(burst, rate));
        let (each_before, before) = (self.each.swap(each, Relaxed), self.depth.swap(deep, Relaxed));
        self.change(|full_at| {
            let there = (now + before).saturating_sub(full_at.max(now)) / each_before;
            let missing = deep.saturating_sub(there.min(burst).saturating_mul(each).min(FOREVER));
            let owed = full_at.saturating_sub(now + before).min(self.debt);
            Some(now + missing + owed)
        });
    }

    /// Moves the moment at which it is full, if it is to be moved.
    #[inline]
    fn change(&self, mut to: impl FnMut(u64) -> Option<u64>) {
        let mut full_at = self.full_at.load(Relaxed);
        if self.is_ones {
            // To compare and exchange costs as much as all else here.
            return to(full_at).into_iter().for_each(|next| self.full_at.store(next, Relaxed));
        }
        while let Some(next) = to(full_at) {
            match self.full_at.compare_exchange_weak(full_at, next, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(there) => full_at = there,
            }
        }
    }
}
