//! The node: frames in, frames out. A capsule comes in by port 0, its code runs, and it leaves by port 1.
//!
//! [`Node`] is the state machine of the user half. A driver (a real worker, a simulator, a test) hands it frames,
//! timers and commands together with the time, and carries out its [`Output`]. The node itself opens nothing, waits for
//! nothing and reads no clock.
//!
//! A node has two parts. `Environments` run packets of domains. `Cx` is the context of every call to one: the core,
//! channels, the order of packets, and the operator's settings. Calls do not nest: endings and messages of a call are
//! left in `Cx` and carried out when it has returned (`Environments::settle`), endings first.
//!
//! The way of a packet, from [`Node::receive`] on: `receiving` classifies it and finds in a table of types whose it is;
//! `environment` is that table; `paths` lets the packet wait for its domain's turn; `running` (capsules), `plan` and
//! `forms` (graphs of channels: hosts behind the NodeOS interface, engines, cut-through) run it; `sending` finds the
//! next hop and puts headers on. What is off that way is in a module of its own: `codes` knows what each code name
//! means, `loading` brings absent code here, `vouching` asks others for what it came without, `serving` answers
//! neighbours that ask for code.

mod alarms;
mod api;
mod balance;
mod batch;
mod capsules;
mod ceilings;
mod channels;
pub mod codes;
pub mod config;
pub mod domains;
mod ending;
mod entering;
pub mod entry;
mod environment;
mod forms;
mod halves;
pub mod hosts;
mod loading;
pub mod objects;
pub mod os;
mod outgoing;
pub mod output;
mod overrun;
pub mod paths;
mod plan;
pub mod proofs;
mod rates;
mod reach;
mod receiving;
mod replay;
pub mod revoking;
mod running;
mod sending;
mod serving;
pub mod status;
mod tiers;
mod trust;
mod unproved;
mod vouching;

use crate::core::Core;
use crate::core::bucket::TokenBucket;
use crate::core::domain::{Domain, DomainId, Domains};
use crate::core::reason::Reason;
use crate::frame::PortId;
use crate::graph::half::ChannelHalf;
use crate::graph::{Channels, Graphs};
use crate::nodeos::event::Events;
use crate::topology::{Neighbours, Port, Router, Routes, Topology};
use crate::trust::Roles;
use crate::trust::limits::Limits;
use crate::wire::{Addr, Digest};
use capsules::Capsules;
pub use config::{NodeConfig, Sizes};
pub use ending::EndedBy;
use environment::Environments;
pub use output::{
    Cause, Delivery, Effect, Event, EventKind, Ingress, KernelOrder, Linked, Output, Prepare, Shared, Turn,
};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
pub use status::CredentialCounts;
use std::collections::VecDeque;
use std::sync::Arc;

/// Time between two sweeps of soft state, in nanoseconds.
const SWEEP: u64 = 100_000_000;

/// Time between two looks at rare events, in nanoseconds.
const LOOK: u64 = 1_000_000_000;

/// Sweeps in which every soft-state entry is looked at once.
const SWEEP_SHARE: usize = 10;

/// Codes in the list for the next process.
pub const RECENT_MAX: usize = 256;

/// One active node.
pub struct Node {
    cx: Cx,
    environments: Environments,
}

/// The context of every call of an environment.
struct Cx {
    core: Core,
    graphs: Graphs,
    order: Order,
    control: Control,
}

/// Whose packet is next.
struct Order {
    /// Packets that wait for the CPU.
    paths: paths::Paths,
    /// Shares of neighbours at the entrance.
    entry: entry::Entry,
}

/// Settings of the operator, and everything that timers look after.
struct Control {
    roles: Arc<Roles>,
    /// The domain of the management environment, above those of the environments that it starts.
    management: DomainId,
    /// Domains that end with the node only.
    kept: [DomainId; 3],
    /// Keys of neighbours, and what ports demand.
    proofs: Option<Box<proofs::Proofs>>,
    /// Events of domains, by their time.
    events: Events,
    /// Those that are due now.
    due: Vec<(DomainId, crate::nodeos::interface::EventId, u64)>,
    /// Domains that have ended, of which environments are to be told.
    ended: VecDeque<ending::Gone>,
    /// Upcalls to make when the current call has returned.
    untold: Vec<(DomainId, crate::nodeos::interface::Upcall)>,
    /// Domains that the node has ended against their will.
    felled: ending::Felled,
    /// Limits on the node's own messages, by address.
    originate: reach::Originate,
    /// Sources of packets with cut bounds.
    clamps: ceilings::Said,
    /// Drops that the log is to tell.
    alarms: alarms::Alarms,
    mirror: Mirror,
    next_sweep: u64,
    next_look: u64,
}

/// The node's view of the kernel half.
struct Mirror {
    /// Whether one works for the node.
    on: bool,
    /// Changes of the neighbours that it has been told, and when it may be told of more before the next sweep.
    told: u64,
    next_tell: u64,
}

impl Node {
    /// A node at rest.
    pub fn new(config: NodeConfig) -> Node {
        let NodeConfig { name, ports, neighbours, routes, roles, sizes, seed, kernel } = config;
        let port_count = ports.len();
        let entry = entry::Entry::new(&ports, &neighbours);
        let mut known = Neighbours::default();
        for neighbour in neighbours {
            known.add(neighbour);
        }
        let ingress = ports.iter().map(|_| ingress_bucket(&sizes)).collect();
        let rng = Xoshiro256PlusPlus::from_seed(secret(seed, b"random"));
        let mut core = Core::new(name, Topology::new(ports, known, routes), sizes.state_entries, rng, seed << 32);
        core.ingress = ingress;
        let [management, capsules] = ["management", "capsules"].map(|title| below_root(&mut core.domains, title));
        let root = core.domains.root();
        let channels = Channels::with_secret(secret_word(seed));
        let mut cx = Cx {
            core,
            graphs: Graphs { channels, ..Graphs::default() },
            order: Order { paths: paths::Paths::default(), entry },
            control: Control::new(roles, [root, management, capsules], (seed, port_count), kernel),
        };
        let mut environments = Environments::default();
        environments.add(&mut cx, Capsules::new(capsules, &sizes, seed), &[capsules]);
        environments.add(&mut cx, revoking::Revocations::new(capsules), &[]);
        environments.add(&mut cx, hosts::Hosts::default(), &[root, management]);
        Node { cx, environments }
    }

    /// The node's first address: what applications are told.
    pub fn address(&self) -> Option<Addr> {
        let ports = &self.cx.core.topology.ports;
        ports.iter().flat_map(|port| &port.addresses).map(|(addr, _)| *addr).find(|addr| !addr.is_link_local())
    }

    /// New routes; while there is a router it is asked in their place.
    pub fn set_routes(&mut self, routes: Arc<Routes>, router: Option<Arc<dyn Router>>) {
        self.cx.core.topology.set_routes(routes, router);
    }

    /// The interface of a port has changed: it has other addresses, another MTU or link address, or is another one.
    pub fn set_port(&mut self, id: PortId, port: Port) {
        self.cx.core.topology.set_port(id, port);
        if let Some(proofs) = self.cx.control.proofs.as_deref_mut() {
            proofs.derive_again(id, &self.cx.core.topology);
        }
        self.cx.core.resolver.forget(id);
    }

    /// The link of a port was down: link addresses behind it are asked for anew, so that the kernel half gets them again too.
    pub fn link_was_down(&mut self, id: PortId) {
        self.cx.core.resolver.forget(id);
    }

    /// What a port says of its output queue: frames that wait there, their bytes, and how many have left by it so far.
    pub fn set_port_queue(&mut self, port: PortId, (frames, bytes): (u32, u32), left: u64) {
        if let Some(gauge) = self.cx.core.gauge(port) {
            (gauge.queued, gauge.queued_bytes, gauge.left) = (Some(frames), bytes, left);
        }
    }

    /// What looks at frames before this node does.
    pub fn set_channel_halves(&mut self, halves: Vec<Box<dyn ChannelHalf>>) {
        self.cx.graphs.halves = halves;
    }

    /// How many bytes wait in the output queue of a port.
    pub fn set_queue(&mut self, port: PortId, bytes: u32) {
        if let Some(gauge) = self.cx.core.gauge(port) {
            gauge.queued_bytes = bytes;
        }
    }

    /// The system has thrown away frames that came in by a port because nobody took them in time.
    pub fn count_missed(&mut self, port: PortId, frames: u32) {
        if let Some(gauge) = self.cx.core.gauge(port) {
            gauge.missed += u64::from(frames);
        }
        self.count_drops(Reason::Missed, frames.into());
    }

    /// When [`Node::timer`] has something to do.
    pub fn next_timer(&self) -> u64 {
        if !self.cx.core.overdue.is_empty() || !self.cx.control.untold.is_empty() {
            return 0;
        }
        let pools = self.cx.core.pools.next_deadline().unwrap_or(u64::MAX);
        let pools = pools.min(self.cx.control.events.next_deadline().unwrap_or(u64::MAX));
        let own = self.cx.core.resolver.deadline().unwrap_or(u64::MAX).min(self.cx.control.next_sweep).min(pools);
        self.environments.iter().map(|environment| environment.next_timer()).fold(own, u64::min)
    }

    /// Carries out due timers.
    pub fn timer(&mut self, turn: &mut Turn<'_>) {
        self.cx.expire_resolutions(turn);
        self.cx.look_after_pools(turn);
        self.environments.settle(&mut self.cx, turn);
        self.expire_events(turn);
        self.end_overdue(turn);
        self.environments.timers(&mut self.cx, turn);
        if turn.now >= self.cx.control.next_sweep {
            self.cx.control.next_sweep = turn.now + SWEEP;
            self.cx.share_out(turn.now);
            let core = &mut self.cx.core;
            let share = core.state.capacity().div_ceil(SWEEP_SHARE);
            core.state.sweep(&mut core.domains, turn.now, share);
            core.topology.neighbours.forget_silent(turn.now);
            self.cx.tell_neighbours(turn);
            if turn.now >= self.cx.control.next_look {
                self.cx.control.next_look = turn.now + LOOK;
                self.cx.raise_alarms(turn.now);
                self.cx.graphs.settle_cuts(&mut self.cx.core);
            }
            self.environments.sweep(&mut self.cx, turn);
        }
    }
}

impl Cx {
    /// An environment gets the channels of its own type of ANEP. There is room for those of the node's own.
    fn own_channels(&mut self, domain: DomainId, kind: u16) {
        if self.graphs.channels.add_own(domain, kind).is_ok()
            && let Some(domain) = self.core.domains.of(domain)
        {
            domain.channels += 2;
        }
    }
}

impl Control {
    fn new(roles: Arc<Roles>, kept: [DomainId; 3], (seed, ports): (u64, usize), kernel: bool) -> Control {
        Control {
            roles,
            management: kept[1],
            kept,
            proofs: None,
            events: Events::default(),
            due: Vec::new(),
            ended: VecDeque::new(),
            untold: Vec::new(),
            felled: ending::Felled::default(),
            originate: reach::Originate::new(seed),
            clamps: Default::default(),
            alarms: alarms::Alarms::new(ports),
            mirror: Mirror { on: kernel, told: 0, next_tell: 0 },
            next_sweep: SWEEP,
            next_look: LOOK,
        }
    }
}

/// The bucket of a port's ceiling, if it has one.
fn ingress_bucket(sizes: &Sizes) -> Option<TokenBucket> {
    let rate = sizes.ingress_packets_per_second;
    (rate > 0).then(|| TokenBucket::new(rate, (rate / 10).max(1)))
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

/// A domain of the node's own environments.
fn below_root(domains: &mut Domains, title: &str) -> DomainId {
    let root = domains.root();
    domains.create(root, Domain::new(title.into(), Limits::default())).unwrap_or(root)
}
