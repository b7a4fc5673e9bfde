//! A calendar of flows by a key that only moves forward: virtual time or deadlines.
//!
//! A window of buckets, each a step wide, moves over the keys (calendar queues, Brown 1988). Flows in one bucket
//! run in order of arrival: keys are told apart to a step. What lies beyond the window stands in its last bucket and is sorted again when
//! the window gets there; what lies before it, in the first. Keys are compared around the end of their 64 bits.

use super::buckets::{Buckets, Linked, NOBODY};

/// Looks for the first flow, at most.
const LOOKS: usize = 4;

/// What can stand in a calendar.
pub(super) trait Keyed: Linked {
    fn key(&self) -> u64;
}

/// The calendar.
#[derive(Debug)]
pub(super) struct Calendar {
    buckets: Buckets,
    /// Bits of a key below the step.
    shift: u32,
    /// The key where the window begins: a multiple of the step.
    base: u64,
    /// Where those from beyond the window stand, while that is before them.
    edge: u64,
    held: usize,
    /// The flow that came when no other was there: it needs no bucket as long as it is alone.
    lone: u32,
}

impl Calendar {
    /// An empty calendar of so many steps of `1 << shift`.
    pub(super) fn new(shift: u32, steps: usize) -> Calendar {
        Calendar { buckets: Buckets::new(steps), shift, base: 0, edge: 0, held: 0, lone: NOBODY }
    }

    /// Whether nobody is there.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Puts a flow in by its key. No key of the future is below `floor`.
    #[inline(always)]
    pub(super) fn push<F: Keyed>(&mut self, flows: &mut [F], flow: u32, floor: u64) {
        if self.held == 0 {
            self.base = self.aligned(floor);
            self.edge = self.base;
            (self.held, self.lone) = (1, flow);
            return;
        }
        self.push_behind(flows, flow);
    }

    /// The same where somebody is already.
    fn push_behind<F: Keyed>(&mut self, flows: &mut [F], flow: u32) {
        if self.lone != NOBODY {
            let lone = core::mem::replace(&mut self.lone, NOBODY);
            self.place(flows, lone);
        }
        self.held += 1;
        self.place(flows, flow);
    }

    #[inline]
    fn place<F: Keyed>(&mut self, flows: &mut [F], flow: u32) {
        let ahead = flows[flow as usize].key().wrapping_sub(self.base) as i64 >> self.shift;
        let most = self.buckets.count() as i64 - 1;
        let steps = if ahead > most { self.steps_to_edge(most) } else { ahead.max(0) };
        self.buckets.push(flows, self.start() + steps as usize, flow);
    }

    /// All from beyond the window stand together: the first of them since the last ones were sorted again has chosen where.
    #[cold]
    fn steps_to_edge(&mut self, most: i64) -> i64 {
        let known = self.edge.wrapping_sub(self.base) as i64 >> self.shift;
        if (1..=most).contains(&known) {
            return known;
        }
        self.edge = self.base.wrapping_add((most as u64) << self.shift);
        most
    }

    #[inline]
    fn start(&self) -> usize {
        (self.base >> self.shift) as usize & (self.buckets.count() - 1)
    }

    /// Takes a flow out.
    #[inline(always)]
    pub(super) fn remove<F: Keyed>(&mut self, flows: &mut [F], flow: u32) {
        self.held -= 1;
        if self.lone == flow {
            self.lone = NOBODY;
        } else {
            self.buckets.remove(flows, flow);
        }
    }

    /// The flow with the least key. The window moves up to it, but not beyond `floor` if there is one.
    #[inline(always)]
    pub(super) fn first<F: Keyed>(&mut self, flows: &mut [F], floor: Option<u64>) -> Option<u32> {
        if self.lone != NOBODY || self.held == 0 {
            return (self.held > 0).then_some(self.lone);
        }
        self.first_of_many(flows, floor)
    }

    fn first_of_many<F: Keyed>(&mut self, flows: &mut [F], floor: Option<u64>) -> Option<u32> {
        // At most: sort those from beyond the window again, find nobody but them, and go to the first of them.
        let mut first = None;
        for _ in 0..LOOKS {
            let bucket = self.buckets.first_from(self.start())?;
            let ahead = (bucket.wrapping_sub(self.start()) & (self.buckets.count() - 1)) as u64;
            let key = self.base.wrapping_add(ahead << self.shift);
            let may_move = floor.is_none_or(|floor| floor.wrapping_sub(key) as i64 >= 0);
            self.base = if may_move { key } else { self.aligned(floor.unwrap_or(key)).max(self.base) };
            let flow = self.buckets.head(bucket);
            let late = flows[flow as usize].key().wrapping_sub(key) as i64 >> self.shift;
            if late <= 0 || !may_move {
                return Some(flow);
            }
            first = Some(flow);
            self.sort_again(flows, bucket, floor);
        }
        first
    }

    #[inline]
    fn aligned(&self, key: u64) -> u64 {
        key & (u64::MAX << self.shift)
    }

    /// Gives the flows of the first bucket, where those from beyond the window stand, their places. The window has moved by its whole width
    /// since they came, so this is little beside the work that moved it.
    #[cold]
    fn sort_again<F: Keyed>(&mut self, flows: &mut [F], bucket: usize, floor: Option<u64>) {
        let (mut count, mut nearest, mut at) = (0, u64::MAX, self.buckets.head(bucket));
        while let Some(flow) = flows.get_mut(at as usize) {
            nearest = nearest.min(flow.key().wrapping_sub(self.base));
            count += 1;
            at = flow.link().next();
        }
        if count == self.held && floor.is_none() {
            // There is nobody else, so nothing lies between.
            self.base = self.aligned(self.base.wrapping_add(nearest));
        }
        for _ in 0..count {
            let flow = self.buckets.head(bucket);
            self.buckets.remove(flows, flow);
            self.place(flows, flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::buckets::Link;
    use super::*;
    use proptest::prelude::*;

    struct One(Link, u64);

    impl Linked for One {
        fn link(&mut self) -> &mut Link {
            &mut self.0
        }
    }

    impl Keyed for One {
        fn key(&self) -> u64 {
            self.1
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// Against a sorted list, with keys far beyond the window and around the end of 64 bits.
        #[test]
        fn flows_come_in_order_of_their_keys_to_a_step(
            origin in prop::sample::select(vec![0u64, 12_345, u64::MAX - 50_000]),
            spread in prop::sample::select(vec![100u64, 100_000, 10_000_000]),
            keys in prop::collection::vec(any::<u64>(), 1..60),
        ) {
            let (shift, mut at) = (2, origin);
            let mut calendar = Calendar::new(shift, 16_384);
            let mut flows: Vec<_> = keys.iter().map(|_| One(Link::NONE, 0)).collect();
            let mut model: Vec<(u64, u32)> = Vec::new();
            let mut waiting: Vec<_> = keys.iter().enumerate().collect();
            while !waiting.is_empty() || !model.is_empty() {
                for _ in 0..3 {
                    let Some((flow, key)) = waiting.pop() else { break };
                    flows[flow].1 = at.wrapping_add(key % spread);
                    calendar.push(&mut flows, flow as u32, at);
                    model.push((flows[flow].1, flow as u32));
                }
                let first = calendar.first(&mut flows, None).unwrap();
                let place = model.iter().position(|(_, flow)| *flow == first).unwrap();
                let least = model.iter().map(|(key, _)| key.wrapping_sub(origin)).min().unwrap();
                let (key, _) = model.remove(place);
                prop_assert!(key.wrapping_sub(origin) < least + (1 << shift));
                calendar.remove(&mut flows, first);
                at = key.wrapping_sub(origin).max(at.wrapping_sub(origin)).wrapping_add(origin);
            }
            prop_assert_eq!(calendar.held, 0);
        }
    }

    #[test]
    fn with_a_floor_an_earlier_key_that_comes_later_is_first() {
        let mut calendar = Calendar::new(4, 16_384);
        let mut flows = vec![One(Link::NONE, 100_000), One(Link::NONE, 50_000), One(Link::NONE, 20_000)];
        calendar.push(&mut flows, 0, 0);
        assert_eq!(calendar.first(&mut flows, Some(10)), Some(0));
        calendar.push(&mut flows, 1, 0);
        calendar.push(&mut flows, 2, 0);
        for flow in [2, 1, 0] {
            assert_eq!(calendar.first(&mut flows, Some(10)), Some(flow));
            calendar.remove(&mut flows, flow);
        }
        assert_eq!(calendar.first(&mut flows, Some(10)), None);
    }
}
