//! A namespace with two interfaces, and both halves of one node on them; beside them a user half alone.
#![allow(dead_code)]

pub mod user;
pub mod wires;

use anode::apps;
use anode::code::author::{self, AuthorOptions};
use anode::code::bundle::{Bundle, Kind, Program};
use anode::core::reason::Reason;
use anode::core::share::SharedAccount;
use anode::frame::{Link, PeerId, PortId};
use anode::kernel::{CodeState, KernelCounts, KernelHalf, KernelUsage, Opening, PortEntry};
use anode::node::{NodeConfig, Shared, Sizes};
use anode::sys::clock::Clock;
use anode::sys::netns::Namespace;
use anode::topology::{Ceiling, Neighbour, NextHop, Port, Routes};
use anode::trust::limits::Limits;
use anode::trust::{CodeForm, Role, Roles};
use anode::wire::ethernet::Mac;
use anode::wire::{Addr, Digest, Prefix, anep, capsule, ethernet, ipv4, udp};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use user::{Hosts, User, Went};

pub const OWN_LEFT: Addr = Addr::v4([10, 0, 1, 254]);
pub const OWN_RIGHT: Addr = Addr::v4([10, 0, 2, 254]);
pub const LEFT: Addr = Addr::v4([10, 0, 1, 1]);
pub const RIGHT: Addr = Addr::v4([10, 0, 2, 1]);
/// Behind [`RIGHT`].
pub const FAR: Addr = Addr::v4([10, 0, 9, 9]);

/// The same in IPv6: host `last` of network `net`.
pub const fn v6(net: u8, last: u8) -> Addr {
    Addr([0xfd, 0, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
}

/// The node's address on a port.
pub fn own(port: u16, v4: bool) -> Addr {
    match (port, v4) {
        (0, true) => OWN_LEFT,
        (_, true) => OWN_RIGHT,
        (port, false) => v6(port as u8 + 1, 0xfe),
    }
}

pub const OWN_MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 0xfe]), Mac([2, 0, 0, 0, 2, 0xfe])];
pub const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 2, 1])];

const HOSTS: Hosts = &[(0, LEFT, MACS[0]), (1, RIGHT, MACS[1]), (0, v6(1, 1), MACS[0]), (1, v6(2, 1), MACS[1])];

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
route add 10.0.8.0/24 via 10.0.1.1
route add 10.0.9.0/24 via 10.0.2.1
addr add fd00:1::fe/64 dev r0 nodad
addr add fd00:2::fe/64 dev r1 nodad
neigh replace fd00:1::1 lladdr 02:00:00:00:01:01 dev r0 nud permanent
neigh replace fd00:2::1 lladdr 02:00:00:00:02:01 dev r1 nud permanent
route add fd00:8::/64 via fd00:1::1
route add fd00:9::/64 via fd00:2::1
";

/// What came of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// It leaves, as it is then.
    Sent(Vec<u8>),
    /// It and its children leave, or some of them, each by a port.
    Left(Vec<(u16, Vec<u8>)>),
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
    /// What codes added from now on may use in the kernel half.
    pub limits: Limits,
    /// In which form.
    pub form: CodeForm,
    half: Arc<KernelHalf>,
    interfaces: [u32; 2],
    /// A user half without a kernel half.
    pub alone: User,
    /// The user half that takes what comes up from the kernel half.
    pub above: User,
    states: HashMap<Digest, Arc<CodeState>>,
    wires: Option<wires::Wires>,
}

impl Place {
    /// Without root: says so, and fails where tests must run.
    pub fn new() -> Option<Place> {
        Place::within(Limits::default())
    }

    /// The same, with what the code of `anyone` may use in both halves.
    pub fn within(limits: Limits) -> Option<Place> {
        Place::with_roles(limits, Vec::new())
    }

    /// The same, with these roles besides.
    pub fn with_roles(limits: Limits, more: Vec<Role>) -> Option<Place> {
        crate::gate::pass();
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
        let (half, interfaces) = namespace.enter(open).unwrap();
        let roles = Arc::new(Roles::new([vec![Role::anyone(limits)], more].concat()).unwrap());
        let user = |kernel| User::new(NodeConfig { kernel, roles: roles.clone(), ..config() }, HOSTS, OWN_MACS);
        let (half, states) = (Arc::new(half), HashMap::new());
        Some(Place {
            limits,
            form: CodeForm::Sandboxed,
            name,
            namespace,
            half,
            interfaces,
            alone: user(false),
            above: user(true),
            states,
            wires: None,
        })
    }

    /// A bundle of both representations, in both halves, or why the kernel half does not take it.
    pub fn add(&mut self, bundle: &Bundle) -> Result<(), String> {
        self.alone.keep(bundle);
        self.above.keep(bundle);
        let program = Program::parse(bundle.representation(Kind::Bpf).unwrap()).unwrap();
        let (name, window) = (bundle.name(), bundle.manifest().window());
        let (half, form, limits) = (&self.half, self.form, &self.limits);
        let add = || half.add_code(&name, &program, window, form, limits);
        let state = self.namespace.enter(add).unwrap();
        self.states.insert(name, state.map_err(|error| error.to_string())?);
        self.half.activate(&name).unwrap();
        Ok(())
    }

    /// A program of tests/guests, in both halves.
    pub fn try_guest(&mut self, name: &str) -> (Digest, Result<(), String>) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/guests/{name}.c"));
        let bundle = author::build(&source, &AuthorOptions::default()).unwrap();
        (bundle.name(), self.add(&bundle))
    }

    /// A program of tests/guests that the kernel half takes.
    pub fn add_guest(&mut self, name: &str) -> Digest {
        let (name, added) = self.try_guest(name);
        added.unwrap();
        name
    }

    /// A shipped application, in both halves, or why not.
    pub fn add_app(&mut self, name: &str) -> Result<(), String> {
        let app = apps::APPS.iter().find(|app| app.title == name).unwrap();
        self.add(&app.bundle().unwrap())
    }

    /// Loads a program and takes it out again, or says why it is refused.
    pub fn load(&self, program: &Program, window: u32) -> Result<(), String> {
        let name = Digest::of(&program.encode());
        let half = &self.half;
        let load = || {
            half.add_code(&name, program, window, CodeForm::Sandboxed, &Limits::default())
                .map_err(|error| error.to_string())?;
            half.remove_code(&name).map_err(|error| error.to_string())
        };
        self.namespace.enter(load).unwrap()
    }

    /// Gives the user half above the state that the kernel half has for a code, as a running node does.
    pub fn share_state(&mut self, now: u64, code: Digest) {
        let state = self.states[&code].clone();
        let account = self.half.account(&code).map(|account| Arc::new(account) as Arc<dyn SharedAccount>);
        self.above.linked(now, code, Ok(Shared { state, account, records: Some(Arc::new(self.half.records())) }));
    }

    /// The soft state of a code that the kernel half runs.
    pub fn state(&self, code: Digest) -> &CodeState {
        &self.states[&code]
    }

    /// The kernel half.
    pub fn half(&self) -> Arc<KernelHalf> {
        self.half.clone()
    }

    /// In its namespace, where the interfaces have their numbers.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.namespace.enter(work).unwrap()
    }

    pub fn usage(&self, code: Digest) -> KernelUsage {
        self.half.usage(&code).unwrap()
    }

    /// How many packets of all codes were dropped in the kernel half, by the code and for its verdict.
    pub fn drops(&self) -> [u64; 2] {
        let used = self.states.keys().map(|code| self.usage(*code));
        used.fold([0; 2], |[code, verdict], used| [code + used.dropped_by_code, verdict + used.dropped_for_verdict])
    }

    pub fn counts(&self) -> KernelCounts {
        self.half.counts()
    }

    /// All counters of the kernel half.
    pub fn status(&self) -> anode::kernel::Status {
        self.half.status()
    }

    /// What the user half does with a frame that comes in by the left port.
    pub fn user(&mut self, bytes: &[u8]) -> Came {
        self.user_at(1, bytes)
    }

    /// The same at another time.
    pub fn user_at(&mut self, now: u64, bytes: &[u8]) -> Came {
        self.above.put(now, 0, bytes);
        self.above.take().into()
    }

    /// Time goes on in the user half; codes that it takes out of the kernel half go there too.
    pub fn timer(&mut self, now: u64) {
        self.above.timer(now);
        for code in std::mem::take(&mut self.above.unlinked) {
            self.remove(&code);
        }
    }

    /// Takes a code out of the kernel half.
    pub fn remove(&mut self, code: &Digest) {
        let half = &self.half;
        self.namespace.enter(|| half.remove_code(code)).unwrap().unwrap();
        self.states.remove(code);
    }

    /// Lets copies leave by the links that the user half above has asked for; how many sets that were.
    pub fn pass_links_on(&mut self) -> usize {
        let wanted = std::mem::take(&mut self.above.links);
        let half = &self.half;
        let add = || wanted.iter().try_for_each(|links| half.add_links(*links));
        self.namespace.enter(add).unwrap().unwrap();
        wanted.len()
    }

    /// Whether the kernel half runs no code any more.
    pub fn removed(&self) -> bool {
        self.states.is_empty()
    }

    /// What the kernel half does with it.
    pub fn kernel(&self, bytes: &[u8]) -> Came {
        let (half, interface) = (&self.half, self.interfaces[0]);
        half.await_channels();
        let run = || half.test_run(bytes, interface).unwrap();
        Came::of(bytes, self.namespace.enter(run).unwrap())
    }

    /// What the kernel half does with a frame that comes in by `port` when the node's clock is at `now`; and how far
    /// that clock has gone on in the meantime.
    pub fn kernel_at(&self, now: u64, port: u16, bytes: &[u8]) -> (Came, u64) {
        let (half, interface) = (&self.half, self.interfaces[usize::from(port)]);
        let run = || {
            let clock = Clock::start();
            half.set_origin(clock.origin() - now).unwrap();
            let made = half.test_run(bytes, interface).unwrap();
            (made, clock.now())
        };
        let (made, late) = self.namespace.enter(run).unwrap();
        (Came::of(bytes, made), late)
    }

    /// Both halves at once, each on a thread: the kernel half takes these frames so many times, in turn, while the user half that is
    /// told of it does `work`.
    pub fn at_once(&mut self, frames: &[Vec<u8>], rounds: usize, work: impl FnOnce(&mut User)) {
        let Place { half, namespace, interfaces, above, .. } = self;
        let begin = Barrier::new(2);
        let run = || {
            begin.wait();
            (0..rounds).flat_map(|_| frames).try_for_each(|frame| half.test_run(frame, interfaces[0]).map(drop))
        };
        std::thread::scope(|scope| {
            let kernel = scope.spawn(|| namespace.enter(run).unwrap());
            begin.wait();
            work(above);
            kernel.join().unwrap().unwrap();
        });
    }

    /// The host's stack believes that a host on the right link has this link address.
    pub fn neighbour(&self, host: Addr, mac: Mac) {
        let line = format!("neigh replace {host} lladdr {mac} dev r1 nud permanent\n");
        ip(&["-n", &self.name, "-batch", "-"], &line);
    }

    /// So long may redirected frames be that leave by the right port; 0: they would not arrive, or overtake others.
    pub fn redirect(&self, redirected: u32) {
        let (half, port) = (&self.half, entry(1, self.interfaces[1], redirected));
        assert!(self.enter(|| half.follow(port, false)).unwrap());
    }

    /// Lets rules of policy routing have a say in the kernel half, or not.
    pub fn rule(&self, ruled: bool) {
        self.half.set_ruled(ruled).unwrap();
    }

    /// Who has been heard in the kernel half since somebody asked.
    pub fn heard(&self) -> Vec<(u32, Addr)> {
        self.half.heard().unwrap()
    }

    /// Tells the kernel half of the neighbours that the user half above has come to know.
    pub fn pass_neighbours_on(&mut self) {
        if let Some(list) = self.above.neighbours.take() {
            let list = list.into_iter().map(|(port, addr)| (u32::from(port.0), addr));
            self.half.set_neighbours(list.collect()).unwrap();
        }
    }

    /// What comes in the end of what the kernel half made of a frame.
    pub fn resume(&mut self, came: &Came) -> Came {
        match came {
            Came::Up(bytes) | Came::UpRun(bytes) => self.user(bytes),
            Came::Dropped => Came::DroppedFor(Reason::Code),
            came => came.clone(),
        }
    }
}

impl Came {
    /// What XDP's verdict on `bytes`, and what it left of them, means.
    fn of(bytes: &[u8], made: (u32, Vec<u8>)) -> Came {
        match made {
            (4, left) => Came::Sent(left),
            (2, left) if left == bytes => Came::Up(left),
            (2, left) => Came::UpRun(left),
            // Also if it gave up, which nobody counts.
            (0 | 1, _) => Came::Dropped,
            (verdict, _) => panic!("XDP verdict {verdict}"),
        }
    }
}

impl From<Went> for Came {
    /// Of one frame: the last thing that came of it.
    fn from(mut went: Went) -> Came {
        if let Some((_, bytes)) = went.frames.pop() {
            return Came::Sent(bytes);
        }
        match (went.deliveries.pop(), went.drops.pop()) {
            (Some((port, bytes)), _) => Came::Delivered(port, bytes),
            (None, Some((reason, _))) => Came::DroppedFor(reason),
            (None, None) => Came::Dropped,
        }
    }
}

impl Drop for Place {
    /// No frame is lost without a counter in either half, whatever the test did.
    fn drop(&mut self) {
        let (balances, counts) =
            ([self.half.status().balance, self.alone.balance(), self.above.balance()], self.counts());
        ip(&["netns", "del", &self.name], "");
        if !std::thread::panicking() {
            assert_eq!(balances.map(|balance| balance.unaccounted()), [0; 3], "{balances:?}\n{counts:?}");
        }
    }
}

fn ip(arguments: &[&str], input: &str) {
    use std::io::Write;
    let mut child = Command::new("ip").args(arguments).stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "ip {arguments:?}");
}

/// A port; how long redirected frames may be that leave by it.
fn entry(number: u16, interface: u32, redirected: u32) -> PortEntry {
    let (mac, v4, v6) = (OWN_MACS[usize::from(number)], own(number, true), own(number, false));
    PortEntry {
        interface,
        number: number.into(),
        mtu: 1500,
        redirected,
        mac,
        bound_max: Ceiling::default().unsigned,
        v4: Some(v4),
        v6: Some(v6),
    }
}

/// In the namespace: opens the kernel half and tells it of ports and neighbours; and the interfaces.
fn open() -> (KernelHalf, [u32; 2]) {
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
    let mut name = [0; 16];
    name[..4].copy_from_slice(b"both");
    let origin = Clock::start().origin();
    let half =
        KernelHalf::open(Opening { name, origin, program: env!("CARGO_BIN_EXE_anode").into(), pins: None }).unwrap();
    let interfaces = [interface_index("r0"), interface_index("r1")];
    for (number, interface) in (0..).zip(interfaces) {
        half.attach(entry(number, interface, 1500)).unwrap();
    }
    // One that is gone has left no trace.
    let mut neighbours: Vec<_> = HOSTS.iter().map(|(port, addr, _)| (u32::from(*port), *addr)).collect();
    neighbours.push((1, FAR));
    half.set_neighbours(neighbours.clone()).unwrap();
    neighbours.pop();
    half.set_neighbours(neighbours).unwrap();
    let own = config().ports.into_iter().flat_map(|port| port.addresses).map(|(addr, _)| addr);
    half.set_routes(&config().routes, own).unwrap();
    half.set_ruled(false).unwrap();
    (half, interfaces)
}

fn interface_index(name: &str) -> u32 {
    let text = Command::new("ip").args(["-j", "link", "show", name]).output().unwrap().stdout;
    let links: serde_json::Value = serde_json::from_slice(&text).unwrap();
    links[0]["ifindex"].as_u64().unwrap() as u32
}

/// The same for the user half.
fn config() -> NodeConfig {
    let port = |number: u16| Port {
        name: format!("r{number}"),
        link: Link::Ethernet { mac: OWN_MACS[usize::from(number)], answers: false },
        addresses: vec![
            (own(number, true), Prefix::new(own(number, true), 120)),
            (own(number, false), Prefix::new(own(number, false), 64)),
        ],
        mtu: 1500,
        bits_per_second: 0,
        ceiling: Ceiling::default(),
    };
    let neighbour =
        |(port, addr, _): &(u16, Addr, Mac)| Neighbour { addr: *addr, port: PortId(*port), peer: PeerId::NONE };
    let to = |text: &str, port, via| (text.parse().unwrap(), NextHop { port: PortId(port), via });
    NodeConfig {
        name: "both".into(),
        ports: vec![port(0), port(1)],
        neighbours: HOSTS.iter().map(neighbour).collect(),
        routes: Arc::new(Routes::new([
            to("10.0.1.0/24", 0, Addr::UNSPECIFIED),
            to("10.0.2.0/24", 1, Addr::UNSPECIFIED),
            to("10.0.8.0/24", 0, LEFT),
            to("10.0.9.0/24", 1, RIGHT),
            to("fd00:1::/64", 0, Addr::UNSPECIFIED),
            to("fd00:2::/64", 1, Addr::UNSPECIFIED),
            to("fd00:8::/64", 0, v6(1, 1)),
            to("fd00:9::/64", 1, v6(2, 1)),
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
    let (from, to) = (header.source.bytes_v4().unwrap(), header.destination.bytes_v4().unwrap());
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
