//! The ping packet without I/O: decoded, evaluated and its answer encoded; the whole way through a node; and the checker.

use super::super::micro::{COST, Micro};
use super::super::series::{Key, Series};
use super::super::{Error, Settings};
use super::packets::{Ping, overlay_node};
use anode::driver::Driver;
use anode::frame::{Frame, PeerId, PortId};
use anode::node::Node;
use anode::wire::anep;
use plan::code::CodeError;
use plan::eval::{self, Machine, NewPacket, Run, State, Stop};
use plan::name::Name;
use plan::packet::{Library, Packet, encode_with, slices};
use plan::program::{Digest, Program, ServiceId, Services};
use plan::value::{Host, Value};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

const REGIME: &str = "micro";
/// The ping packet at its destination: read, evaluated, its answer written.
pub(super) const PING: &str = "ping packet: decode, evaluate, encode";
/// 200 lines of source.
pub(super) const CHECK: &str = "parse and check 200 lines";
/// What the variants with a node spend on a fresh frame.
pub(super) const FRAME: &str = "refill a frame";

/// Nanoseconds between two packets of a node: within every budget.
const GAP: u64 = 1000;

pub(super) fn key(variant: &str) -> Key {
    Key { variant: variant.into(), size: None, regime: REGIME.into(), metric: COST, unit: "ns" }
}

pub(super) fn run(settings: &Settings) -> Result<Series, Error> {
    let mut bare = Bare::new()?;
    let (mut evaluated, mut routed) = (Stand::new(2)?, Stand::new(3)?);
    let mut frame = Frame::from_bytes(&evaluated.packet);
    let fresh = evaluated.packet.clone();
    let source = two_hundred_lines();
    if plan::check(&source).code.is_none() {
        return Err(Error::Guest("the program of 200 lines is wrong".into()));
    }
    let series = Micro::new(REGIME, None)
        .variant(PING, || bare.pass())
        .variant("ping packet, whole way through a node", || evaluated.pass())
        .variant("packet routed, whole way through a node", || routed.pass())
        .variant(FRAME, || frame.fill(black_box(&fresh)))
        .variant(CHECK, || plan::check(black_box(&source)).code.is_some())
        .run(settings)?;
    match evaluated.answers > 0 && routed.answers > 0 && bare.answers > 0 {
        true => Ok(series),
        false => Err(Error::Node("a packet of the micro-benchmark was not answered".into())),
    }
}

/// A program like those of the library, 200 lines long.
fn two_hundred_lines() -> String {
    let one = include_str!("../../../apps/plan/multicast.plan");
    let copy = |number: usize| {
        ["got", "behind", "multicast"]
            .iter()
            .fold(one.to_owned(), |text, name| text.replace(name, &format!("{name}{number}")))
    };
    let all: String = (0..7).map(copy).collect();
    let lines = all.lines().count();
    debug_assert!(lines >= 200, "{lines}");
    all
}

fn host(last: u8) -> Host {
    Host::v4([10, 0, 0, last])
}

/// The ping packet from 10.0.0.1 to this host.
fn ping(to: Host) -> Result<Vec<u8>, Error> {
    Ping::new()?.message(host(1), to, false)
}

/// The crate `plan` alone, with the least of a node around it.
struct Bare {
    packet: Vec<u8>,
    shelf: Shelf,
    machine: Machine,
    out: Vec<u8>,
    answers: u64,
}

/// Programs by digest, as packets name them between nodes.
struct Shelf(HashMap<Digest, Arc<Program>>);

/// The services that ping calls.
struct Least<'a> {
    out: &'a mut Vec<u8>,
}

const NAMES: [Name; 2] = [Name::known("thisHostIs"), Name::known("defaultRoute")];

struct Known;

impl Services for Known {
    fn service(&self, name: &Name) -> Option<ServiceId> {
        NAMES.iter().position(|known| known == name).map(|at| ServiceId(at as u32))
    }
}

impl Services for Least<'_> {
    fn service(&self, name: &Name) -> Option<ServiceId> {
        Known.service(name)
    }
}

impl eval::Node for Least<'_> {
    fn call(&mut self, _: ServiceId, given: &[Value], _: &mut State<'_>) -> Result<Value, Stop> {
        Ok(Value::Bool(matches!(given, [Value::Host(is)] if *is == host(2))))
    }

    fn send(&mut self, packet: &NewPacket<'_>, _: &mut u32) -> Result<(), Stop> {
        let mut header = packet.header(host(2));
        header.by_digest = true;
        let codes = slices(packet.chunk).ok_or(Stop::Raise(Name::NOT_ENOUGH_RB))?;
        self.out.clear();
        encode_with(&header, packet.chunk, &codes, self.out);
        Ok(())
    }
}

impl Library for Shelf {
    fn by_bytes(&mut self, bytes: &[u8]) -> Result<Arc<Program>, CodeError> {
        let program = Arc::new(Program::read(bytes, &Known)?);
        self.0.insert(program.digest(), program.clone());
        Ok(program)
    }

    fn by_digest(&mut self, digest: &Digest) -> Option<Arc<Program>> {
        self.0.get(digest).cloned()
    }
}

impl Bare {
    fn new() -> Result<Bare, Error> {
        let wrong = || Error::Guest("the ping packet cannot be read".into());
        let mut shelf = Shelf(HashMap::new());
        let mut packet = Packet::decode(&ping(host(2))?, &mut shelf).map_err(|_| wrong())?;
        packet.header.by_digest = true;
        let packet = packet.bytes().ok_or_else(wrong)?;
        Ok(Bare { packet, shelf, machine: Machine::new(), out: Vec::new(), answers: 0 })
    }

    fn pass(&mut self) -> usize {
        let Ok(packet) = Packet::decode(black_box(&self.packet), &mut self.shelf) else { return 0 };
        let mut node = Least { out: &mut self.out };
        let mut run = Run::new(&mut node, &packet.header, eval::Limits::default());
        let done = self.machine.evaluate(&mut run, &packet.chunk).is_ok();
        self.answers += u64::from(done && !self.out.is_empty());
        self.out.len()
    }
}

/// A node with one overlay port between 10.0.0.1 and 10.0.0.3; its own address is 10.0.0.2.
struct Stand {
    driver: Driver,
    packet: Vec<u8>,
    frame: Option<Frame>,
    now: u64,
    answers: u64,
}

impl Stand {
    fn new(to: u8) -> Result<Stand, Error> {
        let message = ping(host(to))?;
        let mut packet = vec![0; anep::HEADER];
        let headed = anep::emit_basic(&mut packet, anep::type_id::PLAN, message.len());
        headed.map_err(|_| Error::Guest("the ping packet is too long".into()))?;
        packet.extend_from_slice(&message);
        let mut node = Node::new(overlay_node(host(2), [host(1), host(3)]));
        node.speak_plan(Default::default());
        let frame = Some(Frame::from_bytes(&packet));
        Ok(Stand { driver: Driver::new(node), packet, frame, now: 0, answers: 0 })
    }

    fn pass(&mut self) -> usize {
        let mut frame = self.frame.take().unwrap_or_else(|| self.driver.out.pool.take());
        frame.fill(black_box(&self.packet));
        (frame.port, frame.peer) = (PortId(0), PeerId(0));
        self.now += GAP;
        self.driver.receive(self.now, frame);
        self.driver.timer_if_due(self.now);
        let out = &mut self.driver.out;
        let sent = out.frames.len();
        self.answers += sent as u64;
        for frame in out.frames.drain(..) {
            match self.frame {
                None => self.frame = Some(frame),
                Some(_) => out.pool.give(frame),
            }
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_does_what_it_says() {
        let (mut bare, mut evaluated, mut routed) =
            (Bare::new().unwrap(), Stand::new(2).unwrap(), Stand::new(3).unwrap());
        for _ in 0..100 {
            assert!(bare.pass() > 84);
            assert!(evaluated.pass() >= 1 && routed.pass() >= 1);
        }
        let account = |stand: &Stand| stand.driver.node.status().plan.unwrap().account;
        assert_eq!((account(&evaluated).evaluated, account(&evaluated).failed), (100, 0));
        assert_eq!(account(&routed).routed, 100);
        assert!(two_hundred_lines().lines().count() >= 200);
    }
}
