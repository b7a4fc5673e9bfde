//! `anode bench capture`: what a capture costs the packets of the kernel half.
//!
//! The same node twice under the same flood ([`super::flood`]): nobody captures, and `anode capture` takes all that it
//! tells. The figure is the CPU time of the CPU on which the kernel half works; node and capture have another one. Linux
//! forwarding is measured beside them as the control.

use super::compile::Programs;
use super::flood::{self, Channel, Flood, Rhythm, Stream, Variant};
use super::guests::{Guests, with_role};
use super::node::NodeGateway;
use super::report::Report;
use super::{Error, Settings};

const LINUX: &str = "Linux forwarding";
const OFF: &str = "kernel half";
const ON: &str = "kernel half, captured";

/// Target: CPU time per packet, captured over not.
const RATIO: f64 = 1.5;
const LIMITS: [flood::Limit; 2] = [(ON, "flood, batches of 64", OFF, RATIO), (ON, "fair bursts of 128", OFF, RATIO)];

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let (programs, guests) = (Programs::ready()?, Guests::build()?);
    let kernel = programs.kernel()?;
    // Whoever reads must have its turn while the flood goes on.
    let settings = &Settings { two_cpus: true, ..settings.clone() };
    if let Err(error) = Channel::new(&programs, &kernel, settings.cpus(), Rhythm::Flood) {
        report.note(format!("SKIPPED: {error}."));
        return Ok(());
    }
    let bundles = guests.forwards(1)?;
    let half = |name| NodeGateway::new(name, &bundles).configured(&with_role("sandboxed"), "kernel = true");
    let variants = vec![Variant::linux(LINUX), Variant::node(half(OFF)), Variant::node(half(ON)).captured()];
    let flood = Flood { settings, programs: &programs, kernel: &kernel };
    let all = flood.measure(variants, &streams(settings.quick), &bundles, report)?;
    flood::judge(&all, &LIMITS, report);
    report.rows = all.rows(&[OFF, LINUX]);
    report.note(format!(
        "Under {}. What the capture missed had no room in its ring; to count that is in the figure.",
        programs.scheduling_class()
    ));
    Ok(())
}

/// The busy router, and one that sleeps between bursts, whose capture keeps up.
fn streams(quick: bool) -> Vec<Stream> {
    let sizes: &[usize] = if quick { &[128] } else { &[128, 1500] };
    sizes.iter().flat_map(|size| [Stream::plain(*size, 64), Stream::fair(*size, 128)]).collect()
}
