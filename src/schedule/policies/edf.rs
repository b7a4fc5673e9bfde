//! `edf`: the earliest deadline (Liu and Layland 1973), a packet at a time (Jeffay et al. 1991). Flows without deadlines
//! have the rest, by shares.

use crate::schedule::class::{Class, Uses, WAITS};
use crate::schedule::queues::{Flow, Place, Queues};

pub(super) const CLASS: Class = Class {
    name: "edf",
    runs: "the earliest deadline; who has none gets what is left, by shares",
    grants: &["deadline_us", "weight"],
    uses: Uses { shares: true, deadlines: true, ..WAITS },
};

#[inline(always)]
pub(super) fn place(flow: &Flow) -> Place {
    if flow.timed { Place::Due } else { Place::Fair }
}

#[inline(always)]
pub(super) fn next(queues: &mut Queues, now: u64) -> Option<u32> {
    queues.next_due(now).or_else(|| queues.next_turn())
}
