//! Soft state that several workers have in common: one table under several threads.

use anode::core::common::Common;
use anode::core::common::state::StateCounts;
use anode::core::domain::DomainId;
use anode::core::kept::{Change, Page, Refused, SharedState, Value, number};
use anode::trust::limits::Limits;
use std::sync::{Arc, Mutex};
use std::thread;

fn limits(state_entries: u32) -> Limits {
    Limits { state_entries, keep_ms_max: 60_000, ..Limits::default() }
}

fn domain(index: u32) -> DomainId {
    DomainId(index)
}

/// A keeper in memory that takes so many entries.
#[derive(Debug, Default)]
struct Keeper(Mutex<std::collections::HashMap<u64, Value>>);

impl SharedState for Keeper {
    fn value(&self, key: u64, _: u64) -> Result<Option<Value>, Refused> {
        Ok(self.0.lock().unwrap().get(&key).copied())
    }

    fn change(&self, key: u64, change: Change<'_>, _: u32, _: u64) -> Result<u64, Refused> {
        let mut table = self.0.lock().unwrap();
        let kept = table.entry(key).or_insert([0; 64]);
        match change {
            Change::Put(value) => *kept = *value,
            Change::Add(more) => {
                let sum = number(kept) + more;
                kept[..8].copy_from_slice(&sum.to_le_bytes());
            }
            other => unreachable!("{other:?} is not asked here"),
        }
        Ok(number(kept))
    }

    fn page(&self, _: u64, _: u64) -> Result<Page, Refused> {
        Ok(Page::default())
    }
}

#[test]
fn what_two_workers_add_is_the_sum() {
    let common = Common::new(2, 4096);
    let code = common.code(domain(7), 1, &limits(1000));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..20_000u64 {
                    code.state.change(round % 97, Change::Add(1), 1000, 5).unwrap();
                }
            });
        }
    });
    let sum: u64 = (0..97).map(|key| number(&code.state.value(key, 6).unwrap().unwrap())).sum();
    assert_eq!(sum, 40_000);
    assert_eq!(code.state.counts(), StateCounts { held: 97, refused: 0, displaced: 0 });
}

/// The kernel half takes the code over while both workers count: no addition is lost, wherever it was made.
#[test]
fn nothing_is_lost_when_another_keeper_takes_over() {
    for round in 0..50 {
        let common = Common::new(2, 4096);
        let code = common.code(domain(round), 1, &limits(1000));
        let keeper: Arc<dyn SharedState> = Arc::new(Keeper::default());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for round in 0..4_000u64 {
                        code.state.change(round % 50, Change::Add(1), 1000, 5).unwrap();
                    }
                });
            }
            scope.spawn(|| code.state.move_to(&keeper, 5));
        });
        let sum: u64 = (0..50).map(|key| number(&keeper.value(key, 6).unwrap().unwrap_or([0; 64]))).sum();
        assert_eq!(sum, 8_000);
        assert_eq!(code.state.value(3, 6), keeper.value(3, 6), "it is asked there");
        assert_eq!(code.state.counts().held, 0, "nothing is here any more");
    }
}

#[test]
fn a_quota_counts_over_all_parts() {
    let common = Common::new(2, 1 << 16);
    let code = common.code(domain(3), 1, &limits(100));
    let refused = (0..1000).filter(|key| code.state.change(*key, Change::Add(1), 1000, 5).is_err()).count() as u64;
    let counts = code.state.counts();
    assert_eq!(counts.held, 100);
    // Others took the place of one of the domain's own in their set.
    assert!(refused > 0 && counts.refused == refused, "{counts:?}");
}

#[test]
fn pages_have_each_entry_once_and_go_through_all_parts() {
    let common = Common::new(2, 1 << 14);
    let (code, other) = (common.code(domain(3), 1, &limits(5000)), common.code(domain(4), 2, &limits(5000)));
    for key in 0..2000 {
        code.state.change(key, Change::Add(key), 1000, 5).unwrap();
        other.state.change(key, Change::Add(1), 1000, 5).unwrap();
    }
    let (mut from, mut keys) = (0, Vec::new());
    loop {
        let page = code.state.page(from, 6).unwrap();
        keys.extend(page.entries.iter().map(|kept| kept.key));
        match page.next {
            Some(next) => from = next,
            None => break,
        }
    }
    keys.sort_unstable();
    assert!(keys.iter().copied().eq(0..2000), "{}", keys.len());
}

#[test]
fn a_domain_that_ends_leaves_nothing_and_no_other_has_its_name() {
    let common = Common::new(2, 4096);
    let code = common.code(domain(3), 1, &limits(100));
    code.state.change(9, Change::Add(4), 60_000, 5).unwrap();
    code.state.forget();
    assert_eq!(code.state.value(9, 6), Ok(None));
    // The same place of the table of domains, one generation on.
    let next = common.code(domain(3 | 1 << 16), 1, &limits(100));
    assert_eq!(next.state.value(9, 6), Ok(None));
    assert_eq!(code.state.change(9, Change::Add(4), 60_000, 5), Err(Refused::Full), "who has gone keeps nothing");
    assert_eq!(next.state.change(9, Change::Add(1), 60_000, 5), Ok(1));
    common.state.sweep(u64::MAX, common.state.part_capacity());
    assert_eq!(next.state.counts().held, 0, "what is over is swept");
}
