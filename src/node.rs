//! The node: frames in, frames out.
//!
//! [`Node`] is the state machine of the user half. A driver (a real worker, a simulator, a test)
//! hands it frames, timers and commands together with the time, and carries out what it finds in
//! the [`Output`]. The node itself opens nothing, waits for nothing and reads no clock.
//!
//! The way of a packet, read [`Node::receive`]: classify, look its code up, run it, act on the
//! verdict. What is off that way is in a module of its own: [`codes`] knows what each code name
//! means, `loading` brings absent code here, `serving` answers neighbours that ask for code,
//! `sending` finds next hops and puts headers on.

mod batch;
mod channels;
pub mod codes;
pub mod config;
mod cuts;
pub mod domains;
mod halves;
pub mod hosts;
mod loading;
pub mod objects;
pub mod os;
pub mod output;
mod overrun;
pub mod paths;
mod plan;
mod rates;
mod sending;
mod serving;
pub mod status;
mod trust;

use crate::classify::{Class, Native};
use crate::code::fetch::{Fetch, Source};
use crate::code::run::Verdict;
use crate::ee::capsule::env::{Env, FLAG_HERE, FLAG_INJECTED, NONE, Packet};
use crate::nodeos::bucket::TokenBucket;
use crate::nodeos::channel::Channels;
use crate::nodeos::channel::half::ChannelHalf;
use crate::nodeos::domain::{Domain, DomainId, Domains, Limits};
use crate::nodeos::event::Events;
use crate::nodeos::memory_pool::Pools;
use crate::nodeos::reason::{Drops, Reason};
use crate::nodeos::state_store::StateStore;
use crate::port::{Envelope, Frame, FramePool, PeerId, PortId};
use crate::topology::resolve::Resolver;
use crate::topology::{Flow, Gauge, Neighbour, Neighbours, Port, Router, Routes, Topology};
use crate::trust::Roles;
use crate::wire::{Addr, Digest, anep, capsule};
use codes::{Codes, Found};
pub use config::{NodeConfig, Sizes};
use objects::Objects;
pub use output::{Delivery, Effect, Event, EventKind, KernelOrder, Linked, Output, Prepare, Shared, Turn};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rates::Rates;
use serving::Serving;
pub use status::CredentialCounts;
use std::collections::HashSet;
use std::sync::Arc;

/// Time between two sweeps of soft state, in nanoseconds.
const SWEEP: u64 = 100_000_000;

/// Sweeps in which every soft-state entry is looked at once.
const SWEEP_SHARE: usize = 10;

/// Time between two looks at whether code still has the role it was given, in nanoseconds: credentials end.
const REVIEW: u64 = 60_000_000_000;

/// One active node.
pub struct Node {
    /// Away only while code runs.
    env: Option<Box<Env>>,
    /// Packets that come to domains and leave them.
    channels: Channels,
    /// What looks at frames before the node does.
    halves: Vec<Box<dyn ChannelHalf>>,
    /// Packets between the modules of channels: incoming, outgoing.
    payloads: [Vec<Frame>; 2],
    processed: Vec<Frame>,
    /// Who holds how much memory.
    pools: Pools,
    /// Whose packet an environment was handed that is not charged yet.
    in_hand: Option<DomainId>,
    /// Who runs domains.
    hosts: hosts::Hosts,
    /// Packets that wait for the CPU.
    paths: paths::Paths,
    /// What domains want to be told at a time.
    events: Events,
    /// Those that are due now.
    due: Vec<(DomainId, crate::nodeos::interface::EventId, u64)>,
    /// Domains that their roles have end, for their budgets.
    overdue: Vec<DomainId>,
    codes: Codes,
    fetch: Fetch,
    objects: Objects,
    serving: Serving,
    /// Of each neighbour, or of all that are unknown at a port, the codes that it makes the node look for.
    look_ups: Rates,
    resolver: Resolver,
    applications: HashSet<u16>,
    ingress: Vec<Option<TokenBucket>>,
    drops: Drops,
    roles: Arc<Roles>,
    /// The domain of the management environment, above those of the environments that it starts.
    management: DomainId,
    next_sweep: u64,
    next_look: u64,
    next_review: u64,
    credentials: CredentialCounts,
    name: String,
    /// Whether a kernel half works for the node.
    kernel: bool,
    /// Changes of the neighbours that it has been told, and when it may be told of more before the next sweep.
    told: u64,
    next_tell: u64,
    /// Codes that run there and are to be prepared here.
    adopted: Vec<Digest>,
    /// How often it is asked to let copies leave by other links.
    links_wanted: TokenBucket,
    /// Away only while it is called.
    plan: Option<Box<plan::Speaker>>,
}

impl Node {
    /// A node at rest.
    pub fn new(config: NodeConfig) -> Node {
        let NodeConfig { name, ports, neighbours, routes, roles, sizes, seed, kernel } = config;
        let mut known = Neighbours::default();
        for neighbour in neighbours {
            known.add(neighbour);
        }
        let mut short = [0; 16];
        let length = name.len().min(16);
        short[..length].copy_from_slice(&name.as_bytes()[..length]);
        let ceiling = |_: &_| {
            let rate = sizes.ingress_packets_per_second;
            (rate > 0).then(|| TokenBucket::new(rate, (rate / 10).max(1)))
        };
        let ingress = ports.iter().map(ceiling).collect();
        let mut domains = Domains::default();
        let management = Domain::new("management".into(), Limits::default());
        let management = domains.create(domains.root(), management).unwrap_or(domains.root());
        let environment = Domain::new("capsules".into(), Limits::default());
        let capsules = domains.create(domains.root(), environment).unwrap_or(domains.root());
        let mut channels = Channels::with_secret(secret_word(seed));
        for kind in [anep::type_id::CAPSULE, anep::type_id::FETCH] {
            own_channels(&mut channels, &mut domains, capsules, kind);
        }
        let env = Env {
            name: short,
            gauges: vec![Gauge::default(); ports.len()],
            topology: Topology::new(ports, known, routes),
            domains,
            capsules,
            state: StateStore::new(sizes.state_entries),
            log: Default::default(),
            rng: Xoshiro256PlusPlus::from_seed(secret(seed, b"random")),
            pool: FramePool::default(),
            packet: None,
            children: Vec::with_capacity(crate::ee::capsule::env::CHILDREN_MAX),
            next_trace: seed << 32,
        };
        Node {
            env: Some(Box::new(env)),
            channels,
            halves: Vec::new(),
            payloads: Default::default(),
            processed: Vec::new(),
            pools: Pools::default(),
            in_hand: None,
            hosts: hosts::Hosts::default(),
            paths: paths::Paths::default(),
            events: Events::default(),
            due: Vec::new(),
            overdue: Vec::new(),
            codes: Codes::new(sizes.codes),
            fetch: Fetch::new(secret(seed, b"nonces")),
            objects: Objects::new(sizes.object_bytes),
            serving: Serving::new(sizes.fetch_bytes_per_second),
            look_ups: Rates::new(sizes.look_ups_per_second, sizes.look_ups_per_second.max(sizes.codes as u64)),
            resolver: Resolver::default(),
            applications: HashSet::new(),
            ingress,
            drops: Drops::default(),
            roles,
            management,
            next_sweep: SWEEP,
            next_look: overrun::LOOK,
            next_review: REVIEW,
            credentials: CredentialCounts::default(),
            name,
            kernel,
            told: 0,
            next_tell: 0,
            adopted: Vec::new(),
            links_wanted: halves::links_wanted(),
            plan: None,
        }
    }

    /// A frame has come in by `frame.port`.
    pub fn receive(&mut self, turn: &mut Turn<'_>, frame: Frame) {
        let mut seen = self.look(&frame);
        self.find(&frame, &mut seen);
        self.approach(&seen);
        self.take_in(turn, frame, seen);
    }

    /// A frame has come in of which this is known.
    #[inline(always)]
    fn take_in(&mut self, turn: &mut Turn<'_>, frame: Frame, seen: batch::Seen) {
        let port = frame.port;
        let gauge = self.env.as_deref_mut().and_then(|env| env.gauges.get_mut(usize::from(port.0)));
        let Some(gauge) = gauge else { return };
        gauge.received += 1;
        gauge.received_bytes += frame.len() as u64;
        match seen {
            batch::Seen::Nowhere => {}
            batch::Seen::PassedUp(link) => self.resume(turn, frame, link),
            batch::Seen::Class(class) => self.take_in_class(turn, frame, class),
            batch::Seen::Other(_) => self.leave_alone(turn, frame),
            batch::Seen::Channel(found) => {
                turn.out.event(frame.trace, EventKind::Received(port));
                self.enter_channel(turn, frame, found);
            }
        }
    }

    /// A frame has come in that is the node's business.
    #[inline(always)]
    fn take_in_class(&mut self, turn: &mut Turn<'_>, frame: Frame, class: Result<Class, crate::wire::Error>) {
        let port = frame.port;
        match class {
            Ok(Class::NotOurs) => self.leave_alone(turn, frame),
            Ok(Class::Anep(range, native)) => {
                if self.ingress[usize::from(port.0)].as_mut().is_some_and(|ceiling| !ceiling.take(turn.now, 1)) {
                    return self.drop(turn, frame, Reason::IngressRate);
                }
                turn.out.event(frame.trace, EventKind::Received(port));
                self.receive_anep(turn, frame, range, native);
            }
            Ok(Class::Arp(range)) => self.receive_arp(turn, frame, range),
            Ok(Class::NeighbourDiscovery(range, from, to)) => self.receive_discovery(turn, frame, range, (from, to)),
            Err(_) => self.drop(turn, frame, Reason::Malformed),
        }
    }

    /// A frame is the Linux stack's, which has it already.
    fn leave_alone(&mut self, turn: &mut Turn<'_>, frame: Frame) {
        if let Some(gauge) = self.env.as_deref_mut().and_then(|env| env.gauges.get_mut(usize::from(frame.port.0))) {
            gauge.not_ours += 1;
        }
        turn.out.pool.give(frame);
    }

    /// An ANEP packet is at `range` of the frame.
    #[inline]
    fn receive_anep(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        range: core::ops::Range<usize>,
        native: Option<Native>,
    ) {
        let Ok(packet) = anep::Packet::new_checked(&frame.bytes()[range.clone()]) else {
            return self.drop(turn, frame, Reason::Malformed);
        };
        let (kind, header, length) = (packet.type_id(), packet.header_len(), packet.bytes().len());
        if header > anep::HEADER && (!packet.verify_checksum() || packet.unknown_option_discards()) {
            return self.drop(turn, frame, Reason::Malformed);
        }
        let discard = packet.discard_if_unknown();
        match kind {
            anep::type_id::CAPSULE => {
                self.channels.own[0].came.count(length);
                frame.truncate(range.start + length);
                frame.strip(range.start + header);
                self.receive_capsule(turn, frame, native);
            }
            anep::type_id::FETCH => {
                self.channels.count_came(kind, length);
                frame.truncate(range.start + length);
                frame.strip(range.start + header);
                self.receive_fetch(turn, frame, native);
            }
            anep::type_id::PLAN if self.plan.is_some() => {
                self.channels.count_came(kind, length);
                frame.truncate(range.start + length);
                frame.strip(range.start + header);
                self.receive_plan(turn, frame, native);
            }
            _ => {
                frame.truncate(range.start + length);
                frame.strip(range.start);
                match self.receive_anep_channel(turn, frame, kind, header) {
                    Some(frame) if discard => self.drop(turn, frame, Reason::UnknownType),
                    Some(frame) => self.pass_on(turn, frame, native),
                    None => {}
                }
            }
        }
    }

    /// A capsule has come in: its header begins the frame.
    fn receive_capsule(&mut self, turn: &mut Turn<'_>, mut frame: Frame, native: Option<Native>) {
        let Ok(mut header) = capsule::Header::parse(frame.bytes()) else {
            return self.drop(turn, frame, Reason::Malformed);
        };
        if let Some(native) = native {
            if native.destination != header.destination {
                return self.drop(turn, frame, Reason::DestinationMismatch);
            }
            // Only injected capsules have no previous node, and those come from applications.
            if header.previous.is_unspecified() {
                return self.drop(turn, frame, Reason::Malformed);
            }
            frame.envelope = native.envelope;
        } else {
            frame.envelope = Envelope::FRESH;
        }
        let (source, from) = match self.source_of(turn.now, &frame, header.previous, native.is_some()) {
            Ok(found) => found,
            Err(reason) => return self.drop(turn, frame, reason),
        };
        self.tell_new_neighbours(turn);
        if header.previous != source.addr {
            header.previous = source.addr;
            set_previous(&mut frame, source.addr);
        }
        self.process(turn, frame, &header, Some(source), from);
    }

    /// Who sent a frame, and its index among the neighbours: the peer of an overlay port, or the
    /// previous node of a native capsule.
    fn source_of(&mut self, now: u64, frame: &Frame, previous: Addr, native: bool) -> Result<(Source, u32), Reason> {
        let Some(env) = self.env.as_deref_mut() else { return Err(Reason::Stranger) };
        let port = frame.port;
        if !native {
            let (index, known) = env.topology.neighbours.of_peer(port, frame.peer).ok_or(Reason::Stranger)?;
            return Ok((Source { port, peer: frame.peer, addr: known.addr }, index));
        }
        // A native previous hop is learned when it is on the link: only then can it be asked.
        let source = Source { port, peer: PeerId::NONE, addr: previous };
        let known = match env.topology.neighbours.index(port, previous) {
            Some(index) => {
                env.topology.neighbours.hear(index, now);
                Some(index)
            }
            None if env.topology.port(port).is_some_and(|port| port.on_link(previous)) => {
                env.topology.neighbours.learn(Neighbour { addr: previous, port, peer: PeerId::NONE }, now)
            }
            None => None,
        };
        Ok((source, known.unwrap_or(NONE)))
    }

    /// Runs a capsule's code, or lets it wait: for its domain's turn, or for the code. `from` is the source's index among the
    /// neighbours, or [`NONE`].
    #[inline]
    fn process(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        header: &capsule::Header,
        source: Option<Source>,
        from: u32,
    ) {
        if self.paths.is_queueing()
            && let Found::Ready { domain, .. } = self.codes.find(&header.code, turn.now)
        {
            return self.enqueue(turn, domain, paths::Work::Capsule { frame, source, from });
        }
        self.process_now(turn, frame, header, source, from);
    }

    /// Runs a capsule's code, or lets it wait for that.
    fn process_now(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        header: &capsule::Header,
        source: Option<Source>,
        from: u32,
    ) {
        match self.codes.find(&header.code, turn.now) {
            Found::Ready { slot, domain, window, steps } => {
                let ready = ReadyCode { slot, domain, window, steps };
                self.run(turn, frame, header, ready, source, from);
            }
            Found::Refused(reason) => self.drop(turn, frame, reason),
            Found::Absent => self.wait_for_code(turn, frame, header.code, source),
        }
    }

    fn neighbour_index(&self, source: Option<Source>) -> u32 {
        let Some((source, env)) = source.zip(self.env.as_deref()) else { return NONE };
        env.topology.neighbours.index(source.port, source.addr).unwrap_or(NONE)
    }

    /// The capsule's code runs on it, and the verdict is carried out.
    fn run(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        header: &capsule::Header,
        code: ReadyCode,
        source: Option<Source>,
        from: u32,
    ) {
        let Some(mut env) = self.env.take() else { return };
        let admitted = match env.domains.of(code.domain) {
            Some(domain) => domain.admit(turn.now, frame.len()),
            None => Err(Reason::CodeRefused),
        };
        let fits = frame.len() >= capsule::HEADER + code.window;
        if let Err(reason) = admitted.and(if fits { Ok(()) } else { Err(Reason::Window) }) {
            self.env = Some(env);
            return self.drop_in(turn, frame, reason, code.domain);
        }
        let way = env.topology.way_of(&flow_of(&frame, source.is_none(), header));
        let (own, here) = (way.here, if way.here { header.destination } else { way.own });
        let trace = frame.trace;
        env.packet = Some(Packet {
            now: turn.now,
            domain: code.domain,
            here,
            flags: if own { FLAG_HERE } else { 0 } | if source.is_none() { FLAG_INJECTED } else { 0 },
            in_port: source.map_or(NONE, |source| u32::from(source.port.0)),
            from,
            bound: header.bound,
            app_port: header.app_port,
            neighbours: env.topology.neighbours.len() as u32,
            window: code.window,
            lines: 0,
            frame,
        });
        core::mem::swap(&mut env.pool, &mut turn.out.pool);
        let (mut env, outcome) = turn.runtime.run(code.slot, env, code.steps);
        core::mem::swap(&mut env.pool, &mut turn.out.pool);
        if let Some(domain) = env.domains.of(code.domain) {
            domain.charge_steps(turn.now, outcome.steps);
        }
        turn.out.event(trace, EventKind::Ran(outcome.steps));
        // What goes on of the packet; the rest of it is not worth a copy.
        let left = env.packet.take().map(|packet| (packet.frame, packet.bound));
        self.env = Some(env);
        if let Some((frame, bound)) = left {
            let done = Done { frame, bound, here, domain: code.domain };
            self.conclude(turn, done, header, outcome.verdict);
        }
    }

    /// Acts on a verdict: children first, then the packet itself.
    fn conclude(
        &mut self,
        turn: &mut Turn<'_>,
        done: Done,
        before: &capsule::Header,
        verdict: Result<Verdict, Reason>,
    ) {
        let Some(env) = self.env.as_deref_mut() else { return };
        if !env.children.is_empty() {
            self.conclude_children(turn, &done, before, verdict.is_ok());
        }
        let Done { mut frame, bound, here, domain } = done;
        match verdict {
            Ok(Verdict::Drop) => self.drop_in(turn, frame, Reason::Code, domain),
            Ok(Verdict::Deliver(port)) => {
                set_bound(&mut frame, bound);
                if !self.is_honest(address(&frame, capsule::SOURCE), before, here) {
                    return self.drop_in(turn, frame, Reason::Source, domain);
                }
                self.deliver(turn, frame, port.unwrap_or(before.app_port), domain);
            }
            Ok(Verdict::Forward) => match bound.checked_sub(1) {
                Some(left) => {
                    set_bound(&mut frame, left);
                    self.send_on(turn, frame, before, here, domain);
                }
                None => self.forward_without_bound(turn, frame, before, here, domain),
            },
            Err(reason) => self.drop_in(turn, frame, reason, domain),
        }
    }

    /// Sends the children of a packet, or takes them back.
    fn conclude_children(&mut self, turn: &mut Turn<'_>, parent: &Done, before: &capsule::Header, ran: bool) {
        let Some(env) = self.env.as_deref_mut() else { return };
        let mut children = core::mem::take(&mut env.children);
        for child in children.drain(..) {
            if ran {
                turn.out.event(parent.frame.trace, EventKind::Child(child.trace));
                self.send_on(turn, child, before, parent.here, parent.domain);
            } else {
                // What a failed run has sent was never sent.
                turn.out.pool.give(child);
            }
        }
        if let Some(env) = self.env.as_deref_mut() {
            env.children = children;
        }
    }

    /// A packet without bound can still end where it is.
    #[cold]
    fn forward_without_bound(
        &mut self,
        turn: &mut Turn<'_>,
        frame: Frame,
        before: &capsule::Header,
        here: Addr,
        domain: DomainId,
    ) {
        let to = address(&frame, capsule::DESTINATION);
        if !self.is_honest(address(&frame, capsule::SOURCE), before, here) {
            self.drop_in(turn, frame, Reason::Source, domain);
        } else if self.env.as_deref().is_some_and(|env| env.topology.is_own(to)) {
            self.deliver(turn, frame, before.app_port, domain);
        } else {
            self.drop_in(turn, frame, Reason::Bound, domain);
        }
    }

    /// Whether code left a source that may be there: the packet's own, or this node's.
    #[inline]
    fn is_honest(&self, source: Addr, before: &capsule::Header, here: Addr) -> bool {
        let own = || self.env.as_deref().is_some_and(|env| env.topology.is_own(source));
        source == before.source || source == here || own()
    }

    /// Sends a packet or child that code let go, after a look at what the code wrote into it.
    fn send_on(
        &mut self,
        turn: &mut Turn<'_>,
        mut frame: Frame,
        before: &capsule::Header,
        here: Addr,
        domain: DomainId,
    ) {
        let Ok(after) = capsule::Header::parse(frame.bytes()) else {
            return self.drop_in(turn, frame, Reason::Malformed, domain);
        };
        if !self.is_honest(after.source, before, here) {
            return self.drop_in(turn, frame, Reason::Source, domain);
        }
        let Some(env) = self.env.as_deref_mut() else { return };
        let way = env.topology.way_of(&flow_of(&frame, before.previous.is_unspecified(), &after));
        if way.here {
            return self.deliver(turn, frame, after.app_port, domain);
        }
        let (next, peer) = (way.next, way.peer);
        set_previous(&mut frame, way.own);
        if let Some(domain) = env.domains.of(domain) {
            domain.forwarded += 1;
        }
        let ends = (after.source, after.destination);
        self.transmit_capsule(turn, frame, ends, next.map(|next| (next, peer)), domain);
    }

    /// Hands a capsule to the application at `port`.
    fn deliver(&mut self, turn: &mut Turn<'_>, frame: Frame, port: u16, domain: DomainId) {
        if !self.applications.contains(&port) {
            return self.drop_in(turn, frame, Reason::NoApplication, domain);
        }
        if let Some(domain) = self.env.as_deref_mut().and_then(|env| env.domains.of(domain)) {
            domain.counts.delivered += 1;
        }
        turn.out.event(frame.trace, EventKind::Delivered(port));
        turn.out.deliveries.push(Delivery { port, frame });
    }

    /// An application of this node sends a capsule: header and payload, the source being an address
    /// of this node or none.
    pub fn inject(&mut self, turn: &mut Turn<'_>, mut frame: Frame) -> Result<(), Reason> {
        let Ok(mut header) = capsule::Header::parse(frame.bytes()) else {
            turn.out.pool.give(frame);
            return Err(Reason::Malformed);
        };
        let Some(env) = self.env.as_deref() else { return Err(Reason::Malformed) };
        if header.source.is_unspecified() {
            header.source = env.topology.address_towards(header.destination);
        } else if !env.topology.is_own(header.source) {
            turn.out.pool.give(frame);
            return Err(Reason::Source);
        }
        header.previous = Addr::UNSPECIFIED;
        if header.emit(frame.bytes_mut()).is_err() {
            return Err(Reason::Malformed);
        }
        frame.envelope = Envelope::FRESH;
        turn.out.event(frame.trace, EventKind::Injected);
        self.process(turn, frame, &header, None, NONE);
        Ok(())
    }

    /// The node's first address: what applications are told.
    pub fn address(&self) -> Option<Addr> {
        let ports = &self.env.as_deref()?.topology.ports;
        ports.iter().flat_map(|port| &port.addresses).map(|(addr, _)| *addr).find(|addr| !addr.is_link_local())
    }

    /// An application has opened a port; false if another one has it.
    pub fn open(&mut self, port: u16) -> bool {
        self.applications.insert(port)
    }

    /// An application has closed its port.
    pub fn close(&mut self, port: u16) {
        self.applications.remove(&port);
    }

    /// New routes; while there is a router it is asked in their place.
    pub fn set_routes(&mut self, routes: Arc<Routes>, router: Option<Arc<dyn Router>>) {
        if let Some(env) = self.env.as_deref_mut() {
            env.topology.set_routes(routes, router);
        }
    }

    /// The interface of a port has changed: it has other addresses, another MTU or link address, or is another one.
    pub fn set_port(&mut self, id: PortId, port: Port) {
        if let Some(env) = self.env.as_deref_mut() {
            env.topology.set_port(id, port);
        }
        self.resolver.forget(id);
    }

    /// The link of a port was down: link addresses behind it are asked for anew, so that the kernel half gets them again too.
    pub fn link_was_down(&mut self, id: PortId) {
        self.resolver.forget(id);
    }

    /// How many octets wait in the output queue of a port.
    pub fn set_queue(&mut self, port: PortId, bytes: u32) {
        if let Some(gauge) = self.env.as_deref_mut().and_then(|env| env.gauges.get_mut(usize::from(port.0))) {
            gauge.queued_bytes = bytes;
        }
    }

    /// The system has thrown away frames that came in by a port because nobody took them in time.
    pub fn count_missed(&mut self, port: PortId, frames: u32) {
        if let Some(gauge) = self.env.as_deref_mut().and_then(|env| env.gauges.get_mut(usize::from(port.0))) {
            gauge.missed += u64::from(frames);
        }
    }

    /// When [`Node::timer`] has something to do.
    pub fn next_timer(&self) -> u64 {
        if !self.overdue.is_empty() {
            return 0;
        }
        let fetch = self.fetch.deadline().unwrap_or(u64::MAX);
        let pools = self.pools.next_deadline().unwrap_or(u64::MAX);
        let pools = pools.min(self.events.next_deadline().unwrap_or(u64::MAX));
        fetch
            .min(self.resolver.deadline().unwrap_or(u64::MAX))
            .min(self.next_sweep)
            .min(pools)
            .min(self.next_plan_timer())
    }

    /// Does what is due.
    pub fn timer(&mut self, turn: &mut Turn<'_>) {
        self.expire_fetches(turn);
        self.expire_resolutions(turn);
        self.look_after_pools(turn);
        self.expire_events(turn);
        self.end_overdue(turn);
        self.run_plan(turn, turn.now >= self.next_sweep);
        if turn.now >= self.next_sweep {
            self.next_sweep = turn.now + SWEEP;
            if let Some(env) = self.env.as_deref_mut() {
                let share = env.state.capacity().div_ceil(SWEEP_SHARE);
                env.state.sweep(&mut env.domains, turn.now, share);
                env.topology.neighbours.forget_silent(turn.now);
            }
            self.tell_neighbours(turn);
            self.want_adopted(turn);
            if turn.now >= self.next_look {
                self.next_look = turn.now + overrun::LOOK;
                self.look_at_budgets(turn);
                self.settle_cuts();
            }
            if turn.now >= self.next_review {
                self.next_review = turn.now + REVIEW;
                self.review_grants(turn);
            }
        }
    }

    /// Counts a packet that a port or an application could not take.
    pub fn refused_outside(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason) {
        self.drop(turn, frame, reason);
    }

    fn drop(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason) {
        self.drops.count(reason);
        turn.out.event(frame.trace, EventKind::Dropped(reason));
        turn.out.pool.give(frame);
    }

    /// Drops a packet that a domain pays for.
    pub fn drop_in(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        if let Some(domain) = self.env.as_deref_mut().and_then(|env| env.domains.of(domain)) {
            domain.counts.drops.count(reason);
        }
        self.drop(turn, frame, reason);
    }
}

/// An environment of the node's own gets the channels of an ANEP type. There is room for the node's own.
fn own_channels(channels: &mut Channels, domains: &mut Domains, domain: DomainId, kind: u16) {
    if channels.add_own(domain, kind).is_ok()
        && let Some(domain) = domains.of(domain)
    {
        domain.channels += 2;
    }
}

/// A secret for one use. What mobile code learns of one, by its random numbers, says nothing of the others.
fn secret(seed: u64, purpose: &[u8; 6]) -> [u8; 32] {
    let mut input = [0; 14];
    let (words, rest) = input.split_at_mut(8);
    words.copy_from_slice(&seed.to_be_bytes());
    rest.copy_from_slice(purpose);
    Digest::of(&input).0
}

/// The same as one word.
fn secret_word(seed: u64) -> u64 {
    u64::from_be_bytes(*secret(seed, b"filter").first_chunk().unwrap_or(&[0; 8]))
}

/// What [`Codes::find`] says of code that can run.
#[derive(Clone, Copy)]
struct ReadyCode {
    slot: crate::code::run::SlotId,
    domain: DomainId,
    window: usize,
    steps: u64,
}

/// A packet whose code has run.
struct Done {
    frame: Frame,
    /// The bound that its children have left it.
    bound: u32,
    /// The node's address that the code saw.
    here: Addr,
    domain: DomainId,
}

/// What the way of a capsule in its frame may depend on; `injected`: it begins here.
#[inline]
fn flow_of(frame: &Frame, injected: bool, header: &capsule::Header) -> Flow {
    let Envelope { service, direct, .. } = frame.envelope;
    Flow { to: header.destination, from: header.source, port: (!injected).then_some(frame.port), service, direct }
}

fn set_bound(frame: &mut Frame, bound: u32) {
    if let Some(place) = field(frame, capsule::BOUND) {
        *place = bound.to_be_bytes();
    }
}

fn set_previous(frame: &mut Frame, previous: Addr) {
    if let Some(place) = field(frame, capsule::PREVIOUS) {
        *place = previous.0;
    }
}

/// A field of the capsule header in a frame, as an array: writing it is a store, not a call to copy.
#[inline]
fn field<const LENGTH: usize>(frame: &mut Frame, at: usize) -> Option<&mut [u8; LENGTH]> {
    frame.bytes_mut().get_mut(at..)?.first_chunk_mut()
}

/// An address of the capsule header in a frame.
#[inline]
fn address(frame: &Frame, at: usize) -> Addr {
    let field = frame.bytes().get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(Addr::UNSPECIFIED, |octets| Addr(*octets))
}
