//! Sources that lie about lengths, or do not have the code.

use super::*;
use crate::frame::Payer;
use crate::trust::object_name;
use crate::wire::fetch;

const CODE: Digest = Digest([7; 32]);
const BESIDE: Digest = Digest([8; 32]);

fn source(peer: u16) -> Source {
    Source { port: PortId(0), peer: PeerId(peer), addr: Addr::UNSPECIFIED }
}

const TOLL: Toll = Toll { unit: 1500, around: 8 };

/// A capsule that may pay so many units.
fn waiter(frame: Frame, source: Source, means: u32) -> Option<Waiter> {
    Some(Waiter { frame, source: Some(source), toll: TOLL, means, paid: 0 })
}

/// A code on its way that two sources can be asked for, and the first request.
fn asked() -> (Fetch, Step) {
    let mut fetch = Fetch::new([1; 32]);
    for peer in [0, 1] {
        let _ = fetch.wait(0, CODE, waiter(Frame::from_bytes(b"x"), source(peer), 1000));
    }
    let (mut steps, given) = fetch.looked_up(0, CODE, None);
    assert!(given.is_empty() && steps.len() == 1);
    (fetch, steps.remove(0))
}

fn request(step: &Step) -> (Source, u32, u64) {
    let Step::Request { source, nonce, missing, .. } = step else { panic!("no request: {step:?}") };
    (*source, *nonce, *missing)
}

/// The first part of an object of `total` bytes.
fn first_part(nonce: u32, total: u32) -> Part<'static> {
    Part { nonce, digest: CODE, part: 0, total, bytes: &[0; fetch::PART] }
}

/// What is asked next, when it is due.
fn next(fetch: &mut Fetch, now: &mut u64) -> Option<(Source, u32, u64)> {
    *now = fetch.deadline()?;
    let (steps, _) = fetch.expire(*now);
    steps.first().map(request)
}

#[test]
fn of_two_lengths_neither_is_believed_and_the_second_source_is_asked_anew() {
    let (mut fetch, step) = asked();
    let (first, nonce, missing) = request(&step);
    assert_eq!((first, missing), (source(0), 1));
    fetch.part(1, source(0), first_part(nonce, 5000)).unwrap();
    assert_eq!(fetch.part(2, source(1), first_part(nonce, 3000)), Err(Reason::FetchHash));
    assert_eq!(fetch.part(2, source(1), first_part(nonce, 3000)), Err(Reason::FetchSpoofed), "a nonce counts once");
    let (asked, again, missing) = next(&mut fetch, &mut 0).unwrap();
    assert_eq!((asked, missing), (source(1), 1));
    assert_ne!(again, nonce);
    let steps = fetch.part(3, source(1), first_part(again, 3000)).unwrap();
    assert_eq!(request(&steps[0]), (source(1), again, 0b110), "its word is taken now");
}

#[test]
fn sources_that_disagree_for_ever_are_given_up() {
    let (mut fetch, step) = asked();
    let (mut who, mut nonce, _) = request(&step);
    let (mut now, mut rounds) = (1, 0);
    while !fetch.is_empty() {
        rounds += 1;
        let _ = fetch.part(now, who, first_part(nonce, 5000));
        let _ = fetch.part(now, who, first_part(nonce, 4000));
        if let Some((source, fresh, _)) = next(&mut fetch, &mut now) {
            (who, nonce) = (source, fresh);
        }
    }
    assert!(rounds <= FAILURES_MAX, "{rounds} rounds");
}

#[test]
fn a_length_holds_for_the_source_that_said_it_only() {
    let (mut fetch, step) = asked();
    let (_, nonce, _) = request(&step);
    fetch.part(1, source(0), first_part(nonce, 64 << 10)).unwrap();
    let mut now = 1;
    let asked: Vec<_> = (0..TURN_MAX + 1).filter_map(|_| next(&mut fetch, &mut now)).collect();
    let (last, _, missing) = asked[asked.len() - 1];
    assert_eq!((last, missing), (source(1), 1), "all of the object is asked for again: {asked:?}");
}

#[test]
fn a_source_without_the_code_has_one_turn() {
    let (mut fetch, step) = asked();
    let (_, nonce, _) = request(&step);
    assert_eq!(fetch.absent(1, source(0), nonce, CODE), Ok(None));
    assert_eq!(next(&mut fetch, &mut 0).map(|(source, ..)| source), Some(source(1)));
}

fn name(number: usize) -> Digest {
    Digest::of(&number.to_be_bytes())
}

/// A capsule of a neighbour that its port knows.
fn frame(peer: u16) -> Frame {
    let mut frame = Frame::from_bytes(b"x");
    (frame.peer, frame.payer) = (PeerId(peer), Payer(peer));
    frame
}

fn of(peer: u16) -> Option<Waiter> {
    waiter(frame(peer), source(peer), 1000)
}

/// A fetcher with as many codes of one neighbour on their way as can be, all asked for at 0.
fn full() -> Fetch {
    let mut fetch = Fetch::new([1; 32]);
    for number in 0..PENDING_MAX {
        let (steps, given) = fetch.wait(0, name(number), of(0));
        assert!(steps == [Step::LookUp(name(number))] && given.is_empty());
        assert_eq!(fetch.looked_up(0, name(number), None).0.len(), 1);
    }
    fetch
}

#[test]
fn what_finds_no_place_waits_for_one_and_is_looked_for_then() {
    let mut fetch = full();
    for number in PENDING_MAX..PENDING_MAX + 900 {
        let (steps, given) = fetch.wait(1, name(number), of(0));
        assert!(steps.is_empty() && given.is_empty(), "all others have just been asked for");
    }
    assert_eq!((fetch.len(), fetch.queued(), fetch.waiting()), (PENDING_MAX, 900, PENDING_MAX + 900));
    assert!(fetch.is_pending(&name(PENDING_MAX + 899)));
    // Each that is settled makes room for the next.
    for number in 0..PENDING_MAX + 900 {
        assert_eq!(fetch.settle(name(number)).count(), 1, "{number}");
        fetch.expire(1);
    }
    assert!(fetch.is_empty());
}

#[test]
fn a_flood_of_names_that_nobody_answers_lets_others_pass_and_ends() {
    let mut fetch = full();
    fetch.preparing(name(0));
    fetch.expire(RETRY);
    let (steps, given) = fetch.wait(RETRY + 1, name(1000), of(0));
    assert!(steps == [Step::LookUp(name(1000))] && given.is_empty(), "the oldest that is not answered gives way");
    assert_eq!(fetch.looked_up(RETRY + 1, name(1000), None).0.len(), 1);
    assert!(fetch.is_pending(&name(1)) && fetch.queued() == 1 && fetch.is_preparing(&name(0)));
    fetch.settle(name(0)).for_each(drop);
    let (mut given, mut now) = (0, RETRY + 1);
    while let Some(due) = fetch.deadline() {
        now = due.max(now + 1);
        let (steps, gone) = fetch.expire(now);
        for step in steps {
            if let Step::LookUp(digest) = step {
                let _ = fetch.looked_up(now, digest, None);
            }
        }
        assert!(gone.iter().all(|gone| gone.reason == Reason::FetchTimeout));
        given += gone.len();
    }
    assert_eq!((given, fetch.waiting()), (PENDING_MAX, 0), "each is counted once");
}

#[test]
fn who_wants_much_displaces_itself() {
    let mut fetch = full();
    let mut given = 0;
    for number in 100..100 + 2 * QUEUED_MAX {
        given += fetch.wait(1, name(number), of(0)).1.len();
    }
    assert_eq!((given, fetch.queued()), (QUEUED_MAX, QUEUED_MAX));
    // Others have a share of the places at once.
    for number in 0..PENDING_MAX / 2 {
        let (steps, _) = fetch.wait(2, name(number + 10_000), of(1));
        assert_eq!(steps, [Step::LookUp(name(number + 10_000))], "{number}");
    }
    assert!(fetch.wait(2, name(20_000), of(1)).0.is_empty());
    for number in 0..8 {
        let (_, gone) = fetch.wait(3, name(number + 30_000), of(1));
        assert!(gone.iter().all(|gone| gone.reason == Reason::FetchFull));
        assert!(fetch.is_pending(&name(number + 30_000)));
    }
}

#[test]
fn names_that_a_stranger_makes_up_are_one_lane_and_displace_nobody() {
    let mut fetch = full();
    let forged = |number: usize| {
        let addr = Addr::v4((number as u32).to_be_bytes());
        waiter(frame(PeerId::NONE.0), Source { port: PortId(0), peer: PeerId::NONE, addr }, 1000)
    };
    let flood = |fetch: &mut Fetch, numbers: core::ops::Range<usize>| {
        numbers.flat_map(|number| fetch.wait(1, name(number), forged(number)).1).count()
    };
    flood(&mut fetch, 1000..1000 + QUEUED_MAX);
    for number in 0..100 {
        let (_, gone) = fetch.wait(2, name(number + 10_000), of(1));
        assert!(gone.iter().all(|gone| gone.frame.peer == PeerId::NONE), "{number}");
    }
    assert_eq!(flood(&mut fetch, 20_000..20_000 + 3 * QUEUED_MAX), 3 * QUEUED_MAX, "each displaces another of its own");
    assert!((0..100).all(|number| fetch.is_pending(&name(number + 10_000))));
}

#[test]
fn what_is_beside_a_code_is_looked_for_until_it_is_here() {
    let mut fetch = full();
    fetch.preparing(name(0));
    let (steps, given) = fetch.beside(1, name(0), BESIDE, 9).unwrap();
    assert!(steps.is_empty() && given.is_empty() && fetch.queued() == 1, "it waits for a place");
    (1..PENDING_MAX).for_each(|number| drop(fetch.settle(name(number))));
    let (mut now, mut asked) = (1, 0);
    while asked < 100 {
        now = fetch.deadline().unwrap().max(now + 1);
        for step in fetch.expire(now).0 {
            match step {
                Step::LookUp(digest) => drop(fetch.looked_up(now, digest, None)),
                Step::Request { digest, .. } => asked += usize::from(digest == BESIDE),
                _ => panic!("{step:?}"),
            }
        }
    }
    fetch.end_beside(&name(0));
    assert_eq!((fetch.len(), fetch.queued()), (1, 0));
}

#[test]
fn what_is_fetched_beside_a_code_holds_nobody_up_and_ends_alone() {
    let (mut fetch, _) = asked();
    fetch.preparing(CODE);
    assert_eq!(fetch.beside(0, CODE, BESIDE, 9).unwrap().0, [Step::LookUp(BESIDE)]);
    let _ = fetch.looked_up(0, BESIDE, None);
    let (steps, given) = fetch.expire(0);
    assert!(given.is_empty() && matches!(&steps[..], [Step::Request { digest, .. }] if *digest == BESIDE), "{steps:?}");
    assert_eq!(fetch.settle(CODE).count(), 2, "the code is ready without it");
    assert!(!fetch.is_pending(&CODE) && fetch.len() == 1, "it is still on its way");
    fetch.end_beside(&CODE);
    assert!(fetch.is_empty());
    // Of a code that nobody can be asked for.
    let _ = fetch.wait(0, CODE, None);
    assert_eq!(fetch.beside(0, CODE, BESIDE, 9).unwrap().0, [Step::LookUp(BESIDE)]);
    let (steps, given) = fetch.looked_up(0, BESIDE, None);
    assert!(given.is_empty() && steps == [Step::Alone(CODE)], "{steps:?}");
    assert!(fetch.is_pending(&CODE), "the code itself is looked for all the same");
}

/// A capsule of the first source with so many units waits for a code that is asked for.
fn asked_with(means: u32) -> (Fetch, Vec<Step>) {
    let mut fetch = Fetch::new([1; 32]);
    let _ = fetch.wait(0, CODE, waiter(frame(0), source(0), means));
    let (steps, _) = fetch.looked_up(0, CODE, None);
    (fetch, steps)
}

/// Bytes that these steps send and ask for, of objects of this length.
fn bytes_of(steps: &[Step], length: Option<u32>) -> u64 {
    let cost =
        |step: &Step| if let Step::Request { missing, .. } = step { TOLL.of_request(*missing, length) } else { 0 };
    steps.iter().map(cost).sum()
}

#[test]
fn a_request_costs_itself_and_its_answers() {
    let whole = fetch::PART_HEADER as u64 + 1024 + 8;
    assert_eq!(TOLL.of_request(1, None), fetch::padded_request_len(1) as u64 + 8 + whole);
    assert_eq!(TOLL.of_request(0b11, Some(1030)), fetch::padded_request_len(2) as u64 + 8 + whole + 44 + 6 + 8);
    assert_eq!(TOLL.of_parts(0b1_1111, Some(5120)), TOLL.of_request(0b1111, None) + TOLL.of_request(1, None));
}

#[test]
fn who_has_nothing_left_begins_no_search() {
    let (mut fetch, steps) = asked_with(0);
    assert!(steps.is_empty() && fetch.deadline() == Some(0));
    let (steps, given) = fetch.expire(0);
    assert!(steps.is_empty() && fetch.is_empty());
    assert_eq!(given.iter().map(|gone| gone.reason).collect::<Vec<_>>(), [Reason::FetchUnpaid]);
}

#[test]
fn a_search_ends_when_what_is_missing_cannot_be_paid_and_has_caused_no_more_than_was() {
    for means in 1..60 {
        let (mut fetch, mut steps) = asked_with(means);
        let (mut now, mut caused, mut lost) = (0, 0, false);
        let mut length = None;
        while !fetch.is_empty() {
            caused += bytes_of(&steps, length);
            assert!(caused <= u64::from(means) * TOLL.unit, "{means}: {caused}");
            // Every other answer is lost.
            let asked: Vec<_> = steps.iter().filter(|step| matches!(step, Step::Request { .. })).map(request).collect();
            steps = Vec::new();
            for (from, nonce, missing) in asked {
                length = Some(20_000);
                for part in (0..64).filter(|part| missing >> part & 1 == 1) {
                    lost = !lost;
                    if lost {
                        continue;
                    }
                    let bytes = &[0; fetch::PART][..fetch::part_len(part as u16, 20_000).unwrap()];
                    let answer = Part { nonce, digest: CODE, part: part as u16, total: 20_000, bytes };
                    steps.extend(fetch.part(now, from, answer).unwrap_or_default());
                }
            }
            if steps.is_empty() {
                let Some(due) = fetch.deadline() else { break };
                now = due.max(now);
                steps = fetch.expire(now).0;
            }
        }
        assert!(means < 60 || caused > 20_000);
    }
}

#[test]
fn what_a_short_answer_leaves_over_is_not_paid_again() {
    let (mut fetch, steps) = asked_with(9);
    let (_, nonce, _) = request(&steps[0]);
    let whole = [5; 40];
    let digest = object_name(&whole);
    assert!(fetch.settle(CODE).all(|waiter| waiter.paid == 1), "a whole part was asked for");
    let _ = fetch.wait(0, digest, waiter(frame(0), source(0), 9));
    let (steps, _) = fetch.looked_up(0, digest, None);
    assert_ne!(request(&steps[0]).1, nonce);
    let part = Part { nonce: request(&steps[0]).1, digest, part: 0, total: 40, bytes: &whole };
    assert!(matches!(fetch.part(1, source(0), part).unwrap()[..], [Step::Object { .. }]));
    // Nor is what word that there are no credentials leaves over: a module of two hundred bytes is within that.
    fetch.optional_object(digest, BESIDE);
    let (steps, _) = fetch.looked_up(1, BESIDE, None);
    let (_, nonce, _) = request(&steps[0]);
    assert!(matches!(fetch.absent(2, source(0), nonce, BESIDE), Ok(Some(Step::Without { .. }))));
    fetch.next_object(digest, CODE, 200);
    assert_eq!(fetch.looked_up(3, CODE, None).0.len(), 1);
    assert_eq!(fetch.settle(digest).map(|waiter| waiter.paid).collect::<Vec<_>>(), [2]);
}

#[test]
fn those_that_wait_pay_in_order_and_each_for_where_it_came_from() {
    let mut fetch = Fetch::new([1; 32]);
    for (peer, means) in [(0, 1), (1, 0), (1, 5), (0, 2)] {
        let _ = fetch.wait(0, CODE, waiter(frame(peer), source(peer), means));
    }
    let mut asked: Vec<Source> = Vec::new();
    let (mut steps, _) = fetch.looked_up(0, CODE, None);
    while let Some(step) = steps.first() {
        asked.push(request(step).0);
        steps = fetch.deadline().map(|due| fetch.expire(due).0).unwrap_or_default();
        let paid: Vec<u32> =
            fetch.pending.iter().flat_map(|pending| pending.waiting.iter().map(|waiter| waiter.paid)).collect();
        assert!(paid.is_empty() || paid[0] + paid[3] <= 3 && paid[1] == 0 && paid[2] <= 5, "{paid:?}");
    }
    let of = |peer| asked.iter().filter(|from| **from == source(peer)).count();
    assert!(of(0) == 3 && of(1) == 5, "{asked:?}");
}

#[test]
fn what_is_beside_a_code_is_paid_by_who_has_twice_as_much_or_waits_for_one_who_has() {
    const LENGTH: u32 = 4096;
    let fare = TOLL.of_parts(0b1111, Some(LENGTH)).div_ceil(TOLL.unit) as u32;
    for (means, pays) in [(2 * fare + 1, true), (2 * fare, false)] {
        // A unit is spent on the manifest.
        let (mut fetch, _) = asked_with(means);
        fetch.preparing(CODE);
        let _ = fetch.beside(0, CODE, BESIDE, LENGTH);
        let _ = fetch.looked_up(0, BESIDE, None);
        let (steps, given) = fetch.expire(0);
        assert!(given.is_empty() && steps.len() == usize::from(pays) && fetch.is_owed() != pays, "{means}: {steps:?}");
        assert_eq!(fetch.settle(CODE).map(|waiter| waiter.paid).sum::<u32>(), if pays { 1 + fare } else { 1 });
        if !pays {
            let whose = Ingress::of(&frame(1));
            assert!(fetch.deadline().is_none() && fetch.pay_owed(1, &CODE, (2 * fare - 1, source(1)), whose).is_none());
            let (paid, steps, _) = fetch.pay_owed(1, &CODE, (2 * fare, source(1)), whose).unwrap();
            assert_eq!((paid, steps, fetch.is_owed()), (fare, vec![Step::LookUp(BESIDE)], false));
            let (steps, _) = fetch.looked_up(1, BESIDE, None);
            let (asked, _, missing) = request(&steps[0]);
            assert_eq!((asked, missing), (source(1), 1), "a little first, and of who has paid");
        }
    }
}
