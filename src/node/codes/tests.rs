//! Which code gives way to which, and whose.

use super::*;
use crate::code::bundle::Kind;
use crate::code::bundle::{Manifest, ManifestLayer};
use crate::code::judge::{Claim, Grant};
use crate::core::domain::DomainId;
use crate::trust::Roles;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
const HERE: Payer = Payer(0);
const THERE: Payer = Payer(1);

fn name(number: u32) -> Digest {
    Digest::of(&number.to_be_bytes())
}

fn ready(now: u64) -> Code {
    let layer = ManifestLayer { kind: Kind::Wasm, digest: name(0), size: 1 };
    let manifest = Arc::new(Manifest::new("t", 0, vec![layer]).unwrap());
    let claim = Claim { code: name(0), manifest, credentials: None };
    let coming = Coming { claim, grant: None, representation: None, bpf: None, linked: None, asked_again: false };
    let grant = Grant::of_anyone(&Roles::default());
    Code::Ready(Box::new(Ready::new(coming, (Kind::Wasm, grant), SlotId::default(), DomainId(0), now)))
}

fn runs(codes: &mut Codes, number: u32, packets: u32, now: u64) {
    assert!((0..packets).all(|_| matches!(codes.find(&name(number), now, HERE), FoundCode::Ready { .. })), "{number}");
}

#[test]
fn a_flood_of_codes_displaces_itself_and_not_what_has_work() {
    let mut codes = Codes::new(16);
    codes.enter(name(0), ready(0), 0, Some(HERE));
    runs(&mut codes, 0, 1000, 0);
    for number in 1..200u32 {
        // Four new codes a second, one packet each; the old one is silent.
        let now = u64::from(number) * SECOND / 4;
        codes.enter(name(number), ready(now), now, Some(HERE));
        runs(&mut codes, number, 1, now);
    }
    runs(&mut codes, 0, 1, 50 * SECOND);
}

#[test]
fn what_the_kernel_half_runs_is_busy_here_too() {
    let mut codes = Codes::new(2);
    codes.enter(name(0), ready(0), 0, Some(HERE));
    codes.enter(name(1), ready(0), 0, Some(HERE));
    runs(&mut codes, 1, 10, 5 * SECOND);
    let now = 9 * SECOND;
    codes.ready().filter(|(known, _)| **known == name(0)).for_each(|(_, ready)| ready.ran_in_kernel(3, now));
    assert_eq!(codes.enter(name(2), ready(now), now, Some(HERE)).map(|gone| gone.name), Some(name(1)));
}

#[test]
fn what_runs_now_gives_way_to_nobody_and_what_rests_for_long_counts_for_little() {
    let mut codes = Codes::new(3);
    for (number, packets, now) in [(0, 1000, 0), (1, 1, 99 * SECOND), (2, 1, 100 * SECOND)] {
        codes.enter(name(number), ready(now), now, Some(HERE));
        runs(&mut codes, number, packets, now);
    }
    let gone =
        |codes: &mut Codes, number, now| codes.enter(name(number), ready(now), now, Some(HERE)).map(|gone| gone.name);
    let now = 100 * SECOND;
    assert_eq!(gone(&mut codes, 3, now), Some(name(0)), "idle for longest");
    assert_eq!(gone(&mut codes, 4, now), Some(name(1)), "the others have run just now");
    runs(&mut codes, 4, 1, now);
    let refused = Code::Refused { until: now, why: String::new(), reason: Reason::CodeRefused };
    assert_eq!(codes.enter(name(5), refused, now, Some(HERE)).map(|gone| gone.name), Some(name(3)), "never used");
    assert_eq!(gone(&mut codes, 6, now), Some(name(5)), "refusals first");
}

/// Enters code of somebody's that then runs so many packets of his; gives what had to go.
fn brings(codes: &mut Codes, number: u32, whose: Payer, packets: u32, now: u64) -> Option<u32> {
    let gone = codes.enter(name(number), ready(now), now, Some(whose)).map(|gone| gone.name);
    (0..packets).for_each(|_| _ = codes.find(&name(number), now, whose));
    (0..1000).find(|number| gone == Some(name(*number)))
}

#[test]
fn who_brings_more_codes_than_there_is_room_for_displaces_his_own_however_busy_they_are() {
    let mut codes = Codes::new(8);
    (0..3).for_each(|number| assert_eq!(brings(&mut codes, number, THERE, 1, 0), None));
    for number in 100..400 {
        // The others have rested for long; all of his are busy, and one is on its way.
        let now = 50 * SECOND + u64::from(number);
        if number % 2 == 0 {
            let coming = || match ready(now) {
                Code::Ready(ready) => Coming {
                    claim: ready.claim,
                    grant: None,
                    representation: None,
                    bpf: None,
                    linked: None,
                    asked_again: false,
                },
                _ => unreachable!(),
            };
            let gone = codes.enter(name(number), Code::Coming(Box::new(coming())), now, Some(HERE));
            assert!(gone.is_none_or(|gone| gone.whose == Some(HERE)), "{number}");
        } else {
            assert!(brings(&mut codes, number, HERE, 1000, now).is_none_or(|gone| gone >= 100), "{number}");
        }
    }
    let left = |number| matches!(codes.of(&name(number)), Some(Code::Ready(_)));
    assert!((0..3).all(left));
    assert_eq!(codes.displaced, 300 - 5);
}

#[test]
fn who_has_less_takes_from_whoever_has_most_until_both_have_as_much() {
    let mut codes = Codes::new(8);
    (0..8).for_each(|number| _ = brings(&mut codes, number, HERE, 1000, 0));
    let gone: Vec<_> = (10..18).map(|number| brings(&mut codes, number, THERE, 1, 0).unwrap()).collect();
    assert!(gone[..4].iter().all(|gone| *gone < 8), "{gone:?}");
    assert!(
        gone[4..].iter().all(|gone| *gone >= 10),
        "who brings one more than others have displaces his own: {gone:?}"
    );
}

#[test]
fn what_others_use_too_is_his_who_brought_it_and_goes_after_his_others() {
    let mut codes = Codes::new(4);
    (0..4).for_each(|number| _ = brings(&mut codes, number, HERE, 1000, 0));
    // His packets come back by a neighbour, which brings nothing: the codes are not its.
    (0..4).for_each(|number| _ = codes.find(&name(number), 0, THERE));
    assert_eq!(codes.whose(&name(0)), Some(HERE));
    brings(&mut codes, 10, THERE, 1, 0);
    (20..30).for_each(|number| _ = brings(&mut codes, number, HERE, 1000, 0));
    assert_eq!(codes.whose(&name(10)), Some(THERE));
    let mut codes = Codes::new(3);
    (0..3).for_each(|number| _ = brings(&mut codes, number, HERE, 1000 * number, 0));
    codes.find(&name(0), 0, THERE);
    assert_eq!(brings(&mut codes, 3, HERE, 100, 0), Some(1), "another uses the one that is used least");
    // A while later nobody else does.
    let now = 2 * HALVES;
    assert_eq!(brings(&mut codes, 4, HERE, 1, now), Some(0));
}

#[test]
fn code_that_no_packet_has_brought_is_his_who_uses_it_first() {
    let mut codes = Codes::new(2);
    codes.enter(name(0), ready(0), 0, None);
    assert_eq!(codes.whose(&name(0)), None);
    codes.find(&name(0), 0, THERE);
    codes.find(&name(0), 0, HERE);
    assert_eq!(codes.whose(&name(0)), Some(THERE));
}

#[test]
fn a_refusal_that_is_over_goes_before_all_others_and_one_that_is_not_is_its_senders() {
    let mut codes = Codes::new(3);
    let refused = |until| Code::Refused { until, why: String::new(), reason: Reason::CodeRefused };
    codes.enter(name(0), refused(SECOND), 0, Some(THERE));
    (1..3).for_each(|number| _ = brings(&mut codes, number, HERE, number, 0));
    assert_eq!(brings(&mut codes, 3, HERE, 1, 0), Some(1), "it has more");
    assert_eq!(brings(&mut codes, 4, HERE, 1, SECOND), Some(0));
}

/// Whoever goes from the last place to the first meets each that stays, whatever comes and goes meanwhile.
#[test]
fn who_looks_at_codes_place_by_place_meets_each_that_stays() {
    let mut codes = Codes::new(10_000);
    (0..1000).for_each(|number| drop(codes.enter(name(number), ready(0), 0, None)));
    let (mut met, mut left) = (std::collections::HashSet::new(), codes.places());
    while let Some(place) = left.checked_sub(1) {
        left = place;
        met.extend(codes.at(place).map(|(name, _)| name));
        let turn = (1000 - place) as u32;
        // Of the first thousand a third goes, in another order than they are looked at, and others come.
        if turn.is_multiple_of(3) {
            codes.remove(&name(turn * 7 % 1000));
        }
        codes.enter(name(2000 + turn), ready(0), 0, None);
    }
    let stayed = |number: &u32| codes.of(&name(*number)).is_some();
    assert!((0..1000).filter(stayed).count() > 600);
    assert!((0..1000).filter(stayed).all(|number| met.contains(&name(number))));
    // Each has one place, and each place one.
    let all: std::collections::HashSet<_> = (0..codes.places()).map(|place| codes.at(place).unwrap().0).collect();
    assert_eq!((all.len(), codes.places()), (codes.iter().count(), codes.iter().count()));
    codes.forget_coming(|_| false);
    assert_eq!(codes.places(), codes.iter().count());
}
