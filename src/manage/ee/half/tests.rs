//! The node's side against a hostile process: one step at a time from a seed, and at the same time.

use super::*;
use crate::nodeos::interface::InChanId;
use libanode::memory::Geometry;
use libanode::ring::Cells;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

const SMALL: Geometry = Geometry { up: 8, down: 8, buffers_node: 4, buffers_process: 4, buffer_bytes: 256, threads: 4 };

fn half() -> (Half, Arc<Memory>) {
    let (memory, _) = Memory::make(SMALL).unwrap();
    let connection = SeqPacket::pair().unwrap().0;
    (Half::new(memory.clone(), DomainId(7), Waker::new().unwrap(), Arc::new(connection)), memory)
}

fn packet(bytes: usize) -> Upcall {
    Upcall::Packet { channel: InChanId(3), frame: Frame::from_bytes(&vec![1; bytes]) }
}

/// Every buffer of the node's is either free or lent, once.
fn books_are_right(half: &Half) {
    let mut seen = vec![false; half.lent.len()];
    for buffer in &half.free {
        assert!(!std::mem::replace(&mut seen[usize::from(*buffer)], true), "a buffer is free twice");
        assert!(!half.lent[usize::from(*buffer)], "free and lent");
    }
    assert!(seen.iter().zip(&half.lent).all(|(free, lent)| *free || *lent), "a buffer is lost");
}

/// Takes what there is; what is said to be a packet must lie within its buffer.
fn take_all(half: &mut Half, most: usize) -> usize {
    let mut frame = Frame::with_capacity(2048);
    let mut taken = 0;
    while let Some(found) = half.take(true) {
        taken += 1;
        assert!(taken <= most, "more than a ring can hold between two looks");
        if let Taken::Sent(sent) = found {
            assert!(half.copy(&sent, &mut frame) && frame.len() == usize::from(sent.span.length));
            half.done(&sent);
        }
    }
    taken
}

proptest! {
    #[test]
    fn whatever_a_process_writes_the_node_keeps_its_books(
        acts in prop::collection::vec((0u8..6, any::<u16>(), any::<u64>()), 1..300)
    ) {
        let (mut half, memory) = half();
        let rings = [SMALL.up(), SMALL.down(), SMALL.back()];
        for (act, at, value) in acts {
            let ring = rings[usize::from(at) % 3];
            match act {
                // A counter, near to what it may be; or any word of a ring.
                0 => memory.store(ring.base + [0, 16, 32][usize::from(at / 3) % 3], value % 12, Ordering::Relaxed),
                1 => memory.store(ring.base + usize::from(at) % 112, value, Ordering::Relaxed),
                // An entry that could be one.
                2 => {
                    let kind = (value % 6) & 0xff;
                    let words = value & !0xff | kind;
                    memory.store(ring.base + 48 + 8 * (usize::from(at) % 8), words, Ordering::Relaxed);
                }
                3 => {
                    if let Some((frame, told)) = half.tell(value, DomainId(1), packet(usize::from(at) % 300)) {
                        prop_assert!(told != Ok(()) || frame.len() <= 256 - HEADROOM);
                    }
                }
                4 => {
                    let _ = take_all(&mut half, 4 * SMALL.down as usize);
                }
                _ => {
                    half.tell(value, DomainId(1), Upcall::Ended);
                    half.notify();
                }
            }
            books_are_right(&half);
            prop_assert!(half.waiting.len() <= WAITING_MAX);
        }
    }
}

#[test]
fn a_process_that_writes_all_the_time_meanwhile_changes_nothing_but_its_own_packets() {
    let (mut half, memory) = half();
    let over = AtomicBool::new(false);
    let words = SMALL.bytes() / 8;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = 0x9e37_79b9_7f4a_7c15u64;
            while !over.load(Ordering::Relaxed) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let at = random as usize % words;
                // Mostly small values, so that counters are often believed.
                let value = if random & 0x30000 == 0 { random } else { random >> 60 };
                memory.store(at, value, Ordering::Relaxed);
            }
        });
        for round in 0..200_000u64 {
            if half.broken() {
                books_are_right(&half);
                // It has been given up; the next process gets fresh books on the same torn paper.
                let connection = Arc::new(SeqPacket::pair().unwrap().0);
                half = Half::new(memory.clone(), DomainId(7), Waker::new().unwrap(), connection);
            }
            half.tell(round, DomainId(1), packet(100));
            if let Some(Taken::Sent(sent)) = half.take(true) {
                let mut frame = Frame::with_capacity(2048);
                assert!(half.copy(&sent, &mut frame));
                half.done(&sent);
            }
            half.notify();
        }
        over.store(true, Ordering::Relaxed);
    });
    books_are_right(&half);
}

/// An entry for a packet of so many bytes at the beginning of a buffer of the process's.
fn sends(length: u16) -> libanode::ring::Entry {
    let span = Span { buffer: SMALL.buffers_node as u16, offset: 0, length };
    Message::Packet { span, channel: 1, domain: 0, source: None, destination: None }.entry()
}

#[test]
fn a_length_that_is_changed_after_the_check_is_not_read_again() {
    let (mut half, memory) = half();
    let mut down = libanode::ring::Producer::new(memory.clone(), SMALL.down());
    let mut frame = Frame::with_capacity(2048);
    for number in 0..100 {
        assert!(down.push(&sends(10)).unwrap());
        let Some(Taken::Sent(sent)) = half.take(true) else { panic!("it is a packet") };
        let first = SMALL.down().base + 48 + 8 * (number % SMALL.down as usize);
        memory.store(first, sends(u16::MAX)[0], Ordering::SeqCst);
        assert!(half.copy(&sent, &mut frame));
        assert_eq!((frame.len(), sent.span.length), (10, 10));
        half.done(&sent);
    }
}

#[test]
fn a_length_that_changes_all_the_time_is_good_or_nonsense_and_never_both() {
    let (mut half, memory) = half();
    let mut down = libanode::ring::Producer::new(memory.clone(), SMALL.down());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for at in 0..SMALL.down as usize {
                    for length in [10, 256, 257, u16::MAX] {
                        memory.store(SMALL.down().base + 48 + 8 * at, sends(length)[0], Ordering::Relaxed);
                    }
                }
            }
        });
        let mut frame = Frame::with_capacity(2048);
        for _ in 0..200_000 {
            assert!(down.push(&sends(10)).unwrap());
            match half.take(true) {
                Some(Taken::Sent(sent)) => {
                    assert!([10, 256].contains(&sent.span.length) && half.copy(&sent, &mut frame));
                    assert_eq!(frame.len(), usize::from(sent.span.length));
                }
                Some(Taken::Nonsense) => {}
                None => panic!("something was put in"),
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_process_that_takes_nothing_for_too_long_is_given_up_and_one_that_is_slow_is_not() {
    let (mut half, memory) = half();
    let tell = |half: &mut Half, now| half.tell(now, DomainId(1), packet(10)).unwrap().1;
    for _ in 0..SMALL.buffers_node {
        assert_eq!(tell(&mut half, 0), Ok(()));
    }
    assert_eq!(tell(&mut half, 1), Err(Reason::ProcessFull));
    // It takes one out, but gives no buffer back.
    memory.store(SMALL.up().base + 16, 1, Ordering::Relaxed);
    assert_eq!(tell(&mut half, HANG), Err(Reason::ProcessFull));
    assert_eq!(tell(&mut half, 2 * HANG), Err(Reason::ProcessFull));
    assert!(!half.broken());
    assert_eq!(tell(&mut half, 2 * HANG + 1), Err(Reason::ProcessFull));
    assert!(half.broken());
}

#[test]
fn what_must_not_be_lost_waits_for_room() {
    let (mut half, memory) = half();
    let mut up = libanode::ring::Consumer::new(memory, SMALL.up());
    for _ in 0..20 {
        half.tell(0, DomainId(1), Upcall::Ended);
    }
    assert!(half.waits());
    assert_eq!(half.tell(0, DomainId(1), packet(1)).unwrap().1, Err(Reason::ProcessFull), "nothing overtakes");
    let mut came = 0;
    while came < 20 {
        while let Some(entry) = up.pop().unwrap() {
            assert_eq!(Message::of(&entry), Some(Message::Ended { domain: 1 }));
            came += 1;
        }
        half.notify();
    }
    assert!(!half.waits());
    assert_eq!(half.tell(0, DomainId(1), packet(1)).unwrap().1, Ok(()));
}

#[test]
fn a_process_that_writes_nothing_but_nonsense_is_given_up() {
    let (mut half, _memory) = half();
    (0..NONSENSE_BURST).for_each(|_| half.note_nonsense(0));
    assert!(!half.broken());
    (1..=10 * NONSENSE_PER_SECOND).for_each(|at| half.note_nonsense(at * 1_000_000_000 / NONSENSE_PER_SECOND));
    assert!(!half.broken(), "ten seconds of a mistake now and then");
    half.note_nonsense(10_000_000_000);
    assert!(half.broken() && half.take(true).is_none());
}
