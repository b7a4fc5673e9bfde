//! Code and domains over their budgets for long, looked at once a second.
//!
//! Every packet beyond a budget is dropped, in either half. If the role says so (`over_budget = "remove"`), code over
//! its budget for some seconds in a row is taken out of both halves and refused for a time. Its capsules are then
//! dropped under [`Reason::Removed`], before any work for them. A domain whose channels bring more than its role allows
//! ends in the same way, with all it owns.

use super::codes::Code;
use super::ending::EndedBy;
use super::output::Turn;
use super::{Capsules, Cx, Node};
use crate::core::reason::Reason;
use crate::core::state_store;
use crate::trust::limits::{Limits, OverBudget};
use crate::wire::Digest;

const SECOND: u64 = 1_000_000_000;

/// Bytes that a code holds with so many entries of soft state.
pub(super) fn held_by_code(limits: &Limits, state_entries: u32) -> u64 {
    u64::from(limits.memory_bytes) + u64::from(state_entries) * state_store::ENTRY
}

impl Node {
    /// Ends domains over their budgets, if their roles say so, between two packets.
    pub(super) fn end_overdue(&mut self, turn: &mut Turn<'_>) {
        for domain in core::mem::take(&mut self.cx.core.overdue) {
            tracing::warn!(
                event = "session",
                node = self.cx.core.name,
                domain = domain.0,
                "domain ended: over its budget for too long"
            );
            self.cx.fell(domain, EndedBy::Node);
            self.end_domain(turn, domain, true);
        }
    }
}

impl Capsules {
    /// Looks at what all codes have used, and charges their domains what they hold: their memory, and their soft state as it is.
    pub(super) fn look_at_budgets(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        let mut over: Vec<(Digest, u32)> = Vec::new();
        for (name, ready) in self.codes.ready() {
            cx.count_wishes(turn.now, ready.domain);
            let core = &mut cx.core;
            let Some(domain) = core.domains.of(ready.domain) else { continue };
            // It fits: the pool was made for as much as the role's limits let there be.
            let _ = core.pools.set_held(ready.domain, held_by_code(&domain.limits, domain.counts.state_entries));
            let (kernel, strikes) = domain.look();
            ready.ran_in_kernel(kernel.packets, turn.now);
            let limits = &domain.limits;
            if limits.over_budget == OverBudget::Remove && strikes >= limits.over_budget_s {
                over.push((*name, limits.removed_s));
            }
        }
        for (code, removed_s) in over {
            self.remove_for_budget(cx, turn, code, removed_s);
        }
    }

    fn remove_for_budget(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, removed_s: u32) {
        tracing::warn!(event = "code", node = cx.core.name, code = %code.short(), removed_s, "code stays over its budget: it is removed");
        self.withdraw(cx, turn, &code);
        let until = turn.now + u64::from(removed_s) * SECOND;
        let why = format!("it stayed over its budget and was removed for {removed_s} s");
        self.enter(cx, turn, code, Code::Refused { until, why, reason: Reason::Removed });
    }
}
