//! Rates: so many packets or bytes a second, and how many come.

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// For how long what was not used may be used later, in nanoseconds: shorter, and a machine that is busy for a moment lowers the rate.
const SAVED: u64 = 20_000_000;

/// So many units a second.
pub struct Rate {
    per_second: u64,
    /// From when on the next unit is free, once one has passed: nothing is saved before.
    free: Option<u64>,
}

impl Rate {
    /// So many a second, one at least.
    pub fn new(per_second: u64) -> Rate {
        Rate { per_second: per_second.max(1), free: None }
    }

    /// Units a second.
    pub fn per_second(&self) -> u64 {
        self.per_second
    }

    /// Until when nothing may pass; nothing if something may.
    pub fn closed_until(&self, now: u64) -> Option<u64> {
        self.free.filter(|free| *free > now)
    }

    /// So many units have passed.
    pub fn spend(&mut self, now: u64, units: u64) {
        let time = u128::from(units) * u128::from(SECOND) / u128::from(self.per_second);
        let from = self.free.unwrap_or(now).max(now.saturating_sub(SAVED));
        self.free = Some(from.saturating_add(time.min(u64::MAX.into()) as u64));
    }
}

/// How many units come in a second, as a moving average over about one.
#[derive(Default)]
pub struct Measured {
    average: f64,
    at: Option<u64>,
}

impl Measured {
    /// So many more; what comes in a second then.
    pub fn add(&mut self, now: u64, units: u64) -> u64 {
        let past = self.at.map_or(0, |at| now.saturating_sub(at)) as f64 / SECOND as f64;
        self.at = Some(now);
        self.average = self.average * (-past).exp() + units as f64;
        self.average as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_lets_so_many_pass_and_saves_a_moment_of_them() {
        let mut rate = Rate::new(100);
        let mut passed = 0;
        for ms in 1_000..3_000u64 {
            while rate.closed_until(ms * 1_000_000).is_none() {
                rate.spend(ms * 1_000_000, 1);
                passed += 1;
            }
        }
        assert_eq!(passed, 200);
        let mut idle = Rate::new(1_000);
        idle.spend(0, 1);
        let now = 100 * SECOND;
        let burst = (0..).take_while(|_| idle.closed_until(now).is_none().then(|| idle.spend(now, 1)).is_some());
        assert_eq!(burst.count(), 21, "what 20 ms would have let pass, and one");
    }

    #[test]
    fn what_comes_in_a_second_is_measured() {
        let mut measured = Measured::default();
        let last = (0..5_000u64).map(|n| measured.add(n * 1_000_000, 1)).last();
        assert!((950..=1_001).contains(&last.unwrap()), "{last:?}");
    }
}
