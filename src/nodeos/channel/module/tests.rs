//! What goes into the modules of a channel comes out of them, with loss, in any order, and whatever comes instead.

use super::*;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Sends packets through modules, loses some of what is on the wire, and receives the rest.
fn through(words: &[&str], packets: &[Vec<u8>], lose: impl Fn(usize) -> bool, shuffle: bool) -> Vec<Vec<u8>> {
    let mut pool = FramePool::default();
    let mut sender: Vec<_> = words.iter().map(|word| Module::parse(word).unwrap()).collect();
    let mut receiver: Vec<_> = words.iter().map(|word| Module::parse(word).unwrap()).collect();
    let mut wire = Vec::new();
    for packet in packets {
        let mut all = vec![Frame::from_bytes(packet)];
        for module in sender.iter_mut().rev() {
            let mut out = Vec::new();
            for frame in all {
                let mut stage = Stage { now: 0, from: whose(1), pool: &mut pool, out: &mut out };
                module.send(&mut stage, frame).unwrap();
            }
            all = out;
        }
        wire.extend(all);
    }
    if shuffle {
        wire.reverse();
    }
    let mut received = Vec::new();
    for (_, frame) in wire.into_iter().enumerate().filter(|(at, _)| !lose(*at)) {
        let mut all = vec![frame];
        for module in &mut receiver {
            let mut out = Vec::new();
            for frame in all {
                let mut stage = Stage { now: 0, from: whose(1), pool: &mut pool, out: &mut out };
                module.receive(&mut stage, frame).unwrap();
            }
            all = out;
        }
        received.extend(all.iter().map(|frame| frame.bytes().to_vec()));
    }
    received
}

fn packets(count: usize, length: impl Fn(usize) -> usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| (0..length(n)).map(|at| (n * 31 + at / 7) as u8).collect()).collect()
}

#[test]
fn modules_stand_behind_the_protocol() {
    let names = |text: &str| split(text).map(|(base, modules)| (base.to_owned(), format!("{modules:?}")));
    let said = |base: &str, modules: &str| Ok((base.to_owned(), modules.to_owned()));
    assert_eq!(names("if0"), said("if0", "[]"));
    assert_eq!(names("if0/ip/udp"), said("if0/ip/udp", "[]"));
    assert_eq!(names("if0/ip/udp/xor(3)/checksum"), said("if0/ip/udp", "[xor, checksum]"));
    assert_eq!(names("*/compress"), said("*", "[compress]"));
    assert_eq!(names("if0/ip/rot13"), Err(Error::Unsupported));
    assert_eq!(names("if0/ip/"), Err(Error::Unsupported));
    assert_eq!(names("if0/checksum/checksum/checksum/checksum/checksum"), Err(Error::Invalid));
}

#[test]
fn what_goes_in_comes_out() {
    let sent = packets(12, |n| n * 131 % 1400);
    for words in [
        &["checksum"][..],
        &["compress"],
        &["fragment(100)"],
        &["xor(3)"],
        &["fragment(64)", "checksum"],
        &["xor(4)", "fragment(200)", "compress", "checksum"],
    ] {
        assert_eq!(through(words, &sent, |_| false, false), sent, "{words:?}");
        let mut shuffled = through(words, &sent, |_| false, true);
        shuffled.sort();
        let mut sorted = sent.clone();
        sorted.sort();
        assert_eq!(shuffled, sorted, "{words:?} in another order");
    }
}

#[test]
fn one_of_a_group_may_be_lost() {
    let sent = packets(8, |n| 10 + n);
    for lost in 0..5 {
        let mut received = through(&["xor(4)"], &sent, |at| at % 5 == lost, false);
        received.sort();
        let mut expected = sent.clone();
        expected.sort();
        assert_eq!(received, expected, "the {lost}th of each group");
    }
    assert_eq!(through(&["xor(4)"], &sent, |at| at % 5 < 2, false).len(), 4, "two lost packets are lost");
}

#[test]
fn garbage_is_refused_or_waits_and_never_panics() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut pool = FramePool::default();
    let mut modules = ["checksum", "compress", "fragment(64)", "xor(2)"].map(|word| Module::parse(word).unwrap());
    for round in 0..20_000u64 {
        let length = rng.next_u32() as usize % 24;
        let mut octets: Vec<u8> = (0..length).map(|_| (rng.next_u32() % 5) as u8).collect();
        if round % 3 == 0 {
            octets.resize(crate::frame::FRAME.min(length * 90), 1);
        }
        for module in &mut modules {
            let mut out = Vec::new();
            let mut stage =
                Stage { now: round * 1_000_000, from: whose((round % 3) as u16), pool: &mut pool, out: &mut out };
            let _ = module.receive(&mut stage, Frame::from_bytes(&octets));
            assert!(out.len() <= 2);
        }
    }
    for word in ["fragment", "fragment(1)", "fragment(x)", "xor(1)", "xor(17)", "checksum(3)", "xor(2"] {
        assert_eq!(Module::parse(word).err(), Some(Error::Invalid), "{word}");
    }
    assert_eq!(Module::parse("encrypt").err(), Some(Error::Unsupported));
}

fn whose(number: u16) -> Sender {
    (Payer(number), None)
}

#[test]
fn pieces_of_different_senders_are_not_mixed_and_nobody_takes_the_room_of_others() {
    let (mut pool, mut out) = (FramePool::new(2048, 4), Vec::new());
    let pieces = |module: &mut Module, pool: &mut FramePool, fill: u8| {
        let mut out = Vec::new();
        let mut stage = Stage { now: 0, from: whose(0), pool, out: &mut out };
        module.send(&mut stage, Frame::from_bytes(&[fill; 100])).unwrap();
        out
    };
    // Two senders count from 0, and a third begins packets that it never completes.
    let [mut one, mut other] = [(); 2].map(|()| Module::parse("fragment(64)").unwrap());
    let (one, other) = (pieces(&mut one, &mut pool, 1), pieces(&mut other, &mut pool, 2));
    let mut here = Module::parse("fragment(64)").unwrap();
    let mut receive = |from: u16, frame: Frame, out: &mut Vec<Frame>| {
        here.receive(&mut Stage { now: 0, from: whose(from), pool: &mut pool, out }, frame).unwrap();
    };
    let mut rest: Vec<(u16, Frame)> = Vec::new();
    for (from, mut all) in [(1, one), (2, other)] {
        rest.push((from, all.pop().unwrap()));
        all.into_iter().for_each(|piece| receive(from, piece, &mut out));
    }
    for number in 0..3 * GROUPS_MAX as u16 {
        let [high, low] = number.to_be_bytes();
        let piece = [&[high, low, 0, 2][..], &[3; 64]].concat();
        receive(3, Frame::from_bytes(&piece), &mut out);
    }
    rest.into_iter().for_each(|(from, piece)| receive(from, piece, &mut out));
    let whole: Vec<Vec<u8>> = out.iter().map(|frame| frame.bytes().to_vec()).collect();
    assert_eq!(whole, [vec![1; 100], vec![2; 100]]);
}
