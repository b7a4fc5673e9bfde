//! A place in the simulated network: a node that is up or down, or an impostor.

use super::Application;
use super::packets::Packets;
use super::paths::End;
use super::workers::{Between, Workers};
use crate::frame::{Frame, PortId, WorkerId};
use crate::node::proofs::Guard;
use crate::node::{Node, NodeConfig};
use crate::wire::Digest;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Something in the place of a node that answers as it likes: a liar, a stranger, a flood.
pub trait Actor {
    /// A frame has come in by its port number `port` at `now` (nanoseconds); it puts frames it
    /// sends, with their ports, into `send`.
    fn receive(&mut self, now: u64, port: usize, frame: &[u8], send: &mut Vec<(usize, Vec<u8>)>);
}

/// Who reads the capsules of an application port.
pub(super) enum Sink {
    /// Nobody: they are counted.
    Count,
    /// A test, later.
    Keep,
    /// An application.
    Application(Box<dyn Application>),
}

/// Who is at a place.
pub(super) enum Inmate {
    Node(Workers),
    Actor(Box<dyn Actor>),
    Down,
}

pub(super) struct Host {
    /// Keys of neighbours, and what ports demand.
    pub guard: Option<Guard>,
    /// Tenths of a second between two hellos of its ports; 0: none.
    pub hello: u16,
    /// What its node is made of, again after a crash.
    pub(super) config: NodeConfig,
    /// Its PLAN environment.
    pub(super) plan: crate::ee::plan::Config,
    /// What its ports are ends of.
    pub(super) ends: Vec<End>,
    /// The number of its first outgoing direction; they are in the order of its ports.
    pub(super) first_direction: usize,
    /// Whether frames ever wait at one of its ports.
    pub(super) limited: bool,
    /// When it is called for its timers next, in nanoseconds.
    pub(super) timer_at: u64,
    /// Workers of its node, and what is between those beyond the first and that one.
    pub(super) workers: WorkerId,
    pub(super) between: Vec<Between>,
    /// Counts its lives: answers to an earlier one are not for it.
    pub(super) life: u32,
    /// When this life began, in nanoseconds.
    pub(super) born: u64,
    pub(super) store: HashMap<Digest, Arc<[u8]>, foldhash::fast::FixedState>,
    pub(super) sinks: BTreeMap<u16, Sink>,
}

impl Inmate {
    pub(super) fn node(&self) -> Option<&Node> {
        match self {
            Inmate::Node(workers) => Some(&workers.first),
            _ => None,
        }
    }

    pub(super) fn node_mut(&mut self) -> Option<&mut Node> {
        match self {
            Inmate::Node(workers) => Some(&mut workers.first),
            _ => None,
        }
    }
}

impl Host {
    /// A new life begins, with the ports open that its applications have. `number` is one that no
    /// other life in the simulation has.
    pub(super) fn start(&mut self, seed: u64, number: u32, now: u64) -> Inmate {
        self.born = now;
        let mut config = self.config.clone();
        // The lower half of a node's seed begins the identities of its children.
        config.seed = seed << 32 | u64::from(number);
        let seed = config.seed;
        let Workers { first: mut node, others } = self.staff(Box::new(Node::new(config)), seed);
        node.speak_plan(self.plan.clone());
        node.remember_revocations(self.config.roles.revocations().iter().filter_map(|(word, _)| word.wire()));
        if let Some(guard) = &self.guard {
            node.set_guard(now, guard.clone());
        }
        for port in self.sinks.keys() {
            node.open(*port);
        }
        if self.hello > 0 {
            (0..self.ends.len()).for_each(|port| node.say_hello(now, PortId(port as u16), self.hello));
        }
        self.timer_at = u64::MAX;
        Inmate::Node(Workers { first: node, others })
    }
}

/// A frame becomes one of the simulation: packets that come from outside get an identity.
pub(super) fn adopt(frame: &mut Frame, packets: &mut Packets, now: u64, node: usize) {
    frame.trace = packets.begin(now, node);
}
