//! Work beside packets, such as the receipt of a batch, charged to flows.

use super::super::tree::AHEAD_NS;
use super::*;

const SECOND: u64 = 1000 * MS;

#[test]
fn work_beside_packets_is_paid_for_by_share() {
    for (own, others) in [(100, 100), (100, 300)] {
        let mut scheduler = PathScheduler::new(Policy::Wfq);
        assert!(scheduler.enter(0, weight(own), 0) && scheduler.enter(1, weight(others), 0));
        scheduler.wake(1, 0);
        let (mut beside, mut packets) = (0, 0);
        for _ in 0..10_000 {
            // The first sends no packets, but causes work whenever it may.
            if !scheduler.is_ahead(0) {
                scheduler.bill(0, 300 * US, 0);
                beside += 300 * US;
            }
            assert_eq!(scheduler.next(0), Some(1));
            scheduler.charge(1, 100 * US, true, 0);
            packets += 100 * US;
        }
        let ratio = (packets * u64::from(own)) as f64 / (beside * u64::from(others)) as f64;
        assert!((0.95..1.05).contains(&ratio), "{beside} {packets}");
        // Its own packets come after those of who has had less, and alone it waits for nobody.
        scheduler.wake(0, 0);
        (0..3).for_each(|_| scheduler.bill(0, 3 * MS, 0));
        assert_eq!(scheduler.next(0), Some(1));
        scheduler.charge(1, 100 * US, false, 0);
        assert!(!scheduler.is_ahead(0) && scheduler.next(0) == Some(0));
    }
}

/// An environment of this weight always has packets, of which the worker uses 1 µs and a process, that is told later,
/// the rest; another one has packets of 10 µs. What each has had in the end.
fn beside_a_process(policy: Policy, weights: [u32; 2], below: usize, told_each: u64) -> [u64; 2] {
    let mut scheduler = PathScheduler::new(policy);
    assert!(scheduler.enter(0, weight(weights[0]), 0) && scheduler.enter(1, weight(weights[1]), 0));
    let own = if below == 0 { 0..1 } else { 2..2 + below };
    own.clone()
        .skip(usize::from(below == 0))
        .for_each(|flow| assert!(scheduler.enter_below(flow, Some(0), weight(100), 0)));
    own.clone().chain([1]).for_each(|flow| scheduler.wake(flow, 0));
    let (mut had, mut untold, mut now) = ([0, 0], 0, 0);
    for _ in 0..200_000 {
        let Some(flow) = scheduler.next(now) else { panic!("nobody waits") };
        let cost = if flow == 1 { 10 * US } else { US };
        now += cost;
        scheduler.charge(flow, cost, true, now);
        had[usize::from(flow == 1)] += cost;
        if flow != 1 {
            (untold, now) = (untold + 20 * US, now + 20 * US);
            had[0] += 20 * US;
        }
        if untold >= told_each {
            scheduler.bill_apart(0, core::mem::take(&mut untold), now);
        }
        scheduler.tree.check();
    }
    had
}

#[test]
fn what_a_process_used_is_paid_by_its_environment_and_all_below_it() {
    for policy in [Policy::Wfq, Policy::Edf, Policy::Bert] {
        for (weights, below) in [([100, 100], 0), ([100, 400], 0), ([100, 400], 30), ([700, 100], 3)] {
            let had = beside_a_process(policy, weights, below, 10 * MS);
            let wanted = f64::from(weights[0]) / f64::from(weights[0] + weights[1]);
            let share = had[0] as f64 / (had[0] + had[1]) as f64;
            assert!((share - wanted).abs() < 0.01, "{}: {share} in the place of {wanted}", policy.name());
        }
    }
}

#[test]
fn what_was_used_while_nobody_waited_costs_no_turn() {
    let mut scheduler = PathScheduler::new(Policy::Wfq);
    assert!(scheduler.enter(0, weight(100), 0) && scheduler.enter(1, weight(100), 0));
    scheduler.bill_apart(0, 10 * MS, 0);
    scheduler.wake(1, 0);
    assert!(!scheduler.is_ahead(0), "nobody waited");
    scheduler.bill_apart(0, 10 * MS, 0);
    assert!(scheduler.is_ahead(0) && !scheduler.is_ahead(7), "somebody did");
}

#[test]
fn a_debt_has_a_bound() {
    let mut scheduler = PathScheduler::new(Policy::Wfq);
    assert!(scheduler.enter(0, weight(100), 0) && scheduler.enter(1, weight(100), 0));
    (0..2).for_each(|flow| scheduler.wake(flow, 0));
    (0..1000).for_each(|_| scheduler.bill_apart(0, 100 * MS, 0));
    let mut others = 0;
    while scheduler.next(0) == Some(1) {
        scheduler.charge(1, MS, true, 0);
        others += MS;
    }
    assert!((1000 * MS..=1200 * MS).contains(&others), "{others}");
}

#[test]
fn one_bill_is_held_to_the_same_bound() {
    for (weights, first) in [([100, 100], 0), ([100, 400], 0), ([300, 100], 800 * MS)] {
        let mut scheduler = PathScheduler::new(Policy::Wfq);
        (0..2).for_each(|flow| assert!(scheduler.enter(flow, weight(weights[flow]), 0)));
        (0..2).for_each(|flow| scheduler.wake(flow, 0));
        for cost in [first, 1000 * SECOND] {
            scheduler.bill_apart(0, cost, 0);
        }
        let mut others = 0;
        while scheduler.next(0) == Some(1) {
            scheduler.charge(1, MS, true, 0);
            others += MS;
        }
        let wanted = SECOND * u64::from(weights[1]) / u64::from(weights[0]);
        assert!((wanted * 99 / 100..=wanted * 12 / 10).contains(&others), "{others} of {wanted}");
    }
}

#[test]
fn what_the_worker_has_worked_for_one_is_counted_beyond_the_end_of_its_time() {
    let mut scheduler = PathScheduler::new(Policy::Wfq);
    assert!(scheduler.enter(0, weight(1), 0));
    let (mut before, mut ends) = (0, 0);
    // A turn of 18 minutes moves it by 2⁵⁶, so its time is back at the beginning after 256 of them.
    for _ in 0..600 {
        scheduler.wake(0, 0);
        assert_eq!(scheduler.next(0), Some(0));
        scheduler.charge(0, 1 << 40, false, 0);
        let standing = scheduler.standing(0).unwrap();
        assert!(standing.worked_since(before).abs_diff(1 << 40) < 1000, "{standing:?}");
        ends += u32::from(standing.moved < before);
        before = standing.moved;
    }
    assert_eq!(ends, 2);
}

#[test]
fn a_standing_says_who_was_served_and_who_is_ahead() {
    let mut scheduler = PathScheduler::new(Policy::Wfq);
    assert!(scheduler.enter(0, weight(100), 0) && scheduler.enter(1, weight(300), 0));
    assert!(scheduler.enter_below(2, Some(0), weight(50), 0));
    (1..3).for_each(|flow| scheduler.wake(flow, 0));
    assert_eq!(scheduler.standing(0), Some(Standing { weight: 100, served: false, ahead: false, moved: 0 }));
    scheduler.bill(0, 3 * MS, 0);
    assert_eq!(scheduler.standing(0).map(|it| it.ahead), Some(false), "a little is paid beforehand");
    scheduler.bill(0, AHEAD_NS, 0);
    assert_eq!(scheduler.standing(0).map(|it| it.ahead), Some(true));
    assert_eq!(scheduler.next(0), Some(1), "the one below it is ahead with it");
    scheduler.charge(1, MS, false, 0);
    assert_eq!(scheduler.next(0), Some(2));
    scheduler.charge(2, 7 * MS, false, 0);
    let worked = scheduler.standing(0).map_or(0, |it| it.worked_since(0));
    assert!(worked.abs_diff(7 * MS) < 1000, "turns below it are its, bills are not: {worked}");
    assert_eq!(scheduler.served_weight(), 400, "the second counts with the first");
    scheduler.begin_interval();
    assert_eq!((scheduler.served_weight(), scheduler.standing(0).map(|it| it.served)), (0, Some(false)));
    scheduler.wake(1, 0);
    assert_eq!(scheduler.next(0), Some(1));
    scheduler.charge(1, MS, false, 0);
    assert_eq!([0, 1].map(|flow| scheduler.standing(flow).map(|it| it.served)), [Some(false), Some(true)]);
    scheduler.leave(2);
    assert_eq!((scheduler.served_weight(), scheduler.standing(2)), (300, None));
    assert_eq!(PathScheduler::new(Policy::Priority).standing(0), None);
}
