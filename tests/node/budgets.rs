//! One budget of which several workers spend.

use anode::core::common::account::LEASE;
use anode::core::common::{CommonAccount, Lease};
use anode::core::share::{SharedAccount, Spent};
use anode::trust::limits::Limits;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

const MS: u64 = 1_000_000;

fn limits(packets_per_second: u64) -> Limits {
    Limits { packets_per_second, steps_per_second: u64::MAX, ..Limits::default() }
}

struct Worker {
    share: Lease,
    admitted: u64,
}

impl Worker {
    fn admit(&mut self, now: u64) -> bool {
        let admitted = self.share.admit(now);
        self.admitted += u64::from(admitted);
        admitted
    }
}

/// So many workers that share a budget of so many packets a second, of which a tenth at once.
fn workers_of(count: u16, rate: u64) -> (Arc<CommonAccount>, Vec<Worker>) {
    let account = Arc::new(CommonAccount::new(count, &limits(rate)));
    let workers = (0..count).map(|id| Worker { share: account.of(id), admitted: 0 }).collect();
    (account, workers)
}

fn workers(count: u16) -> Vec<Worker> {
    workers_of(count, 10_000).1
}

#[test]
fn several_workers_admit_what_one_would() {
    for count in [1, 2, 7] {
        let mut workers = workers(count);
        // Each millisecond 100 packets come to each: all of them many times the rate.
        for ms in 0..2_000u64 {
            for _ in 0..100 {
                workers.iter_mut().for_each(|worker| _ = worker.admit(ms * MS));
            }
        }
        let admitted: u64 = workers.iter().map(|worker| worker.admitted).sum();
        let budget = 10_000 * 2 + 1_000;
        assert!((budget - 100..=budget).contains(&admitted), "{admitted} with {count}");
    }
}

/// On threads of their own, as fast as they can, by clocks that run apart.
#[test]
fn threads_admit_no_more_than_the_budget_and_its_leases() {
    let account = Arc::new(CommonAccount::new(2, &limits(1_000_000)));
    let barrier = Barrier::new(2);
    let admitted: u64 = std::thread::scope(|scope| {
        let run = |id: u16| {
            let (mut share, barrier) = (account.of(id), &barrier);
            scope.spawn(move || {
                barrier.wait();
                (0..2_000_000u64).filter(|at| share.admit(at * (3 + u64::from(id)))).count() as u64
            })
        };
        [run(0), run(1)].map(|thread| thread.join().unwrap()).iter().sum()
    });
    // Until 8 ms by the faster clock.
    let budget = 1_000 * 8 + 100_000;
    assert!((budget - 200..=budget + 2 * LEASE).contains(&admitted), "{admitted}");
    let leased = account.leased();
    assert_eq!(leased.leased_packets, admitted + leased.out_packets);
}

#[test]
fn an_idle_worker_leaves_its_part_to_others() {
    let mut workers = workers(2);
    for ms in 0..1_000u64 {
        for _ in 0..100 {
            workers[1].admit(ms * MS);
        }
    }
    assert!((10_900..=11_000).contains(&workers[1].admitted), "{}", workers[1].admitted);
}

#[test]
fn a_worker_that_was_idle_has_all_that_is_there() {
    let mut workers = workers(2);
    // A tenth of the budget, for a minute, by one of them.
    (0..60_000u64).for_each(|ms| _ = workers[0].admit(ms * MS));
    assert_eq!(workers[0].admitted, 60_000);
    (60_000..61_000u64).for_each(|ms| _ = workers[1].admit(ms * MS));
    assert_eq!(workers[1].admitted, 1_000);
}

#[test]
fn a_flood_at_one_worker_leaves_what_they_need_to_rare_packets_at_another() {
    let (_, mut workers) = workers_of(2, 20_000);
    // A packet each 10 µs at the one: five times the budget. One in a millisecond, each time 10 µs later, at the other.
    for at in 0..1_000_000u64 {
        let now = at * 10_000;
        workers[0].admit(now);
        if at % 100 == at / 100 % 100 {
            workers[1].admit(now + 5_000);
        }
    }
    let admitted = workers.iter().map(|worker| worker.admitted).sum::<u64>();
    assert!((202_000 - 60..=202_000).contains(&admitted), "{admitted}");
    assert!(workers[1].admitted >= 9_900, "{} of 10,000", workers[1].admitted);
}

/// Bursts of one flow, which comes to one of many workers: all is admitted, as by one worker alone.
#[test]
fn a_worker_alone_has_whole_bursts_at_any_rate() {
    for (rate, count, burst, each_ms) in [(640, 64, 10, 20), (80, 8, 6, 100), (20, 2, 2, 200), (1000, 64, 80, 100)] {
        let (_, mut workers) = workers_of(count, rate);
        for ms in (0..20_000).step_by(each_ms) {
            assert!((0..burst).all(|_| workers[0].admit(ms as u64 * MS)), "{rate} a second, {count} workers, {ms} ms");
        }
    }
}

/// Senders at random moments, with half of an equal part each, beside a flood.
#[test]
fn a_flood_at_one_worker_leaves_a_part_to_those_who_send_at_random_moments() {
    use rand_core::{Rng, SeedableRng};
    for (rate, count) in [(32_000u64, 2u16), (32_000, 4), (1_000, 4)] {
        let (_, mut workers) = workers_of(count, rate);
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
        // Five times the rate at the first, in 20 s.
        let (step, mut sent) = (1_000_000_000 / (5 * rate), 0);
        for at in 0..100 * rate {
            workers[0].admit(at * step);
            for worker in &mut workers[1..] {
                if u64::from(rng.next_u32()) * 10 * u64::from(count) < u64::from(u32::MAX) {
                    sent += 1;
                    worker.admit(at * step + step / 2);
                }
            }
        }
        let admitted: u64 = workers[1..].iter().map(|worker| worker.admitted).sum();
        assert!(admitted as f64 > 0.97 * f64::from(sent), "{rate} a second, {count} workers: {admitted} of {sent}");
        let all = admitted + workers[0].admitted;
        assert!((rate * 20..=rate * 20 + rate / 10).contains(&all), "{all} at {rate}");
    }
}

#[test]
fn two_floods_have_about_half_each() {
    let (_, mut workers) = workers_of(2, 20_000);
    for at in 0..1_000_000u64 {
        workers[0].admit(at * 10_000);
        workers[1].admit(at * 10_000 + at % 10 * 1_000);
    }
    let admitted = workers.iter().map(|worker| worker.admitted).collect::<Vec<_>>();
    assert!(admitted.iter().all(|admitted| (80_000..=122_000).contains(admitted)), "{admitted:?}");
    assert!(admitted.iter().sum::<u64>() <= 202_000, "{admitted:?}");
}

#[test]
fn a_rare_packet_is_admitted_beside_a_third_of_the_budget_elsewhere() {
    let mut workers = workers(2);
    for ms in 0..20_000u64 {
        (0..3).for_each(|_| _ = workers[0].admit(ms * MS));
        if ms % 2_000 == 1_999 {
            workers[1].admit(ms * MS);
        }
    }
    assert_eq!((workers[0].admitted, workers[1].admitted), (60_000, 10));
}

#[test]
fn a_small_budget_is_taken_packet_by_packet() {
    let (_, mut workers) = workers_of(2, 100);
    for _ in 0..30 {
        workers.iter_mut().for_each(|worker| _ = worker.admit(0));
    }
    assert_eq!(workers.iter().map(|worker| worker.admitted).collect::<Vec<_>>(), [5, 5]);
}

#[test]
fn steps_that_are_used_up_stop_all_workers_and_leave_the_leases() {
    let limits = Limits { steps_per_second: 1_000_000_000, packets_per_second: 1_000_000, ..Limits::default() };
    let account = Arc::new(CommonAccount::new(2, &limits));
    let mut shares = [0, 1].map(|id| account.of(id));
    assert!(shares[0].admit(0) && shares[1].admit(0));
    // A tenth of a second's steps are there at once, and a packet takes twice that.
    shares[0].charge(0, 200_000_000);
    assert!(!shares[0].admit(0) && !shares[0].has_steps(0));
    // The other has a lease, and looks with the next one at the latest.
    assert_eq!((1..=LEASE).filter(|_| shares[1].admit(0)).count() as u64, LEASE - 1);
    assert!(!shares[1].admit(99 * MS) && shares[1].admit(101 * MS));
    let out = account.leased().out_packets;
    assert!(shares[0].admit(101 * MS));
    assert_eq!(account.leased().out_packets, out - 1, "of the lease that it has still");
}

/// The kernel half's part of a budget.
#[derive(Debug, Default)]
struct Kernel {
    spent: [AtomicU64; 2],
    told: [AtomicU64; 2],
}

impl SharedAccount for Kernel {
    fn spent(&self) -> Spent {
        let [packets, steps] = self.spent.each_ref().map(|word| word.load(Relaxed));
        Spent { packets, steps, refused: 0 }
    }

    fn spend(&self, packets: u64, steps: u64) {
        self.told[0].fetch_add(packets, Relaxed);
        self.told[1].fetch_add(steps, Relaxed);
    }
}

#[test]
fn what_the_kernel_half_spends_is_charged_once_and_it_is_told_what_is_taken() {
    for count in [1, 2] {
        let (account, mut workers) = workers_of(count, 10_000);
        let kernel = Arc::new(Kernel::default());
        kernel.spent[0].store(5_000, Relaxed);
        let shared: Arc<dyn SharedAccount> = kernel.clone();
        account.join_kernel(&shared);
        assert!(workers[0].admit(0), "what was spent before does not count");
        let lease = if count == 1 { 1 } else { 10 };
        assert_eq!(kernel.told[0].load(Relaxed), lease, "what comes back in a millisecond is taken at a time");
        // 1,000 are there at once, of which the kernel half has 700.
        kernel.spent[0].store(5_700, Relaxed);
        (0..2_000).for_each(|at| _ = workers[at % usize::from(count)].admit(0));
        let admitted: u64 = workers.iter().map(|worker| worker.admitted).sum();
        assert_eq!((admitted, kernel.told[0].load(Relaxed)), (300, 300));
        // Ten more than there are: they are paid back first.
        kernel.spent[0].store(5_710, Relaxed);
        workers[0].share.settle(0);
        assert!(!workers[0].admit(MS) && workers[0].admit(2 * MS));
    }
}

#[test]
fn a_role_that_changes_changes_the_budget_once_whoever_says_so() {
    let (_, mut workers) = workers_of(2, 10_000);
    (0..2_000).for_each(|at| _ = workers[at % 2].admit(0));
    for worker in &mut workers {
        worker.share.renew(0, &limits(100_000));
    }
    assert!(workers.iter_mut().all(|worker| !worker.admit(0)), "what is used up stays so");
    assert!(workers[0].admit(MS) && workers[1].admit(MS));
}

#[test]
fn what_is_out_is_said() {
    let account = Arc::new(CommonAccount::new(3, &limits(u64::MAX)));
    let mut shares = [1, 2].map(|id| account.of(id));
    assert_eq!(account.leased().out_packets_max, 3 * (LEASE - 1));
    shares[0].charge(0, 7);
    assert!((0..LEASE).all(|_| shares[0].admit(0)));
    assert!((0..5).all(|_| shares[1].admit(0)));
    let leased = account.leased();
    assert_eq!((leased.leased_packets, leased.out_packets), (2 * LEASE, LEASE - 5));
    assert_eq!((leased.charged_steps, leased.out_steps), (0, 7));
    shares[0].charge(0, 1 << 16);
    assert_eq!((account.leased().charged_steps, account.leased().out_steps), (7 + (1 << 16), 0));
}
