//! A histogram of times: 16 steps in every power of two, so a quantile is right within 1/16.

pub use model::simulated::Summary;

/// Steps in every power of two.
const STEPS: u64 = 16;

/// Steps below are one nanosecond wide.
const BUCKETS: usize = 61 * STEPS as usize;

/// How often which time was seen.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    least: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, sum: 0, least: u64::MAX, most: 0 }
    }
}

impl Histogram {
    /// Counts one time, in nanoseconds.
    #[inline]
    pub fn count(&mut self, time: u64) {
        self.counts[bucket(time)] += 1;
        self.total += 1;
        self.sum += u128::from(time);
        self.least = self.least.min(time);
        self.most = self.most.max(time);
    }

    /// The time that `permille` of a thousand do not exceed, in nanoseconds; 0 if none was seen.
    pub fn quantile(&self, permille: u64) -> u64 {
        let rank = (self.total * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map_or(0, |at| top(at).clamp(self.least, self.most))
    }

    /// The five numbers.
    pub fn summary(&self) -> Summary {
        let us = |ns: u64| ns as f64 / 1000.0;
        let mean = if self.total == 0 { 0 } else { (self.sum / u128::from(self.total)) as u64 };
        Summary {
            count: self.total,
            min_us: if self.total == 0 { 0.0 } else { us(self.least) },
            mean_us: us(mean),
            median_us: us(self.quantile(500)),
            p99_us: us(self.quantile(990)),
            max_us: us(self.most),
        }
    }
}

#[inline]
fn bucket(time: u64) -> usize {
    if time < STEPS {
        return time as usize;
    }
    // The four bits behind the leading one choose the step.
    let power = 63 - time.leading_zeros();
    let step = time >> (power - 4) & (STEPS - 1);
    (u64::from(power - 3) * STEPS + step) as usize
}

/// The longest time in a bucket.
fn top(bucket: usize) -> u64 {
    let (row, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    if row == 0 {
        return step;
    }
    let width = 1u64 << (row - 1);
    ((STEPS + step) * width).saturating_add(width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_its_bucket() {
        for time in (0..40_000).chain([u64::MAX / 3, u64::MAX - 1, u64::MAX]) {
            let at = bucket(time);
            assert!(at < BUCKETS && time <= top(at) && (at == 0 || time > top(at - 1)), "{time}");
        }
    }

    #[test]
    fn quantiles_are_right_within_a_sixteenth() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|time| histogram.count(time * 1000));
        let median = histogram.quantile(500);
        assert!((500_000..=532_000).contains(&median), "{median}");
        let summary = histogram.summary();
        assert_eq!((summary.count, summary.min_us, summary.max_us), (1000, 1.0, 1000.0));
        assert_eq!(Histogram::default().summary().max_us, 0.0);
    }
}
