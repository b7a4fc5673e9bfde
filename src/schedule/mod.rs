//! Path schedulers: they pick the domain whose packet runs next on the node's CPU. Example: weights 1, 2 and 4 have
//! 1/7, 2/7 and 4/7 of it.
//!
//! A packet comes here when its in-channel has been found, and waits in its domain's queue. [`PathScheduler::next`]
//! names the domain that runs one packet; [`PathScheduler::charge`] tells its cost, in nanoseconds or steps. A
//! scheduler is a data structure: the time is passed in, nothing is allocated once the flows are there, and each call
//! takes the same few steps for ten flows as for ten thousand. A *flow* is a domain, named by its place in the table of
//! domains.
//!
//! Which one that is says the policy: [`Policy`] is the table of them, `policies` has a file for each.
//!
//! **Shares.** Flows below another one divide its share (`tree`). A flow has a virtual time, which moves by its costs,
//! the slower the larger its weight; the least one runs. A flow that wakes starts at the virtual time of the running
//! one, so being idle gains nothing.
//!
//! **Deadlines.** A flow with a deadline of *d* may have one packet run in each *d*, at the latest *d* after its
//! arrival. The deadline of a packet is *d* behind its arrival or its forerunner's deadline, whichever is later. So a
//! flow that sends more than it said has later deadlines and harms no other. A set of flows is *feasible*, and met, if
//! its sum of cost/*d* is at most one (for `bert`: at most the rest of important flows without deadlines). The error is
//! one packet of any flow, which is not interrupted, and the calendar's step of 66 µs. Demands of others do not matter.
//!
//! The model is Silk's suite of schedulers for paths (Snow on Silk §3.2). `share` is the node's own share of a CPU.

mod apart;
mod buckets;
mod calendar;
mod class;
pub mod discipline;
mod policies;
mod queues;
pub mod share;
#[cfg(test)]
mod tests;
mod tree;
mod virtual_time;

use crate::sys::cache;
use class::Uses;
pub use policies::{DEADLINE_NS_MAX, Policy, Share, WEIGHT_MAX};
use queues::{ABSENT, Due, Flow, Queues, State, Turn};
use std::collections::BTreeMap;
pub use tree::Standing;
use tree::Tree;
use virtual_time::later_of;

/// Flows of a scheduler.
pub const FLOWS_MAX: usize = 1 << 17;

/// The largest cost of a packet: beyond it, it counts as this.
const COST_MAX: u64 = 1 << 40;

/// A scheduler.
#[derive(Debug)]
pub struct PathScheduler {
    policy: Policy,
    uses: Uses,
    queues: Queues,
    /// Flows with deadlines that have work. Each time there are none, an epoch begins in which old deadlines do not count.
    pressed: usize,
    epoch: u64,
    /// The tree of shares: the flow above each flow.
    tree: Tree,
    /// Times between deadlines, and how many flows have each.
    times: BTreeMap<u64, usize>,
}

impl PathScheduler {
    /// A scheduler without flows.
    pub fn new(policy: Policy) -> PathScheduler {
        let uses = policy.class().uses;
        PathScheduler {
            policy,
            uses,
            queues: Queues::new(&uses),
            pressed: 0,
            epoch: 0,
            tree: Tree::default(),
            times: BTreeMap::new(),
        }
    }

    /// Flows that wait for their turn.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.queues.waiting
    }

    /// Whether a flow that runs may have more packets run in the same turn: no other waits, and it has no deadlines to meet one by one.
    #[inline]
    pub fn may_go_on(&self, flow: usize) -> bool {
        self.queues.waiting == 0 && self.queues.flows.get(flow).is_some_and(|flow| !flow.timed)
    }

    /// Whether a flow has entered.
    #[inline]
    pub fn knows(&self, flow: usize) -> bool {
        self.queues.flows.get(flow).is_some_and(|flow| flow.state != State::Absent)
    }

    /// Whether a flow has deadlines.
    #[inline]
    pub fn is_timed(&self, flow: usize) -> bool {
        self.queues.flows.get(flow).is_some_and(|flow| flow.timed)
    }

    /// The shortest time between deadlines of any flow, if the policy heeds them.
    #[inline]
    pub fn shortest_deadline(&self) -> Option<u64> {
        self.times.first_key_value().map(|(time, _)| *time)
    }

    /// A flow has this time between deadlines, in the place of another one; 0: none.
    #[cold]
    fn change_time(&mut self, before: u64, after: u64) {
        if let Some(count) = self.times.get_mut(&before) {
            *count -= 1;
            if *count == 0 {
                self.times.remove(&before);
            }
        }
        if after > 0 && self.uses.deadlines {
            *self.times.entry(after).or_insert(0) += 1;
        }
    }

    /// Asks for the memory of a flow that will be spoken of soon.
    #[inline]
    pub fn foresee(&self, flow: usize) {
        cache::prefetch_at(&self.queues.flows, flow);
    }

    /// Adds a flow without work, or changes the share of one. False if there is no place for it.
    pub fn enter(&mut self, flow: usize, share: Share, now: u64) -> bool {
        self.enter_below(flow, None, share, now)
    }

    /// The same of a flow that has its share of what another one has, which is there already.
    pub fn enter_below(&mut self, flow: usize, above: Option<usize>, share: Share, now: u64) -> bool {
        if flow >= FLOWS_MAX {
            return false;
        }
        if flow >= self.queues.flows.len() {
            cache::make_room(&mut self.queues.flows, flow + 1);
            self.queues.flows.resize(flow + 1, ABSENT);
            self.queues.dues.resize(flow + 1, Due::default());
        }
        let waits = self.is_waiting(flow);
        if waits {
            self.take(flow);
        }
        let state = match self.queues.flows[flow].state {
            State::Absent => State::Idle,
            state => state,
        };
        let working = waits || state != State::Idle;
        let every = share.deadline_ns.min(DEADLINE_NS_MAX);
        self.pressed -= usize::from(working && self.queues.dues[flow].every > 0);
        self.pressed += usize::from(working && every > 0);
        let before = core::mem::replace(&mut self.queues.dues[flow].every, every);
        if before != every {
            self.change_time(before, every);
        }
        let weight = share.weight.clamp(1, WEIGHT_MAX) as u16;
        self.queues.flows[flow] =
            Flow { priority: share.priority, timed: every > 0, weight, state, ..self.queues.flows[flow] };
        self.tree.enter(flow, above, weight, self.queues.fair_now);
        // Whether it may be robbed or not, it begins where the others are.
        self.queues.flows[flow].tag = self.now_of(flow);
        if working {
            self.renew(flow, now);
        }
        if waits {
            self.put(flow, now);
        }
        true
    }

    /// Takes a flow away, whatever it does.
    pub fn leave(&mut self, flow: usize) {
        let state = self.queues.flows.get(flow).map_or(State::Absent, |flow| flow.state);
        if state == State::Absent {
            return;
        }
        if self.is_waiting(flow) {
            self.take(flow);
        }
        if state != State::Idle {
            self.rest(flow);
        }
        self.queues.flows[flow] = ABSENT;
        let before = core::mem::take(&mut self.queues.dues[flow]).every;
        if before > 0 {
            self.change_time(before, 0);
        }
        self.tree.leave(flow);
    }

    /// A flow has work, perhaps more of it.
    #[inline(always)]
    pub fn wake(&mut self, flow: usize, now: u64) {
        let Some(known) = self.queues.flows.get_mut(flow) else { return };
        match known.state {
            State::Idle => {
                let start = self.tree.wake(flow, self.queues.fair_now);
                // There are two virtual times then: a flow starts at its own, whatever those above it have had.
                let start = if self.uses.immune { self.now_of(flow) } else { start };
                let owed = self.tree.owed(flow);
                let known = &mut self.queues.flows[flow];
                known.tag = later_of(start, known.tag.wrapping_add(owed));
                self.pressed += usize::from(known.timed);
                self.renew(flow, now);
                self.put(flow, now);
            }
            State::Running => known.state = State::Woken,
            State::Absent | State::Woken | State::Level | State::Fair | State::Safe | State::Due => {}
        }
    }

    /// A flow without work has a packet while no other flow waits: it runs now, as if [`PathScheduler::next`] had named it.
    /// False if it has to wait.
    #[inline]
    pub fn begin(&mut self, flow: usize, now: u64) -> bool {
        if self.queues.waiting > 0 || self.queues.flows.get(flow).is_none_or(|flow| flow.state != State::Idle) {
            return false;
        }
        self.wake(flow, now);
        self.next(now) == Some(flow)
    }

    /// The flow that runs one packet now; [`PathScheduler::charge`] follows when it has.
    #[inline]
    pub fn next(&mut self, now: u64) -> Option<usize> {
        if self.tree.has_bills() {
            self.move_billed(now);
        }
        let flow = self.policy.next(&mut self.queues, now)? as usize;
        self.take(flow);
        self.queues.flows[flow].state = State::Running;
        Some(flow)
    }

    /// A flow has run a packet at a cost, in nanoseconds or steps, always the same; `more`: it still has work.
    #[inline]
    pub fn charge(&mut self, flow: usize, cost: u64, more: bool, now: u64) {
        let Some(ran) = self.queues.flows.get_mut(flow) else { return };
        let more = match ran.state {
            State::Running => more,
            State::Woken => true,
            _ => return,
        };
        let (cost, timed) = (cost.clamp(1, COST_MAX), ran.timed);
        match core::mem::replace(&mut ran.turn, Turn::Own) {
            Turn::Own => ran.tag = ran.tag.wrapping_add(self.tree.charge(flow, cost)),
            Turn::Stolen => self.queues.steal(cost),
            Turn::Nobodys => {}
        }
        if timed {
            let due = &mut self.queues.dues[flow];
            due.missed += u64::from(now > due.deadline);
        }
        if more {
            self.renew(flow, now);
            self.put(flow, now);
        } else {
            self.queues.flows[flow].state = State::Idle;
            self.tree.rest(flow);
            self.rest(flow);
        }
    }

    /// Packets of a flow that were not done by their deadline.
    pub fn missed(&self, flow: usize) -> u64 {
        self.queues.dues.get(flow).map_or(0, |due| due.missed)
    }

    /// The virtual time where a flow is measured that begins now.
    #[inline]
    fn now_of(&self, flow: usize) -> u64 {
        let is_immune = self.uses.immune && self.queues.flows[flow].is_important();
        if is_immune { self.queues.safe_now } else { self.queues.fair_now }
    }

    /// The next packet's deadline.
    #[inline]
    fn renew(&mut self, flow: usize, now: u64) {
        if self.queues.flows[flow].timed {
            let due = &mut self.queues.dues[flow];
            let from = if due.epoch == self.epoch { due.deadline.max(now) } else { now };
            due.deadline = (from + due.every).min(now.saturating_add(DEADLINE_NS_MAX));
            due.epoch = self.epoch;
        }
    }

    /// A flow has no more work.
    #[inline]
    fn rest(&mut self, flow: usize) {
        if self.queues.flows[flow].timed {
            self.pressed -= 1;
            self.epoch += u64::from(self.pressed == 0);
        }
    }

    fn is_waiting(&self, flow: usize) -> bool {
        self.queues.is_waiting(flow)
    }

    /// Puts a flow where the policy wants it.
    #[inline(always)]
    fn put(&mut self, flow: usize, now: u64) {
        let place = self.policy.place(&self.queues.flows[flow]);
        self.queues.put(flow, place, now);
    }

    /// Takes a flow from where it waits.
    #[inline(always)]
    fn take(&mut self, flow: usize) {
        self.queues.take(flow);
    }
}
