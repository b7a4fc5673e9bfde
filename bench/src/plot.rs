//! A small SVG plot of the rows of a report: horizontal bars of the medians with whiskers from minimum to maximum.
//!
//! Rows that share metric, unit and regime form a panel with an own scale from zero; a bar is one variant at one size. The colour
//! stands for the variant. No library: the plot is text, the same rows give the same bytes, and it opens in any browser.

use std::fmt::Write as _;

use super::page;
use super::report::short;
use super::series::Row;

const WIDTH: f64 = 900.0;
const LABEL: f64 = 250.0;
const RIGHT: f64 = 110.0;
const BAR: f64 = 22.0;
const TITLE: f64 = 44.0;
const COLOURS: [&str; 6] = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"];

/// Draws `rows`; `name` and `commit` go into the heading.
pub(crate) fn svg(name: &str, commit: &str, rows: &[&Row]) -> String {
    let panels = page::groups(rows.iter().copied());
    let height = 50.0 + panels.iter().map(|p| TITLE + BAR * p.len() as f64).sum::<f64>();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut out, 12.0, 24.0, "start", "font-size=\"16\" font-weight=\"bold\"", &format!("anode bench {name}"));
    let subtitle = format!("median of all rounds; whiskers: smallest and largest round; {commit}");
    text(&mut out, WIDTH - 12.0, 24.0, "end", "fill=\"#666\"", &subtitle);
    let variants = variants(rows);
    let mut y = 34.0;
    for panel in panels {
        draw_panel(&mut out, y, &panel, &variants);
        y += TITLE + BAR * panel.len() as f64;
    }
    out.push_str("</svg>\n");
    out
}

fn variants<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.variant.as_str()) {
            names.push(&row.variant);
        }
    }
    names
}

fn draw_panel(out: &mut String, top: f64, panel: &[&Row], variants: &[&str]) {
    let first = panel[0];
    let heading = format!("{} — {} ({})", first.regime, first.metric, first.unit);
    text(out, 12.0, top + 26.0, "start", "font-weight=\"bold\"", &heading);
    let axis = top + TITLE - 8.0;
    let largest = panel.iter().map(|row| row.summary.max).fold(0.0, f64::max);
    let scale = if largest > 0.0 { (WIDTH - LABEL - RIGHT) / largest } else { 0.0 };
    for (i, row) in panel.iter().enumerate() {
        let y = axis + BAR * i as f64;
        let at = |value: f64| LABEL + scale * value;
        let colour = COLOURS[variants.iter().position(|v| *v == row.variant).unwrap_or(0) % COLOURS.len()];
        let label = row.size.map_or(row.variant.clone(), |size| format!("{}, {size} B", row.variant));
        text(out, LABEL - 8.0, y + 14.0, "end", "", &label);
        let s = &row.summary;
        let (width, middle) = (scale * s.median, y + BAR / 2.0 - 1.0);
        let _ = writeln!(
            out,
            "<rect x=\"{LABEL}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"/>",
            y + 2.0,
            BAR - 6.0
        );
        let (low, high) = (at(s.min), at(s.max));
        let _ = writeln!(
            out,
            "<path d=\"M{low:.1} {middle}H{high:.1}M{low:.1} {0}v8M{high:.1} {0}v8\" stroke=\"#222\" fill=\"none\"/>",
            middle - 4.0
        );
        let ratio = row.ratio.iter().find(|(name, _)| **name != row.variant);
        let ratio = ratio.map_or(String::new(), |(_, r)| format!(" ({:.2}×)", r.summary.median));
        text(out, high + 6.0, y + 14.0, "start", "", &format!("{}{ratio}", short(s.median)));
    }
    let bottom = axis + BAR * panel.len() as f64;
    let _ = writeln!(out, "<path d=\"M{LABEL} {axis}V{bottom}\" stroke=\"#222\"/>");
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, more: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {more}>{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{Key, Series};

    fn rows() -> Vec<Row> {
        let mut series = Series::default();
        for (variant, regime) in [("c", "udp"), ("a<b", "udp"), ("c", "packet")] {
            let key =
                Key { variant: variant.into(), size: Some(128), regime: regime.into(), metric: "cost", unit: "ns" };
            for value in [90.0, 100.0, 120.0] {
                series.push(key.clone(), if variant == "c" { value } else { 1.1 * value });
            }
        }
        series.rows(&["c"])
    }

    #[test]
    fn one_bar_and_one_whisker_per_row() {
        let plot = svg("x", "abc", &rows().iter().collect::<Vec<_>>());
        assert_eq!(plot.matches("<rect x=").count(), 3);
        assert_eq!(plot.matches("fill=\"none\"").count(), 3);
        assert_eq!(plot.matches("font-weight=\"bold\">udp").count(), 1);
    }

    #[test]
    fn names_are_escaped() {
        let plot = svg("x", "abc", &rows().iter().collect::<Vec<_>>());
        assert!(plot.contains("a&lt;b") && !plot.contains("a<b"));
    }

    #[test]
    fn nothing_is_drawn_outside_and_no_rows_is_no_panic() {
        assert!(svg("x", "", &[]).ends_with("</svg>\n"));
        let plot = svg("x", "abc", &rows().iter().collect::<Vec<_>>());
        let widest =
            plot.split("width=\"").skip(3).filter_map(|s| s.split('"').next()?.parse::<f64>().ok()).fold(0.0, f64::max);
        assert!(widest <= WIDTH - LABEL - RIGHT, "{widest}");
    }
}
