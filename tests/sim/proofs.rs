//! Neighbours with proofs: in the simulator on both kinds of links, and packet by packet against replay, reordering and
//! forgery.

use crate::guests::*;
use anode::core::reason::Reason;
use anode::driver::Driver;
use anode::frame::{Frame, Link, PeerId, PortId};
use anode::node::entry::FRAME_STEPS;
use anode::node::hosts::InProcess;
use anode::node::proofs::{Demands, Guard, NeighbourKey};
use anode::node::{Node, NodeConfig, Sizes};
use anode::nodeos::interface::{ChanSpec, DomainId, NodeOs, OutChanId, Upcall};
use anode::sim::{Carries, Line, Network, SECOND, Shape, Simulation};
use anode::topology::{Neighbour, NextHop, Port, Routes};
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::wire::proof::{CODE_IN_PACKET, PROOF};
use anode::wire::{Addr, Prefix, anep};
use std::sync::{Arc, Mutex};

const DEMANDS: Demands = Demands { mac: true, signed_code: false, signed_plan: false };

fn network(line: Line) -> Network {
    let mut network = Network::new(Shape::Line { nodes: 4 }, line, 0).unwrap();
    (network.secret, network.demands) = (Some([7; 32]), DEMANDS);
    network
}

/// Sends a hundred capsules from end to end.
fn send(network: Network) -> Simulation {
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    sim.open(3, 1);
    let code = forward();
    sim.add_code(0, &code);
    for _ in 0..100 {
        sim.inject(0, header(code.name(), sim.address(3), 20), b"").unwrap();
        sim.run_for(SECOND);
    }
    sim.run_for(60 * SECOND);
    sim
}

#[test]
fn capsules_and_their_code_pass_ports_that_demand_proofs_on_both_kinds_of_links() {
    for carries in [Carries::Overlay, Carries::Ethernet] {
        let sim = send(network(Line { carries, ..Line::default() }));
        assert_eq!((sim.totals().delivered, sim.totals().dropped.total()), (100, 0), "{carries:?}: {}", sim.report());
    }
}

#[test]
fn what_comes_twice_counts_once_and_what_is_overtaken_still_counts() {
    for carries in [Carries::Overlay, Carries::Ethernet] {
        let line = Line { carries, duplicate: 0.5, reorder: 0.5, ..Line::default() };
        let sim = send(network(line));
        let totals = sim.totals();
        assert_eq!(totals.delivered, 100, "seed {}: {}", sim.seed(), sim.report());
        let replayed = totals.dropped.of(Reason::MacReplayed) + totals.messages_dropped.of(Reason::MacReplayed);
        assert!(replayed > 50, "{replayed}");
        let mut open = network(line);
        (open.secret, open.demands) = (None, Demands::default());
        assert!(send(open).totals().delivered > 100, "without proofs they are delivered twice");
    }
}

#[test]
fn another_key_on_one_side_lets_nothing_through() {
    let mut wrong = network(Line::default());
    wrong.wrong_keys.push((2, 1));
    let sim = send(wrong);
    assert_eq!(sim.totals().delivered, 0);
    assert_eq!(sim.totals().dropped.of(Reason::MacForged), 100, "{}", sim.report());
    let mut none = network(Line::default());
    none.secret = None;
    let sim = send(none);
    assert_eq!((sim.totals().delivered, sim.totals().dropped.of(Reason::Unauthenticated)), (0, 100));
}

/// What node 2 has charged to its neighbour 1, and to the strangers of the port to it.
fn charged(sim: &Simulation) -> (u64, u64) {
    let status = sim.status(2).unwrap();
    let port = &status.ports[0];
    let mut behind = status.neighbours.iter().filter(|known| known.port == port.name);
    let neighbour = behind.find_map(|known| known.entry).unwrap();
    (neighbour.worker_ns, port.strangers.worker_ns)
}

#[test]
fn who_proves_what_it_sends_has_a_bucket_of_its_own_and_forgers_share_that_of_strangers() {
    for carries in [Carries::Overlay, Carries::Ethernet] {
        let line = Line { carries, ..Line::default() };
        let (neighbour, strangers) = charged(&send(network(line)));
        assert!(neighbour >= 100 * FRAME_STEPS, "{carries:?}: {neighbour}");
        assert!(strangers <= 20 * FRAME_STEPS, "{carries:?}: questions for addresses, and nothing else: {strangers}");
        let mut forger = network(line);
        forger.wrong_keys.push((2, 1));
        let (neighbour, strangers) = charged(&send(forger));
        assert!(strangers >= 100 * FRAME_STEPS && neighbour == 0, "{carries:?}: {strangers}, {neighbour}");
    }
}

/// Whether it was proved, and its bytes.
type Heard = (bool, Vec<u8>);

/// Keeps what comes: whether the neighbour was authenticated, and the payload.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<Vec<Heard>>>);

impl InProcess for Taken {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if let Upcall::Packet { frame, .. } = upcall {
            self.0.lock().unwrap().push((frame.authenticated, frame.bytes().to_vec()));
            os.packet_free(domain, frame);
        }
    }
}

/// A node with one overlay port and one neighbour, that sends by a channel and takes what comes by one.
struct Side {
    driver: Driver,
    now: u64,
    taken: Taken,
    domain: DomainId,
    channel: OutChanId,
    other: Addr,
}

impl Side {
    fn new(own: u8, other: u8, keys: &[(u32, u8)], demands: Demands, unix_ns: u64) -> Side {
        let addr = |n: u8| Addr::v4([10, 0, 0, n]);
        let port = Port {
            name: "p".into(),
            link: Link::Overlay,
            addresses: vec![(addr(own), Prefix::new(addr(0), 120))],
            mtu: 1500,
            bits_per_second: 0,
            ceiling: Default::default(),
        };
        let next = NextHop { port: PortId(0), via: addr(other) };
        let config = NodeConfig {
            name: "side".into(),
            ports: vec![port],
            neighbours: vec![Neighbour { addr: addr(other), port: PortId(0), peer: PeerId(0) }],
            routes: Arc::new(Routes::new([(Prefix::host(addr(other)), next)])),
            roles: Arc::default(),
            sizes: Sizes::default(),
            seed: 1,
            kernel: false,
        };
        let mut node = Node::new(config);
        let key = |(id, secret): &(u32, u8)| NeighbourKey {
            port: PortId(0),
            addr: addr(other),
            id: *id,
            secret: [*secret; 32],
        };
        node.set_guard(
            0,
            Guard { demands: vec![demands], keys: keys.iter().map(key).collect(), unix_ns, ..Guard::default() },
        );
        let role = Role {
            grants: Grants { channels: 4, bandwidth: u64::MAX, ..Grants::default() },
            ..(*Role::of_node()).clone()
        };
        let taken = Taken::default();
        let (_, domain) = node.attach("side", &role, Box::new(taken.clone())).unwrap();
        let spec = ChanSpec { protocol: "if0/anep".into(), address: "type 300".into(), ..ChanSpec::default() };
        let mut driver = Driver::new(node);
        let channel = driver.turn(0, |node, turn| {
            node.with_os(turn, domain, |os| {
                os.inchan_create(domain, &spec).unwrap();
                os.outchan_create(domain, &spec).unwrap()
            })
        });
        Side { driver, now: 0, taken, domain, channel, other: addr(other) }
    }

    /// What goes out when this is sent.
    fn send(&mut self, payload: &[u8]) -> Vec<u8> {
        let (domain, channel, other) = (self.domain, self.channel, Some((self.other, 0)));
        let frame = Frame::from_bytes(payload);
        let sent = self
            .driver
            .turn(self.now, |node, turn| node.with_os(turn, domain, |os| os.outchan_send(channel, other, frame)));
        sent.map_err(|(_, error)| error).unwrap();
        self.driver.out.frames.pop().unwrap().bytes().to_vec()
    }

    /// Takes a frame in; gives what the environment got of it, and the reason of a drop.
    fn receive(&mut self, bytes: &[u8]) -> (Option<(bool, Vec<u8>)>, Option<Reason>) {
        let before = self.driver.node.drops().clone();
        let mut frame = Frame::from_bytes(bytes);
        (frame.port, frame.peer, frame.authenticated) = (PortId(0), PeerId(0), true);
        self.driver.receive(self.now, frame);
        let reason =
            Reason::ALL.iter().copied().find(|reason| self.driver.node.drops().of(*reason) > before.of(*reason));
        (self.taken.0.lock().unwrap().pop(), reason)
    }
}

/// The time of both sides.
const UNIX: u64 = 1_800_000_000_000_000_000;

fn pair() -> (Side, Side) {
    (Side::new(1, 2, &[(5, 9)], DEMANDS, UNIX), Side::new(2, 1, &[(5, 9)], DEMANDS, UNIX))
}

#[test]
fn a_proof_is_right_once() {
    let (mut a, mut b) = pair();
    let frame = a.send(b"hello");
    // As docs/wire.md has it; computed by Python's hmac.
    let written = "0100012c000b003100040009686d6163000000050063eb89da4ed00156de7c2991750a086b95c2d3a816d43368656c6c6f";
    assert_eq!((hex::encode(&frame).as_str(), frame.len()), (written, anep::HEADER + PROOF + 5));
    assert_eq!(b.receive(&frame), (Some((true, b"hello".to_vec())), None));
    assert_eq!(b.receive(&frame), (None, Some(Reason::MacReplayed)));
    let (reply, reflected) = (b.send(b"back"), b.send(b"more"));
    assert_eq!(b.receive(&reflected), (None, Some(Reason::MacForged)), "nothing goes back to who sent it");
    assert_eq!(a.receive(&reply), (Some((true, b"back".to_vec())), None));
}

#[test]
fn every_bent_bit_is_noticed() {
    let (mut a, mut b) = pair();
    let frame = a.send(b"hello");
    for at in 0..frame.len() {
        let mut bent = frame.clone();
        bent[at] ^= 4;
        let (got, reason) = b.receive(&bent);
        assert!(got.is_none() && reason.is_some(), "byte {at}: {reason:?}");
        if at >= CODE_IN_PACKET {
            assert_eq!(reason, Some(Reason::MacForged), "byte {at}");
        }
    }
    assert_eq!(b.receive(&frame).0, Some((true, b"hello".to_vec())), "the window has not moved");
}

#[test]
fn what_is_overtaken_by_up_to_1023_packets_counts_and_no_more() {
    let (mut a, mut b) = pair();
    let frames: Vec<_> = (0..1026u32).map(|number| a.send(&number.to_be_bytes())).collect();
    assert!(b.receive(&frames[1025]).0.is_some());
    assert_eq!(b.receive(&frames[0]).1, Some(Reason::MacReplayed));
    assert_eq!(b.receive(&frames[1]).1, Some(Reason::MacReplayed), "1024 behind");
    assert!(frames[2..1025].iter().rev().all(|frame| b.receive(frame).0.is_some()));
    assert!(frames.iter().all(|frame| b.receive(frame).1 == Some(Reason::MacReplayed)));
}

#[test]
fn what_is_overtaken_by_a_jump_of_the_counter_counts_once() {
    let (mut a, mut b) = pair();
    assert!(b.receive(&a.send(b"first")).0.is_some());
    let before: Vec<_> = (0..5u8).map(|number| a.send(&[number])).collect();
    a.now += 20_000_000_000;
    assert!(b.receive(&a.send(b"behind the jump")).0.is_some());
    assert!(before.iter().rev().all(|frame| b.receive(frame).0.is_some()));
    assert!(before.iter().all(|frame| b.receive(frame).1 == Some(Reason::MacReplayed)));
}

#[test]
fn who_has_no_key_or_another_one_is_out_where_proofs_are_demanded_and_nobody_in_particular_elsewhere() {
    for (keys, expected) in [
        (&[][..], Reason::Unauthenticated),
        (&[(6, 9)][..], Reason::Unauthenticated),
        (&[(5, 8)][..], Reason::MacForged),
    ] {
        let mut a = Side::new(1, 2, keys, Demands::default(), UNIX);
        let (_, mut b) = pair();
        let frame = a.send(b"x");
        assert_eq!(b.receive(&frame).1, Some(expected), "{keys:?}");
        let mut open = Side::new(2, 1, &[(5, 9)], Demands::default(), UNIX);
        let got = if expected == Reason::MacForged { None } else { Some((false, b"x".to_vec())) };
        assert_eq!(open.receive(&frame).0, got, "{keys:?}");
    }
}

#[test]
fn keys_are_changed_one_side_after_the_other() {
    let (old, new) = ((5, 9), (6, 4));
    let mut a = Side::new(1, 2, &[new, old], DEMANDS, UNIX);
    let mut b = Side::new(2, 1, &[old, new], DEMANDS, UNIX);
    let (there, back) = (a.send(b"there"), b.send(b"back"));
    assert_ne!(there[anep::HEADER + 8..][..4], back[anep::HEADER + 8..][..4], "each sends with its first");
    assert!(b.receive(&there).0.is_some() && a.receive(&back).0.is_some());
}

#[test]
fn a_restart_neither_shuts_neighbours_out_nor_lets_old_packets_in() {
    let (mut a, mut b) = pair();
    let frames: Vec<_> = (0..5000u32).map(|number| a.send(&number.to_be_bytes())).collect();
    frames.iter().for_each(|frame| assert!(b.receive(frame).0.is_some()));
    // The sender again, five milliseconds later.
    let mut again = Side::new(1, 2, &[(5, 9)], DEMANDS, UNIX + 5_000_000);
    assert!(b.receive(&again.send(b"again")).0.is_some());
    // The receiver again, two minutes later: what was recorded before is old.
    let mut later = Side::new(2, 1, &[(5, 9)], DEMANDS, UNIX + 120_000_000_000);
    assert_eq!(later.receive(&frames[4999]).1, Some(Reason::MacReplayed));
    again.now = 120_000_000_000;
    assert!(later.receive(&again.send(b"now")).0.is_some(), "its counter has jumped to the time of day");
    // One whose clock is an hour behind is out, and the reason says so.
    let mut behind = Side::new(1, 2, &[(5, 9)], DEMANDS, UNIX - 3_600_000_000_000);
    assert_eq!(later.receive(&behind.send(b"x")).1, Some(Reason::MacReplayed));
    assert!(Reason::MacReplayed.help().contains("clock"));
}
