//! The node: frames in, frames out.
//!
//! [`Node`] is the state machine of the user half. A driver (a real worker, a simulator, a test)
//! hands it frames, timers and commands together with the time, and carries out what it finds in
//! the [`Output`]. The node itself opens nothing, waits for nothing and reads no clock.
//!
//! The way of a packet, from [`Node::receive`] on: `receiving` classifies it and finds whose it is, `running` looks its code up, runs it and
//! acts on the verdict; `channels` and `outgoing` do the same for packets of channels. What is off that way is in a module
//! of its own: [`codes`] knows what each code name means, `loading` brings absent code here, `serving` answers neighbours that
//! ask for code, `sending` finds next hops and puts headers on.

mod batch;
mod ceilings;
mod channels;
pub mod codes;
pub mod config;
mod cuts;
pub mod domains;
mod ending;
pub mod entry;
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

use crate::code::fetch::Fetch;
use crate::core::Core;
use crate::core::bucket::TokenBucket;
use crate::core::domain::{Domain, DomainId, Domains};
use crate::core::reason::Reason;
use crate::frame::{Frame, PortId};
use crate::nodeos::channel::Channels;
use crate::nodeos::channel::half::ChannelHalf;
use crate::nodeos::event::Events;
use crate::topology::resolve::Resolver;
use crate::topology::{Neighbours, Port, Router, Routes, Topology};
use crate::trust::Roles;
use crate::trust::limits::Limits;
use crate::wire::{Addr, Digest, anep};
use codes::Codes;
pub use config::{NodeConfig, Sizes};
pub use ending::EndedBy;
use objects::Objects;
pub use output::{
    Cause, Delivery, Effect, Event, EventKind, Ingress, KernelOrder, Linked, Output, Prepare, Shared, Turn,
};
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

/// Codes that the next process is told of.
pub const RECENT_MAX: usize = 256;

/// One active node.
pub struct Node {
    core: Core,
    /// Packets that come to domains and leave them.
    channels: Channels,
    /// What looks at frames before the node does.
    halves: Vec<Box<dyn ChannelHalf>>,
    /// Packets between the modules of channels: incoming, outgoing.
    payloads: [Vec<Frame>; 2],
    processed: Vec<Frame>,
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
    /// What environments of this process are told when the function has returned that they are in.
    untold: Vec<(DomainId, crate::nodeos::interface::Upcall)>,
    /// Domains that the node has ended against their will.
    felled: ending::Felled,
    codes: Codes,
    fetch: Fetch,
    objects: Objects,
    serving: Serving,
    /// Of each neighbour, or of all that are unknown at a port, the codes that it makes the node look for.
    look_ups: Rates<Ingress>,
    /// What it may send of its own accord, by address.
    originate: reach::Originate,
    /// Whose bounds were cut.
    clamps: ceilings::Said,
    resolver: Resolver,
    applications: HashSet<u16>,
    ingress: Vec<Option<TokenBucket>>,
    /// What neighbours may use.
    entry: entry::Entry,
    roles: Arc<Roles>,
    /// The domain of the management environment, above those of the environments that it starts.
    management: DomainId,
    /// The domain of the capsule environment, above those of the codes.
    capsules: DomainId,
    next_sweep: u64,
    next_look: u64,
    next_review: u64,
    credentials: CredentialCounts,
    /// Whether a kernel half works for the node.
    kernel: bool,
    /// Changes of the neighbours that it has been told, and when it may be told of more before the next sweep.
    told: u64,
    next_tell: u64,
    /// Codes that run there and are to be prepared here.
    adopted: Vec<Digest>,
    /// How often it is asked to let copies leave by other links.
    links_wanted: TokenBucket,
    /// What was taken back, and who was told.
    revoking: revoking::Revoking,
    /// Keys of neighbours, and what ports demand.
    proofs: Option<Box<proofs::Proofs>>,
    /// Away only while it is called.
    plan: Option<Box<plan::Speaker>>,
}

impl Node {
    /// A node at rest.
    pub fn new(config: NodeConfig) -> Node {
        let NodeConfig { name, ports, neighbours, routes, roles, sizes, seed, kernel } = config;
        let entry = entry::Entry::new(&ports, &neighbours);
        let mut known = Neighbours::default();
        for neighbour in neighbours {
            known.add(neighbour);
        }
        let ingress = ports.iter().map(|_| ingress_bucket(&sizes)).collect();
        let rng = Xoshiro256PlusPlus::from_seed(secret(seed, b"random"));
        let mut core = Core::new(name, Topology::new(ports, known, routes), sizes.state_entries, rng, seed << 32);
        let [management, capsules] = ["management", "capsules"].map(|title| below_root(&mut core.domains, title));
        let mut channels = Channels::with_secret(secret_word(seed));
        for kind in [anep::type_id::CAPSULE, anep::type_id::FETCH, anep::type_id::REVOCATION] {
            own_channels(&mut channels, &mut core.domains, capsules, kind);
        }
        Node {
            core,
            channels,
            halves: Vec::new(),
            payloads: Default::default(),
            processed: Vec::new(),
            in_hand: None,
            hosts: hosts::Hosts::default(),
            paths: paths::Paths::default(),
            events: Events::default(),
            due: Vec::new(),
            overdue: Vec::new(),
            untold: Vec::new(),
            felled: ending::Felled::default(),
            codes: Codes::new(sizes.codes),
            fetch: Fetch::new(secret(seed, b"nonces")),
            objects: Objects::new(sizes.object_bytes),
            serving: Serving::new(sizes.fetch_bytes_per_second),
            look_ups: Rates::new(sizes.look_ups_per_second, sizes.look_ups_per_second.max(sizes.codes as u64)),
            originate: reach::Originate::new(seed),
            clamps: Default::default(),
            resolver: Resolver::default(),
            applications: HashSet::new(),
            ingress,
            entry,
            roles,
            management,
            next_sweep: SWEEP,
            next_look: overrun::LOOK,
            next_review: REVIEW,
            credentials: CredentialCounts::default(),
            capsules,
            kernel,
            told: 0,
            next_tell: 0,
            adopted: Vec::new(),
            links_wanted: halves::links_wanted(),
            revoking: revoking::Revoking::default(),
            proofs: None,
            plan: None,
        }
    }

    /// The node's first address: what applications are told.
    pub fn address(&self) -> Option<Addr> {
        let ports = &self.core.topology.ports;
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
        self.core.topology.set_routes(routes, router);
    }

    /// The interface of a port has changed: it has other addresses, another MTU or link address, or is another one.
    pub fn set_port(&mut self, id: PortId, port: Port) {
        self.core.topology.set_port(id, port);
        if let Some(proofs) = self.proofs.as_deref_mut() {
            proofs.derive_again(id, &self.core.topology);
        }
        self.resolver.forget(id);
    }

    /// The link of a port was down: link addresses behind it are asked for anew, so that the kernel half gets them again too.
    pub fn link_was_down(&mut self, id: PortId) {
        self.resolver.forget(id);
    }

    /// How many octets wait in the output queue of a port.
    pub fn set_queue(&mut self, port: PortId, bytes: u32) {
        if let Some(gauge) = self.core.gauges.get_mut(usize::from(port.0)) {
            gauge.queued_bytes = bytes;
        }
    }

    /// The system has thrown away frames that came in by a port because nobody took them in time.
    pub fn count_missed(&mut self, port: PortId, frames: u32) {
        if let Some(gauge) = self.core.gauges.get_mut(usize::from(port.0)) {
            gauge.missed += u64::from(frames);
        }
        self.core.drops.count_many(Reason::Missed, frames.into());
    }

    /// When [`Node::timer`] has something to do.
    pub fn next_timer(&self) -> u64 {
        if !self.overdue.is_empty() || !self.untold.is_empty() {
            return 0;
        }
        let fetch = self.fetch.deadline().unwrap_or(u64::MAX);
        let pools = self.core.pools.next_deadline().unwrap_or(u64::MAX);
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
        self.tell_untold(turn);
        self.expire_events(turn);
        self.end_overdue(turn);
        self.run_plan(turn, turn.now >= self.next_sweep);
        if turn.now >= self.next_sweep {
            self.next_sweep = turn.now + SWEEP;
            self.share_out(turn.now);
            let core = &mut self.core;
            let share = core.state.capacity().div_ceil(SWEEP_SHARE);
            core.state.sweep(&mut core.domains, turn.now, share);
            core.topology.neighbours.forget_silent(turn.now);
            self.tell_neighbours(turn);
            self.want_adopted(turn);
            self.look_for_hot_code(turn);
            self.tell_revocations_again(turn);
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

    /// Counts frames that the outside has dropped before the node could see them.
    pub fn count_drops(&mut self, reason: Reason, frames: u64) {
        self.core.drops.count_many(reason, frames);
    }

    /// Counts a packet that a port or an application could not take.
    pub fn refused_outside(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason) {
        self.drop(turn, frame, reason);
    }

    fn drop(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason) {
        self.core.drops.count(reason);
        turn.out.event(frame.trace, EventKind::Dropped(reason));
        turn.out.pool.give(frame);
    }

    /// Drops a packet that a domain pays for.
    pub fn drop_in(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason, domain: DomainId) {
        if let Some(domain) = self.core.domains.of(domain) {
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

/// What one port may bring in, if there is a ceiling.
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
