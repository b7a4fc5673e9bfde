//! Modules on which the compiler has failed: a bounded memory, so that none is tried twice.
//!
//! A module that used up a job's limits, or broke the compiler, would cost as much again under every name that lists
//! it. It is known by the digest of its bytes, for an hour; the table is small, and the oldest gives way. An operator
//! clears it, as does a restart.

use crate::code::compiler::{Failure, Purpose};
use crate::wire::Digest;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Modules that are remembered.
const REFUSED_MAX: usize = 1024;

/// For how long.
const KEEP: Duration = Duration::from_secs(3600);

/// Modules that are not compiled again.
#[derive(Default)]
pub struct RefusedModules {
    list: VecDeque<Refused>,
    /// Failures so far.
    total: u64,
    /// Jobs that were not done because their module was known.
    spared: u64,
}

struct Refused {
    module: Digest,
    purpose: Purpose,
    why: String,
    at: Instant,
}

/// A module that is not compiled again, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedModule {
    /// The digest of its bytes.
    pub module: String,
    /// What it was to be.
    pub purpose: &'static str,
    /// Why.
    pub why: String,
    /// For how many seconds it stays.
    pub left_s: u64,
}

/// All of them, and how many there were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RefusedStatus {
    /// Modules on which the compiler failed since the start.
    pub total: u64,
    /// Jobs that were spared since their module was known.
    pub spared: u64,
    /// What is remembered.
    pub modules: Vec<RefusedModule>,
}

impl RefusedModules {
    /// Why a module is not compiled at `now`.
    pub fn why(&mut self, now: Instant, module: &Digest, purpose: Purpose) -> Option<String> {
        self.forget(now);
        let known = self.list.iter().find(|known| known.module == *module && known.purpose == purpose)?;
        self.spared += 1;
        Some(known.why.clone())
    }

    /// The compiler has failed on a module. Words of refusal cost little and are not remembered; nor is what says nothing of the module.
    pub fn remember(&mut self, now: Instant, module: Digest, purpose: Purpose, failure: &Failure) {
        if matches!(failure, Failure::Refused(_)) || failure.is_of_the_machine() {
            return;
        }
        if self.list.len() >= REFUSED_MAX {
            self.list.pop_front();
        }
        self.total += 1;
        self.list.push_back(Refused { module, purpose, why: failure.to_string(), at: now });
    }

    /// Forgets all; says how many they were.
    pub fn clear(&mut self) -> usize {
        let count = self.list.len();
        self.list.clear();
        count
    }

    fn forget(&mut self, now: Instant) {
        while self.list.front().is_some_and(|oldest| now.saturating_duration_since(oldest.at) >= KEEP) {
            self.list.pop_front();
        }
    }

    /// What is remembered at `now`.
    pub fn status(&self, now: Instant) -> RefusedStatus {
        let left = |at: Instant| KEEP.saturating_sub(now.saturating_duration_since(at)).as_secs();
        let modules = self.list.iter().map(|known| RefusedModule {
            module: known.module.to_string(),
            purpose: purpose_name(known.purpose),
            why: known.why.clone(),
            left_s: left(known.at),
        });
        RefusedStatus { total: self.total, spared: self.spared, modules: modules.collect() }
    }
}

fn purpose_name(purpose: Purpose) -> &'static str {
    use crate::code::run::Tier;
    match purpose {
        Purpose::Capsule(Tier::Fast) => "code",
        Purpose::Capsule(Tier::Optimised) => "optimised code",
        Purpose::Service => "service",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::run::Tier;

    const CODE: Purpose = Purpose::Capsule(Tier::Fast);

    fn name(number: usize) -> Digest {
        Digest::of(&number.to_be_bytes())
    }

    #[test]
    fn what_broke_a_limit_is_remembered_for_a_time_and_for_its_purpose() {
        let (mut refused, now) = (RefusedModules::default(), Instant::now());
        refused.remember(now, name(0), CODE, &Failure::Limit("cpu_ms", 250));
        refused.remember(now, name(1), CODE, &Failure::Refused("no".into()));
        // The machine's: no compiler, no time, no memory.
        let machines = [Failure::Gone("away".into()), Failure::Limit("wall_ms", 2000), Failure::Broken(9)];
        machines.iter().for_each(|failure| refused.remember(now, name(2), CODE, failure));
        assert!(refused.why(now, &name(0), CODE).unwrap().contains("cpu_ms = 250"));
        assert!(refused.why(now, &name(0), Purpose::Service).is_none());
        assert!(refused.why(now, &name(1), CODE).or(refused.why(now, &name(2), CODE)).is_none());
        assert!(refused.why(now + KEEP, &name(0), CODE).is_none());
        assert_eq!((refused.status(now).total, refused.status(now).spared), (1, 1));
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_gives_way() {
        let (mut refused, now) = (RefusedModules::default(), Instant::now());
        (0..=REFUSED_MAX).for_each(|number| refused.remember(now, name(number), CODE, &Failure::Broken(11)));
        assert_eq!(refused.status(now).modules.len(), REFUSED_MAX);
        assert!(refused.why(now, &name(0), CODE).is_none() && refused.why(now, &name(1), CODE).is_some());
        assert_eq!(refused.clear(), REFUSED_MAX);
        assert!(refused.why(now, &name(1), CODE).is_none());
    }
}
