//! ping on a line and a diamond; bound, loss, duplicates, unknown ports.

use super::net::{DELAY, addr, attach, net};
use super::{DIAMOND, LINE};
use anode::apps::{Attached, PING, ping};
use anode::core::reason::Reason;
use std::time::Duration;

fn options() -> ping::Options {
    ping::Options { count: 4, interval: Duration::from_millis(100), token: 9, ..ping::Options::default() }
}

#[test]
fn every_capsule_comes_back_with_its_hops_and_time() {
    for (links, far) in [(LINE, 2), (DIAMOND, 3)] {
        let net = net(links);
        let bundle = PING.bundle().unwrap();
        net.borrow_mut().add_code(0, &bundle);
        let mut node = attach(&net, 0, 40);
        let mut replies = Vec::new();
        let summary = ping::run(&mut node, bundle.name(), addr(far), &options(), &mut |told| {
            if let ping::Told::Reply(reply) = told {
                replies.push(reply.clone());
            }
        })
        .unwrap();
        assert_eq!((summary.sent, summary.received, summary.loss_percent), (4, 4, 0.0));
        assert!(replies.iter().all(|reply| (reply.hops_there, reply.hops_back) == (2, 2)));
        assert!(replies.iter().all(|reply| reply.from == addr(far) && reply.bytes == 64));
        // The first one waits for the code at each hop; the others pass four links.
        assert!(replies[0].rtt_ns > 4 * DELAY);
        assert!(replies[1..].iter().all(|reply| reply.rtt_ns == 4 * DELAY));
        assert_eq!(summary.rtt.min_ns, 4 * DELAY);
    }
}

#[test]
fn the_own_node_answers_too() {
    let net = net(LINE);
    let bundle = PING.bundle().unwrap();
    net.borrow_mut().add_code(0, &bundle);
    let mut node = attach(&net, 0, 40);
    let summary = ping::run(&mut node, bundle.name(), addr(0), &options(), &mut |_| {}).unwrap();
    assert_eq!(summary.received, 4);
    assert!(net.borrow().carried.is_empty());
}

#[test]
fn lost_capsules_are_counted_and_duplicates_told_apart() {
    let net = net(LINE);
    let bundle = PING.bundle().unwrap();
    net.borrow_mut().add_code(0, &bundle);
    // The third answer is lost on the last link.
    net.borrow_mut().loss = Some(Box::new(|from, to, _, payload| (from, to) == (1, 0) && payload[7] == 2));
    let mut node = attach(&net, 0, 40);
    let summary = ping::run(&mut node, bundle.name(), addr(2), &options(), &mut |_| {}).unwrap();
    assert_eq!((summary.sent, summary.received, summary.duplicates), (4, 3, 0));
    assert_eq!(summary.loss_percent, 25.0);
}

#[test]
fn a_bound_too_small_ends_the_capsule_where_it_is_used_up() {
    // There and back are four links; the turning node spends the last of three.
    for (bound, dropper, received) in [(4, None, 4), (3, Some(1), 0), (1, Some(1), 0), (0, Some(0), 0)] {
        let net = net(LINE);
        let bundle = PING.bundle().unwrap();
        net.borrow_mut().add_code(0, &bundle);
        let mut node = attach(&net, 0, 40);
        // Nodes have the code from these, which pay for it.
        ping::run(&mut node, bundle.name(), addr(2), &options(), &mut |_| {}).unwrap();
        let options = ping::Options { bound, ..options() };
        let summary = ping::run(&mut node, bundle.name(), addr(2), &options, &mut |_| {}).unwrap();
        assert_eq!(summary.received, received, "bound {bound}");
        if let Some(dropper) = dropper {
            assert_eq!(net.borrow().drops(dropper, Reason::Bound), 4, "bound {bound}");
        }
    }
}

#[test]
fn answers_to_a_closed_port_are_dropped_and_counted() {
    let net = net(LINE);
    let bundle = PING.bundle().unwrap();
    net.borrow_mut().add_code(0, &bundle);
    let mut node = attach(&net, 0, 40);
    let mut header = anode::apps::header(&node, bundle.name(), addr(2), 255);
    header.app_port = 41;
    node.send(&header, &[0; 12]).unwrap();
    assert_eq!(node.receive(Duration::from_secs(1)).unwrap(), None);
    assert_eq!(net.borrow().drops(0, Reason::NoApplication), 1);
}

#[test]
fn a_payload_shorter_than_the_window_is_dropped() {
    let net = net(LINE);
    let bundle = PING.bundle().unwrap();
    net.borrow_mut().add_code(0, &bundle);
    let mut node = attach(&net, 0, 40);
    let header = anode::apps::header(&node, bundle.name(), addr(2), 255);
    node.send(&header, &[0; 11]).unwrap();
    assert_eq!(node.receive(Duration::from_secs(1)).unwrap(), None);
    assert_eq!(net.borrow().drops(0, Reason::Window), 1);
}
