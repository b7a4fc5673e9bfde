//! Traffic of a simulation: nodes that send capsules at a rate.

use super::Simulation;
use super::run::Action;
use crate::labfile::shape::below;
use crate::wire::{Addr, Digest, capsule};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Where capsules go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// To any other node, each as likely.
    Random,
    /// To any of these that is not the sender, each as likely.
    Nodes(Vec<usize>),
}

/// A kind of traffic.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Who sends.
    pub from: Vec<usize>,
    /// Where to.
    pub to: To,
    /// The code the capsules name.
    pub code: Digest,
    /// The application port they are for.
    pub app_port: u16,
    /// Their resource bound.
    pub bound: u32,
    /// Their payload.
    pub payload: Vec<u8>,
    /// Capsules a second of each sender.
    pub per_second: f64,
    /// From when, in nanoseconds.
    pub start: u64,
    /// Until when, in nanoseconds.
    pub stop: u64,
}

impl Traffic {
    /// Ten capsules a second from every one of `nodes` nodes to random others, for ever, to
    /// application port 1.
    pub fn everywhere(nodes: usize, code: Digest) -> Traffic {
        Traffic {
            from: (0..nodes).collect(),
            to: To::Random,
            code,
            app_port: 1,
            bound: 64,
            payload: vec![0; 64],
            per_second: 10.0,
            start: 0,
            stop: u64::MAX,
        }
    }

    /// Nanoseconds until the next capsule: half to one and a half times the mean, so that senders
    /// do not march in step.
    pub(super) fn pause(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let mean = (1e9 / self.per_second.max(1e-9)) as u64;
        mean / 2 + below(rng, mean.max(1) as usize) as u64
    }

    /// The first capsule comes anywhere in the first interval.
    fn first(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        self.start + below(rng, (1e9 / self.per_second.max(1e-9)).max(1.0) as usize) as u64
    }

    /// Where a capsule of `from` goes, if anywhere.
    pub(super) fn choose(&self, nodes: usize, from: usize, rng: &mut Xoshiro256PlusPlus) -> Option<usize> {
        match &self.to {
            To::Random if nodes < 2 => None,
            To::Random => {
                let other = below(rng, nodes - 1);
                Some(if other < from { other } else { other + 1 })
            }
            To::Nodes(list) => {
                let others = list.iter().filter(|to| **to != from).count();
                (others > 0).then(|| list.iter().filter(|to| **to != from).nth(below(rng, others)).copied()).flatten()
            }
        }
    }
}

impl Simulation {
    /// Adds traffic; its senders begin at its start, or now if that is over.
    pub fn add_traffic(&mut self, traffic: Traffic) {
        let number = self.world.traffic.len() as u32;
        for &node in &traffic.from {
            let first = traffic.first(&mut self.world.choices).max(self.now());
            self.world.plan(first, Action::Generate { traffic: number, node: node as u32 });
        }
        self.world.traffic.push(traffic);
    }

    /// One capsule of a traffic, and when the next one is due.
    pub(super) fn generate(&mut self, number: u32, node: usize) {
        let now = self.now();
        let Some(traffic) = self.world.traffic.get(number as usize).filter(|traffic| now < traffic.stop) else {
            return;
        };
        let pause = traffic.pause(&mut self.world.choices);
        let to = traffic.choose(self.nodes(), node, &mut self.world.choices);
        let (code, app_port, bound) = (traffic.code, traffic.app_port, traffic.bound);
        self.world.plan(now + pause, Action::Generate { traffic: number, node: node as u32 });
        let Some(to) = to.filter(|_| self.is_up(node)) else { return };
        let destination = self.some_address(to);
        let header = capsule::Header {
            app_port,
            bound,
            code,
            previous: Addr::UNSPECIFIED,
            source: Addr::UNSPECIFIED,
            destination,
        };
        let payload = core::mem::take(&mut self.world.traffic[number as usize].payload);
        // A refusal is in the books.
        let _ = self.inject(node, header, &payload);
        self.world.traffic[number as usize].payload = payload;
    }

    /// The address of a node; if it has two, either is as likely.
    fn some_address(&mut self, node: usize) -> Addr {
        let mut addresses = self.network().addresses(node);
        let (first, second) = (addresses.next(), addresses.next());
        drop(addresses);
        match (first, second) {
            (Some(first), Some(second)) => {
                if self.world.choices.next_u64() >> 63 == 0 {
                    first
                } else {
                    second
                }
            }
            (first, _) => first.unwrap_or(Addr::UNSPECIFIED),
        }
    }
}
