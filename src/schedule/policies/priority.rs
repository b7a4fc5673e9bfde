//! `priority`: the highest priority with work; within one a packet each, who has waited longest first.

use crate::schedule::class::{Class, Uses, WAITS};
use crate::schedule::queues::{Flow, Place, Queues};

/// Priorities there are.
const PRIORITIES: usize = 256;

pub(super) const CLASS: Class = Class {
    name: "priority",
    runs: "the highest priority that has work",
    grants: &["priority"],
    uses: Uses { levels: PRIORITIES, ..WAITS },
};

#[inline(always)]
pub(super) fn place(flow: &Flow) -> Place {
    Place::Level(u8::MAX - flow.priority)
}

#[inline(always)]
pub(super) fn next(queues: &mut Queues, _: u64) -> Option<u32> {
    queues.next_level()
}
