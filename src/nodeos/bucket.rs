//! Token buckets: how rates are bounded.

/// Tokens that come back at a steady rate up to a burst.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: u64,
    burst: u64,
    tokens: u64,
    at: u64,
    /// What has come back of the next token, in parts of 10⁹.
    part: u64,
}

impl TokenBucket {
    /// A full bucket that gains `rate` tokens a second and holds `burst`.
    pub fn new(rate: u64, burst: u64) -> TokenBucket {
        TokenBucket { rate, burst, tokens: burst, at: 0, part: 0 }
    }

    /// Takes `amount` tokens at `now` (nanoseconds) if they are there.
    #[inline]
    pub fn take(&mut self, now: u64, amount: u64) -> bool {
        self.refill(now);
        match self.tokens.checked_sub(amount) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }

    /// Whether any token is left at `now`.
    #[inline]
    pub fn has_any(&mut self, now: u64) -> bool {
        if self.tokens == 0 {
            self.refill(now);
        }
        self.tokens > 0
    }

    /// Takes `amount` tokens, or all that are left, for work whose cost is known only afterwards.
    #[inline]
    pub fn charge(&mut self, now: u64, amount: u64) {
        self.refill(now);
        self.tokens = self.tokens.saturating_sub(amount);
    }

    #[inline]
    fn refill(&mut self, now: u64) {
        let passed = now.saturating_sub(self.at);
        // Below a microsecond nothing worth counting has come back; the time stays uncounted, so
        // nothing is lost either.
        if passed < 1_000 {
            return;
        }
        let gained = u128::from(passed) * u128::from(self.rate) + u128::from(self.part);
        let (whole, part) = (gained / 1_000_000_000, gained % 1_000_000_000);
        self.tokens = self.burst.min(self.tokens.saturating_add(whole.min(u128::from(u64::MAX)) as u64));
        self.part = if self.tokens == self.burst { 0 } else { part as u64 };
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_at_the_rate_and_stop_at_the_burst() {
        let mut bucket = TokenBucket::new(10, 5);
        assert!((0..5).all(|_| bucket.take(0, 1)));
        assert!(!bucket.take(0, 1));
        assert!(!bucket.take(99_000_000, 1));
        assert!(bucket.take(100_000_000, 1));
        assert!(bucket.take(10_000_000_000, 5));
        assert!(!bucket.take(10_000_000_000, 1));
    }

    #[test]
    fn parts_of_tokens_are_not_lost() {
        let mut bucket = TokenBucket::new(10, 1);
        assert!(bucket.take(0, 1));
        // Ten a second, asked for every 150 ms: each time one is there, and half a one stays.
        let mut bucket = TokenBucket { burst: 100, ..bucket };
        let taken = (1..=20u64).filter(|n| bucket.take(n * 75_000_000, 1)).count();
        assert_eq!(taken, 15, "1.5 s at 10 a second");
    }

    #[test]
    fn a_charge_never_goes_below_nothing() {
        let mut bucket = TokenBucket::new(1, 10);
        bucket.charge(0, 100);
        assert!(!bucket.has_any(0));
        assert!(bucket.has_any(1_000_000_000));
    }
}
