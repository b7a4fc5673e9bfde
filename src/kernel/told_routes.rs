//! What a kernel half was told of routes beside the routes themselves: the node's own addresses, and what is there from before.

use crate::wire::{Addr, Prefix};
use std::collections::BTreeSet;

/// What was told.
#[derive(Debug)]
pub(super) struct ToldRoutes {
    /// The node's addresses.
    pub own: BTreeSet<Addr>,
    /// Prefixes that a process before this one has told.
    pub before: Vec<Prefix>,
}

impl ToldRoutes {
    /// Nothing yet, beside what a process before this one has told.
    pub fn beginning(before: Vec<Prefix>) -> ToldRoutes {
        ToldRoutes { own: BTreeSet::new(), before }
    }

    /// Whether that is an address of the node's.
    pub fn is_own(&self, to: Prefix) -> bool {
        to.length == 128 && self.own.contains(&to.addr)
    }
}
