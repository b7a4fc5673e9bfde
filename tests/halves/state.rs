//! Soft state of one code in both halves at once.

use crate::place::{Place, frame, header};
use crate::rules::{KEEP_MS, Kept, hold};
use anode::core::state_store::{Change, Refused, SharedState, Value};
use anode::kernel::CodeState;
use anode::sys::clock::Clock;
use anode::wire::Digest;

/// What a capsule of `tests/guests/state.c` asks for.
const PUT: u8 = 2;
const ADD: u8 = 3;

/// A capsule that does this with soft state.
fn capsule(code: Digest, operation: u8, key: u64, number: u64) -> Vec<u8> {
    let mut payload = vec![operation, 0, 0, 0];
    payload.extend(KEEP_MS.to_be_bytes());
    payload.extend(key.to_le_bytes());
    payload.extend([0; 8]);
    payload.extend(number.to_le_bytes());
    payload.extend([0; 56]);
    frame(&header(code), &payload, false)
}

/// Four keys of one set, of so many sets (`set_place` of bpf/state.h).
fn neighbours(sets: u32) -> Vec<u64> {
    let place = |key: &u64| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 & (sets - 1);
    (1..).filter(|key| place(key) == place(&1)).take(4).collect()
}

impl Kept for CodeState {
    fn value(&mut self, key: u64, now: u64) -> Option<Value> {
        SharedState::value(self, key, now)
    }

    fn change(&mut self, key: u64, change: Change<'_>, keep_ms: u32, now: u64) -> Result<u64, Refused> {
        SharedState::change(self, key, change, keep_ms, now)
    }
}

#[test]
fn the_rules_of_soft_state_hold_in_the_kernel() {
    let Some(_root) = Place::new() else { return };
    // Of one set, so that all keys are neighbours, and of many.
    for entries in [1, 1024] {
        hold(|| CodeState::create(entries, KEEP_MS).unwrap());
    }
}

/// The worker of a node has no capability when it runs.
#[test]
fn who_holds_the_state_changes_it_without_any_privilege() {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let Some(_root) = Place::new() else { return };
    let state = CodeState::create(1, KEEP_MS).unwrap();
    let nothing = CapabilitySet::empty();
    // Those of this thread, which ends with the test.
    set_capabilities(None, CapabilitySets { effective: nothing, permitted: nothing, inheritable: nothing }).unwrap();
    assert!(CodeState::create(1, KEEP_MS).is_err(), "to make one needs some");
    assert_eq!(SharedState::change(&state, 1, Change::Add(7), KEEP_MS, 1), Ok(7));
    assert_eq!(SharedState::value(&state, 1, 2).map(|value| value[0]), Some(7));
}

/// Both halves change one entry, and each another one of the same set, as fast as they can.
#[test]
fn what_both_halves_change_at_once_is_exact() {
    const ROUNDS: usize = 20_000;
    let Some(mut place) = Place::new() else { return };
    let code = place.add_guest("state");
    // The user half fetches and compiles it for the first.
    place.user(&capsule(code, PUT, 0, 0));
    let clock = Clock::start();
    place.half().set_origin(clock.origin()).unwrap();
    place.share_state(1, code);
    let keys = neighbours(place.state(code).sets());
    let [both, kernels, users, put] = keys[..] else { unreachable!() };
    let frames = [capsule(code, ADD, both, 1), capsule(code, ADD, kernels, 3)];
    place.at_once(&frames, ROUNDS, |user| {
        for round in 1..=ROUNDS as u64 {
            for capsule in [capsule(code, ADD, both, 1), capsule(code, ADD, users, 5), capsule(code, PUT, put, round)] {
                user.put(clock.now(), 0, &capsule);
            }
        }
        user.take();
    });
    let sum =
        |key: &u64| SharedState::value(place.state(code), *key, clock.now()).map(|value| value.as_chunks::<8>().0[0]);
    let sums: Vec<_> = keys.iter().map(|key| sum(key).map(u64::from_le_bytes)).collect();
    let rounds = ROUNDS as u64;
    assert_eq!(sums, [2 * rounds, 3 * rounds, 5 * rounds, rounds].map(Some));
}
