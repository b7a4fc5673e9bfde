//! Flows that a rewriter knows, in both directions, and which of them its program in the kernel knows too.

use crate::contract::plan::FOUND_BYTES;
use crate::graph::fused::{EngineTable, TableEntry, KEY};
use crate::graph::packet::{FlowEnds, protocol};
use std::collections::HashMap;

/// Time between two sweeps because the table is full: a flood of new flows does not make each packet a sweep.
const SWEEP: u64 = 100_000_000;

/// Flows that a sweep asks the kernel for, at most: each is a system call. Others stay for the next one.
const ASKED_MAX: usize = 1024;

/// A flow in one direction.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    pub becomes: FlowEnds,
    pub output: u16,
    used: u64,
    /// Whether its connection is ending.
    ends: bool,
    /// Whether its packets need not come here.
    in_kernel: bool,
}

pub(super) struct Flows {
    /// Of TCP, of TCP that ends, of UDP.
    timeouts: [u64; 3],
    capacity: usize,
    /// Both directions of each.
    all: HashMap<FlowEnds, Flow>,
    swept: u64,
    /// Where the program in the kernel looks flows up.
    table: Option<EngineTable>,
}

impl Flow {
    fn is_used(&self, [tcp, done, udp]: [u64; 3], now: u64) -> bool {
        let timeout = match (self.becomes.protocol, self.ends) {
            (protocol::TCP, true) => done,
            (protocol::TCP, false) => tcp,
            _ => udp,
        };
        self.used.saturating_add(timeout) > now
    }

    /// What the kernel does with its packets.
    fn found(&self, from: &FlowEnds) -> TableEntry {
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
        TableEntry { bytes, output: self.output, sums: [grown(8), grown(12)], lasts: u64::MAX }
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
        Flows { timeouts, capacity, all: HashMap::new(), swept: 0, table: None }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len() / 2
    }

    pub(super) fn in_kernel(&self) -> usize {
        self.all.values().filter(|flow| flow.in_kernel).count()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&FlowEnds, &Flow)> {
        self.all.iter()
    }

    /// Takes over those of another one.
    pub(super) fn take(&mut self, before: &mut Flows) {
        self.all = core::mem::take(&mut before.all);
        self.meet(self.table.clone());
    }

    /// None of them is in this table yet.
    pub(super) fn meet(&mut self, table: Option<EngineTable>) {
        self.table = table;
        self.all.values_mut().for_each(|flow| flow.in_kernel = false);
    }

    /// The flow of a packet that is not its first; from then on the kernel may have it.
    pub(super) fn find(&mut self, ends: &FlowEnds, now: u64) -> Option<Flow> {
        if !self.is_alive(ends, now) {
            return None;
        }
        let flow = self.all.get_mut(ends)?;
        flow.used = now;
        if let Some(table) = self.table.as_ref().filter(|_| !flow.in_kernel && !flow.ends) {
            // If there is no room, it is not tried again for each packet.
            table.put(key(ends), &flow.found(ends));
            flow.in_kernel = true;
        }
        Some(*flow)
    }

    /// Both directions of a flow end soon.
    pub(super) fn end(&mut self, flow: Flow) {
        let back = flow.becomes.reversed();
        let first = self.all.get_mut(&back).map(|back| {
            back.ends = true;
            back.becomes.reversed()
        });
        if let Some(flow) = first.and_then(|first| self.all.get_mut(&first)) {
            flow.ends = true;
        }
    }

    /// Whether there is room for one more.
    pub(super) fn has_room(&mut self, now: u64) -> bool {
        if self.len() >= self.capacity && self.swept + SWEEP <= now {
            self.swept = now;
            self.sweep(now);
        }
        self.len() < self.capacity
    }

    fn sweep(&mut self, now: u64) {
        let timeouts = self.timeouts;
        let old = self.all.iter().filter(|(_, flow)| !flow.is_used(timeouts, now));
        let in_kernel = |ends: &FlowEnds| self.all.get(ends).is_some_and(|flow| flow.in_kernel);
        let either = old.map(|(ends, flow)| (*ends, flow.in_kernel || in_kernel(&flow.becomes.reversed())));
        let (asked, free): (Vec<_>, Vec<_>) = either.partition(|(_, is)| *is);
        // Of each flow both directions may be asked for.
        for (ends, _) in free.into_iter().chain(asked.into_iter().take(ASKED_MAX / 2)) {
            if !self.is_alive(&ends, now) {
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
        let flow = Flow { becomes, output: forward, used: now, ends: false, in_kernel: false };
        self.remove(&ends);
        self.remove(&becomes.reversed());
        self.all.insert(ends, flow);
        self.all.insert(becomes.reversed(), Flow { becomes: ends.reversed(), output: back, ..flow });
        flow
    }

    /// Whether a packet has been of a flow lately, in either direction and in either half.
    fn is_alive(&mut self, ends: &FlowEnds, now: u64) -> bool {
        let Some(flow) = self.all.get(ends).copied() else { return false };
        self.is_used(ends, now) || self.is_used(&flow.becomes.reversed(), now)
    }

    fn is_used(&mut self, ends: &FlowEnds, now: u64) -> bool {
        let Flows { all, timeouts, table, .. } = self;
        let Some(flow) = all.get_mut(ends) else { return false };
        if !flow.is_used(*timeouts, now)
            && flow.in_kernel
            && let Some(idle) = table.as_ref().and_then(|table| table.idle(key(ends)))
        {
            flow.used = flow.used.max(now.saturating_sub(idle));
        }
        flow.is_used(*timeouts, now)
    }

    /// Takes a flow out, with its answers.
    fn remove(&mut self, ends: &FlowEnds) {
        let back = self.all.get(ends).map(|flow| flow.becomes.reversed());
        for ends in [Some(*ends), back].into_iter().flatten() {
            let is_there = self.all.remove(&ends).is_some_and(|flow| flow.in_kernel);
            self.table.iter().filter(|_| is_there).for_each(|table| table.remove(key(&ends)));
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
        flows.end(flow);
        assert!(flows.find(&there, 4 * SECOND).is_some() && told.0.lock().unwrap().0.is_empty());
        assert!(flows.find(&there, 10 * SECOND).is_none());
    }

    #[test]
    fn a_full_table_is_swept_once_in_a_while_and_the_kernel_is_asked_of_so_many() {
        let (mut flows, told) = flows(2000, 2000);
        told.0.lock().unwrap().0.values_mut().for_each(|idle| *idle = 50 * SECOND);
        assert!(!flows.has_room(9 * SECOND) && told.0.lock().unwrap().1 == 0, "all are in use");
        assert!(flows.has_room(50 * SECOND));
        let asked = told.0.lock().unwrap().1;
        assert!(asked <= ASKED_MAX as u64, "{asked}");
        assert_eq!(flows.all.len(), 2 * flows.len());
    }

    #[test]
    fn sums_grow_by_what_the_kernel_is_told() {
        let (from, to) = (ends(protocol::UDP, 0xfff0), ends(protocol::UDP, 1));
        let to = FlowEnds { source: (Ip4([192, 168, 255, 254]), 0xffff), ..to };
        let flow = Flow { becomes: to, output: 0, used: 0, ends: false, in_kernel: false };
        let TableEntry { bytes, sums: [of_ip, of_all], .. } = flow.found(&from);
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
