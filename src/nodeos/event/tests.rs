//! Events by their time: order, ends, limits.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const MS: u64 = TICK_NS;

fn domain(index: u32) -> DomainId {
    DomainId(1 << 17 | index)
}

/// Arguments of what comes until `now`, however many calls that takes.
fn all(events: &mut Events, now: u64) -> Vec<u64> {
    let mut come = Vec::new();
    while events.next_deadline().is_some_and(|next| next <= now) {
        events.expire(now, &mut |_, _, argument| come.push(argument));
    }
    come
}

#[test]
fn an_event_comes_at_its_time_and_never_before() {
    let mut events = Events::default();
    for due in [0, 1, MS - 1, MS, MS + 1, 63 * MS, 64 * MS, 65 * MS, 4096 * MS, 4097 * MS, 1_000_000 * MS + 7] {
        let id = events.schedule(domain(1), due, due).unwrap();
        let next = due.div_ceil(MS) * MS;
        if next > 0 {
            assert!(all(&mut events, next - 1).is_empty(), "{due}");
        }
        assert_eq!(events.owner(id), Some(domain(1)));
        assert_eq!(all(&mut events, next), [due]);
        assert_eq!((events.cancel(id), events.owner(id), events.count(domain(1))), (None, None, 0));
    }
    assert!(events.is_empty() && events.next_deadline().is_none());
}

#[test]
fn a_hundred_thousand_events_come_in_order_and_each_once() {
    let mut events = Events::default();
    let due = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 22;
    for n in 0..100_000 {
        events.schedule(domain((n % 1000) as u32), due(n), n).unwrap();
    }
    let places = events.entries.len();
    let mut now = 0;
    let mut come = Vec::new();
    while let Some(next) = events.next_deadline() {
        now = now.max(next);
        let told = events.expire(now, &mut |owner, _, n| {
            assert_eq!(owner, domain((n % 1000) as u32));
            come.push((due(n).div_ceil(MS), n));
        });
        assert!(told <= EXPIRED_MAX);
    }
    assert!(come.is_sorted_by_key(|(tick, _)| *tick));
    come.sort_by_key(|(_, n)| *n);
    assert!(come.iter().map(|(_, n)| *n).eq(0..100_000));
    for n in 0..100_000 {
        events.schedule(domain(0), now + n, n).unwrap();
    }
    assert_eq!(events.entries.len(), places, "places are used again");
    assert_eq!((events.count(domain(0)), events.cancel_all(domain(0)), events.len()), (100_000, 100_000, 0));
}

#[test]
fn an_end_far_beyond_all_levels_is_an_end() {
    let mut events = Events::default();
    let span = 1u64 << (BITS * LEVELS as u32);
    let start = span * MS - 10 * MS;
    assert!(all(&mut events, start).is_empty());
    for (n, due) in [start + 5 * MS, start + 20 * MS, start + span * MS, u64::MAX].into_iter().enumerate() {
        events.schedule(domain(0), due, n as u64).unwrap();
    }
    assert_eq!(all(&mut events, start + 19 * MS), [0]);
    assert_eq!(all(&mut events, start + 20 * MS), [1]);
    assert!(all(&mut events, start + span * MS - MS).is_empty());
    assert_eq!(all(&mut events, start + span * MS), [2]);
    assert_eq!((all(&mut events, u64::MAX / 2), all(&mut events, u64::MAX)), (vec![], vec![3]));
}

#[test]
fn who_ends_takes_its_events_along_and_no_others() {
    let mut events = Events::default();
    for n in 0..300 {
        events.schedule(domain(n % 3), u64::from(n) * MS, u64::from(n)).unwrap();
    }
    assert_eq!(events.cancel_all(domain(1)), 100);
    assert_eq!([0, 1, 2].map(|n| events.count(domain(n))), [100, 0, 100]);
    assert_eq!(events.cancel_all(domain(9)), 0);
    assert!(all(&mut events, 300 * MS).iter().all(|n| n % 3 != 1));
}

#[test]
fn a_node_holds_so_many_events_and_no_more() {
    let mut events = Events::default();
    let last = (0..EVENTS_MAX as u64).map(|n| events.schedule(domain(0), n * MS, n).unwrap()).last().unwrap();
    assert_eq!(events.schedule(domain(1), 0, 0), Err(Error::Full));
    assert_eq!(events.cancel(last), Some(domain(0)));
    let again = events.schedule(domain(1), 0, 0).unwrap();
    assert!(again != last && events.cancel(last).is_none(), "a place is used again, a name is not");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn events_agree_with_a_sorted_map(
        origin in prop::sample::select(vec![0u64, 4_000, 262_140, (1 << 36) - 3_000]),
        steps in prop::collection::vec((0u8..8, any::<u32>(), 0u32..4), 1..200),
    ) {
        let mut events = Events::default();
        let mut model: BTreeMap<(u64, u64), (EventId, DomainId)> = BTreeMap::new();
        let mut now = origin * MS;
        prop_assert!(all(&mut events, now).is_empty());
        for (n, (step, number, owner)) in steps.into_iter().enumerate() {
            match step {
                0..=3 => {
                    let far = [40 * MS, 5_000 * MS, 300_000 * MS, 40_000_000_000 * MS][number as usize % 4];
                    let due = now + u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) % far;
                    let id = events.schedule(domain(owner), due, n as u64).unwrap();
                    model.insert((due.div_ceil(MS), n as u64), (id, domain(owner)));
                }
                4 => {
                    let known = model.iter().nth(number as usize % model.len().max(1)).map(|(key, value)| (*key, *value));
                    if let Some((key, (id, owner))) = known {
                        model.remove(&key);
                        prop_assert_eq!(events.cancel(id), Some(owner));
                        prop_assert_eq!(events.cancel(id), None);
                    }
                }
                5 => {
                    let before = model.len();
                    model.retain(|_, (_, other)| *other != domain(owner));
                    prop_assert_eq!(events.cancel_all(domain(owner)), before - model.len());
                }
                _ => {
                    now += u64::from(number) % [10, 300_000 * MS][owner as usize % 2];
                    let mut come = all(&mut events, now);
                    let later = model.split_off(&(now / MS + 1, 0));
                    let expected: Vec<_> = std::mem::replace(&mut model, later).into_keys().collect();
                    let ticks: BTreeMap<u64, u64> = expected.iter().map(|(tick, n)| (*n, *tick)).collect();
                    prop_assert!(come.iter().all(|n| ticks.contains_key(n)));
                    prop_assert!(come.is_sorted_by_key(|n| ticks[n]));
                    come.sort_unstable();
                    prop_assert!(come.iter().eq(ticks.keys()));
                }
            }
            prop_assert_eq!(events.len(), model.len());
            let first = model.keys().next().map(|(tick, _)| (tick * MS).max(now / MS * MS));
            prop_assert!(events.next_deadline() <= first.or(events.next_deadline()));
            prop_assert_eq!(events.next_deadline().is_none(), model.is_empty());
            for n in 0..4 {
                let owned = model.values().filter(|(_, other)| *other == domain(n)).count();
                prop_assert_eq!(events.count(domain(n)) as usize, owned);
            }
        }
    }
}

#[test]
fn whoever_goes_on_in_the_place_of_others_gives_none_of_their_names() {
    let (mut events, mut given) = (Events::default(), std::collections::HashSet::new());
    events.name_as(1);
    for round in 0..20u64 {
        for place in 0..8 {
            let event = events.schedule(DomainId(1), place, 0).unwrap();
            assert!(given.insert(event), "round {round}: {event:?} was given before");
            if (place + round) % 3 == 0 {
                assert_eq!(events.cancel(event), Some(DomainId(1)));
            }
        }
        let before = core::mem::take(&mut events);
        events.name_as(1);
        events.go_on_from(&before);
        assert!(given.iter().all(|event| events.cancel(*event).is_none()), "those before are nobody's");
    }
}
