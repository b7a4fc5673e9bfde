//! The first rung of active networks: code comes with every capsule and is prepared for it alone.
//!
//! It is a node like all others that never has the code ready: more codes take turns than its table holds, and each
//! capsule names the one that gave way longest ago. So for every capsule the module is read from the store, checked,
//! compiled, run and forgotten. PAN's first rung interpreted byte code; this node has no interpreter, and what it does
//! in its place, compile, is what code of today's sandbox costs that is not kept. The same capsules through a node
//! whose table holds all codes stand beside it: what naming and keeping code saves.

use super::super::compile::Programs;
use super::super::gateway::{Gateway, Load, compare};
use super::super::guests::Guests;
use super::super::node::NodeGateway;
use super::super::place::Place;
use super::super::plain::PlainC;
use super::super::series::Series;
use super::super::{Error, Settings};
use super::{KEPT, LOADED};
use crate::capsules::PLAIN;

/// Codes that take turns, and those that a table holds which is too small for them.
const CODES: u16 = 64;
const TABLE: u16 = 24;
const LOOK_UPS: u32 = 1_000_000;
/// Capsules that are on their way at once: fewer than the table holds.
const BURST: u32 = 8;
/// A packet costs a thousand times as much, so there are fewer.
const PARTS: u32 = 32;

/// Measures this rung with IP packets of these sizes.
pub(super) fn run(settings: &Settings, programs: &Programs, guests: &Guests, sizes: &[usize]) -> Result<Series, Error> {
    let bundles = guests.forwards(CODES)?;
    // Each capsule makes the node look for code, as no neighbour may by default.
    let small = format!("[sizes]\ncodes = {TABLE}\nlook_ups_per_second = {LOOK_UPS}");
    let plain = PlainC::new(programs, PLAIN, 0);
    let kept = NodeGateway::new(KEPT, &bundles);
    let loaded = NodeGateway::new(LOADED, &bundles).configured(&small, "");
    let gateways: [&dyn Gateway; 3] = [&plain, &kept, &loaded];
    let load = |size: &usize| Load { codes: CODES, parts: PARTS, ..Load::new(BURST, guests.packet(*size)) };
    let loads: Vec<Load> = sizes.iter().map(load).collect();
    compare(settings, "udp", &gateways, &loads, &|| Place::udp(programs, settings.cpus()))
}
