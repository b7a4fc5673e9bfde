//! What happens to the network itself: nodes that crash and start, links that are cut and mended.

use super::host::{Actor, Inmate};
use super::run::Action;
use super::trace::{Carried, Loss, What};
use super::{Change, Simulation};
use crate::node::Turn;
use crate::wire::Digest;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

impl Simulation {
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

    pub(super) fn start(&mut self, node: usize) {
        self.lives += 1;
        // The upper half of a node's seed; splitmix64 keeps neighbours far apart.
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ u64::from(self.lives));
        self.hosts[node].start(seeds.next_u64(), self.lives, self.now);
        self.settle(node);
    }

    pub(super) fn crash(&mut self, node: usize) {
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

    pub(super) fn cut(&mut self, link: usize, cut: bool) {
        let ends = [self.network.links[link].a, self.network.links[link].b];
        for (node, other) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let host = &self.hosts[node];
            let Some(port) = host.ends.iter().position(|end| end.link == link) else { continue };
            let cuts = &mut self.directions[host.first_direction + port].cuts;
            *cuts = if cut { *cuts + 1 } else { cuts.saturating_sub(1) };
            self.tell_of(node, 0, other, |to| if cut { What::Cut { to } } else { What::Mended { to } });
        }
    }

    /// Puts something else in the place of a node.
    pub fn replace(&mut self, node: usize, actor: Box<dyn Actor>) {
        self.crash(node);
        self.hosts[node].inmate = Inmate::Actor(actor);
    }
}
