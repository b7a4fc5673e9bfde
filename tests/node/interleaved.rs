//! What several workers share, under every order of their threads' steps (loom): the budget and the soft state of a code.
//!
//! The files of the node are modules of this program once more, made of loom's atomics and locks in the place of std's.
//! Rings between workers are of a crate that tests them so itself.

use crate::remade::account::CommonAccount;
use anode::core::kept::{Change, Page, Refused, SharedState, Value, number};
use anode::core::share::{SharedAccount, Spent};
use anode::trust::limits::Limits;
use loom::thread;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// In every order of steps with at most two changes of thread where none had to be.
fn in_every_order(work: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(work);
}

/// The kernel half's part of a budget: what it has spent, and what it was told.
#[derive(Debug, Default)]
struct Kernel(Mutex<(Spent, u64)>);

impl SharedAccount for Kernel {
    fn spent(&self) -> Spent {
        self.0.lock().unwrap().0
    }

    fn spend(&self, packets: u64, _: u64) {
        self.0.lock().unwrap().1 += packets;
    }
}

#[test]
fn two_workers_admit_all_of_one_budget_and_no_more_in_any_order() {
    in_every_order(|| {
        let limits = Limits { packets_per_second: 30, steps_per_second: u64::MAX, ..Limits::default() };
        let account = Arc::new(CommonAccount::new(2, &limits));
        let admit = |account: &Arc<CommonAccount>, worker: u16| {
            let mut share = account.of(worker);
            (0..3).filter(|_| share.admit(0)).count()
        };
        let there = account.clone();
        let other = thread::spawn(move || admit(&there, 1));
        let sum = admit(&account, 0) + other.join().unwrap();
        assert_eq!(sum, 3);
    });
}

#[test]
fn what_the_kernel_half_spends_is_charged_once_in_any_order() {
    in_every_order(|| {
        let limits = Limits { packets_per_second: 30, steps_per_second: u64::MAX, ..Limits::default() };
        let account = Arc::new(CommonAccount::new(2, &limits));
        let kernel = Arc::new(Kernel::default());
        let half: Arc<dyn SharedAccount> = kernel.clone();
        account.join_kernel(&half);
        let there = account.clone();
        let other = thread::spawn(move || {
            kernel.0.lock().unwrap().0.packets += 1;
            there.of(1).settle(0);
            kernel.0.lock().unwrap().0.packets += 1;
            there.of(1).settle(0);
        });
        account.of(0).settle(0);
        other.join().unwrap();
        let mut share = account.of(0);
        assert_eq!((0..3).filter(|_| share.admit(0)).count(), 1, "three are there at once, of which two are spent");
    });
}

/// A keeper in memory, as the kernel half is one.
#[derive(Debug, Default)]
struct Keeper(Mutex<HashMap<u64, Value>>);

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
fn no_change_of_soft_state_is_lost_in_any_order() {
    in_every_order(|| {
        let state = Arc::new(crate::remade::state(16));
        let there = state.clone();
        let other = thread::spawn(move || {
            for key in [7, 8] {
                there.change(key, Change::Add(1), 60_000, 0).unwrap();
            }
        });
        for key in [8, 7] {
            state.change(key, Change::Add(1), 60_000, 0).unwrap();
        }
        other.join().unwrap();
        let kept = [7, 8].map(|key| number(&state.value(key, 0).unwrap().unwrap()));
        assert_eq!((kept, state.counts().held), ([2, 2], 2));
    });
}

#[test]
fn no_change_is_lost_while_all_moves_to_the_kernel_half_in_any_order() {
    in_every_order(|| {
        let state = Arc::new(crate::remade::state(16));
        state.change(7, Change::Add(1), 60_000, 0).unwrap();
        let there = state.clone();
        let other = thread::spawn(move || {
            let mut before = 1;
            for _ in 0..2 {
                let now = there.change(7, Change::Add(1), 60_000, 0).unwrap();
                assert_eq!(now, before + 1);
                before = now;
            }
        });
        let keeper: Arc<dyn SharedState> = Arc::new(Keeper::default());
        state.move_to(&keeper, 0);
        let seen = number(&state.value(7, 0).unwrap().unwrap());
        assert!((1..=3).contains(&seen), "{seen}");
        other.join().unwrap();
        assert_eq!(keeper.value(7, 0).unwrap().as_ref().map(number), Some(3));
    });
}
