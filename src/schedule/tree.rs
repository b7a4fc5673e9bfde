//! Shares of shares: flows below a flow divide its share.
//!
//! ```text
//! capsules (100) ─┬─ code a (100)      a environment of weight 100 beside one of weight 400 has a fifth of the CPU,
//!                 └─ code b (300)      whether it has two flows or thirty: a has a quarter of that fifth, b three.
//! camera   (400)
//! ```
//!
//! A flow's virtual time moves by what its packet costs over its *effective* weight: its weight among those of its
//! siblings that have work, times the same of each flow above it. Each flow above has a virtual time of its own too,
//! that of all its packets together. Nobody starts before that of those above: so flows that wake in turns have no more
//! than flows that always have work (the shape of Goyal, Guo and Vin's hierarchy, kept in one queue). The price of one
//! queue: a packet is paid by the siblings that are there when it has run. If these go at once, its flow waits for that
//! once, though nobody divides its share any more; and flows that wake at the same time run one packet each, which
//! those above pay back.

use super::virtual_time::{FRACTION, later_of, virtual_cost};

/// Levels of a tree: what is deeper counts as if it were at the last one.
pub(super) const LEVELS: usize = 18;

/// The most that a packet moves a flow's time: half of what tells before from behind is far away.
const MOST: u64 = 1 << 60;

/// No flow.
const NONE: u32 = u32::MAX;

/// What a flow was billed for, and what of the bills above it moved it already.
#[derive(Clone, Copy, Debug, Default)]
struct Bill {
    /// How far bills have moved its own virtual time.
    own: u64,
    /// The sum of this of all above it when its time was moved last.
    seen: u64,
}

/// Nanoseconds of what it has that a flow is ahead by paying for packets before they are done, and more: beyond it has had too much.
pub const AHEAD_NS: u64 = 30_000_000;

/// What a flow with all below it weighs, and whether it had turns lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its weight.
    pub weight: u32,
    /// Whether it had a turn since the interval began ([`super::PathScheduler::begin_interval`]).
    pub served: bool,
    /// Whether it is ahead of the others by more than `AHEAD_NS`.
    pub ahead: bool,
    /// How far turns have moved its virtual time so far, its own and those below it; it wraps.
    pub moved: u64,
}

impl Standing {
    /// Nanoseconds that turns have taken, its own and those below it, since its time had moved so far.
    pub fn worked_since(&self, moved: u64) -> u64 {
        ((u128::from(self.moved.wrapping_sub(moved)) * u128::from(self.weight)) >> FRACTION) as u64
    }
}

/// A flow among those below the same one.
#[derive(Clone, Copy, Debug)]
struct Branch {
    above: u32,
    weight: u16,
    /// 2³² over the weight.
    inverse: u32,
    /// Weights of those below that have work, and its own if it has some itself.
    active: u32,
    /// Whether it has work itself.
    works: bool,
    /// Virtual time of all its packets and those below.
    tag: u64,
    /// How far turns have moved it: unlike the time itself, not by bills, and never lifted to where the others are.
    moved: u64,
    /// At the top: the interval in which it, or one below it, had its latest turn.
    interval: u32,
}

const ABSENT: Branch =
    Branch { above: NONE, weight: 0, inverse: 0, active: 0, works: false, tag: 0, moved: 0, interval: 0 };

/// The flows of a scheduler.
#[derive(Debug)]
pub(super) struct Tree {
    branches: Vec<Branch>,
    /// Empty until somebody is billed.
    bills: Vec<Bill>,
    /// Weights of those below nobody that have work, or below whom somebody has.
    active: u32,
    /// The interval between two looks from outside, and the weights of those below nobody that had turns in it.
    interval: u32,
    served: u32,
}

impl Default for Tree {
    fn default() -> Tree {
        // Flows that had no turn yet are of interval 0.
        Tree { branches: Vec::new(), bills: Vec::new(), active: 0, interval: 1, served: 0 }
    }
}

impl Tree {
    /// Adds a flow below another one, or changes its weight or its place; `now`: the virtual time.
    #[cold]
    pub(super) fn enter(&mut self, flow: usize, above: Option<usize>, weight: u16, now: u64) {
        if self.branches.len() <= flow {
            self.branches.resize(flow + 1, ABSENT);
        }
        let above = above.filter(|above| *above != flow && self.branches.get(*above).is_some_and(|it| it.weight > 0));
        let before = self.branches[flow];
        if before.active > 0 {
            self.lighten(before.above, before.weight);
        }
        let branch = &mut self.branches[flow];
        (branch.weight, branch.inverse) = (weight.max(1), u32::MAX / u32::from(weight.max(1)));
        branch.above = above.map_or(NONE, |above| above as u32);
        if before.works {
            branch.active = branch.active - u32::from(before.weight) + u32::from(branch.weight);
        }
        if before.weight == 0 {
            branch.tag = now;
        }
        self.forget_bills(flow);
        let branch = &mut self.branches[flow];
        if branch.active > 0 {
            let (above, weight) = (branch.above, branch.weight);
            self.burden(above, weight, now);
        }
    }

    /// A flow is no more.
    pub(super) fn leave(&mut self, flow: usize) {
        let Some(branch) = self.branches.get_mut(flow) else { return };
        let before = core::mem::replace(branch, ABSENT);
        if before.active > 0 {
            self.lighten(before.above, before.weight);
        }
        if let Some(bill) = self.bills.get_mut(flow) {
            *bill = Bill::default();
        }
    }

    /// A flow has work; `now`: the virtual time. Says where it starts at the earliest.
    #[inline]
    pub(super) fn wake(&mut self, flow: usize, now: u64) -> u64 {
        if let Some(branch) = self.branches.get_mut(flow).filter(|branch| !branch.works) {
            branch.works = true;
            let weight = branch.weight;
            self.burden(flow as u32, weight, now);
        }
        let (mut start, mut at) = (now, flow);
        for _ in 0..LEVELS {
            let Some(branch) = self.branches.get(at) else { break };
            start = later_of(branch.tag, start);
            at = branch.above as usize;
        }
        start
    }

    /// A flow has no more work.
    #[inline]
    pub(super) fn rest(&mut self, flow: usize) {
        if let Some(branch) = self.branches.get_mut(flow).filter(|branch| branch.works) {
            branch.works = false;
            let weight = branch.weight;
            self.lighten(flow as u32, weight);
        }
    }

    /// A flow has had so much: how far that moves its virtual time, as it moves those above.
    #[inline]
    pub(super) fn charge(&mut self, flow: usize, cost: u64) -> u64 {
        let moved = self.charge_branch(flow, cost, true);
        match self.branches.get(flow) {
            Some(branch) if branch.active > u32::from(branch.weight) => part(moved, branch.active, branch.inverse),
            _ => moved,
        }
    }

    /// The same of the flow with all below it, who do not divide this among them: how far the time of each is to move.
    #[inline]
    fn charge_branch(&mut self, flow: usize, cost: u64, is_turn: bool) -> u64 {
        let mut way = [NONE; LEVELS];
        let (mut at, mut length) = (flow, 0);
        while let Some(branch) = self.branches.get(at)
            && let Some(place) = way.get_mut(length)
        {
            *place = at as u32;
            (at, length) = (branch.above as usize, length + 1);
        }
        // From the top: each has its part of what the one above has.
        let (mut moved, mut parts) = (0, None);
        for at in way[..length].iter().rev() {
            let Some(branch) = self.branches.get_mut(*at as usize) else { break };
            moved = match parts {
                None => virtual_cost(cost, branch.inverse),
                Some(parts) => part(moved, parts, branch.inverse),
            };
            branch.tag = branch.tag.wrapping_add(moved);
            branch.moved = branch.moved.wrapping_add(if is_turn { moved } else { 0 });
            if is_turn && parts.is_none() && branch.interval != self.interval {
                branch.interval = self.interval;
                self.served += u32::from(branch.weight);
            }
            parts = Some(branch.active);
        }
        moved
    }

    /// A flow with all below it has had so much beside packets: how far its own time is to move. Those below are moved
    /// when their turns come ([`Tree::owed`]), so a bill costs the same however many they are.
    pub(super) fn bill(&mut self, flow: usize, cost: u64) -> u64 {
        let moved = self.charge_branch(flow, cost, false);
        if self.bills.len() < self.branches.len() {
            self.bills.resize(self.branches.len(), Bill::default());
        }
        if let Some(bill) = self.bills.get_mut(flow) {
            bill.own = bill.own.wrapping_add(moved);
        }
        moved
    }

    /// Whether anybody was ever billed.
    #[inline]
    pub(super) fn has_bills(&self) -> bool {
        !self.bills.is_empty()
    }

    /// How far bills of those above are still to move a flow's time, which the caller does now.
    #[inline]
    pub(super) fn owed(&mut self, flow: usize) -> u64 {
        if !self.has_bills() {
            return 0;
        }
        let billed = self.billed_above(flow);
        let seen = self.bills.get_mut(flow).map(|bill| core::mem::replace(&mut bill.seen, billed));
        billed.wrapping_sub(seen.unwrap_or(billed))
    }

    #[cold]
    fn billed_above(&self, flow: usize) -> u64 {
        let above = |flow: usize| self.branches.get(flow).map_or(NONE, |branch| branch.above);
        let (mut billed, mut at) = (0u64, above(flow));
        for _ in 0..LEVELS {
            let Some(bill) = self.bills.get(at as usize) else { break };
            billed = billed.wrapping_add(bill.own);
            at = above(at as usize);
        }
        billed
    }

    /// A flow begins where it is now: earlier bills are not its.
    fn forget_bills(&mut self, flow: usize) {
        if !self.bills.is_empty() {
            self.bills.resize(self.branches.len(), Bill::default());
            let seen = self.billed_above(flow);
            self.bills[flow].seen = seen;
        }
    }

    /// How far ahead of a virtual time a flow is with all below it, and how far it may be for so many nanoseconds of its own.
    pub(super) fn debt(&self, flow: usize, now: u64, most_ns: u64) -> (i64, u64) {
        let Some(branch) = self.branches.get(flow) else { return (0, 0) };
        (branch.tag.wrapping_sub(now) as i64, virtual_cost(most_ns, branch.inverse))
    }

    /// Of so many nanoseconds by which a flow with all below it may be ahead of a virtual time: what is left.
    pub(super) fn left_of(&self, flow: usize, now: u64, most_ns: u64) -> u64 {
        let (ahead, _) = self.debt(flow, now, 0);
        let weight = self.branches.get(flow).map_or(1, |branch| branch.weight);
        let ahead_ns = (u128::from(ahead.max(0) as u64) * u128::from(weight)) >> FRACTION;
        most_ns.saturating_sub(u64::try_from(ahead_ns).unwrap_or(u64::MAX))
    }

    /// How far turns have moved the time of a flow with all below it.
    pub(super) fn moved(&self, flow: usize) -> u64 {
        self.branches.get(flow).map_or(0, |branch| branch.moved)
    }

    /// The weight of those at the top that had turns in this interval, each with all below it.
    pub(super) fn served(&self) -> u32 {
        self.served
    }

    /// Whether a flow at the top, or one below it, had a turn in this interval.
    pub(super) fn was_served(&self, flow: usize) -> bool {
        self.branches.get(flow).is_some_and(|branch| branch.interval == self.interval)
    }

    /// The next interval begins.
    pub(super) fn begin_interval(&mut self) {
        (self.interval, self.served) = (self.interval.wrapping_add(1), 0);
    }

    /// Whether what is active above is what has work below.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let top = |branch: &&Branch| branch.active > 0 && self.branches.get(branch.above as usize).is_none();
        assert_eq!(self.active, self.branches.iter().filter(top).map(|top| u32::from(top.weight)).sum::<u32>());
        for (at, branch) in self.branches.iter().enumerate() {
            let below = self.branches.iter().filter(|other| other.above as usize == at && other.active > 0);
            let own = if branch.works { u32::from(branch.weight) } else { 0 };
            let sum = below.map(|other| u32::from(other.weight)).sum::<u32>() + own;
            assert_eq!(branch.active, sum, "at {at}: {:?}", self.branches);
        }
    }

    /// Somebody of this weight below a flow, or it itself, has work from now on.
    #[inline]
    fn burden(&mut self, at: u32, weight: u16, now: u64) {
        let (mut at, mut weight) = (at, u32::from(weight));
        for _ in 0..LEVELS {
            let Some(branch) = self.branches.get_mut(at as usize).filter(|branch| branch.weight > 0) else {
                self.active = self.active.saturating_add(weight);
                return;
            };
            let before = branch.active;
            branch.active = before.saturating_add(weight);
            if before > 0 {
                return;
            }
            branch.tag = later_of(branch.tag, now);
            (at, weight) = (branch.above, branch.weight.into());
        }
    }

    /// The same has none any more.
    #[inline]
    fn lighten(&mut self, at: u32, weight: u16) {
        let (mut at, mut weight) = (at, u32::from(weight));
        for _ in 0..LEVELS {
            let Some(branch) = self.branches.get_mut(at as usize).filter(|branch| branch.weight > 0) else {
                self.active = self.active.saturating_sub(weight);
                return;
            };
            branch.active = branch.active.saturating_sub(weight);
            if branch.active > 0 {
                return;
            }
            (at, weight) = (branch.above, branch.weight.into());
        }
    }
}

/// How far a flow's time moves whose weight is one of `parts`, where the time of what is above it has moved by `moved`.
#[inline]
fn part(moved: u64, parts: u32, inverse: u32) -> u64 {
    ((u128::from(moved) * u128::from(parts) * u128::from(inverse)) >> 32).min(MOST.into()) as u64
}
