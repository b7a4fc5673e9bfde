//! Statistics of interleaved rounds: minimum, median, maximum, paired ratios, and bootstrap intervals.
//!
//! One value per round and variant comes in from [`super::series`]; what a table prints goes out. Ratios are always
//! paired: value of a variant over value of the baseline *in the same round*, so that whatever slowed a round down
//! slowed both. Intervals are percentile bootstraps (Efron 1979) of the median, from a fixed seed: the same rounds
//! give the same interval. Nothing here reads a clock or prints.

use rand_core::Rng;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// Resamples behind each interval.
const RESAMPLES: usize = 2000;
const SEED: u64 = 0x61_6e6f_6465;

/// Smallest, middle and largest of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// Smallest value.
    pub(crate) min: f64,
    /// Median; of an even number of values the mean of the middle two.
    pub(crate) median: f64,
    /// Largest value.
    pub(crate) max: f64,
}

impl Summary {
    /// Summarises `values`; `None` if there are none or one is not a number.
    pub(crate) fn of(values: &[f64]) -> Option<Summary> {
        if values.is_empty() || values.iter().any(|v| v.is_nan()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Summary { min: sorted[0], median: median_of_sorted(&sorted), max: sorted[sorted.len() - 1] })
    }
}

/// Ratios of `values` to `baseline`, round by round; rounds that only one of them has, or whose baseline is 0, are left out.
pub(crate) fn paired_ratios(values: &[f64], baseline: &[f64]) -> Vec<f64> {
    values.iter().zip(baseline).filter(|(_, b)| **b != 0.0).map(|(v, b)| v / b).collect()
}

/// The 95 % bootstrap interval of the median, `[low, high]`; `None` below five values.
pub(crate) fn interval_95(values: &[f64]) -> Option<[f64; 2]> {
    (values.len() >= 5).then(|| percentiles(&resampled_medians(values, values.len())))
}

/// The fewest rounds after which the 95 % interval of the median reaches at most `tolerance` to either side, judged by
/// drawing that many rounds from `values`; `None` if 1000 rounds do not suffice or there are under five values.
pub(crate) fn rounds_needed(values: &[f64], tolerance: f64) -> Option<usize> {
    if values.len() < 5 {
        return None;
    }
    let wide = |rounds: &usize| {
        let [low, high] = percentiles(&resampled_medians(values, *rounds));
        (high - low) / 2.0 <= tolerance
    };
    (1..20).chain((20..=1000).step_by(20)).find(wide)
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Medians of samples of `size` values drawn with replacement, sorted.
fn resampled_medians(values: &[f64], size: usize) -> Vec<f64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut sample = vec![0.0; size];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            for slot in &mut sample {
                *slot = values[(random.next_u64() % values.len() as u64) as usize];
            }
            sample.sort_by(f64::total_cmp);
            median_of_sorted(&sample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    medians
}

fn percentiles(sorted: &[f64]) -> [f64; 2] {
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    [at(0.025), at(0.975)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_odd_and_even_counts() {
        assert_eq!(Summary::of(&[3.0, 1.0, 2.0]), Some(Summary { min: 1.0, median: 2.0, max: 3.0 }));
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).map(|s| s.median), Some(2.5));
    }

    #[test]
    fn summary_of_nothing_or_nan_is_none() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn ratios_are_paired_by_round() {
        // Both rounds have ratio 2 although the medians of the two series differ by another factor.
        assert_eq!(paired_ratios(&[2.0, 20.0], &[1.0, 10.0]), [2.0, 2.0]);
    }

    #[test]
    fn unpaired_and_zero_rounds_are_left_out() {
        assert_eq!(paired_ratios(&[2.0, 3.0, 4.0], &[0.0, 3.0]), [1.0]);
    }

    #[test]
    fn interval_holds_the_median_and_is_repeatable() {
        let values: Vec<f64> = (0..40).map(|i| 1.0 + f64::from(i % 7) / 100.0).collect();
        let [low, high] = interval_95(&values).unwrap();
        let median = Summary::of(&values).unwrap().median;
        assert!(low <= median && median <= high && high - low < 0.04, "{low} {median} {high}");
        assert_eq!(interval_95(&values), Some([low, high]));
    }

    #[test]
    fn interval_covers_the_true_median_of_most_samples() {
        // 200 samples of 30 uniform values: a 95 % interval must hold the true median 0.5 nearly always.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let covered = (0..200)
            .filter(|_| {
                let sample: Vec<f64> =
                    (0..30).map(|_| (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64).collect();
                let [low, high] = interval_95(&sample).unwrap();
                low <= 0.5 && 0.5 <= high
            })
            .count();
        assert!((180..=200).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn constant_values_have_an_interval_of_width_zero() {
        assert_eq!(interval_95(&[1.0; 5]), Some([1.0, 1.0]));
        assert_eq!(interval_95(&[1.0; 4]), None);
    }

    #[test]
    fn noisier_rounds_need_more_of_them() {
        let spread = |s: f64| (0..30).map(|i| 1.0 + s * (f64::from(i) / 29.0 - 0.5)).collect::<Vec<f64>>();
        let (quiet, noisy) = (rounds_needed(&spread(0.01), 0.03), rounds_needed(&spread(0.4), 0.03));
        assert_eq!(quiet, Some(1));
        assert!(noisy > Some(10), "{noisy:?}");
        assert_eq!(rounds_needed(&[1.0, 2.0], 0.03), None);
    }
}
