//! Peers that lie, are silent, flood, or are strangers.

use crate::guests::*;
use crate::peers::{self, Heard, Peer};
use anode::code::bundle::{Bundle, Kind};
use anode::core::reason::Reason;
use anode::sim::{Carries, Family, Line, MS, Network, SECOND, Shape, Simulation};
use anode::wire::{Digest, anep, capsule, ethernet, fetch, ipv4, udp};

/// A line whose first node is a peer that answers requests as `answer` says.
fn with_peer(nodes: usize, answer: impl FnMut(fetch::Message<'_>) -> Vec<Vec<u8>> + 'static) -> (Simulation, Heard) {
    let network = Network::new(Shape::Line { nodes }, Line::default(), 0).unwrap();
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    let heard = Heard::default();
    sim.replace(0, Box::new(Peer { heard: heard.clone(), answer }));
    (sim, heard)
}

/// The peer sends a capsule for the next node.
fn send(sim: &mut Simulation, code: Digest, to: usize) {
    let header =
        capsule::Header { previous: sim.address(0), source: sim.address(0), ..header(code, sim.address(to), 64) };
    sim.put_frame(0, 0, &peers::capsule(&header));
}

fn at_rest(sim: &mut Simulation) {
    assert!(sim.drain(sim.now() + 120 * SECOND), "capsules leak:\n{}", sim.report());
    sim.run_for(30 * SECOND);
    let report = sim.report();
    assert_eq!(report.fetching, 0, "fetches leak:\n{report}");
    assert_eq!(report.totals.begun(), report.totals.ended(), "{report}");
}

/// The object a request asks for, of a bundle.
pub fn object(bundle: &Bundle, digest: Digest) -> Vec<u8> {
    bundle.objects().find(|object| Digest::of(object) == digest).unwrap().to_vec()
}

/// The wanted parts of an object.
pub fn parts(nonce: u32, digest: Digest, missing: u64, object: &[u8]) -> Vec<Vec<u8>> {
    let wanted = (0..fetch::parts(object.len() as u32) as u16).filter(|part| missing >> part & 1 == 1);
    wanted.map(|part| peers::part(nonce, digest, part, object)).collect()
}

#[test]
fn an_honest_peer_is_served_from() {
    let code = padded_forward(1, 5000);
    let known = code.clone();
    let (mut sim, _) = with_peer(3, move |message| match message {
        fetch::Message::Request { nonce, digest, missing, .. } => {
            parts(nonce, digest, missing, &object(&known, digest))
        }
        _ => Vec::new(),
    });
    sim.open(2, 1);
    send(&mut sim, code.name(), 2);
    at_rest(&mut sim);
    assert_eq!(sim.totals().delivered, 1, "{}", sim.report());
}

#[test]
fn wrong_bytes_are_never_run_and_are_given_up() {
    let code = padded_forward(1, 5000);
    let known = code.clone();
    for spoilt in [Kind::Wasm as usize, 9] {
        let known = known.clone();
        let (mut sim, heard) = with_peer(2, move |message| match message {
            fetch::Message::Request { nonce, digest, missing, .. } => {
                let mut bytes = object(&known, digest);
                let manifest = digest == known.name();
                if manifest != (spoilt == Kind::Wasm as usize) {
                    bytes[7] ^= 1;
                }
                parts(nonce, digest, missing, &bytes)
            }
            _ => Vec::new(),
        });
        sim.open(1, 1);
        send(&mut sim, code.name(), 1);
        at_rest(&mut sim);
        let totals = sim.totals();
        assert_eq!((totals.delivered, totals.dropped.of(Reason::FetchTimeout)), (0, 1), "{}", sim.report());
        assert!((1..=3).contains(&totals.messages_dropped.of(Reason::FetchHash)), "{}", sim.report());
        assert!(heard.borrow().len() < 40, "a liar is not asked for ever");
    }
}

#[test]
fn wrong_totals_are_refused() {
    let code = padded_forward(1, 5000);
    let known = code.clone();
    let mut turn = 0;
    let (mut sim, heard) = with_peer(2, move |message| match message {
        fetch::Message::Request { nonce, digest, missing, .. } => {
            turn += 1;
            let mut bytes = object(&known, digest);
            bytes.resize((bytes.len() * turn).min(fetch::MAX_OBJECT), 0);
            parts(nonce, digest, missing, &bytes)
        }
        _ => Vec::new(),
    });
    sim.open(1, 1);
    send(&mut sim, code.name(), 1);
    at_rest(&mut sim);
    let totals = sim.totals();
    assert_eq!((totals.delivered, totals.dropped.of(Reason::FetchTimeout)), (0, 1), "{}", sim.report());
    assert!(totals.messages_dropped.of(Reason::FetchHash) > 0);
    assert!(heard.borrow().len() < 200);
}

#[test]
fn a_silent_peer_is_asked_a_few_times() {
    let (mut sim, heard) = with_peer(2, |_| Vec::new());
    for _ in 0..20 {
        send(&mut sim, forward().name(), 1);
    }
    at_rest(&mut sim);
    let totals = sim.totals();
    assert_eq!(totals.dropped.of(Reason::FetchTimeout) + totals.dropped.of(Reason::FetchFull), 20);
    assert!(totals.dropped.of(Reason::FetchTimeout) >= 16, "{}", sim.report());
    assert!((3..=10).contains(&heard.borrow().len()), "{} requests", heard.borrow().len());
}

#[test]
fn another_source_is_asked_when_the_first_is_silent() {
    let mut network = Network::unlinked(3);
    network.link(0, 1, Line::default()).link(1, 2, Line::default());
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    sim.replace(0, Box::new(Peer { heard: Heard::default(), answer: |_: fetch::Message<'_>| Vec::new() }));
    let code = forward();
    sim.add_code(2, &code);
    sim.open(1, 1);
    send(&mut sim, code.name(), 1);
    sim.run_for(10 * MS);
    sim.inject(2, header(code.name(), sim.address(1), 64), b"").unwrap();
    at_rest(&mut sim);
    assert_eq!(sim.totals().delivered, 2, "{}", sim.report());
}

#[test]
fn another_source_is_asked_when_the_first_lies_about_the_length_or_has_no_code() {
    type Answer = fn(fetch::Message<'_>) -> Vec<Vec<u8>>;
    let long: Answer = |message| match message {
        fetch::Message::Request { nonce, digest, .. } => vec![peers::part(nonce, digest, 0, &[0; fetch::MAX_OBJECT])],
        _ => Vec::new(),
    };
    let absent: Answer = |message| match message {
        fetch::Message::Request { nonce, digest, .. } => {
            vec![peers::message(&fetch::Message::Absent { nonce, digest })]
        }
        _ => Vec::new(),
    };
    for answer in [long, absent] {
        let mut network = Network::unlinked(3);
        network.link(0, 1, Line::default()).link(1, 2, Line::default());
        let mut sim = crate::net::simulation(network, seed(1)).unwrap();
        sim.replace(0, Box::new(Peer { heard: Heard::default(), answer }));
        let code = forward();
        sim.add_code(2, &code);
        sim.open(1, 1);
        // Both are sources before the first one answers.
        sim.inject(2, header(code.name(), sim.address(1), 64), b"").unwrap();
        send(&mut sim, code.name(), 1);
        at_rest(&mut sim);
        assert_eq!(sim.totals().delivered, 2, "{}", sim.report());
    }
}

#[test]
fn answers_nobody_asked_for_change_nothing() {
    let code = forward();
    let (mut sim, _) = with_peer(3, |_| Vec::new());
    sim.add_code(2, &code);
    sim.open(1, 1);
    let manifest = code.manifest_bytes().to_vec();
    // The capsule comes from node 2; the peer, which knows its code, guesses.
    sim.inject(2, header(code.name(), sim.address(1), 64), b"").unwrap();
    for step in 0..400u32 {
        let mut lie = manifest.clone();
        lie[3] = step as u8;
        sim.put_frame(0, 0, &peers::part(step, code.name(), 0, &lie));
        sim.put_frame(0, 0, &peers::message(&fetch::Message::Absent { nonce: step, digest: code.name() }));
        sim.run_for(MS / 20);
    }
    at_rest(&mut sim);
    assert_eq!(sim.totals().delivered, 1);
    assert_eq!(sim.totals().messages_dropped.of(Reason::FetchSpoofed), 800);
    assert_eq!(sim.totals().fetch.requests, 2);
}

#[test]
fn a_flood_of_unknown_names_takes_bounded_memory_and_loses_nothing_else() {
    let code = forward();
    let (mut sim, heard) = with_peer(3, |_| Vec::new());
    sim.add_code(2, &code);
    sim.open(1, 1);
    sim.inject(2, header(code.name(), sim.address(1), 64), b"").unwrap();
    sim.run_for(SECOND);
    assert_eq!(sim.totals().delivered, 1);
    for number in 0..5000u32 {
        send(&mut sim, Digest::of(&number.to_be_bytes()), 1);
        if number % 10 == 0 {
            sim.inject(2, header(code.name(), sim.address(1), 64), b"").unwrap();
            sim.run_for(MS);
        }
        let fetch = sim.status(1).unwrap().fetch;
        assert!(fetch.codes <= 64 && fetch.capsules <= 64 * 16);
    }
    at_rest(&mut sim);
    let totals = sim.totals();
    assert_eq!(totals.delivered, 501, "{}", sim.report());
    let ends = [Reason::FetchFull, Reason::FetchTimeout, Reason::LookUpRate].map(|reason| totals.dropped.of(reason));
    assert_eq!(ends.iter().sum::<u64>(), 5000, "{}", sim.report());
    assert!(ends[0] + ends[1] > 100 && ends[2] > 4000, "they end, and one neighbour has its share only: {ends:?}");
    assert!(heard.borrow().len() < 6000, "one request each, and a few repetitions: {}", heard.borrow().len());
}

#[test]
fn answers_never_exceed_three_times_the_request() {
    let code = padded_forward(1, 60_000);
    let wasm = code.representation(Kind::Wasm).unwrap().clone();
    let (mut sim, heard) = with_peer(2, |_| Vec::new());
    sim.add_code(1, &code);
    let requester = sim.address(0);
    let names = [code.name(), Digest::of(&wasm), Digest([7; 32])];
    for (number, wanted) in [1u64, 3, 15, 255, u64::MAX].into_iter().enumerate() {
        for digest in names {
            for keep in [fetch::padded_request_len(wanted.count_ones()), 64, 300, 700] {
                heard.borrow_mut().clear();
                let request = fetch::Message::Request { nonce: number as u32, digest, missing: wanted, requester };
                let mut frame = vec![0; request.len()];
                request.emit(&mut frame).unwrap();
                // Shorter than it should be, as a forger would like it.
                frame.truncate(keep);
                let frame = peers::anep(anep::type_id::FETCH, &frame);
                sim.put_frame(0, 0, &frame);
                sim.run_for(SECOND);
                let answered: usize = heard.borrow().iter().map(Vec::len).sum();
                assert!(answered <= 3 * frame.len(), "{answered} bytes for {} ({wanted:b})", frame.len());
            }
        }
    }
    assert!(sim.totals().fetch.parts >= 20 && sim.totals().fetch.absents > 5, "{}", sim.report());
}

#[test]
fn a_neighbour_that_asks_too_fast_is_throttled() {
    let code = padded_forward(1, 60_000);
    let digest = Digest::of(code.representation(Kind::Wasm).unwrap());
    let (mut sim, heard) = with_peer(2, |_| Vec::new());
    sim.add_code(1, &code);
    let requester = sim.address(0);
    for _ in 0..4000 {
        sim.put_frame(0, 0, &peers::message(&fetch::Message::Request { nonce: 1, digest, missing: 15, requester }));
        sim.run_for(MS / 2);
    }
    sim.run_for(SECOND);
    let answered: usize = heard.borrow().iter().map(Vec::len).sum();
    let rate = sim.network().sizes.fetch_bytes_per_second as usize;
    assert!(answered < 4 * rate, "{answered} bytes in two seconds");
    assert!(sim.totals().messages_dropped.of(Reason::FetchRate) > 100, "{}", sim.report());
}

#[test]
fn strangers_get_no_answer() {
    let line = Line { carries: Carries::Ethernet, ..Line::default() };
    let mut network = Network::new(Shape::Line { nodes: 2 }, line, 0).unwrap();
    network.family = Family::V4;
    let code = forward();
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    sim.add_code(1, &code);
    let heard = Heard::default();
    sim.replace(0, Box::new(Peer { heard: heard.clone(), answer: |_: fetch::Message<'_>| Vec::new() }));
    let near = anode::wire::Addr::v4([172, 16, 0, 1]);
    let far = anode::wire::Addr::v4([203, 0, 113, 9]);
    for (source, claims) in [(far, far), (far, near), (near, far)] {
        let request = fetch::Message::Request { nonce: 1, digest: code.name(), missing: 1, requester: claims };
        sim.put_frame(0, 0, &native(source, anode::wire::Addr::v4([172, 16, 0, 2]), &request));
    }
    sim.run_for(SECOND);
    assert!(heard.borrow().is_empty(), "nothing comes back, not even a question");
    assert_eq!(sim.totals().messages_dropped.of(Reason::FetchForeign), 3, "{}", sim.report());
    let request = fetch::Message::Request { nonce: 1, digest: code.name(), missing: 1, requester: near };
    sim.put_frame(0, 0, &native(near, anode::wire::Addr::v4([172, 16, 0, 2]), &request));
    sim.run_for(SECOND);
    assert_eq!(sim.totals().messages_dropped.total(), 3);
    assert!(!heard.borrow().is_empty(), "a neighbour's link address is asked for");
}

#[test]
fn forged_previous_nodes_are_forgotten() {
    let line = Line { carries: Carries::Ethernet, ..Line::default() };
    let mut network = Network::new(Shape::Line { nodes: 2 }, line, 0).unwrap();
    network.family = Family::V4;
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    let known = |sim: &Simulation| sim.status(1).unwrap().neighbours.len();
    sim.replace(0, Box::new(Peer { heard: Heard::default(), answer: |_: fetch::Message<'_>| Vec::new() }));
    let (near, to, before) = (sim.address(0), sim.address(1), known(&sim));
    for last in [0, 3] {
        let previous = anode::wire::Addr::v4([172, 16, 0, last]);
        let forged = capsule::Header { previous, source: near, ..header(forward().name(), to, 64) };
        sim.put_frame(0, 0, &datagram(near, to, &peers::capsule(&forged)));
    }
    sim.run_for(SECOND);
    assert_eq!(known(&sim), before + 2, "{}", sim.report());
    at_rest(&mut sim);
    sim.run_for(60 * SECOND);
    assert_eq!(known(&sim), before, "the neighbour that is configured stays");
}

/// A fetch message in UDP, IPv4 and Ethernet.
fn native(source: anode::wire::Addr, destination: anode::wire::Addr, message: &fetch::Message<'_>) -> Vec<u8> {
    datagram(source, destination, &peers::message(message))
}

/// An ANEP packet in UDP, IPv4 and Ethernet.
pub fn datagram(source: anode::wire::Addr, destination: anode::wire::Addr, inner: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14 + 20 + 8 + inner.len()];
    let mac = ethernet::Mac([2, 0, 0, 0, 0, 1]);
    let link = ethernet::Repr { destination: mac, source: mac, tag: None, ethertype: ethernet::ethertype::IPV4 };
    link.emit(&mut frame).unwrap();
    let ip = ipv4::Repr::new(source.bytes_v4().unwrap(), destination.bytes_v4().unwrap(), 17, 64, 8 + inner.len());
    ip.emit(&mut frame[14..]).unwrap();
    let udp = udp::Repr { source_port: 3322, destination_port: anep::UDP_PORT, payload_len: inner.len() };
    udp.emit(&mut frame[34..]).unwrap();
    frame[42..].copy_from_slice(inner);
    frame
}
