//! A simulation, as those use it who build one: nodes, codes, ports, capsules, time.
//!
//! [`super::run`] is the loop that makes time pass.

use super::host::{Host, Inmate, Sink, adopt};
use super::line::Direction;
use super::network::{Network, Problem};
use super::packets::Packets;
use super::queue::{ACTIONS_MAX, Queue};
use super::report::{CodeTotals, Totals};
use super::run::Action;
use super::tap::Tap;
use super::trace::{Carried, Tracer, What};
use super::{Application, Arrival, Histogram, Traffic, paths};
use crate::code::bundle::Bundle;
use crate::code::run::Runtime;
use crate::core::reason::Reason;
use crate::frame::PortId;
use crate::node::revoking::Revoked;
use crate::node::{Node, Output};
use crate::trust::{Rank, Revocation, object_name};
use crate::wire::{Addr, capsule};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

/// Frames that can be on links at the same time; more are dropped as `queue-full`.
pub(super) const FRAMES_MAX: usize = ACTIONS_MAX / 8;

/// Why a capsule could not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no such node, or it is down.
    Down,
    /// It does not fit into a frame.
    TooBig,
    /// The node refuses it.
    Refused(Reason),
}

/// A network of nodes in virtual time.
pub struct Simulation {
    pub(super) now: u64,
    pub(super) seed: u64,
    pub(super) queue: Queue<Action>,
    pub(super) hosts: Vec<Host>,
    pub(super) directions: Vec<Direction>,
    pub(super) runtime: Runtime,
    pub(super) out: Output,
    pub(super) packets: Packets,
    /// Chance on links.
    pub(super) chance: Xoshiro256PlusPlus,
    /// Choices of traffic.
    pub(super) choices: Xoshiro256PlusPlus,
    pub(super) traffic: Vec<Traffic>,
    pub(super) network: Network,
    pub(super) totals: Totals,
    pub(super) latency: Histogram,
    pub(super) delivered_hops: u64,
    pub(super) past_codes: BTreeMap<String, CodeTotals>,
    pub(super) lives: u32,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) told: Vec<super::Told>,
    pub(super) tracer: Option<Tracer>,
    pub(super) tap: Option<Tap>,
}

impl Simulation {
    /// All nodes of a network at rest, at time 0.
    pub fn new(network: Network, seed: u64) -> Result<Simulation, Problem> {
        network.check()?;
        let ends = paths::ends(&network);
        let mut configurations = paths::configurations(&network, &ends).into_iter();
        let (mut hosts, mut directions) = (Vec::new(), Vec::new());
        for (node, ends_here) in ends.iter().enumerate() {
            let first_direction = directions.len();
            for end in ends_here {
                let line = &network.links[end.link].line;
                let back = |other: &paths::End| other.link == end.link && other.node == node;
                let port = ends[end.node].iter().position(back).unwrap_or(0);
                directions.push(Direction::new(end.node, port, line));
            }
            let Some(mut config) = configurations.next() else { break };
            // What one node has taken back, others have not; it outlives the node, as if it were in its store.
            config.roles = Arc::new(config.roles.separate());
            let links: Vec<usize> = ends_here.iter().map(|end| end.link).collect();
            hosts.push(Host {
                guard: network.guard(node, &links, &config.neighbours),
                inmate: Inmate::Down,
                config,
                plan: network.own_plan.get(&node).unwrap_or(&network.plan).clone(),
                ends: ends_here.clone(),
                first_direction,
                limited: directions[first_direction..].iter().any(Direction::is_limited),
                timer_at: u64::MAX,
                life: 0,
                born: 0,
                store: Default::default(),
                sinks: BTreeMap::new(),
            });
        }
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut simulation = Simulation {
            now: 0,
            seed,
            queue: Queue::new(),
            hosts,
            directions,
            runtime: Runtime::default(),
            out: Output { traced: true, ..Output::default() },
            packets: Packets::new(),
            chance: Xoshiro256PlusPlus::seed_from_u64(seeds.next_u64()),
            choices: Xoshiro256PlusPlus::seed_from_u64(seeds.next_u64()),
            traffic: Vec::new(),
            network,
            totals: Totals::default(),
            latency: Histogram::default(),
            delivered_hops: 0,
            past_codes: BTreeMap::new(),
            lives: 0,
            arrivals: Vec::new(),
            told: Vec::new(),
            tracer: None,
            tap: None,
        };
        for node in 0..simulation.hosts.len() {
            simulation.start(node);
        }
        Ok(simulation)
    }

    /// The operator of a node takes something back there; nothing if the node is down.
    pub fn revoke(&mut self, node: usize, revocation: &Revocation) -> Option<Revoked> {
        self.hosts.get(node)?.config.roles.revoke(*revocation, true);
        self.turn(node, |node, turn| node.revoke(turn, revocation, true, None))
    }

    /// Whose words a node remembers.
    pub fn revocations(&self, node: usize) -> Vec<(Revocation, Rank)> {
        self.hosts[node].config.roles.revocations()
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.hosts.len()
    }

    /// A node, unless it is down or none.
    pub fn node(&self, node: usize) -> Option<&Node> {
        self.hosts.get(node).and_then(Host::node)
    }

    /// Whether a node is up.
    pub fn is_up(&self, node: usize) -> bool {
        self.node(node).is_some()
    }

    /// The first address of a node.
    pub fn address(&self, node: usize) -> Addr {
        self.network.address(node)
    }

    /// Counters so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Times from injection to delivery.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Capsules in nodes and on links.
    pub fn alive(&self) -> u64 {
        self.packets.alive()
    }

    /// Capsules on links, by identity, with their headers as the next node will see them.
    pub fn in_flight(&self) -> BTreeMap<u64, capsule::Header> {
        let arriving = self.queue.iter().filter_map(|action| match action {
            Action::Arrive { node, frame } if frame.trace != 0 => Some((*node as usize, frame)),
            _ => None,
        });
        arriving
            .filter_map(|(node, frame)| {
                let (_, payload) = self.anep_at(node, frame.port, frame.bytes())?;
                Some((frame.trace, capsule::Header::parse(payload).ok()?))
            })
            .collect()
    }

    /// Writes the history of all packets from now on; [`Simulation::finish_trace`] ends it.
    pub fn trace(&mut self, to: Box<dyn Write>) {
        self.tracer = Some(Tracer::new(&self.network, to));
    }

    /// Ends the history; gives the first failure to write it.
    pub fn finish_trace(&mut self) -> io::Result<()> {
        self.tracer.take().map_or(Ok(()), Tracer::finish)
    }

    /// Puts a bundle into a node's store, as `anode code` would.
    pub fn add_code(&mut self, node: usize, bundle: &Bundle) {
        for object in bundle.objects() {
            self.hosts[node].store.insert(object_name(object), object.clone());
        }
        let name = bundle.name();
        if let Some(node) = self.hosts[node].node_mut() {
            node.forget_refusal(&name);
        }
    }

    /// Opens an application port of a node where capsules are counted, and no more.
    pub fn open(&mut self, node: usize, port: u16) {
        self.sink(node, port, Sink::Count);
    }

    /// Opens an application port of a node whose capsules [`Simulation::take_arrivals`] gives.
    pub fn collect(&mut self, node: usize, port: u16) {
        self.sink(node, port, Sink::Keep);
    }

    /// Opens an application port of a node for an application.
    pub fn attach(&mut self, node: usize, port: u16, application: Box<dyn Application>) {
        self.sink(node, port, Sink::Application(application));
    }

    fn sink(&mut self, node: usize, port: u16, sink: Sink) {
        self.hosts[node].sinks.insert(port, sink);
        if let Some(node) = self.hosts[node].node_mut() {
            node.open(port);
        }
    }

    /// The capsules that came to collecting ports since the last call, in the order of time.
    pub fn take_arrivals(&mut self) -> Vec<Arrival> {
        core::mem::take(&mut self.arrivals)
    }

    /// An application of a node sends a capsule now; without a source, from the node's address.
    /// Gives the packet's identity.
    pub fn inject(&mut self, node: usize, mut header: capsule::Header, payload: &[u8]) -> Result<u64, SendError> {
        let mut frame = self.out.pool.take();
        let bytes = capsule::HEADER + payload.len();
        if header.source.is_unspecified() {
            let v4 = header.destination.is_v4();
            header.source = self.network.addresses(node).find(|addr| addr.is_v4() == v4).unwrap_or(header.source);
        }
        let room = frame.room();
        if bytes > room.len() || header.emit(room).is_err() {
            self.out.pool.give(frame);
            return Err(SendError::TooBig);
        }
        room[capsule::HEADER..bytes].copy_from_slice(payload);
        frame.received(bytes);
        let packet = self.packets.begin(self.now, node);
        frame.trace = packet;
        let result = self.enter(node, |node, turn| node.inject(turn, frame));
        match result {
            Some(Ok(())) => {
                self.totals.injected += 1;
                let capsule::Header { code, source, destination, bound, .. } = header;
                self.tell(node, packet, || What::Injected {
                    code: code.to_string(),
                    source,
                    destination,
                    bound,
                    bytes,
                });
                self.settle(node);
                Ok(packet)
            }
            refused => {
                self.packets.end(packet);
                self.totals.refused += 1;
                Err(refused.map_or(SendError::Down, |result| result.err().map_or(SendError::Down, SendError::Refused)))
            }
        }
    }

    /// Something that is no application puts a frame on the link at a port of a node.
    pub fn put_frame(&mut self, node: usize, port: usize, bytes: &[u8]) {
        let mut frame = self.out.pool.take();
        frame.fill(bytes);
        frame.port = PortId(port as u16);
        if self.carried(node, frame.port, bytes) == Carried::Capsule {
            adopt(&mut frame, &mut self.packets, self.now, node);
            self.totals.forged += 1;
        }
        self.transmit(node, frame);
        self.settle(node);
    }

    pub(super) fn plan(&mut self, time: u64, action: Action) {
        self.queue.push(time.max(self.now), action);
    }
}
