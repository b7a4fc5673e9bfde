//! `anode bench children`: the cost of a packet that leaves as several copies, each to another destination.
//!
//! Nodes do it in the kernel half, and over AF_XDP in the user half: a capsule sends all but the last of its children by `an_send`
//! and goes on itself. The others are prototypes in the kernel (`bench/c/children.bpf.c`): a broadcast to a device map with a program
//! behind it that edits each copy, and clones in tcx. No code of a capsule runs in front of those: what it costs comes once for each
//! packet that came in.
//!
//! One copy is there of code that cannot send and of code that could: that runs on a copy of its window, and there is a program behind
//! every way out. In fair bursts all take turns; a process would not get its turn in a flood, so the ways in the kernel are there alone.

use super::compile::Programs;
use super::flood::{Flood, ROUTER_AND_NODE_CPU, Stream, Variant};
use super::gateway::TOTAL_CPU;
use super::guests::{Guests, sending, with_role};
use super::node::NodeGateway;
use super::report::Report;
use super::{Error, Settings};

const BASE: &str = "dropped at ingress";
/// The baseline: one copy, as an XDP forwarder sends it.
const ONE: &str = "one copy, XDP with next-hop cache";
/// The other baseline: one copy by the user half.
const USER_ONE: &str = "one copy, user half over AF_XDP";
const HALF_ONE: &str = "one copy, kernel half";
const HALF_COULD: &str = "one copy, kernel half, code that could send";
const HALF: [&str; 2] = ["2 children, kernel half", "4 children, kernel half"];
const USER: [&str; 2] = ["2 children, user half over AF_XDP", "4 children, user half over AF_XDP"];
const BROADCAST: [&str; 2] = ["2 children, XDP broadcast", "4 children, XDP broadcast"];
const MARKS: [&str; 2] = ["2 children, tcx clones with marks", "4 children, tcx clones with marks"];
const EDITS: [&str; 2] = ["2 children, tcx clones of edited", "4 children, tcx clones of edited"];
const COUNTS: [u32; 2] = [2, 4];

/// Frames that come in at once: four copies of each still fit into the ring of a veth interface.
const BATCH: u32 = 32;

/// Runs the benchmark.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let programs = Programs::ready()?;
    let kernel = programs.kernel()?;
    let forward = Guests::build()?.forwards(1)?;
    let codes = [sending(COUNTS[0])?, sending(COUNTS[1])?].map(|bundle| [bundle]);
    let user = |name, bundles| NodeGateway::new(name, bundles).configured(&with_role("sandboxed"), "xdp = true");
    let half = |name, bundles| NodeGateway::new(name, bundles).configured(&with_role("sandboxed"), "kernel = true");
    let could = [sending(1)?];
    let mut variants = vec![
        Variant::xdp(BASE, &kernel, "drop"),
        Variant::xdp(ONE, &kernel, "cache"),
        Variant::node_with_children(user(USER_ONE, &forward), 1),
        Variant::node(half(HALF_ONE, &forward)),
        Variant::node(half(HALF_COULD, &could)),
    ];
    for (at, (count, bundles)) in COUNTS.into_iter().zip(&codes).enumerate() {
        variants.push(Variant::kernel_with_children(half(HALF[at], bundles), count));
        variants.push(Variant::children(BROADCAST[at], &kernel, "broadcast", count));
        variants.push(Variant::children(MARKS[at], &kernel, "marks", count));
        if !settings.quick {
            variants.push(Variant::children(EDITS[at], &kernel, "edits", count));
        }
        variants.push(Variant::node_with_children(user(USER[at], bundles), count));
    }
    let flood = Flood { settings, programs: &programs, kernel: &kernel };
    let all = flood.measure(variants, &streams(settings.quick), &forward, report)?;
    report.rows = all.rows(&[ONE, USER_ONE, HALF_ONE]);
    report.note(format!(
        "Figures are per packet that left: {TOTAL_CPU:?} in floods, {ROUTER_AND_NODE_CPU:?} in fair bursts. Nothing that decides \
         about children is in those of the kernel."
    ));
    Ok(())
}

fn streams(quick: bool) -> Vec<Stream> {
    let sizes: &[usize] = if quick { &[128] } else { &[128, 1500] };
    let both = |size: &usize| [Stream::plain(*size, BATCH).copied(), Stream::fair(*size, BATCH).copied()];
    sizes.iter().flat_map(both).collect()
}
