//! What becomes of known flows when words of rules mean something else.

use super::*;
use crate::classify::taught::language::Language;
use crate::core::domain::DomainId;
use std::collections::BTreeMap;

fn classifying(db: &str) -> Classifying {
    let hosts = BTreeMap::from([("db".to_owned(), vec![db.parse().unwrap()])]);
    let constants = BTreeMap::from([("APP_PORT".to_owned(), 2001)]);
    Classifying { words: Arc::new(RuleWords::new(&hosts, &constants).unwrap()), ..Classifying::default() }
}

fn add(rules: &mut TaughtRules, channel: u32, text: &str) {
    let Classifying { protocols, words, .. } = rules.classifying().clone();
    let rule = TaughtRule::read(text, Language::of(text), (None, Layer::Udp), &protocols, &words).unwrap();
    let taker = Taker { channel: InChanId(channel), domain: DomainId(1), worker: 0 };
    rules.add(&Arc::new(rule), taker).unwrap();
}

/// A datagram from 10.0.0.`host` to port 2001.
fn from(host: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    frame.extend([10, 0, 0, host, 10, 0, 0, 1, 0x10, 0, 0x07, 0xd1, 0, 8, 0, 0]);
    let sum = frame[14..34].chunks(2).fold(0u32, |sum, pair| sum + u32::from(pair[0]) * 256 + u32::from(pair[1]));
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn a_host_that_is_followed_holds_for_nothing_until_it_is_found() {
    let followed = RuleWords::default().and_followed(&["www".to_owned()]).unwrap();
    let with = |words: RuleWords| Classifying { words: Arc::new(words), ..Classifying::default() };
    let found = |all: &[&str]| {
        let all = all.iter().map(|addr| addr.parse().unwrap()).collect();
        with(followed.with_found(&[("www".to_owned(), all)].into()))
    };
    let mut rules = TaughtRules::with_secret(7);
    rules.set(with(followed.clone()));
    add(&mut rules, 1, "[ip (src = www) | udp | *]");
    add(&mut rules, 2, "[ip (src = 10.0.0.7) | udp | *]");
    let mut takers = Vec::new();
    let mut of = |rules: &mut TaughtRules, host: u8| {
        rules.find(PortId(0), &from(host), &mut takers);
        takers.first().map(|(taker, _)| taker.channel.0)
    };
    assert_eq!((of(&mut rules, 7), of(&mut rules, 8)), (Some(2), None));
    assert_eq!(rules.idle(InChanId(1)).as_deref(), Some("no address of www has been found yet"));
    assert_eq!(rules.unreadable(&with(followed.clone())).len(), 0);
    rules.set(found(&["10.0.0.8", "fd00::8"]));
    assert_eq!((of(&mut rules, 7), of(&mut rules, 8), rules.idle(InChanId(1))), (Some(2), Some(1), None));
    rules.set(found(&["10.0.0.7"]));
    assert_eq!((of(&mut rules, 7), of(&mut rules, 8)), (Some(1), None), "it is the first of both");
    rules.set(found(&["fd00::8"]));
    assert_eq!((of(&mut rules, 7), of(&mut rules, 8)), (Some(2), None));
    assert!(rules.idle(InChanId(1)).is_some_and(|why| why.contains("is no address of IPv4")));
    assert_eq!(rules.unreadable(&with(followed.clone())).len(), 0, "it may have one later");
    assert_eq!(rules.unreadable(&Classifying::default()).len(), 0, "nothing that has a meaning loses it");
    rules.set(found(&["10.0.0.7"]));
    assert_eq!(rules.unreadable(&Classifying::default()).len(), 1);
}

#[test]
fn a_word_that_means_another_thing_leaves_flows_known_that_it_is_not_about() {
    let mut rules = TaughtRules::with_secret(7);
    rules.set(classifying("10.0.0.7"));
    add(&mut rules, 1, "[ip (src = db) | udp (dport = APP_PORT) | *]");
    add(&mut rules, 2, "src host db and udp");
    add(&mut rules, 3, "[ip (src = 10.0.0.64/26) | udp | *]");
    let mut found = Vec::new();
    let mut of = |rules: &mut TaughtRules, host: u8| {
        rules.find(PortId(0), &from(host), &mut found);
        found.iter().map(|(taker, _)| taker.channel.0).collect::<Vec<_>>()
    };
    assert_eq!([7, 8, 70, 9].map(|host| of(&mut rules, host)), [vec![1], vec![], vec![3], vec![]]);
    let knows = |rules: &TaughtRules, host| rules.ports[0].as_ref().is_some_and(|it| it.knows(&from(host)));
    assert!([7, 8, 70, 9].iter().all(|host| knows(&rules, *host)));
    rules.set(classifying("10.0.0.8"));
    assert_eq!([7, 8, 70, 9].map(|host| knows(&rules, host)), [false, false, true, true]);
    assert_eq!([7, 8, 70, 9].map(|host| of(&mut rules, host)), [vec![], vec![1], vec![3], vec![]]);
    // The same words are no change at all.
    rules.set(classifying("10.0.0.8"));
    assert!([7, 8, 70, 9].iter().all(|host| knows(&rules, *host)));
    // Who means nothing keeps his place, and has it again.
    assert_eq!(rules.idle(InChanId(1)), None);
    rules.set(Classifying::default());
    let idle = [1, 2, 3].map(|channel| rules.idle(InChanId(channel)));
    assert!(idle[0].as_ref().is_some_and(|why| why.contains("'db' is no address of IPv4")), "{idle:?}");
    assert!(idle[1].as_ref().is_some_and(|why| why.contains("'db' is no address")) && idle[2].is_none(), "{idle:?}");
    assert_eq!([7, 8, 70].map(|host| of(&mut rules, host)), [vec![], vec![], vec![3]]);
    assert_eq!(rules.unreadable(&Classifying::default()).len(), 0, "nothing is lost that was lost before");
    assert_eq!(rules.unreadable(&classifying("10.0.0.8")).len(), 0);
    rules.set(classifying("10.0.0.9"));
    assert_eq!([8, 9, 70].map(|host| of(&mut rules, host)), [vec![], vec![1], vec![3]]);
    assert_eq!(rules.unreadable(&Classifying::default()).len(), 2);
}

#[test]
fn flows_of_which_no_rule_can_hold_are_told_of_at_a_pace_until_rules_change() {
    let mut rules = TaughtRules::with_secret(7);
    add(&mut rules, 1, "[ip (src = 10.0.0.7) | udp (dport = 2000..2009)(length > 8) | *]");
    let foreign = |rules: &mut TaughtRules, host: u8, now: u64| match rules.foreign(PortId(0), &from(host), now) {
        Foreign::Flow(flow) => {
            assert_eq!(flow.source, crate::wire::Addr::v4([10, 0, 0, host]));
            Some(true)
        }
        Foreign::Unknown => Some(false),
        Foreign::Refused => None,
    };
    // The rule does not hold for this packet, and may for the next one.
    assert_eq!((foreign(&mut rules, 7, 0), foreign(&mut rules, 8, 0)), (Some(false), Some(true)));
    add(&mut rules, 2, "[ip (src = 10.0.0.8) | udp | *]");
    assert_eq!((foreign(&mut rules, 8, 0), foreign(&mut rules, 9, 0)), (Some(false), Some(true)));
    rules.remove(InChanId(2));
    assert_eq!((foreign(&mut rules, 8, 0), foreign(&mut rules, 7, 0)), (Some(true), Some(false)));
    let second = 1_000_000_000;
    let in_time = |rules: &mut TaughtRules, from: u64| {
        (0..4000).filter(|at| foreign(rules, 9, from + at * second / 4000) == Some(true)).count()
    };
    assert!((1000..=1066).contains(&in_time(&mut rules, second)), "of 4000 in a second");
    // Another port has a share of its own.
    assert!((0..70).any(|_| foreign(&mut rules, 9, 2 * second).is_none()));
    let by_other = rules.foreign(PortId(3), &from(9), 2 * second);
    assert!(foreign(&mut rules, 9, 2 * second).is_none() && matches!(by_other, Foreign::Flow(_)));
    // What words mean: rules are asked anew.
    rules.set(classifying("10.0.0.9"));
    add(&mut rules, 3, "[ip (src = db) | udp | *]");
    assert_eq!((foreign(&mut rules, 8, 9 * second), foreign(&mut rules, 9, 9 * second)), (Some(true), Some(false)));
    rules.set(classifying("10.0.0.8"));
    assert_eq!((foreign(&mut rules, 8, 9 * second), foreign(&mut rules, 9, 9 * second)), (Some(false), Some(true)));
}

#[test]
fn what_may_hold_is_known_by_its_flow_and_asked_of_the_first_rule_alone() {
    let mut rules = TaughtRules::with_secret(7);
    rules.set(Classifying { mode: MatchMode::All, ..Classifying::default() });
    (1..=20).for_each(|channel| add(&mut rules, channel, "[ip | udp (dport = 2000..2009)(length > 8) | *]"));
    assert_eq!(rules.foreign(PortId(0), &from(7), 0), Foreign::Unknown);
    let wide = rules.foreign.of(PortId(0)).unwrap();
    assert!(wide.knows(&from(7)));
    assert_eq!(wide.find(&from(7)).len(), 1);
    // Its last rule gone, it is foreign.
    (2..=20).for_each(|channel| rules.remove(InChanId(channel)));
    assert_eq!(rules.foreign(PortId(0), &from(7), 0), Foreign::Unknown);
    add(&mut rules, 21, "[ip (src = 10.0.0.8) | udp | *]");
    rules.remove(InChanId(1));
    assert!(matches!(rules.foreign(PortId(0), &from(7), 0), Foreign::Flow(_)));
}
