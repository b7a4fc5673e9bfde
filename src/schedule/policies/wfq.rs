//! `wfq`: the flow furthest behind its share. This is start-time fair queueing (Goyal, Guo and Vin, OSDI 1996), which
//! needs no cost in advance.

use crate::schedule::class::{Class, Uses, WAITS};
use crate::schedule::queues::{Flow, Place, Queues};

pub(super) const CLASS: Class = Class {
    name: "wfq",
    runs: "who is furthest behind its share (default); what the worker does for a process's rings counts too, and waits \
           while the process is ahead of others",
    grants: &["weight"],
    uses: Uses { shares: true, ..WAITS },
};

#[inline(always)]
pub(super) fn place(_: &Flow) -> Place {
    Place::Fair
}

#[inline(always)]
pub(super) fn next(queues: &mut Queues, _: u64) -> Option<u32> {
    queues.next_turn()
}
