//! A worker in virtual time: sockets that hold so many frames, a node, and code that costs a nanosecond a step.
#![allow(dead_code)]

use anode::code::bundle::{Bundle, Kind};
use anode::code::run::wasm::{Backstop, Compiler};
use anode::driver::{Driven, Driver, Outside, Supply};
use anode::frame::{Frame, Link, PeerId, PortId};
use anode::node::paths::Round;
use anode::node::{Effect, Node, NodeConfig, Sizes, Turn};
use anode::schedule::Policy;
use anode::topology::{Neighbour, NextHop, Port, Routes};
use anode::wire::ethernet::{self, Mac, ethertype};
use anode::wire::{Addr, Digest, Prefix, anep, capsule, ipv4, udp};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// What taking a frame in costs, and what a packet's code costs beside its steps, in nanoseconds.
pub const INTAKE: u64 = 300;
const RUN: u64 = 300;

/// Frames that a socket holds: what 208 KiB of Linux's do.
const SOCKET: usize = 256;

/// Frames of one socket taken in until packets run.
const TAKEN: usize = 256;

/// Where a packet comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct From {
    pub port: u16,
    pub peer: PeerId,
}

/// Strangers on a link: each packet is of another one.
pub const LINK: From = From { port: 3, peer: PeerId::NONE };

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// Which code a packet names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// One that all use.
    Shared,
    /// One of the sender's own.
    Own(u32),
}

/// Sends a packet each so many nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    pub from: From,
    code: Code,
    loops: bool,
    gap: u64,
    next: u64,
}

impl Sender {
    pub fn new(from: From, code: Code, loops: bool, gap: u64) -> Sender {
        Sender { from, code, loops, gap, next: 1 }
    }
}

pub struct Worker {
    pub driver: Driver,
    now: u64,
    sockets: Vec<VecDeque<Frame>>,
    names: HashMap<Code, Digest>,
    supply: Supply,
    /// Frames that found their socket full.
    pub overrun: u64,
    sent_on: HashMap<u16, u64>,
    /// Names that strangers have used.
    strangers: u16,
    /// How often hot code was to be compiled again, for which there is no compiler.
    pub tried: u64,
}

/// Counts what leaves, and has no compiler any more.
struct Leaving<'a> {
    sent_on: &'a mut HashMap<u16, u64>,
    tried: &'a mut u64,
}

impl Outside for Leaving<'_> {
    fn send(&mut self, driven: &mut Driven<'_>, frame: Frame) {
        let bytes = frame.bytes();
        let who = bytes.get(bytes.len() - 2..).and_then(|end| end.first_chunk()).map(|end| u16::from_be_bytes(*end));
        *self.sent_on.entry(who.unwrap_or(0)).or_default() += 1;
        driven.turn.out.pool.give(frame);
    }

    fn effect(&mut self, driven: &mut Driven<'_>, effect: Effect) {
        if let Effect::Prepare(prepare) = effect {
            *self.tried += 1;
            driven.node.unprepared(&mut driven.turn, prepare.code);
        }
    }
}

/// An ANEP packet to where all go, in UDP, IPv4 and Ethernet.
fn native(from: Addr, inner: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 14 + ipv4::HEADER + udp::HEADER];
    let source = Mac([2, 0, 0, 0, 0, 2]);
    let link = ethernet::Repr { destination: MAC, source, tag: None, ethertype: ethertype::IPV4 };
    link.emit(&mut bytes).unwrap();
    let [from, to] = [from, addr(30)].map(|addr| addr.bytes_v4().unwrap());
    let ip = ipv4::Repr::new(from, to, udp::IP_PROTOCOL, 64, udp::HEADER + inner.len());
    ip.emit(&mut bytes[14..]).unwrap();
    let datagram =
        udp::Repr { source_port: anep::UDP_PORT, destination_port: anep::UDP_PORT, payload_len: inner.len() };
    datagram.emit(&mut bytes[14 + ipv4::HEADER..]).unwrap();
    bytes.extend_from_slice(inner);
    bytes
}

fn addr(last: u8) -> Addr {
    Addr::v4([10, 0, 0, last])
}

/// Ends at once, or never if the payload begins with anything but zero.
fn module(number: u32) -> Vec<u8> {
    let text = format!(
        "(module (memory (export \"memory\") 1 1) (global (export \"an_arena\") i32 (i32.const 0))
           (func (export \"capsule\") (param i32 i32) (result i32)
             (drop (i32.const {number}))
             (if (i32.load8_u offset=32 (local.get 1)) (then (loop (br 0))))
             (i32.const 1)))"
    );
    wat::parse_bytes(text.as_bytes()).unwrap().into_owned()
}

impl Worker {
    /// A node with two overlay ports with two neighbours each, and one on a link; what they send goes on to another
    /// behind a third overlay port.
    pub fn new(policy: Policy) -> Worker {
        let port = |name: &str| Port {
            name: name.into(),
            link: Link::Overlay,
            addresses: vec![(addr(1), Prefix::host(addr(1)))],
            mtu: 1452,
            bits_per_second: 0,
            ceiling: anode::topology::Ceiling::default(),
        };
        let own = Addr::v4([10, 1, 0, 1]);
        let link = Port {
            link: Link::Ethernet { mac: MAC, answers: true },
            addresses: vec![(own, Prefix::new(own, 96 + 16))],
            ..port("link")
        };
        let neighbour = |port, peer, last| Neighbour { addr: addr(last), port: PortId(port), peer: PeerId(peer) };
        let neighbours = vec![
            neighbour(0, 0, 10),
            neighbour(0, 1, 11),
            neighbour(1, 0, 20),
            neighbour(1, 1, 21),
            neighbour(2, 0, 30),
        ];
        let routes = neighbours.iter().map(|it| (Prefix::host(it.addr), NextHop { port: it.port, via: it.addr }));
        let routes = Arc::new(Routes::new(routes));
        let mut node = Node::new(NodeConfig {
            name: "fair".into(),
            ports: ["a", "b", "c"].map(port).into_iter().chain([link]).collect(),
            neighbours,
            routes,
            roles: Arc::default(),
            sizes: Sizes::default(),
            seed: 1,
            kernel: false,
        });
        node.set_scheduler(policy, 0);
        let mut worker = Worker {
            driver: Driver::new(node),
            now: 1,
            sockets: (0..4).map(|_| VecDeque::new()).collect(),
            names: HashMap::new(),
            supply: Supply::new(Compiler::new(Backstop::Ticker).unwrap()),
            overrun: 0,
            sent_on: HashMap::new(),
            strangers: 0,
            tried: 0,
        };
        worker.prepare(Code::Shared);
        worker
    }

    /// Makes a code ready before anybody sends it.
    fn prepare(&mut self, code: Code) {
        if self.names.contains_key(&code) {
            return;
        }
        let number = if let Code::Own(number) = code { number + 1 } else { 0 };
        let bundle = Bundle::build("fair", 8, &[(Kind::Wasm, module(number).into())], None).unwrap();
        self.supply.add(&bundle);
        self.names.insert(code, bundle.name());
        let bytes = self.capsule(code, false, Addr::UNSPECIFIED);
        self.turn(|node, turn| node.inject(turn, Frame::from_bytes(&bytes[anep::HEADER..]))).unwrap();
        self.driver.answer(self.now, &mut self.supply);
        while let Some(ran) = self.turn(|node, turn| node.run_next(turn)) {
            self.driver.node.ran(ran, 1, 1);
        }
        self.driver.out.frames.clear();
    }

    fn capsule(&self, code: Code, loops: bool, from: Addr) -> Vec<u8> {
        let header = capsule::Header {
            app_port: 1,
            bound: 9,
            code: self.names[&code],
            previous: from,
            source: from,
            destination: addr(30),
        };
        let mut bytes = vec![0; anep::HEADER + capsule::HEADER + 8];
        anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, capsule::HEADER + 8).unwrap();
        header.emit(&mut bytes[anep::HEADER..]).unwrap();
        bytes[anep::HEADER + capsule::HEADER] = u8::from(loops);
        bytes
    }

    /// Bytes of a packet.
    pub fn length(&self) -> u64 {
        (anep::HEADER + capsule::HEADER + 8) as u64
    }

    pub fn turn<R>(&mut self, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> R {
        self.driver.turn(self.now, work)
    }

    /// Packets of a neighbour's that went on.
    pub fn sent_on(&self, from: From) -> u64 {
        self.sent_on.get(&(from.port << 8 | from.peer.0)).copied().unwrap_or(0)
    }

    /// Works until a time on what these send.
    pub fn work(&mut self, senders: &mut [Sender], until: u64) {
        senders.iter().for_each(|sender| self.prepare(sender.code));
        while self.now < until {
            self.arrive(senders);
            let mut received = 0;
            for at in 0..self.sockets.len() {
                received += self.serve(at);
            }
            self.run(received);
            self.count_sent();
            self.driver.timer_if_due(self.now);
            if received == 0 && !self.driver.node.has_work() {
                self.now = senders.iter().map(|sender| sender.next).min().unwrap_or(until).max(self.now + 1);
            }
        }
    }

    /// Takes in so many packets of each of these and runs them; how many each turn was of.
    pub fn turns_of(&mut self, packets: usize, senders: &[Sender]) -> Vec<u32> {
        senders.iter().for_each(|sender| self.prepare(sender.code));
        for sender in senders {
            let mut frames: Vec<_> = (0..packets).map(|_| self.packet(sender)).collect();
            self.turn(|node, turn| node.receive_all(turn, &mut frames));
        }
        let mut turns = Vec::new();
        while let Some(ran) = self.turn(|node, turn| node.run_turn(turn)) {
            turns.push(ran.packets());
            self.driver.node.ran(ran, RUN, self.now);
        }
        turns
    }

    /// Takes in what a socket has; how long that took.
    fn serve(&mut self, at: usize) -> u64 {
        let count = self.sockets[at].len().min(TAKEN);
        if count == 0 {
            return 0;
        }
        let mut frames: Vec<_> = self.sockets[at].drain(..count).collect();
        let before = self.steps_at_once();
        self.turn(|node, turn| node.receive_all(turn, &mut frames));
        let cost = count as u64 * INTAKE + self.steps_at_once() - before;
        self.now += cost;
        self.driver.node.received(count, cost);
        cost
    }

    fn run(&mut self, received: u64) {
        let mut round = Round::behind(received, self.sockets.iter().any(|socket| !socket.is_empty()));
        while let Some(ran) = self.turn(|node, turn| node.run_turn(turn)) {
            let packets = ran.packets();
            let cost = RUN * u64::from(packets) + ran.steps;
            self.now += cost;
            self.driver.node.ran(ran, cost, self.now);
            if !round.goes_on(packets, cost) {
                break;
            }
        }
    }

    /// Steps that code has taken so far, where it runs when a packet comes.
    fn steps_at_once(&self) -> u64 {
        if self.driver.node.scheduler().waits() {
            return 0;
        }
        self.driver.node.domain_tree().iter().map(|domain| domain.usage.steps).sum()
    }

    /// Which neighbour a packet is of is in its last byte but one, which nothing looks at.
    fn count_sent(&mut self) {
        self.driver.settle(self.now, &mut Leaving { sent_on: &mut self.sent_on, tried: &mut self.tried });
    }

    /// What has come meanwhile is in its port's socket, as far as that has room.
    fn arrive(&mut self, senders: &mut [Sender]) {
        while let Some(sender) = senders.iter_mut().filter(|sender| sender.next <= self.now).min_by_key(|it| it.next) {
            let From { port, .. } = sender.from;
            sender.next += sender.gap;
            if self.sockets[usize::from(port)].len() >= SOCKET {
                self.overrun += 1;
                continue;
            }
            let sender = *sender;
            let frame = self.packet(&sender);
            self.sockets[usize::from(port)].push_back(frame);
        }
    }

    /// A packet of a sender's, as it comes.
    fn packet(&mut self, sender: &Sender) -> Frame {
        let From { port, peer } = sender.from;
        let last = if port == 0 { 10 } else { 20 } + peer.0.min(9) as u8;
        let from = match sender.from {
            LINK => {
                self.strangers = self.strangers.wrapping_add(1).max(2);
                let [high, low] = self.strangers.to_be_bytes();
                Addr::v4([10, 1, high, low])
            }
            _ => addr(last),
        };
        let mut bytes = self.capsule(sender.code, sender.loops, from);
        let end = bytes.len();
        bytes[end - 2..].copy_from_slice(&(port << 8 | peer.0).to_be_bytes());
        if sender.from == LINK {
            bytes = native(from, &bytes);
        }
        let mut frame = self.driver.out.pool.take();
        frame.fill(&bytes);
        (frame.port, frame.peer) = (PortId(port), peer);
        frame
    }
}
