//! What an older program has sent, replayed into a node of this one: the capsules, requests for code and PLAN packets of a capture that
//! it has made (`tests/compat`), with what it did with each. What is answered is compared byte by byte.
//!
//! The capture is of an overlay node 10.0.0.2 behind which is 10.0.0.1: it serves the code of `ping`, delivers and forwards its capsules,
//! and evaluates two PLAN programs.

use crate::node_bench::Bench;
use anode::core::ledger::Unaccounted;
use anode::core::reason::Reason;
use anode::ee::plan::Config;
use anode::frame::PortId;
use anode::trust::Roles;
use std::path::{Path, PathBuf};

/// Bytes of the headers that an overlay's frames have between sockets.
const HEADERS: usize = 28;

/// A packet of a capture.
struct Captured {
    inward: bool,
    /// In nanoseconds.
    at: u64,
    bytes: Vec<u8>,
    comment: String,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn half(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()).into()
}

/// The packets of a pcapng file: its enhanced packet blocks, with direction and comment.
fn captured(file: &[u8]) -> Vec<Captured> {
    let (mut rest, mut packets) = (file, Vec::new());
    while rest.len() >= 12 {
        let (block, length) = (word(rest, 0), word(rest, 4) as usize);
        let body = &rest[8..length - 4];
        if block == 6 {
            let at = u64::from(word(body, 4)) << 32 | u64::from(word(body, 8));
            let taken = word(body, 12) as usize;
            let bytes = body[20..20 + taken].to_vec();
            let (mut options, mut inward, mut comment) =
                (&body[20 + taken.next_multiple_of(4)..], false, String::new());
            while options.len() >= 4 && half(options, 0) != 0 {
                let (kind, length) = (half(options, 0), half(options, 2));
                let value = &options[4..4 + length];
                match kind {
                    1 => comment = String::from_utf8(value.to_vec()).unwrap(),
                    2 => inward = word(value, 0) & 3 == 1,
                    _ => {}
                }
                options = &options[4 + length.next_multiple_of(4)..];
            }
            packets.push(Captured { inward, at, bytes, comment });
        }
        rest = &rest[length..];
    }
    packets
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compat")
}

/// A node as the one of the capture, with the code in its store.
fn node() -> Bench {
    let mut bench = Bench::new();
    bench.supply.judge = Some(("b".into(), Roles::default()));
    for object in std::fs::read_dir(folder().join("objects")).unwrap() {
        let object = object.unwrap();
        let name = object.file_name().into_string().unwrap().parse().unwrap();
        bench.supply.store.insert(name, std::fs::read(object.path()).unwrap().into());
    }
    bench.driver.node.speak_plan(Config::default());
    bench.driver.node.say_hello(0, PortId(0), 10);
    bench
}

#[test]
fn what_an_older_program_has_sent_is_answered_as_it_was() {
    let packets = captured(&std::fs::read(folder().join("b.pcapng")).unwrap());
    let (mut bench, begun) = (node(), packets[0].at);
    assert!(bench.driver.node.open(49152), "the application that the older node had");
    let (mut answered, mut delivered, mut same, mut taken) = (Vec::new(), 0, 0, 0);
    for packet in &packets {
        bench.now = bench.now.max(1_000_000_000 + packet.at - begun);
        bench.driver.timer_if_due(bench.now);
        bench.driver.out.frames.clear();
        let said = &packet.comment;
        if packet.inward {
            answered.clear();
            bench.receive(0, &packet.bytes[HEADERS..]);
            taken += 1;
            let wanted = usize::from(said.contains("delivered to application port 49152"));
            let deliveries: Vec<_> = bench.driver.out.deliveries.drain(..).collect();
            assert_eq!(deliveries.len(), wanted, "{said}");
            for delivery in deliveries {
                delivered += 1;
                bench.driver.out.pool.give(delivery.frame);
            }
            answered.extend(bench.driver.out.frames.drain(..).map(|frame| frame.bytes().to_vec()));
        } else if said.contains("goes on, came in by west") || said.starts_with("code fetch, sent") {
            // What is sent for its own sake, such as a ping of that node's or a hello, is nobody's answer.
            assert!(!answered.is_empty(), "{said}: nothing was sent; {:?}", bench.driver.node.drops());
            assert_eq!(answered.remove(0), packet.bytes[HEADERS..], "{said}");
            same += 1;
        } else if said.starts_with("PLAN, sent") {
            // Several may leave at once, in any order.
            let found = answered.iter().position(|bytes| *bytes == packet.bytes[HEADERS..]);
            let hex = |bytes: &[u8]| hex::encode(bytes);
            let all: Vec<_> = answered.iter().map(|bytes| hex(bytes)).collect();
            assert!(found.is_some(), "{said}: {}\n{all:#?}", hex(&packet.bytes[HEADERS..]));
            answered.remove(found.unwrap_or(0));
            same += 1;
        }
    }
    // One of the programs divides by zero, and its error goes home.
    let drops: Vec<_> = bench.driver.node.drops().happened().collect();
    assert_eq!((delivered, drops.as_slice()), (3, &[(Reason::Evaluation, 1)][..]), "{taken} taken in, {same} answered");
    assert!(same >= 8, "{same}");
    assert_eq!(bench.driver.node.unaccounted(&[]), Unaccounted::default());
}
