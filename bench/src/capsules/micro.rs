//! One warm capsule without I/O: the whole way through [`Node::receive`], and its parts alone.
//!
//! The node has one overlay port and two neighbours; the clock advances as if packets came at a steady rate. As in a worker, frames come in
//! batches of 64: after the last of a batch has come out, all are refilled, which is part of the figure.

pub(super) mod proved;

use std::cell::RefCell;
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;

use super::super::guests::{Guests, packet, signer};
use super::super::line::{EGRESS, INGRESS};
use super::super::micro::{COST, Micro};
use super::super::series::{Key, Series};
use super::super::{Error, Settings};
use anode::abi::NONE;
use anode::classify::classify;
use anode::code::bundle::{Bundle, Kind};
use anode::code::run::scope::{RunPacket, Scope};
use anode::code::run::wasm::{Backstop, Compiler};
use anode::code::run::{Cause, Prepare, Runtime, SlotId, Tier};
use anode::core::Core;
use anode::core::domain::Domain;
use anode::driver::{Driver, Supply};
use anode::frame::{Frame, FramePool, Link, PeerId, PortId};
use anode::node::workers::WorkerOrder;
use anode::node::{Node, NodeConfig, Sizes};
use anode::sys::mmsg::BATCH;
use anode::topology::{Ceiling, Neighbour, NextHop, Port, Routes, Topology};
use anode::trust::limits::Limits;
use anode::trust::{Kinds, Role, Roles};
use anode::wire::{Addr, Prefix, anep, capsule};
use rand_core::SeedableRng;

const REGIME: &str = "micro";
/// Bytes of the ANEP packet.
const SIZE: usize = 100;
/// Nanoseconds between two batches: within every budget.
const GAP: u64 = 64 * 400;

/// Nanoseconds between two codes that are loaded.
const LOADING: u64 = 10_000_000;

/// The whole way of a capsule.
const WHOLE: &str = "forward, whole way";
/// What every variant spends on a fresh frame: the benchmark's own part.
pub(super) const FRAME: &str = "refill a frame";

/// Key of the figure with a target.
pub(super) fn whole() -> Key {
    Key { variant: WHOLE.into(), size: Some(SIZE as u32 + 28), regime: REGIME.into(), metric: COST, unit: "ns" }
}

/// Runs it.
pub(super) fn run(settings: &Settings, guests: &Guests) -> Result<Series, Error> {
    let (mut forward, mut ping) = (Stand::new(&guests.forward)?, Stand::new(&guests.ping)?);
    let mut native = Stand::new(&guests.native)?;
    let alone = |bundle, kind| RunAlone::new(bundle, (kind, Tier::Fast), &packet(bundle, SIZE));
    let part = RefCell::new(alone(&guests.forward, Kind::Wasm)?);
    let native_part = RefCell::new(alone(&guests.native, Kind::Native)?);
    let mut parsed = Frames::new(&forward.frames.packet);
    let mut refilled = Frames::new(&forward.frames.packet);
    let micro = Micro::new(REGIME, Some(SIZE as u32 + 28))
        .variant(WHOLE, || forward.pass())
        .variant("ping, whole way", || ping.pass())
        .variant("forward as native code, whole way", || native.pass())
        .variant("Runtime::run alone", || part.borrow_mut().run())
        .variant("Runtime::run alone, native code", || native_part.borrow_mut().run())
        .variant("classify and parse alone", || {
            let (frame, _) = parsed.take();
            let parsed_header = frame.as_ref().and_then(parse);
            parsed.done.extend(frame);
            parsed_header.map(|header| header.bound)
        })
        .variant(FRAME, || {
            let (frame, _) = refilled.take();
            refilled.done.extend(frame);
        });
    let series = micro.run(settings)?;
    forward.balanced()?;
    ping.balanced()?;
    native.balanced()?;
    Ok(series)
}

fn parse(frame: &Frame) -> Option<capsule::Header> {
    let class = classify(Link::Overlay, frame.bytes()).ok()?;
    let anode::classify::Class::Anep(range, _) = class else { return None };
    let packet = anep::Packet::new_checked(&frame.bytes()[range]).ok()?;
    capsule::Header::parse(packet.payload()).ok()
}

/// A batch of frames that are filled with the same packet again and again.
struct Frames {
    packet: Vec<u8>,
    waiting: Vec<Frame>,
    done: Vec<Frame>,
}

impl Frames {
    fn new(packet: &[u8]) -> Frames {
        let frames = || (0..BATCH).map(|_| Frame::from_bytes(packet));
        Frames { packet: packet.to_vec(), waiting: Vec::with_capacity(BATCH), done: frames().collect() }
    }

    /// The next frame, and whether it begins a batch. Every frame taken goes to `done`.
    #[inline]
    fn take(&mut self) -> (Option<Frame>, bool) {
        let begins = self.waiting.is_empty();
        if begins {
            for frame in &mut self.done {
                frame.fill(black_box(&self.packet));
                frame.port = PortId(0);
                frame.peer = PeerId(0);
            }
            core::mem::swap(&mut self.waiting, &mut self.done);
        }
        (self.waiting.pop(), begins)
    }
}

/// A node with a code ready, and packets for it.
pub(crate) struct Stand {
    pub(crate) driver: Driver,
    frames: Frames,
    pub(crate) now: u64,
    /// Nanoseconds between two batches.
    pub(crate) gap: u64,
    lost: u64,
}

impl Stand {
    pub(crate) fn new(bundle: &Bundle) -> Result<Stand, Error> {
        let mut stand = Stand::empty(bundle)?;
        stand.load(bundle, &compiler()?)?;
        Ok(stand)
    }

    /// The same before the code is there.
    pub(crate) fn empty(bundle: &Bundle) -> Result<Stand, Error> {
        let (driver, frames) = (Driver::new(Node::new(config())), Frames::new(&packet_of(bundle)));
        Ok(Stand { driver, frames, now: 0, gap: GAP, lost: 0 })
    }

    /// Sends a first capsule of a code and answers what the node asks, until it has come out; gives what other workers are told.
    pub(crate) fn load(&mut self, bundle: &Bundle, compiler: &Compiler) -> Result<Vec<WorkerOrder>, Error> {
        let mut supply = Supply::new(compiler.clone());
        supply.add(bundle);
        supply.judge = Some(("bench".into(), roles()));
        self.become_of(bundle);
        // A neighbour may make a node look for so many codes a second.
        self.now += LOADING;
        self.receive();
        self.driver.answer(self.now, &mut supply);
        self.frames.done.append(&mut self.driver.out.frames);
        self.balanced()?;
        Ok(supply.orders)
    }

    /// Packets are of this code from now on.
    pub(crate) fn become_of(&mut self, bundle: &Bundle) {
        self.frames.packet = packet_of(bundle);
        self.frames.waiting.append(&mut self.frames.done);
        core::mem::swap(&mut self.frames.waiting, &mut self.frames.done);
    }

    /// Their payloads begin so.
    pub(crate) fn set_payload(&mut self, bytes: &[u8]) {
        let start = anep::HEADER + capsule::HEADER;
        if let Some(place) = self.frames.packet.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// A frame that it has had comes back.
    pub(crate) fn keep(&mut self, frame: Frame) {
        self.frames.done.push(frame);
    }

    #[inline]
    pub(crate) fn receive(&mut self) {
        let (frame, begins) = self.frames.take();
        self.now += if begins { self.gap } else { 0 };
        let Some(frame) = frame else { return };
        self.driver.receive(self.now, frame);
    }

    /// One capsule through the node.
    #[inline]
    pub(crate) fn pass(&mut self) {
        self.receive();
        match self.driver.out.frames.pop() {
            Some(frame) => self.frames.done.push(frame),
            None => self.lose(),
        }
    }

    #[cold]
    fn lose(&mut self) {
        self.lost += 1;
        self.frames.done.push(self.driver.out.pool.take());
    }

    /// Whether all capsules went through.
    pub(crate) fn balanced(&self) -> Result<(), Error> {
        match (self.lost, self.frames.waiting.len() + self.frames.done.len()) {
            (0, BATCH) => Ok(()),
            (lost, there) => {
                let status = self.driver.node.status();
                let drops: Vec<_> = status.drops.happened().collect();
                let refused: Vec<_> = status.codes.iter().filter_map(|code| code.why.as_deref()).collect();
                Err(Error::Node(format!(
                    "{lost} capsules of the micro-benchmark were lost, {there} of {BATCH} are here: {drops:?} {refused:?}"
                )))
            }
        }
    }
}

/// A packet with a capsule of a code, long enough for its window.
fn packet_of(bundle: &Bundle) -> Vec<u8> {
    packet(bundle, SIZE.max(anep::HEADER + capsule::HEADER + bundle.manifest().window() as usize))
}

/// Steps that a packet may take when its code is run alone.
const STEPS: u64 = 1_000_000;

/// The run-time with one packet that is never let go.
pub(crate) struct RunAlone {
    runtime: Runtime,
    slot: SlotId,
    core: Core,
    pool: FramePool,
    packet: RunPacket,
}

impl RunAlone {
    /// Code of a kind, compiled in a tier, on an ANEP packet.
    pub(crate) fn new(bundle: &Bundle, (kind, tier): (Kind, Tier), packet: &[u8]) -> Result<RunAlone, Error> {
        let bytes = bundle.representation(kind).ok_or_else(|| Error::Guest(format!("no {kind}")))?.clone();
        let (code, window) = (bundle.name(), bundle.manifest().window());
        let prepare = Prepare { code, cause: Cause::default(), tier, kind, bytes, window };
        let mut runtime = Runtime::default();
        let slot = runtime.install(prepare.carry_out(&compiler()?).map_err(Error::Guest)?);
        let NodeConfig { ports, routes, .. } = config();
        let rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(0);
        let mut core = Core::new("bench".into(), Topology::new(ports, Default::default(), routes), 1, rng, 0);
        let root = core.domains.root();
        let Some(domain) = core.domains.create(root, Domain::new("bench".into(), Limits::default())) else {
            return Err(Error::Node("no domain".into()));
        };
        let mut frame = Frame::from_bytes(packet);
        frame.strip(anep::HEADER);
        let packet = RunPacket {
            now: 1,
            frame,
            domain,
            here: own(),
            flags: 0,
            in_port: 0,
            from: NONE,
            bound: 9,
            app_port: 7,
            neighbours: 0,
            lines: 0,
            window: bundle.manifest().window() as usize,
        };
        Ok(RunAlone { runtime, slot, core, pool: FramePool::default(), packet })
    }

    /// Runs it once; gives the steps it took.
    #[inline]
    pub(crate) fn run(&mut self) -> u64 {
        let RunAlone { runtime, slot, core, pool, packet } = self;
        runtime.run(*slot, &mut Scope { core, pool, packet }, STEPS).steps
    }
}

/// A role for code that the benchmark has signed.
fn roles() -> Roles {
    let representations = Kinds::default().with(Kind::Native);
    let trusts = vec![signer().id()];
    let role = Role { name: "bench".into(), trusts, representations, ..Role::anyone(Limits::default()) };
    Roles::new(vec![role]).unwrap_or_default()
}

/// The compiler that nodes have.
pub(crate) fn compiler() -> Result<Compiler, Error> {
    Compiler::new(Backstop::Ticker).map_err(|error| Error::Node(format!("no wasm compiler: {error:#}")))
}

fn own() -> Addr {
    Addr::from(IpAddr::V4(EGRESS.address))
}

fn config() -> NodeConfig {
    let subnet = |addr: Addr| Prefix::new(addr, 96 + 24);
    let neighbours: Vec<Neighbour> = [INGRESS.peer, EGRESS.peer]
        .into_iter()
        .enumerate()
        .map(|(at, addr)| Neighbour { addr: Addr::from(IpAddr::V4(addr)), port: PortId(0), peer: PeerId(at as u16) })
        .collect();
    let route =
        |neighbour: &Neighbour| (Prefix::host(neighbour.addr), NextHop { port: neighbour.port, via: neighbour.addr });
    let port = Port {
        name: "overlay".into(),
        link: Link::Overlay,
        addresses: vec![(own(), subnet(own()))],
        mtu: 1452,
        bits_per_second: 0,
        ceiling: Ceiling::NONE,
    };
    NodeConfig {
        name: "bench".into(),
        ports: vec![port],
        routes: Arc::new(Routes::new(neighbours.iter().map(route))),
        neighbours,
        roles: Arc::new(roles()),
        sizes: Sizes::default(),
        seed: 1,
        kernel: false,
    }
}
