//! `anode bench graphs`: graphs of engines in Click's language, in user space and in the kernel.
//!
//! Example: what one engine more costs a packet that passes ten.
//!
//! ```text
//! in this process   engines   a hop, one by one and in batches; the IP path of seven engines; a thousand engines checked and made
//! a node            edits     a graph becomes another one of ten engines while packets pass: how long that takes, lost, mixed
//! two nodes         remote    the same with engines at the other node: how long that takes, lost, mixed
//! nodes, XDP        kernel    from entry to exit in the kernel, ten engines more, and the router below
//! nodes, XDP        up        a packet from the program in the kernel to an engine in user space
//! nodes, Click      router    the published IP router, sixteen engines on a packet's way, over AF_PACKET
//! ```
//!
//! Click's user-level binary takes its turns in the last part where the variable CLICK has a path to it.

mod edits;
mod engines;
mod kernel;
mod remote;
mod router;
mod up;

use super::report::Report;
use super::series::{Key, Series};
use super::{Error, Settings};

/// A part: what measures it and states its targets.
type Part = fn(&Settings, &mut Report) -> Result<Series, Error>;

/// All parts, one after the other.
const PARTS: [Part; 6] = [engines::run, edits::run, remote::run, kernel::run, up::run, router::run];

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let mut all = Series::default();
    for part in PARTS {
        match part(settings, report) {
            Ok(series) => all.extend(series),
            Err(Error::NoNamespace) => report.note(format!("SKIPPED what needs namespaces: {}.", Error::NoNamespace)),
            Err(error) => return Err(error),
        }
    }
    report.rows = all.rows(&[router::CLICK, router::PLAIN, kernel::BY_HAND]);
    Ok(())
}

/// What a part counts of one thing.
fn key(regime: &str, variant: &str, metric: &'static str, unit: &'static str) -> Key {
    Key { variant: variant.into(), size: None, regime: regime.into(), metric, unit }
}

/// The role of graphs of nodes.
const ROLE: &str =
    "[[role]]\nname = \"graphs\"\ngrants = { channels = 16, bandwidth = 10_000_000_000, memory_bytes = 67_108_864 }\n";
