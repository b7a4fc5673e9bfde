//! What the classifier finds is what a look at each rule finds.

use super::sets::{APPLICATION, Chance, access_list, application, packets, random_rules};
use super::*;
use proptest::prelude::*;

/// Every packet is found the same: unknown, known, and by each rule.
fn agrees(classifier: &mut Classifier<()>, packets: &[Vec<u8>]) {
    for packet in packets {
        let wanted = classifier.find_by_each(packet);
        for look in ["unknown", "known"] {
            assert_eq!(classifier.find(packet), wanted, "{look}: {packet:02x?}");
        }
        // An answer of more rules is none that is written down.
        assert_eq!(classifier.knows(packet), wanted.len() <= 4, "{packet:02x?}");
    }
}

#[test]
fn access_lists_of_one_to_a_hundred_thousand_rules_are_searched_as_by_each_rule() {
    for (count, tried) in [(1, 200), (10, 200), (100, 300), (1_000, 300), (10_000, 100), (100_000, 20)] {
        let mut chance = Chance::new(count as u64);
        let rules = access_list(count, &mut chance);
        for mode in [MatchMode::First, MatchMode::All, MatchMode::Best] {
            if count == 100_000 && mode == MatchMode::Best {
                continue;
            }
            let mut classifier = classifier(mode, 4096);
            for (order, rule) in rules.iter().enumerate() {
                add(&mut classifier, order as u32, &rule.text()).unwrap();
            }
            let packets = packets(&rules, tried, &mut chance);
            agrees(&mut classifier, &packets[..tried / 4]);
            classifier.settle();
            assert!(count < 1000 || classifier.sizes().0 > count / 2, "{count} rules: {:?}", classifier.sizes());
            agrees(&mut classifier, &packets);
        }
    }
}

#[test]
fn bowmans_rules_of_about_six_fields_are_searched_as_by_each_rule() {
    for (mode, seed) in [(MatchMode::All, 1), (MatchMode::Best, 2), (MatchMode::First, 3)] {
        let mut chance = Chance::new(seed);
        let mut classifier = classifier(mode, 256);
        classifier.teach(APPLICATION).unwrap();
        for (order, rule) in random_rules(400, &mut chance).iter().enumerate() {
            add(&mut classifier, order as u32, rule).unwrap();
        }
        classifier.settle();
        let packets: Vec<_> = (0..200).map(|_| application(&mut chance)).collect();
        let holding: usize = packets.iter().map(|packet| classifier.find_by_each(packet).len()).sum();
        assert!(holding > 0, "some rules hold");
        for packet in &packets {
            let wanted = classifier.find_by_each(packet);
            assert_eq!(classifier.find(packet), wanted);
        }
    }
}

/// A test of a field, often one that others contradict, or that nothing can be.
fn test() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u8..4).prop_map(|last| format!("ip (src = 10.0.0.{last})")),
        (0u8..3).prop_map(|bits| format!("ip (dst = 10.0.0.0/{})", 30 + bits)),
        (0u8..2).prop_map(|bit| format!("ip (ttl & 1 = {bit})")),
        (0u16..4, 0u16..4).prop_map(|(low, more)| format!("ip | udp (dport = {low}..{})", low + more)),
        (0u16..4).prop_map(|port| format!("ip | udp (sport != {port})")),
        (0u16..4).prop_map(|port| format!("ip | tcp (dport <= {port})")),
        Just("ip".to_owned()),
        Just("arp".to_owned()),
    ]
}

fn rule() -> impl Strategy<Value = String> {
    let paper = (test(), any::<bool>()).prop_map(|(test, open)| format!("[{test}{}]", if open { " | *" } else { "" }));
    let leaf = prop_oneof![
        (0u8..4).prop_map(|last| format!("host 10.0.0.{last}")),
        (0u16..4).prop_map(|port| format!("dst port {port}")),
        (0u16..4, 0u16..4).prop_map(|(low, more)| format!("src portrange {low}-{}", low + more)),
        prop::sample::select(vec![
            "udp",
            "tcp",
            "ip",
            "ip proto 17",
            "ip[8] & 1 = 0",
            "udp[8:2] != 7",
            "udp[9] < 3",
            "tcp[13] & 2 != 0"
        ])
        .prop_map(str::to_owned),
    ];
    let pcap = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one} and {other})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one} or {other})")),
            inner.prop_map(|one| format!("not {one}")),
        ]
    });
    prop_oneof![paper, pcap]
}

/// A packet with values that the rules name; sometimes with a wrong sum, cut, or a piece.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let parts = (0u32..4, 0u32..4, 0u16..6, 0u16..6, prop::sample::select(vec![6u8, 17]), 0usize..8);
    (parts, prop::collection::vec(0u8..9, 0..4)).prop_map(|((from, to, sport, dport, protocol, bent), payload)| {
        let mut frame = super::sets::frame([0x0a00_0000 | from, 0x0a00_0000 | to], [sport, dport], protocol, &payload);
        match bent {
            0 => frame[24] ^= 1,
            1 => frame.truncate(33 + usize::from(sport)),
            2 => (frame[21], frame[25]) = (1, frame[25].wrapping_sub(1)),
            3 => (frame[22], frame[24]) = (frame[22] - 1, frame[24].wrapping_add(1)),
            _ => {}
        }
        frame
    })
}

proptest! {
    /// Rules of both languages come and go, packets pass, trees are made at any time: always the same as by each rule.
    #[test]
    fn rules_at_random_are_searched_as_by_each_rule(
        mode in prop::sample::select(vec![MatchMode::First, MatchMode::All, MatchMode::Best]),
        steps in prop::collection::vec((rule(), 0u32..3, 0u8..8, prop::collection::vec(packet(), 1..4)), 1..24),
        again in prop::collection::vec(packet(), 1..8),
    ) {
        let mut classifier = classifier(mode, 32);
        let mut numbers = Vec::new();
        for (text, order, what, packets) in steps {
            match (what, numbers.pop()) {
                (0 | 1, Some(number)) => prop_assert_eq!(classifier.remove(number), Some(())),
                (2, last) => {
                    // Many of a kind, so that there are trees.
                    numbers.extend(last);
                    for port in 0..70 {
                        numbers.push(add(&mut classifier, order, &format!("[ip | udp (dport = {port}) | *]")).unwrap());
                    }
                    classifier.settle();
                }
                (_, last) => {
                    numbers.extend(last);
                    match add(&mut classifier, order, &text) {
                        Ok(number) => numbers.push(number),
                        Err(why) => prop_assert!(why.contains("can never hold") || why.contains("cases"), "{text}: {why}"),
                    }
                }
            }
            for packet in packets.iter().chain(&again) {
                let wanted = classifier.find_by_each(packet);
                prop_assert_eq!(classifier.find(packet), &wanted[..], "unknown");
                prop_assert_eq!(classifier.find(packet), &wanted[..], "known");
            }
        }
        for number in numbers {
            prop_assert_eq!(classifier.remove(number), Some(()));
        }
        prop_assert_eq!(classifier.sizes(), (0, 0));
        for packet in &again {
            prop_assert_eq!(classifier.find(packet), &[] as &[RuleNumber]);
        }
    }
}
