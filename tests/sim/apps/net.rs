//! Several nodes in one process and in virtual time: links with a delay, code that really runs.
//!
//! Node `n` has the address `10.0.0.(n+1)` on all its ports, one port for each of its links, and
//! host routes along shortest paths. Waiting for a capsule moves the time. Applications that answer
//! by themselves are handlers. What links carry is recorded.

use anode::apps::{Attached, Error, Received};
use anode::code::bundle::Bundle;
use anode::code::run::LoadedProgram;
use anode::code::run::wasm::{Backstop, Compiler};
use anode::core::reason::Reason;
use anode::driver::{Driven, Driver, Outside};
use anode::frame::{Frame, Link, PeerId, PortId};
use anode::node::{Delivery, Effect, Node, NodeConfig, Sizes, Turn};
use anode::topology::{Ceiling, Neighbour, NextHop, Port, Routes};
use anode::trust::Roles;
use anode::trust::limits::Limits;
use anode::wire::capsule::{HEADER, Header};
use anode::wire::{Addr, Digest, Prefix, anep};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time a frame spends on a link, in nanoseconds.
pub const DELAY: u64 = 1_000_000;

/// What an application that answers by itself does with a capsule.
pub type Handler = Box<dyn FnMut(&Header, &[u8]) -> Option<(Header, Vec<u8>)>>;

/// Says whether a capsule is lost on a link: the sending node, the receiving one, header, payload.
pub type Loss = Box<dyn FnMut(usize, usize, &Header, &[u8]) -> bool>;

/// A capsule that a link carried.
pub struct Carried {
    pub from: usize,
    pub to: usize,
    pub header: Header,
    pub payload: Vec<u8>,
}

struct Place {
    driver: Driver,
    store: HashMap<Digest, Arc<[u8]>>,
    /// By port: the node at the other end, and its port there.
    far: Vec<(usize, PortId)>,
    /// How far the node's clock is ahead of the virtual time, in nanoseconds.
    clock_ahead: u64,
}

struct Arrival {
    node: usize,
    port: PortId,
    bytes: Vec<u8>,
}

/// What is around a node: its store answers at once, and every code is compiled once for all nodes.
struct Around<'a> {
    store: &'a mut HashMap<Digest, Arc<[u8]>>,
    compiler: &'a Compiler,
    compiled: &'a mut HashMap<Digest, LoadedProgram>,
    frames: Vec<Frame>,
    deliveries: Vec<Delivery>,
}

impl Outside for Around<'_> {
    fn send(&mut self, _: &mut Driven<'_>, frame: Frame) {
        self.frames.push(frame);
    }

    fn deliver(&mut self, _: &mut Driven<'_>, delivery: Delivery) {
        self.deliveries.push(delivery);
    }

    fn effect(&mut self, Driven { node, turn }: &mut Driven<'_>, effect: Effect) {
        match effect {
            Effect::LookUp(digest, _) => node.found(turn, digest, self.store.get(&digest).cloned()),
            Effect::Store(bytes) => drop(self.store.insert(Digest::of(&bytes), bytes)),
            Effect::Prepare(prepare) => {
                let compile = || prepare.carry_out(self.compiler).unwrap();
                let compiled = self.compiled.entry(Digest::of(&prepare.bytes)).or_insert_with(compile);
                node.prepared(turn, prepare.code, Ok(compiled.clone()));
            }
            // Nothing is signed here.
            Effect::Revoke(..) => node.revocation_unjudged(),
            Effect::Workers(_)
            | Effect::Heard(_)
            | Effect::AskLink(..)
            | Effect::EndStores(_)
            | Effect::Kernel(_)
            | Effect::Channel { .. }
            | Effect::Foreign(..)
            | Effect::NoneForeign
            | Effect::Plan(..)
            | Effect::GraphEdit(_)
            | Effect::Authorise(..) => {}
        }
    }
}

pub struct Net {
    places: Vec<Place>,
    compiler: Compiler,
    compiled: HashMap<Digest, LoadedProgram>,
    now: u64,
    order: u64,
    queue: BTreeMap<(u64, u64), Arrival>,
    inbox: HashMap<(usize, u16), VecDeque<Received>>,
    handlers: HashMap<(usize, u16), Handler>,
    pub loss: Option<Loss>,
    pub carried: Vec<Carried>,
}

pub type Shared = Rc<RefCell<Net>>;

pub fn addr(node: usize) -> Addr {
    Addr::v4([10, 0, 0, node as u8 + 1])
}

/// A network of as many nodes as the links name.
pub fn net(links: &[(usize, usize)]) -> Shared {
    net_with(links, Limits::default())
}

pub fn net_with(links: &[(usize, usize)], limits: Limits) -> Shared {
    let count = links.iter().flat_map(|(a, b)| [*a, *b]).max().unwrap() + 1;
    let mut far: Vec<Vec<(usize, PortId)>> = vec![Vec::new(); count];
    for &(a, b) in links {
        let (at_a, at_b) = (PortId(far[a].len() as u16), PortId(far[b].len() as u16));
        far[a].push((b, at_b));
        far[b].push((a, at_a));
    }
    let places = (0..count).map(|index| place(index, &far, limits)).collect();
    Rc::new(RefCell::new(Net {
        places,
        compiler: Compiler::new(Backstop::FuelOnly).unwrap(),
        compiled: HashMap::new(),
        now: 1_000_000_000,
        order: 0,
        queue: BTreeMap::new(),
        inbox: HashMap::new(),
        handlers: HashMap::new(),
        loss: None,
        carried: Vec::new(),
    }))
}

fn place(index: usize, far: &[Vec<(usize, PortId)>], limits: Limits) -> Place {
    let subnet: Prefix = "10.0.0.0/24".parse().unwrap();
    let port = |at: usize| Port {
        name: format!("p{at}"),
        link: Link::Overlay,
        addresses: vec![(addr(index), subnet)],
        mtu: 1472,
        bits_per_second: 10_000_000,
        ceiling: Ceiling::NONE,
    };
    let neighbour = |(at, (peer, _)): (usize, &(usize, PortId))| Neighbour {
        addr: addr(*peer),
        port: PortId(at as u16),
        peer: PeerId(0),
    };
    let config = NodeConfig {
        name: format!("n{index}"),
        ports: (0..far[index].len()).map(port).collect(),
        neighbours: far[index].iter().enumerate().map(neighbour).collect(),
        routes: Arc::new(Routes::new(routes(index, far))),
        roles: Roles::of_anyone(limits).into(),
        sizes: Sizes::default(),
        seed: 42 + index as u64,
        kernel: false,
    };
    // Clocks differ by hours, so nothing can work by comparing them.
    let clock_ahead = (index as u64 * 7919 % 13) * 3_600_000_000_000;
    Place { driver: Driver::new(Node::new(config)), store: HashMap::new(), far: far[index].clone(), clock_ahead }
}

/// Shortest paths; of two, the one by the port that comes first.
fn routes(from: usize, far: &[Vec<(usize, PortId)>]) -> Vec<(Prefix, NextHop)> {
    let mut first: Vec<Option<(usize, usize)>> = vec![None; far.len()];
    let mut queue = VecDeque::new();
    for (port, (peer, _)) in far[from].iter().enumerate() {
        if first[*peer].is_none() {
            first[*peer] = Some((port, *peer));
            queue.push_back(*peer);
        }
    }
    while let Some(at) = queue.pop_front() {
        for (peer, _) in &far[at] {
            if *peer != from && first[*peer].is_none() {
                first[*peer] = first[at];
                queue.push_back(*peer);
            }
        }
    }
    let hop = |(to, first): (usize, &Option<(usize, usize)>)| {
        let (port, via) = (*first)?;
        Some((Prefix::host(addr(to)), NextHop { port: PortId(port as u16), via: addr(via) }))
    };
    first.iter().enumerate().filter_map(hop).collect()
}

impl Net {
    /// Puts a bundle into a node's store.
    pub fn add_code(&mut self, node: usize, bundle: &Bundle) {
        for object in bundle.objects() {
            self.places[node].store.insert(Digest::of(object), object.clone());
        }
    }

    /// An application at `port` of a node that answers each capsule by itself.
    pub fn serve(&mut self, node: usize, port: u16, handler: Handler) {
        assert!(self.places[node].driver.node.open(port));
        self.handlers.insert((node, port), handler);
    }

    /// Drops of a node under a reason.
    pub fn drops(&self, node: usize, reason: Reason) -> u64 {
        self.places[node].driver.node.drops().of(reason)
    }

    /// What a node's code has logged: (tag, value).
    pub fn log(&self, node: usize) -> Vec<(u32, u64)> {
        self.places[node].driver.node.log().iter().map(|line| (line.tag, line.value)).collect()
    }

    /// Soft-state entries that all code of a node holds.
    pub fn state_entries(&self, node: usize) -> u32 {
        let status = self.places[node].driver.node.status();
        status.codes.iter().filter_map(|code| Some(code.usage.as_ref()?.state_entries)).sum()
    }

    /// Lets `time` pass.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time.as_nanos() as u64;
        while self.step(end) {}
    }

    /// Handles what comes next, if that is before `end`; else it is `end`.
    fn step(&mut self, end: u64) -> bool {
        let timers = self.places.iter().map(|place| place.driver.node.next_timer().saturating_sub(place.clock_ahead));
        let (timer_at, timer_node) = timers.enumerate().map(|(node, at)| (at, node)).min().unwrap();
        let frame_at = self.queue.keys().next().map_or(u64::MAX, |(at, _)| *at);
        let next = timer_at.min(frame_at);
        if next > end {
            self.now = end;
            return false;
        }
        self.now = self.now.max(next);
        if frame_at <= timer_at {
            let (_, Arrival { node, port, bytes }) = self.queue.pop_first().unwrap();
            let mut frame = Frame::from_bytes(&bytes);
            (frame.port, frame.peer) = (port, PeerId(0));
            self.turn(node, |node, turn| node.receive(turn, frame));
        } else {
            self.turn(timer_node, |node, turn| node.timer(turn));
        }
        true
    }

    /// One call into a node, and everything that follows from it at once.
    fn turn<R>(&mut self, index: usize, call: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> R {
        let Place { driver, store, clock_ahead, .. } = &mut self.places[index];
        let now = self.now + *clock_ahead;
        let result = driver.turn(now, call);
        let (compiler, compiled) = (&self.compiler, &mut self.compiled);
        let mut around = Around { store, compiler, compiled, frames: vec![], deliveries: vec![] };
        driver.settle(now, &mut around);
        let Around { frames, deliveries, .. } = around;
        for frame in frames {
            self.carry(index, frame);
        }
        for delivery in deliveries {
            let bytes = delivery.frame.bytes();
            let received = (Header::parse(bytes).unwrap(), bytes[HEADER..].to_vec());
            match self.handlers.remove(&(index, delivery.port)) {
                Some(mut handler) => {
                    let answer = handler(&received.0, &received.1);
                    self.handlers.insert((index, delivery.port), handler);
                    if let Some((header, payload)) = answer {
                        self.inject(index, &header, &payload).unwrap();
                    }
                }
                None => self.inbox.entry((index, delivery.port)).or_default().push_back(received),
            }
        }
        result
    }

    fn carry(&mut self, from: usize, frame: Frame) {
        let (to, port) = self.places[from].far[usize::from(frame.port.0)];
        let packet = anep::Packet::new_checked(frame.bytes()).unwrap();
        if packet.type_id() == anep::type_id::CAPSULE {
            let bytes = &frame.bytes()[packet.header_len()..];
            let (header, payload) = (Header::parse(bytes).unwrap(), bytes[HEADER..].to_vec());
            let lost = self.loss.as_mut().is_some_and(|loss| loss(from, to, &header, &payload));
            self.carried.push(Carried { from, to, header, payload });
            if lost {
                return;
            }
        }
        self.order += 1;
        let arrival = Arrival { node: to, port, bytes: frame.bytes().to_vec() };
        self.queue.insert((self.now + DELAY, self.order), arrival);
    }

    fn inject(&mut self, index: usize, header: &Header, payload: &[u8]) -> Result<(), Reason> {
        let mut bytes = vec![0; HEADER];
        header.emit(&mut bytes).unwrap();
        bytes.extend_from_slice(payload);
        let frame = Frame::from_bytes(&bytes);
        self.turn(index, |node, turn| node.inject(turn, frame))
    }
}

/// An application attached to a node of the network.
pub struct Attachment {
    net: Shared,
    node: usize,
    port: u16,
}

/// Attaches an application to `port` of a node.
pub fn attach(net: &Shared, node: usize, port: u16) -> Attachment {
    assert!(net.borrow_mut().places[node].driver.node.open(port), "the port is free");
    Attachment { net: net.clone(), node, port }
}

/// As [`attach`], to a port that this test has attached before.
pub fn attach_again(net: &Shared, node: usize, port: u16) -> Attachment {
    net.borrow_mut().places[node].driver.node.open(port);
    Attachment { net: net.clone(), node, port }
}

impl Attached for Attachment {
    fn address(&self) -> Addr {
        addr(self.node)
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.net.borrow().now)
    }

    fn send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Error> {
        let result = self.net.borrow_mut().inject(self.node, header, payload);
        result.map_err(|reason| Error::Refused(reason.help().into()))
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<Received>, Error> {
        let mut net = self.net.borrow_mut();
        let end = net.now + timeout.as_nanos() as u64;
        loop {
            if let Some(received) = net.inbox.entry((self.node, self.port)).or_default().pop_front() {
                return Ok(Some(received));
            }
            if !net.step(end) {
                return Ok(None);
            }
        }
    }
}
