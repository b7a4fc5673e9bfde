//! Soft state: times, quotas, shares of groups, and the books.

use super::*;
use crate::core::domain::{Domain, Domains};
use crate::trust::limits::Limits;

fn two_domains(quota: u32) -> (Domains, DomainId, DomainId) {
    let mut domains = Domains::default();
    let mut domain = || {
        domains
            .create(domains.root(), Domain::new("d".into(), Limits { state_entries: quota, ..Limits::default() }))
            .unwrap()
    };
    let (a, b) = (domain(), domain());
    (domains, a, b)
}

#[test]
fn entries_are_kept_for_their_time_and_seen_by_their_owner_only() {
    let (mut domains, a, b) = two_domains(10);
    let mut store = StateStore::new(64);
    store.change(&mut domains, a, 7, Change::Put(&[1; VALUE]), 10, 0).unwrap();
    assert_eq!(store.value(a, 7, 9_999_999), Some(&[1; VALUE]));
    assert_eq!(store.value(a, 7, 10_000_000), None);
    assert_eq!(store.value(b, 7, 0), None);
}

#[test]
fn pages_tell_each_entry_of_a_domain_once_and_no_others() {
    let (mut domains, a, b) = two_domains(2000);
    let mut store = StateStore::new(16_384);
    for key in 0..1000 {
        store.change(&mut domains, a, key, Change::Put(&[1; VALUE]), 1000, 0).unwrap();
        store.change(&mut domains, b, key, Change::Put(&[2; VALUE]), 1000, 0).unwrap();
    }
    store.change(&mut domains, a, 5000, Change::Put(&[1; VALUE]), 1, 0).unwrap();
    let (mut keys, mut from, mut pages) = (Vec::new(), Some(0), 0);
    while let Some(place) = from {
        let page = store.page(a, place, 2_000_000);
        assert!(page.entries.len() <= PAGE && page.entries.iter().all(|kept| kept.value == [1; VALUE]));
        keys.extend(page.entries.iter().map(|kept| kept.key));
        (from, pages) = (page.next, pages + 1);
    }
    keys.sort_unstable();
    assert_eq!((keys, pages), ((0..1000).collect(), 5), "what has expired is not there");
    assert_eq!(store.page(a, u64::MAX, 0), Page::default());
}

#[test]
fn the_quota_counts_living_entries_and_updates_are_free() {
    let (mut domains, a, _) = two_domains(4);
    let mut store = StateStore::new(1024);
    for key in 0..4 {
        store.change(&mut domains, a, key, Change::Put(&[0; VALUE]), 1000, 0).unwrap();
        store.change(&mut domains, a, key, Change::Put(&[1; VALUE]), 1000, 0).unwrap();
    }
    assert_eq!(domains.of(a).unwrap().counts.state_entries, 4);
    let refused = (100..200)
        .filter(|&key| store.change(&mut domains, a, key, Change::Put(&[0; VALUE]), 1000, 0).is_err())
        .count();
    assert!(refused > 0);
    assert!(domains.of(a).unwrap().counts.state_entries <= 4);
    store.sweep(&mut domains, 2_000_000_000, 1024);
    assert_eq!(domains.of(a).unwrap().counts.state_entries, 0);
}

#[test]
fn keeping_for_no_time_removes_the_entry_and_no_other() {
    let (mut domains, a, _) = two_domains(2);
    let mut store = StateStore::new(8);
    store.change(&mut domains, a, 1, Change::Put(&[1; VALUE]), 1000, 0).unwrap();
    store.change(&mut domains, a, 2, Change::Put(&[2; VALUE]), 1000, 0).unwrap();
    assert_eq!(
        store.change(&mut domains, a, 3, Change::Put(&[3; VALUE]), 0, 0).map(drop),
        Ok(()),
        "what is not there is gone already"
    );
    assert_eq!((store.value(a, 1, 0), store.value(a, 2, 0)), (Some(&[1; VALUE]), Some(&[2; VALUE])));
    store.change(&mut domains, a, 1, Change::Put(&[1; VALUE]), 0, 0).unwrap();
    assert_eq!((store.value(a, 1, 0), store.value(a, 2, 0)), (None, Some(&[2; VALUE])));
    assert_eq!(domains.of(a).unwrap().counts.state_entries, 1);
}

#[test]
fn nobody_can_push_out_what_others_hold_within_their_share() {
    let (mut domains, a, b) = two_domains(1000);
    let mut store = StateStore::new(64);
    store.change(&mut domains, a, 7, Change::Put(&[7; VALUE]), 1000, 0).unwrap();
    for key in 0..10_000 {
        let _ = store.change(&mut domains, b, key, Change::Put(&[0; VALUE]), 100_000, 0);
    }
    assert_eq!(store.value(a, 7, 1), Some(&[7; VALUE]));
}

#[test]
fn a_domain_that_ends_leaves_nothing() {
    let (mut domains, a, b) = two_domains(100);
    let mut store = StateStore::new(256);
    for key in 0..50 {
        let _ = store.change(&mut domains, a, key, Change::Put(&[1; VALUE]), 1000, 0);
    }
    store.change(&mut domains, b, 1, Change::Put(&[2; VALUE]), 1000, 0).unwrap();
    store.forget(&mut domains, a);
    assert!((0..50).all(|key| store.value(a, key, 0).is_none()));
    assert_eq!(domains.of(a).unwrap().counts.state_entries, 0);
    assert!(store.value(b, 1, 0).is_some());
}
/// The store's own books: chains, counts and owners agree.
fn check(store: &StateStore, domains: &Domains) {
    let mut groups: HashMap<u64, [u32; 2]> = HashMap::new();
    for (id, domain) in domains.iter() {
        let owned = store.entries.iter().filter(|entry| entry.owner == id.0).count();
        let (mut chained, mut before) = (0, NOBODY);
        let mut at = store.holdings.get(id.0 as usize).map_or(NOBODY, |holding| holding.first);
        while let Some(entry) = store.entries.get(at as usize) {
            assert_eq!((entry.owner, entry.before), (id.0, before));
            (before, at) = (at, entry.behind);
            chained += 1;
        }
        let counts = [owned as u32, chained, store.count(id.0), domain.counts.state_entries];
        assert_eq!(counts, [counts[0]; 4]);
        if owned > 0 {
            let [count, domains] = groups.entry(store.group(id.0)).or_default();
            (*count, *domains) = (*count + owned as u32, *domains + 1);
        }
    }
    let held = store.groups.iter().map(|(group, held)| (*group, [held.count, held.domains])).collect();
    assert_eq!(groups, held);
}

#[test]
fn many_codes_of_one_neighbour_have_one_share() {
    let mut domains = Domains::default();
    let mut store = StateStore::new(1024);
    let mut fill = |store: &mut StateStore, group| {
        let limits = Limits { state_entries: 512, ..Limits::default() };
        let id = domains.create(domains.root(), Domain::new("d".into(), limits)).unwrap();
        store.join(id, group);
        for key in 0..2000 {
            let _ = store.change(&mut domains, id, key, Change::Put(&[1; VALUE]), 100_000, 0);
        }
        check(store, &domains);
        id
    };
    let hostile: Vec<_> = (0..16).map(|_| fill(&mut store, 7)).collect();
    let good = fill(&mut store, 8);
    assert!(store.count(good.0) > 450, "half of the table, but for sets that are full: {}", store.count(good.0));
    for id in hostile {
        assert!((10..=120).contains(&store.count(id.0)), "what the group has, its domains share");
    }
}

#[test]
fn domains_that_join_another_have_its_share() {
    let mut domains = Domains::default();
    let mut store = StateStore::new(1024);
    let limits = Limits { state_entries: 1024, ..Limits::default() };
    let mut domain = || domains.create(domains.root(), Domain::new("d".into(), limits)).unwrap();
    let ids: Vec<_> = (0..10).map(|_| domain()).collect();
    // One beside nine of which each is below the one before.
    ids[1..].windows(2).for_each(|pair| store.join_with(pair[1], pair[0]));
    for id in ids[1..].iter().chain(&ids[..1]) {
        for key in 0..2000 {
            let _ = store.change(&mut domains, *id, key, Change::Put(&[1; VALUE]), 100_000, 0);
        }
        check(&store, &domains);
    }
    assert!(store.count(ids[0].0) > 450, "half of the table, but for sets that are full: {}", store.count(ids[0].0));
}

#[test]
fn many_codes_that_take_all_leave_a_share_to_the_next() {
    let mut domains = Domains::default();
    let mut store = StateStore::new(1024);
    let limits = Limits { state_entries: 128, ..Limits::default() };
    let mut ids = Vec::new();
    for _ in 0..32 {
        let id = domains.create(domains.root(), Domain::new("d".into(), limits)).unwrap();
        for key in 0..1000 {
            let _ = store.change(&mut domains, id, key, Change::Put(&[1; VALUE]), 100_000, 0);
        }
        check(&store, &domains);
        ids.push(id);
    }
    let share = 1024 / 32;
    for id in &ids {
        let held = store.count(id.0);
        assert!((share / 2..=2 * share).contains(&held), "{held} of {share}");
    }
    assert!(domains.by_id(ids[0]).unwrap().counts.state_displaced > 0);
    for id in ids {
        store.forget(&mut domains, id);
        assert_eq!(store.count(id.0), 0);
        check(&store, &domains);
        domains.end(id);
    }
    assert!(store.entries.iter().all(|entry| entry.owner == NOBODY));
}

#[test]
fn the_books_balance_whatever_comes() {
    let (mut domains, a, b) = two_domains(40);
    let mut store = StateStore::new(64);
    for step in 0..20_000u64 {
        let mixed = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let (owner, keep) = (if mixed & 1 == 0 { a } else { b }, (mixed >> 1 & 7) as u32);
        let _ = store.change(&mut domains, owner, mixed >> 4 & 63, Change::Put(&[0; VALUE]), keep, step * 1_000_000);
        match mixed >> 10 & 63 {
            0 => store.sweep(&mut domains, step * 1_000_000, 16),
            1 => store.forget(&mut domains, owner),
            _ => {}
        }
        if step % 64 == 0 {
            check(&store, &domains);
        }
    }
    assert!(domains.of(a).unwrap().counts.state_entries <= 40);
}
