//! Foreign flows in the kernel: programs and the user half mean the same packets by one, and the table has its bounds.

use super::*;
use crate::classify::fields::tests::{self, Vector};
use crate::classify::filter::Watch;
use crate::classify::rule::{ANYWHERE, KeyTuple, Layer};
use crate::classify::{Class, classify};
use crate::frame::Link;
use crate::kernel::Filters;
use crate::sys::bpf::Program;
use crate::wire::checksum::checksum;
use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Prefix};

const LINK: Link = Link::Ethernet { mac: Mac([0; 6]), answers: false };

/// Whether programs can be loaded.
fn is_able() -> bool {
    let is_root = crate::sys::process::is_root();
    if !is_root {
        assert!(std::env::var_os("CI").is_none(), "loading programs needs root, and this must be run");
        println!("SKIPPED: loading programs needs root");
    }
    is_root
}

/// The frame as a socket's filter is run on it, which is on what is behind a link header.
fn on_socket(socket: &Program, frame: &[u8]) -> bool {
    let mut up = [&[0; 12][..], &[0x88, 0xb6], frame].concat();
    socket.run_on(&mut up).unwrap() != 0
}

#[test]
fn both_halves_read_the_same_flow_of_a_packet_or_none() {
    if !is_able() {
        return;
    }
    let every = |kind: u16| Rule {
        port: None,
        layer: Layer::Link,
        kind: Some(kind),
        source: ANYWHERE,
        destination: ANYWHERE,
        source_port: None,
        destination_port: None,
        key: vec![],
    };
    let mut filters = Filters::create().unwrap();
    let kinds = [0x800, 0x86dd];
    kinds.iter().for_each(|kind| filters.change(&Watch { rule: every(*kind), is_shared: true }, true).unwrap());
    let socket = filters.load("filter_channels").unwrap();
    let mut spared = 0;
    for (v4, protocol) in [(true, 17), (true, 6), (true, 1), (false, 17), (false, 6), (false, 47)] {
        let good = tests::frame(v4, protocol);
        let flow = ForeignFlow::of(&good).unwrap();
        assert!(on_socket(&socket, &good), "{flow:?} is not known yet");
        filters.foreign().learn(&flow).unwrap();
        let longer = [&good[..], &[0; 30]].concat();
        let shorter = (24..good.len()).map(|length| good[..length].to_vec());
        let edited = (12..good.len()).flat_map(|at| [1u8, 0x10, 0x80].map(|bit| (at, bit))).flat_map(|(at, bit)| {
            let mut frame = good.clone();
            frame[at] ^= bit;
            let mut summed = frame.clone();
            summed[24..26].fill(0);
            let sum = checksum(&summed[14..34]);
            summed[24..26].copy_from_slice(&sum.to_be_bytes());
            [frame, summed]
        });
        for frame in [longer, good.clone()].into_iter().chain(shorter).chain(edited) {
            let is_watched = kinds.contains(&u16::from_be_bytes([frame[12], frame[13]]));
            let is_it = ForeignFlow::of(&frame) == Some(flow);
            // Active packets, and neighbour discovery, are the node's whatever else is true of them.
            let is_own = matches!(classify(LINK, &frame), Ok(Class::Anep(..)) | Err(_));
            if is_watched && !is_own {
                assert_eq!(on_socket(&socket, &frame), !is_it, "{flow:?}: {frame:02x?}");
                spared += u64::from(is_it);
            }
        }
        // Rules that were read again may be about anything; one that comes is about what it watches.
        filters.foreign().forget().unwrap();
        assert!(on_socket(&socket, &good));
        filters.foreign().learn(&flow).unwrap();
        assert!(!on_socket(&socket, &good));
        let to = |addr: Addr| Rule { layer: Layer::Ip, kind: None, destination: Prefix::host(addr), ..every(0) };
        filters.foreign().watch(&to(flow.source)).unwrap();
        assert!(!on_socket(&socket, &good), "it does not go there");
        filters.foreign().watch(&to(flow.destination)).unwrap();
        assert!(on_socket(&socket, &good));
        spared += 2;
    }
    assert!(spared > 200, "{spared} are of their flow");
    assert_eq!(filters.foreign().counts().spared, spared);
    assert_eq!(filters.foreign().counts().flows, 0);
}

#[test]
fn what_a_channel_may_have_by_fixed_fields_is_never_foreign() {
    if !is_able() {
        return;
    }
    let key = KeyTuple { offset: 0, length: 1, value: 7, mask: 0xff };
    for Vector { what, rule, frame, holds } in tests::all() {
        let Some(flow) = ForeignFlow::of(&frame) else { continue };
        assert_eq!(flow.may_be_of(&rule), holds, "{what}");
        for key in [vec![], vec![key]] {
            let mut filters = Filters::create().unwrap();
            let taken = Rule { key, ..rule.clone() };
            filters.change(&Watch { rule: taken, is_shared: false }, true).unwrap();
            filters.learn(&flow).unwrap();
            let counts = filters.foreign().counts();
            assert_eq!((counts.learned, counts.refused), (u64::from(!holds), u64::from(holds)), "{what}");
        }
    }
}

#[test]
fn where_a_flow_cannot_be_taken_out_none_is_believed_until_it_is_learned_again() {
    if !is_able() {
        return;
    }
    let filters = Filters::create().unwrap();
    let known = filters.foreign();
    let first = ForeignFlow::of(&tests::frame(true, 17)).unwrap();
    let [one, two] = [1, 2].map(|host| ForeignFlow { source: Addr::v4([10, 9, 0, host]), ..first });
    [one, two].iter().for_each(|flow| known.learn(flow).unwrap());
    let believed = |flow: &ForeignFlow| {
        let (mut own, mut now) = ([0; foreign::SIZE], [0; foreign::SIZE]);
        known.now.get(&ONLY, &mut now).unwrap();
        known.flows.get(&key(flow), &mut own).is_ok() && own == now
    };
    assert!(believed(&one) && believed(&two));
    // Somebody else has changed the map.
    known.flows.remove(&key(&one)).unwrap();
    assert!(known.take_out_all(|_| true).is_err());
    assert!(!believed(&one) && !believed(&two));
    assert_eq!(known.counts().flows, 0);
    [one, two, two].iter().for_each(|flow| known.learn(flow).unwrap());
    assert!(believed(&one) && believed(&two));
    assert_eq!((known.counts().flows, known.counts().learned), (2, 4));
    known.take_out_all(|_| true).unwrap();
    assert_eq!((known.counts().flows, known.counts().evicted), (0, 2));
}

#[test]
fn a_foreign_flow_too_many_takes_the_place_of_the_oldest() {
    if !is_able() {
        return;
    }
    let filters = Filters::create().unwrap();
    let first = ForeignFlow::of(&tests::frame(true, 17)).unwrap();
    let flow = |number: u32| ForeignFlow { source: Addr::v4(number.to_be_bytes()), ..first };
    let all = FOREIGN_FLOWS + 100;
    (0..all).for_each(|number| filters.foreign().learn(&flow(number)).unwrap());
    // One that is there is not written down twice.
    filters.foreign().learn(&flow(all - 1)).unwrap();
    let counts = ForeignCounts { flows: FOREIGN_FLOWS.into(), learned: all.into(), evicted: 100, ..Default::default() };
    assert_eq!(filters.foreign().counts(), counts);
}
