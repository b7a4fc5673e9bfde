//! A further worker after a panic: another node goes on in the place of the one that has panicked.
//!
//! Example: a packet of worker 1 meets a mistake of this program, and 12 others wait there. All 13 are dropped under
//! `worker-panic`. A node at rest takes the counters over, with the ports, routes and neighbours, and is told again
//! which codes can run. So sums over the workers go on, and the balance holds. What the two have in common with others
//! stays where it was: soft state, budgets, rings and ports. Environments that it had end, with all their domains: others
//! have their rules and their names then.

use super::codes::Code;
use super::output::{Output, Turn};
use super::workers::WorkerOrder;
use super::{Capsules, Cx, Node};
use crate::core::domain::Usage;
use crate::core::reason::Reason;
use crate::frame::PortId;
use crate::wire::Digest;

impl Node {
    /// Frames that have come in so far, with those in `out` that are another worker's to count.
    pub fn looked_at(&self, out: &Output) -> u64 {
        let came = self.cx.core.gauges.iter().map(|gauge| gauge.received).fold(0, u64::wrapping_add);
        let others = out.handed.iter().filter(|handed| handed.what.is_as_it_came()).count();
        came.wrapping_add(others as u64).wrapping_add(self.cx.control.workers.turns.held_frames())
    }

    /// This node at rest goes on in the place of `before`, which has panicked. So many frames had been taken from a port,
    /// and nobody had looked at them.
    pub fn go_on_from(&mut self, turn: &mut Turn<'_>, mut before: Node, unseen: u64) {
        let used = before.used_by_codes();
        before.cx.give_up_stores(turn);
        before.give_up_names();
        let Node { cx: Cx { core, order, control, graphs, .. }, .. } = before;
        self.set_classifying(graphs.channels.taught.classifying().clone());
        self.cx.control.events.go_on_from(&control.events);
        let own = &mut self.cx.core;
        (own.topology, own.gauges, own.ledger) = (core.topology, core.gauges, core.ledger);
        (own.ingress, own.ingress_rate) = (core.ingress, core.ingress_rate);
        self.cx.control.alarms.make_room(own.gauges.len());
        (own.drops, own.log, own.meters, own.resolver) = (core.drops, core.log, core.meters, core.resolver);
        self.cx.order.entry = order.entry.abandon();
        (self.cx.control.workers, self.cx.control.roles) = (control.workers, control.roles);
        self.cx.control.roles_renewed = control.roles_renewed;
        let (turns, channels) = (&mut self.cx.control.workers.turns, &self.cx.graphs.channels);
        turns.keep_gone(|domain| channels.has_left(domain));
        for told in self.cx.control.workers.told_to_run() {
            self.obey(turn, WorkerOrder::Run(Box::new(told)));
        }
        self.ask(|capsules: &mut Capsules, cx| capsules.go_on_from(cx, turn, used));
        self.count_drops(Reason::WorkerPanic, unseen);
        self.end_missing(&turn.out.frames);
    }

    /// What each code has used here, where what is missing has been dropped.
    fn used_by_codes(&self) -> Vec<(Digest, Usage)> {
        let codes = self.environments.get::<Capsules>().into_iter().flat_map(|capsules| capsules.codes.iter());
        let used = codes.filter_map(|(name, code)| {
            let Code::Ready(ready) = code else { return None };
            let domain = self.cx.core.domains.by_id(ready.domain)?;
            let mut usage = domain.usage();
            let missing = u64::try_from(domain.unaccounted(0)).unwrap_or(0);
            usage.counts.drops.count_many(Reason::WorkerPanic, missing);
            Some((*name, usage))
        });
        used.collect()
    }

    /// What the node before has held is nowhere any more.
    fn end_missing(&mut self, frames: &[crate::frame::Frame]) {
        for at in 0..self.cx.core.gauges.len() {
            let port = PortId(at as u16);
            let on_their_way = frames.iter().filter(|frame| frame.port == port).count() as u64;
            let Some(gauge) = self.cx.core.gauge(port) else { continue };
            let [came, went] = gauge.unaccounted(on_their_way).map(|missing| u64::try_from(missing).unwrap_or(0));
            gauge.turned_away += came;
            gauge.refused += went;
        }
        let missing = u64::try_from(self.balance_within(frames).unaccounted()).unwrap_or(0);
        self.cx.core.drops.count_many(Reason::WorkerPanic, missing);
    }
}

impl Capsules {
    /// Accounts of codes go on from these, in their roles as those are now.
    fn go_on_from(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, used: Vec<(Digest, Usage)>) {
        for (code, usage) in used {
            self.renew_code(cx, turn, &code);
            if let Some(Code::Ready(ready)) = self.codes.of(&code)
                && let Some(domain) = cx.core.domains.of(ready.domain)
            {
                domain.go_on_from(usage);
            }
        }
    }
}
