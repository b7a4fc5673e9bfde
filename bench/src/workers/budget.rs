//! What two workers admit of one budget beyond it. Example: of a million packets a second, for 0.3 s, each asks for as
//! many as it can; beyond `rate × t + burst` they may admit a few dozen.

use super::stay_at;
use crate::series::{Key, Series, Target};
use crate::{Error, Settings};
use anode::core::bucket::burst;
use anode::core::common::CommonAccount;
use anode::trust::limits::Limits;
use std::sync::{Arc, Barrier};
use std::time::Instant;

const OVER: &str = "a budget of two workers, of which each wants all";
const OVER_TWO: &str = "two workers, each as fast as it can";
/// Packets a second, for so many nanoseconds, and how many each worker may admit beyond.
const OVER_RATE: u32 = 1_000_000;
const OVER_NS: u64 = 300_000_000;
const OVER_MAX: u32 = 256;

/// What is counted.
pub(super) const BEYOND: &str = "beyond";

fn key() -> Key {
    Key { variant: OVER_TWO.into(), size: None, regime: OVER.into(), metric: BEYOND, unit: "packets" }
}

/// Packets that two workers admit of one budget beyond `rate × t + burst`, for each of the two.
pub(super) fn over_admission(settings: &Settings) -> Result<Series, Error> {
    let mut series = Series::default();
    settings.rounds(OVER, |_| {
        let limits = Limits { packets_per_second: OVER_RATE.into(), steps_per_second: u64::MAX, ..Limits::default() };
        let account = Arc::new(CommonAccount::new(2, &limits));
        let (barrier, began) = (Barrier::new(2), Instant::now());
        let admitted: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let (account, barrier) = (&account, &barrier);
            let worker = |at: usize| scope.spawn(move || admit_for_a_while(at, account, barrier, began));
            let workers = [worker(0), worker(1)];
            // Without one of them the other would have all of the budget.
            workers.map(|worker| worker.join().unwrap_or_else(|why| std::panic::resume_unwind(why))).into()
        });
        let (sum, until) = admitted.iter().fold((0, 0), |(sum, until), (more, end)| (sum + more, until.max(*end)));
        let budget = f64::from(OVER_RATE) * until as f64 / 1e9 + burst(OVER_RATE.into()) as f64;
        series.push(key(), (sum as f64 - budget) / 2.0);
        Ok(())
    })?;
    Ok(series)
}

/// What was promised of it.
pub(super) fn target(series: &Series) -> Option<Target> {
    // Not what is usual: what a round has shown at most.
    let most = series.values(&key()).iter().copied().fold(0.0, f64::max);
    let name = "packets beyond a budget, each worker, in the worst round";
    Target::at_most(name, &[most], f64::from(OVER_MAX))
}

/// One of them, by its own clock: what it has admitted, and until when.
fn admit_for_a_while(at: usize, account: &Arc<CommonAccount>, barrier: &Barrier, began: Instant) -> (u64, u64) {
    stay_at(at);
    let mut share = account.of(at as u16);
    let mut admitted = 0;
    barrier.wait();
    loop {
        let now = began.elapsed().as_nanos() as u64;
        admitted += u64::from(share.admit(now));
        if now > OVER_NS {
            return (admitted, now);
        }
    }
}
