//! Micro-benchmarks: nanoseconds per call of a closure, variants interleaved, in this process.
//!
//! [`Micro::variant`] takes a closure, [`Micro::run`] calibrates for each a batch that lasts about a millisecond, then
//! runs the batches of all variants in turn, many per round. A round's figure is the median of its batches. Time is the
//! CPU time of this thread, so a preempted batch costs nothing extra; what the caches lost by it, the median leaves
//! out. The cost of the empty loop (under a nanosecond) is *not* subtracted. Results pass through `black_box`;
//! arguments are the closure's business.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::series::{Key, Series};
use super::stats::Summary;
use super::{Error, Settings};

const BATCH: Duration = Duration::from_millis(1);
/// Batches of each variant in a round.
const BATCHES: usize = 25;
const CALLS_MAX: u64 = 1 << 24;

/// The metric of every micro-benchmark.
pub(crate) const COST: &str = "CPU per call";

/// Closures to be compared.
pub(crate) struct Micro<'a> {
    regime: String,
    size: Option<u32>,
    variants: Vec<Variant<'a>>,
}

struct Variant<'a> {
    name: String,
    batch: Box<dyn FnMut(u64) + 'a>,
    calls: u64,
}

impl<'a> Micro<'a> {
    /// A comparison under a title; `size` is the bytes of the packet that the calls are about, if any.
    pub(crate) fn new(regime: &str, size: Option<u32>) -> Micro<'a> {
        Micro { regime: regime.into(), size, variants: Vec::new() }
    }

    /// Adds a closure; its result is kept from being optimised away.
    pub(crate) fn variant<R>(mut self, name: &str, mut call: impl FnMut() -> R + 'a) -> Micro<'a> {
        // The loop is compiled together with the closure: no indirect call is measured.
        let batch = move |calls| {
            for _ in 0..calls {
                black_box(call());
            }
        };
        self.variants.push(Variant { name: name.into(), batch: Box::new(batch), calls: 1 });
        self
    }

    /// Runs all rounds.
    pub(crate) fn run(mut self, settings: &Settings) -> Result<Series, Error> {
        for variant in &mut self.variants {
            variant.calibrate();
        }
        let mut series = Series::default();
        settings.rounds(&self.regime, |round| {
            let mut costs = vec![Vec::with_capacity(BATCHES); self.variants.len()];
            for batch in 0..BATCHES {
                for step in 0..self.variants.len() {
                    let backwards = !(round + batch).is_multiple_of(2);
                    let i = if backwards { self.variants.len() - 1 - step } else { step };
                    costs[i].push(self.variants[i].measure());
                }
            }
            for (variant, costs) in self.variants.iter().zip(&costs) {
                let key = Key {
                    variant: variant.name.clone(),
                    size: self.size,
                    regime: self.regime.clone(),
                    metric: COST,
                    unit: "ns",
                };
                series.push(key, Summary::of(costs).map_or(f64::NAN, |s| s.median));
            }
            Ok(())
        })?;
        Ok(series)
    }
}

impl Variant<'_> {
    /// Doubles the calls of a batch until it lasts long enough, twice: the first may have set up what later ones have.
    fn calibrate(&mut self) {
        while self.calls < CALLS_MAX && !(self.is_long() && self.is_long()) {
            self.calls *= 2;
        }
    }

    fn is_long(&mut self) -> bool {
        let before = thread_time();
        (self.batch)(self.calls);
        thread_time().saturating_sub(before) >= BATCH
    }

    /// Nanoseconds per call of one batch.
    fn measure(&mut self) -> f64 {
        let before = thread_time();
        (self.batch)(self.calls);
        thread_time().saturating_sub(before).as_nanos() as f64 / self.calls as f64
    }
}

/// CPU time of this thread so far.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn every_variant_is_called_in_every_round() {
        let (a, b) = (Cell::new(0u64), Cell::new(0u64));
        let micro = Micro::new("test", None)
            .variant("a", || a.set(a.get() + 1))
            .variant("b", || std::thread::sleep(Duration::from_nanos(b.replace(b.get() + 1).min(1))));
        let series = micro.run(&Settings::quiet(3)).unwrap();
        let rows = series.rows(&["a"]);
        assert_eq!(rows.iter().map(|row| (row.variant.as_str(), row.rounds)).collect::<Vec<_>>(), [("a", 3), ("b", 3)]);
        assert!(a.get() > 0 && b.get() > 0);
        assert!(rows[1].ratio.contains_key("a"));
    }

    #[test]
    fn a_first_call_that_takes_long_makes_no_short_batches() {
        let first = Cell::new(true);
        let mut variant = Variant {
            name: String::new(),
            batch: Box::new(|_| {
                let began = thread_time();
                while first.get() && thread_time().saturating_sub(began) < 2 * BATCH {}
                first.set(false);
            }),
            calls: 1,
        };
        variant.calibrate();
        assert!(variant.calls > 1000, "{}", variant.calls);
    }

    #[test]
    fn a_batch_is_never_endless() {
        let mut variant = Variant { name: String::new(), batch: Box::new(|_| {}), calls: 1 };
        variant.calibrate();
        assert!(variant.calls <= CALLS_MAX);
    }
}
