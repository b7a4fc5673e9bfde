//! Hot code: code that takes over a hundredth of a worker is compiled again by the optimiser, and replaced between two
//! packets.
//!
//! Steps decide whether code is hot, since an optimiser makes steps faster and not the node's calls. Steps are the same
//! in both tiers and at every node, so the simulator finds the same code hot at the same time. Every sweep looks at all
//! code, so hot code is found within `SWEEP`; then the compiler works in the background and in its jail, as the first
//! time. A module on which the optimiser fails stays as it is.

use super::codes::{Code, Ready};
use super::output::{Cause, Effect, Ingress, Prepare, Turn};
use super::workers::WorkerOrder;
use super::{Capsules, Cx};
use crate::code::bundle::Kind;
use crate::code::run::{LoadedProgram, Tier};
use crate::wire::Digest;
use std::sync::Arc;

/// Steps in one sweep, of 100 ms, from which on code is hot: 1 ms at a step a nanosecond, which is what code takes that is
/// not optimised (`anode bench tiers`).
pub(super) const HOT_STEPS: u64 = 1_000_000;

/// Sweeps until code that could not be compiled again is tried once more, at most: seven minutes. They double each time.
const PAUSE_MAX: u32 = 1 << 12;

/// How code was compiled, and what is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// By the fast tier.
    #[default]
    Fast,
    /// It is hot, and its representation is looked for.
    Sought,
    /// It is being optimised.
    Coming,
    /// By the optimiser.
    Optimised,
    /// By the fast tier for good: why.
    Stays(String),
}

impl core::fmt::Display for Effort {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Effort::Fast => f.write_str("fast"),
            Effort::Sought | Effort::Coming => f.write_str("fast, being optimised"),
            Effort::Optimised => f.write_str("optimised"),
            Effort::Stays(why) => write!(f, "fast, not optimised: {why}"),
        }
    }
}

impl Capsules {
    /// Has code compiled again that has become hot since the last sweep.
    pub(super) fn look_for_hot_code(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        let core = &mut cx.core;
        let mut hot: Vec<Digest> = Vec::new();
        for (name, ready) in self.codes.ready() {
            let Ready { kind: Kind::Wasm, effort: Effort::Fast, .. } = ready else { continue };
            let Some(domain) = core.domains.by_id(ready.domain) else { continue };
            let others = domain.common.as_ref().map_or(0, |common| common.account.of_others(0).steps);
            let taken = domain.steps_taken().wrapping_add(others);
            let steps = taken.wrapping_sub(std::mem::replace(&mut ready.steps_seen, taken));
            ready.pause.0 = ready.pause.0.saturating_sub(1);
            if ready.pause.0 == 0 && steps >= HOT_STEPS {
                hot.push(*name);
            }
        }
        hot.sort_unstable();
        hot.iter().for_each(|code| self.optimise(turn, *code, None));
    }

    /// Has code compiled again; its representation is this or is looked for.
    fn optimise(&mut self, turn: &mut Turn<'_>, code: Digest, found: Option<Arc<[u8]>>) {
        let Some(Code::Ready(ready)) = self.codes.of_mut(&code) else { return };
        let Some(layer) = ready.claim.manifest.layer(ready.kind).copied() else { return };
        ready.effort = match found.or_else(|| self.objects.of(&layer.digest)) {
            Some(bytes) => {
                let cause = Cause { ingress: Ingress::Node, principal: ready.grant.vouched_for() };
                let (kind, window) = (ready.kind, ready.window as u32);
                let prepare = Prepare { code, cause, tier: Tier::Optimised, kind, bytes, window };
                turn.out.effects.push(Effect::Prepare(prepare));
                Effort::Coming
            }
            None => {
                turn.out.effects.push(Effect::LookUp(layer.digest, Ingress::Node));
                Effort::Sought
            }
        };
    }

    /// The store has answered: hot code whose representation this is goes on, or is tried again later if it is not there.
    pub(super) fn sought(&mut self, turn: &mut Turn<'_>, digest: &Digest, found: Option<&Arc<[u8]>>) {
        let of = |ready: &Ready| ready.claim.manifest.layer(ready.kind).is_some_and(|layer| layer.digest == *digest);
        let sought = self.codes.ready().filter(|(_, ready)| ready.effort == Effort::Sought && of(ready));
        let names: Vec<Digest> = sought.map(|(name, _)| *name).collect();
        for code in names {
            match found {
                Some(bytes) => self.optimise(turn, code, Some(bytes.clone())),
                None => self.try_later(&code),
            }
        }
    }

    /// The answer to [`Effect::Prepare`] of code that runs: from the next packet on it runs as it was compiled now.
    pub fn optimised(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, code: Digest, result: Result<LoadedProgram, String>) {
        let Some(Code::Ready(ready)) = self.codes.of_mut(&code) else { return };
        if ready.effort != Effort::Coming {
            return;
        }
        let for_others = cx.control.workers.leads().and(result.as_ref().ok()).cloned();
        let placed = result.and_then(|program| match turn.runtime.replace(ready.slot, program) {
            true => Ok(()),
            false => Err("it is another representation now".into()),
        });
        ready.effort = match placed {
            Ok(()) => {
                let order = for_others.map(|program| WorkerOrder::Replace(code, program));
                order.into_iter().for_each(|order| turn.out.effects.push(Effect::Workers(Box::new(order))));
                Effort::Optimised
            }
            Err(why) => Effort::Stays(why),
        };
        tracing::info!(event = "code", node = cx.core.name, code = %code.short(), tier = %ready.effort, "hot code was compiled again");
    }

    /// Code that runs could not be compiled again now: if it stays hot, it is tried again, later each time.
    pub(super) fn not_optimised_yet(&mut self, code: &Digest) {
        if matches!(self.codes.of(code), Some(Code::Ready(ready)) if ready.effort == Effort::Coming) {
            self.try_later(code);
        }
    }

    fn try_later(&mut self, code: &Digest) {
        if let Some(Code::Ready(ready)) = self.codes.of_mut(code) {
            ready.effort = Effort::Fast;
            let next = (ready.pause.1 * 2).clamp(1, PAUSE_MAX);
            ready.pause = (next, next);
        }
    }
}
