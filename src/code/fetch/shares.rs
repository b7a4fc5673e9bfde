//! Payers that want the same code, or more than there is room for.

use super::*;
use crate::frame::Payer;
use crate::wire::fetch;

const TOLL: Toll = Toll { unit: 1500, around: 8 };
const CODE: Digest = Digest([7; 32]);
const MEANS: u32 = 100_000;

fn source(peer: u16) -> Source {
    Source { port: PortId(0), peer: PeerId(peer), addr: Addr::UNSPECIFIED }
}

fn of(peer: u16) -> Option<Waiter> {
    let mut frame = Frame::from_bytes(b"x");
    (frame.peer, frame.payer) = (PeerId(peer), Payer(peer));
    Some(Waiter { frame, source: Some(source(peer)), toll: TOLL, means: MEANS, paid: 0 })
}

fn name(number: usize) -> Digest {
    Digest::of(&number.to_be_bytes())
}

/// A fetcher whose places are all taken by codes of one neighbour, which have just been asked for.
fn full() -> Fetch {
    let mut fetch = Fetch::new([1; 32]);
    for number in 0..PENDING_MAX {
        let _ = fetch.wait(0, name(number), of(0));
        let _ = fetch.looked_up(0, name(number), None);
    }
    fetch
}

/// The requests among these steps: whom, and with which nonce.
fn asked(steps: &[Step]) -> Vec<(Source, u32)> {
    let request =
        |step: &Step| if let Step::Request { source, nonce, .. } = step { Some((*source, *nonce)) } else { None };
    steps.iter().filter_map(request).collect()
}

fn part(nonce: u32, number: u16, total: u32, content: u8) -> Part<'static> {
    let bytes = if content == 0 { &[0; fetch::PART] } else { &[1; fetch::PART] };
    Part { nonce, digest: CODE, part: number, total, bytes }
}

#[test]
fn a_code_of_two_has_a_turn_in_the_lane_of_each() {
    let mut fetch = full();
    (1000..1900).for_each(|number| drop(fetch.wait(1, name(number), of(0))));
    let _ = fetch.wait(1, CODE, of(0));
    let (steps, given) = fetch.wait(1, CODE, of(1));
    assert!(given.is_empty() && steps == [Step::LookUp(CODE)], "{steps:?}");
    assert_eq!(asked(&fetch.looked_up(1, CODE, None).0)[0].0, source(1), "whose turn it took");
    // One that is on its way takes the turn of who has fewer.
    let _ = fetch.wait(1, name(9), of(2));
    assert_eq!(fetch.whose(&name(9)), Ingress::Port(PortId(0), Payer(2)));
}

#[test]
fn of_too_many_capsules_whoever_has_most_loses_its_own() {
    let mut fetch = full();
    let _ = fetch.wait(1, CODE, of(0));
    (0..PENDING_MAX / 2).for_each(|number| drop(fetch.wait(1, name(number + 5000), of(1))));
    let _ = fetch.wait(1, name(7000), of(1));
    let mut gone = 0;
    for number in 1000..1000 + QUEUED_MAX {
        for _ in 0..3 {
            let (_, given) = fetch.wait(1, name(number), of(0));
            assert!(given.iter().all(|given| given.frame.peer == PeerId(0) && given.reason == Reason::FetchFull));
            gone += given.len();
        }
    }
    assert!(gone > 500 && fetch.queue.capsules() <= 2048, "{gone}");
    assert!(fetch.is_pending(&name(7000)), "another's stays");
    let counted = fetch.queue.capsules();
    assert_eq!(fetch.waiting() - fetch.pending.iter().map(|pending| pending.waiting.len()).sum::<usize>(), counted);
}

#[test]
fn what_two_wait_for_goes_for_one_of_them_only() {
    let mut fetch = full();
    let _ = fetch.wait(1, name(1000), of(0));
    // The other has its share of the places already, so this stays in the queue.
    (0..PENDING_MAX).for_each(|number| drop(fetch.wait(1, name(number + 5000), of(1))));
    let _ = fetch.wait(1, name(1000), of(1));
    (1001..1001 + 2 * QUEUED_MAX).for_each(|number| drop(fetch.wait(1, name(number), of(0))));
    assert!(fetch.is_pending(&name(1000)));
    assert_eq!(fetch.settle(name(1000)).map(|waiter| waiter.frame.peer).collect::<Vec<_>>(), [PeerId(1)]);
}

#[test]
fn another_payers_neighbour_is_asked_at_once_where_nobody_has_answered() {
    let mut fetch = Fetch::new([1; 32]);
    let _ = fetch.wait(0, CODE, of(0));
    let first = asked(&fetch.looked_up(0, CODE, None).0);
    let _ = fetch.wait(1, CODE, of(1));
    assert_eq!(fetch.deadline(), Some(1));
    let second = asked(&fetch.expire(1).0);
    assert_eq!((first[0].0, second[0].0, first[0].1), (source(0), source(1), second[0].1), "late answers count");
    // Not so where somebody answers.
    fetch.part(2, source(1), part(second[0].1, 0, 5000, 0)).unwrap();
    let _ = fetch.wait(3, CODE, of(2));
    assert!(fetch.deadline() > Some(3));
}

#[test]
fn who_answers_slowly_has_a_turn_and_not_the_whole_search() {
    let mut fetch = Fetch::new([1; 32]);
    let _ = fetch.wait(0, CODE, of(0));
    let (mut steps, _) = fetch.looked_up(0, CODE, None);
    let _ = fetch.wait(0, CODE, of(1));
    let (mut now, mut answered) = (0, 0);
    // The first sends what is missing just before it would be asked again.
    for round in 0..200 {
        if let Some((at, nonce)) = asked(&steps).last() {
            if *at == source(1) && answered > 0 {
                return;
            }
            now += RETRY - 1;
            let number = answered as u16;
            steps = fetch.part(now, source(0), part(*nonce, number, 60_000, 0)).unwrap_or_default();
            answered += 1;
        } else {
            now = fetch.deadline().unwrap().max(now);
            steps = fetch.expire(now).0;
        }
        assert!(round < 100 && now < 20 * TURN_TIME, "the other has no turn");
    }
}

#[test]
fn of_what_two_sent_and_is_wrong_neither_is_blamed_and_one_is_asked_at_a_time_then() {
    let mut fetch = Fetch::new([1; 32]);
    let _ = fetch.wait(0, CODE, of(0));
    let first = asked(&fetch.looked_up(0, CODE, None).0);
    let _ = fetch.wait(1, CODE, of(1));
    let _ = fetch.expire(1);
    let total = 2 * fetch::PART as u32;
    fetch.part(2, source(1), part(first[0].1, 0, total, 0)).unwrap();
    assert_eq!(fetch.part(2, source(0), part(first[0].1, 1, total, 1)), Err(Reason::FetchHash));
    let mut next = Vec::new();
    while next.is_empty() {
        next = asked(&fetch.expire(fetch.deadline().unwrap()).0);
    }
    let (now, (turn, nonce)) = (fetch.deadline().unwrap(), next[0]);
    let other = if turn == source(0) { source(1) } else { source(0) };
    assert_eq!(fetch.part(now, other, part(nonce, 0, total, 0)), Err(Reason::FetchSpoofed));
    fetch.part(now, turn, part(nonce, 0, total, 0)).unwrap();
    assert_eq!(fetch.part(now, turn, part(nonce, 1, total, 1)), Err(Reason::FetchHash));
    assert_eq!(fetch.pending[0].sources.iter().collect::<Vec<_>>(), [&other], "who is wrong alone is not asked again");
}

/// A stranger of one port: all of them are one payer.
fn stranger(number: u8) -> Option<Waiter> {
    let mut frame = Frame::from_bytes(b"x");
    frame.payer = Payer(7);
    let source = Source { port: PortId(0), peer: PeerId::NONE, addr: crate::wire::Addr::v4([10, 0, 0, number]) };
    Some(Waiter { frame, source: Some(source), toll: TOLL, means: MEANS, paid: 0 })
}

#[test]
fn a_stranger_that_has_answered_before_goes_before_silent_ones_of_its_port() {
    let mut fetch = Fetch::new([1; 32]);
    let bytes = b"an object";
    let code = crate::trust::object_name(bytes);
    let honest = stranger(1).unwrap().source.unwrap();
    let _ = fetch.wait(0, code, stranger(1));
    let (source, nonce) = asked(&fetch.looked_up(0, code, None).0)[0];
    assert_eq!(source, honest);
    let part = Part { nonce, digest: code, part: 0, total: bytes.len() as u32, bytes };
    assert!(matches!(fetch.part(1, honest, part).unwrap()[..], [Step::Object { .. }]));
    assert_eq!(fetch.settle(code).count(), 1);
    for round in 0..2 {
        let name = name(round);
        let mut now = 1_000_000_000 * (1 + round as u64);
        (10..20).for_each(|number| drop(fetch.wait(now, name, stranger(number))));
        assert_ne!(asked(&fetch.looked_up(now, name, None).0)[0].0, honest);
        let _ = fetch.wait(now, name, stranger(1));
        let mut silent = 0;
        while now < 1_000_000_000 * (1 + round as u64) + 700_000_000 {
            now = fetch.deadline().unwrap();
            let all = asked(&fetch.expire(now).0);
            silent += all.iter().filter(|(source, _)| *source != honest).count();
            if all.iter().any(|(source, _)| *source == honest) {
                break;
            }
        }
        // The second time it has been silent itself.
        match round {
            0 => assert!(silent <= 1, "{silent} requests to others"),
            _ => assert!(silent > 1, "{silent} requests to others"),
        }
        // It says nothing either.
        while !fetch.is_empty() {
            now = fetch.deadline().unwrap();
            fetch.expire(now);
        }
    }
}
