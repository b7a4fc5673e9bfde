//! Sources that lie about lengths, or do not have the code.

use super::*;
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
        let _ = fetch.wait(CODE, Some(Frame::from_bytes(b"x")), Some(source(peer)));
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

#[test]
fn a_flood_of_names_displaces_the_oldest_search_and_none_that_is_near_its_end() {
    let name = |number: usize| Digest::of(&number.to_be_bytes());
    let frame = || Some(Frame::from_bytes(b"x"));
    let mut fetch = Fetch::new([1; 32]);
    for number in 0..PENDING_MAX {
        assert!(fetch.wait(name(number), frame(), Some(source(0))).1.is_empty());
    }
    fetch.preparing(name(0));
    fetch.next_object(name(1), CODE, 10);
    let (step, displaced) = fetch.wait(name(1000), frame(), Some(source(0)));
    assert!(step.is_some() && displaced.len() == 1);
    assert!(fetch.is_pending(&name(0)) && fetch.is_pending(&name(1)) && !fetch.is_pending(&name(2)));
    let all: Vec<Digest> = fetch.pending.iter().map(|pending| pending.code).collect();
    all.into_iter().for_each(|code| fetch.preparing(code));
    let (step, displaced) = fetch.wait(name(1001), frame(), Some(source(0)));
    assert!(step.is_none() && displaced.len() == 1, "the new one has to go");
    assert!(!fetch.is_pending(&name(1001)));
}

#[test]
fn what_is_fetched_beside_a_code_holds_nobody_up_and_ends_alone() {
    let (mut fetch, _) = asked();
    fetch.preparing(CODE);
    assert_eq!(fetch.beside(CODE, BESIDE, 9), Some(Step::LookUp(BESIDE)));
    let (steps, given) = fetch.looked_up(0, BESIDE, None);
    assert!(given.is_empty() && matches!(&steps[..], [Step::Request { digest, .. }] if *digest == BESIDE), "{steps:?}");
    assert_eq!(fetch.settle(CODE).count(), 2, "the code is ready without it");
    assert!(!fetch.is_pending(&CODE) && fetch.len() == 1, "it is still on its way");
    fetch.end_beside(&CODE);
    assert!(fetch.is_empty());
    // Of a code that nobody can be asked for.
    let _ = fetch.wait(CODE, None, None);
    assert_eq!(fetch.beside(CODE, BESIDE, 9), Some(Step::LookUp(BESIDE)));
    let (steps, given) = fetch.looked_up(0, BESIDE, None);
    assert!(given.is_empty() && steps == [Step::Alone(CODE)], "{steps:?}");
    assert!(fetch.is_pending(&CODE), "the code itself is looked for all the same");
}
