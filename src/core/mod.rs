//! The core of a node: ports, routes, domains, memory, soft state, counters, log. Every environment is called with it.
//!
//! [`Core`] has the ports and routes, the ledger of [`domain`]s, their memory ([`memory_pool`]) and soft state ([`state_store`]), counters
//! ([`reason`]) and the log. Packets are charged here, whoever runs them. Nothing in this folder runs packets.

pub mod bucket;
pub mod common;
pub mod domain;
pub mod kept;
pub mod ledger;
pub mod log;
pub mod memory_pool;
pub mod owned;
pub mod reason;
pub mod record;
pub mod share;
pub mod state_store;
pub mod table;
pub mod wish;

use crate::frame::{Frame, PortId};
use crate::link::meter::LinkMeter;
use crate::topology::resolve::Resolver;
use crate::topology::{Gauge, Topology};
use crate::wire::capsule;
use bucket::TokenBucket;
use domain::{DomainId, Domains};
use kept::{Page, StateFound};
use log::Log;
use memory_pool::Pools;
use rand_xoshiro::Xoshiro256PlusPlus;
use reason::Drops;
use state_store::{Change, Refused, StateStore, Value};

/// Says how many bytes of the heap are in use, and how many it has besides, if that is known.
pub type Heap = fn() -> Option<(usize, usize)>;

/// The state of a node that all packets share.
pub struct Core {
    /// The node's name.
    pub name: String,
    /// Ports, neighbours, routes.
    pub topology: Topology,
    /// Load and counters of ports, by port.
    pub gauges: Vec<Gauge>,
    /// What says what waits on the link of a port, by port, as far as something does.
    pub meters: Vec<Option<LinkMeter>>,
    /// The bucket of each port with a ceiling.
    pub ingress: Vec<Option<TokenBucket>>,
    /// Active packets a second that one port may bring in, at all workers together; 0 for no ceiling.
    pub ingress_rate: u64,
    /// Link addresses of neighbours, and packets that wait for them.
    pub resolver: Resolver,
    /// Accounts.
    pub domains: Domains,
    /// Memory pools of domains.
    pub pools: Pools,
    /// Soft state.
    pub state: StateStore,
    /// The domain of the packet that is in an upcall and not yet charged to its memory pool.
    pub in_hand: Option<DomainId>,
    /// Domains that their roles have end, for their budgets.
    pub overdue: Vec<DomainId>,
    /// The log of mobile code.
    pub log: Log,
    /// Frames by what became of them.
    pub ledger: ledger::Ledger,
    /// Frames that were dropped, by cause.
    pub drops: Drops,
    /// Bytes of code in memory.
    pub object_bytes: usize,
    /// Who says how many bytes of the process's heap are in use, and how many it has besides, if the outside knows.
    pub heap: Option<Heap>,
    /// The node's source of random numbers.
    pub rng: Xoshiro256PlusPlus,
    /// Children of the packet that runs or has just run, with their resource bounds in their headers; empty between packets.
    pub children: Vec<Frame>,
    /// Identity for the next child.
    next_trace: u64,
}

impl Core {
    /// A core at rest. Frames that are made here get identities from `trace` on.
    pub fn new(name: String, topology: Topology, state_entries: usize, rng: Xoshiro256PlusPlus, trace: u64) -> Core {
        Core {
            name,
            gauges: vec![Gauge::default(); topology.ports.len()],
            topology,
            meters: Vec::new(),
            ingress: Vec::new(),
            ingress_rate: 0,
            resolver: Resolver::default(),
            domains: Domains::default(),
            pools: Pools::default(),
            state: StateStore::new(state_entries),
            in_hand: None,
            overdue: Vec::new(),
            log: Log::default(),
            ledger: ledger::Ledger::default(),
            drops: Drops::default(),
            object_bytes: 0,
            heap: None,
            rng,
            children: Vec::with_capacity(crate::abi::CHILDREN_MAX),
            next_trace: trace,
        }
    }

    /// The node's name as code sees it: as far as it has room, padded with zeros.
    pub fn short_name(&self) -> [u8; 16] {
        let mut short = [0; 16];
        short.iter_mut().zip(self.name.bytes()).for_each(|(place, byte)| *place = byte);
        short
    }

    /// Load and counters of a port.
    pub fn gauge(&mut self, port: PortId) -> Option<&mut Gauge> {
        self.gauges.get_mut(usize::from(port.0))
    }

    /// Bytes that wait to leave by a port at `now`, on the link too if it has a meter.
    pub fn link_queue(&self, port: usize, now: u64) -> Option<u32> {
        let on_link = self.meters.get(port).and_then(Option::as_ref).map_or(0, |meter| meter.queued(now));
        self.gauges.get(port).map(|gauge| gauge.queued_bytes.saturating_add(on_link))
    }

    /// How busy the link of a port was in the last full window before `now`, in thousandths; none if its capacity is unknown.
    pub fn link_load(&mut self, port: usize, now: u64) -> Option<u32> {
        if let Some(load) = self.meters.get(port).and_then(Option::as_ref).and_then(|meter| meter.load(now)) {
            return Some(load);
        }
        let bits_per_second = self.topology.ports.get(port)?.bits_per_second;
        let gauge = self.gauges.get_mut(port)?;
        (bits_per_second > 0).then(|| gauge.load(now, bits_per_second))
    }

    /// The soft state of a domain under `key` at `now`: in the node's table, or in the map that the kernel half shares.
    #[inline]
    pub fn state_value(&mut self, domain: DomainId, key: u64, now: u64) -> Result<Option<Value>, Refused> {
        match self.domains.by_id(domain).and_then(|domain| domain.shared.as_deref()) {
            Some(shared) => {
                let value = shared.value(key, now);
                self.note(domain, value)
            }
            None => Ok(self.state.value(domain, key, now).copied()),
        }
    }

    /// Some of what a domain keeps at `now`, or who can be asked for it.
    pub fn state_page(&self, domain: DomainId, from: u64, now: u64) -> StateFound {
        match self.domains.by_id(domain).and_then(|domain| domain.shared.clone()) {
            Some(shared) if shared.is_of_workers() => match shared.page(from, now) {
                Ok(page) => StateFound::Page(page),
                Err(_) => StateFound::Page(Page::default()),
            },
            Some(shared) => StateFound::Elsewhere(shared, now),
            None => StateFound::Page(self.state.page(domain, from, now)),
        }
    }

    /// Changes that, in one step, and keeps it for so long; gives the number in it.
    pub fn change_state(
        &mut self,
        domain: DomainId,
        key: u64,
        change: Change<'_>,
        keep_ms: u32,
        now: u64,
    ) -> Result<u64, Refused> {
        let Some(shared) = self.domains.by_id(domain).and_then(|domain| domain.shared.as_deref()) else {
            return self.state.change(&mut self.domains, domain, key, change, keep_ms, now);
        };
        let changed = shared.change(key, change, keep_ms, now);
        self.note(domain, changed)
    }

    /// Counts an answer that is a refusal.
    fn note<T>(&mut self, domain: DomainId, answer: Result<T, Refused>) -> Result<T, Refused> {
        if let (Err(refused), Some(domain)) = (&answer, self.domains.of(domain)) {
            domain.counts.refuse(*refused);
        }
        answer
    }

    /// An identity of a packet for traces that no other has.
    pub fn name_packet(&mut self) -> u64 {
        self.next_trace += 1;
        self.next_trace - 1
    }

    /// One more child of the running packet, with so much of that packet's bound.
    pub fn add_child(&mut self, mut child: Frame, bound: u32) {
        child.trace = self.name_packet();
        // The hop to come is paid here, so that the sum over parent and child never grows.
        if let Some(place) = child.bytes_mut().get_mut(capsule::BOUND..capsule::BOUND + 4) {
            place.copy_from_slice(&bound.saturating_sub(1).to_be_bytes());
        }
        self.children.push(child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::limits::Limits;
    use domain::Domain;
    use rand_core::SeedableRng;
    use std::sync::Arc;

    /// Soft state whose keeper gives one answer.
    #[derive(Debug)]
    struct Always(Result<u64, Refused>);

    impl state_store::SharedState for Always {
        fn value(&self, _: u64, _: u64) -> Result<Option<Value>, Refused> {
            self.0.map(|_| None)
        }

        fn change(&self, _: u64, _: Change<'_>, _: u32, _: u64) -> Result<u64, Refused> {
            self.0
        }

        fn page(&self, _: u64, _: u64) -> Result<kept::Page, Refused> {
            self.0.map(|_| kept::Page::default())
        }
    }

    /// A core, and in it a domain whose state has such a keeper.
    fn with_keeper(answer: Result<u64, Refused>) -> (Core, DomainId) {
        let rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut core = Core::new(
            "n".into(),
            Topology::new(
                Vec::new(),
                crate::topology::Neighbours::default(),
                Arc::new(crate::topology::Routes::default()),
            ),
            4,
            rng,
            0,
        );
        let root = core.domains.root();
        let id = core.domains.create(root, Domain::new("code".into(), Limits::default())).unwrap();
        core.domains.of(id).unwrap().shared = Some(Arc::new(Always(answer)));
        (core, id)
    }

    #[test]
    fn a_keeper_of_state_that_fails_does_not_count_as_a_full_table() {
        for (answer, counted) in [(Err(Refused::Failed), (0, 1)), (Err(Refused::Full), (1, 0)), (Ok(3), (0, 0))] {
            let (mut core, id) = with_keeper(answer);
            assert_eq!(core.change_state(id, 1, Change::Add(1), 9, 0), answer);
            let counts = &core.domains.by_id(id).unwrap().counts;
            assert_eq!((counts.state_refused, counts.state_failed), counted);
        }
    }

    #[test]
    fn state_that_cannot_be_read_is_not_absent() {
        for (answer, found, failed) in [(Err(Refused::Failed), Err(Refused::Failed), 1), (Ok(3), Ok(None), 0)] {
            let (mut core, id) = with_keeper(answer);
            assert_eq!(core.state_value(id, 1, 0), found);
            assert_eq!(core.domains.by_id(id).unwrap().counts.state_failed, failed);
        }
    }
}
