//! Every frame of both halves ends in one counter: received = sent + given to the user half + left + dropped, and so on
//! above.
//!
//! `Place` asserts the same when it goes, so every test of the halves does.

use super::{both, frame, header};
use crate::place::{Came, OWN_LEFT, Place};
use anode::core::ledger::Balance;
use anode::core::reason::Reason;
use anode::wire::{Digest, capsule};

#[test]
fn every_frame_of_both_halves_ends_in_one_counter() {
    let Some(mut place) = Place::new() else { return };
    place.above.open(&[5]);
    let (forward, acts) = (place.add_guest("forward"), place.add_guest("acts"));
    let payload = |verdict: u32| [&verdict.to_be_bytes()[..], &[0; 120]].concat();
    let to_us = |code| capsule::Header { destination: OWN_LEFT, ..header(code) };
    let unknown = header(Digest([9; 32]));
    let before = place.status().balance;
    let mut came = Vec::new();
    for (header, payload) in [
        (header(forward), payload(0)),
        (header(acts), payload(0)),
        (header(acts), payload(7)),
        (to_us(forward), payload(1)),
        (capsule::Header { bound: 0, ..header(forward) }, payload(1)),
        (unknown, payload(1)),
    ] {
        let (_, kernel) = both(&mut place, &frame(&header, &payload, false));
        place.resume(&kernel);
        came.push(kernel);
    }
    let is = |of: fn(&Came) -> bool| came.iter().filter(|came| of(came)).count() as u64;
    let ends = [is(|it| matches!(it, Came::Sent(_))), is(|it| matches!(it, Came::UpRun(_)))];
    let [left, dropped] = [is(|it| matches!(it, Came::Up(_))), is(|it| *it == Came::Dropped)];
    assert!(ends[0] > 0 && ends[1] > 1 && left > 0 && dropped > 0, "{came:?}");
    let moved = place.status().balance.since(&before);
    let expected =
        Balance { received: 6, sent: ends[0], delivered: ends[1], not_ours: left, dropped, ..Balance::default() };
    assert_eq!((moved, moved.unaccounted()), (expected, 0));
    let above = place.above.balance();
    assert_eq!((above.unaccounted(), above.delivered), (0, 2), "{above:?}");
}

#[test]
fn a_redirect_that_does_not_arrive_is_a_drop_and_a_lost_one_shows() {
    let counts = anode::kernel::KernelCounts { received: 5, made: 2, redirected: 6, dropped: 1, ..Default::default() };
    let balance = counts.balance(4);
    assert_eq!((balance.sent, balance.dropped, balance.unaccounted()), (2, 5, 0), "{}", Reason::Undelivered.name());
    // A program that ends a frame without a counter, and one that counts it twice.
    let lost = anode::kernel::KernelCounts { redirected: 5, ..counts };
    let twice = anode::kernel::KernelCounts { punted: 1, ..counts };
    assert_eq!((lost.balance(0).unaccounted(), twice.balance(0).unaccounted()), (1, -1));
}
