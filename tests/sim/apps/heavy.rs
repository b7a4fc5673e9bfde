//! heavy on a star: the node in the middle finds its heaviest senders.

use super::net::{Shared, addr, attach, attach_again, net};
use anode::apps::heavy::{Answer, query, send};
use anode::apps::{Attached, HEAVY};
use anode::core::reason::Reason;
use anode::wire::Digest;
use std::time::Duration;

/// `sources` nodes, all linked to node 0, which is linked to the sink, the last node.
fn star(sources: usize) -> (Shared, Digest, usize) {
    let sink = sources + 1;
    let links: Vec<_> = (1..=sources).map(|source| (0, source)).chain([(0, sink)]).collect();
    let net = net(&links);
    let bundle = HEAVY.bundle().unwrap();
    (0..=sink).for_each(|node| net.borrow_mut().add_code(node, &bundle));
    (net, bundle.name(), sink)
}

fn list(net: &Shared, code: Digest, of: usize, port: u16) -> Answer {
    let mut node = attach(net, 0, port);
    query(&mut node, code, addr(of), 5, 3, Duration::from_secs(1)).unwrap().unwrap()
}

#[test]
fn the_heaviest_sources_are_found_and_the_counts_bound_the_truth() {
    let (net, code, sink) = star(200);
    let mut sent = vec![0u64; 201];
    // Source n sends 2000/n capsules, interleaved.
    for round in 0..2000 {
        for (source, sent) in sent.iter_mut().enumerate().skip(1) {
            if round < 2000 / source {
                let mut node = attach_again(&net, source, 81);
                send(&mut node, code, addr(sink), 0, 16).unwrap();
                *sent += 1;
            }
        }
        net.borrow_mut().run(Duration::from_millis(5));
    }
    net.borrow_mut().carried.clear();
    let answer = list(&net, code, 0, 80);
    assert_eq!((answer.node, answer.name.as_str()), (addr(0), "n0"));
    assert_eq!(answer.total, sent.iter().sum::<u64>());
    assert_eq!(answer.top.len(), 8);
    assert!(answer.top.is_sorted_by(|a, b| a.count >= b.count));
    for entry in &answer.top {
        let truth = sent[usize::from(entry.source.0[15]) - 1];
        assert!(entry.at_least <= truth && truth <= entry.count, "{entry:?}: {truth}");
    }
    let found: Vec<_> = answer.top.iter().map(|entry| usize::from(entry.source.0[15]) - 1).collect();
    assert!((1..=5).all(|source| found.contains(&source)), "{found:?}");
    assert!(net.borrow().state_entries(0) <= 33, "32 buckets and the total, whatever comes");
}

#[test]
fn a_node_that_saw_nothing_has_an_empty_list() {
    let (net, code, sink) = star(2);
    let answer = list(&net, code, sink, 80);
    assert_eq!((answer.total, answer.top.len()), (0, 0));
}

#[test]
fn data_are_delivered_if_they_name_a_port() {
    let (net, code, sink) = star(2);
    let mut receiver = attach(&net, sink, 90);
    let mut sender = attach(&net, 1, 81);
    send(&mut sender, code, addr(sink), 90, 16).unwrap();
    let received = receiver.receive(Duration::from_millis(100)).unwrap();
    assert_eq!(received.map(|(header, _)| header.source), Some(addr(1)));
    send(&mut sender, code, addr(sink), 91, 16).unwrap();
    assert_eq!(receiver.receive(Duration::from_millis(100)).unwrap(), None);
    assert_eq!(net.borrow().drops(sink, Reason::NoApplication), 1);
}

#[test]
fn counts_end_when_nothing_comes_for_a_minute() {
    let (net, code, sink) = star(2);
    let mut sender = attach(&net, 1, 81);
    send(&mut sender, code, addr(sink), 0, 16).unwrap();
    net.borrow_mut().run(Duration::from_secs(59));
    assert_eq!(list(&net, code, sink, 80).total, 1);
    net.borrow_mut().run(Duration::from_secs(2));
    assert_eq!(list(&net, code, sink, 82).total, 0);
}
