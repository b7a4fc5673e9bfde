//! A namespace with two interfaces, and the two halves of one node told of it.
#![allow(dead_code)]

use anode::apps;
use anode::code::author::{self, Options};
use anode::code::bundle::{Bundle, Kind, Program};
use anode::code::run::Runtime;
use anode::code::run::wasm::{Backstop, Compiler};
use anode::kernel::{CodeState, KernelCounts, KernelHalf, KernelUsage, PortEntry};
use anode::node::{Effect, Node, NodeConfig, Output, Sizes, Turn};
use anode::nodeos::domain::Limits;
use anode::nodeos::reason::Reason;
use anode::port::{Frame, PeerId, PortId};
use anode::sys::netns::Namespace;
use anode::topology::{Link, Neighbour, NextHop, Port, Routes};
use anode::wire::ethernet::Mac;
use anode::wire::{Addr, Digest, Prefix, anep, arp, capsule, ethernet, ipv4, udp};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub const OWN_LEFT: Addr = Addr::v4([10, 0, 1, 254]);
const OWN_RIGHT: Addr = Addr::v4([10, 0, 2, 254]);
pub const LEFT: Addr = Addr::v4([10, 0, 1, 1]);
pub const RIGHT: Addr = Addr::v4([10, 0, 2, 1]);
/// Behind [`RIGHT`].
pub const FAR: Addr = Addr::v4([10, 0, 9, 9]);

const OWN_MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 0xfe]), Mac([2, 0, 0, 0, 2, 0xfe])];
const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 2, 1])];

const SETUP: &str = "
link add r0 address 02:00:00:00:01:fe type veth peer name s0
link add r1 address 02:00:00:00:02:fe type veth peer name d0
link set r0 up
link set r1 up
link set s0 up
link set d0 up
addr add 10.0.1.254/24 dev r0
addr add 10.0.2.254/24 dev r1
neigh replace 10.0.1.1 lladdr 02:00:00:00:01:01 dev r0 nud permanent
neigh replace 10.0.2.1 lladdr 02:00:00:00:02:01 dev r1 nud permanent
route add 10.0.9.0/24 via 10.0.2.1
";

/// What came of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// It leaves, as it is then.
    Sent(Vec<u8>),
    /// It goes to the user half as it came.
    Up(Vec<u8>),
    /// It goes to the user half, its code having run.
    UpRun(Vec<u8>),
    /// An application has it, at this port.
    Delivered(u16, Vec<u8>),
    /// It ends.
    Dropped,
    /// It ends in the user half, under this reason.
    DroppedFor(Reason),
}

pub struct Place {
    name: String,
    namespace: Namespace,
    half: Arc<KernelHalf>,
    interface: u32,
    node: Node,
    runtime: Runtime,
    out: Output,
    compiler: Compiler,
    store: HashMap<Digest, Arc<[u8]>>,
    states: HashMap<Digest, Arc<CodeState>>,
}

impl Place {
    /// Without root: says so, and fails where tests must run.
    pub fn new() -> Option<Place> {
        if !anode::sys::process::is_root() {
            assert!(std::env::var_os("CI").is_none(), "the kernel half needs root, and this must be run");
            println!("SKIPPED: the kernel half needs root");
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("anode-halves-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &name], "");
        let namespace = Namespace::open(&name).unwrap().unwrap();
        ip(&["-n", &name, "-batch", "-"], SETUP);
        let (half, interface) = namespace.enter(open).unwrap();
        let mut place = Place {
            name,
            namespace,
            half: Arc::new(half),
            interface,
            node: Node::new(config()),
            runtime: Runtime::default(),
            out: Output::default(),
            compiler: Compiler::new(Backstop::FuelOnly).unwrap(),
            store: HashMap::new(),
            states: HashMap::new(),
        };
        place.resolve();
        Some(place)
    }

    /// Lets the user half's node learn the link addresses that the kernel was told of.
    fn resolve(&mut self) {
        for (port, (addr, own)) in [(LEFT, OWN_LEFT), (RIGHT, OWN_RIGHT)].into_iter().enumerate() {
            let header = capsule::Header { destination: addr, ..header(Digest([0; 32])) };
            // Any packet that has to go there makes it ask.
            let mut packet = frame(&header, b"", false);
            packet[14 + 28 + 3] ^= 0x55;
            self.put(port as u16 ^ 1, &packet);
            let (Some(mac), Some(ip), Some(own)) = (Some(MACS[port]), addr.octets_v4(), own.octets_v4()) else {
                return;
            };
            let reply = arp::Repr {
                operation: arp::Operation::Reply,
                sender_mac: mac,
                sender_ip: ip,
                target_mac: OWN_MACS[port],
                target_ip: own,
            };
            let mut bytes = vec![0; 14 + arp::LENGTH];
            let ethertype = ethernet::ethertype::ARP;
            let header = ethernet::Repr { destination: OWN_MACS[port], source: mac, tag: None, ethertype };
            header.emit(&mut bytes).unwrap();
            reply.emit(&mut bytes[14..]).unwrap();
            self.put(port as u16, &bytes);
        }
        self.out.frames.clear();
    }

    fn put(&mut self, port: u16, bytes: &[u8]) {
        let mut frame = Frame::from_bytes(bytes);
        (frame.port, frame.peer) = (PortId(port), PeerId::NONE);
        let mut turn = Turn { now: 1, runtime: &mut self.runtime, out: &mut self.out };
        self.node.receive(&mut turn, frame);
        while let Some(effect) = self.out.effects.pop() {
            let mut turn = Turn { now: 1, runtime: &mut self.runtime, out: &mut self.out };
            match effect {
                Effect::LookUp(digest) => self.node.found(&mut turn, digest, self.store.get(&digest).cloned()),
                Effect::Prepare(prepare) => {
                    self.node.prepared(&mut turn, prepare.code, prepare.carry_out(&self.compiler));
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, bundle: &Bundle) -> Result<(), String> {
        for object in bundle.objects() {
            self.store.insert(Digest::of(object), object.clone());
        }
        let program = Program::parse(bundle.representation(Kind::Bpf).unwrap()).unwrap();
        let (name, window) = (bundle.name(), bundle.manifest().window());
        let state = self.half.add_code(&name, &program, window, &Limits::default());
        self.states.insert(name, state.map_err(|error| error.to_string())?);
        self.half.activate(&name).unwrap();
        Ok(())
    }

    /// A program of tests/guests, in both halves.
    pub fn add_guest(&mut self, name: &str) -> Digest {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/guests/{name}.c"));
        let bundle = author::build(&source, &Options::default()).unwrap();
        self.add(&bundle).unwrap();
        bundle.name()
    }

    /// A shipped application, in both halves, or why not.
    pub fn add_app(&mut self, name: &str) -> Result<(), String> {
        let app = apps::APPS.iter().find(|app| app.title == name).unwrap();
        self.add(&app.bundle().unwrap())
    }

    /// Loads a program and takes it out again, or says why it is refused.
    pub fn load(&self, program: &Program, window: u32) -> Result<(), String> {
        let name = Digest::of(&program.encode());
        self.half.add_code(&name, program, window, &Limits::default()).map_err(|error| error.to_string())?;
        self.half.remove_code(&name).map_err(|error| error.to_string())
    }

    /// Gives the user half the state that the kernel half has for a code, as a running node does.
    pub fn share_state(&mut self, code: Digest) {
        let state = self.states[&code].clone();
        let mut turn = Turn { now: 1, runtime: &mut self.runtime, out: &mut self.out };
        self.node.linked(&mut turn, code, Ok(state));
        self.out.effects.clear();
    }

    pub fn usage(&self, code: Digest) -> KernelUsage {
        self.half.usage(&code).unwrap()
    }

    pub fn counts(&self) -> KernelCounts {
        self.half.counts()
    }

    /// What the user half does with a frame that comes in by the left port.
    pub fn user(&mut self, bytes: &[u8]) -> Came {
        self.outcome(|place| place.put(0, bytes))
    }

    /// What the kernel half does with it.
    pub fn kernel(&self, bytes: &[u8]) -> Came {
        let (half, interface) = (&self.half, self.interface);
        let run = || half.test_run(bytes, interface).unwrap();
        match self.namespace.enter(run).unwrap() {
            (4, left) => Came::Sent(left),
            (2, left) if left == bytes => Came::Up(left),
            (2, left) => Came::UpRun(left),
            (1, _) => Came::Dropped,
            (verdict, _) => panic!("XDP verdict {verdict}"),
        }
    }

    /// What comes in the end of what the kernel half made of a frame.
    pub fn resume(&mut self, came: &Came) -> Came {
        match came {
            Came::Up(bytes) => self.user(bytes),
            Came::UpRun(bytes) => self.outcome(|place| place.put(0, bytes)),
            Came::Dropped => Came::DroppedFor(Reason::Code),
            came => came.clone(),
        }
    }

    fn outcome(&mut self, work: impl FnOnce(&mut Place)) -> Came {
        let before = self.node.drops().clone();
        work(self);
        let after = self.node.drops();
        if let Some(frame) = self.out.frames.pop() {
            return Came::Sent(frame.bytes().to_vec());
        }
        if let Some(delivery) = self.out.deliveries.pop() {
            return Came::Delivered(delivery.port, delivery.frame.bytes().to_vec());
        }
        let reason = Reason::ALL.iter().find(|reason| after.of(**reason) > before.of(**reason));
        reason.map_or(Came::Dropped, |reason| Came::DroppedFor(*reason))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.name], "");
    }
}

fn ip(arguments: &[&str], input: &str) {
    use std::io::Write;
    let mut child = Command::new("ip").args(arguments).stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "ip {arguments:?}");
}

/// In the namespace: opens the kernel half and tells it of ports and neighbours; and the left interface.
fn open() -> (KernelHalf, u32) {
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    let mut name = [0; 16];
    name[..4].copy_from_slice(b"both");
    let half = KernelHalf::new(name, anode::sys::clock::Clock::start().origin()).unwrap();
    let (left, right) = (interface_index("r0"), interface_index("r1"));
    for (number, (interface, own)) in [(left, OWN_LEFT), (right, OWN_RIGHT)].into_iter().enumerate() {
        let port =
            PortEntry { interface, number: number as u32, mtu: 1500, mac: OWN_MACS[number], v4: Some(own), v6: None };
        half.attach(port).unwrap();
    }
    // One that is gone has left no trace.
    half.set_neighbours(vec![(0, LEFT), (1, RIGHT), (1, FAR)]).unwrap();
    half.set_neighbours(vec![(0, LEFT), (1, RIGHT)]).unwrap();
    half.set_routes(&config().routes, [OWN_LEFT, OWN_RIGHT].into_iter()).unwrap();
    (half, left)
}

fn interface_index(name: &str) -> u32 {
    let text = Command::new("ip").args(["-j", "link", "show", name]).output().unwrap().stdout;
    let links: serde_json::Value = serde_json::from_slice(&text).unwrap();
    links[0]["ifindex"].as_u64().unwrap() as u32
}

/// The same for the user half.
fn config() -> NodeConfig {
    let port = |number: usize, own: Addr| Port {
        name: format!("r{number}"),
        link: Link::Ethernet { mac: OWN_MACS[number], answers: false },
        addresses: vec![(own, Prefix::new(own, 120))],
        mtu: 1500,
        bits_per_second: 0,
    };
    let neighbour = |addr, port| Neighbour { addr, port: PortId(port), peer: PeerId::NONE };
    let to = |text: &str, port, via| (text.parse().unwrap(), NextHop { port: PortId(port), via });
    NodeConfig {
        name: "both".into(),
        ports: vec![port(0, OWN_LEFT), port(1, OWN_RIGHT)],
        neighbours: vec![neighbour(LEFT, 0), neighbour(RIGHT, 1)],
        routes: Arc::new(Routes::new([
            to("10.0.1.0/24", 0, Addr::UNSPECIFIED),
            to("10.0.2.0/24", 1, Addr::UNSPECIFIED),
            to("10.0.9.0/24", 1, RIGHT),
        ])),
        roles: Arc::default(),
        sizes: Sizes::default(),
        seed: 7,
        kernel: true,
    }
}

/// A capsule from the left to the far end.
pub fn header(code: Digest) -> capsule::Header {
    capsule::Header { app_port: 5, bound: 8, code, previous: LEFT, source: LEFT, destination: FAR }
}

/// The frame around it, as it comes in by the left port.
pub fn frame(header: &capsule::Header, payload: &[u8], direct: bool) -> Vec<u8> {
    let length = capsule::HEADER + payload.len();
    let mut body = vec![0; anep::HEADER + capsule::HEADER];
    anep::emit_basic(&mut body, anep::type_id::CAPSULE, length).unwrap();
    header.emit(&mut body[anep::HEADER..]).unwrap();
    body.extend(payload);
    if !direct {
        let mut datagram = vec![0; udp::HEADER];
        let ports = udp::Repr { source_port: 3322, destination_port: 3322, payload_len: body.len() };
        ports.emit(&mut datagram).unwrap();
        datagram.extend(body);
        body = datagram;
    }
    let (from, to) = (header.source.octets_v4().unwrap(), header.destination.octets_v4().unwrap());
    let ip = ipv4::Repr::new(from, to, if direct { anep::IP_PROTOCOL } else { 17 }, 33, body.len());
    let mut bytes = vec![0; 14 + 20];
    let ethertype = ethernet::ethertype::IPV4;
    ethernet::Repr { destination: OWN_MACS[0], source: MACS[0], tag: None, ethertype }.emit(&mut bytes).unwrap();
    ip.emit(&mut bytes[14..]).unwrap();
    bytes.extend(body);
    bytes
}

/// The shipped applications, with their code names.
pub fn shipped() -> Vec<(&'static str, Digest)> {
    apps::APPS.iter().map(|app| (app.title, app.bundle().unwrap().name())).collect()
}
