//! What goes into engines comes out of them, with loss, in any order, and whatever comes instead. An engine is one file
//! and one row: this file has one, and its row is in the table of engines.

use super::super::class::{EngineClass, Make};
use super::super::engine::{Engine, GROUPS_MAX, GraphCx, INWARD, OUTWARD, Origin, Pushed};
use super::super::scratch::Scratch;
use super::super::table::Graph;
use super::{CLASSES, make};
use crate::core::reason::Reason;
use crate::frame::{Frame, FramePool, Payer};
use crate::nodeos::interface::Error;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// `mirror(1…9)`: turns payloads round, which so many bytes may have.
pub(super) const CLASS: EngineClass = EngineClass {
    name: "mirror",
    doc: "Turns payloads round",
    make: Make::Module { argument: Some(1..=9), bytes: [0; 2], make: |most| Box::new(Mirror(most)) },
};

struct Mirror(usize);

impl Engine for Mirror {
    fn push(&mut self, input: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        if frame.len() > self.0 {
            return Pushed::Dropped(frame, Reason::TooBig);
        }
        frame.bytes_mut().reverse();
        Pushed::To(input, frame)
    }
}

/// A graph and what its packets are made of.
struct Rig {
    graph: Graph,
    pool: FramePool,
    scratch: Scratch,
}

impl Rig {
    fn new(words: &[&str]) -> Rig {
        Rig { graph: Graph::chain(words).unwrap(), pool: FramePool::new(2048, 4), scratch: Scratch::default() }
    }

    /// What comes out of it, and why the rest does not.
    fn push(&mut self, way: u16, now: u64, from: Origin, packet: &[u8]) -> (Vec<Vec<u8>>, Vec<Reason>) {
        self.graph.push(way, Frame::from_bytes(packet), (now, from), &mut self.pool, &mut self.scratch);
        let out = self.scratch.out.drain(..).map(|frame| frame.bytes().to_vec()).collect();
        (out, self.scratch.dropped.drain(..).map(|(_, reason)| reason).collect())
    }

    fn passed(&mut self, way: u16, from: Origin, packet: &[u8]) -> Vec<Vec<u8>> {
        let (out, dropped) = self.push(way, 0, from, packet);
        assert_eq!(dropped, []);
        out
    }
}

#[test]
fn an_engine_is_one_file_and_one_row() {
    let mut rig = Rig::new(&["mirror(4)", "checksum"]);
    assert_eq!(format!("{:?}", rig.graph), "[mirror, checksum]");
    let wire = rig.push(OUTWARD, 0, whose(1), b"");
    assert_eq!(wire, (vec![vec![0; 4]], vec![]));
    assert_eq!(rig.push(INWARD, 0, whose(1), &[0; 4]), (vec![vec![]], vec![]));
    assert_eq!(rig.push(OUTWARD, 0, whose(1), b"longer"), (vec![], vec![Reason::TooBig]), "ten bytes with the sum");
    assert_eq!(
        rig.push(INWARD, 0, whose(1), b"\x01\0\0\0"),
        (vec![], vec![Reason::ModuleChecksum]),
        "the next one's verdict"
    );
    for (word, error) in
        [("mirror", Error::Invalid), ("mirror(10)", Error::Invalid), ("mirrors(3)", Error::Unsupported)]
    {
        assert_eq!(make(word).err(), Some(error), "{word}");
    }
}

#[test]
fn names_of_engines_are_unique_and_a_graph_has_few() {
    let names: std::collections::BTreeSet<_> = CLASSES.iter().map(|class| class.name).collect();
    assert_eq!(names.len(), CLASSES.len());
    assert_eq!(Graph::chain(&["checksum"; 5]).err(), Some(Error::Invalid));
    assert!(Graph::chain(&[]).unwrap().is_empty());
}

/// Sends packets through engines, loses some of what is on the wire, and receives the rest.
fn through(words: &[&str], packets: &[Vec<u8>], lose: impl Fn(usize) -> bool, shuffle: bool) -> Vec<Vec<u8>> {
    let [mut sender, mut receiver] = [(); 2].map(|()| Rig::new(words));
    let mut wire: Vec<_> = packets.iter().flat_map(|packet| sender.passed(OUTWARD, whose(1), packet)).collect();
    if shuffle {
        wire.reverse();
    }
    let kept = wire.iter().enumerate().filter(|(at, _)| !lose(*at));
    kept.flat_map(|(_, packet)| receiver.passed(INWARD, whose(1), packet)).collect()
}

fn packets(count: usize, length: impl Fn(usize) -> usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| (0..length(n)).map(|at| (n * 31 + at / 7) as u8).collect()).collect()
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
    let mut rigs = ["checksum", "compress", "fragment(64)", "xor(2)"].map(|word| Rig::new(&[word]));
    for round in 0..20_000u64 {
        let length = rng.next_u32() as usize % 24;
        let mut bytes: Vec<u8> = (0..length).map(|_| (rng.next_u32() % 5) as u8).collect();
        if round % 3 == 0 {
            bytes.resize(crate::frame::FRAME.min(length * 90), 1);
        }
        for rig in &mut rigs {
            let (out, dropped) = rig.push(INWARD, round * 1_000_000, whose((round % 3) as u16), &bytes);
            assert!(out.len() <= 2 && dropped.len() <= 1);
        }
    }
    for word in ["fragment", "fragment(1)", "fragment(x)", "xor(1)", "xor(17)", "checksum(3)", "xor(2"] {
        assert_eq!(make(word).err(), Some(Error::Invalid), "{word}");
    }
    assert_eq!(make("encrypt").err(), Some(Error::Unsupported));
    assert_eq!(make("").err(), Some(Error::Unsupported));
}

fn whose(number: u16) -> Origin {
    (Payer(number), None)
}

#[test]
fn pieces_of_different_senders_are_not_mixed_and_nobody_takes_the_room_of_others() {
    let pieces = |fill: u8| Rig::new(&["fragment(64)"]).passed(OUTWARD, whose(0), &[fill; 100]);
    let mut here = Rig::new(&["fragment(64)"]);
    let mut out = vec![];
    // Two senders count from 0, and a third begins packets that it never completes.
    let mut rest = vec![];
    for (from, mut all) in [(1, pieces(1)), (2, pieces(2))] {
        rest.push((from, all.pop().unwrap()));
        all.into_iter().for_each(|piece| out.extend(here.passed(INWARD, whose(from), &piece)));
    }
    for number in 0..3 * GROUPS_MAX as u16 {
        let [high, low] = number.to_be_bytes();
        here.passed(INWARD, whose(3), &[&[high, low, 0, 2][..], &[3; 64]].concat());
    }
    rest.into_iter().for_each(|(from, piece)| out.extend(here.passed(INWARD, whose(from), &piece)));
    assert_eq!(out, [vec![1; 100], vec![2; 100]]);
}
