//! Searches for code are paid by the packets that need it. One packet of a neighbour causes at most its bound × MTU
//! bytes in the whole network, with code fetched at every node, whatever is lost and asked for again.
//!
//! Bytes are those of IP packets, or of ANEP packets on an overlay, that nodes send, the forger's own apart. Questions
//! of ARP are not among them: they do not leave their link, and are few for an address. A frame that the network makes
//! two of is another packet that comes in.

use crate::amplify::{MTU, NODES, attacked, framed, frames, line_with_forger, of_many_codes, silence};
use crate::guests::{bouncing, header, padded_forward, seed};
use crate::net::{Net, host};
use anode::core::reason::Reason;
use anode::sim::{Actor, Carries, Line, Network, SECOND, Shape, Simulation, Tapped};
use anode::topology::Ceiling;
use anode::wire::{Digest, anep, capsule, ethernet, fetch};
use plan::packet::{Header, Outline, Packet, View};
use plan::program;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// What nodes send, without that of one place.
#[derive(Default)]
struct Seen {
    bytes: u64,
    /// Frames that have left a place and not arrived, of an overlay.
    left: HashMap<Vec<u8>, u32>,
    /// What frames that the network made two of may cause.
    of_copies: u64,
}

/// What one packet that comes in may cause.
fn of_ingress(bytes: &[u8]) -> u64 {
    let Ok(packet) = anep::Packet::new_checked(bytes) else { return 0 };
    let (payload, bound) = (&bytes[packet.header_len()..], |bound: u32| u64::from(bound.min(64)) * MTU as u64);
    match packet.type_id() {
        anep::type_id::CAPSULE => capsule::Header::parse(payload).map_or(0, |header| bound(header.bound)),
        anep::type_id::PLAN => View::new_checked(payload).map_or(0, |view| bound(view.bound())),
        anep::type_id::FETCH => match fetch::Message::parse(payload) {
            Ok(fetch::Message::Request { .. }) => (fetch::AMPLIFICATION * bytes.len()) as u64,
            _ => 0,
        },
        _ => 0,
    }
}

fn watch(sim: &mut Simulation, apart: usize) -> Rc<RefCell<Seen>> {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let inside = seen.clone();
    sim.tap(Box::new(move |frame: Tapped<'_>| {
        let seen = &mut *inside.borrow_mut();
        let overlay = anep::Packet::new_checked(frame.bytes).is_ok();
        if frame.leaves {
            if overlay {
                *seen.left.entry(frame.bytes.to_vec()).or_default() += 1;
            }
            let arp = !overlay && frame.bytes[12..14] == ethernet::ethertype::ARP.to_be_bytes();
            if frame.node != apart && !arp {
                seen.bytes += (frame.bytes.len() - if overlay { 0 } else { ethernet::HEADER }) as u64;
            }
        } else if overlay {
            match seen.left.get_mut(frame.bytes) {
                Some(left) if *left > 0 => *left -= 1,
                _ => seen.of_copies += of_ingress(frame.bytes),
            }
        }
    }));
    seen
}

/// A forger behind node 0, which has the code and serves it, lets a capsule with this bound go to the farthest node; what that causes.
fn caused(seed: u64, line: Line, bound: u32, bytes: usize) -> (u64, u64, Simulation) {
    let mut network = attacked(seed);
    network.links.iter_mut().for_each(|link| link.line = line);
    let mut sim = crate::net::simulation(network, seed).unwrap();
    let code = bouncing(seed as u32, bytes);
    sim.add_code(NODES, &code);
    (0..NODES).for_each(|node| sim.open(node, 1));
    let seen = watch(&mut sim, NODES);
    let payload = vec![7; MTU - anep::HEADER - capsule::HEADER - if line.carries == Carries::Overlay { 0 } else { 28 }];
    // The forger's node takes one of it.
    let bound_there = bound.saturating_add(1);
    sim.inject(NODES, header(code.name(), sim.address(NODES - 1), bound_there), &payload).unwrap();
    sim.run_for(60 * SECOND);
    let sums = (seen.borrow().bytes, seen.borrow().of_copies);
    (sums.0, sums.1, sim)
}

#[test]
fn one_capsule_and_the_code_that_it_makes_nodes_fetch_cause_its_bound_in_full_packets() {
    let base = seed(980);
    let mut far = 0;
    for (at, size) in [0, 2000, 8000, 30_000, 62_000].into_iter().enumerate() {
        for (bound, counts) in
            [(0, 0), (1, 1), (2, 2), (3, 3), (5, 5), (9, 9), (17, 17), (40, 40), (64, 64), (u32::MAX - 1, 64)]
        {
            for carries in [Carries::Overlay, Carries::Ethernet] {
                let seed = base + 3 * at as u64 + u64::from(bound % 3);
                let (bytes, _, sim) = caused(seed, Line { carries, ..Line::default() }, bound, size);
                let most = counts * MTU as u64;
                assert!(
                    bytes <= most,
                    "{carries:?}, seed {seed}, bound {bound}, {size} bytes: {bytes} where {most} may"
                );
                let ended = [Reason::FetchUnpaid, Reason::Bound].map(|reason| sim.totals().dropped.of(reason));
                assert!(bytes * 2 > most || ended != [0, 0], "{bytes} of {most}: where has it gone?\n{}", sim.report());
                far = far.max(sim.totals().fetch.loads);
            }
        }
    }
    assert!(far > 3, "at most {far} nodes have loaded the code");
}

#[test]
fn nor_do_they_where_frames_are_lost_and_come_twice() {
    let base = seed(1980);
    for seed in base..base + 24 {
        let loss = [0.05, 0.2, 0.5][seed as usize % 3];
        let line = Line { loss, duplicate: 0.05, reorder: 0.2, reorder_ms: 150.0, ..Line::default() };
        let bound = [4, 16, 64][seed as usize / 3 % 3];
        let size = [100, 5000, 20_000, 60_000][seed as usize / 9 % 4];
        let (bytes, of_copies, sim) = caused(seed, line, bound, size);
        let most = u64::from(bound) * MTU as u64;
        assert!(
            bytes <= most + of_copies,
            "seed {seed}: {bytes} where {most} and {of_copies} of copies may\n{}",
            sim.report()
        );
    }
}

#[test]
fn code_that_nobody_has_makes_no_flood_of_requests() {
    // The forger says that the capsule comes from a neighbour, which does not answer, or from itself.
    for (from, bound) in [(1, 0), (1, 1), (1, 7), (2, 1), (2, 30)] {
        let mut sim =
            crate::net::simulation(Network::new(Shape::Line { nodes: 3 }, Line::default(), 1).unwrap(), 1).unwrap();
        let heard = [0, 2].map(|node| silence(&mut sim, node));
        let (victim, previous) = (sim.address(2), sim.address(from));
        let head = capsule::Header { bound, previous, ..header(Digest([9; 32]), victim, 1) };
        let mut payload = vec![0; capsule::HEADER];
        head.emit(&mut payload).unwrap();
        sim.put_frame(0, 0, &framed(anep::type_id::CAPSULE, &payload));
        sim.run_for(60 * SECOND);
        let came: usize = heard.iter().map(|bytes| bytes.get()).sum();
        assert!(came <= bound as usize * MTU && (came > 0) == (bound > 0), "{came} bytes for {bound}");
        let reason = if bound < 30 { Reason::FetchUnpaid } else { Reason::FetchTimeout };
        assert_eq!(sim.totals().dropped.of(reason), 1, "{}", sim.report());
    }
}

/// Nodes in a line, the first of which has the code and the last of which takes its capsules.
fn line(nodes: usize, bytes: usize) -> (Simulation, Digest) {
    let mut network = Network::new(Shape::Line { nodes }, Line::default(), 1).unwrap();
    network.ceiling = Ceiling::NONE;
    let mut sim = crate::net::simulation(network, 1).unwrap();
    let code = padded_forward(1, bytes);
    sim.add_code(0, &code);
    sim.open(nodes - 1, 1);
    (sim, code.name())
}

/// Whether a capsule with this bound arrives at the last node.
fn arrives(sim: &mut Simulation, code: Digest, bound: u32) -> bool {
    let (before, to) = (sim.totals().delivered, sim.address(sim.nodes() - 1));
    sim.inject(0, header(code, to, bound), b"").unwrap();
    sim.run_for(30 * SECOND);
    sim.totals().delivered > before
}

#[test]
fn the_first_capsule_of_a_code_pays_for_it_and_those_behind_it_do_not() {
    // Bytes of the code, and units that fetching it costs at each node: a kilobyte is about one.
    for (bytes, units) in [(0, 1), (1000, 2), (2000, 3), (4000, 5), (8000, 9)] {
        let least = 3 * (1 + units);
        for (bound, enough) in [(least - 1, false), (least, true)] {
            let (mut sim, code) = line(4, bytes);
            assert_eq!(arrives(&mut sim, code, bound), enough, "{bytes} bytes, bound {bound}\n{}", sim.report());
            assert_eq!(sim.totals().dropped.of(Reason::FetchUnpaid), u64::from(!enough));
            // What one has paid for is there for the next.
            assert!(arrives(&mut sim, code, if enough { 3 } else { 3 + units }));
        }
    }
}

#[test]
fn the_default_bound_takes_six_kilobytes_over_eight_hops_and_a_second_capsule_takes_eight() {
    for (bytes, first) in [(2000, true), (6000, true), (8000, false)] {
        let mut network = Network::new(Shape::Line { nodes: 9 }, Line::default(), 1).unwrap();
        network.ceiling = Ceiling::default();
        let mut sim = crate::net::simulation(network, 1).unwrap();
        let code = padded_forward(1, bytes);
        sim.add_code(0, &code);
        sim.open(8, 1);
        assert_eq!(arrives(&mut sim, code.name(), 64), first, "{bytes} bytes\n{}", sim.report());
        assert!(arrives(&mut sim, code.name(), 64), "{bytes} bytes: what the first has paid for is there");
    }
}

#[test]
fn capsules_that_wait_for_one_code_pay_for_it_together() {
    for (capsules, arrive) in [(1, 0), (2, 0), (3, 3)] {
        let (mut sim, code) = line(2, 8000);
        for _ in 0..capsules {
            sim.inject(0, header(code, sim.address(1), 4), b"").unwrap();
        }
        sim.run_for(30 * SECOND);
        assert_eq!(sim.totals().delivered, arrive, "{capsules} of three units each\n{}", sim.report());
        assert_eq!(sim.totals().dropped.of(Reason::FetchUnpaid), capsules - arrive);
    }
}

/// A forger that has the codes of what it sends, and gives each at the last question.
struct Miser {
    codes: HashMap<Digest, Vec<u8>>,
    asked: HashMap<Digest, u32>,
    bytes: Rc<RefCell<u64>>,
}

impl Actor for Miser {
    fn receive(&mut self, _: u64, port: usize, frame: &[u8], send: &mut Vec<(usize, Vec<u8>)>) {
        *self.bytes.borrow_mut() += frame.len() as u64;
        let payload = &frame[anep::HEADER..];
        if let Ok(anode::wire::plan::Message::Want(digest)) = anode::wire::plan::Message::parse(payload) {
            let asked = self.asked.entry(Digest(digest)).or_default();
            *asked += 1;
            if *asked == 3
                && let Some(code) = self.codes.get(&Digest(digest))
            {
                let mut message = Vec::new();
                anode::wire::plan::put_code(code, &mut message);
                frames(&message).iter().for_each(|piece| send.push((port, framed(anep::type_id::PLAN, piece))));
            }
        }
    }
}

#[test]
fn questions_for_a_plan_packets_codes_and_word_of_them_are_paid_by_its_bound() {
    const LINE: usize = 6;
    let base = seed(2980);
    for (at, bound) in [0, 1, 2, 3, 5, 9, 16, 64].into_iter().enumerate() {
        for by_digest in [false, true] {
            for (codes, fill, carried_to) in
                [(2, 10, LINE - 1), (16, 700, LINE - 1), (16, 700, 0), (16, 3000, LINE - 1), (16, 3000, 0)]
            {
                let line = Line { loss: if at % 2 == 0 { 0.0 } else { 0.1 }, ..Line::default() };
                let mut network = line_with_forger(LINE);
                network.links.iter_mut().take(LINE - 1).for_each(|link| link.line = line);
                let mut net = Net::new(network, base + at as u64);
                let head = Header { destination: host(carried_to), ..Header::injected(host(LINE), bound) };
                let whole = Packet { header: head, chunk: of_many_codes(codes, fill) }.bytes().unwrap();
                let mut carried = whole.clone();
                let mut known = HashMap::new();
                if by_digest {
                    carried.clear();
                    let digest = |code: &[u8]| {
                        known.insert(Digest::of(code), code.to_vec());
                        program::Digest::of(code)
                    };
                    Outline::read(&whole).unwrap().contract(digest, &mut carried).unwrap();
                }
                let bytes = Rc::new(RefCell::new(0));
                let miser = Miser { codes: known, asked: HashMap::new(), bytes: bytes.clone() };
                net.sim.replace(LINE, Box::new(miser));
                let seen = watch(&mut net.sim, LINE);
                frames(&carried)
                    .iter()
                    .for_each(|piece| net.sim.put_frame(LINE, 0, &framed(anep::type_id::PLAN, piece)));
                net.sim.run_for(80 * SECOND);
                let (caused, most) = (seen.borrow().bytes, u64::from(bound) * MTU as u64);
                let what = format!("bound {bound}, {codes} codes, by digest {by_digest}, to {carried_to}");
                assert!(caused <= most, "{what}: {caused} where {most} may, {} of it to the forger", bytes.borrow());
                assert!(bound < 9 || codes > 16 || caused > 0 || carried_to == 0, "{what}: it has gone nowhere");
                net.audit();
            }
        }
    }
}

#[test]
fn a_packet_that_has_nothing_left_is_not_sent_by_digest() {
    // Two hops, exactly paid; the second node forgets all codes between them.
    let mut net = Net::new(line_with_forger(3), 1);
    let script = anode::apps::plan::Script::new(
        "here",
        "fun here() : unit = print(1) fun main(to : host, rb : int) : unit = OnRemote(|here|(), to, rb, defaultRoute)",
    )
    .unwrap();
    for (bound, wanted) in [(4, 0), (4, 0), (2, 0), (3, 1)] {
        let forgets = bound < 4;
        if forgets {
            net.sim.change(anode::sim::Change::Crash { node: 2 });
            net.sim.change(anode::sim::Change::Restart { node: 2, store_kept: true });
        }
        let chunk = script.chunk("main", [crate::net::value(2), plan::value::Value::Int(bound)]).unwrap();
        net.inject(0, chunk, bound as u32);
        net.sim.run_for(SECOND);
        let account = |node: usize| net.sim.status(node).unwrap().plan.unwrap().account;
        assert_eq!((account(2).evaluated > 0, account(2).wanted), (true, wanted), "bound {bound}");
    }
}
