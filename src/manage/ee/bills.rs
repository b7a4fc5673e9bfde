//! What processes use, charged by the worker to their domains; and what their groups are to weigh, so that they get what is theirs.
//!
//! The order of packets cannot give a process the processor: that is the kernel's. So the two work together. A process that has used more than its
//! share finds its packets waiting, and its group weighs less than its domain; one that has used less has its packets at once, and its group weighs
//! more: twice as much for each [`DOUBLES`] that it is owed. What it is owed is the sum of what it had too little, so it settles where the shares are right. Example:
//! a worker, which weighs 100, runs packets of environments of 300 beside a process of 400. The process's group settles at 133, and it is owed −16 ms.

use super::accounts::Account;
use crate::node::Node;
use crate::schedule::Standing;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Nanoseconds that a process is owed for which its group weighs twice as much.
const DOUBLES: i64 = 10_000_000;

/// The most that one is owed, and the most that it owes: for waiting it gets eight times its weight, not the whole processor for long.
const OWED_MAX: i64 = 3 * DOUBLES;
const OWES_MAX: i64 = 10 * DOUBLES;

/// The accounts of all processes, as the worker charges them.
#[derive(Default)]
pub struct Bills {
    list: Vec<Billed>,
    /// Readings that were charged.
    readings: u64,
}

struct Billed {
    account: Arc<Account>,
    /// Nanoseconds that are charged.
    charged: u64,
    before: Option<Standing>,
    owed: i64,
}

impl Bills {
    /// One more.
    pub fn add(&mut self, account: Arc<Account>) {
        self.list.push(Billed { account, charged: 0, before: None, owed: 0 });
    }

    /// Charges what was read since the last time; to be called before packets come in, so that those who wait have waited for the processor.
    #[inline]
    pub fn charge(&mut self, node: &mut Node, now: u64) {
        let Some(first) = self.list.first() else { return };
        let readings = first.account.readings.load(Ordering::Acquire);
        if readings != self.readings {
            self.readings = readings;
            self.charge_all(node, now);
        }
    }

    #[cold]
    fn charge_all(&mut self, node: &mut Node, now: u64) {
        self.list.retain(|billed| !billed.account.gone.load(Ordering::Relaxed));
        let costs: Vec<_> = self.list.iter_mut().map(|billed| billed.charge(node, now)).collect();
        // All are charged before one is compared with the others.
        for (billed, cost) in self.list.iter_mut().zip(costs) {
            let after = node.standing(billed.account.domain);
            if let Some((before, after)) = billed.before.zip(after) {
                billed.owed = owed(billed.owed, after.owed_since(&before), cost);
                billed.account.wish.store(wish(after.weight(), billed.owed), Ordering::Relaxed);
            }
            billed.before = after;
        }
    }
}

impl Billed {
    fn charge(&mut self, node: &mut Node, now: u64) -> u64 {
        let used = self.account.used.load(Ordering::Relaxed);
        let cost = used.saturating_sub(core::mem::replace(&mut self.charged, used));
        if cost > 0 {
            node.worked_apart(self.account.domain, cost, now);
        }
        cost
    }
}

/// What a process is owed that was owed so much, had so much too little since, and has used so much: who uses nothing saves nothing.
fn owed(before: i64, more: i64, used: u64) -> i64 {
    let most = if used == 0 { 0 } else { OWED_MAX };
    before.saturating_add(more).clamp(-OWES_MAX, most)
}

/// What a group is to weigh.
fn wish(weight: u32, owed: i64) -> u32 {
    let times = (owed as f64 / DOUBLES as f64).exp2();
    (f64::from(weight) * times).round().clamp(1.0, 10_000.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn who_is_owed_weighs_more_and_who_owes_less() {
        let weights = [0, 10, 30, -10, -20, -100].map(|owed| wish(400, owed * MS));
        assert_eq!(weights, [400, 800, 3200, 200, 100, 1]);
        assert_eq!((wish(10_000, OWED_MAX), wish(1, -OWES_MAX)), (10_000, 1));
    }

    #[test]
    fn what_is_owed_has_bounds_and_is_not_saved_by_waiting() {
        assert_eq!(owed(0, 7 * MS, 1), 7 * MS);
        assert_eq!((owed(29 * MS, 7 * MS, 1), owed(0, i64::MIN, 1)), (OWED_MAX, -OWES_MAX));
        assert_eq!((owed(20 * MS, 7 * MS, 0), owed(-20 * MS, 7 * MS, 0)), (0, -13 * MS));
    }
}
