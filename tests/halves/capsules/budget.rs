//! One budget over both halves: capsules flood both, and the admitted ones together stay within the rate.

use crate::place::{Came, Place, frame, header};
use anode::core::reason::Reason;
use anode::sys::clock::Clock;
use anode::trust::limits::{Limits, OverBudget};

/// Packets that a CPU of the kernel half takes at once.
const SHARE: u64 = 64;
const SECOND: u64 = 1_000_000_000;

/// A place whose codes have these limits, and a code that both halves run.
fn place(limits: Limits) -> Option<(Place, Vec<u8>)> {
    let mut place = Place::within(limits)?;
    let code = place.add_guest("forward");
    let bytes = frame(&header(code), b"payload", false);
    // The user half fetches and compiles it for the first.
    assert!(matches!(place.user(&bytes), Came::Sent(_)));
    place.share_state(1, code);
    Some((place, bytes))
}

fn cpus() -> u64 {
    std::thread::available_parallelism().unwrap().get() as u64
}

#[test]
fn both_halves_together_admit_what_the_domain_may() {
    const RATE: u64 = 4000;
    let Some((mut place, bytes)) = place(Limits { packets_per_second: RATE, ..Limits::default() }) else { return };
    let clock = Clock::start();
    // A node's clock begins when its bucket is full; from the first nanosecond on there is nothing left of bursts.
    while matches!(place.user_at(1 + clock.now(), &bytes), Came::Sent(_))
        || matches!(place.kernel(&bytes), Came::Sent(_))
    {}
    let (begin, mut admitted) = (clock.now(), [0u64; 2]);
    while clock.now() - begin < SECOND {
        for _ in 0..50 {
            admitted[0] += u64::from(matches!(place.kernel(&bytes), Came::Sent(_)));
            admitted[1] += u64::from(matches!(place.user_at(1 + clock.now(), &bytes), Came::Sent(_)));
        }
    }
    let passed = clock.now() - begin;
    let most = RATE * passed / SECOND + 1 + SHARE * cpus() + 1;
    assert!(admitted[0] + admitted[1] <= most, "{admitted:?}, where {most} may in {passed} ns");
    assert!(admitted.iter().all(|some| *some > 0), "both had some: {admitted:?}");
}

#[test]
fn what_the_user_half_spends_the_kernel_half_does_not_have() {
    let Some((mut place, bytes)) = place(Limits { packets_per_second: 1000, ..Limits::default() }) else { return };
    // At one instant of its clock the user half spends what is left of its hundred, and the kernel half then has no share.
    let spent = (0..200).filter(|_| matches!(place.user(&bytes), Came::Sent(_))).count() as u64;
    let clock = Clock::start();
    let sent = (0..200).filter(|_| matches!(place.kernel(&bytes), Came::Sent(_))).count() as u64;
    let most = 101 - spent.min(101) + clock.now() / 1_000_000 + 1 + SHARE * cpus();
    assert!((98..=100).contains(&spent) && sent <= most, "{spent} and {sent}, where {most} may");
    // A low rate comes back in parts, however often somebody looks.
    let clock = Clock::start();
    while !matches!(place.kernel(&bytes), Came::Sent(_)) {
        assert!(clock.now() < 20 * SECOND, "nothing came back");
    }
}

#[test]
fn code_that_stays_over_its_budget_is_removed_from_both_halves_for_a_time() {
    let limits = Limits {
        packets_per_second: 10,
        over_budget: OverBudget::Remove,
        over_budget_s: 3,
        removed_s: 5,
        ..Limits::default()
    };
    let Some((mut place, bytes)) = place(limits) else { return };
    // Only the kernel half is flooded; the user half's clock goes on by a second each time.
    for second in 1..=3 {
        while !matches!(place.kernel(&bytes), Came::Dropped) {}
        place.timer(second * SECOND + 1);
        assert_eq!(place.removed(), second == 3, "in second {second}");
    }
    assert!(matches!(place.kernel(&bytes), Came::Up(_)), "the kernel half does not know it any more");
    assert_eq!(place.user_at(4 * SECOND, &bytes), Came::DroppedFor(Reason::Removed));
    assert!(matches!(place.user_at(9 * SECOND, &bytes), Came::Sent(_)), "found anew");
}

#[test]
fn a_second_without_drops_forgives() {
    let limits =
        Limits { packets_per_second: 10, over_budget: OverBudget::Remove, over_budget_s: 2, ..Limits::default() };
    let Some((mut place, bytes)) = place(limits) else { return };
    for second in 1..=6 {
        if second % 2 == 1 {
            while !matches!(place.user_at(second * SECOND, &bytes), Came::DroppedFor(Reason::Budget)) {}
        }
        place.timer(second * SECOND + 1);
    }
    assert!(!place.removed());
}
