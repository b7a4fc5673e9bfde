//! A node at rest: its core, the domains of its own environments, and these environments in their table.

use super::capsules::Capsules;
use super::environment::Environments;
use super::{
    Control, Cx, LOOK, Mirror, Node, NodeConfig, Order, SWEEP, alarms, ending, entry, graphs, hello, hosts, links,
    paths, reach, revoking,
};
use crate::core::Core;
use crate::core::bucket::{TokenBucket, burst};
use crate::core::domain::{Domain, DomainId, Domains};
use crate::graph::{Channels, Graphs};
use crate::nodeos::event::Events;
use crate::nodeos::store::Stores;
use crate::topology::{Neighbours, Topology};
use crate::trust::Roles;
use crate::trust::limits::Limits;
use crate::wire::Digest;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;
use std::sync::Arc;

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
        let rate = sizes.ingress_packets_per_second;
        let ingress = ports.iter().map(|_| ingress_bucket(rate)).collect();
        let rng = Xoshiro256PlusPlus::from_seed(secret(seed, b"random"));
        let mut core = Core::new(name, Topology::new(ports, known, routes), sizes.state_entries, rng, seed << 32);
        (core.ingress, core.ingress_rate) = (ingress, rate);
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
        environments.add(&mut cx, links::Links, &[]);
        environments.add(&mut cx, hello::Hellos::new(seed), &[]);
        environments.add(&mut cx, graphs::RunningGraphs::new(secret_word(seed)), &[]);
        Node { cx, environments }
    }
}

impl Cx {
    /// An environment gets the channels of its own type of ANEP. There is room for those of the node's own.
    pub(super) fn own_channels(&mut self, domain: DomainId, kind: u16) {
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
            roles_renewed: false,
            management: kept[1],
            kept,
            proofs: None,
            events: Events::default(),
            stores: Stores::default(),
            due: Vec::new(),
            ended: VecDeque::new(),
            untold: Vec::new(),
            felled: ending::Felled::default(),
            originate: reach::Originate::new(seed),
            clamps: Default::default(),
            alarms: alarms::Alarms::new(ports),
            mirror: Mirror { on: kernel, told: 0, next_tell: 0 },
            workers: Default::default(),
            wishing: Default::default(),
            next_sweep: SWEEP,
            next_look: LOOK,
        }
    }
}

/// The bucket of a port's ceiling, if it has one.
pub(super) fn ingress_bucket(rate: u64) -> Option<TokenBucket> {
    (rate > 0).then(|| TokenBucket::new(rate, burst(rate)))
}

/// A secret for one use. What mobile code learns of one, by its random numbers, says nothing of the others.
pub(super) fn secret(seed: u64, purpose: &[u8; 6]) -> [u8; 32] {
    let mut input = [0; 14];
    let (words, rest) = input.split_at_mut(8);
    words.copy_from_slice(&seed.to_be_bytes());
    rest.copy_from_slice(purpose);
    Digest::of(&input).0
}

/// The same as one word.
pub(super) fn secret_word(seed: u64) -> u64 {
    u64::from_be_bytes(*secret(seed, b"filter").first_chunk().unwrap_or(&[0; 8]))
}

/// A domain of the node's own environments.
pub(super) fn below_root(domains: &mut Domains, title: &str) -> DomainId {
    let root = domains.root();
    domains.create(root, Domain::new(title.into(), Limits::default())).unwrap_or(root)
}
