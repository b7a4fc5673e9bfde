//! Rules and protocols change while packets pass.

use super::sets::frame;
use super::*;

/// Datagrams from 10.0.0.1 to so many ports of 10.0.0.2.
fn datagrams(count: u16) -> Vec<Vec<u8>> {
    (0..count).map(|port| frame([0x0a00_0001, 0x0a00_0002], [9, port], 17, b"")).collect()
}

#[test]
fn a_new_rule_leaves_the_flows_known_that_it_cannot_match() {
    let mut classifier = classifier(MatchMode::All, 4096);
    add(&mut classifier, 1, "[ip (src = 10.0.0.1) | udp | *]").unwrap();
    let packets = datagrams(100);
    packets.iter().for_each(|packet| assert_eq!(classifier.find(packet), [0]));
    // Over fields that tell flows apart anyway: other rules look at none of them.
    let new = add(&mut classifier, 2, "[ip | udp (dport = 7..9) | *]").unwrap();
    for (port, packet) in packets.iter().enumerate() {
        assert_eq!(classifier.knows(packet), !(7..=9).contains(&port), "port {port}");
        let wanted: &[RuleNumber] = if (7..=9).contains(&port) { &[0, new] } else { &[0] };
        assert_eq!(classifier.find(packet), wanted);
    }
    classifier.remove(new).unwrap();
    for (port, packet) in packets.iter().enumerate() {
        assert_eq!(classifier.knows(packet), !(7..=9).contains(&port), "port {port}");
        assert_eq!(classifier.find(packet), [0]);
    }
}

#[test]
fn a_later_rule_leaves_known_what_an_earlier_one_has() {
    let mut classifier = classifier(MatchMode::First, 64);
    add(&mut classifier, 5, "[udp (dport = 1) | *]").unwrap();
    let packets = datagrams(3);
    packets.iter().for_each(|packet| assert!(classifier.find(packet).len() <= 1));
    add(&mut classifier, 9, "[udp | *]").unwrap();
    assert_eq!([0, 1, 2].map(|at| classifier.knows(&packets[at])), [false, true, false]);
    let first = add(&mut classifier, 1, "[udp (sport = 9) | *]").unwrap();
    assert_eq!([0, 1, 2].map(|at| classifier.knows(&packets[at])), [false; 3]);
    packets.iter().for_each(|packet| assert_eq!(classifier.find(packet), [first]));
}

#[test]
fn a_flow_that_has_missed_many_changes_is_classified_again() {
    let mut classifier = classifier(MatchMode::First, 64);
    let [packet, ..] = &datagrams(1)[..] else { panic!() };
    add(&mut classifier, 0, "[udp | *]").unwrap();
    classifier.find(packet);
    for change in 0..super::super::classifier::CHANGES_MAX {
        assert!(classifier.knows(packet), "{change} changes");
        add(&mut classifier, 1, "[tcp | *]").unwrap();
    }
    add(&mut classifier, 1, "[tcp | *]").unwrap();
    assert!(!classifier.knows(packet));
    assert_eq!(classifier.find(packet), [0]);
    assert!(classifier.knows(packet));
}

#[test]
fn protocols_are_taught_and_forgotten_while_packets_pass() {
    const APP: &str = "(protocol app (follows udp 7) (hdr_len 2) (field kind offset 0 length 1))";
    let mut classifier = classifier(MatchMode::All, 64);
    let all = add(&mut classifier, 0, "[udp | *]").unwrap();
    let last = add(&mut classifier, 0, "[udp]").unwrap();
    let packet = frame([1, 2], [3, 7], 17, b"\x05..");
    let other = frame([1, 2], [3, 8], 17, b"\x05..");
    assert_eq!(classifier.find(&packet), [all, last]);
    classifier.find(&other);
    assert_eq!(classifier.teach(APP).unwrap(), ["app"]);
    assert!(classifier.knows(&other));
    assert_eq!(classifier.find(&packet), [all], "something taught is behind udp now");
    let app = add(&mut classifier, 0, "[app (kind = 5) | *]").unwrap();
    assert_eq!(classifier.find(&packet), [all, app]);
    assert_eq!(classifier.find(&other), [all, last]);
    let refused = classifier.unteach("app").unwrap_err();
    assert_eq!(refused, "1 rules name app, or what is behind it: remove them first");
    classifier.remove(app).unwrap();
    classifier.unteach("app").unwrap();
    assert_eq!(classifier.find(&packet), [all, last]);
    for name in ["ethernet", "udp", "nothing"] {
        assert!(classifier.unteach(name).is_err(), "{name}");
    }
}

#[test]
fn the_best_rules_are_those_whose_fields_are_worth_most_and_ties_are_all_there() {
    let mut classifier = classifier(MatchMode::Best, 64);
    let texts = [
        "[ip | *]",
        "[ip (src = 10.0.0.1) | *]",
        "[udp (sport = 9)(dport = 1) | *]",
        "[ip (dst = 10.0.0.2) | *]",
        "dst port 1",
    ];
    for text in texts {
        add(&mut classifier, 0, text).unwrap();
    }
    // An address is worth 2, and everything else 1.
    assert_eq!(classifier.find(&datagrams(2)[1]), [1, 2, 3]);
    assert_eq!(classifier.find(&frame([0x0a00_0001, 7], [9, 1], 17, b"")), [1, 2]);
    assert_eq!(classifier.find(&frame([5, 7], [1, 1], 17, b"")), [4]);
    assert_eq!(classifier.find(&frame([5, 7], [1, 2], 17, b"")), [0]);
}

#[test]
fn rules_made_to_collide_are_bounded() {
    let mut classifier = classifier(MatchMode::First, 64);
    for order in 0..3000 {
        // Ranges without a common beginning, over each other.
        add(&mut classifier, order, &format!("[udp (dport = {}..{}) | *]", order % 100, 65_000 + order % 500)).unwrap();
    }
    classifier.settle();
    assert_eq!(classifier.sizes().0, 3000);
    let packet = frame([1, 2], [3, 65_400], 17, b"");
    assert_eq!(classifier.find(&packet).to_vec(), classifier.find_by_each(&packet));
    for number in 0..3000 {
        classifier.remove(number).unwrap();
    }
    assert_eq!((classifier.sizes(), classifier.find(&packet).len()), ((0, 0), 0));
}

#[test]
fn what_looks_at_too_much_is_refused_and_changes_nothing() {
    let mut classifier = classifier(MatchMode::All, 64);
    let mut refused = None;
    for byte in 0..80 {
        refused = refused.or(add(&mut classifier, 0, &format!("udp[{byte}] = 1")).err());
    }
    assert!(refused.unwrap().contains("too many different fields"), "64 of each way");
    let number = add(&mut classifier, 0, "[tcp | *]").unwrap();
    assert_eq!(classifier.find(&frame([1, 2], [3, 4], 6, b"")), [number]);
    let many = (0..200).map(|port| format!("port {port}")).collect::<Vec<_>>().join(" or ");
    assert!(add(&mut classifier, 0, &many).unwrap_err().contains("more than 64"));
}

/// What a rule looks at tells flows apart again when it comes back, also if the way was written down anew in between.
#[test]
fn what_a_rule_looks_at_tells_flows_apart_again_when_it_comes_back() {
    let mut classifier = classifier(MatchMode::First, 32);
    let [tcp, udp] = [6, 17].map(|protocol| super::sets::frame([0x0a00_0000, 0x0a00_0001], [1, 2], protocol, &[]));
    add(&mut classifier, 9, "[ip | *]").unwrap();
    let number = add(&mut classifier, 0, "ip proto 17").unwrap();
    classifier.remove(number);
    // The first rule of those that end there: what tells flows apart is written down, without the protocol.
    add(&mut classifier, 9, "[ip]").unwrap();
    let again = add(&mut classifier, 0, "ip proto 17").unwrap();
    assert_ne!(classifier.find(&tcp), &[again]);
    assert_eq!(classifier.find(&udp), &[again]);
}
