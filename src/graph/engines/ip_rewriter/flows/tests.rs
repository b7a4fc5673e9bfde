//! Which flows live, and which of them the kernel has.

use super::*;
use crate::graph::arguments::Ip4;
use crate::graph::fused::{AGAIN, GraphTable, TableEntry};
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

    fn found(&self, _: u16, _: [u8; KEY]) -> Option<TableEntry> {
        None
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
    let mut flows = Flows::new([60 * SECOND, 5 * SECOND, 10 * SECOND, 20 * SECOND], capacity);
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
    assert!(!flows.has_room(9 * SECOND, true) && told.0.lock().unwrap().1 == 0, "all are in use");
    assert!(flows.has_room(50 * SECOND, true));
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
        if flows.has_room(60 * SECOND, true) {
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
    let TableEntry { bytes, sums: [of_ip, of_all], .. } = flow.found(&from, [0; 4]);
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

#[test]
fn a_connection_that_nobody_answers_is_forgotten_soon_and_one_that_begins_anew_is_new() {
    let (mut flows, told) = flows(0, 9);
    let (there, outside) = (ends(protocol::TCP, 1), ends(protocol::TCP, 20_001));
    flows.begin(there, outside, (0, 1), 0);
    assert!(flows.find(&there, 19 * SECOND).is_some());
    told.0.lock().unwrap().0.insert(key(&there), 21 * SECOND);
    assert!(flows.find(&there, 40 * SECOND).is_none());
    flows.begin(there, outside, (0, 1), 40 * SECOND);
    assert!(flows.find(&outside.reversed(), 41 * SECOND).is_some());
    assert!(flows.find(&there, 90 * SECOND).is_some(), "answered");
    flows.shift(&there, 100, 3, 90 * SECOND);
    assert!(told.0.lock().unwrap().0.is_empty(), "the kernel knows nothing of numbers");
    let flow = flows.find(&there, 91 * SECOND).unwrap();
    assert!(flow.is_shifted && flows.shift_of(&there).of(100) == 103);
    assert!(told.0.lock().unwrap().0.is_empty());
    flows.end(flow);
    flows.anew(flow);
    let flow = flows.find(&there, 100 * SECOND).unwrap();
    assert!(!flow.is_shifted && flows.shift_of(&there).of(100) == 100);
    assert_eq!(flows.bytes(), FLOW_BYTES);
}

#[test]
fn whoever_asks_what_a_packet_was_keeps_no_flow_alive() {
    let (mut flows, told) = flows(1, 9);
    let (there, outside) = (ends(protocol::UDP, 0), ends(protocol::UDP, 20_000));
    told.0.lock().unwrap().0.insert(key(&there), 9 * SECOND);
    assert_eq!(flows.before(&outside, 9 * SECOND), Some(there));
    told.0.lock().unwrap().0.insert(key(&there), 11 * SECOND);
    assert_eq!(flows.before(&outside, 11 * SECOND), None);
}
