//! Faults of a simulated network: nodes that crash and start, links that are cut and mended.

use super::host::{Actor, Inmate};
use super::run::Action;
use super::trace::{Carried, Loss, What};
use super::{Change, Simulation};
use crate::wire::Digest;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

impl Simulation {
    /// Plans a change of the network, at a time or now if that is over.
    pub fn change_at(&mut self, time: u64, change: Change) {
        self.world.plan(time, Action::Change(change));
    }

    /// Changes the network now.
    pub fn change(&mut self, change: Change) {
        match change {
            Change::Crash { node } => self.crash(node),
            Change::Restart { node, store_kept } if !self.is_up(node) => {
                if !store_kept {
                    self.world.hosts[node].store.clear();
                }
                self.start(node);
                self.world.tell(node, 0, || What::Restarted);
            }
            Change::Restart { .. } => {}
            Change::Cut { link } => self.cut(link, true),
            Change::Mend { link } => self.cut(link, false),
        }
    }

    pub(super) fn start(&mut self, node: usize) {
        self.world.lives += 1;
        // The upper half of a node's seed; splitmix64 keeps neighbours far apart.
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(self.world.seed ^ u64::from(self.world.lives));
        self.inmates[node] = self.world.hosts[node].start(seeds.next_u64(), self.world.lives, self.world.now);
        // Each worker has a number of its own.
        self.world.lives += u32::from(self.world.hosts[node].workers) - 1;
        self.settle(node);
    }

    pub(super) fn crash(&mut self, node: usize) {
        let Some(status) = self.status(node) else { return };
        for code in status.codes.iter().filter(|code| code.state == "ready") {
            if let Some(usage) = &code.usage {
                self.world.past_codes.entry(code.name.clone()).or_default().add(&code.title, usage);
            }
        }
        // The run-time is everybody's: what the node holds there goes back.
        let names: Vec<Digest> = status.codes.iter().filter_map(|code| code.name.parse().ok()).collect();
        for worker in 0..self.world.hosts[node].workers {
            self.enter_of(node, worker, |node, turn| {
                for name in &names {
                    node.remove_code(turn, name);
                }
            });
        }
        self.assert_balanced_at(node);
        self.clear_between(node);
        self.inmates[node] = Inmate::Down;
        let host = &mut self.world.hosts[node];
        host.life += 1;
        host.timer_at = u64::MAX;
        self.world.totals.crashes += 1;
        self.world.tell(node, 0, || What::Crashed);
        for packet in self.world.packets.in_node(node) {
            self.world.lose(node, node, packet, Carried::Capsule, Loss::Crash);
        }
    }

    pub(super) fn cut(&mut self, link: usize, cut: bool) {
        let ends = [self.world.network.links[link].a, self.world.network.links[link].b];
        for (node, other) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let host = &self.world.hosts[node];
            let Some(port) = host.ends.iter().position(|end| end.link == link) else { continue };
            let cuts = &mut self.world.directions[host.first_direction + port].model.cuts;
            *cuts = if cut { *cuts + 1 } else { cuts.saturating_sub(1) };
            self.world.tell_of(node, 0, other, |to| if cut { What::Cut { to } } else { What::Mended { to } });
        }
    }

    /// Puts something else in the place of a node.
    pub fn replace(&mut self, node: usize, actor: Box<dyn Actor>) {
        self.crash(node);
        self.inmates[node] = Inmate::Actor(actor);
    }
}
