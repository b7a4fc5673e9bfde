//! `anode bench operations`: what operators do with a running node, and what that costs packets. Example: one changed
//! limit of a thousand roles, until it holds.
//!
//! Each part is a file here and a row of the table. A part starts its own node as a process, does what an operator would do
//! by the command line, and looks at the counters behind it: a fast refusal is no result.

mod apply;
mod client;
mod interfaces;
mod routes;

use super::report::Report;
use super::schedule::observed;
use super::series::{Key, Series};
use super::{Error, Settings};

/// A part: its name, and what measures it and states its targets.
type Part = (&'static str, fn(&Settings, &mut Report) -> Result<Series, Error>);

/// All parts, one after the other.
const PARTS: [Part; 4] = [
    ("configurations", apply::run),
    ("observation", observed::run),
    ("routes", routes::run),
    ("interfaces", interfaces::run),
];

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let mut all = Series::default();
    for (_, part) in PARTS {
        all.extend(part(settings, report)?);
    }
    report.rows = all.rows(&[]);
    Ok(())
}

/// What a part counts of one thing that operators do.
fn key(part: &str, variant: &str, metric: &'static str, unit: &'static str) -> Key {
    Key { variant: variant.into(), size: None, regime: part.into(), metric, unit }
}
