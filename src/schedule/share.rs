//! The node's share of a CPU: how long the worker rests, so that the rest of the machine has its promised part.
//! Example: a share of 60 % rests 4 ms of 10.
//!
//! The CPU time of the worker's thread is paid from an account that fills at the share's rate while the clock runs, up
//! to a burst. When it is overdrawn, the worker sleeps until it is not. Only the account is here; `manage::worker`
//! measures and sleeps (Snow on Silk §3.2: the node decides what share Linux gets).

/// The most that can be saved up, in nanoseconds of CPU time for a whole CPU.
pub const BURST_NS: u64 = 10_000_000;

/// The longest rest in one piece: an order for the worker waits no longer.
pub const REST_NS_MAX: u64 = 10_000_000;

/// The shortest time between two looks at the CPU clock, which is a call of the system.
const LOOK_NS: u64 = 500_000;

/// The share's unit.
const WHOLE: u64 = 1 << 20;

/// A share of one CPU and what was used of it.
#[derive(Clone, Debug)]
pub struct CpuShare {
    /// Of [`WHOLE`].
    part: u64,
    account_ns: i64,
    clock: u64,
    used: u64,
    rested_ns: u64,
    rests: u64,
}

impl CpuShare {
    /// A share between 0 and 1 of one CPU; nothing for all of it, which needs no account. `used` is the thread's CPU time at `now`.
    pub fn new(share: f64, now: u64, used: u64) -> Option<CpuShare> {
        let part = ((share * WHOLE as f64) as u64).max(1);
        (part < WHOLE).then_some(CpuShare { part, account_ns: 0, clock: now, used, rested_ns: 0, rests: 0 })
    }

    /// Whether it is time to look at the CPU clock.
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        now.saturating_sub(self.clock) >= LOOK_NS
    }

    /// How long to rest now, in nanoseconds, when the thread has used so much CPU time in all. After the rest, ask again.
    pub fn rest(&mut self, now: u64, used: u64) -> u64 {
        let burst = self.part_of(BURST_NS) as i64;
        let gained = self.part_of(now.saturating_sub(self.clock)).min(burst as u64 * 2) as i64;
        let spent = used.saturating_sub(self.used).min(i64::MAX as u64 / 4) as i64;
        (self.clock, self.used) = (now.max(self.clock), used.max(self.used));
        self.account_ns = self.account_ns.saturating_add(gained).min(burst).saturating_sub(spent);
        if self.account_ns >= 0 {
            return 0;
        }
        let needed = u128::from(self.account_ns.unsigned_abs()) * u128::from(WHOLE) / u128::from(self.part) + 1;
        let rest = needed.min(u128::from(REST_NS_MAX)) as u64;
        self.rests += 1;
        self.rested_ns += rest;
        rest
    }

    /// Nanoseconds of rest that were asked for so far.
    pub fn rested_ns(&self) -> u64 {
        self.rested_ns
    }

    /// How often.
    pub fn rests(&self) -> u64 {
        self.rests
    }

    fn part_of(&self, nanoseconds: u64) -> u64 {
        (u128::from(nanoseconds) * u128::from(self.part) / u128::from(WHOLE)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A worker that always has work and does what it is told, in virtual time: CPU time used of `length` nanoseconds.
    fn run(share: f64, length: u64, piece: impl Fn(u64) -> u64) -> u64 {
        let (mut now, mut used) = (0, 0);
        let mut account = CpuShare::new(share, now, used).unwrap();
        let mut turn = 0;
        while now < length {
            let work = piece(turn);
            turn += 1;
            (now, used) = (now + work, used + work);
            if account.is_due(now) {
                while let Some(rest) = Some(account.rest(now, used)).filter(|rest| *rest > 0) {
                    now += rest;
                }
            }
        }
        used
    }

    #[test]
    fn a_whole_cpu_needs_no_account() {
        assert!(CpuShare::new(1.0, 0, 0).is_none());
        assert!(CpuShare::new(0.999, 0, 0).is_some());
    }

    #[test]
    fn what_was_not_used_is_saved_up_to_the_burst_only() {
        let mut account = CpuShare::new(0.5, 0, 0).unwrap();
        let later = 1_000_000_000;
        assert_eq!(account.rest(later, BURST_NS / 2), 0, "the burst is there");
        assert!(account.rest(later, BURST_NS / 2 + 1_000) > 0, "and no more");
    }

    #[test]
    fn a_clock_that_stands_still_is_no_reason_to_rest_for_ever() {
        let mut account = CpuShare::new(0.001, 0, 0).unwrap();
        assert_eq!(account.rest(0, u64::MAX), REST_NS_MAX);
        assert_eq!(account.rest(0, u64::MAX), REST_NS_MAX);
        assert_eq!((account.rests(), account.rested_ns()), (2, 2 * REST_NS_MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn who_always_has_work_uses_its_share(percent in 1u32..99, piece in 1_000u64..2_000_000) {
            let (share, length) = (f64::from(percent) / 100.0, 20_000_000_000u64);
            let used = run(share, length, |turn| piece + turn % 7 * 1000) as f64;
            let fair = share * length as f64;
            // What may be saved up, and the piece in which it ends.
            let slack = (BURST_NS + 4 * piece + LOOK_NS + 10_000) as f64;
            prop_assert!(used <= fair + slack, "{used} of {fair}");
            prop_assert!(used >= fair * 0.98 - slack, "{used} of {fair}");
        }
    }
}
