//! Sources that lie about lengths, or do not have the code.

use super::*;
use crate::frame::Payer;
use crate::wire::fetch;

const CODE: Digest = Digest([7; 32]);
const BESIDE: Digest = Digest([8; 32]);

fn source(peer: u16) -> Source {
    Source { port: PortId(0), peer: PeerId(peer), addr: Addr::UNSPECIFIED }
}

/// A code on its way that two sources can be asked for, and the first request.
fn asked() -> (Fetch, Step) {
    let mut fetch = Fetch::new([1; 32]);
    for peer in [0, 1] {
        let _ = fetch.wait(0, CODE, Some(Frame::from_bytes(b"x")), Some(source(peer)));
    }
    let (mut steps, given) = fetch.looked_up(0, CODE, None);
    assert!(given.is_empty() && steps.len() == 1);
    (fetch, steps.remove(0))
}

fn request(step: &Step) -> (Source, u32, u64) {
    let Step::Request { source, nonce, missing, .. } = step else { panic!("no request: {step:?}") };
    (*source, *nonce, *missing)
}

/// The first part of an object of `total` octets.
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
fn frame(peer: u16) -> Option<Frame> {
    let mut frame = Frame::from_bytes(b"x");
    (frame.peer, frame.payer) = (PeerId(peer), Payer(peer));
    Some(frame)
}

/// A fetcher with as many codes of one neighbour on their way as can be, all asked for at 0.
fn full() -> Fetch {
    let mut fetch = Fetch::new([1; 32]);
    for number in 0..PENDING_MAX {
        let (steps, given) = fetch.wait(0, name(number), frame(0), Some(source(0)));
        assert!(steps == [Step::LookUp(name(number))] && given.is_empty());
        assert_eq!(fetch.looked_up(0, name(number), None).0.len(), 1);
    }
    fetch
}

#[test]
fn what_finds_no_place_waits_for_one_and_is_looked_for_then() {
    let mut fetch = full();
    for number in PENDING_MAX..PENDING_MAX + 900 {
        let (steps, given) = fetch.wait(1, name(number), frame(0), Some(source(0)));
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
    let (steps, given) = fetch.wait(RETRY + 1, name(1000), frame(0), Some(source(0)));
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
        given += fetch.wait(1, name(number), frame(0), Some(source(0))).1.len();
    }
    assert_eq!((given, fetch.queued()), (QUEUED_MAX, QUEUED_MAX));
    // Others have a share of the places at once.
    for number in 0..PENDING_MAX / 2 {
        let (steps, _) = fetch.wait(2, name(number + 10_000), frame(1), Some(source(1)));
        assert_eq!(steps, [Step::LookUp(name(number + 10_000))], "{number}");
    }
    assert!(fetch.wait(2, name(20_000), frame(1), Some(source(1))).0.is_empty());
    for number in 0..8 {
        let (_, gone) = fetch.wait(3, name(number + 30_000), frame(1), Some(source(1)));
        assert!(gone.iter().all(|gone| gone.reason == Reason::FetchFull));
        assert!(fetch.is_pending(&name(number + 30_000)));
    }
}

#[test]
fn names_that_a_stranger_makes_up_are_one_lane_and_displace_nobody() {
    let mut fetch = full();
    let forged = |number: usize| {
        let addr = Addr::v4((number as u32).to_be_bytes());
        (frame(PeerId::NONE.0), Some(Source { port: PortId(0), peer: PeerId::NONE, addr }))
    };
    let flood = |fetch: &mut Fetch, numbers: core::ops::Range<usize>| {
        numbers.flat_map(|number| fetch.wait(1, name(number), forged(number).0, forged(number).1).1).count()
    };
    flood(&mut fetch, 1000..1000 + QUEUED_MAX);
    for number in 0..100 {
        let (_, gone) = fetch.wait(2, name(number + 10_000), frame(1), Some(source(1)));
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
    let (steps, given) = fetch.looked_up(0, BESIDE, None);
    assert!(given.is_empty() && matches!(&steps[..], [Step::Request { digest, .. }] if *digest == BESIDE), "{steps:?}");
    assert_eq!(fetch.settle(CODE).count(), 2, "the code is ready without it");
    assert!(!fetch.is_pending(&CODE) && fetch.len() == 1, "it is still on its way");
    fetch.end_beside(&CODE);
    assert!(fetch.is_empty());
    // Of a code that nobody can be asked for.
    let _ = fetch.wait(0, CODE, None, None);
    assert_eq!(fetch.beside(0, CODE, BESIDE, 9).unwrap().0, [Step::LookUp(BESIDE)]);
    let (steps, given) = fetch.looked_up(0, BESIDE, None);
    assert!(given.is_empty() && steps == [Step::Alone(CODE)], "{steps:?}");
    assert!(fetch.is_pending(&CODE), "the code itself is looked for all the same");
}
