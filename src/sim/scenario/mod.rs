//! A whole run in a lab file: network, codes, traffic, and faults with their times.
//!
//! `docs/lab.md` lists every key. Reading checks all names and numbers, so a parsed scenario can only fail for its
//! code. A file without traffic gets a ping from end to end. Nothing here does I/O: the caller brings the text and the bundles.

mod error;
mod places;

use super::network::{Line, Link, Network};
use super::{Change, Simulation, To, Traffic};
use crate::code::bundle::Bundle;
use crate::labfile::ground::Ground;
use crate::labfile::problem::{Result, problem};
use crate::labfile::run::{CrashFile, EveryNode, PartitionFile, TrafficFile, Who, Word};
use crate::labfile::shape::below;
use crate::labfile::{Carries, Family, LabFile, Topology, worlds};
use crate::node::Sizes;
use crate::trust::Roles;
use crate::wire::Digest;
use places::{cut_links, line_of, number, numbers, out_of_range, sizes, time};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;

pub use crate::labfile::CodeFile;
pub use error::Error;

/// The most capsules a second of one sender.
const RATE_MAX: f64 = 1e6;

/// Until when traffic flows, unless the file says it, in seconds.
const DURATION_S: f64 = 10.0;

/// For how long after that packets may be under way, in seconds.
const DRAIN_S: f64 = 10.0;

/// A scenario that was read and checked.
#[derive(Debug)]
pub struct Scenario {
    /// What it shows, for people.
    pub about: String,
    /// Where chance begins, if the file says so.
    pub seed: Option<u64>,
    /// Until when traffic flows, in nanoseconds.
    pub duration: u64,
    /// For how long after that packets may still be under way, in nanoseconds.
    pub drain: u64,
    /// The codes it needs.
    pub codes: Vec<CodeFile>,
    /// In words, the traffic that was made up for a file without any.
    pub made_up: Option<String>,
    place: Place,
    family: Family,
    line: Line,
    links: Vec<(usize, [String; 2], Line)>,
    ethernet_share: f64,
    node: EveryNode,
    sizes: Option<Sizes>,
    traffic: Vec<(usize, TrafficFile)>,
    crashes: Vec<(usize, CrashFile)>,
    partitions: Vec<(usize, PartitionFile)>,
}

/// Where it plays.
#[derive(Debug)]
enum Place {
    /// In what `[topology]` stands for.
    Ground(Ground),
    /// Among nodes that are listed, with their addresses and routes.
    Lab(Box<Topology>),
}

impl Scenario {
    /// Reads a lab file; `path` is for messages.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Scenario, Error> {
        let lab = LabFile::parse(text, &path)?;
        worlds::fits_simulator(&lab.file).map_err(|problem| lab.error(problem))?;
        let place = match &lab.file.topology {
            Some(entry) => {
                let ground = entry.get_ref().ground(entry.span().start);
                Place::Ground(ground.map_err(|problem| lab.error(problem))?)
            }
            None => Place::Lab(Box::new(Topology::resolved(LabFile::parse(text, &path)?)?)),
        };
        let scenario = Scenario::read(&lab, place).map_err(|problem| lab.error(problem))?;
        let at = lab.file.topology.as_ref().map_or(0, |entry| entry.span().start);
        let network = scenario.network(0).map_err(|error| match error {
            Error::Network(wrong) => match problem::<()>(at, wrong.to_string(), "change what the file says of it") {
                Err(problem) => lab.error(problem).into(),
                Ok(()) => Error::Network(wrong),
            },
            other => other,
        })?;
        scenario.check(&lab, &network).map_err(|problem| lab.error(problem))?;
        Ok(scenario)
    }

    fn read(lab: &LabFile, place: Place) -> Result<Scenario> {
        let file = &lab.file;
        let given = |field: &str, value: &Option<Spanned<f64>>, usual: f64| match value {
            Some(value) => time(value.span().start, field, *value.get_ref()),
            None => time(0, field, usual),
        };
        let line = file.line.as_ref().map(|line| (line.span().start, line.get_ref().clone()));
        let (line_at, default) = line.unwrap_or_default();
        let mut links = Vec::new();
        for link in file.links.iter().filter(|_| matches!(place, Place::Ground(_))) {
            let (at, link) = (link.span().start, link.get_ref().clone().or(&default));
            let Some([a, b]) = &link.ends else {
                return problem(at, "a link without ends", "a [[link]] needs between = [\"A\", \"B\"]");
            };
            links.push((at, [a.node.clone(), b.node.clone()], line_of(at, &link)?));
        }
        if let (Place::Ground(Ground::Shape(_)), Some((at, ..))) = (&place, links.first()) {
            let remedy = "[[link]] goes with a list of nodes: write [topology] nodes = [...], or leave it out";
            return problem(*at, "a link beside those of a shape", remedy);
        }
        let (node_at, node) =
            file.node.as_ref().map(|node| (node.span().start, node.get_ref().clone())).unwrap_or_default();
        let share = file.ethernet_share.as_ref().map_or((0, 0.0), |share| (share.span().start, *share.get_ref()));
        if !(0.0..=1.0).contains(&share.1) {
            return out_of_range(share.0, "ethernet_share", share.1, "a share from 0 to 1");
        }
        let mut scenario = Scenario {
            about: file.about.clone(),
            seed: file.seed,
            duration: given("duration_s", &file.duration_s, DURATION_S)?,
            drain: given("drain_s", &file.drain_s, DRAIN_S)?,
            codes: file.code.iter().map(|code| code.get_ref().clone()).collect(),
            made_up: None,
            place,
            family: file.family.as_ref().map_or(Family::default(), |family| *family.get_ref()),
            line: line_of(line_at, &default)?,
            links,
            ethernet_share: share.1,
            sizes: node.sizes.clone().map(|changes| sizes(node_at, changes)).transpose()?,
            node,
            traffic: placed(&file.traffic),
            crashes: placed(&file.crash),
            partitions: placed(&file.partition),
        };
        if scenario.traffic.is_empty() {
            scenario.make_up_traffic();
        }
        Ok(scenario)
    }

    /// A file without traffic: one end pings the other.
    fn make_up_traffic(&mut self) {
        let ends = match &self.place {
            Place::Lab(topology) => places::ends(topology),
            Place::Ground(Ground::Names(names)) => names.first().cloned().zip(names.last().cloned()),
            Place::Ground(Ground::Shape(shape)) => {
                let seed = self.seed.unwrap_or_default();
                let nodes = shape.links(&mut Xoshiro256PlusPlus::seed_from_u64(seed)).map_or(0, |(nodes, _)| nodes);
                Some(("n0".to_owned(), format!("n{}", nodes.saturating_sub(1))))
            }
        };
        let Some((from, to)) = ends.filter(|(from, to)| from != to) else { return };
        let name = "ping".to_owned();
        if !self.codes.iter().any(|code| code.name == name) {
            self.codes.push(CodeFile { name: name.clone(), file: None, window: None, at: Who::Default });
        }
        self.made_up = Some(format!("no [[traffic]]: {from} pings {to}, once a second"));
        self.traffic.push((0, TrafficFile::ping(name, from, to)));
    }

    /// Names and numbers; only codes can fail later.
    fn check(&self, lab: &LabFile, network: &Network) -> Result<()> {
        for name in lab.file.nodes.keys() {
            number(network, name.span().start, name.get_ref())?;
        }
        for (at, traffic) in &self.traffic {
            if !self.codes.iter().any(|code| code.name == traffic.code) {
                return places::unknown(*at, "code", &traffic.code);
            }
            if !(traffic.per_second > 0.0 && traffic.per_second <= RATE_MAX) {
                return out_of_range(*at, "per_second", traffic.per_second, "more than 0 and at most 1000000");
            }
            self.traffic_of(network, *at, traffic, Digest([0; 32]))?;
        }
        for code in &lab.file.code {
            numbers(network, code.span().start, &code.get_ref().at)?;
        }
        for (at, ends, _) in &self.links {
            ends.iter().try_for_each(|end| number(network, *at, end).map(drop))?;
        }
        self.changes(network).map(drop)
    }

    /// The network; `seed` chooses random links.
    pub fn network(&self, seed: u64) -> Result<Network, Error> {
        let mut network = match &self.place {
            Place::Lab(topology) => Network::of((**topology).clone()),
            Place::Ground(Ground::Shape(shape)) => Network::new(*shape, self.line, seed).map_err(Error::Network)?,
            Place::Ground(Ground::Names(names)) => {
                let mut network = Network::unlinked(names.len());
                network.names.clone_from(names);
                for (_, [a, b], line) in &self.links {
                    // Links to nobody are refused with their places.
                    if let (Some(a), Some(b)) = (network.number(a), network.number(b)) {
                        network.links.push(Link { a, b, line: *line });
                    }
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
        network.workers = self.node.workers.unwrap_or(network.workers);
        if let Some(limits) = self.node.anyone {
            network.roles = Roles::of_anyone(limits).into();
        }
        let ns = |ms: f64| (ms.clamp(0.0, places::SECONDS_MAX * 1e3) * 1e6).round() as u64;
        network.prepare_ns = self.node.prepare_ms.map_or(network.prepare_ns, ns);
        network.look_up_ns = self.node.look_up_ms.map_or(network.look_up_ns, ns);
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
            let file = || code.file.clone().unwrap_or_else(|| code.name.clone());
            let bundle = load(code).map_err(|cause| Error::Code { file: file(), cause })?;
            bundles.insert(code.name.as_str(), bundle);
        }
        for (at, traffic) in &self.traffic {
            let Some(bundle) = bundles.get(traffic.code.as_str()) else { continue };
            // What was checked when the file was read is right.
            let Ok(planned) = self.traffic_of(&network, *at, traffic, bundle.name()) else { continue };
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
            for node in self.holders(&network, code).unwrap_or_default() {
                simulation.add_code(node, bundle);
            }
        }
        for (at, change) in self.changes(&network).unwrap_or_default() {
            simulation.change_at(at, change);
        }
        Ok(simulation)
    }

    /// Where a code is from the start.
    fn holders(&self, network: &Network, code: &CodeFile) -> Result<Vec<usize>> {
        if !matches!(code.at, Who::Default) {
            return numbers(network, 0, &code.at);
        }
        let mut senders = Vec::new();
        for (at, traffic) in self.traffic.iter().filter(|(_, traffic)| traffic.code == code.name) {
            senders.extend(numbers(network, *at, &traffic.from)?);
        }
        senders.sort_unstable();
        senders.dedup();
        Ok(senders)
    }

    fn traffic_of(&self, network: &Network, at: usize, file: &TrafficFile, code: Digest) -> Result<Traffic> {
        let payload = match &file.payload_hex {
            Some(text) => match hex::decode(text) {
                Ok(payload) => payload,
                Err(_) => return places::unknown(at, "hexadecimal payload", text),
            },
            None => vec![0; file.payload_bytes],
        };
        if payload.len() > 1400 {
            return out_of_range(at, "payload_bytes", payload.len() as f64, "at most 1400 bytes");
        }
        let stop = file.stop_s.map_or(Ok(self.duration), |stop| time(at, "stop_s", stop))?;
        let to = match &file.to {
            Who::Nodes(_) => To::Nodes(numbers(network, at, &file.to)?),
            Who::Word(Word::All | Word::Random) | Who::Default => To::Random,
        };
        Ok(Traffic {
            from: numbers(network, at, &file.from)?,
            to,
            code,
            app_port: file.port,
            bound: file.bound,
            payload,
            per_second: file.per_second,
            start: time(at, "start_s", file.start_s)?,
            stop: stop.min(self.duration),
        })
    }

    fn changes(&self, network: &Network) -> Result<Vec<(u64, Change)>> {
        let mut changes = Vec::new();
        for (place, crash) in &self.crashes {
            let (node, at) = (number(network, *place, &crash.node)?, time(*place, "at_s", crash.at_s)?);
            changes.push((at, Change::Crash { node }));
            if let Some(down) = crash.down_s {
                let store_kept = crash.store_kept;
                changes.push((at + time(*place, "down_s", down)?, Change::Restart { node, store_kept }));
            }
        }
        for (place, partition) in &self.partitions {
            let at = time(*place, "at_s", partition.at_s)?;
            for link in cut_links(network, *place, partition)? {
                changes.push((at, Change::Cut { link }));
                if let Some(long) = partition.for_s {
                    changes.push((at + time(*place, "for_s", long)?, Change::Mend { link }));
                }
            }
        }
        Ok(changes)
    }
}

/// Tables with their places.
fn placed<T: Clone>(tables: &[Spanned<T>]) -> Vec<(usize, T)> {
    tables.iter().map(|table| (table.span().start, table.get_ref().clone())).collect()
}

fn receivers(traffic: &Traffic) -> Vec<usize> {
    match &traffic.to {
        To::Nodes(nodes) => nodes.clone(),
        To::Random => Vec::new(),
    }
}
