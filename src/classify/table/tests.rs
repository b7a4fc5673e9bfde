//! Keys, masks and lists of a table, over the bytes of the fields themselves.

use super::*;
use crate::classify::fields::Field;
use crate::classify::groups::MASKS;
use crate::classify::rule::{KeyTuple, Layer};
use crate::frame::PortId;
use crate::wire::{Addr, Prefix};

/// Values of all fields, and the number of the shape.
type Asked = ([[u8; 16]; 6], u32);

const ASKED: Patterns<Asked> = Patterns { of: asked, behind };

fn asked(rule: &Rule) -> Shaped<Asked> {
    let shape = Shape::of(rule).by_number();
    (shape, behind(&(Field::ALL.map(|field| rule.asks(field).value), 0), shape))
}

fn behind((values, _): &Asked, shape: Shape) -> Asked {
    let mut left = *values;
    for (field, value) in Field::ALL.into_iter().zip(&mut left) {
        *value = Prefix::new(Addr(*value), shape.bits(field)).addr.0;
    }
    (left, shape.number())
}

fn rule(protocol: &str, address: &str, key: &[KeyTuple]) -> Rule {
    let port = |name: &str| name.strip_prefix("if")?.parse().ok().map(PortId);
    crate::nodeos::channel::rule(protocol, address, key, port).unwrap()
}

fn to(length: usize) -> Rule {
    Rule { layer: Layer::Ip, ..rule("*/ip", &format!("* -> fd00::/{length}"), &[]) }
}

const KEY: KeyTuple = KeyTuple { offset: 0, length: 1, value: 7, mask: 0xff };

#[test]
fn keys_of_one_pattern_stand_by_length_and_the_last_takes_it_away() {
    let mut table = RuleTable::<Asked, u32>::new(ASKED);
    let [plain, keyed] = [&[][..], &[KEY]].map(|key| rule("if0/ip/udp", "*:5000", key));
    let pattern = asked(&plain);
    let told = |masks| Some(Changed { pattern, masks, lists: vec![], later: vec![] });
    assert_eq!(table.change(&plain, false), None, "nothing was there");
    assert_eq!(table.change(&plain, true), told(true));
    assert_eq!(table.change(&keyed, true), told(false));
    assert_eq!(table.give(&plain, 3), Some(pattern));
    assert_eq!(table.keys(&pattern), [(vec![KEY], 0), (vec![], 3)]);
    assert_eq!(table.change(&plain, true), told(false), "again: it is everybody's");
    assert_eq!(table.keys(&pattern), [(vec![KEY], 0), (vec![], 0)]);
    assert_eq!(table.change(&plain, false), told(false));
    assert_eq!((table.change(&keyed, false), table.is_empty()), (told(true), true));
    assert_eq!(table.give(&keyed, 3), None);
    assert_eq!(table.groups().masks().len(), 0);
}

#[test]
fn udp_and_tcp_of_the_same_fields_share_a_mask_between_the_others() {
    let mut table = RuleTable::<Asked, u32>::new(ASKED);
    let rules = ["ip/udp|*:5000", "ip/tcp|*:6000", "ip/tcp|10.0.0.1:* -> *:*", "ip/tcp|10.0.0.1:* -> *:7", "ip|", "*|"];
    let rules = rules.map(|text| text.split_once('|').unwrap()).map(|(protocol, address)| {
        rule(&if protocol == "*" { "*".to_owned() } else { format!("*/{protocol}") }, address, &[])
    });
    for rule in &rules {
        table.change(rule, true).unwrap();
    }
    let place = |rule: &Rule| table.groups().masks().position(|(mask, _)| mask == asked(rule).0).unwrap();
    assert_eq!(rules.each_ref().map(place), [1, 1, 2, 0, 3, 4]);
    assert_eq!(table.groups().masks().len(), 5);
}

#[test]
fn a_shape_too_many_shares_a_mask_and_lists_say_which_shapes_are_there() {
    let mut table = RuleTable::<Asked, u32>::new(ASKED);
    for length in 1..=MASKS {
        let changed = table.change(&to(length), true).unwrap();
        assert!(changed.masks && changed.lists.is_empty());
    }
    let many = table.change(&to(MASKS + 1), true).unwrap();
    assert!(many.masks && many.later.is_empty());
    assert_eq!(table.groups().masks().len(), MASKS);
    let merged: Vec<Shape> = table.groups().masks().filter(|(_, merged)| *merged).map(|(mask, _)| mask).collect();
    let [mask] = merged[..] else { panic!("{merged:?}") };
    let listed: Vec<Shape> = many.lists.iter().flat_map(|within| table.list(within)).collect();
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed[0] > listed[1] && listed[1].common(mask) == Some(mask));
    // When one has gone each has its own mask again, and the list goes later.
    let fewer = table.change(&to(3), false).unwrap();
    assert!(fewer.masks && fewer.lists.is_empty());
    assert_eq!(fewer.later, many.lists);
    assert_eq!(fewer.later.iter().flat_map(|within| table.list(within)).count(), 0);
    assert!(table.groups().masks().all(|(_, merged)| !merged));
}

#[test]
fn as_many_shapes_as_there_are_have_places_and_leave_them_again() {
    let mut table = RuleTable::<Asked, u32>::new(ASKED);
    (1..=128).for_each(|length| drop(table.change(&to(length), true).unwrap()));
    assert_eq!(table.groups().masks().len(), MASKS);
    assert_eq!(table.groups().shapes().count(), 128);
    for length in 1..=128 {
        let (shape, pattern) = asked(&to(length));
        let mask = table.groups().mask_of(shape);
        assert!(mask.is_none_or(|mask| table.list(&behind(&pattern, mask)).any(|listed| listed == shape)));
    }
    for length in 1..=128 {
        table.change(&to(length), false).unwrap();
        let left = 128 - length;
        assert_eq!((table.groups().shapes().count(), table.groups().masks().len()), (left, left.min(MASKS)));
    }
    assert!(table.is_empty() && table.keyed.0.is_empty());
}
