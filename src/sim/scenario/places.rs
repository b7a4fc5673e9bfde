//! Names and numbers of a scenario, each refused at its place in the file. Example: a node that there is not.

use super::super::SECOND;
use super::super::network::{Line, Network};
use crate::labfile::file::LinkEntry;
use crate::labfile::ground::DELAY_MS;
use crate::labfile::problem::{Result, problem};
use crate::labfile::run::{PartitionFile, Who};
use crate::labfile::{Kind, Topology};
use crate::link::LinkQuality;
use crate::node::Sizes;
use core::fmt;

/// The longest run, in seconds of virtual time.
pub(super) const SECONDS_MAX: f64 = 1e6;

/// Bytes of the largest packet of a simulated link.
const MTU_MAX: u32 = 1944;

/// The links a partition cuts: those named, and those between the island and the rest.
pub(super) fn cut_links(network: &Network, at: usize, partition: &PartitionFile) -> Result<Vec<usize>> {
    let mut named = Vec::new();
    for [a, b] in &partition.links {
        let ends = (number(network, at, a)?, number(network, at, b)?);
        let found = network.links.iter().position(|link| (link.a, link.b) == ends || (link.b, link.a) == ends);
        match found {
            Some(found) => named.push(found),
            None => return unknown(at, "link", format!("{a} - {b}")),
        }
    }
    let mut island = vec![false; network.names.len()];
    for name in &partition.island {
        island[number(network, at, name)?] = true;
    }
    let crossing = network.links.iter().enumerate().filter(|(_, link)| island[link.a] != island[link.b]);
    named.extend(crossing.map(|(at, _)| at));
    named.sort_unstable();
    named.dedup();
    Ok(named)
}

/// The first and the last of the nodes that are at an end of the network; of all nodes if fewer than two are.
pub(super) fn ends(topology: &Topology) -> Option<(String, String)> {
    let names = |hosts: bool| {
        let nodes = topology.nodes.iter().filter(move |node| !hosts || node.kind == Kind::Host);
        nodes.map(|node| node.name.clone())
    };
    let of = |hosts: bool| names(hosts).next().zip(names(hosts).next_back());
    of(true).filter(|(first, last)| first != last).or_else(|| of(false))
}

pub(super) fn number(network: &Network, at: usize, name: &str) -> Result<usize> {
    network.number(name).map_or_else(|| unknown(at, "node", name), Ok)
}

pub(super) fn numbers(network: &Network, at: usize, who: &Who) -> Result<Vec<usize>> {
    match who {
        Who::Nodes(names) => names.iter().map(|name| number(network, at, name)).collect(),
        Who::Word(_) | Who::Default => Ok((0..network.names.len()).collect()),
    }
}

/// What the links of a table are like in the simulator.
pub(super) fn line_of(at: usize, link: &LinkEntry) -> Result<Line> {
    let quality = LinkQuality { delay_ms: link.delay_ms.unwrap_or(DELAY_MS), ..link.quality() };
    if let Err(unfit) = quality.check() {
        return problem(at, format!("{unfit} is out of range"), format!("give {}", unfit.expected));
    }
    if link.mtu() > MTU_MAX {
        return out_of_range(at, "mtu", f64::from(link.mtu()), "at most 1944 bytes for the simulator");
    }
    let carries = link.carries.unwrap_or_default();
    Ok(Line { carries, ..Line::of(&quality, link.mtu()) })
}

/// Sizes as the network has them by default, changed by what the table says.
pub(super) fn sizes(at: usize, changes: toml::Table) -> Result<Sizes> {
    let mut merged = toml::Table::try_from(Network::unlinked(1).sizes).unwrap_or_default();
    merged.extend(changes);
    let read = merged.try_into();
    read.or_else(|error: toml::de::Error| problem(at, error.message(), "docs/node.md lists the keys of sizes"))
}

/// Seconds to nanoseconds.
pub(super) fn time(at: usize, field: &str, seconds: f64) -> Result<u64> {
    if (0.0..=SECONDS_MAX).contains(&seconds) {
        Ok((seconds * SECOND as f64).round() as u64)
    } else {
        out_of_range(at, field, seconds, "a time from 0 to 1000000 seconds")
    }
}

pub(super) fn out_of_range<T>(at: usize, field: &str, found: f64, expected: &str) -> Result<T> {
    problem(at, format!("{field} = {found} is out of range"), format!("give {expected}"))
}

pub(super) fn unknown<T>(at: usize, what: &str, name: impl fmt::Display) -> Result<T> {
    problem(at, format!("there is no {what} '{name}'"), "define it, or correct the name")
}
