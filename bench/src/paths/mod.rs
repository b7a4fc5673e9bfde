//! `anode bench paths`: ways of packets through the NodeOS beside plain ones (Snow on Silk §5: three paths, 1 to 1400
//! bytes, latency and throughput).

mod active;
mod cut;
pub(crate) mod rate;

use super::series::Series;
use super::settings::{QUICK_ROUNDS_MIN, ROUNDS_MIN, Settings};
use super::{Error, Report};

/// A part: it measures, and adds its targets and notes.
type Part = fn(&Settings, &mut Report) -> Result<Series, Error>;

/// All parts.
const PARTS: &[Part] = &[cut::run, active::run];

/// What others are compared with.
const BASELINES: &[&[&str]] = &[cut::BASELINES, active::BASELINES];

/// Rounds in which the highest rate is searched for: that takes much longer than all else of a round.
fn searches(settings: &Settings) -> usize {
    settings.round_count.div_ceil(2).min(ROUNDS_MIN)
}

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    // There are many circumstances: none has more rounds than the fewest if there is little time.
    let few = Settings { round_count: settings.round_count.min(QUICK_ROUNDS_MIN), ..settings.clone() };
    let settings = if settings.quick { &few } else { settings };
    let mut all = Series::default();
    for part in PARTS {
        all.extend(part(settings, report)?);
    }
    report.rows = all.rows(&BASELINES.concat());
    Ok(())
}
