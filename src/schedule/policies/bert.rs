//! `bert`: shares, and important flows with deadlines steal turns from flows that are not important.
//!
//! From Bavier, Peterson and Mosberger (Princeton TR-587-98 and TR-602-99): proportional shares for all, cycles stolen by
//! flows that would miss a deadline, and importance, which decides who may steal and who is immune. Our own: thieves are
//! ordered by deadline, use their own share first, and steal at once rather than when it is nearly too late. Stolen time
//! is paid, by weight, by all flows with work that may be robbed; their virtual time moves away from that of the immune.

use crate::schedule::class::{Class, Uses, WAITS};
use crate::schedule::queues::{Flow, Place, Queues, Turn};
use crate::schedule::virtual_time::is_later;

pub(super) const CLASS: Class = Class {
    name: "bert",
    runs: "who is furthest behind its share; important domains with deadlines take turns from those that are not important",
    grants: &["priority", "deadline_us", "weight"],
    uses: Uses { shares: true, immune: true, deadlines: true, ..WAITS },
};

#[inline(always)]
pub(super) fn place(flow: &Flow) -> Place {
    match (flow.is_important(), flow.timed) {
        (true, true) => Place::Due,
        (true, false) => Place::Safe,
        (false, _) => Place::Fair,
    }
}

/// Whose turn it is, unless an important flow with a deadline has or steals it.
pub(super) fn next(queues: &mut Queues, now: u64) -> Option<u32> {
    let Some(thief) = queues.next_due(now) else { return queues.next_turn() };
    let Some((first, time)) = queues.turn() else { return Some(thief) };
    let tag = queues.flows[thief as usize].tag;
    let turn = if !is_later(tag, time) {
        queues.advance(tag);
        Turn::Own
    } else if queues.flows[first as usize].is_important() {
        queues.advance(time);
        return Some(first);
    } else {
        Turn::Stolen
    };
    queues.run_in(thief, turn);
    Some(thief)
}
