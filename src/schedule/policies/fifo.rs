//! `fifo`: a packet each, who has waited longest first. A node with it has no queues: a packet runs to completion when it
//! comes, since queues cost more than they order.

use crate::schedule::class::{Class, Uses, WAITS};
use crate::schedule::queues::{Flow, Place, Queues};

pub(super) const CLASS: Class = Class {
    name: "fifo",
    runs: "who has waited longest",
    grants: &[],
    uses: Uses { waits: false, levels: 1, ..WAITS },
};

#[inline(always)]
pub(super) fn place(_: &Flow) -> Place {
    Place::Level(0)
}

#[inline(always)]
pub(super) fn next(queues: &mut Queues, _: u64) -> Option<u32> {
    queues.next_level()
}
