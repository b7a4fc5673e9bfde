//! A packet in steady state allocates nothing: counted by an allocator.

#[path = "../node/bed.rs"]
mod bed;
mod crowd;
mod programs;
#[path = "../running/wait.rs"]
mod wait;

use anode::code::bundle::{Bundle, Kind};
use anode::code::run::wasm::{Backstop, Compiler};
use anode::driver::{Driven, Driver, Outside, Supply};
use anode::frame::{Frame, FramePool, Link, PeerId, PortId};
use anode::kernel::{Filters, PortEntry, Steering, Which};
use anode::node::hosts::InProcess;
use anode::node::{Effect, Node, NodeConfig, Sizes};
use anode::nodeos::interface::{ChanSpec, DomainId, NodeOs, OutChanId, Upcall};
use anode::port::packet::{PacketPort, Rooms};
use anode::port::xdp::{QueueSocket, XdpPort};
use anode::schedule::Policy;
use anode::sys::mmsg::{Batch, RawAddr};
use anode::sys::netns::Namespace;
use anode::sys::packet::{PacketSocket, Room};
use anode::sys::xsk::{Copying, Place, Umem, XskSocket};
use anode::topology::{Ceiling, Neighbour, NextHop, Port, Routes};
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::wire::ethernet::Mac;
use anode::wire::{Addr, Digest, Prefix, anep, capsule};
use bed::{Bed, datagram};
use plan::packet::{Header, Outline};
use plan::value::{Host, Value};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;

/// The system's allocator, counting what the current thread asks of it.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// Bytes of what it has asked for and not given back.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; the counts are plain thread-local cells
// that neither allocate nor drop.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait asks, and as the caller promises.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        HELD.with(|held| held.set(held.get() + layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as the trait asks, and as the caller promises.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.with(|held| held.set(held.get() - layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const HERE: Addr = Addr::v4([10, 0, 0, 2]);
const LEFT: Addr = Addr::v4([10, 0, 0, 1]);
const RIGHT: Addr = Addr::v4([10, 0, 0, 3]);

/// Uses soft state, sends a child, reads the clock, and forwards.
const BUSY: &str = r#"(module
    (import "anode" "an_now" (func $now (result i64)))
    (import "anode" "an_state_add" (func $add (param i64 i64 i32) (result i64)))
    (import "anode" "an_send" (func $send (param i32) (result i32)))
    (memory (export "memory") 1 1)
    (global (export "an_arena") i32 (i32.const 0))
    (func (export "capsule") (param i32 i32) (result i32)
        (drop (call $now))
        (drop (call $add (i64.const 1) (i64.const 1) (i32.const 1000)))
        (drop (call $send (i32.const 2)))
        i32.const 1))"#;

/// A capsule of `code` from the left to the right neighbour.
fn packet(code: Digest) -> Vec<u8> {
    let header = capsule::Header { app_port: 1, bound: 10, code, previous: LEFT, source: LEFT, destination: RIGHT };
    let mut bytes = vec![0; anep::HEADER + capsule::HEADER];
    header.emit(&mut bytes[anep::HEADER..]).unwrap();
    bytes.extend([0; 100]);
    let length = bytes.len() - anep::HEADER;
    anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, length).unwrap();
    bytes
}

/// A node between two neighbours.
fn node() -> Node {
    let port = |name: &str| Port {
        name: name.into(),
        link: Link::Overlay,
        addresses: vec![(HERE, Prefix::host(HERE))],
        mtu: 1452,
        bits_per_second: 1_000_000_000,
        ceiling: Ceiling::default(),
    };
    let neighbour = |addr, port| Neighbour { addr, port: PortId(port), peer: PeerId(0) };
    let hop = |to, port| (Prefix::host(to), NextHop { port: PortId(port), via: to });
    Node::new(NodeConfig {
        name: "steady".into(),
        ports: vec![port("left"), port("right")],
        neighbours: vec![neighbour(LEFT, 0), neighbour(RIGHT, 1)],
        routes: Arc::new(Routes::new([hop(LEFT, 0), hop(RIGHT, 1)])),
        roles: Arc::default(),
        sizes: Sizes::default(),
        seed: 1,
        kernel: false,
    })
}

/// Counts the frames that leave.
struct Counted<'a> {
    supply: &'a mut Supply,
    sent: &'a mut usize,
}

impl Outside for Counted<'_> {
    fn send(&mut self, driven: &mut Driven<'_>, frame: Frame) {
        *self.sent += 1;
        driven.turn.out.pool.give(frame);
    }

    fn effect(&mut self, driven: &mut Driven<'_>, effect: Effect) {
        self.supply.effect(driven, effect);
    }
}

#[test]
fn packets_in_steady_state_allocate_nothing() {
    let wasm = wat::parse_str(BUSY).unwrap();
    let bundle = Bundle::build("busy", 8, &[(Kind::Wasm, wasm.into())], None).unwrap();
    let mut supply = Supply::new(Compiler::new(Backstop::Ticker).unwrap());
    supply.add(&bundle);
    let mut driver = Driver::new(node());
    let bytes = packet(bundle.name());
    let mut now = 0;
    let mut sent = 0;
    let mut one = |counted: bool| -> u64 {
        let before = COUNT.with(Cell::get);
        now += 1000;
        let mut frame = driver.out.pool.take();
        frame.fill(&bytes);
        (frame.port, frame.peer) = (PortId(0), PeerId(0));
        driver.receive(now, frame);
        driver.timer_if_due(now);
        assert!(!counted || driver.out.effects.is_empty(), "the code is here");
        driver.settle(now, &mut Counted { supply: &mut supply, sent: &mut sent });
        COUNT.with(Cell::get) - before
    };
    let warm: u64 = (0..1000).map(|_| one(false)).sum();
    assert!(warm > 0, "the allocator counts");
    let steady: u64 = (0..100_000).map(|_| one(true)).sum();
    assert_eq!(steady, 0, "allocations in 100,000 packets");
    assert_eq!(sent, 2 * 101_000, "each packet and its child left");
}

/// Sends what comes on by its channel.
struct Onward(OutChanId);

impl InProcess for Onward {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        let Upcall::Packet { frame, .. } = upcall else { return };
        if let Err((frame, _)) = os.outchan_send(self.0, None, frame) {
            os.packet_free(domain, frame);
        }
    }
}

#[test]
fn packets_of_channels_allocate_nothing_alone_or_in_batches() {
    for policy in [Policy::Fifo, Policy::Wfq] {
        let mut bed = Bed::new(policy);
        let grants = Grants { channels: 4, bandwidth: u64::MAX, ..Grants::default() };
        let role = Role { grants, ..Role::anyone(Default::default()) };
        let domain = bed.domain(&role, Box::new(Onward(OutChanId(0))));
        bed.channel(domain, 5000);
        let (protocol, address) = ("if1/ip/udp".into(), "*:5000 -> 10.0.1.2:5000".into());
        let spec = ChanSpec { protocol, address, ..ChanSpec::default() };
        let out = bed.os(domain, |os| os.outchan_create(domain, &spec)).unwrap();
        assert!(bed.driver.node.replace_environment(domain, Box::new(Onward(out))));
        bed.say(1, [10, 0, 1, 2], Mac([2, 0, 0, 0, 1, 2]));
        bed.feed(5000);
        while bed.turn(|node, turn| node.run_next(turn).map(|ran| node.ran(ran, 100, turn.now))).is_some() {}
        bed.say(1, [10, 0, 1, 2], Mac([2, 0, 0, 0, 1, 2]));
        let bytes = Frame::from_bytes(datagram(5000).bytes());
        let mut batch = Vec::with_capacity(64);
        let mut sent = 0;
        bed.driver.out.frames.drain(..).for_each(drop);
        let mut round = |bed: &mut Bed, count: usize| {
            let before = COUNT.with(Cell::get);
            bed.now += 100_000;
            for _ in 0..count {
                let mut frame = bed.driver.out.pool.take();
                frame.fill(bytes.bytes());
                (frame.port, frame.peer) = (PortId(0), PeerId::NONE);
                batch.push(frame);
            }
            bed.turn(|node, turn| match count {
                1 => batch.drain(..).for_each(|frame| node.receive(turn, frame)),
                _ => node.receive_all(turn, &mut batch),
            });
            while bed.turn(|node, turn| node.run_next(turn).map(|ran| node.ran(ran, 100, turn.now))).is_some() {}
            while let Some(frame) = bed.driver.out.frames.pop() {
                sent += 1;
                bed.driver.out.pool.give(frame);
            }
            COUNT.with(Cell::get) - before
        };
        for _ in 0..4 {
            let _ = round(&mut bed, 64);
        }
        let steady: u64 = (0..1000).map(|n| round(&mut bed, if n % 2 == 0 { 64 } else { 1 })).sum();
        assert_eq!((steady, sent), (0, 4 * 64 + 500 * 65), "{policy:?}");
    }
}

/// A ping from the left neighbour to this address, its code whole or by digest.
fn ping(to: Addr, by_digest: bool) -> Vec<u8> {
    let source = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/apps/plan/ping.plan")).unwrap();
    let script = anode::apps::plan::Script::new("ping", &source).unwrap();
    let (from, to) = (Host(LEFT.0), Host(to.0));
    let chunk = script.chunk("ping", [Value::Host(from), Value::Host(to)]).unwrap();
    let header = Header { destination: to, ..Header::injected(from, 100) };
    let mut message = plan::packet::Packet { header, chunk }.bytes().unwrap();
    if by_digest {
        let mut short = Vec::new();
        Outline::read(&message).unwrap().contract(plan::program::Digest::of, &mut short).unwrap();
        message = short;
    }
    let mut bytes = vec![0; anep::HEADER];
    anep::emit_basic(&mut bytes, anep::type_id::PLAN, message.len()).unwrap();
    bytes.extend_from_slice(&message);
    bytes
}

#[test]
fn plan_packets_allocate_nothing_when_routed_and_little_when_evaluated() {
    let mut driver = Driver::new(node());
    driver.node.speak_plan(Default::default());
    let mut now = 0;
    let mut one = |bytes: &[u8]| -> (u64, usize) {
        let before = COUNT.with(Cell::get);
        now += 10_000;
        let mut frame = driver.out.pool.take();
        frame.fill(bytes);
        (frame.port, frame.peer) = (PortId(0), PeerId(0));
        driver.receive(now, frame);
        driver.timer_if_due(now);
        let sent = driver.out.frames.len();
        while let Some(frame) = driver.out.frames.pop() {
            driver.out.pool.give(frame);
        }
        (COUNT.with(Cell::get) - before, sent)
    };
    for (to, most) in [(RIGHT, 0), (HERE, 8)] {
        let bytes = ping(to, false);
        (0..1000).for_each(|_| assert!(one(&bytes).1 > 0));
        for by_digest in [false, true] {
            let bytes = ping(to, by_digest);
            (0..100).for_each(|_| assert!(one(&bytes).1 > 0));
            let (counts, sent) =
                (0..20_000).map(|_| one(&bytes)).fold((0, 0), |sum, (count, sent)| (sum.0 + count, sum.1 + sent));
            assert!(sent >= 20_000, "every packet is answered or sent on");
            assert!(counts <= most * 20_000, "{counts} allocations in 20,000 packets to {to}, by digest: {by_digest}");
        }
    }
}

/// A network namespace with a pair of interfaces, `x0` and `x1`, taken away in the end.
struct Wire(String);

impl Wire {
    fn new() -> Wire {
        let name = format!("anode-steady-{}", std::process::id());
        let wire = Wire(name.clone());
        let ip =
            |line: &str| assert!(Command::new("ip").args(line.split(' ')).status().unwrap().success(), "ip {line}");
        ip(&format!("netns add {name}"));
        // No frames but ours.
        ip(&format!("netns exec {name} sysctl -qw net.ipv6.conf.default.disable_ipv6=1"));
        ip(&format!("-n {name} link add x0 address 02:00:00:00:00:01 type veth peer name x1"));
        ip(&format!("-n {name} link set x0 up"));
        ip(&format!("-n {name} link set x1 up"));
        wire
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// An AF_XDP port on this interface.
fn xdp_port(interface: u32, mac: Mac) -> XdpPort {
    let steering = Steering::alone(None).unwrap();
    let port = PortEntry { interface, number: 0, mtu: 1500, redirected: 1500, mac, bound_max: 64, v4: None, v6: None };
    steering.attach(&port).unwrap();
    let umem = Arc::new(Umem::new(2048, 512).unwrap());
    let place = Place { interface, queue: 0, first: 0, receive: 256, send: 256, busy_poll_us: 0 };
    let socket = XskSocket::open(&umem, None, &place, Copying::Copy).unwrap();
    let tickets = steering.connect(0, &socket).unwrap();
    steering.announce(interface, 0, 1).unwrap();
    // The program goes with it, so it stays for as long as the test.
    std::mem::forget(steering);
    let (mut stacks, _) =
        PacketPort::open(PortId(0), interface, 1500, true, (1, Rooms { passed_up: Room::Much, channels: Room::Much }))
            .unwrap();
    XdpPort::new(PortId(0), stacks.remove(0), vec![QueueSocket::new(socket, tickets)])
}

#[test]
fn frames_cross_an_af_xdp_port_without_an_allocation() {
    if !anode::sys::process::is_root() {
        assert!(std::env::var_os("CI").is_none(), "AF_XDP needs root, and continuous integration must run this");
        println!("SKIPPED: AF_XDP needs root");
        return;
    }
    const BURST: usize = 32;
    let wire = Wire::new();
    let namespace = Namespace::open(&wire.0).unwrap().unwrap();
    let cross = || {
        let all = anode::sys::netlink::interfaces().unwrap();
        let on = |name: &str| all.iter().find(|interface| interface.name == name).unwrap();
        let (near, far) = (on("x0"), on("x1"));
        let mut port = xdp_port(near.index, near.mac.unwrap());
        let sender =
            PacketSocket::open(far.index, 1514, &Filters::create().unwrap().filter(Which::All).unwrap()).unwrap();
        // UDP to port 3322; nobody looks further.
        let mut frame = [&near.mac.unwrap().0[..], &far.mac.unwrap().0[..], &[8, 0, 0x45]].concat();
        frame.extend([0; 200]);
        (frame[23], frame[36], frame[37]) = (17, 0x0c, 0xfa);
        let mut batch = Batch::default();
        let (mut pool, mut frames, mut refused) = (FramePool::new(2000, 64), Vec::with_capacity(256), Vec::new());
        let mut burst = || -> u64 {
            let sent = batch.send(sender.as_fd(), (0..BURST).map(|_| (&frame[..], RawAddr::NONE))).unwrap();
            let before = COUNT.with(Cell::get);
            while frames.len() < sent {
                if port.receive(&mut pool, &mut frames).0 == 0 {
                    // Of a port with one queue.
                    let socket = port.sockets().next().unwrap();
                    wait::readable(&socket, || format!("{} of {sent} frames came", frames.len()));
                }
            }
            for frame in frames.drain(..) {
                assert_eq!(frame.len(), 215);
                assert!(port.queue().push(frame).is_ok());
            }
            while !port.queue().is_empty() {
                port.flush(&mut pool, &mut refused);
            }
            port.settled();
            assert!(refused.is_empty());
            COUNT.with(Cell::get) - before
        };
        let warm: u64 = (0..20).map(|_| burst()).sum();
        assert!(warm > 0, "the allocator counts");
        (0..1000).map(|_| burst()).sum::<u64>()
    };
    assert_eq!(namespace.enter(cross).unwrap(), 0, "allocations in {} frames", 1000 * BURST);
}
