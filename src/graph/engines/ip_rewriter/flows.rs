//! Flows that a rewriter knows, in both directions, and which of them its program in the kernel knows too.

use crate::contract::plan::FOUND_BYTES;
use crate::graph::fused::{EngineTable, Holds, KEY, TableEntry};
use crate::graph::packet::{FlowEnds, protocol};
use std::collections::{HashMap, VecDeque};

/// Flows that are looked at when one more begins, and when there is no room for it: each may be two system calls.
const LOOKED_AT: usize = 2;
const LOOKED_AT_IF_FULL: usize = 8;

/// Entries that flows have in the kernel's table, at most: some are left for stations.
const SHOWN_MAX: usize = 15_360;

/// Time until a flow is put there again of which packets come up all the same, in nanoseconds.
const AGAIN: u64 = 1_000_000_000;

/// Tables of programs before that are asked for flows, at most.
const OLDER_MAX: usize = 4;

/// A flow in one direction.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    pub becomes: FlowEnds,
    pub output: u16,
    used: u64,
    /// Whether its connection is ending.
    ends: bool,
    /// Which flow it is: ends may have been another one's before.
    number: u64,
    /// Whether its packets need not come here, and when that was tried last; 0: never.
    in_kernel: bool,
    shown: u64,
    /// Whether a program before may have had packets of it since.
    was_in_kernel: bool,
}

pub(super) struct Flows {
    /// Of TCP, of TCP that ends, of UDP.
    timeouts: [u64; 3],
    capacity: usize,
    /// Both directions of each.
    all: HashMap<FlowEnds, Flow>,
    /// In the order in which they are looked at next, by their first direction.
    order: VecDeque<(FlowEnds, u64)>,
    begun: u64,
    /// Where the program in the kernel looks flows up, and where those before did.
    table: Option<EngineTable>,
    older: Vec<EngineTable>,
    /// How many of its entries are these flows', and how many found no room.
    shown: usize,
    pub unshown: u64,
}

impl Flow {
    fn timeout(&self, [tcp, done, udp]: [u64; 3]) -> u64 {
        match (self.becomes.protocol, self.ends) {
            (protocol::TCP, true) => done,
            (protocol::TCP, false) => tcp,
            _ => udp,
        }
    }

    fn is_used(&self, timeouts: [u64; 3], now: u64) -> bool {
        self.used.saturating_add(self.timeout(timeouts)) > now
    }

    /// What the kernel does with its packets.
    fn found(&self, from: &FlowEnds, timeouts: [u64; 3]) -> TableEntry {
        let (old, new) = (words(from), words(&self.becomes));
        let mut bytes = [0; FOUND_BYTES];
        bytes[..new.len()].copy_from_slice(&new);
        // RFC 1624: what a sum grows by when words become others. IP has the addresses, the transport has all.
        let grown = |bytes: usize| {
            let word = |of: &[u8; 12], at: usize| u64::from(u16::from_ne_bytes([of[at], of[at + 1]]));
            let sum: u64 = (0..bytes).step_by(2).map(|at| (0xffff - word(&old, at)) + word(&new, at)).sum();
            let once = (sum & 0xffff) + (sum >> 16);
            ((once & 0xffff) + (once >> 16)) as u16
        };
        TableEntry {
            bytes,
            output: self.output,
            sums: [grown(8), grown(12)],
            holds: Holds::Idle(self.timeout(timeouts)),
        }
    }
}

/// Addresses and ports as they stand in a packet.
fn words(ends: &FlowEnds) -> [u8; 12] {
    let ((source, from), (destination, to)) = (ends.source, ends.destination);
    let mut words = [0; 12];
    words[..4].copy_from_slice(&source.0);
    words[4..8].copy_from_slice(&destination.0);
    words[8..10].copy_from_slice(&from.to_be_bytes());
    words[10..].copy_from_slice(&to.to_be_bytes());
    words
}

fn key(ends: &FlowEnds) -> [u8; KEY] {
    let mut key = [0; KEY];
    key[..12].copy_from_slice(&words(ends));
    key[12..].copy_from_slice(&u32::from(ends.protocol).to_ne_bytes());
    key
}

impl Flows {
    pub(super) fn new(timeouts: [u64; 3], capacity: usize) -> Flows {
        Flows {
            timeouts,
            capacity,
            all: HashMap::new(),
            order: VecDeque::new(),
            begun: 0,
            table: None,
            older: Vec::new(),
            shown: 0,
            unshown: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len() / 2
    }

    pub(super) fn in_kernel(&self) -> usize {
        self.shown
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&FlowEnds, &Flow)> {
        self.all.iter()
    }

    /// Takes over those of another one.
    pub(super) fn take(&mut self, before: &mut Flows) {
        let table = self.table.take();
        (self.all, self.order) = (core::mem::take(&mut before.all), core::mem::take(&mut before.order));
        (self.begun, self.unshown) = (before.begun, before.unshown);
        (self.older, self.table) = (core::mem::take(&mut before.older), before.table.take());
        self.meet(table);
    }

    /// None of them is in this table yet; the one before is asked when their packets came last.
    pub(super) fn meet(&mut self, table: Option<EngineTable>) {
        self.older.extend(core::mem::replace(&mut self.table, table));
        if self.older.len() > OLDER_MAX {
            self.older.remove(0);
        }
        self.shown = 0;
        for flow in self.all.values_mut() {
            flow.was_in_kernel |= flow.in_kernel;
            (flow.in_kernel, flow.shown) = (false, 0);
        }
    }

    /// The flow of a packet that is not its first; from then on the kernel may have it.
    pub(super) fn find(&mut self, ends: &FlowEnds, now: u64) -> Option<Flow> {
        if !self.is_alive(ends, now) {
            return None;
        }
        let flow = self.all.get_mut(ends)?;
        flow.used = now;
        let found = *flow;
        if !found.ends && (found.shown == 0 || found.shown.saturating_add(AGAIN) <= now) {
            self.show(ends, now);
        }
        Some(found)
    }

    /// Puts a flow where the kernel looks flows up.
    fn show(&mut self, ends: &FlowEnds, now: u64) {
        let timeouts = self.timeouts;
        let Some((table, flow)) = self.table.as_ref().zip(self.all.get_mut(ends)) else { return };
        flow.shown = now.max(1);
        let is_room = flow.in_kernel || self.shown < SHOWN_MAX;
        if is_room && table.put(key(ends), &flow.found(ends, timeouts)) {
            self.shown += usize::from(!core::mem::replace(&mut flow.in_kernel, true));
        } else {
            self.unshown += 1;
            self.age(LOOKED_AT_IF_FULL, now);
        }
    }

    /// Both directions of a flow end soon, and what is left of it comes here.
    pub(super) fn end(&mut self, flow: Flow) {
        let back = flow.becomes.reversed();
        let first = self.all.get(&back).map(|back| back.becomes.reversed());
        for ends in [Some(back), first].into_iter().flatten() {
            if let Some(flow) = self.all.get_mut(&ends) {
                flow.ends = true;
                let is_there = core::mem::take(&mut flow.in_kernel);
                self.hide(&ends, is_there);
            }
        }
    }

    fn hide(&mut self, ends: &FlowEnds, is_there: bool) {
        if is_there {
            self.shown -= 1;
            self.table.iter().for_each(|table| table.remove(key(ends)));
        }
    }

    /// Whether there is room for one more.
    pub(super) fn has_room(&mut self, now: u64) -> bool {
        if self.len() >= self.capacity {
            self.age(LOOKED_AT_IF_FULL, now);
        }
        self.len() < self.capacity
    }

    /// Looks at so many flows, one after the other and then at the first again; who is not in use any more is forgotten.
    fn age(&mut self, count: usize, now: u64) {
        for _ in 0..count.min(self.order.len()) {
            let Some((ends, number)) = self.order.pop_front() else { return };
            if self.all.get(&ends).is_none_or(|flow| flow.number != number) {
                continue;
            }
            if self.is_alive(&ends, now) {
                self.order.push_back((ends, number));
            } else {
                self.remove(&ends);
            }
        }
    }

    /// Whether nobody has these ends any more.
    pub(super) fn is_free(&mut self, ends: &FlowEnds, now: u64) -> bool {
        !self.is_alive(ends, now)
    }

    /// A flow begins, with its answers.
    pub(super) fn begin(&mut self, ends: FlowEnds, becomes: FlowEnds, (forward, back): (u16, u16), now: u64) -> Flow {
        self.age(LOOKED_AT, now);
        self.remove(&ends);
        self.remove(&becomes.reversed());
        self.begun += 1;
        let (number, shown) = (self.begun, 0);
        let (ending, in_kernel, was_in_kernel) = (false, false, false);
        let flow = Flow { becomes, output: forward, used: now, ends: ending, number, in_kernel, shown, was_in_kernel };
        self.all.insert(ends, flow);
        self.all.insert(becomes.reversed(), Flow { becomes: ends.reversed(), output: back, ..flow });
        self.order.push_back((ends, number));
        flow
    }

    /// Whether a packet has been of a flow lately, in either direction and in either half. Both directions know then.
    fn is_alive(&mut self, ends: &FlowEnds, now: u64) -> bool {
        let Some(flow) = self.all.get(ends).copied() else { return false };
        let back = flow.becomes.reversed();
        if !self.is_used(ends, now) && !self.is_used(&back, now) {
            return false;
        }
        let used = [ends, &back].into_iter().filter_map(|way| self.all.get(way)).map(|flow| flow.used).max();
        for way in [ends, &back] {
            self.all.get_mut(way).into_iter().for_each(|flow| flow.used = used.unwrap_or(flow.used));
        }
        true
    }

    fn is_used(&mut self, ends: &FlowEnds, now: u64) -> bool {
        let Flows { all, timeouts, table, older, .. } = self;
        let Some(flow) = all.get_mut(ends) else { return false };
        if flow.is_used(*timeouts, now) {
            return true;
        }
        let tables = table.iter().filter(|_| flow.in_kernel).chain(older.iter().filter(|_| flow.was_in_kernel));
        let idle = tables.filter_map(|table| table.idle(key(ends))).min();
        flow.used = idle.map_or(flow.used, |idle| flow.used.max(now.saturating_sub(idle)));
        flow.is_used(*timeouts, now)
    }

    /// Takes a flow out, with its answers.
    fn remove(&mut self, ends: &FlowEnds) {
        let back = self.all.get(ends).map(|flow| flow.becomes.reversed());
        for ends in [Some(*ends), back].into_iter().flatten() {
            let is_there = self.all.remove(&ends).is_some_and(|flow| flow.in_kernel);
            self.hide(&ends, is_there);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::arguments::Ip4;
    use crate::graph::fused::{GraphTable, TableEntry};
    use std::sync::{Arc, Mutex};

    const SECOND: u64 = 1_000_000_000;

    /// What stands in a table, with for how long no packet has been of it, and how often it was asked.
    #[derive(Debug, Default)]
    struct Told(Mutex<(HashMap<[u8; KEY], u64>, u64)>);

    impl GraphTable for Told {
        fn put(&self, _: u16, key: [u8; KEY], _: &TableEntry) -> bool {
            self.0.lock().unwrap().0.insert(key, 0).is_none()
        }

        fn remove(&self, _: u16, key: [u8; KEY]) {
            self.0.lock().unwrap().0.remove(&key);
        }

        fn idle(&self, _: u16, key: [u8; KEY]) -> Option<u64> {
            let mut told = self.0.lock().unwrap();
            told.1 += 1;
            told.0.get(&key).copied()
        }
    }

    fn ends(protocol: u8, port: u16) -> FlowEnds {
        FlowEnds { protocol, source: (Ip4([10, 0, 0, 1]), port), destination: (Ip4([10, 0, 9, 9]), 53) }
    }

    /// Flows with a table, `count` of them in it in one direction, all begun at 0.
    fn flows(count: u16, capacity: usize) -> (Flows, Arc<Told>) {
        let told = Arc::<Told>::default();
        let mut flows = Flows::new([60 * SECOND, 5 * SECOND, 10 * SECOND], capacity);
        flows.meet(Some(EngineTable { table: told.clone(), engine: 3 }));
        for port in 0..count {
            let (from, to) = (ends(protocol::UDP, port), ends(protocol::UDP, 20_000 + port));
            flows.begin(from, to, (0, 1), 0);
            assert!(flows.find(&from, 0).is_some());
        }
        (flows, told)
    }

    #[test]
    fn a_flow_lives_as_long_as_packets_come_in_either_direction_and_either_half() {
        let (mut flows, told) = flows(1, 9);
        let (there, back) = (ends(protocol::UDP, 0), ends(protocol::UDP, 20_000).reversed());
        assert_eq!((flows.len(), flows.in_kernel()), (1, 1));
        // The kernel has seen none either since it was put there 11 seconds ago, then one 2 seconds ago.
        told.0.lock().unwrap().0.insert(key(&there), 11 * SECOND);
        assert!(flows.is_free(&there, 11 * SECOND) && flows.find(&back, 11 * SECOND).is_none());
        told.0.lock().unwrap().0.insert(key(&there), 2 * SECOND);
        assert!(!flows.is_free(&back, 11 * SECOND), "its answers' ends are as much in use");
        assert!(flows.find(&back, 18 * SECOND).is_some(), "a packet of the other direction");
        let asked = told.0.lock().unwrap().1;
        assert!(flows.find(&there, 27 * SECOND).is_some());
        assert_eq!(told.0.lock().unwrap().1, asked + 1, "the kernel is asked only of what seems over");
    }

    #[test]
    fn what_takes_a_flows_place_takes_it_out_of_the_kernel_with_its_answers() {
        let (mut flows, told) = flows(1, 9);
        let (there, back) = (ends(protocol::UDP, 0), ends(protocol::UDP, 20_000));
        assert!(flows.find(&back.reversed(), 1).is_some());
        assert_eq!(told.0.lock().unwrap().0.len(), 2);
        // Another one that gets the same port outside.
        flows.begin(ends(protocol::UDP, 7), back, (0, 1), 100 * SECOND);
        assert!(told.0.lock().unwrap().0.is_empty());
        assert!(flows.find(&there, 100 * SECOND).is_none() && flows.len() == 1);
    }

    #[test]
    fn a_connection_that_ends_is_put_into_the_kernel_no_more_and_forgotten_soon() {
        let (mut flows, told) = flows(0, 9);
        let there = ends(protocol::TCP, 1);
        let flow = flows.begin(there, ends(protocol::TCP, 20_001), (0, 1), 0);
        assert!(flows.find(&there, 0).is_some() && told.0.lock().unwrap().0.len() == 1);
        flows.end(flow);
        assert!(flows.find(&there, 4 * SECOND).is_some() && told.0.lock().unwrap().0.is_empty());
        assert!(flows.find(&there, 10 * SECOND).is_none());
    }

    #[test]
    fn flows_that_are_over_go_a_few_at_a_time_and_those_that_go_on_keep_their_place() {
        let (mut flows, told) = flows(2000, 2000);
        told.0.lock().unwrap().0.values_mut().for_each(|idle| *idle = 50 * SECOND);
        assert!(!flows.has_room(9 * SECOND) && told.0.lock().unwrap().1 == 0, "all are in use");
        assert!(flows.has_room(50 * SECOND));
        let asked = told.0.lock().unwrap().1;
        assert!(asked <= 2 * LOOKED_AT_IF_FULL as u64, "{asked}");
        // One-way flows that the kernel passes stand before all others, and do not keep these from being looked at.
        let alive = |port: u16| port < 1500;
        let used: Vec<_> = (0..2000).filter(|port| alive(*port)).map(|port| key(&ends(protocol::UDP, port))).collect();
        used.iter().for_each(|key| {
            told.0.lock().unwrap().0.entry(*key).and_modify(|idle| *idle = SECOND);
        });
        let mut begun = 0;
        for port in 3000..5000 {
            if flows.has_room(60 * SECOND) {
                begun += 1;
                flows.begin(ends(protocol::UDP, port), ends(protocol::UDP, 30_000 + port), (0, 1), 60 * SECOND);
            }
        }
        assert!(begun >= 500, "{begun}");
        assert_eq!(flows.all.len(), 2 * flows.len());
        assert_eq!(flows.shown, told.0.lock().unwrap().0.len());
        assert!(flows.order.len() <= 2 * 2000, "{}", flows.order.len());
    }

    #[test]
    fn a_program_that_follows_takes_no_flow_for_over_that_the_one_before_had_packets_of() {
        let (mut flows, told) = flows(2, 9);
        told.0.lock().unwrap().0.insert(key(&ends(protocol::UDP, 0)), SECOND);
        told.0.lock().unwrap().0.insert(key(&ends(protocol::UDP, 1)), 1000 * SECOND);
        let mut next = Flows::new(flows.timeouts, 9);
        next.meet(Some(EngineTable { table: Arc::<Told>::default(), engine: 3 }));
        next.take(&mut flows);
        assert_eq!((next.len(), next.in_kernel()), (2, 0));
        assert!(next.find(&ends(protocol::UDP, 0), 1000 * SECOND).is_some());
        assert!(next.find(&ends(protocol::UDP, 1), 1000 * SECOND).is_none());
        assert_eq!(next.in_kernel(), 1);
    }

    #[test]
    fn a_table_without_room_is_tried_again_after_a_while_and_counted() {
        let (mut flows, _) = flows(SHOWN_MAX as u16 + 2, usize::from(u16::MAX));
        let last = ends(protocol::UDP, SHOWN_MAX as u16 + 1);
        assert_eq!((flows.in_kernel(), flows.unshown), (SHOWN_MAX, 2));
        flows.find(&last, AGAIN / 2);
        assert_eq!(flows.unshown, 2);
        flows.find(&last, 2 * AGAIN);
        assert_eq!(flows.unshown, 3);
    }

    #[test]
    fn sums_grow_by_what_the_kernel_is_told() {
        let (from, to) = (ends(protocol::UDP, 0xfff0), ends(protocol::UDP, 1));
        let to = FlowEnds { source: (Ip4([192, 168, 255, 254]), 0xffff), ..to };
        let flow = flows(0, 9).0.begin(from, to, (0, 1), 0);
        let TableEntry { bytes, sums: [of_ip, of_all], .. } = flow.found(&from, [0; 3]);
        assert_eq!(bytes[..12], words(&to));
        let sum = |bytes: &[u8]| crate::wire::checksum::checksum(bytes).to_be();
        let carried = |before: u16, grown: u16| {
            let sum = u32::from(!before) + u32::from(grown);
            !((sum & 0xffff) + (sum >> 16)) as u16
        };
        for (length, grown) in [(8, of_ip), (12, of_all)] {
            assert_eq!(carried(sum(&words(&from)[..length]), grown), sum(&words(&to)[..length]), "{length}");
        }
    }
}
