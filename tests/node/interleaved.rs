//! What several workers share, under every order of their threads' steps (loom): the budget and the soft state of a code.
//!
//! The files of the node are modules of this program once more, made of loom's atomics and locks in the place of std's.
//! Rings between workers are of a crate that tests them so itself.

use crate::remade::account::{CommonAccount, SHARE};
use anode::core::bucket::TokenBucket;
use anode::core::kept::{Change, Page, Refused, SharedState, Value, number};
use anode::core::share::{OtherHalf, SharedAccount, Spent};
use loom::thread;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// In every order of steps with at most two changes of thread where none had to be.
fn in_every_order(work: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(work);
}

/// The kernel half's part of a budget: what it was told.
#[derive(Debug, Default)]
struct Told(Mutex<u64>);

impl SharedAccount for Told {
    fn kernel(&self) -> Spent {
        Spent::default()
    }

    fn spend(&self, packets: u64, _: u64) {
        *self.0.lock().unwrap() += packets;
    }
}

#[test]
fn what_workers_spend_is_told_whole_and_once_in_every_order() {
    in_every_order(|| {
        let account = Arc::new(CommonAccount::new(2));
        let kernel = Arc::new(Told::default());
        let (there, told) = (account.clone(), kernel.clone());
        let other = thread::spawn(move || {
            let own = there.of(1);
            let mut before = 0;
            for _ in 0..2 {
                let seen = own.kernel().packets;
                assert!(seen >= before && seen % SHARE == 0 && seen <= 2 * SHARE, "{seen} behind {before}");
                before = seen;
                own.spend(SHARE, 0);
            }
            // The kernel half begins to spend of it meanwhile.
            let half: Arc<dyn SharedAccount> = told;
            there.share(&half);
            own.spend(SHARE, 0);
        });
        let own = account.of(0);
        own.spend(SHARE, 0);
        own.spend(SHARE, 0);
        other.join().unwrap();
        assert_eq!((own.kernel().packets, account.of_others(1).packets), (3 * SHARE, 2 * SHARE));
        let half = *kernel.0.lock().unwrap();
        assert!((SHARE..=3 * SHARE).contains(&half) && half % SHARE == 0, "{half}");
    });
}

#[test]
fn what_two_workers_spend_of_one_budget_reaches_both_in_every_order() {
    const BUDGET: u64 = 3 * SHARE;
    const RATE: u64 = 2000 * SHARE;
    in_every_order(|| {
        let account = Arc::new(CommonAccount::new(2));
        let admit = |account: Arc<dyn SharedAccount>| {
            let mut other = OtherHalf::new(account);
            let (mut packets, mut steps) = (TokenBucket::new(RATE, BUDGET), TokenBucket::new(u64::MAX, u64::MAX));
            let mut admitted = 0;
            for _ in 0..4 {
                other.settle(0, &mut packets, &mut steps);
                if packets.take(0, SHARE) {
                    admitted += SHARE;
                    other.spend(SHARE, 0);
                }
            }
            (admitted, other, packets, steps)
        };
        let there = account.of(1);
        let other = thread::spawn(move || admit(there));
        let both = [admit(account.of(0)), other.join().unwrap()];
        let sum: u64 = both.iter().map(|(admitted, ..)| admitted).sum();
        // Here a worker may see as late as it likes what the other has told; `budgets.rs` has the bound for those that see it.
        assert!((BUDGET..=2 * BUDGET).contains(&sum), "{sum}");
        for (_, mut other, mut packets, mut steps) in both {
            other.settle(0, &mut packets, &mut steps);
            assert!(!packets.has_any(0), "now each has been told all: {sum}");
        }
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
