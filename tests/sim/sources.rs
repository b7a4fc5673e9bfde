//! Whom a node asks for code, when strangers name it too: what they name, want and answer keeps it from nobody else.

use crate::guests::*;
use crate::lying::{datagram, object, parts};
use crate::peers::{self, Heard, Peer};
use anode::core::reason::Reason;
use anode::sim::{Carries, Family, Line, MS, Network, SECOND, Shape, Simulation};
use anode::wire::{Addr, Digest, capsule, fetch};

/// A line of native links whose first place sends whatever a test likes and answers nothing, and whose last node has the code.
fn beside_a_stranger() -> (Simulation, Digest) {
    let line = Line { carries: Carries::Ethernet, ..Line::default() };
    let mut network = Network::new(Shape::Line { nodes: 3 }, line, 0).unwrap();
    network.family = Family::Both;
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    sim.replace(0, Box::new(Peer { heard: Heard::default(), answer: |_: fetch::Message<'_>| Vec::new() }));
    let code = forward();
    sim.add_code(2, &code);
    sim.open(1, 1);
    (sim, code.name())
}

/// The stranger sends a capsule of this code, to nowhere, that it says has come from its link's neighbour with this number.
fn forge(sim: &mut Simulation, code: Digest, neighbour: u8, bound: u32) {
    let mut previous = [0; 16];
    (previous[0], previous[1], previous[15]) = (0xfd, 1, neighbour);
    let (near, away) = (Addr::v4([172, 16, 0, 1]), Addr::v4([203, 0, 113, 7]));
    let header = capsule::Header { previous: Addr(previous), source: near, ..header(code, away, bound) };
    sim.put_frame(0, 0, &datagram(near, away, &peers::capsule(&header)));
}

#[test]
fn silent_previous_hops_that_a_stranger_names_keep_code_from_nobody() {
    for bound in [1, 64] {
        let (mut sim, code) = beside_a_stranger();
        for round in 0..60 {
            // As often as it takes to have all places, of sources and of capsules.
            (0..24).for_each(|number| forge(&mut sim, code, 9 + number % 6, bound));
            if round == 20 {
                sim.inject(2, header(code, sim.address(1), 64), b"").unwrap();
            }
            sim.run_for(10 * MS);
        }
        assert_eq!(sim.totals().delivered, 1, "bound {bound}:\n{}", sim.report());
    }
}

#[test]
fn a_code_that_a_stranger_names_behind_many_others_is_not_in_its_lane() {
    let (mut sim, code) = beside_a_stranger();
    let mut number = 0u32;
    let mut unknown = |sim: &mut Simulation, count| {
        for _ in 0..count {
            number += 1;
            forge(sim, Digest::of(&number.to_be_bytes()), 9, 64);
        }
    };
    unknown(&mut sim, 200);
    forge(&mut sim, code, 9, 64);
    sim.run_for(10 * MS);
    assert!(sim.status(1).unwrap().fetch.queued > 100, "{}", sim.report());
    sim.inject(2, header(code, sim.address(1), 64), b"").unwrap();
    for _ in 0..10 {
        unknown(&mut sim, 5);
        sim.run_for(10 * MS);
    }
    assert_eq!(sim.totals().delivered, 1, "{}", sim.report());
}

#[test]
fn who_answers_wrongly_ends_the_search_for_no_other() {
    let code = padded_forward(1, 3000);
    for good in [code.manifest_bytes().len(), 1500] {
        let known = code.clone();
        let mut network = Network::unlinked(3);
        let far = Line { delay_ms: 350.0, ..Line::default() };
        network.link(0, 1, Line::default()).link(1, 2, far);
        let mut sim = crate::net::simulation(network, seed(1)).unwrap();
        let answer = move |message: fetch::Message<'_>| match message {
            fetch::Message::Request { nonce, digest, missing, .. } => {
                let mut bytes = object(&known, digest);
                bytes.resize(good, 0);
                bytes[7] ^= 1;
                parts(nonce, digest, missing & ((1 << fetch::parts(good as u32)) - 1), &bytes)
            }
            _ => Vec::new(),
        };
        sim.replace(0, Box::new(Peer { heard: Heard::default(), answer }));
        sim.add_code(2, &code);
        sim.open(1, 1);
        sim.inject(2, header(code.name(), sim.address(1), 64), b"").unwrap();
        sim.run_for(349 * MS);
        let (previous, away) = (sim.address(0), Addr::v4([203, 0, 113, 7]));
        let header = capsule::Header { previous, source: previous, ..header(code.name(), away, 64) };
        for _ in 0..200 {
            sim.put_frame(0, 0, &peers::capsule(&header));
            sim.run_for(20 * MS);
        }
        assert!(sim.totals().messages_dropped.of(Reason::FetchHash) > 0, "{}", sim.report());
        assert_eq!(sim.totals().delivered, 1, "{good} bytes:\n{}", sim.report());
        sim.run_for(SECOND);
    }
}
