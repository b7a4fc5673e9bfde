//! The page of a report for people: a table for each regime.
//!
//! The first metric of a regime is its subject. Metrics that only [explain](EXPLAINING) it are in the raw result alone,
//! as are metrics without differences. A line is a variant, a column a size; a cell is the median, with its ratio to
//! the first baseline of the regime.

use std::fmt::Write as _;

use super::gateway::{BURST_TIME, SHARE, TOTAL_CPU, WAKE_UPS};
use super::report::short;
use super::series::Row;

/// Metrics that say why another one is what it is.
const EXPLAINING: [&str; 7] = [
    BURST_TIME,
    SHARE,
    TOTAL_CPU,
    WAKE_UPS,
    "CPU per packet beyond ingress, sink included",
    "offered",
    "share that Linux forwarded",
];

/// Bars of a figure, at most.
const BARS: usize = 60;

/// Rows that share regime, metric and unit, in the order of first appearance.
pub(crate) fn groups<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Vec<&'a Row>> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    let same = |a: &Row, b: &Row| (a.metric, a.unit, &a.regime) == (b.metric, b.unit, &b.regime);
    for row in rows {
        match groups.iter_mut().find(|group| same(group[0], row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// Those in which something differs, without what explains others.
fn read(rows: &[Row]) -> Vec<Vec<&Row>> {
    let all = groups(rows);
    let firsts = first_metrics(&all);
    let differs = |group: &[&Row]| group.iter().any(|r| short(r.summary.median) != short(group[0].summary.median));
    let told = |(group, first): &(Vec<&Row>, &str)| {
        let about = group[0].metric == *first || !EXPLAINING.contains(&group[0].metric);
        about && (group.len() == 1 || differs(group))
    };
    all.into_iter().zip(firsts).filter(told).map(|(group, _)| group).collect()
}

/// For each group the metric that its regime began with.
fn first_metrics<'a>(all: &[Vec<&'a Row>]) -> Vec<&'a str> {
    let first = |group: &Vec<&Row>| all.iter().find(|other| other[0].regime == group[0].regime).map(|g| g[0].metric);
    all.iter().map(|group| first(group).unwrap_or_default()).collect()
}

/// What a figure shows: of each regime its first metric at its smallest size, as many as fit.
pub(crate) fn drawn(rows: &[Row]) -> Vec<&Row> {
    let mut regimes: Vec<&str> = Vec::new();
    let mut drawn = Vec::new();
    for group in read(rows) {
        let smallest = group.iter().map(|row| row.size).min().flatten();
        let bars: Vec<&Row> = group.into_iter().filter(|row| row.size == smallest || row.size.is_none()).collect();
        let known = bars.first().is_none_or(|row| regimes.contains(&row.regime.as_str()));
        if !known && drawn.len() + bars.len() <= BARS {
            regimes.push(&bars[0].regime);
            drawn.extend(bars);
        }
    }
    drawn
}

/// The tables, and how many figures they leave out.
pub(crate) fn tables(rows: &[Row]) -> String {
    let told = read(rows);
    let mut page = String::new();
    for group in &told {
        table(&mut page, group);
    }
    let shown: usize = told.iter().map(Vec::len).sum();
    let rounds = |pick: fn(usize, usize) -> usize| rows.iter().map(|row| row.rounds).reduce(pick).unwrap_or_default();
    let rounds = match (rounds(usize::min), rounds(usize::max)) {
        (fewest, most) if fewest < most => format!("{fewest} to {most}"),
        (_, most) => most.to_string(),
    };
    let _ = writeln!(page, "{shown} of {} rows, each of {rounds} rounds.\n", rows.len());
    page
}

fn table(page: &mut String, group: &[&Row]) {
    let first = group[0];
    let mut sizes: Vec<Option<u32>> = group.iter().map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let baseline = group.iter().map(|row| &row.variant).find(|name| group.iter().any(|r| r.ratio.contains_key(*name)));
    let _ = writeln!(page, "**{}**: {}, {}", first.regime, first.metric, first.unit);
    if let Some(baseline) = baseline {
        let _ = writeln!(page, "(beside it the ratio to *{baseline}*: median, smallest … largest of a round)");
    }
    let heads: Vec<String> =
        sizes.iter().map(|size| size.map_or("median".into(), |size| format!("{size} B"))).collect();
    let _ = writeln!(page, "\n| | {} |\n|---|{}", heads.join(" | "), "---|".repeat(sizes.len()));
    let mut variants: Vec<&str> = Vec::new();
    for row in group {
        if variants.contains(&row.variant.as_str()) {
            continue;
        }
        variants.push(&row.variant);
        let at = |size: &Option<u32>| group.iter().find(|other| other.variant == row.variant && other.size == *size);
        let cells: Vec<String> =
            sizes.iter().map(|size| at(size).map_or("–".into(), |row| cell(row, baseline))).collect();
        let _ = writeln!(page, "| {} | {} |", row.variant, cells.join(" | "));
    }
    page.push('\n');
}

/// A median with its ratio, or with its spread if it has none.
fn cell(row: &Row, baseline: Option<&String>) -> String {
    let s = &row.summary;
    let two = |value: f64| format!("{value:.2}");
    match baseline.and_then(|baseline| row.ratio.get(baseline)) {
        Some(ratio) => {
            let r = &ratio.summary;
            format!("{} · **{}**, {} … {}", short(s.median), two(r.median), two(r.min), two(r.max))
        }
        None => format!("{} ({} … {})", short(s.median), short(s.min), short(s.max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{Key, Series};

    fn rows() -> Vec<Row> {
        let mut series = Series::default();
        for (variant, cost) in [("plain C", 100.0), ("node", 90.0)] {
            for (size, metric, value) in [
                (128, "cost", cost),
                (1500, "cost", 2.0 * cost),
                (128, SHARE, 1.0),
                (128, WAKE_UPS, cost),
                (128, "speed", cost),
            ] {
                let key = Key { variant: variant.into(), size: Some(size), regime: "udp".into(), metric, unit: "ns" };
                for part in [0.9, 1.0, 1.1] {
                    series.push(key.clone(), if metric == SHARE { 1.0 } else { value * part });
                }
            }
        }
        series.rows(&["plain C"])
    }

    #[test]
    fn a_line_is_a_variant_and_a_column_a_size() {
        let page = tables(&rows());
        assert!(page.contains("**udp**: cost, ns\n(beside it the ratio to *plain C*"), "{page}");
        assert!(page.contains("| | 128 B | 1500 B |\n|---|---|---|\n"), "{page}");
        assert!(page.contains("| plain C | 100 (90.0 … 110) | 200 (180 … 220) |"), "{page}");
        assert!(page.contains("| node | 90.0 · **0.90**, 0.90 … 0.90 | 180 · **0.90**"), "{page}");
    }

    #[test]
    fn what_explains_or_does_not_differ_is_left_out_and_counted() {
        let page = tables(&rows());
        assert!(page.contains(": speed, ns") && !page.contains(SHARE) && !page.contains(WAKE_UPS), "{page}");
        assert!(page.contains("6 of 10 rows, each of 3 rounds"), "{page}");
    }

    #[test]
    fn a_figure_has_what_a_regime_is_about_at_its_smallest_size_and_is_small() {
        let all = rows();
        let shown = drawn(&all);
        assert!(shown.len() == 2 && shown.iter().all(|row| row.size == Some(128) && row.metric == "cost"));
        let many: Vec<Row> = (0..BARS)
            .flat_map(|at| all.iter().cloned().map(move |row| Row { regime: at.to_string(), ..row }))
            .collect();
        assert_eq!(drawn(&many).len(), BARS);
    }
}
