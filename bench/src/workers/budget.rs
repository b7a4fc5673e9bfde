//! What two workers admit of one budget beyond it. Example: of a million packets a second, for 0.3 s, each asks for as
//! many as it can; beyond `rate × t + burst` they may admit a few dozen.

use super::stay_at;
use crate::series::{Key, Series, Target};
use crate::{Error, Settings};
use anode::core::bucket::TokenBucket;
use anode::core::common::CommonAccount;
use anode::core::share::OtherHalf;
use std::sync::{Arc, Barrier};
use std::time::Instant;

const OVER: &str = "a budget of two workers, of which each wants all";
const OVER_TWO: &str = "two workers, each as fast as it can";
/// Packets a second and at once, for so many nanoseconds, and how many each worker may admit beyond.
const OVER_RATE: u32 = 1_000_000;
const OVER_BURST: u32 = 100_000;
const OVER_NS: u64 = 300_000_000;
const OVER_MAX: u32 = 256;

/// Packets that two workers admit of one budget beyond `rate × t + burst`, for each of the two.
pub(super) fn over_admission(settings: &Settings) -> Result<(Series, Option<Target>), Error> {
    let mut series = Series::default();
    let key = Key { variant: OVER_TWO.into(), size: None, regime: OVER.into(), metric: "beyond", unit: "packets" };
    settings.rounds(OVER, |_| {
        let account = Arc::new(CommonAccount::new(2));
        let (barrier, began) = (Barrier::new(2), Instant::now());
        let admitted: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let (account, barrier) = (&account, &barrier);
            let worker = |at: usize| scope.spawn(move || admit_for_a_while(at, account, barrier, began));
            let workers = [worker(0), worker(1)];
            // Without one of them the other would have all of the budget.
            workers.map(|worker| worker.join().unwrap_or_else(|why| std::panic::resume_unwind(why))).into()
        });
        let (sum, until) = admitted.iter().fold((0, 0), |(sum, until), (more, end)| (sum + more, until.max(*end)));
        let budget = f64::from(OVER_RATE) * until as f64 / 1e9 + f64::from(OVER_BURST);
        series.push(key.clone(), (sum as f64 - budget) / 2.0);
        Ok(())
    })?;
    // Not what is usual: what a round has shown at most.
    let most = series.values(&key).iter().copied().fold(0.0, f64::max);
    let name = "packets beyond a budget, each worker, in the worst round";
    let target = Target::at_most(name, &[most], f64::from(OVER_MAX));
    Ok((series, target))
}

/// One of them, by its own clock: what it has admitted, and until when.
fn admit_for_a_while(at: usize, account: &Arc<CommonAccount>, barrier: &Barrier, began: Instant) -> (u64, u64) {
    stay_at(at);
    let mut other = OtherHalf::new(account.of(at as u16));
    let mut packets = TokenBucket::new(OVER_RATE.into(), OVER_BURST.into());
    let mut steps = TokenBucket::new(u64::MAX, u64::MAX);
    let mut admitted = 0;
    barrier.wait();
    loop {
        let now = began.elapsed().as_nanos() as u64;
        other.settle(now, &mut packets, &mut steps);
        if packets.take(now, 1) {
            other.spend(1, 0);
            admitted += 1;
        }
        if now > OVER_NS {
            return (admitted, now);
        }
    }
}
