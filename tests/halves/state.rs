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

/// The same of `tests/guests/changes.c`.
const MAX: u8 = 1;
const RENEW: u8 = 3;

/// A capsule of `state.c` that does this with soft state.
fn capsule(code: Digest, operation: u8, key: u64, number: u64) -> Vec<u8> {
    frame(&header(code), &[&asked(operation, key)[..], &[0; 8], &number.to_le_bytes(), &[0; 56]].concat(), false)
}

/// One of `changes.c`.
fn change(code: Digest, operation: u8, key: u64, number: u64) -> Vec<u8> {
    frame(&header(code), &[&asked(operation, key)[..], &number.to_le_bytes(), &[0; 72]].concat(), false)
}

fn asked(operation: u8, key: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[0] = operation;
    bytes[4..8].copy_from_slice(&KEEP_MS.to_be_bytes());
    bytes[8..].copy_from_slice(&key.to_le_bytes());
    bytes
}

/// A code that both halves run, on one clock; `first` is a capsule of it, for which the user half fetches and compiles it.
fn shared(guest: &str, first: impl Fn(Digest) -> Vec<u8>) -> Option<(Place, Digest, Clock)> {
    let mut place = Place::new()?;
    let code = place.add_guest(guest);
    place.user(&first(code));
    let clock = Clock::start();
    place.half().set_origin(clock.origin()).unwrap();
    place.share_state(1, code);
    Some((place, code, clock))
}

/// The words of what is kept.
fn words(place: &Place, code: Digest, key: u64, now: u64) -> Option<Vec<u64>> {
    let value = SharedState::value(place.state(code), key, now).unwrap()?;
    Some(value.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// Four keys of one set, of so many sets (`set_place` of bpf/state.h).
fn neighbours(sets: u32) -> Vec<u64> {
    let place = |key: &u64| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 & (sets - 1);
    (1..).filter(|key| place(key) == place(&1)).take(4).collect()
}

impl Kept for CodeState {
    fn value(&mut self, key: u64, now: u64) -> Option<Value> {
        SharedState::value(self, key, now).unwrap()
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
    assert_eq!(SharedState::value(&state, 1, 2).unwrap().map(|value| value[0]), Some(7));
}

/// Both halves change one entry, and each another one of the same set, as fast as they can.
#[test]
fn what_both_halves_change_at_once_is_exact() {
    const ROUNDS: usize = 20_000;
    let Some((mut place, code, clock)) = shared("state", |code| capsule(code, PUT, 0, 0)) else { return };
    let keys = neighbours(place.state(code).sets());
    let [both, kernels, users, put] = keys[..] else { unreachable!() };
    let frames = [capsule(code, ADD, both, 1), capsule(code, ADD, kernels, 3)];
    place.at_once(&frames, ROUNDS, |user| {
        for round in 1..=ROUNDS as u64 {
            let own = [capsule(code, ADD, both, 1), capsule(code, ADD, users, 5), capsule(code, PUT, put, round)];
            own.iter().for_each(|capsule| user.put(clock.now(), 0, capsule));
        }
        user.take();
    });
    let sums: Vec<_> = keys.iter().map(|key| words(&place, code, *key, clock.now()).map(|words| words[0])).collect();
    let rounds = ROUNDS as u64;
    assert_eq!(sums, [2 * rounds, 3 * rounds, 5 * rounds, rounds].map(Some));
}

/// A value whose words belong together is only ever seen as a whole, and a maximum never falls.
#[test]
fn what_both_halves_exchange_at_once_belongs_together() {
    const ROUNDS: usize = 20_000;
    let Some((mut place, code, clock)) = shared("changes", |code| change(code, MAX, 0, 0)) else { return };
    let [both, most, ..] = neighbours(place.state(code).sets())[..] else { unreachable!() };
    let frames = [change(code, RENEW, both, 3), change(code, MAX, most, 7), change(code, RENEW, both, 3)];
    place.at_once(&frames, ROUNDS, |user| {
        for round in 1..=ROUNDS as u64 {
            let own = [change(code, RENEW, both, 3), change(code, MAX, most, round)];
            own.iter().for_each(|capsule| user.put(clock.now(), 0, capsule));
        }
        user.take();
    });
    let [renewed, sum, ..] = words(&place, code, both, clock.now()).unwrap()[..] else { unreachable!() };
    assert_eq!(sum, 3 * renewed, "each exchange counts in both words");
    // Whoever loses eight times gives up; of two halves one always wins.
    assert!((2 * ROUNDS as u64..=3 * ROUNDS as u64).contains(&renewed), "{renewed}");
    assert_eq!(words(&place, code, most, clock.now()).unwrap()[0], ROUNDS as u64);
}
