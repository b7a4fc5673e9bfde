//! The future: actions in the order of their virtual time.
//!
//! Actions at the same time come out in the order they went in, so a run depends on nothing but its seed. The heap
//! holds 16-byte keys (time, number, place); the actions rest in a slab beside it, since frames are too large to be
//! moved at every level of a heap.

use std::collections::BinaryHeap;

/// Actions that can be planned at the same time; who plans keeps well below it.
pub(super) const ACTIONS_MAX: usize = 1 << PLACE_BITS;

/// Bits of a key that say where in the slab its action is.
const PLACE_BITS: u32 = 24;

/// Actions by time.
pub(super) struct Queue<A> {
    /// Inverted keys, so that the earliest is on top.
    heap: BinaryHeap<u128>,
    slab: Vec<Option<A>>,
    free: Vec<u32>,
    number: u64,
}

impl<A> Queue<A> {
    pub(super) fn new() -> Queue<A> {
        Queue { heap: BinaryHeap::new(), slab: Vec::new(), free: Vec::new(), number: 0 }
    }

    /// Plans an action at `time` (nanoseconds).
    #[inline]
    pub(super) fn push(&mut self, time: u64, action: A) {
        let place = match self.free.pop() {
            Some(place) => {
                self.slab[place as usize] = Some(action);
                place
            }
            None => {
                assert!(self.slab.len() < ACTIONS_MAX, "a simulation plans at most {ACTIONS_MAX} actions");
                self.slab.push(Some(action));
                self.slab.len() as u32 - 1
            }
        };
        self.number += 1;
        self.heap.push(!(u128::from(time) << 64 | u128::from(self.number << PLACE_BITS | u64::from(place))));
    }

    /// When the next action is, in nanoseconds.
    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|key| (!key >> 64) as u64)
    }

    /// Takes the next action out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u64, A)> {
        let key = !self.heap.pop()?;
        let place = key as u32 & (ACTIONS_MAX as u32 - 1);
        let action = self.slab[place as usize].take()?;
        self.free.push(place);
        Some(((key >> 64) as u64, action))
    }

    /// All planned actions, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &A> {
        self.slab.iter().flatten()
    }

    /// How many are planned.
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_come_in_the_order_of_time_then_of_planning() {
        let mut queue = Queue::new();
        for (time, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b'), (u64::MAX, 'e')] {
            queue.push(time, name);
        }
        let order: Vec<_> = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(1, 'a'), (1, 'b'), (5, 'c'), (5, 'd'), (u64::MAX, 'e')]);
    }

    #[test]
    fn places_are_used_again() {
        let mut queue = Queue::new();
        for time in 0..1000 {
            queue.push(time, time);
            assert_eq!(queue.pop(), Some((time, time)));
        }
        assert_eq!((queue.slab.len(), queue.len(), queue.next()), (1, 0, None));
    }
}
