//! Two builds of anode compared: `anode bench NAME --against BINARY`.
//!
//! This build and the other take turns. Each turn is a fresh process that runs one round of every comparison of the benchmark
//! (`--once ROUND`) and prints its report as JSON. So neither the layout of a process in memory nor a drift of the machine sticks
//! to a build, and what a process sets up before its round is in no figure. Rows are paired by variant, size, regime and metric,
//! round by round; the result is the ratio this/other of each. Rows that nothing changed, as those of plain C, are the control: 1.00.
//!
//! What is no comparison is refused: another benchmark, another definition of it, another unit of a row. Rows that only one of
//! the two has are listed. The result itself is [`result`]'s.

mod result;

use std::path::Path;

use super::fresh::Turn;
use super::{Bench, Error, Settings};
pub(crate) use result::Comparison;

/// Runs `settings.round_count` rounds of `bench` with both builds in turn.
pub(crate) fn run(bench: &Bench, settings: &Settings, other: &Path) -> Result<Comparison, Error> {
    let (own, other) = (Turn::of_this_build(bench, settings)?, Turn::of(other.to_owned(), bench, settings));
    let mut comparison = Comparison::new(bench, result::digest(&own.binary)?, result::digest(&other.binary)?);
    settings.rounds(&format!("{} / {}", bench.name, other.binary.display()), |round| {
        // The other one first: if it cannot take part, that is known before anything else is measured.
        let there = other.round(round)?;
        let refused = |why| Error::Against { binary: other.binary.clone(), why };
        there.belongs_to(bench).map_err(refused)?;
        let here = own.round(round)?;
        comparison.add(&here, &there).map_err(refused)
    })?;
    comparison.finish();
    Ok(comparison)
}

#[cfg(test)]
mod tests {
    use super::super::fresh::Round;
    use super::*;

    fn round(bench: &str, definition: u32, rows: &[(&str, &str, f64)]) -> Round {
        let rows: Vec<serde_json::Value> = rows
            .iter()
            .map(|(variant, unit, median)| {
                serde_json::json!({"variant": variant, "size": 128, "regime": "r", "metric": "m", "unit": unit,
                    "rounds": 1, "min": median, "median": median, "max": median, "ratio": {}})
            })
            .collect();
        let report = serde_json::json!({"bench": bench, "definition": definition, "commit": "c", "command": "x",
            "environment": {"anode": "0.1.0"}, "rows": rows, "targets": [], "notes": ["a note"]});
        Round::parse(report.to_string().as_bytes()).unwrap()
    }

    fn bench() -> &'static Bench {
        Bench::of("method").unwrap()
    }

    fn comparison(rounds: &[(Round, Round)]) -> Result<Comparison, String> {
        let mut comparison = Comparison::new(bench(), "aa".into(), "bb".into());
        for (here, there) in rounds {
            comparison.add(here, there)?;
        }
        comparison.finish();
        Ok(comparison)
    }

    #[test]
    fn rows_are_paired_round_by_round() {
        // The machine is twice as slow in the second round; the ratio is 1.1 in both.
        let pair = |slow: f64| {
            let of = |value| round("method", 1, &[("node", "ns", value * slow)]);
            (of(110.0), of(100.0))
        };
        let compared = comparison(&[1.0, 2.0, 1.0, 2.0, 1.0].map(pair)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&compared.json()).unwrap();
        let row = &json["rows"][0];
        assert_eq!((row["variant"].as_str(), row["rounds"].as_u64()), (Some("node"), Some(5)));
        for end in ["min", "median", "max"] {
            assert!((row["ratio"][end].as_f64().unwrap() - 1.1).abs() < 1e-9, "{row}");
        }
        assert!((row["ratio"]["interval_95"][0].as_f64().unwrap() - 1.1).abs() < 1e-9, "{row}");
        assert_eq!(row["this"]["median"], 110.0);
        assert_eq!(row["other"]["max"], 200.0);
        assert!(
            compared.markdown().contains("| r | 128 | m | node | 110 | 100 | ns | 5 | 1.100 … **1.100** … 1.100 |")
        );
        assert!(compared.markdown().contains("- a note"));
    }

    #[test]
    fn rows_of_one_build_alone_are_listed_and_have_no_ratio() {
        let here = round("method", 1, &[("both", "ns", 1.0), ("new", "ns", 1.0)]);
        let there = round("method", 1, &[("both", "ns", 1.0), ("old", "ns", 1.0)]);
        let compared = comparison(&[(here, there)]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&compared.json()).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), 1);
        assert!(json["only_this"][0].as_str().unwrap().contains("new"), "{json}");
        assert!(json["only_other"][0].as_str().unwrap().contains("old"), "{json}");
        assert!(compared.markdown().contains("Only this build has: r, 128, m, new"));
    }

    #[test]
    fn a_row_with_another_unit_is_refused() {
        let (here, there) = (round("method", 1, &[("a", "ns", 1.0)]), round("method", 1, &[("a", "µs", 1.0)]));
        let why = comparison(&[(here, there)]).unwrap_err();
        assert!(why.contains("µs") && why.contains("ns"), "{why}");
    }

    #[test]
    fn another_definition_or_benchmark_is_refused() {
        let definition = bench().definition;
        assert!(round("method", definition, &[]).belongs_to(bench()).is_ok());
        assert!(round("method", definition + 1, &[]).belongs_to(bench()).unwrap_err().contains("definition"));
        assert!(round("plan", 1, &[]).belongs_to(bench()).unwrap_err().contains("plan"));
    }

    #[test]
    fn a_row_that_is_zero_in_the_other_build_has_figures_but_no_ratio() {
        let of = |value| round("method", 1, &[("a", "1", value)]);
        let json = comparison(&[(of(1.0), of(0.0))]).unwrap().json();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(json["rows"][0]["ratio"].is_null() && json["rows"][0]["this"]["median"] == 1.0, "{json}");
    }

    #[test]
    fn what_is_no_report_is_refused() {
        assert!(Round::parse(b"hello").unwrap_err().contains("--once"));
    }

    #[test]
    fn both_builds_are_asked_for_the_same() {
        let settings = Settings { two_cpus: true, ..Settings::quiet(5) };
        assert_eq!(Turn::of("x".into(), bench(), &settings).arguments, ["bench", "method", "--quick", "--two-cpus"]);
    }
}
