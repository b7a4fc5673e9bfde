//! Token buckets: bounds on rates, such as 100 packets a second with a burst of 10.

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// What a budget of so many a second holds at once: what comes back in a tenth of it, and one at least.
pub fn burst(rate: u64) -> u64 {
    (rate / 10).max(1)
}

/// Tokens that come back at a steady rate up to a burst. What is charged afterwards may overdraw them, by what
/// comes back in a second at most: a longer debt is forgiven.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: u64,
    burst: i64,
    tokens: i64,
    at: u64,
    /// The returned part of the next token, in parts of 10⁹.
    part: u64,
}

impl TokenBucket {
    /// A full bucket that gains `rate` tokens a second and holds `burst`.
    pub fn new(rate: u64, burst: u64) -> TokenBucket {
        let burst = signed(burst);
        TokenBucket { rate, burst, tokens: burst, at: 0, part: 0 }
    }

    /// One with so many tokens at `now`.
    pub fn holding(rate: u64, burst: u64, tokens: i64, now: u64) -> TokenBucket {
        let burst = signed(burst);
        TokenBucket { rate, burst, tokens: tokens.min(burst), at: now, part: 0 }
    }

    /// Takes `amount` tokens at `now` (nanoseconds) if they are there.
    #[inline]
    pub fn take(&mut self, now: u64, amount: u64) -> bool {
        self.refill(now);
        let amount = signed(amount);
        let there = self.tokens >= amount;
        if there {
            self.tokens -= amount;
        }
        there
    }

    /// Whether any token is left at `now`.
    #[inline]
    pub fn has_any(&mut self, now: u64) -> bool {
        if self.tokens <= 0 {
            self.refill(now);
        }
        self.tokens > 0
    }

    /// When any token is left, if nothing is taken until then.
    pub fn any_at(&self) -> u64 {
        let missing = 1u64.saturating_sub_signed(self.tokens).saturating_mul(SECOND);
        match missing.saturating_sub(self.part).checked_div(self.rate) {
            // What comes back in less than a microsecond is not counted yet.
            Some(wait) => self.at.saturating_add(wait.max(1_000)).saturating_add(1),
            None => u64::MAX,
        }
    }

    /// Whether `amount` tokens are there at `now`.
    pub fn has(&mut self, now: u64, amount: u64) -> bool {
        self.refill(now);
        self.tokens >= signed(amount)
    }

    /// Takes `amount` tokens, there or not, for work of a cost that is known only afterwards.
    #[inline]
    pub fn charge(&mut self, now: u64, amount: u64) {
        self.refill(now);
        self.tokens = self.tokens.saturating_sub(signed(amount)).max(-signed(self.rate));
    }

    /// Takes what others have spent of the same budget since the last use. They keep to the budget as well, so that of a
    /// bucket that was full meanwhile they leave a debt only if they have spent more than has come back.
    pub fn charge_elsewhere(&mut self, now: u64, amount: u64) {
        let (gained, part) = self.gained_until(now).unwrap_or((0, self.part));
        let there = self.tokens.saturating_add(gained);
        let left = there.saturating_sub(signed(amount));
        let tokens = match left {
            ..0 => left.max(-signed(self.rate)),
            _ => self.burst.min(there).saturating_sub(signed(amount)).max(0),
        };
        self.hold(tokens, part);
    }

    /// Tokens that come back in a second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Tokens that it holds at most.
    pub fn burst(&self) -> u64 {
        self.burst.unsigned_abs()
    }

    /// When it was used last.
    pub fn used_at(&self) -> u64 {
        self.at
    }

    /// Its content at its last use; a negative one is a debt.
    pub fn tokens(&self) -> i64 {
        self.tokens
    }

    /// Puts back what was charged and not used.
    #[inline]
    pub fn give_back(&mut self, amount: u64) {
        self.tokens = self.burst.min(self.tokens.saturating_add(signed(amount)));
    }

    /// Gains so many tokens a second from `now` on (nanoseconds). What is owed stays, but is no more than what now comes back in a second.
    pub fn set_rate(&mut self, now: u64, rate: u64) {
        self.refill(now);
        self.rate = rate;
        self.tokens = self.tokens.max(-signed(rate));
    }

    /// The same with another burst: what is there stays, as far as that holds it.
    pub fn renew(&mut self, now: u64, rate: u64, burst: u64) {
        self.set_rate(now, rate);
        self.burst = signed(burst);
        self.tokens = self.tokens.min(self.burst);
    }

    #[inline]
    fn refill(&mut self, now: u64) {
        if let Some((gained, part)) = self.gained_until(now) {
            self.hold(self.burst.min(self.tokens.saturating_add(gained)), part);
        }
    }

    /// So many tokens are there, and this part of the next one; a full bucket has none.
    #[inline]
    fn hold(&mut self, tokens: i64, part: u64) {
        self.part = if tokens == self.burst { 0 } else { part };
        self.tokens = tokens;
    }

    /// Tokens that have come back since the last use, which is now, and the part of the next one; nothing: too little time has passed.
    #[inline]
    fn gained_until(&mut self, now: u64) -> Option<(i64, u64)> {
        let passed = now.saturating_sub(self.at);
        // Below a microsecond nothing worth counting has come back; the time stays uncounted, so
        // nothing is lost either.
        if passed < 1_000 {
            return None;
        }
        self.at = now;
        let narrow = passed.checked_mul(self.rate).and_then(|gained| gained.checked_add(self.part));
        let (whole, part) = match narrow {
            Some(gained) => (gained / SECOND, gained % SECOND),
            None => self.gained(passed),
        };
        Some((signed(whole), part))
    }

    /// Tokens that come back in so many nanoseconds, where that needs more than 64 bits: dividing those costs more than all else here.
    #[cold]
    fn gained(&self, passed: u64) -> (u64, u64) {
        let gained = u128::from(passed) * u128::from(self.rate) + u128::from(self.part);
        let whole = gained / u128::from(SECOND);
        (u64::try_from(whole).unwrap_or(u64::MAX), (gained % u128::from(SECOND)) as u64)
    }
}

/// A number of tokens, as far as there is a sign for it.
#[inline]
fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
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
    fn what_others_spent_meanwhile_leaves_a_debt_only_if_it_is_more_than_came_back() {
        let full = || TokenBucket::new(200, 20);
        let after = |mut bucket: TokenBucket, now: u64, spent: u64| {
            bucket.charge_elsewhere(now, spent);
            bucket.tokens()
        };
        // A minute: 12,000 came back; a bucket that holds 20 is empty at worst.
        assert_eq!(after(full(), 60 * SECOND, 1_200), 0);
        assert_eq!(after(full(), 60 * SECOND, 5), 15);
        assert_eq!(after(full(), 60 * SECOND, 12_030), -10);
        // At once all of it counts, as far as a debt goes.
        assert_eq!(after(full(), 0, 30), -10);
        assert_eq!(after(full(), 0, 100_000), -200);
        let mut bucket = full();
        bucket.charge(0, 20);
        assert_eq!(after(bucket, SECOND / 20, 4), 6);
    }

    #[test]
    fn what_is_overdrawn_is_paid_back_but_for_a_second_at_most() {
        let mut bucket = TokenBucket::new(100, 10);
        bucket.charge(0, 60);
        assert!(!bucket.has_any(500_000_000) && bucket.has_any(510_000_000));
        bucket.charge(510_000_000, 1_000_000);
        assert!(!bucket.has_any(1_510_000_000) && bucket.has_any(1_520_000_000));
    }
}
