//! Flows of which no rule over taught protocols can hold: the kernel copies their packets to the node once, and no more until a rule comes
//! that may hold for them. Linux has all of them.

use crate::channels::node::{Node, PORTS};
use crate::pace::Pace;
use crate::running::PATIENCE;
use anode::graph::taught::Classifying;
use anode::node::RuleWords;
use anode::node::policy::Amendment;
use anode::nodeos::interface::ChanSpec;
use model::status::Foreign;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

fn spec(rule: &str) -> ChanSpec {
    ChanSpec { protocol: "if0/ip/udp/rule".into(), address: rule.into(), ..ChanSpec::default() }
}

fn counts(node: &Node) -> Foreign {
    node.handle.status().unwrap().ports[0].foreign.unwrap_or_default()
}

/// Sends a number, which Linux gets.
fn send(from: &UdpSocket, to: &UdpSocket, number: u32) {
    from.send_to(&number.to_be_bytes(), to.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(to.recv(&mut buffer).unwrap(), 4);
    assert_eq!(buffer[..4], number.to_be_bytes());
}

#[test]
fn packets_of_foreign_flows_are_copied_once_and_linux_loses_none() {
    for (name, ports) in PORTS {
        let Some(node) = Node::start(&format!("foreign{name}"), ports) else { return };
        let (domain, tells) = node.listener();
        // All UDP of IPv4 is watched for it.
        node.listen(domain, spec("[ip | udp (dport = 2001..2009) | *]")).unwrap();
        let a = node.socket("a", "10.0.1.1:4000");
        let [other, own] = ["10.0.1.2:5000", "10.0.1.2:2001"].map(|at| node.socket("r", at));
        send(&a, &other, 0);
        node.until(|| (counts(&node).flows == 1).then_some(()));
        let learned = Foreign { flows: 1, learned: 1, ..Foreign::default() };
        assert_eq!(counts(&node), learned, "{name}");
        for number in 0..50 {
            send(&a, &other, number);
            send(&a, &own, number);
        }
        assert_eq!(counts(&node), Foreign { spared: 50, ..learned }, "{name}");
        for number in 0..50u32 {
            assert_eq!(tells.recv_timeout(PATIENCE).unwrap().0, number.to_be_bytes(), "{name}");
        }
        // A rule that may hold for the flow has its packets from the first on; another flow stays foreign.
        let third = node.socket("r", "10.0.1.2:6000");
        send(&a, &third, 0);
        node.until(|| (counts(&node).flows == 2).then_some(()));
        let wide = node.listen(domain, spec("[ip | udp (dport = 5000)(length > 8) | *]")).unwrap();
        assert_eq!(counts(&node).flows, 1, "{name}");
        (50..100).for_each(|number| send(&a, &other, number));
        for number in 50..100u32 {
            assert_eq!(tells.recv_timeout(PATIENCE).unwrap().0, number.to_be_bytes(), "{name}");
        }
        send(&a, &third, 1);
        assert_eq!(counts(&node).spared, 51, "{name}");
        node.with(move |os| os.inchan_destroy(wide), domain).unwrap();
        send(&a, &other, 100);
        node.until(|| (counts(&node).flows == 2).then_some(()));
        assert!(tells.try_recv().is_err(), "{name}");
        let unaccounted = node.handle.with_node(|node, _| node.unaccounted(&[])).unwrap();
        assert_eq!((unaccounted.node, unaccounted.domains), (0, 0), "{name}");
    }
}

#[test]
fn a_flow_is_not_foreign_any_more_once_words_of_rules_mean_its_sender() {
    let Some(node) = Node::start("foreignw", "kernel = true") else { return };
    let says = |sender: &str| {
        let hosts = BTreeMap::from([("sender".to_owned(), vec![sender.parse().unwrap()])]);
        let words = Arc::new(RuleWords::new(&hosts, &BTreeMap::new()).unwrap());
        let amendment =
            Amendment { classifying: Some(Classifying { words, ..Classifying::default() }), ..Amendment::default() };
        node.handle.with_node(move |node, turn| node.amend(turn, amendment)).unwrap();
        node.handle.settle().unwrap();
    };
    says("10.0.1.9");
    let (domain, tells) = node.listener();
    node.listen(domain, spec("[ip (src = sender) | udp (dport = 5000)(length > 8) | *]")).unwrap();
    let (a, other) = (node.socket("a", "10.0.1.1:4000"), node.socket("r", "10.0.1.2:5000"));
    for round in 0..3u32 {
        send(&a, &other, 0);
        node.until(|| (counts(&node).flows == 1).then_some(()));
        says("10.0.1.1");
        assert_eq!(counts(&node).flows, 0);
        send(&a, &other, round);
        assert_eq!(tells.recv_timeout(PATIENCE).unwrap().0, round.to_be_bytes());
        says("10.0.1.9");
    }
}

#[test]
fn under_a_flood_no_packet_is_foreign_any_more_once_a_rule_for_it_is_there() {
    let Some(node) = Node::start("foreignf", "kernel = true") else { return };
    let (domain, tells) = node.listener();
    node.listen(domain, spec("[ip | udp (dport = 2001..2009) | *]")).unwrap();
    let (a, other) = (node.socket("a", "10.0.1.1:4000"), node.socket("r", "10.0.1.2:5000"));
    // What a node cannot take is lost, and counted, but not looked for here.
    let pace = Pace::by_the_clock(Duration::from_micros(200));
    std::thread::scope(|scope| {
        scope.spawn(|| pace.run(|number| send(&a, &other, number)));
        let _stops = pace.stops_with_this();
        for _ in 0..5 {
            node.until(|| (counts(&node).flows == 1).then_some(()));
            let spared = counts(&node).spared;
            node.until(|| (counts(&node).spared > spared + 50).then_some(()));
            let channel = node.listen(domain, spec("[ip | udp (dport = 5000)(length > 8) | *]")).unwrap();
            // One may have been on its way already.
            let mut next = pace.sent() + 1;
            let last = next + 100;
            while next < last {
                let (payload, _) = tells.recv_timeout(PATIENCE).unwrap();
                let number = u32::from_be_bytes(payload.try_into().unwrap());
                assert!(number <= next, "{next} has not come, and {number} has");
                next += u32::from(number == next);
            }
            node.with(move |os| os.inchan_destroy(channel), domain).unwrap();
            // What had come before.
            while tells.try_recv().is_ok() {}
        }
    });
}
