//! One node without anything around it: a test is its network, its store and its compiler.
#![allow(dead_code, reason = "each test program uses its part")]

use anode::code::bundle::{Bundle, Kind};
use anode::code::run::wasm::{Backstop, Compiler};
use anode::core::ledger::Unaccounted;
use anode::core::log::Line;
use anode::core::reason::{Drops, Reason};
use anode::driver::{Driven, Driver, Outside, Supply};
use anode::frame::{Frame, Link, PeerId, PortId};
use anode::node::status::Status;
use anode::node::workers::Joint;
use anode::node::{Effect, Node, NodeConfig, Sizes};
use anode::topology::{Ceiling, Neighbour, NextHop, Port, Routes};
use anode::wire::{Addr, Digest, Prefix, anep, capsule, ethernet, fetch, ipv4, udp};
use std::sync::Arc;

pub const HERE: Addr = Addr::v4([10, 0, 0, 2]);
pub const LEFT: Addr = Addr::v4([10, 0, 0, 1]);
pub const RIGHT: Addr = Addr::v4([10, 0, 0, 3]);
pub const FAR: Addr = Addr::v4([10, 0, 0, 9]);

/// The link address of a node's port on a link.
pub const MAC: ethernet::Mac = ethernet::Mac([2, 0, 0, 0, 0, 2]);

/// A node between two neighbours, its store, and all that came out of it.
pub struct Bench {
    pub driver: Driver,
    pub supply: Supply,
    pub now: u64,
    second: Option<Box<Second>>,
}

/// Another worker of the node, to which all frames come that do not come to the first by name: there is one if `WORKERS` is 2, as for
/// the cases that `again.rs` runs once more.
struct Second {
    driver: Driver,
    outside: Supply,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::sized(Sizes { state_entries: 256, ..Sizes::default() })
    }

    /// The same with tables of these sizes.
    pub fn sized(sizes: Sizes) -> Bench {
        Bench::between(sizes, false)
    }

    /// The same with a kernel half to speak to.
    pub fn with_kernel() -> Bench {
        Bench::between(Sizes { state_entries: 256, ..Sizes::default() }, true)
    }

    fn between(sizes: Sizes, kernel: bool) -> Bench {
        let left = Neighbour { addr: LEFT, port: PortId(0), peer: PeerId(0) };
        let hop = |to: Addr, port, via| (Prefix::host(to), NextHop { port: PortId(port), via });
        let routes = [hop(LEFT, 0, LEFT), hop(RIGHT, 1, RIGHT), hop(FAR, 1, RIGHT)];
        Bench::made(port("left", Link::Overlay, Prefix::host(HERE)), Some(left), Routes::new(routes), (sizes, kernel))
    }

    /// The same with a link on its left, on which all addresses that begin with 10.0 are.
    pub fn on_link() -> Bench {
        Bench::on_link_beside(false)
    }

    /// The same, perhaps with a kernel half to speak to.
    pub fn on_link_beside(kernel: bool) -> Bench {
        let link = Link::Ethernet { mac: MAC, answers: false };
        let by_right = NextHop { port: PortId(1), via: RIGHT };
        let routes = Routes::new([("0.0.0.0/0".parse().unwrap(), by_right)]);
        let sizes = Sizes { state_entries: 256, ..Sizes::default() };
        Bench::made(port("eth", link, "10.0.0.0/16".parse().unwrap()), None, routes, (sizes, kernel))
    }

    /// The same with another port on its left.
    pub fn of(first: Port, neighbour: Option<Neighbour>, routes: Routes, sizes: Sizes) -> Bench {
        Bench::made(first, neighbour, routes, (sizes, false))
    }

    fn made(first: Port, neighbour: Option<Neighbour>, routes: Routes, (sizes, kernel): (Sizes, bool)) -> Bench {
        let right = Neighbour { addr: RIGHT, port: PortId(1), peer: PeerId(0) };
        let config = NodeConfig {
            name: "bench".into(),
            ports: vec![first, port("right", Link::Overlay, Prefix::host(HERE))],
            neighbours: neighbour.into_iter().chain([right]).collect(),
            routes: Arc::new(routes),
            roles: Arc::default(),
            sizes,
            seed: 7,
            kernel,
        };
        let node = Node::new(config.clone());
        let compiler = Compiler::new(Backstop::FuelOnly).unwrap();
        let mut bench = Bench { driver: Driver::new(node), supply: Supply::new(compiler), now: 1, second: None };
        if std::env::var("WORKERS").is_ok_and(|workers| workers == "2") {
            bench.hire(config);
        }
        bench
    }

    fn hire(&mut self, mut config: NodeConfig) {
        let common = Joint::new(2, config.sizes.state_entries);
        (config.sizes.state_entries, config.seed) = (0, 8);
        let mut driver = Driver::new(Node::new(config));
        self.driver.node.set_worker(0, common.clone());
        driver.node.set_worker(1, common);
        self.second = Some(Box::new(Second { driver, outside: Supply::new(self.supply.compiler.clone()) }));
    }

    /// The node and what its turns need, for another one to drive.
    pub fn into_driver(mut self) -> Driver {
        let node = Node::new(config_of_nobody());
        core::mem::replace(&mut self.driver, Driver::new(node))
    }

    /// Puts code made from WAT into the store.
    pub fn add(&mut self, window: u32, wat: &str) -> Digest {
        let wasm = wat::parse_str(wat).unwrap();
        let bundle = Bundle::build("case", window, &[(Kind::Wasm, wasm.into())], None).unwrap();
        self.supply.add(&bundle);
        bundle.name()
    }

    /// A frame comes from the peer of an overlay port; what the node wants of the outside then is done.
    pub fn receive(&mut self, port: u16, bytes: &[u8]) {
        self.take(port, PeerId(0), bytes);
        self.settle();
    }

    /// A frame comes; what the node wants of the outside then is left.
    pub fn take(&mut self, port: u16, peer: PeerId, bytes: &[u8]) {
        let mut frame = Frame::from_bytes(bytes);
        (frame.port, frame.peer) = (PortId(port), peer);
        let driver = self.second.as_mut().map_or(&mut self.driver, |second| &mut second.driver);
        driver.receive(self.now, frame);
    }

    /// The next time comes at which the node has something to do.
    pub fn next_timer(&mut self) {
        self.now = self.driver.node.next_timer();
        self.driver.timer_if_due(self.now);
        self.second.iter_mut().for_each(|second| second.driver.timer_if_due(self.now));
    }

    /// Does what the node wants of the outside.
    pub fn settle(&mut self) {
        self.driver.answer(self.now, &mut self.supply);
        while self.settle_second() {
            self.driver.answer(self.now, &mut self.supply);
        }
    }

    /// Does what the first worker wants of the outside; what it tells others is left.
    pub fn settle_alone(&mut self) {
        self.driver.answer(self.now, &mut self.supply);
    }

    /// Does what the first worker has told the second, and what that one hands over; true if that was anything. What it sends is behind
    /// what the first does.
    fn settle_second(&mut self) -> bool {
        let Bench { driver, supply, now, second: Some(second) } = self else { return false };
        for order in std::mem::take(&mut supply.orders) {
            second.driver.turn(*now, |node, turn| node.obey(turn, order));
        }
        second.driver.answer(*now, &mut second.outside);
        driver.node.heard(*now, &std::mem::take(&mut second.outside.heard));
        for (port, addr) in std::mem::take(&mut second.outside.old_links) {
            driver.turn(*now, |node, turn| node.link_is_old(turn, port, addr));
        }
        driver.out.frames.append(&mut second.driver.out.frames);
        let handed = std::mem::take(&mut second.driver.out.handed);
        let some = !handed.is_empty();
        handed.into_iter().for_each(|packet| driver.turn(*now, |node, turn| node.take_handed(turn, packet)));
        some | give_marks_back(driver, &mut second.driver, now)
    }

    /// All that was dropped, by whichever worker.
    pub fn drops(&self) -> Drops {
        let mut drops = self.driver.node.drops().clone();
        self.second.iter().for_each(|second| drops.add(second.driver.node.drops()));
        drops
    }

    /// All counters, of whichever worker.
    pub fn status(&self) -> Status {
        let mut status = self.driver.node.status();
        self.second.iter().for_each(|second| status.add(&second.driver.node.status()));
        status
    }

    /// What mobile code has logged, at whichever worker.
    pub fn log(&self) -> Vec<Line> {
        let more = self.second.iter().flat_map(|second| second.driver.node.log());
        self.driver.node.log().into_iter().chain(more).collect()
    }

    /// The same, but what `other` takes, it answers itself.
    pub fn settle_with(&mut self, mut other: impl FnMut(&mut Driven<'_>, Effect) -> Option<Effect>) {
        let Bench { driver, supply, now, .. } = self;
        driver.answer_by(*now, |driven, effect| {
            if let Some(effect) = other(driven, effect) {
                supply.effect(driven, effect);
            }
        });
    }

    /// The one thing that came of what was given: frames out, deliveries, drops by reason.
    pub fn outcome(&mut self) -> (usize, usize, Vec<(Reason, u64)>) {
        let drops = self.drops().happened().collect();
        (self.driver.out.frames.len(), self.driver.out.deliveries.len(), drops)
    }
}

/// Marks that wait at the first worker of a node go back to the other, which goes on with what it holds, as soon as their time has
/// come: true if there were any.
pub fn give_marks_back(first: &mut Driver, second: &mut Driver, now: &mut u64) -> bool {
    if let Some(look) = first.node.next_look_at_marks() {
        *now = look.max(*now);
        first.turn(*now, |node, turn| node.timer(turn));
    }
    let marks = std::mem::take(&mut first.out.handed);
    let some = !marks.is_empty();
    marks.into_iter().for_each(|mark| second.turn(*now, |node, turn| node.take_handed(turn, mark)));
    some
}

/// A node without anything.
fn config_of_nobody() -> NodeConfig {
    NodeConfig {
        name: "nobody".into(),
        ports: Vec::new(),
        neighbours: Vec::new(),
        routes: Arc::default(),
        roles: Arc::default(),
        sizes: Sizes::default(),
        seed: 1,
        kernel: false,
    }
}

fn port(name: &str, link: Link, prefix: Prefix) -> Port {
    Port {
        name: name.into(),
        link,
        addresses: vec![(HERE, prefix)],
        mtu: 1452,
        bits_per_second: 0,
        ceiling: Ceiling::default(),
    }
}

pub fn header(code: Digest) -> capsule::Header {
    capsule::Header { app_port: 5, bound: 8, code, previous: LEFT, source: LEFT, destination: FAR }
}

pub fn packet(header: &capsule::Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; anep::HEADER + capsule::HEADER];
    header.emit(&mut bytes[anep::HEADER..]).unwrap();
    bytes.extend(payload);
    let length = bytes.len() - anep::HEADER;
    anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, length).unwrap();
    bytes
}

/// A module with the usual exports around a body; the window is at 64.
pub fn module(imports: &str, rest: &str, body: &str) -> String {
    format!(
        "(module {imports} (memory (export \"memory\") 1 1) (global (export \"an_arena\") i32 (i32.const 0)) {rest}
           (func (export \"capsule\") (param $ctx i32) (param $w i32) (result i32) {body}))"
    )
}

pub fn drops_one(reason: Reason) -> (usize, usize, Vec<(Reason, u64)>) {
    (0, 0, vec![(reason, 1)])
}

/// A request for the first part of an object, as ANEP.
pub fn request(digest: Digest, requester: Addr) -> Vec<u8> {
    let message = fetch::Message::Request { nonce: 1, digest, missing: 1, requester };
    let mut bytes = vec![0; anep::HEADER + message.len()];
    message.emit(&mut bytes[anep::HEADER..]).unwrap();
    anep::emit_basic(&mut bytes, anep::type_id::FETCH, message.len()).unwrap();
    bytes
}

/// The same bytes as a frame on a link, between two addresses.
pub fn native([source, destination]: [[u8; 4]; 2], anep: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 14 + 20 + 8];
    bytes[..6].copy_from_slice(&MAC.0);
    bytes[12] = 8;
    ipv4::Repr::new(source, destination, 17, 64, 8 + anep.len()).emit(&mut bytes[14..34]).unwrap();
    let udp = udp::Repr { source_port: 3322, destination_port: 3322, payload_len: anep.len() };
    udp.emit(&mut bytes[34..]).unwrap();
    bytes.extend(anep);
    bytes
}

impl Drop for Bench {
    /// No frame is lost without a counter, whatever the test did.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let node = &self.driver.node;
            assert_eq!(node.unaccounted(&self.driver.out.frames), Unaccounted::default(), "{:?}", node.balance());
            if let Some(Second { driver: Driver { node: second, out, .. }, .. }) = self.second.as_deref() {
                assert_eq!(second.unaccounted(&out.frames), Unaccounted::default(), "{:?}", second.balance());
                let between = node.balance().with(&second.balance()).handed;
                assert_eq!(between, out.handed.len() as u64, "what is between the workers");
            }
        }
    }
}
