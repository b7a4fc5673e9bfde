//! The values of a benchmark: one per round for each (variant, size, regime, metric), and the targets.
//!
//! A benchmark pushes values while it runs the variants of a round one after the other; [`Series::rows`] turns them into the
//! rows of the report, with ratios to the baselines paired by round. [`Target::at_most`] and [`Target::at_least`] state what was
//! promised and whether it was kept. Writing files is [`super::report`]'s task.

use std::collections::BTreeMap;

use serde::Serialize;

use super::stats::{Summary, interval_95, paired_ratios};

/// What a series of values measures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    /// The thing measured, e.g. a gateway.
    pub(crate) variant: String,
    /// Bytes of the IP packet; `None` where there is no packet.
    pub(crate) size: Option<u32>,
    /// Circumstances, e.g. `udp, bursts of 128`.
    pub(crate) regime: String,
    /// What is counted, in words.
    pub(crate) metric: &'static str,
    /// Its unit.
    pub(crate) unit: &'static str,
}

/// All values of one benchmark, in the order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct Series {
    entries: Vec<(Key, Vec<f64>)>,
}

/// A paired ratio to a baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    /// Smallest, median and largest ratio of a round.
    #[serde(flatten)]
    pub(crate) summary: Summary,
    /// 95 % bootstrap interval of the median ratio, from five rounds on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval_95: Option<[f64; 2]>,
}

/// A line of the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) variant: String,
    pub(crate) size: Option<u32>,
    pub(crate) regime: String,
    pub(crate) metric: &'static str,
    pub(crate) unit: &'static str,
    /// Rounds behind the figures.
    pub(crate) rounds: usize,
    #[serde(flatten)]
    pub(crate) summary: Summary,
    /// Ratios to the baselines by name.
    pub(crate) ratio: BTreeMap<String, Ratio>,
}

/// A promise and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Target {
    /// What was promised.
    pub(crate) name: String,
    /// What was measured (a median).
    pub(crate) value: f64,
    /// The promised limit.
    pub(crate) limit: f64,
    /// `at most` or `at least`.
    pub(crate) sense: Sense,
    /// Whether it was kept.
    pub(crate) met: bool,
    /// 95 % interval of the value where it lies within 10 % of the limit; it decides there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval_95: Option<[f64; 2]>,
    /// Values behind it.
    pub(crate) rounds: usize,
}

/// On which side of the limit a value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Sense {
    /// The value must not exceed the limit.
    #[serde(rename = "at most")]
    AtMost,
    /// The value must reach the limit.
    #[serde(rename = "at least")]
    AtLeast,
}

impl Series {
    /// Adds the value of one more round.
    pub(crate) fn push(&mut self, key: Key, value: f64) {
        match self.entries.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => self.entries.push((key, vec![value])),
        }
    }

    /// What was measured so far.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// The values of a series, one per round; empty if unknown.
    pub(crate) fn values(&self, key: &Key) -> &[f64] {
        self.entries.iter().find(|(known, _)| known == key).map_or(&[], |(_, values)| values)
    }

    /// The ratios of `variant` to `baseline`, round by round, in the circumstances of `key`.
    pub(crate) fn ratios(&self, key: &Key, variant: &str, baseline: &str) -> Vec<f64> {
        let of = |name: &str| self.values(&Key { variant: name.into(), ..key.clone() });
        paired_ratios(of(variant), of(baseline))
    }

    /// Takes over all series of another collection.
    pub(crate) fn extend(&mut self, other: Series) {
        for (key, values) in other.entries {
            for value in values {
                self.push(key.clone(), value);
            }
        }
    }

    /// The rows of the report, each with its ratio to every other baseline that was measured in the same circumstances.
    pub(crate) fn rows(&self, baselines: &[&str]) -> Vec<Row> {
        let row = |(key, values): &(Key, Vec<f64>)| {
            let others = baselines.iter().filter(|baseline| **baseline != key.variant);
            let ratio = others.filter_map(|baseline| {
                let ratios = self.ratios(key, &key.variant, baseline);
                let summary = Summary::of(&ratios)?;
                Some(((*baseline).into(), Ratio { summary, interval_95: interval_95(&ratios) }))
            });
            Some(Row {
                variant: key.variant.clone(),
                size: key.size,
                regime: key.regime.clone(),
                metric: key.metric,
                unit: key.unit,
                rounds: values.len(),
                summary: Summary::of(values)?,
                ratio: ratio.collect(),
            })
        };
        self.entries.iter().filter_map(row).collect()
    }
}

impl Target {
    /// The median of `values` must not exceed `limit`. Within 10 % of the limit the lower end of the 95 % interval decides.
    pub(crate) fn at_most(name: impl Into<String>, values: &[f64], limit: f64) -> Option<Target> {
        Target::judge(name.into(), values, limit, Sense::AtMost)
    }

    /// The median of `values` must reach `limit`. Within 10 % of the limit the upper end of the 95 % interval decides.
    pub(crate) fn at_least(name: impl Into<String>, values: &[f64], limit: f64) -> Option<Target> {
        Target::judge(name.into(), values, limit, Sense::AtLeast)
    }

    /// No value may exceed `limit`: what is lost once is lost.
    pub(crate) fn never_above(name: impl Into<String>, values: &[f64], limit: f64) -> Option<Target> {
        let value = Summary::of(values)?.max;
        let (name, sense) = (name.into(), Sense::AtMost);
        Some(Target { name, value, limit, sense, met: value <= limit, interval_95: None, rounds: values.len() })
    }

    fn judge(name: String, values: &[f64], limit: f64, sense: Sense) -> Option<Target> {
        let value = Summary::of(values)?.median;
        let close = (value - limit).abs() <= 0.1 * limit.abs();
        let interval_95 = if close { interval_95(values) } else { None };
        let met = match sense {
            Sense::AtMost => interval_95.map_or(value, |[low, _]| low.min(value)) <= limit,
            Sense::AtLeast => interval_95.map_or(value, |[_, high]| high.max(value)) >= limit,
        };
        Some(Target { name, value, limit, sense, met, interval_95, rounds: values.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(variant: &str) -> Key {
        Key { variant: variant.into(), size: Some(128), regime: "r".into(), metric: "m", unit: "ns" }
    }

    #[test]
    fn rows_pair_each_round_with_the_baseline_of_that_round() {
        let mut series = Series::default();
        for (base, other) in [(100.0, 110.0), (200.0, 220.0), (50.0, 55.0)] {
            series.push(key("c"), base);
            series.push(key("node"), other);
        }
        let rows = series.rows(&["c"]);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[1].summary.min, rows[1].summary.median, rows[1].summary.max), (55.0, 110.0, 220.0));
        assert!((rows[1].ratio["c"].summary.min - 1.1).abs() < 1e-9);
        assert!((rows[1].ratio["c"].summary.max - 1.1).abs() < 1e-9);
    }

    #[test]
    fn a_baseline_from_other_circumstances_gives_no_ratio() {
        let mut series = Series::default();
        series.push(Key { regime: "other".into(), ..key("c") }, 1.0);
        series.push(key("node"), 1.0);
        assert!(series.rows(&["c"])[1].ratio.is_empty());
    }

    #[test]
    fn far_from_the_limit_the_median_decides() {
        let far = Target::at_most("x", &[2.0; 9], 1.0).unwrap();
        assert!(!far.met && far.interval_95.is_none());
        assert!(Target::at_least("x", &[2.0; 9], 1.0).unwrap().met);
    }

    #[test]
    fn what_may_never_be_is_judged_by_the_worst_round() {
        let lost = Target::never_above("lost", &[0.0, 0.0, 2.0], 0.0).unwrap();
        assert!(!lost.met && lost.value == 2.0);
        assert!(Target::never_above("lost", &[0.0; 3], 0.0).unwrap().met);
    }

    #[test]
    fn near_the_limit_the_lower_end_of_the_interval_decides() {
        let values: Vec<f64> = (0..30).map(|i| 1.0 + f64::from(i % 5) / 100.0).collect();
        let near = Target::at_most("x", &values, 1.015).unwrap();
        assert!(near.value > near.limit && near.met, "{near:?}");
        assert!(!Target::at_most("x", &values, 0.99).unwrap().met);
    }

    #[test]
    fn json_of_a_row_has_the_documented_fields() {
        let mut series = Series::default();
        series.push(key("c"), 2.0);
        series.push(key("node"), 2.0);
        let json = serde_json::to_value(series.rows(&["c"])).unwrap();
        for field in ["variant", "size", "regime", "metric", "unit", "min", "median", "max"] {
            assert!(!json[0][field].is_null(), "{field}");
        }
        assert_eq!(json[0]["ratio"], serde_json::json!({}), "no ratio to itself");
        assert_eq!(json[1]["ratio"]["c"], serde_json::json!({"min": 1.0, "median": 1.0, "max": 1.0}));
    }
}
