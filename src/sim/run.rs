//! The loop: next action, its node, what the node gives back.

use super::host::{Actor, Host, Inmate, Sink, adopt};
use super::line::{Direction, Fate};
use super::network::{Network, Problem};
use super::packets::Packets;
use super::queue::{ACTIONS_MAX, Queue};
use super::report::{CodeTotals, Totals};
use super::trace::{Carried, Loss, Tracer, What};
use super::{Application, Arrival, Change, Histogram, Sending, Traffic, paths, shop};
use crate::classify::{Class, classify};
use crate::code::bundle::Bundle;
use crate::code::run::Runtime;
use crate::node::{Delivery, Effect, Event, EventKind, Node, Output, Prepare, Turn};
use crate::nodeos::reason::Reason;
use crate::port::{Frame, PortId};
use crate::wire::{Addr, Digest, anep, capsule};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Frames that can be on links at the same time; more are dropped as `queue-full`.
const FRAMES_MAX: usize = ACTIONS_MAX / 8;

/// Something planned.
pub(super) enum Action {
    /// A frame arrives at a node, with its port and peer there.
    Arrive { node: u32, frame: Frame },
    /// A node's timers are due.
    Timer { node: u32 },
    /// A node's store answers.
    Found { node: u32, life: u32, digest: Digest },
    /// A node's compiler answers.
    Prepared { node: u32, life: u32, prepare: Box<Prepare> },
    /// A sender's next capsule is due.
    Generate { traffic: u32, node: u32 },
    /// An application sends.
    Send { node: u32, sending: Box<Sending> },
    /// The network changes.
    Change(Change),
}

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
    now: u64,
    seed: u64,
    queue: Queue<Action>,
    hosts: Vec<Host>,
    directions: Vec<Direction>,
    runtime: Runtime,
    out: Output,
    packets: Packets,
    /// Chance on links.
    chance: Xoshiro256PlusPlus,
    /// Choices of traffic.
    pub(super) choices: Xoshiro256PlusPlus,
    pub(super) traffic: Vec<Traffic>,
    network: Network,
    totals: Totals,
    latency: Histogram,
    pub(super) delivered_hops: u64,
    pub(super) past_codes: BTreeMap<String, CodeTotals>,
    lives: u32,
    arrivals: Vec<Arrival>,
    tracer: Option<Tracer>,
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
            let Some(config) = configurations.next() else { break };
            hosts.push(Host {
                inmate: Inmate::Down,
                config,
                ends: ends_here.clone(),
                first_direction,
                limited: directions[first_direction..].iter().any(Direction::is_limited),
                timer_at: u64::MAX,
                life: 0,
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
            tracer: None,
        };
        for node in 0..simulation.hosts.len() {
            simulation.start(node);
        }
        Ok(simulation)
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
            self.hosts[node].store.insert(Digest::of(object), object.clone());
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

    /// Puts something else in the place of a node.
    pub fn replace(&mut self, node: usize, actor: Box<dyn Actor>) {
        self.crash(node);
        self.hosts[node].inmate = Inmate::Actor(actor);
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

    /// Plans a change of the network, at a time or now if that is over.
    pub fn change_at(&mut self, time: u64, change: Change) {
        self.plan(time, Action::Change(change));
    }

    /// Changes the network now.
    pub fn change(&mut self, change: Change) {
        match change {
            Change::Crash { node } => self.crash(node),
            Change::Restart { node, store_kept } if !self.is_up(node) => {
                if !store_kept {
                    self.hosts[node].store.clear();
                }
                self.start(node);
                self.tell(node, 0, || What::Restarted);
            }
            Change::Restart { .. } => {}
            Change::Cut { link } => self.cut(link, true),
            Change::Mend { link } => self.cut(link, false),
        }
    }

    /// Runs until nothing is due before `time` (nanoseconds), which becomes now.
    pub fn run_until(&mut self, time: u64) {
        while self.queue.next().is_some_and(|next| next < time) {
            self.step();
        }
        self.now = self.now.max(time);
    }

    /// Runs for so many nanoseconds.
    pub fn run_for(&mut self, duration: u64) {
        self.run_until(self.now.saturating_add(duration));
    }

    /// Runs until no capsule is alive, at most until `time` (nanoseconds); whether none is.
    pub fn drain(&mut self, time: u64) -> bool {
        while self.packets.alive() > 0 && self.queue.next().is_some_and(|next| next < time) {
            self.step();
        }
        self.packets.alive() == 0
    }

    /// Does the next planned action, if there is one.
    pub fn step(&mut self) -> bool {
        let Some((time, action)) = self.queue.pop() else { return false };
        self.now = self.now.max(time);
        match action {
            Action::Arrive { node, frame } => self.arrive(node as usize, frame),
            Action::Timer { node } => self.timer(node as usize, time),
            Action::Found { node, life, digest } => {
                let host = &self.hosts[node as usize];
                let bytes = host.store.get(&digest).cloned();
                if host.life == life {
                    self.turn(node as usize, |node, turn| node.found(turn, digest, bytes));
                }
            }
            Action::Prepared { node, life, prepare } => {
                if self.hosts[node as usize].life == life {
                    let Prepare { code, wasm, window } = *prepare;
                    let compiled = shop::compile(&wasm, window);
                    self.turn(node as usize, |node, turn| node.prepared(turn, code, compiled));
                }
            }
            Action::Generate { traffic, node } => self.generate(traffic, node as usize),
            Action::Send { node, sending } => {
                // A refusal is in the books.
                let _ = self.inject(node as usize, sending.header, &sending.payload);
            }
            Action::Change(change) => self.change(change),
        }
        true
    }

    pub(super) fn plan(&mut self, time: u64, action: Action) {
        self.queue.push(time.max(self.now), action);
    }

    fn start(&mut self, node: usize) {
        self.lives += 1;
        // The upper half of a node's seed; splitmix64 keeps neighbours far apart.
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ u64::from(self.lives));
        self.hosts[node].start(seeds.next_u64(), self.lives);
        self.settle(node);
    }

    fn crash(&mut self, node: usize) {
        let now = self.now;
        let Some(alive) = self.hosts[node].node() else { return };
        let status = alive.status();
        for code in status.codes.iter().filter(|code| code.state == "ready") {
            if let Some(usage) = &code.usage {
                self.past_codes.entry(code.name.clone()).or_default().add(&code.title, usage);
            }
        }
        // The run-time is everybody's: what the node holds there goes back.
        let names: Vec<Digest> = status.codes.iter().filter_map(|code| code.name.parse().ok()).collect();
        if let Some(alive) = self.hosts[node].node_mut() {
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            for name in names {
                alive.remove_code(&mut turn, &name);
            }
        }
        let host = &mut self.hosts[node];
        host.inmate = Inmate::Down;
        host.life += 1;
        host.timer_at = u64::MAX;
        self.totals.crashes += 1;
        self.tell(node, 0, || What::Crashed);
        for packet in self.packets.in_node(node) {
            self.lose(node, node, packet, Carried::Capsule, Loss::Crash);
        }
    }

    fn cut(&mut self, link: usize, cut: bool) {
        let ends = [self.network.links[link].a, self.network.links[link].b];
        for (node, other) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let host = &self.hosts[node];
            let Some(port) = host.ends.iter().position(|end| end.link == link) else { continue };
            let cuts = &mut self.directions[host.first_direction + port].cuts;
            *cuts = if cut { *cuts + 1 } else { cuts.saturating_sub(1) };
            self.tell_of(node, 0, other, |to| if cut { What::Cut { to } } else { What::Mended { to } });
        }
    }

    fn timer(&mut self, node: usize, time: u64) {
        let host = &mut self.hosts[node];
        // Another one was planned since, or the node is in another life.
        if host.timer_at == time {
            host.timer_at = u64::MAX;
            self.turn(node, |node, turn| node.timer(turn));
        }
    }

    #[inline]
    fn arrive(&mut self, at: usize, frame: Frame) {
        let packet = frame.trace;
        match &mut self.hosts[at].inmate {
            Inmate::Node(_) => {
                if packet != 0 {
                    self.packets.arrive(packet, at);
                    self.totals.packet_hops += 1;
                }
                self.turn(at, |node, turn| node.receive(turn, frame));
            }
            Inmate::Actor(actor) => {
                let mut send = Vec::new();
                actor.receive(self.now, usize::from(frame.port.0), frame.bytes(), &mut send);
                let carries = self.carried(at, frame.port, frame.bytes());
                self.lose(at, at, packet, carries, Loss::Stranger);
                self.out.pool.give(frame);
                for (port, bytes) in send {
                    self.put_frame(at, port, &bytes);
                }
            }
            Inmate::Down => {
                let carries = self.carried(at, frame.port, frame.bytes());
                self.lose(at, at, packet, carries, Loss::Down);
                self.out.pool.give(frame);
            }
        }
    }

    /// A call into a node, and all that comes of it.
    #[inline]
    fn turn<R>(&mut self, at: usize, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> Option<R> {
        let result = self.enter(at, work);
        self.settle(at);
        result
    }

    /// A call into a node.
    #[inline]
    fn enter<R>(&mut self, at: usize, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> Option<R> {
        let now = self.now;
        let host = self.hosts.get_mut(at)?;
        let (limited, first, ports) = (host.limited, host.first_direction, host.ends.len());
        let node = host.node_mut()?;
        if limited {
            for (port, direction) in self.directions[first..first + ports].iter().enumerate() {
                node.set_queue(PortId(port as u16), direction.queued(now));
            }
        }
        Some(work(node, &mut Turn { now, runtime: &mut self.runtime, out: &mut self.out }))
    }

    /// Carries out what a node has given back.
    #[inline]
    fn settle(&mut self, at: usize) {
        self.note_events(at);
        if !self.out.frames.is_empty() {
            let mut frames = core::mem::take(&mut self.out.frames);
            for frame in frames.drain(..) {
                self.transmit(at, frame);
            }
            self.out.frames = frames;
            self.note_events(at);
        }
        if !self.out.deliveries.is_empty() {
            let mut deliveries = core::mem::take(&mut self.out.deliveries);
            for delivery in deliveries.drain(..) {
                self.deliver(at, delivery);
            }
            self.out.deliveries = deliveries;
        }
        if !self.out.effects.is_empty() {
            self.take_effects(at);
        }
        let host = &mut self.hosts[at];
        if let Inmate::Node(node) = &host.inmate {
            let next = node.next_timer().max(self.now);
            if next < host.timer_at {
                host.timer_at = next;
                self.queue.push(next, Action::Timer { node: at as u32 });
            }
        }
    }

    #[inline]
    fn note_events(&mut self, at: usize) {
        let mut events = core::mem::take(&mut self.out.events);
        for Event { trace, kind } in events.drain(..) {
            match kind {
                EventKind::Ran(steps) => self.totals.steps += steps,
                EventKind::Child(child) => {
                    self.packets.child(trace, child);
                    self.totals.children += 1;
                }
                EventKind::Dropped(reason) if trace != 0 => {
                    if self.packets.end(trace).is_some() {
                        self.totals.dropped.count(reason);
                    }
                }
                EventKind::Dropped(reason) => self.totals.messages_dropped.count(reason),
                EventKind::Ready(_) => self.totals.fetch.loads += 1,
                _ => {}
            }
            if let Some(tracer) = &mut self.tracer {
                tracer.event(self.now, at, trace, kind);
            }
        }
        self.out.events = events;
    }

    /// Puts a frame on the link at its port.
    #[inline]
    fn transmit(&mut self, at: usize, mut frame: Frame) {
        let (port, packet) = (frame.port, frame.trace);
        let host = &self.hosts[at];
        if usize::from(port.0) >= host.ends.len() {
            return self.refuse(at, frame);
        }
        let number = host.first_direction + usize::from(port.0);
        if packet == 0 {
            self.count_message(at, port, frame.bytes());
        }
        if self.queue.len() > FRAMES_MAX {
            return self.refuse(at, frame);
        }
        let direction = &mut self.directions[number];
        let fate = direction.carry(self.now, frame.len(), &mut self.chance);
        let (to, to_port, to_peer) = (direction.to, direction.to_port, direction.to_peer);
        let (first, second) = match fate {
            Fate::Full => return self.refuse(at, frame),
            Fate::Lost | Fate::Cut => {
                let carries =
                    if self.tracer.is_some() { self.carried(at, port, frame.bytes()) } else { Carried::Other };
                let loss = if fate == Fate::Cut { Loss::Cut } else { Loss::Link };
                self.lose(at, to as usize, packet, carries, loss);
                return self.out.pool.give(frame);
            }
            Fate::Arrives(first) => (first, None),
            Fate::Twice(first, second) => (first, Some(second)),
        };
        if self.tracer.is_some() {
            let (carries, bytes) = (self.carried(at, port, frame.bytes()), frame.len());
            self.tell_of(at, packet, to as usize, |to| What::Sent { carries, to, bytes, arrives: first });
        }
        self.packets.leave(packet);
        frame.port = to_port;
        frame.peer = to_peer;
        if let Some(arrives) = second {
            let copy = self.double(&frame);
            self.tell(at, packet, || What::Doubled { copy: copy.trace, arrives });
            self.plan(arrives, Action::Arrive { node: to, frame: copy });
        }
        self.plan(first, Action::Arrive { node: to, frame });
    }

    fn double(&mut self, frame: &Frame) -> Frame {
        let mut copy = self.out.pool.take();
        copy.fill(frame.bytes());
        (copy.port, copy.peer) = (frame.port, frame.peer);
        if frame.trace != 0 {
            copy.trace = self.packets.copy(frame.trace);
            self.totals.doubled += 1;
        }
        copy
    }

    /// The output queue has no room for a frame.
    fn refuse(&mut self, at: usize, frame: Frame) {
        let packet = frame.trace;
        if let Inmate::Node(node) = &mut self.hosts[at].inmate {
            let mut turn = Turn { now: self.now, runtime: &mut self.runtime, out: &mut self.out };
            return node.refused_outside(&mut turn, frame, Reason::QueueFull);
        }
        self.out.pool.give(frame);
        if self.packets.end(packet).is_some() {
            self.totals.dropped.count(Reason::QueueFull);
        }
    }

    /// A frame ends outside any node.
    fn lose(&mut self, at: usize, to: usize, packet: u64, carries: Carried, cause: Loss) {
        if self.packets.end(packet).is_some() {
            self.totals.lost.count(cause);
        }
        self.tell_of(at, packet, to, |to| What::Lost { carries, to, cause });
    }

    fn deliver(&mut self, at: usize, Delivery { port, frame }: Delivery) {
        let packet = frame.trace;
        let Some(known) = self.packets.end(packet) else { return self.out.pool.give(frame) };
        let latency = self.now - known.since;
        self.totals.delivered += 1;
        self.delivered_hops += u64::from(known.hops);
        self.latency.count(latency);
        if let Some(sink @ (Sink::Keep | Sink::Application(_))) = self.hosts[at].sinks.get_mut(&port)
            && let Ok(header) = capsule::Header::parse(frame.bytes())
        {
            let payload = frame.bytes()[capsule::HEADER..].to_vec();
            let arrival = Arrival { at: self.now, node: at, port, packet, latency, hops: known.hops, header, payload };
            match sink {
                Sink::Application(application) => {
                    for sending in application.receive(arrival) {
                        let due = self.now.saturating_add(sending.after);
                        self.plan(due, Action::Send { node: at as u32, sending: Box::new(sending) });
                    }
                }
                _ => self.arrivals.push(arrival),
            }
        }
        self.out.pool.give(frame);
    }

    fn take_effects(&mut self, at: usize) {
        let mut effects = core::mem::take(&mut self.out.effects);
        let (node, life) = (at as u32, self.hosts[at].life);
        for effect in effects.drain(..) {
            match effect {
                Effect::LookUp(digest) => {
                    self.plan(self.now + self.network.look_up_ns, Action::Found { node, life, digest });
                }
                Effect::Store(bytes) => {
                    self.hosts[at].store.insert(Digest::of(&bytes), bytes);
                }
                Effect::Prepare(prepare) => {
                    let prepare = Box::new(prepare);
                    self.plan(self.now + self.network.prepare_ns, Action::Prepared { node, life, prepare });
                }
            }
        }
        self.out.effects = effects;
    }

    /// Type and payload of the ANEP packet in a frame at a port.
    fn anep_at<'a>(&self, node: usize, port: PortId, bytes: &'a [u8]) -> Option<(u16, &'a [u8])> {
        let link = self.hosts[node].config.ports.get(usize::from(port.0))?.link;
        let Ok(Class::Anep(range, _)) = classify(link, bytes) else { return None };
        let packet = anep::Packet::new_checked(&bytes[range]).ok()?;
        Some((packet.type_id(), packet.payload()))
    }

    fn carried(&self, node: usize, port: PortId, bytes: &[u8]) -> Carried {
        use crate::wire::fetch::Message;
        match self.anep_at(node, port, bytes) {
            Some((anep::type_id::CAPSULE, _)) => Carried::Capsule,
            Some((anep::type_id::FETCH, message)) => match Message::parse(message) {
                Ok(Message::Request { .. }) => Carried::Request,
                Ok(Message::Part { .. }) => Carried::Part,
                Ok(Message::Absent { .. }) => Carried::Absent,
                Err(_) => Carried::Other,
            },
            Some(_) => Carried::Other,
            None => Carried::Address,
        }
    }

    fn count_message(&mut self, node: usize, port: PortId, bytes: &[u8]) {
        let Some((_, payload)) = self.anep_at(node, port, bytes) else { return };
        let octets = (anep::HEADER + payload.len()) as u64;
        let carried = self.carried(node, port, bytes);
        let fetch = &mut self.totals.fetch;
        match carried {
            Carried::Request => {
                fetch.requests += 1;
                fetch.request_bytes += octets;
            }
            Carried::Part => {
                fetch.parts += 1;
                fetch.reply_bytes += octets;
            }
            Carried::Absent => {
                fetch.absents += 1;
                fetch.reply_bytes += octets;
            }
            _ => {}
        }
    }

    #[inline]
    fn tell(&mut self, node: usize, packet: u64, what: impl FnOnce() -> What) {
        if let Some(tracer) = &mut self.tracer {
            tracer.write(self.now, node, packet, what());
        }
    }

    #[inline]
    fn tell_of(&mut self, node: usize, packet: u64, other: usize, what: impl FnOnce(String) -> What) {
        if let Some(tracer) = &mut self.tracer {
            let name = tracer.name(other);
            tracer.write(self.now, node, packet, what(name));
        }
    }
}
