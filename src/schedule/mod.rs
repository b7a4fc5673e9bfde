//! Path schedulers: they pick the domain whose packet runs next on the node's CPU. Example: weights 1, 2 and 4 have
//! 1/7, 2/7 and 4/7 of it.
//!
//! A packet comes here when its in-channel has been found, and waits in its domain's queue. [`PathScheduler::next`]
//! names the domain that runs one packet; [`PathScheduler::charge`] tells its cost, in nanoseconds or steps. A
//! scheduler is a data structure: the time is passed in, nothing is allocated once the flows are there, and each call
//! takes the same few steps for ten flows as for ten thousand. A *flow* is a domain, named by its place in the table of
//! domains.
//!
//! | policy | next flow |
//! |---|---|
//! | `fifo` | the one that has waited longest, a packet each |
//! | `priority` | the highest priority with work; within one, as `fifo` |
//! | `wfq` | the one furthest behind its share: start-time fair queueing (Goyal, Guo and Vin, OSDI 1996), which needs no cost in advance |
//! | `edf` | the earliest deadline (Liu and Layland 1973), a packet at a time (Jeffay et al. 1991); flows without deadlines have the rest |
//! | `bert` | as `wfq`; important flows with deadlines steal turns, by `edf`, from flows that are not important |
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
//! **BERT** (Bavier, Peterson and Mosberger, Princeton TR-587-98 and TR-602-99). From there: proportional shares for
//! all, cycles stolen by flows that would miss a deadline, and importance, which decides who may steal and who is
//! immune. Our own: thieves are ordered by deadline, use their own share first, and steal at once rather than when it
//! is nearly too late. Stolen time is paid, by weight, by all flows with work that may be robbed; their virtual time
//! moves away from that of the immune.
//!
//! The model is Silk's suite of schedulers for paths (Snow on Silk §3.2). `share` is the node's own share of a CPU.

mod apart;
mod buckets;
mod calendar;
mod policy;
pub mod share;
#[cfg(test)]
mod tests;
mod tree;

use crate::sys::cache;
pub use apart::Standing;
use buckets::{BUCKETS_MAX, Buckets, Link, Linked};
use calendar::{Calendar, Keyed};
pub use policy::{Policy, Share};
use std::collections::BTreeMap;
use tree::Tree;

/// Flows of a scheduler.
pub const FLOWS_MAX: usize = u16::MAX as usize;

/// The largest weight.
pub const WEIGHT_MAX: u32 = 10_000;

/// The longest deadline: ten seconds. Deadlines further away than one second are not told apart.
pub const DEADLINE_NS_MAX: u64 = 10_000_000_000;

/// The largest cost of a packet: beyond it, it counts as this.
const COST_MAX: u64 = 1 << 40;

/// Bits of virtual time below a nanosecond for a weight of one.
const FRACTION: u32 = 16;

/// Step of the calendar of virtual times: 64 ns for a weight of one.
const FAIR_SHIFT: u32 = FRACTION + 6;

/// Step of the calendar of deadlines: 66 µs, so that it reaches over a second.
const DUE_SHIFT: u32 = 16;

/// Priorities there are.
const PRIORITIES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Idle,
    /// Named by `next`, not charged yet.
    Running,
    /// The same, and more work has come.
    Woken,
    Level,
    Fair,
    Safe,
    Due,
}

/// Whose turn a flow runs in, and so who pays for it in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Own,
    /// That of the flows that may be robbed.
    Stolen,
    Nobodys,
}

/// What every decision looks at, half a cache line.
#[derive(Clone, Debug)]
struct Flow {
    link: Link,
    state: State,
    turn: Turn,
    weight: u16,
    priority: u8,
    /// It has deadlines, and so a [`Due`].
    timed: bool,
    /// Virtual time.
    tag: u64,
    /// What the calendar sorts by: the virtual time or the deadline.
    key: u64,
}

impl Flow {
    #[inline]
    fn is_important(&self) -> bool {
        self.priority > 0
    }
}

impl Linked for Flow {
    #[inline]
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Keyed for Flow {
    #[inline]
    fn key(&self) -> u64 {
        self.key
    }
}

/// The part that flows with deadlines have besides.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    deadline: u64,
    missed: u64,
    /// The time between deadlines; 0: none.
    every: u64,
    /// The epoch in which `deadline` was set.
    epoch: u64,
}

const ABSENT: Flow = Flow {
    link: Link::NONE,
    state: State::Absent,
    turn: Turn::Own,
    weight: 0,
    priority: 0,
    timed: false,
    tag: 0,
    key: 0,
};

/// A scheduler.
#[derive(Debug)]
pub struct PathScheduler {
    policy: Policy,
    flows: Vec<Flow>,
    dues: Vec<Due>,
    levels: Buckets,
    /// By virtual time; for `bert`, those who may be robbed.
    fair: Calendar,
    /// For `bert`, by virtual time those who may not.
    safe: Calendar,
    due: Calendar,
    /// The virtual time of who runs, or ran last, to a step: of those in `fair`, and of all others.
    fair_now: u64,
    safe_now: u64,
    /// What thieves have taken of the virtual time of those in `fair`: so far it is behind that of the others.
    stolen: u64,
    /// The weights of those who wait in `fair`.
    fair_weight: u64,
    /// Flows with deadlines that have work. Each time there are none, an epoch begins in which old deadlines do not count.
    pressed: usize,
    epoch: u64,
    waiting: usize,
    /// The tree of shares: the flow above each flow.
    tree: Tree,
    /// Times between deadlines, and how many flows have each.
    times: BTreeMap<u64, usize>,
}

impl PathScheduler {
    /// A scheduler without flows.
    pub fn new(policy: Policy) -> PathScheduler {
        let steps = |used: bool| if used { BUCKETS_MAX } else { 0 };
        let by_deadline = matches!(policy, Policy::Edf | Policy::Bert);
        PathScheduler {
            policy,
            flows: Vec::new(),
            dues: Vec::new(),
            levels: Buckets::new(if policy == Policy::Priority { PRIORITIES } else { 0 }),
            fair: Calendar::new(FAIR_SHIFT, steps(by_deadline || policy == Policy::Wfq)),
            safe: Calendar::new(FAIR_SHIFT, steps(policy == Policy::Bert)),
            due: Calendar::new(DUE_SHIFT, steps(by_deadline)),
            fair_now: 0,
            safe_now: 0,
            stolen: 0,
            fair_weight: 0,
            pressed: 0,
            epoch: 0,
            waiting: 0,
            tree: Tree::default(),
            times: BTreeMap::new(),
        }
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Flows that wait for their turn.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether a flow that runs may have more packets run in the same turn: no other waits, and it has no deadlines to meet one by one.
    #[inline]
    pub fn may_go_on(&self, flow: usize) -> bool {
        self.waiting == 0 && self.flows.get(flow).is_some_and(|flow| !flow.timed)
    }

    /// Whether a flow has entered.
    #[inline]
    pub fn knows(&self, flow: usize) -> bool {
        self.flows.get(flow).is_some_and(|flow| flow.state != State::Absent)
    }

    /// Whether a flow has deadlines.
    #[inline]
    pub fn is_timed(&self, flow: usize) -> bool {
        self.flows.get(flow).is_some_and(|flow| flow.timed)
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
        if after > 0 && matches!(self.policy, Policy::Edf | Policy::Bert) {
            *self.times.entry(after).or_insert(0) += 1;
        }
    }

    /// Asks for the memory of a flow that will be spoken of soon.
    #[inline]
    pub fn foresee(&self, flow: usize) {
        cache::prefetch_at(&self.flows, flow);
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
        if flow >= self.flows.len() {
            cache::make_room(&mut self.flows, flow + 1);
            self.flows.resize(flow + 1, ABSENT);
            self.dues.resize(flow + 1, Due::default());
        }
        let waits = self.is_waiting(flow);
        if waits {
            self.take(flow);
        }
        let state = match self.flows[flow].state {
            State::Absent => State::Idle,
            state => state,
        };
        let working = waits || state != State::Idle;
        let every = share.deadline_ns.min(DEADLINE_NS_MAX);
        self.pressed -= usize::from(working && self.dues[flow].every > 0);
        self.pressed += usize::from(working && every > 0);
        let before = core::mem::replace(&mut self.dues[flow].every, every);
        if before != every {
            self.change_time(before, every);
        }
        let weight = share.weight.clamp(1, WEIGHT_MAX) as u16;
        self.flows[flow] = Flow { priority: share.priority, timed: every > 0, weight, state, ..self.flows[flow] };
        self.tree.enter(flow, above, weight, self.fair_now);
        // Whether it may be robbed or not, it begins where the others are.
        self.flows[flow].tag = self.now_of(flow);
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
        let state = self.flows.get(flow).map_or(State::Absent, |flow| flow.state);
        if state == State::Absent {
            return;
        }
        if self.is_waiting(flow) {
            self.take(flow);
        }
        if state != State::Idle {
            self.rest(flow);
        }
        self.flows[flow] = ABSENT;
        let before = core::mem::take(&mut self.dues[flow]).every;
        if before > 0 {
            self.change_time(before, 0);
        }
        self.tree.leave(flow);
    }

    /// A flow has work, perhaps more of it.
    #[inline(always)]
    pub fn wake(&mut self, flow: usize, now: u64) {
        let Some(known) = self.flows.get_mut(flow) else { return };
        match known.state {
            State::Idle => {
                let start = self.tree.wake(flow, self.fair_now);
                // There are two virtual times then: a flow starts at its own, whatever those above it have had.
                let start = if self.policy == Policy::Bert { self.now_of(flow) } else { start };
                let owed = self.tree.owed(flow);
                let known = &mut self.flows[flow];
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
        if self.waiting > 0 || self.flows.get(flow).is_none_or(|flow| flow.state != State::Idle) {
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
        let flow = usize::from(match self.policy {
            Policy::Fifo | Policy::Priority => self.levels.first_from(0).map(|level| self.levels.head(level))?,
            Policy::Wfq => self.next_turn()?,
            Policy::Edf => self.next_due(now).or_else(|| self.next_turn())?,
            Policy::Bert => self.next_or_thief(now)?,
        });
        self.take(flow);
        self.flows[flow].state = State::Running;
        Some(flow)
    }

    #[inline]
    fn next_due(&mut self, now: u64) -> Option<u16> {
        let flow = self.due.first(&mut self.flows, Some(now))?;
        self.flows[usize::from(flow)].turn = Turn::Nobodys;
        Some(flow)
    }

    /// Whose turn it is by virtual time, and that time, among those who may be robbed and those who may not.
    fn turn(&mut self) -> Option<(u16, u64)> {
        let fair = self.fair.first(&mut self.flows, None);
        let fair = fair.map(|flow| (flow, self.flows[usize::from(flow)].tag.wrapping_add(self.stolen)));
        let safe = self.safe.first(&mut self.flows, None);
        let safe = safe.map(|flow| (flow, self.flows[usize::from(flow)].tag));
        match (fair, safe) {
            (Some(fair), Some(safe)) => Some(if is_later(fair.1, safe.1) { safe } else { fair }),
            (fair, safe) => fair.or(safe),
        }
    }

    #[inline(always)]
    fn next_turn(&mut self) -> Option<u16> {
        if !self.safe.is_empty() {
            let (flow, time) = self.turn()?;
            self.advance(time);
            return Some(flow);
        }
        let flow = self.fair.first(&mut self.flows, None)?;
        self.advance(self.flows[usize::from(flow)].tag.wrapping_add(self.stolen));
        Some(flow)
    }

    /// Whose turn it is, unless an important flow with a deadline has or steals it.
    fn next_or_thief(&mut self, now: u64) -> Option<u16> {
        let Some(thief) = self.next_due(now) else { return self.next_turn() };
        let Some((first, time)) = self.turn() else { return Some(thief) };
        let tag = self.flows[usize::from(thief)].tag;
        let turn = if !is_later(tag, time) {
            self.advance(tag);
            Turn::Own
        } else if self.flows[usize::from(first)].is_important() {
            self.advance(time);
            return Some(first);
        } else {
            Turn::Stolen
        };
        self.flows[usize::from(thief)].turn = turn;
        Some(thief)
    }

    /// A flow has run a packet at a cost, in nanoseconds or steps, always the same; `more`: it still has work.
    #[inline]
    pub fn charge(&mut self, flow: usize, cost: u64, more: bool, now: u64) {
        let Some(ran) = self.flows.get_mut(flow) else { return };
        let more = match ran.state {
            State::Running => more,
            State::Woken => true,
            _ => return,
        };
        let cost = cost.clamp(1, COST_MAX);
        match core::mem::replace(&mut ran.turn, Turn::Own) {
            Turn::Own => ran.tag = ran.tag.wrapping_add(self.tree.charge(flow, cost)),
            // All who wait and may be robbed pay by weight.
            Turn::Stolen => self.stolen = self.stolen.wrapping_add((cost << FRACTION) / self.fair_weight.max(1)),
            Turn::Nobodys => {}
        }
        if ran.timed {
            let due = &mut self.dues[flow];
            due.missed += u64::from(now > due.deadline);
        }
        if more {
            self.renew(flow, now);
            self.put(flow, now);
        } else {
            self.flows[flow].state = State::Idle;
            self.tree.rest(flow);
            self.rest(flow);
        }
    }

    /// Packets of a flow that were not done by their deadline.
    pub fn missed(&self, flow: usize) -> u64 {
        self.dues.get(flow).map_or(0, |due| due.missed)
    }

    /// Virtual time goes on, never back. Flows within a step are not told apart, so none of them may fall behind because another ran first.
    #[inline]
    fn advance(&mut self, to: u64) {
        let step = |time: u64| time & (u64::MAX << FAIR_SHIFT);
        self.safe_now = later_of(step(to), self.safe_now);
        self.fair_now = later_of(step(to.wrapping_sub(self.stolen)), self.fair_now);
    }

    /// The virtual time where a flow is measured that begins now.
    #[inline]
    fn now_of(&self, flow: usize) -> u64 {
        if self.policy == Policy::Bert && self.flows[flow].is_important() { self.safe_now } else { self.fair_now }
    }

    /// The next packet's deadline.
    #[inline]
    fn renew(&mut self, flow: usize, now: u64) {
        if self.flows[flow].timed {
            let due = &mut self.dues[flow];
            let from = if due.epoch == self.epoch { due.deadline.max(now) } else { now };
            due.deadline = (from + due.every).min(now.saturating_add(DEADLINE_NS_MAX));
            due.epoch = self.epoch;
        }
    }

    /// A flow has no more work.
    #[inline]
    fn rest(&mut self, flow: usize) {
        if self.flows[flow].timed {
            self.pressed -= 1;
            self.epoch += u64::from(self.pressed == 0);
        }
    }

    fn is_waiting(&self, flow: usize) -> bool {
        matches!(self.flows[flow].state, State::Level | State::Fair | State::Safe | State::Due)
    }

    /// Puts a flow where the policy wants it.
    #[inline(always)]
    fn put(&mut self, flow: usize, now: u64) {
        self.waiting += 1;
        let known = &mut self.flows[flow];
        match self.policy {
            Policy::Fifo | Policy::Priority => {
                known.state = State::Level;
                let level = if self.policy == Policy::Fifo { 0 } else { usize::from(u8::MAX - known.priority) };
                self.levels.push(&mut self.flows, level, flow as u16);
            }
            Policy::Edf | Policy::Bert if known.timed && (self.policy == Policy::Edf || known.is_important()) => {
                (known.state, known.key) = (State::Due, self.dues[flow].deadline);
                self.due.push(&mut self.flows, flow as u16, now);
            }
            Policy::Bert if known.is_important() => {
                (known.state, known.key) = (State::Safe, known.tag);
                self.safe.push(&mut self.flows, flow as u16, self.safe_now);
            }
            Policy::Wfq | Policy::Edf | Policy::Bert => {
                (known.state, known.key) = (State::Fair, known.tag);
                self.fair_weight += u64::from(known.weight);
                self.fair.push(&mut self.flows, flow as u16, self.fair_now);
            }
        }
    }

    /// Takes a flow from where it waits.
    #[inline(always)]
    fn take(&mut self, flow: usize) {
        self.waiting -= 1;
        let known = &mut self.flows[flow];
        match core::mem::replace(&mut known.state, State::Idle) {
            State::Level => self.levels.remove(&mut self.flows, flow as u16),
            State::Fair => {
                self.fair_weight -= u64::from(known.weight);
                self.fair.remove(&mut self.flows, flow as u16);
            }
            State::Safe => self.safe.remove(&mut self.flows, flow as u16),
            State::Due => self.due.remove(&mut self.flows, flow as u16),
            State::Absent | State::Idle | State::Running | State::Woken => {}
        }
    }
}

/// How far a cost moves a flow's virtual time.
#[inline]
fn virtual_cost(cost: u64, inverse: u32) -> u64 {
    ((u128::from(cost) * u128::from(inverse)) >> (32 - FRACTION)) as u64
}

/// The later of two virtual times. Which one it is, no processor can foretell.
#[inline(always)]
fn later_of(one: u64, other: u64) -> u64 {
    if is_later(one, other) { one } else { other }
}

/// Whether a virtual time is behind another, also around the end of 64 bits.
#[inline]
fn is_later(one: u64, other: u64) -> bool {
    one.wrapping_sub(other) as i64 > 0
}
