//! One token bucket of which several threads take.

use anode::core::bucket::TokenBucket;
use anode::core::common::bucket::CommonBucket;

const MS: u64 = 1_000_000;

#[test]
fn tokens_come_back_at_the_rate_and_stop_at_the_burst() {
    let bucket = CommonBucket::new(1000, 100, 1);
    assert_eq!([64, 64, 64].map(|most| bucket.take(0, (1, most), 0)), [64, 36, 0]);
    assert!(!bucket.has_any(MS / 2) && bucket.has_any(MS));
    assert_eq!([2 * MS, 2 * MS].map(|now| bucket.take(now, (1, 64), 0)), [2, 0]);
    assert_eq!(bucket.take(10_000 * MS, (1, 1000), 0), 100);
}

#[test]
fn any_rate_and_burst_gives_as_many_as_it_says() {
    for (rate, burst) in [(1, 1), (3, 1), (999, 99), (999_983, 99_998), (30_000_001, 3_000_000)] {
        let bucket = CommonBucket::new(rate, burst, 1);
        let all = |now: u64| {
            std::iter::from_fn(|| Some(bucket.take(now, (1, 32), 0)).filter(|taken| *taken > 0)).sum::<u64>()
        };
        let (at_once, later) = (all(0), (1..=10_000u64).map(|ms| all(ms * MS)).sum::<u64>());
        assert!((burst - burst / 10_000..=burst).contains(&at_once), "{rate} {burst}: {at_once}");
        let ten = 10 * rate;
        assert!((ten - ten / 1_000..=ten + 1).contains(&(later)), "{rate} {burst}: {later}");
    }
}

#[test]
fn what_is_to_be_kept_is_left() {
    let bucket = CommonBucket::new(1000, 100, 1);
    assert_eq!([64, 64, 64].map(|most| bucket.take(0, (1, most), 3)), [64, 33, 0]);
    assert_eq!(bucket.take(0, (1, 64), 0), 3);
}

#[test]
fn none_come_back_without_a_rate_and_of_an_endless_one_there_are_always_some() {
    let bucket = CommonBucket::new(0, 1, 1);
    assert_eq!([0, 1_000_000 * MS].map(|now| bucket.take(now, (1, 32), 0)), [1, 0]);
    bucket.charge(0, 5);
    assert!(!bucket.has_any(1_000_000 * MS));
    let endless = CommonBucket::new(u64::MAX, u64::MAX, 1);
    assert!((0..1000).all(|_| endless.take(0, (1, 32), 0) == 32));
    endless.charge(0, 1 << 50);
    assert!(endless.has_any(0));
}

#[test]
fn what_is_overdrawn_is_paid_back_but_for_a_second_at_most() {
    let bucket = CommonBucket::new(100, 10, 1);
    bucket.charge(0, 60);
    assert!(!bucket.has_any(500 * MS) && bucket.has_any(511 * MS));
    bucket.charge(511 * MS, 1_000_000);
    assert!(!bucket.has_any(1_511 * MS) && bucket.has_any(1_522 * MS));
}

#[test]
fn what_was_spent_elsewhere_leaves_a_debt_only_if_it_is_more_than_came_back() {
    let after = |now: u64, spent: u64| {
        let bucket = CommonBucket::new(200, 20, 1);
        bucket.charge_elsewhere(now, spent);
        bucket
    };
    // A minute: 12,000 came back; a bucket that holds 20 is empty at worst.
    assert_eq!(after(60_000 * MS, 1_200).take(60_005 * MS, (1, 20), 0), 1);
    assert_eq!(after(60_000 * MS, 5).take(60_000 * MS, (1, 20), 0), 15);
    let owing = after(60_000 * MS, 12_030);
    assert!(!owing.has_any(60_050 * MS) && owing.has_any(60_056 * MS));
    // At once all of it counts, as far as a debt goes.
    let owing = after(0, 100_000);
    assert!(!owing.has_any(1_000 * MS) && owing.has_any(1_006 * MS));
}

#[test]
fn another_rate_leaves_what_is_there_and_what_is_owed() {
    let bucket = CommonBucket::new(100, 10, 1);
    assert_eq!(bucket.take(0, (1, 4), 0), 4);
    bucket.renew(0, 1000, 100);
    assert_eq!(bucket.take(0, (1, 100), 0), 6);
    bucket.renew(0, 1000, 100);
    assert_eq!([0, MS].map(|now| bucket.take(now, (1, 100), 0)), [0, 1], "the same changes nothing");
    bucket.renew(100 * MS, 10, 1);
    assert_eq!([100 * MS, 101 * MS].map(|now| bucket.take(now, (1, 100), 0)), [1, 0]);
    bucket.charge(101 * MS, 1000);
    bucket.renew(101 * MS, 10_000, 1000);
    assert!(!bucket.has_any(1_100 * MS) && bucket.has_any(1_102 * MS));
}

#[test]
fn who_wants_so_many_at_least_has_them_or_none() {
    let bucket = CommonBucket::new(1000, 100, 1);
    assert_eq!([(80, 90), (80, 90), (10, 90)].map(|wanted| bucket.take(0, wanted, 0)), [90, 0, 10]);
}

#[test]
fn each_thread_may_owe_what_comes_back_in_a_second() {
    let bucket = CommonBucket::new(100, 10, 3);
    bucket.charge(0, 1_000_000);
    assert!(!bucket.has_any(3_000 * MS) && bucket.has_any(3_011 * MS));
}

#[test]
fn a_bucket_of_one_thread_goes_on_here_and_back() {
    let mut own = TokenBucket::new(100, 10);
    own.charge(0, 25);
    let bucket = CommonBucket::going_on_from(&own);
    assert!(!bucket.has_any(150 * MS) && bucket.has_any(161 * MS));
    assert_eq!(bucket.back(50 * MS).tokens(), -10);
    assert_eq!(bucket.back(1_000 * MS).tokens(), 10);
    assert_eq!(CommonBucket::going_on_from(&bucket.back(180 * MS)).take(180 * MS, (1, 10), 0), 3);
}

#[test]
fn a_host_that_has_been_up_for_years_is_no_different() {
    let years = 8 * 365 * 86_400_000 * MS;
    let bucket = CommonBucket::new(1000, 100, 64);
    assert_eq!(bucket.take(years, (1, 200), 0), 100);
    bucket.charge(years, 10_000);
    assert!(!bucket.has_any(years + 9_999 * MS) && bucket.has_any(years + 10_002 * MS));
}
