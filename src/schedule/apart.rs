//! Work that is no packet's of a turn: what the worker does for a process's rings, and what that process itself uses of a CPU.
//!
//! Example: two environments of one weight always have packets, and the process of one uses 40 µs for each of its
//! packets, of which the worker uses 2. Charged for 2 it would run twenty packets for each of the other's. So it is
//! *billed* for the rest when that is known: its virtual time moves as if its own packets had cost more, and with it
//! that of all below it. Until the others are there too, its packets wait.
//!
//! What an environment uses while nobody waits is nobody's loss and no bill ([`PathScheduler::bill_apart`]), and nobody
//! is in debt for more than [`DEBT_NS`]: a process that computes on a CPU of its own is kept waiting as long as it
//! does, and not for all its past.

use super::PathScheduler;
use super::queues::State;
use super::tree::{AHEAD_NS, Standing};
use super::virtual_time::{FAIR_SHIFT, is_later, later_of};

/// The most that a flow may be ahead of the others by bills: a second of what it has.
const DEBT_NS: u64 = 1_000_000_000;

/// Flows below one that was billed whose time is moved before one decision; the others' is before later ones.
const MOVED_MAX: usize = 16;

impl PathScheduler {
    /// A flow with all below it has caused work at a cost, in nanoseconds or steps, that was no packet's of its turn:
    /// they pay for that in their next turns.
    pub fn bill(&mut self, flow: usize, cost: u64, now: u64) {
        if !self.knows(flow) {
            return;
        }
        // No bill makes the debt longer than it may be, however long it is itself.
        let left = self.tree.left_of(flow, self.queues.fair_now, DEBT_NS);
        if left == 0 {
            return;
        }
        let waits = self.is_waiting(flow);
        if waits {
            self.take(flow);
        }
        // For its siblings and those above it is at work as long as this takes.
        let idle = !waits && self.queues.flows[flow].state == State::Idle;
        let start = self.tree.wake(flow, self.queues.fair_now);
        let start = if self.uses.immune { self.now_of(flow) } else { start };
        let begin = later_of(start, self.queues.flows[flow].tag);
        self.queues.flows[flow].tag = begin.wrapping_add(self.tree.bill(flow, cost.clamp(1, left)));
        if idle {
            self.tree.rest(flow);
        }
        if waits {
            self.put(flow, now);
        }
    }

    /// The same of what somebody else's CPU time was: while nobody waits, it is kept from nobody.
    pub fn bill_apart(&mut self, flow: usize, cost: u64, now: u64) {
        if self.queues.waiting > 0 {
            self.bill(flow, cost, now);
        }
    }

    /// Whether a flow has had more than its share, while others wait for theirs. Only where shares alone say whose turn it is.
    pub fn is_ahead(&self, flow: usize) -> bool {
        let others = self.knows(flow) && self.queues.waiting > usize::from(self.is_waiting(flow));
        let behind = || self.now_of(flow).wrapping_add(1 << FAIR_SHIFT);
        self.uses.shares && !self.uses.deadlines && others && is_later(self.queues.flows[flow].tag, behind())
    }

    /// How a flow stands; nothing where shares do not say whose turn it is.
    pub fn standing(&self, flow: usize) -> Option<Standing> {
        let by_share = self.uses.shares && self.knows(flow);
        let (ahead, most) = self.tree.debt(flow, self.queues.fair_now, AHEAD_NS);
        let weight = self.queues.flows.get(flow).map_or(1, |flow| flow.weight.into());
        by_share.then(|| Standing {
            weight,
            served: self.tree.was_served(flow),
            ahead: ahead > most as i64,
            moved: self.tree.moved(flow),
        })
    }

    /// What all weigh together that had turns since the interval began, each with those below it.
    pub fn served_weight(&self) -> u32 {
        self.tree.served()
    }

    /// From now on, turns are those of another interval.
    pub fn begin_interval(&mut self) {
        self.tree.begin_interval();
    }

    /// Before a decision: who is first pays bills of those above it, and is perhaps not first any more.
    #[cold]
    pub(super) fn move_billed(&mut self, now: u64) {
        for _ in 0..MOVED_MAX {
            let first = self.queues.firsts();
            let mut moved = false;
            for flow in first.into_iter().flatten().map(|flow| flow as usize) {
                let owed = self.tree.owed(flow);
                if owed > 0 {
                    self.take(flow);
                    self.queues.flows[flow].tag = self.queues.flows[flow].tag.wrapping_add(owed);
                    self.put(flow, now);
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }
}
