//! Counters as text for Prometheus, in the form of OpenMetrics 1.0 or in the classic one (text format 0.0.4).
//!
//! Both say the same. They differ in whether the family of a counter is called with `_total`, and in the end. Each family is a row of
//! [`super::families`]. Series are bounded: those that find no place are counted in a series of their own, and rows that are few come
//! first. Names of others are cleaned as everywhere, and escaped in labels.

use super::families::FAMILIES;
use crate::clean;
use crate::manage::control::Handle;
use crate::manage::management::EnvironmentStatus;
use crate::node::domains::DomainStatus;
use model::status::{Metrics, Status};
use std::fmt::Write as _;

/// Series of one text, at most.
pub const SERIES_MAX: u64 = 8192;

/// The end of the names of counters.
pub const TOTAL: &str = "_total";

/// What a family measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Something that only grows.
    Counter,
    /// Something that is as it is.
    Gauge,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// A whole one.
    Whole(u64),
    /// Nanoseconds, which are shown as seconds.
    Nanoseconds(u64),
    /// Thousandths, which are shown as a share of 1.
    Thousandths(u64),
}

/// All that families look at.
pub struct Counted<'a> {
    /// The counter tree.
    pub status: &'a Status,
    /// The domains.
    pub domains: &'a [DomainStatus],
    /// The environments of the configuration.
    pub environments: &'a [EnvironmentStatus],
}

/// Takes a series: the values of its labels, and its number.
type SeriesTaker<'a> = dyn FnMut(&[&str], Number) + 'a;

/// A family of series.
pub struct Family {
    /// Its name; that of a counter ends with `_total`.
    pub name: &'static str,
    /// What it measures.
    pub measure: Measure,
    /// In words.
    pub help: &'static str,
    /// Labels of each of its series, beside the node's.
    pub labels: &'static [&'static str],
    /// Hands over each of its series, its labels in that order.
    pub series: fn(&Counted<'_>, &mut SeriesTaker<'_>),
}

/// A text under way.
struct Text {
    text: String,
    node: String,
    classic: bool,
    series: u64,
    left_out: u64,
}

impl Text {
    fn family(&mut self, family: &Family, counted: &Counted<'_>) {
        let (name, measure) = (family.name, if family.measure == Measure::Counter { "counter" } else { "gauge" });
        // The classic form knows a counter by the name of its series.
        let called = if self.classic { name } else { name.strip_suffix(TOTAL).unwrap_or(name) };
        let begun = self.text.len();
        // Writing to a text does not fail.
        let _ = writeln!(self.text, "# HELP {called} {}", family.help);
        let _ = writeln!(self.text, "# TYPE {called} {measure}");
        let before = self.series;
        (family.series)(counted, &mut |values, number| {
            if self.series >= SERIES_MAX {
                self.left_out += 1;
                return;
            }
            self.series += 1;
            let _ = write!(self.text, "{name}{{node=\"{}\"", self.node);
            for (label, value) in family.labels.iter().zip(values) {
                let _ = write!(self.text, ",{label}=\"");
                escape(&mut self.text, value);
                self.text.push('"');
            }
            let _ = match number {
                Number::Whole(whole) => writeln!(self.text, "}} {whole}"),
                Number::Nanoseconds(ns) => writeln!(self.text, "}} {}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
                Number::Thousandths(share) => writeln!(self.text, "}} {}.{:03}", share / 1000, share % 1000),
            };
        });
        if self.series == before {
            self.text.truncate(begun);
        }
    }
}

/// The value of a label: clean, and escaped as both forms do.
fn escape(text: &mut String, value: &str) {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
    if plain && value.len() <= clean::SHOWN_MAX {
        return text.push_str(value);
    }
    for c in clean::shown(value).to_string().chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            c => text.push(c),
        }
    }
}

/// The text of all families.
pub fn text(counted: &Counted<'_>, classic: bool) -> Metrics {
    let mut node = String::new();
    escape(&mut node, &counted.status.node);
    let mut text = Text { text: String::new(), node, classic, series: 0, left_out: 0 };
    FAMILIES.iter().for_each(|family| text.family(family, counted));
    let _ = writeln!(
        text.text,
        "# HELP anode_metrics_left_out Series that found no place in this text, which has {SERIES_MAX} at most.\n\
         # TYPE anode_metrics_left_out gauge\n\
         anode_metrics_left_out{{node=\"{}\"}} {}",
        text.node, text.left_out
    );
    if !classic {
        text.text.push_str("# EOF\n");
    }
    Metrics { text: text.text, series: text.series + 1, left_out: text.left_out }
}

impl Handle {
    /// The counters as text.
    pub fn metrics(&self, classic: bool) -> Result<Metrics, String> {
        let (status, snapshot) = self.status_of()?;
        let environments = self.management().map(|management| management.status()).unwrap_or_default();
        let counted = Counted { status: &status, domains: &snapshot.domains, environments: &environments };
        Ok(text(&counted, classic))
    }
}

#[cfg(test)]
mod tests;
