//! A whole run in a file: network, codes, traffic, and faults with their times.
//!
//! `docs/sim.md` lists every key. Reading checks all names and numbers, so a parsed scenario can only fail for its
//! code. Nothing here does I/O: the caller brings the text and the bundles.

mod error;
mod file;

use super::network::{Carries, Family, Line, Link, Network};
use super::shape::below;
use super::{Change, SECOND, Simulation, To, Traffic};
use crate::code::bundle::Bundle;
use crate::node::Sizes;
use crate::trust::Roles;
use crate::wire::Digest;
pub use error::Error;
pub use file::CodeFile;
use file::{CrashFile, File, NodeFile, PartitionFile, Topology, TrafficFile, Who, Word};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// The longest run, in seconds of virtual time.
const SECONDS_MAX: f64 = 1e6;

/// The most capsules a second of one sender.
const RATE_MAX: f64 = 1e6;

/// A scenario that was read and checked.
#[derive(Debug)]
pub struct Scenario {
    /// What it shows, for people.
    pub about: String,
    /// Until when traffic flows, in nanoseconds.
    pub duration: u64,
    /// For how long after that packets may still be under way, in nanoseconds.
    pub drain: u64,
    /// The codes it needs.
    pub codes: Vec<CodeFile>,
    topology: Topology,
    family: Family,
    line: Line,
    links: Vec<([String; 2], Line)>,
    ethernet_share: f64,
    node: NodeFile,
    sizes: Option<Sizes>,
    traffic: Vec<TrafficFile>,
    crashes: Vec<CrashFile>,
    partitions: Vec<PartitionFile>,
}

impl Scenario {
    /// Reads a scenario.
    pub fn parse(text: &str) -> Result<Scenario, Error> {
        let file: File = toml::from_str(text)?;
        let line: Line = file.line.clone().try_into()?;
        let links = file.link.into_iter().map(|link| line_of(&file.line, link)).collect::<Result<_, _>>()?;
        let scenario = Scenario {
            about: file.about,
            duration: time("duration_s", file.duration_s)?,
            drain: time("drain_s", file.drain_s)?,
            codes: file.code,
            topology: Topology::try_from(file.topology)?,
            family: file.family,
            line,
            links,
            ethernet_share: file.ethernet_share,
            sizes: file.node.sizes.clone().map(sizes).transpose()?,
            node: file.node,
            traffic: file.traffic,
            crashes: file.crash,
            partitions: file.partition,
        };
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), Error> {
        if !(0.0..=1.0).contains(&self.ethernet_share) {
            return out_of_range("ethernet_share", self.ethernet_share, "a share from 0 to 1");
        }
        if matches!(self.topology, Topology::Shape(_)) && !self.links.is_empty() {
            let remedy = "[[link]] goes with a list of nodes: write [topology] nodes = [...], or leave it out";
            return Err(Error::Contradiction { remedy });
        }
        let network = self.network(0)?;
        for traffic in &self.traffic {
            if !self.codes.iter().any(|code| code.name == traffic.code) {
                return Err(Error::Unknown { what: "code", name: traffic.code.clone() });
            }
            if !(traffic.per_second > 0.0 && traffic.per_second <= RATE_MAX) {
                return out_of_range("per_second", traffic.per_second, "more than 0 and at most 1000000");
            }
            self.traffic_of(&network, traffic, Digest([0; 32]))?;
        }
        for code in &self.codes {
            numbers(&network, &code.at)?;
        }
        self.changes(&network).map(drop)
    }

    /// The network; `seed` chooses random links.
    pub fn network(&self, seed: u64) -> Result<Network, Error> {
        let mut network = match &self.topology {
            Topology::Shape(shape) => Network::new(*shape, self.line, seed).map_err(Error::Network)?,
            Topology::List(list) => {
                let mut network = Network::unlinked(list.nodes.len());
                network.names.clone_from(&list.nodes);
                for ([a, b], line) in &self.links {
                    let (a, b) = (number(&network, a)?, number(&network, b)?);
                    network.links.push(Link { a, b, line: *line });
                }
                network
            }
        };
        if self.ethernet_share > 0.0 {
            let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xe7);
            for link in &mut network.links {
                if (below(rng, 1 << 20) as f64) < self.ethernet_share * f64::from(1 << 20) {
                    link.line.carries = Carries::Ethernet;
                }
            }
        }
        network.family = self.family;
        network.sizes = self.sizes.unwrap_or(network.sizes);
        network.ceiling.unsigned = self.node.bound_max.unwrap_or(network.ceiling.unsigned);
        network.ceiling.signed = self.node.signed_bound_max.unwrap_or(network.ceiling.signed);
        if let Some(limits) = self.node.anyone {
            network.roles = Roles::of_anyone(limits).into();
        }
        if let Some(ms) = self.node.prepare_ms {
            network.prepare_ns = time("prepare_ms", ms / 1000.0)?;
        }
        if let Some(ms) = self.node.look_up_ms {
            network.look_up_ns = time("look_up_ms", ms / 1000.0)?;
        }
        network.check().map_err(Error::Network)?;
        Ok(network)
    }

    /// The simulation at time 0, with everything planned. `load` brings the bundle of a code.
    pub fn simulation(
        &self,
        seed: u64,
        mut load: impl FnMut(&CodeFile) -> Result<Bundle, String>,
    ) -> Result<Simulation, Error> {
        let mut simulation = Simulation::new(self.network(seed)?, seed).map_err(Error::Network)?;
        let network = simulation.network().clone();
        let mut bundles = BTreeMap::new();
        for code in &self.codes {
            let bundle = load(code).map_err(|cause| Error::Code { file: code.file.clone(), cause })?;
            bundles.insert(code.name.as_str(), bundle);
        }
        for traffic in &self.traffic {
            let Some(bundle) = bundles.get(traffic.code.as_str()) else { continue };
            let planned = self.traffic_of(&network, traffic, bundle.name())?;
            let everywhere = (0..network.names.len()).collect();
            for node in if planned.to == To::Random { everywhere } else { receivers(&planned) } {
                simulation.open(node, traffic.port);
            }
            // Replies come back to the senders' port of the same number.
            for &node in &planned.from {
                simulation.open(node, traffic.port);
            }
            simulation.add_traffic(planned);
        }
        for code in &self.codes {
            let Some(bundle) = bundles.get(code.name.as_str()) else { continue };
            for node in self.holders(&network, code)? {
                simulation.add_code(node, bundle);
            }
        }
        for (at, change) in self.changes(&network)? {
            simulation.change_at(at, change);
        }
        Ok(simulation)
    }

    /// Where a code is from the start.
    fn holders(&self, network: &Network, code: &CodeFile) -> Result<Vec<usize>, Error> {
        if !matches!(code.at, Who::Default) {
            return numbers(network, &code.at);
        }
        let mut senders = Vec::new();
        for traffic in self.traffic.iter().filter(|traffic| traffic.code == code.name) {
            senders.extend(numbers(network, &traffic.from)?);
        }
        senders.sort_unstable();
        senders.dedup();
        Ok(senders)
    }

    fn traffic_of(&self, network: &Network, file: &TrafficFile, code: Digest) -> Result<Traffic, Error> {
        let payload = match &file.payload_hex {
            Some(text) => {
                hex::decode(text).map_err(|_| Error::Unknown { what: "hexadecimal payload", name: text.clone() })?
            }
            None if file.payload_bytes > 1400 => {
                return out_of_range("payload_bytes", file.payload_bytes as f64, "at most 1400 bytes");
            }
            None => vec![0; file.payload_bytes],
        };
        let stop = file.stop_s.map_or(Ok(self.duration), |stop| time("stop_s", stop))?;
        let to = match &file.to {
            Who::Nodes(_) => To::Nodes(numbers(network, &file.to)?),
            Who::Word(Word::All | Word::Random) | Who::Default => To::Random,
        };
        Ok(Traffic {
            from: numbers(network, &file.from)?,
            to,
            code,
            app_port: file.port,
            bound: file.bound,
            payload,
            per_second: file.per_second,
            start: time("start_s", file.start_s)?,
            stop: stop.min(self.duration),
        })
    }

    fn changes(&self, network: &Network) -> Result<Vec<(u64, Change)>, Error> {
        let mut changes = Vec::new();
        for crash in &self.crashes {
            let (node, at) = (number(network, &crash.node)?, time("at_s", crash.at_s)?);
            changes.push((at, Change::Crash { node }));
            if let Some(down) = crash.down_s {
                let store_kept = crash.store_kept;
                changes.push((at + time("down_s", down)?, Change::Restart { node, store_kept }));
            }
        }
        for partition in &self.partitions {
            let at = time("at_s", partition.at_s)?;
            for link in cut_links(network, partition)? {
                changes.push((at, Change::Cut { link }));
                if let Some(long) = partition.for_s {
                    changes.push((at + time("for_s", long)?, Change::Mend { link }));
                }
            }
        }
        Ok(changes)
    }
}

/// The links a partition cuts: those named, and those between the island and the rest.
fn cut_links(network: &Network, partition: &PartitionFile) -> Result<Vec<usize>, Error> {
    let mut named = Vec::new();
    for [a, b] in &partition.links {
        let ends = (number(network, a)?, number(network, b)?);
        let found = network.links.iter().position(|link| (link.a, link.b) == ends || (link.b, link.a) == ends);
        named.push(found.ok_or_else(|| Error::Unknown { what: "link", name: format!("{a} - {b}") })?);
    }
    let mut island = vec![false; network.names.len()];
    for name in &partition.island {
        island[number(network, name)?] = true;
    }
    let crossing = network.links.iter().enumerate().filter(|(_, link)| island[link.a] != island[link.b]);
    named.extend(crossing.map(|(at, _)| at));
    named.sort_unstable();
    named.dedup();
    Ok(named)
}

fn receivers(traffic: &Traffic) -> Vec<usize> {
    match &traffic.to {
        To::Nodes(nodes) => nodes.clone(),
        To::Random => Vec::new(),
    }
}

fn number(network: &Network, name: &str) -> Result<usize, Error> {
    network.number(name).ok_or_else(|| Error::Unknown { what: "node", name: name.into() })
}

fn numbers(network: &Network, who: &Who) -> Result<Vec<usize>, Error> {
    match who {
        Who::Nodes(names) => names.iter().map(|name| number(network, name)).collect(),
        Who::Word(_) | Who::Default => Ok((0..network.names.len()).collect()),
    }
}

/// A link's ends and its line: what the link says, else what `[line]` says.
fn line_of(default: &toml::Table, mut link: toml::Table) -> Result<([String; 2], Line), Error> {
    let missing = Error::Contradiction { remedy: "a [[link]] needs between = [\"A\", \"B\"]" };
    let between = link.remove("between").ok_or(missing)?.try_into()?;
    let mut merged = default.clone();
    merged.extend(link);
    Ok((between, merged.try_into()?))
}

/// Sizes as the network has them by default, changed by what the table says.
fn sizes(changes: toml::Table) -> Result<Sizes, Error> {
    let mut merged = toml::Table::try_from(Network::unlinked(1).sizes).unwrap_or_default();
    merged.extend(changes);
    Ok(merged.try_into()?)
}

/// Seconds to nanoseconds.
fn time(field: &str, seconds: f64) -> Result<u64, Error> {
    if (0.0..=SECONDS_MAX).contains(&seconds) {
        Ok((seconds * SECOND as f64).round() as u64)
    } else {
        out_of_range(field, seconds, "a time from 0 to 1000000 seconds")
    }
}

fn out_of_range<T>(field: &str, found: f64, expected: &'static str) -> Result<T, Error> {
    Err(Error::Number { field: field.into(), found, expected })
}
