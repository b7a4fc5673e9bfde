//! What a node does when time has passed: deadlines, events, sweeps of soft state.

use super::output::Turn;
use super::{LOOK, Node, SWEEP};

/// Sweeps in which every soft-state entry is looked at once.
const SWEEP_SHARE: usize = 10;

impl Node {
    /// When [`Node::timer`] has something to do.
    pub fn next_timer(&self) -> u64 {
        if !self.cx.core.overdue.is_empty() || !self.cx.control.untold.is_empty() {
            return 0;
        }
        let pools = self.cx.core.pools.next_deadline().unwrap_or(u64::MAX);
        let pools = pools.min(self.cx.control.events.next_deadline().unwrap_or(u64::MAX));
        let pools = pools.min(self.cx.control.workers.turns.marks.next_look());
        let own = self.cx.core.resolver.deadline().unwrap_or(u64::MAX).min(self.cx.control.next_sweep).min(pools);
        let own = own.min(self.cx.control.wishing.next());
        self.environments.iter().map(|environment| environment.next_timer()).fold(own, u64::min)
    }

    /// Carries out due timers.
    pub fn timer(&mut self, turn: &mut Turn<'_>) {
        self.cx.look_at_marks(turn);
        self.cx.expire_resolutions(turn);
        self.cx.look_after_pools(turn);
        self.environments.settle(&mut self.cx, turn);
        self.expire_events(turn);
        self.end_overdue(turn);
        self.environments.timers(&mut self.cx, turn);
        self.look_at_wishes(turn);
        if turn.now >= self.cx.control.next_sweep {
            self.cx.control.next_sweep = turn.now + SWEEP;
            self.expire_turns(turn);
            self.cx.share_out(turn.now);
            let core = &mut self.cx.core;
            let share = core.state.capacity().div_ceil(SWEEP_SHARE);
            core.state.sweep(&mut core.domains, turn.now, share);
            if let Some(common) = self.cx.control.workers.leads() {
                common.state.sweep(turn.now, common.state.part_capacity().div_ceil(SWEEP_SHARE));
            }
            if !self.cx.is_further() {
                let neighbours = &mut self.cx.core.topology.neighbours;
                let before = neighbours.len();
                neighbours.forget_silent(turn.now);
                let gone = before - neighbours.len();
                if gone > 0 {
                    tracing::info!(
                        event = "neighbour",
                        node = self.cx.core.name,
                        gone,
                        "neighbours were silent for too long"
                    );
                }
            }
            self.cx.sweep_stores(turn);
            self.cx.tell_neighbours(turn);
            self.cx.tell_topology(turn);
            if turn.now >= self.cx.control.next_look {
                self.cx.control.next_look = turn.now + LOOK;
                self.cx.raise_alarms(turn.now);
                self.cx.tell_heard(turn);
                self.cx.graphs.settle_cuts(&mut self.cx.core);
            }
            self.environments.sweep(&mut self.cx, turn);
            self.look_after_waiting(turn);
        }
    }
}
