//! One budget that several workers spend: buckets of their own, which tell each other.

use anode::core::bucket::TokenBucket;
use anode::core::common::CommonAccount;
use anode::core::common::account::SHARE;
use anode::core::share::OtherHalf;
use std::sync::Arc;

/// A worker with a bucket of its own.
struct Worker {
    other: OtherHalf,
    packets: TokenBucket,
    steps: TokenBucket,
    admitted: u64,
}

impl Worker {
    fn admit(&mut self, now: u64) {
        self.other.settle(now, &mut self.packets, &mut self.steps);
        if self.packets.take(now, 1) {
            self.other.spend(1, 0);
            self.admitted += 1;
        }
    }
}

/// So many workers that share a budget of 10,000 packets a second, of which 1,000 at once.
fn workers(count: u16) -> Vec<Worker> {
    let account = Arc::new(CommonAccount::new(count));
    let worker = |id| Worker {
        other: OtherHalf::new(account.of(id)),
        packets: TokenBucket::new(10_000, 1_000),
        steps: TokenBucket::new(u64::MAX, u64::MAX),
        admitted: 0,
    };
    (0..count).map(worker).collect()
}

#[test]
fn several_workers_admit_what_one_would() {
    for count in [1, 2, 7] {
        let mut workers = workers(count);
        // Each millisecond 100 packets come to each: all of them many times the rate.
        for ms in 0..2_000u64 {
            for _ in 0..100 {
                workers.iter_mut().for_each(|worker| worker.admit(ms * 1_000_000));
            }
        }
        let admitted: u64 = workers.iter().map(|worker| worker.admitted).sum();
        let budget = 10_000 * 2 + 1_000;
        assert!(admitted >= budget - 100, "{admitted} with {count}");
        assert!(admitted <= budget + SHARE * u64::from(count), "{admitted} with {count}");
    }
}

#[test]
fn an_idle_worker_leaves_its_part_to_others() {
    let mut workers = workers(2);
    for ms in 0..1_000u64 {
        for _ in 0..100 {
            workers[1].admit(ms * 1_000_000);
        }
    }
    assert!((10_900..=11_000).contains(&workers[1].admitted), "{}", workers[1].admitted);
}

#[test]
fn a_worker_that_was_idle_is_not_charged_more_than_the_budget() {
    let mut workers = workers(2);
    // A tenth of the budget, for a minute, by one of them.
    for ms in 0..60_000u64 {
        workers[0].admit(ms * 1_000_000);
    }
    assert_eq!(workers[0].admitted, 60_000);
    for ms in 60_000..61_000u64 {
        workers[1].admit(ms * 1_000_000);
    }
    // What the first one has spent could have been just now: it takes a moment until something is there for certain.
    assert!(workers[1].admitted >= 999, "{}", workers[1].admitted);
}

#[test]
fn a_rare_packet_is_admitted_beside_a_third_of_the_budget_elsewhere() {
    let mut workers = workers(2);
    for ms in 0..20_000u64 {
        let now = ms * 1_000_000;
        (0..3).for_each(|_| workers[0].admit(now));
        if ms % 100 == 0 {
            workers.iter_mut().for_each(|worker| worker.other.charge(now, &mut worker.packets, &mut worker.steps));
        }
        if ms % 2_000 == 1_999 {
            workers[1].admit(now);
        }
    }
    assert_eq!((workers[0].admitted, workers[1].admitted), (60_000, 10));
}

#[test]
fn a_small_budget_is_told_at_once() {
    let account = Arc::new(CommonAccount::new(2));
    let mut workers = [0, 1].map(|id| Worker {
        other: OtherHalf::new(account.of(id)),
        packets: TokenBucket::new(100, 10),
        steps: TokenBucket::new(u64::MAX, u64::MAX),
        admitted: 0,
    });
    for _ in 0..30 {
        workers.iter_mut().for_each(|worker| worker.admit(0));
    }
    assert_eq!(workers.map(|worker| worker.admitted), [5, 5]);
}

#[test]
fn what_is_out_is_said() {
    let account = Arc::new(CommonAccount::new(3));
    let mut halves = [1, 2].map(|id| OtherHalf::new(account.of(id)));
    let (mut packets, mut steps) = (TokenBucket::new(u64::MAX, 1), TokenBucket::new(u64::MAX, 1));
    halves.iter_mut().for_each(|half| half.settle(0, &mut packets, &mut steps));
    halves[0].spend(SHARE - 1, 7);
    assert_eq!((account.leased().told_packets, account.leased().out_packets), (0, SHARE - 1));
    halves[0].spend(1, 0);
    halves[1].spend(5, 0);
    let leased = account.leased();
    assert_eq!((leased.told_packets, leased.out_packets, leased.out_packets_max), (SHARE, 5, 3 * (SHARE - 1)));
    assert_eq!((leased.told_steps, leased.out_steps), (7, 0));
}
