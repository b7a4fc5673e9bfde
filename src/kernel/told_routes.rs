//! What a kernel half was told of routes beside the routes themselves: the node's own addresses, and what is there from before.

use crate::wire::{Addr, Prefix};
use std::collections::BTreeSet;

/// Prefixes that are remembered which were not taken; if there are more, all is told again.
const FAILED_MAX: usize = 1 << 16;

/// What was told.
#[derive(Debug)]
pub(super) struct ToldRoutes {
    /// The node's addresses.
    pub own: BTreeSet<Addr>,
    /// Prefixes that a process before this one has told.
    pub before: Vec<Prefix>,
    /// What was not taken.
    pub failed: Failed,
}

impl ToldRoutes {
    /// Nothing yet, beside what a process before this one has told.
    pub fn beginning(before: Vec<Prefix>) -> ToldRoutes {
        ToldRoutes { own: BTreeSet::new(), before, failed: Failed::default() }
    }

    /// Whether that is an address of the node's.
    pub fn is_own(&self, to: Prefix) -> bool {
        to.length == 128 && self.own.contains(&to.addr)
    }
}

/// Routes that the kernel half has otherwise than they were told.
#[derive(Debug, Default)]
pub(super) struct Failed {
    prefixes: BTreeSet<Prefix>,
    /// Whether there were more than are remembered.
    beyond: bool,
    counts: Untold,
}

/// How many routes were not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untold {
    /// Those that are missing or old now, as far as they are remembered.
    pub now: u64,
    /// How often one was not taken.
    pub failures: u64,
    /// How often one was told again.
    pub retries: u64,
}

/// What is to be told again.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Nothing.
    Nothing,
    /// These.
    These(Vec<Prefix>),
    /// All there is.
    All,
}

impl Failed {
    /// A route was told, and taken or not.
    pub fn note(&mut self, to: Prefix, taken: bool) {
        if taken {
            self.prefixes.remove(&to);
            return;
        }
        self.counts.failures += 1;
        if self.prefixes.len() < FAILED_MAX || self.prefixes.contains(&to) {
            self.prefixes.insert(to);
        } else {
            self.beyond = true;
        }
    }

    /// What is to be told again, which is counted.
    pub fn again(&mut self) -> Again {
        if core::mem::take(&mut self.beyond) {
            self.counts.retries += 1;
            return Again::All;
        }
        self.counts.retries += self.prefixes.len() as u64;
        if self.prefixes.is_empty() { Again::Nothing } else { Again::These(self.prefixes.iter().copied().collect()) }
    }

    /// How many there are.
    pub fn untold(&self) -> Untold {
        Untold { now: self.prefixes.len() as u64 + u64::from(self.beyond), ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_taken_is_told_again_until_it_is() {
        let mut failed = Failed::default();
        let [one, other]: [Prefix; 2] = ["10.1.0.0/16", "10.2.0.0/16"].map(|to| to.parse().unwrap());
        failed.note(one, true);
        assert_eq!((failed.again(), failed.untold()), (Again::Nothing, Untold::default()));
        for to in [one, other, one] {
            failed.note(to, false);
        }
        assert_eq!(failed.untold(), Untold { now: 2, failures: 3, retries: 0 });
        assert_eq!(failed.again(), Again::These(vec![one, other]));
        failed.note(one, true);
        assert_eq!(failed.again(), Again::These(vec![other]));
        failed.note(other, true);
        assert_eq!(failed.untold(), Untold { now: 0, failures: 3, retries: 3 });
    }

    #[test]
    fn of_more_than_are_remembered_all_is_told_again() {
        let mut failed = Failed::default();
        let prefix = |number: u32| Prefix::host(Addr::v4(number.to_be_bytes()));
        (0..=FAILED_MAX as u32).for_each(|number| failed.note(prefix(number), false));
        assert_eq!(failed.untold().now, 1 + FAILED_MAX as u64);
        assert_eq!(failed.again(), Again::All);
        (0..FAILED_MAX as u32).for_each(|number| failed.note(prefix(number), true));
        assert_eq!((failed.again(), failed.untold().now), (Again::Nothing, 0));
    }
}
