//! A simulation for its users: nodes, codes, ports, capsules, time.
//!
//! [`super::run`] is the loop that makes time pass.

use super::host::{Host, Inmate, Sink, adopt};
use super::line::Direction;
use super::network::{Network, Problem};
use super::packets::Packets;
use super::queue::{ACTIONS_MAX, Queue};
use super::report::Totals;
use super::run::Action;
use super::trace::{Carried, Tracer, What};
use super::world::World;
use super::{Application, Arrival, Histogram, paths};
use crate::code::bundle::Bundle;
use crate::code::run::Runtime;
use crate::core::reason::Reason;
use crate::frame::{Frame, PortId};
use crate::node::revoking::RevokedCodes;
use crate::node::{Node, Output, Turn};
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
    /// Who is at each place.
    pub(super) inmates: Vec<Inmate>,
    /// Everybody's.
    pub(super) runtime: Runtime,
    pub(super) out: Output,
    /// All that is around the nodes.
    pub(super) world: World,
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
                hello: network.hello,
                config,
                plan: network.own_plan.get(&node).unwrap_or(&network.plan).clone(),
                ends: ends_here.clone(),
                first_direction,
                limited: directions[first_direction..].iter().any(|direction| direction.model.is_limited()),
                timer_at: u64::MAX,
                workers: network.workers.max(1),
                between: Vec::new(),
                life: 0,
                born: 0,
                store: Default::default(),
                sinks: BTreeMap::new(),
            });
        }
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(seed);
        let world = World {
            now: 0,
            seed,
            queue: Queue::new(),
            hosts,
            directions,
            packets: Packets::new(),
            chance: Xoshiro256PlusPlus::seed_from_u64(seeds.next_u64()),
            choices: Xoshiro256PlusPlus::seed_from_u64(seeds.next_u64()),
            apart: Xoshiro256PlusPlus::seed_from_u64(seeds.next_u64()),
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
            watched: false,
        };
        let mut simulation = Simulation {
            inmates: world.hosts.iter().map(|_| Inmate::Down).collect(),
            runtime: Runtime::default(),
            out: Output { traced: true, ..Output::default() },
            world,
        };
        for node in 0..simulation.inmates.len() {
            simulation.start(node);
        }
        Ok(simulation)
    }

    /// The operator of a node takes something back there; nothing if the node is down.
    pub fn revoke(&mut self, node: usize, revocation: &Revocation) -> Option<RevokedCodes> {
        self.world.hosts.get(node)?.config.roles.revoke(*revocation, true);
        self.turn(node, |node, turn| node.revoke(turn, revocation, true, None))
    }

    /// Whose words a node remembers.
    pub fn revocations(&self, node: usize) -> Vec<(Revocation, Rank)> {
        self.world.hosts[node].config.roles.revocations()
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.world.now
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.world.seed
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.world.network
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.world.hosts.len()
    }

    /// A node, unless it is down or none.
    pub fn node(&self, node: usize) -> Option<&Node> {
        self.inmates.get(node).and_then(Inmate::node)
    }

    /// Whether a node is up.
    pub fn is_up(&self, node: usize) -> bool {
        self.node(node).is_some()
    }

    /// The first address of a node.
    pub fn address(&self, node: usize) -> Addr {
        self.world.network.address(node)
    }

    /// Counters so far.
    pub fn totals(&self) -> &Totals {
        &self.world.totals
    }

    /// Times from injection to delivery.
    pub fn latency(&self) -> &Histogram {
        &self.world.latency
    }

    /// Capsules in nodes and on links.
    pub fn alive(&self) -> u64 {
        self.world.packets.alive()
    }

    /// Capsules on links, by identity, with their headers as the next node will see them.
    pub fn in_flight(&self) -> BTreeMap<u64, capsule::Header> {
        let arriving = self.world.queue.iter().filter_map(|action| match action {
            Action::Arrive { node, frame } if frame.trace != 0 => Some((*node as usize, frame)),
            _ => None,
        });
        arriving
            .filter_map(|(node, frame)| {
                let (_, payload) = self.world.anep_at(node, frame.port, frame.bytes())?;
                Some((frame.trace, capsule::Header::parse(payload).ok()?))
            })
            .collect()
    }

    /// Writes the history of all packets from now on; [`Simulation::finish_trace`] ends it.
    pub fn trace(&mut self, to: Box<dyn Write>) {
        self.world.tracer = Some(Tracer::new(&self.world.network, to));
    }

    /// Ends the history; gives the first failure to write it.
    pub fn finish_trace(&mut self) -> io::Result<()> {
        self.world.tracer.take().map_or(Ok(()), Tracer::finish)
    }

    /// Puts a bundle into a node's store, as `anode code` would.
    pub fn add_code(&mut self, node: usize, bundle: &Bundle) {
        for object in bundle.objects() {
            self.world.hosts[node].store.insert(object_name(object), object.clone());
        }
        let name = bundle.name();
        if let Some(node) = self.inmates[node].node_mut() {
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

    /// Has capsules kept for [`Simulation::take_arrivals`] that were only counted, at all ports that are open now.
    pub fn collect_all(&mut self) {
        for sink in self.world.hosts.iter_mut().flat_map(|host| host.sinks.values_mut()) {
            if matches!(sink, Sink::Count) {
                *sink = Sink::Keep;
            }
        }
    }

    fn sink(&mut self, node: usize, port: u16, sink: Sink) {
        self.world.hosts[node].sinks.insert(port, sink);
        if let Some(node) = self.inmates[node].node_mut() {
            node.open(port);
        }
    }

    /// The capsules that came to collecting ports since the last call, in the order of time.
    pub fn take_arrivals(&mut self) -> Vec<Arrival> {
        core::mem::take(&mut self.world.arrivals)
    }

    /// An application of a node sends a capsule now; without a source, from the node's address.
    /// Gives the packet's identity.
    pub fn inject(&mut self, node: usize, mut header: capsule::Header, payload: &[u8]) -> Result<u64, SendError> {
        let mut frame = self.out.pool.take();
        let bytes = capsule::HEADER + payload.len();
        if header.source.is_unspecified() {
            let v4 = header.destination.is_v4();
            header.source = self.world.network.addresses(node).find(|addr| addr.is_v4() == v4).unwrap_or(header.source);
        }
        let room = frame.room();
        if bytes > room.len() || header.emit(room).is_err() {
            self.out.pool.give(frame);
            return Err(SendError::TooBig);
        }
        room[capsule::HEADER..bytes].copy_from_slice(payload);
        frame.received(bytes);
        let packet = self.world.packets.begin(self.world.now, node);
        frame.trace = packet;
        let result = self.enter(node, |node, turn| node.inject(turn, frame));
        match result {
            Some(Ok(())) => {
                self.world.totals.injected += 1;
                let capsule::Header { code, source, destination, bound, .. } = header;
                self.world.tell(node, packet, || What::Injected {
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
                self.world.packets.end(packet);
                self.world.totals.refused += 1;
                Err(refused.map_or(SendError::Down, |result| result.err().map_or(SendError::Down, SendError::Refused)))
            }
        }
    }

    /// Something that is no application puts a frame on the link at a port of a node.
    pub fn put_frame(&mut self, node: usize, port: usize, bytes: &[u8]) {
        let mut frame = self.out.pool.take();
        frame.fill(bytes);
        frame.port = PortId(port as u16);
        if self.world.carried(node, frame.port, bytes) == Carried::Capsule {
            adopt(&mut frame, &mut self.world.packets, self.world.now, node);
            self.world.totals.forged += 1;
        }
        if let Err(frame) = self.world.transmit(&mut self.out.pool, node, frame) {
            self.refuse(node, frame);
        }
        self.settle(node);
    }

    /// The output queue of a place has no room for a frame that came from outside.
    fn refuse(&mut self, at: usize, frame: Frame) {
        if let Inmate::Node(workers) = &mut self.inmates[at] {
            let mut turn = Turn { now: self.world.now, runtime: &mut self.runtime, out: &mut self.out };
            return workers.first.refused_of_others(&mut turn, frame, Reason::QueueFull);
        }
        if self.world.packets.end(frame.trace).is_some() {
            self.world.totals.dropped.count(Reason::QueueFull);
        }
        self.out.pool.give(frame);
    }
}
