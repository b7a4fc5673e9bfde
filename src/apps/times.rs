//! Summaries of measured times: least, median, most.

use core::time::Duration;
use serde::Serialize;

/// What a series of times looks like; each value in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// How many were measured.
    pub count: usize,
    /// The shortest.
    pub min_ns: u64,
    /// The sum over the count.
    pub mean_ns: u64,
    /// The middle one.
    pub median_ns: u64,
    /// 95 of 100 are at most this long.
    pub p95_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The mean distance from the mean.
    pub deviation_ns: u64,
}

impl Times {
    /// The summary of a series, in any order; all zero if there is none.
    pub fn of(times: &[Duration]) -> Times {
        let mut sorted: Vec<u64> = times.iter().map(|time| time.as_nanos() as u64).collect();
        sorted.sort_unstable();
        let (Some(&min_ns), Some(&max_ns)) = (sorted.first(), sorted.last()) else { return Times::default() };
        let count = sorted.len();
        let mean_ns = (sorted.iter().map(|&time| u128::from(time)).sum::<u128>() / count as u128) as u64;
        let distances: u128 = sorted.iter().map(|&time| u128::from(time.abs_diff(mean_ns))).sum();
        Times {
            count,
            min_ns,
            mean_ns,
            median_ns: sorted[count / 2],
            p95_ns: sorted[(count * 95).div_ceil(100) - 1],
            max_ns,
            deviation_ns: (distances / count as u128) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_says_where_the_values_lie() {
        let times: Vec<_> = (1..=100).rev().map(Duration::from_nanos).collect();
        let summary = Times::of(&times);
        assert_eq!((summary.min_ns, summary.p95_ns, summary.max_ns), (1, 95, 100));
        assert_eq!((summary.mean_ns, summary.median_ns, summary.deviation_ns), (50, 51, 25));
        assert_eq!(Times::of(&[]), Times::default());
        assert_eq!(Times::of(&times[..1]).p95_ns, 100);
    }
}
