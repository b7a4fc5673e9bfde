//! Nodes with several workers: each is a node of its own, with rings and orders between it and the first.
//!
//! ```text
//! frame ─▶ worker of its flow ─▶ ring ─▶ worker 0        a ring, and the orders to a worker, keep their order;
//!                  ▲◀────────── orders ─────┘             when the next of them is taken is by chance
//! ```
//!
//! A frame goes to the worker that a hash of its flow says, as receive queues of interfaces have it. A packet in a ring is
//! taken some time later, at most [`APART`]: by chance from the seed, while other workers go on. So all orders in which
//! workers can meet are found by some seed, and the same seed finds the same one.

use super::Simulation;
use super::host::{Host, Inmate};
use super::run::Action;
use super::world::World;
use crate::core::ledger::Balance;
use crate::frame::{Frame, Link, PortId, WorkerId};
use crate::labfile::shape::below;
use crate::node::handing::Handed;
use crate::node::status::Status;
use crate::node::workers::Joint;
use crate::node::workers::WorkerOrder;
use crate::node::{Node, Turn};
use crate::wire::Addr;
use crate::wire::ethernet;
use std::collections::VecDeque;

/// The longest time until a worker takes what another has for it, in nanoseconds.
const APART: usize = 50_000;

/// Packets on their way from one worker to the first, at most.
const RING: usize = 1024;

/// What is between a further worker of a node and the first, and when it is called for its timers next, in nanoseconds.
pub(super) struct Between {
    pub(super) handed: VecDeque<Handed>,
    pub(super) back: VecDeque<Handed>,
    pub(super) orders: VecDeque<WorkerOrder>,
    pub(super) timer_at: u64,
}

impl Default for Between {
    fn default() -> Between {
        Between { handed: VecDeque::new(), back: VecDeque::new(), orders: VecDeque::new(), timer_at: u64::MAX }
    }
}

/// A node with its workers beyond the first.
pub(super) struct Workers {
    pub(super) first: Box<Node>,
    pub(super) others: Vec<Node>,
}

impl Workers {
    /// Whichever this is.
    #[inline]
    pub(super) fn of(&mut self, worker: WorkerId) -> Option<&mut Node> {
        match usize::from(worker).checked_sub(1) {
            None => Some(&mut self.first),
            Some(at) => self.others.get_mut(at),
        }
    }

    /// All of them, the first one first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Node> {
        std::iter::once(&*self.first).chain(&self.others)
    }
}

impl Host {
    /// The workers of a node that begins: `first` is to be one of several, if there are more.
    pub(super) fn staff(&mut self, mut first: Box<Node>, seed: u64) -> Workers {
        let (workers, sizes) = (self.workers, self.config.sizes);
        self.between = (1..workers).map(|_| Between::default()).collect();
        if workers < 2 {
            return Workers { first, others: Vec::new() };
        }
        let common = Joint::new(workers, sizes.state_entries);
        first.set_worker(0, common.clone());
        let further = |id: WorkerId| {
            let mut config = self.config.clone();
            // All soft state is in common.
            config.sizes.state_entries = 0;
            config.seed = seed + u64::from(id);
            let mut node = Node::new(config);
            node.set_worker(id, common.clone());
            self.guard.iter().for_each(|guard| node.leave_guard(guard));
            node
        };
        Workers { others: (1..workers).map(further).collect(), first }
    }
}

impl World {
    /// Something is for a worker that it takes some time from now.
    fn plan_apart(&mut self, action: Action) {
        let after = below(&mut self.apart, APART) as u64;
        self.plan(self.now + after, action);
    }

    /// A worker hands a packet to the first, or the first to another; it comes back if there is no room for it.
    pub(super) fn hand(&mut self, at: usize, worker: WorkerId, handed: Handed) -> Result<(), Handed> {
        let host = &mut self.hosts[at];
        let (node, life, further) = (at as u32, host.life, worker.max(handed.to));
        let between = usize::from(further).checked_sub(1).and_then(|place| host.between.get_mut(place));
        let Some(between) = between else { return Err(handed) };
        let (ring, action) = match worker {
            0 => (&mut between.back, Action::TakeBack { node, life, worker: further }),
            _ => (&mut between.handed, Action::TakeHanded { node, life, worker }),
        };
        if ring.len() >= RING {
            return Err(handed);
        }
        ring.push_back(handed);
        self.plan_apart(action);
        Ok(())
    }

    /// The first worker of a node tells the others something.
    pub(super) fn tell_workers(&mut self, at: usize, order: &WorkerOrder) {
        let host = &mut self.hosts[at];
        let (node, life, others) = (at as u32, host.life, host.between.len() as WorkerId);
        host.between.iter_mut().for_each(|between| between.orders.push_back(order.clone()));
        (1..=others).for_each(|worker| self.plan_apart(Action::Obey { node, life, worker }));
    }

    /// The first worker of a node is told whom another one hears.
    pub(super) fn tell_heard(&mut self, at: usize, list: Vec<(PortId, Addr)>) {
        let (node, life) = (at as u32, self.hosts[at].life);
        self.plan_apart(Action::Heard { node, life, list });
    }

    /// The first worker of a node is told of a link address that another has known for long.
    pub(super) fn tell_old_link(&mut self, at: usize, port: PortId, addr: Addr) {
        let (node, life) = (at as u32, self.hosts[at].life);
        self.plan_apart(Action::OldLink { node, life, port, addr });
    }

    /// Whose queue a frame comes to, by its port, its peer and the addresses and ports of its IP packet.
    pub(super) fn worker_of(&self, at: usize, frame: &Frame) -> WorkerId {
        let host = &self.hosts[at];
        if host.workers < 2 {
            return 0;
        }
        let link = host.config.ports.get(usize::from(frame.port.0)).map(|port| port.link);
        let flow = match link {
            Some(Link::Ethernet { .. }) => addresses(frame.bytes()),
            _ => &[],
        };
        let begin = self.seed ^ (at as u64) << 32 ^ u64::from(frame.port.0) << 16 ^ u64::from(frame.peer.0);
        let mixed = flow.iter().fold(mix(begin), |sum, byte| mix(sum ^ u64::from(*byte)));
        (mixed % u64::from(host.workers)) as WorkerId
    }
}

/// The addresses of the IP packet in a frame: fragments of one are together, whatever their ports.
fn addresses(frame: &[u8]) -> &[u8] {
    let at = ethernet::HEADER;
    let range = match frame.get(at).map(|first| first >> 4) {
        Some(4) => at + 12..at + 20,
        Some(6) => at + 8..at + 40,
        _ => return &[],
    };
    frame.get(range).unwrap_or(&[])
}

/// Spreads a number over all others.
fn mix(number: u64) -> u64 {
    let sum = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let sum = (sum ^ sum >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let sum = (sum ^ sum >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    sum ^ sum >> 31
}

impl Simulation {
    /// The first worker of a node takes the next packet that another has handed over.
    pub(super) fn take_handed(&mut self, at: usize, worker: WorkerId) {
        let between = &mut self.world.hosts[at].between[usize::from(worker) - 1];
        if let Some(handed) = between.handed.pop_front() {
            self.turn(at, |node, turn| node.take_handed(turn, handed));
        }
    }

    /// A further worker takes the next that the first has handed to it.
    pub(super) fn take_back(&mut self, at: usize, worker: WorkerId) {
        let between = &mut self.world.hosts[at].between[usize::from(worker) - 1];
        if let Some(handed) = between.back.pop_front() {
            self.turn_of(at, worker, |node, turn| node.take_handed(turn, handed));
        }
    }

    /// A worker does the next that it was told.
    pub(super) fn obey(&mut self, at: usize, worker: WorkerId) {
        let between = &mut self.world.hosts[at].between[usize::from(worker) - 1];
        if let Some(order) = between.orders.pop_front() {
            self.turn_of(at, worker, |node, turn| node.obey(turn, order));
        }
    }

    /// A further worker is called for its timers.
    pub(super) fn timer_of(&mut self, at: usize, worker: WorkerId, time: u64) {
        let between = &mut self.world.hosts[at].between[usize::from(worker) - 1];
        if between.timer_at == time {
            between.timer_at = u64::MAX;
            self.turn_of(at, worker, |node, turn| node.timer(turn));
        }
    }

    /// What becomes of the packets between workers of a node that ends.
    pub(super) fn clear_between(&mut self, at: usize) {
        let Simulation { world, out, .. } = self;
        let between = world.hosts[at].between.iter_mut();
        let handed = between.flat_map(|between| between.handed.drain(..).chain(between.back.drain(..)));
        handed.for_each(|handed| out.pool.give(handed.frame));
        // What the first would have told them.
        out.effects.retain(|effect| !matches!(effect, crate::node::Effect::Workers(_)));
    }

    /// All counters of a node, of all its workers, unless it is down.
    pub fn status(&self, node: usize) -> Option<Status> {
        let Inmate::Node(workers) = self.inmates.get(node)? else { return None };
        let mut all = workers.all().map(Node::status);
        let mut sum = all.next()?;
        all.for_each(|more| sum.add(&more));
        Some(sum)
    }

    /// What became of the frames of a node, of all its workers, unless it is down.
    pub fn balance(&self, node: usize) -> Option<Balance> {
        let Inmate::Node(workers) = self.inmates.get(node)? else { return None };
        workers.all().map(Node::balance).reduce(|sum, more| sum.with(&more))
    }

    /// The workers of a node, the first one first; none if it is down.
    pub fn workers(&self, node: usize) -> impl Iterator<Item = &Node> {
        let inmate = self.inmates.get(node);
        inmate
            .into_iter()
            .filter_map(|inmate| if let Inmate::Node(all) = inmate { Some(all.all()) } else { None })
            .flatten()
    }

    /// A call into one worker of a node, and all that comes of it.
    pub(super) fn turn_of<R>(
        &mut self,
        at: usize,
        worker: WorkerId,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R,
    ) -> Option<R> {
        let result = self.enter_of(at, worker, |node, turn| {
            let result = work(node, turn);
            // What waits for its domain's turn has it now, by whatever call it began to wait: here a CPU is never busy.
            while let Some(ran) = node.run_next(turn) {
                node.ran(ran, ran.steps, turn.now);
            }
            result
        });
        self.settle_of(at, worker);
        result
    }

    /// Packets that are between the workers of a node, other than frames that nobody has counted yet.
    pub(super) fn between_workers(&self, node: usize) -> u64 {
        let all = self.world.hosts[node].between.iter().flat_map(|between| between.handed.iter().chain(&between.back));
        all.filter(|handed| handed.what.is_counted()).count() as u64
    }
}
