//! A node for tests: few services, and a record of everything that evaluation did to it.
#![allow(dead_code, reason = "every test uses a part")]

pub mod generate;

use plan::eval::{Fault, Limits, Machine, NewPacket, Node, Run, State, Stop, Way, reference};
use plan::name::Name;
use plan::packet::{Header, Packet};
use plan::program::{Program, ServiceId, Services};
use plan::value::{Chunk, Host, Value};
use std::sync::Arc;

/// How many cases a generated test has, unless the environment says otherwise.
pub fn cases(count: u32) -> proptest::test_runner::Config {
    let count = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(count);
    proptest::test_runner::Config { failure_persistence: None, cases: count, ..Default::default() }
}

pub const HERE: Host = Host::v4([10, 0, 0, 1]);
pub const THERE: Host = Host::v4([10, 0, 0, 2]);

const NAMES: &[&str] =
    &["print", "thisHost", "thisHostIs", "getSource", "defaultRoute", "boom", "twice", "limit", "getRB"];

/// A node that writes down what is asked of it.
#[derive(Debug, Default, PartialEq)]
pub struct Recorder {
    /// Calls and packets in order.
    pub log: Vec<String>,
}

impl Services for Recorder {
    fn service(&self, name: &Name) -> Option<ServiceId> {
        NAMES.iter().position(|known| *known == name.as_str()).map(|at| ServiceId(at as u32))
    }
}

impl Node for Recorder {
    fn call(&mut self, service: ServiceId, arguments: &[Value], state: &mut State<'_>) -> Result<Value, Stop> {
        let name = NAMES[service.0 as usize];
        self.log.push(format!("{name} {arguments:?} {}", state.bound));
        Ok(match (name, arguments) {
            ("print", [_]) => Value::Unit,
            ("thisHost", []) => Value::list([Value::Host(HERE)].into_iter()).unwrap(),
            ("thisHostIs", [Value::Host(host)]) => Value::Bool(*host == HERE),
            ("getSource", []) => Value::Host(state.header.source),
            ("defaultRoute", [Value::Host(_)]) => Value::tuple(vec![Value::Host(THERE), Value::Dev(1)]).unwrap(),
            ("boom", [Value::Int(number)]) if number % 2 == 0 => Value::Unit,
            ("boom", [Value::Int(_)]) => return Err(Stop::Raise(Name::new("Boom").unwrap())),
            ("twice", [Value::Int(number)]) => Value::Int(number.wrapping_mul(2)),
            _ => return Err(Fault::Type(name).into()),
        })
    }

    fn constant(&mut self, service: ServiceId) -> Option<Value> {
        // One that evaluation itself gives is not the node's to redefine.
        ["limit", "getRB"].contains(&NAMES[service.0 as usize]).then_some(Value::Int(42))
    }

    fn send(&mut self, packet: &NewPacket<'_>, _: &mut u32) -> Result<(), Stop> {
        let new = Packet { header: packet.header(HERE), chunk: packet.chunk.clone() };
        let Some(bytes) = new.bytes() else { return Err(Stop::Raise(Name::new("TooBig").unwrap())) };
        if packet.destination == Host::default() {
            return Err(Stop::Raise(Name::new("NoRoute").unwrap()));
        }
        let way = match packet.way {
            Way::Routed { routing, tries, interval_ms } => format!("{routing} {tries} {interval_ms}"),
            Way::Neighbor(dev) => format!("{dev:?}"),
        };
        self.log.push(format!("send {way} {bytes:?}"));
        Ok(())
    }
}

/// How an evaluation ended and what it did: two are the same if everything anyone can see is.
#[derive(Debug, PartialEq)]
pub struct Seen {
    pub result: Result<Value, Stop>,
    pub steps_left: u32,
    pub cells_left: u32,
    pub bound: u32,
    pub log: Vec<String>,
}

pub fn header(bound: u32) -> Header {
    Header::injected(HERE, bound)
}

fn seen(limits: Limits, bound: u32, evaluate: impl FnOnce(&mut Run<'_>) -> Result<Value, Stop>) -> Seen {
    let mut node = Recorder::default();
    let header = header(bound);
    let mut run = Run::new(&mut node, &header, limits);
    let result = evaluate(&mut run);
    let (steps_left, cells_left, bound) = (run.steps_left(), run.cells_left(), run.bound());
    Seen { result, steps_left, cells_left, bound, log: node.log }
}

/// Evaluates with both evaluators, which must agree; the machine twice, as it is used again.
pub fn both(chunk: &Chunk, limits: Limits, bound: u32) -> Seen {
    let expected = seen(limits, bound, |run| reference::evaluate(run, chunk));
    let mut machine = Machine::new();
    for _ in 0..2 {
        let found = seen(limits, bound, |run| machine.evaluate(run, chunk));
        assert_eq!(found, expected, "machine and reference differ");
    }
    expected
}

/// The program of a source text, which must be right.
pub fn program(source: &str) -> Arc<Program> {
    let checked = plan::check(source);
    let shown = plan::diagnostic::render(&checked.diagnostics, "test", source, false);
    Arc::new(Program::new(checked.code.unwrap_or_else(|| panic!("{shown}")), &Recorder::default()))
}

/// Evaluates `main()` of a source text.
pub fn main(source: &str) -> Seen {
    let chunk = Chunk::of(&program(source), "main", vec![]).unwrap();
    both(&chunk, Limits::default(), 10)
}
