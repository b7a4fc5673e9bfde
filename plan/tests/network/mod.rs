//! A network of evaluators in memory: nodes, links, shortest paths, and every packet as bytes.
//!
//! Nodes do what a node must do around the evaluator: they decode what arrives, evaluate it if it is for
//! them, send it on if it is not, spend its hops, keep programs, and report failures.

use plan::code::CodeError;
use plan::eval::{Cause, Fault, Limits, Machine, NewPacket, Node, Outcome, State, Stop, Way, outcome};
use plan::name::Name;
use plan::packet::{Header, Library, Packet, View, ViewMut};
use plan::program::{Digest, Program, ServiceId, Services};
use plan::value::{Chunk, Host, Value};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The address of the node with this number.
pub fn host(number: usize) -> Host {
    Host::v4([10, 0, 0, number as u8])
}

pub fn value(number: usize) -> Value {
    Value::Host(host(number))
}

/// Links between nodes, each with its MTU; a device is the link's number.
pub struct Network {
    pub nodes: Vec<Site>,
    links: Vec<(usize, usize, i64)>,
    /// Packets under way: to which node, bytes.
    wires: VecDeque<(usize, Vec<u8>)>,
    /// How often each link was crossed.
    pub crossed: Vec<usize>,
    /// How many reports were made.
    pub reports: usize,
}

/// What one node keeps.
#[derive(Default)]
pub struct Site {
    /// What was printed.
    pub printed: Vec<String>,
    programs: HashMap<Digest, Arc<Program>>,
    data: HashMap<(Vec<u8>, [u8; 16]), Value>,
    machine: Machine,
}

const NAMES: &[&str] = &[
    "print",
    "thisHost",
    "thisHostIs",
    "getSource",
    "defaultRoute",
    "getNeighbors",
    "getMTU",
    "defHandler",
    "put",
    "get",
    "getSession",
];

/// The services of every node here.
pub struct Known;

impl Services for Known {
    fn service(&self, name: &Name) -> Option<ServiceId> {
        NAMES.iter().position(|known| *known == name.as_str()).map(|at| ServiceId(at as u32))
    }
}

/// One node during one evaluation.
struct At<'a> {
    number: usize,
    links: &'a [(usize, usize, i64)],
    ways: &'a [Vec<Option<usize>>],
    site: &'a mut Site,
    /// New packets: over which link, bytes.
    out: Vec<(usize, Vec<u8>)>,
}

impl Services for At<'_> {
    fn service(&self, name: &Name) -> Option<ServiceId> {
        Known.service(name)
    }
}

fn raise<T>(name: &str) -> Result<T, Stop> {
    Err(Stop::Raise(Name::new(name).unwrap()))
}

impl At<'_> {
    fn other_end(&self, link: usize) -> usize {
        let (a, b, _) = self.links[link];
        if a == self.number { b } else { a }
    }

    fn pair(&self, link: usize) -> Value {
        Value::tuple(vec![value(self.other_end(link)), Value::Dev(link as u32)]).unwrap()
    }

    /// The link towards a host; none to this one.
    fn way(&self, to: Host) -> Result<Option<usize>, Stop> {
        let Some(to) = (0..self.ways.len()).find(|number| host(*number) == to) else { return raise("NoRoute") };
        if to == self.number {
            return Ok(None);
        }
        self.ways[to][self.number].map(Some).ok_or(Stop::Raise(Name::new("NoRoute").unwrap()))
    }
}

impl Node for At<'_> {
    fn call(&mut self, service: ServiceId, arguments: &[Value], state: &mut State<'_>) -> Result<Value, Stop> {
        let name = NAMES[service.0 as usize];
        let mine = |link: &usize| [self.links[*link].0, self.links[*link].1].contains(&self.number);
        Ok(match (name, arguments) {
            ("print", [what]) => {
                self.site.printed.push(what.to_string());
                Value::Unit
            }
            ("defHandler", arguments) => {
                self.site.printed.push(outcome::describe(arguments).ok_or(Fault::Arity)?);
                Value::Unit
            }
            ("thisHost", []) => Value::list([value(self.number)].into_iter()).unwrap(),
            ("thisHostIs", [Value::Host(is)]) => Value::Bool(*is == host(self.number)),
            ("getSource", []) => Value::Host(state.header.source),
            ("getSession", []) => Value::Key(state.header.session),
            ("defaultRoute", [Value::Host(to)]) => match self.way(*to)? {
                Some(link) => self.pair(link),
                None => return raise("NoRoute"),
            },
            ("getNeighbors", []) => {
                let pairs: Vec<_> = (0..self.links.len()).filter(mine).map(|link| self.pair(link)).collect();
                Value::list(pairs.into_iter()).unwrap()
            }
            ("getMTU", [Value::Dev(link)]) => Value::Int(self.links[*link as usize].2),
            ("put", [Value::Text(name), Value::Key(key), value, Value::Int(_)]) => {
                self.site.data.insert((name.to_vec(), *key), value.clone());
                Value::Unit
            }
            ("get", [Value::Text(name), Value::Key(key)]) => match self.site.data.get(&(name.to_vec(), *key)) {
                Some(value) => value.clone(),
                None => return raise("NotFound"),
            },
            _ => return Err(Fault::Type(name).into()),
        })
    }

    fn send(&mut self, packet: &NewPacket<'_>, _: &mut u32) -> Result<(), Stop> {
        let link = match packet.way {
            Way::Routed { .. } => self.way(packet.destination)?,
            Way::Neighbor(dev) => {
                let fits = |link: &usize| {
                    let (a, b, _) = self.links[*link];
                    [a, b].contains(&self.number) && host(self.other_end(*link)) == packet.destination
                };
                match (0..self.links.len()).filter(|link| dev.is_none_or(|dev| dev == *link as u32)).find(fits) {
                    Some(link) => Some(link),
                    None => return raise("NotNeighbor"),
                }
            }
        };
        let new = Packet { header: packet.header(host(self.number)), chunk: packet.chunk.clone() };
        self.out.push((link.unwrap_or(usize::MAX), new.bytes().unwrap()));
        Ok(())
    }
}

/// The programs of one node.
struct Shelf<'a>(&'a mut HashMap<Digest, Arc<Program>>);

impl Library for Shelf<'_> {
    fn by_bytes(&mut self, bytes: &[u8]) -> Result<Arc<Program>, CodeError> {
        let digest = Digest::of(bytes);
        if let Some(program) = self.0.get(&digest) {
            return Ok(program.clone());
        }
        let program = Arc::new(Program::read(bytes, &Known)?);
        self.0.insert(digest, program.clone());
        Ok(program)
    }

    fn by_digest(&mut self, digest: &Digest) -> Option<Arc<Program>> {
        self.0.get(digest).cloned()
    }
}

impl Network {
    pub fn new(links: &[(usize, usize, i64)]) -> Network {
        let count = links.iter().map(|(a, b, _)| a.max(b) + 1).max().unwrap_or(0);
        Network {
            nodes: (0..count).map(|_| Site::default()).collect(),
            links: links.to_vec(),
            wires: VecDeque::new(),
            crossed: vec![0; links.len()],
            reports: 0,
        }
    }

    /// For each destination and node, the first link of a shortest way.
    fn ways(&self) -> Vec<Vec<Option<usize>>> {
        (0..self.nodes.len()).map(|to| self.ways_to(to)).collect()
    }

    fn ways_to(&self, to: usize) -> Vec<Option<usize>> {
        let mut ways = vec![None; self.nodes.len()];
        let mut reached = VecDeque::from([to]);
        while let Some(at) = reached.pop_front() {
            for (link, (a, b, _)) in self.links.iter().enumerate() {
                let from = if *a == at { *b } else { *a };
                if [a, b].contains(&&at) && from != to && ways[from].is_none() {
                    ways[from] = Some(link);
                    reached.push_back(from);
                }
            }
        }
        ways
    }

    /// Injects a chunk at a node and lets everything happen; how many packets were evaluated.
    pub fn run(&mut self, source: usize, chunk: Chunk, bound: u32) -> usize {
        let header = Header::injected(host(source), bound);
        let packet = Packet { header, chunk: Arc::new(chunk) };
        self.wires.push_back((source, packet.bytes().unwrap()));
        let ways = self.ways();
        let mut evaluated = 0;
        while let Some((number, bytes)) = self.wires.pop_front() {
            let view = View::new_checked(&bytes).unwrap();
            if view.destination() == host(number) {
                evaluated += 1;
                self.evaluate(number, &bytes, &ways);
            } else {
                self.route(number, bytes, &ways);
            }
            assert!(evaluated <= 10_000, "packets without end");
        }
        evaluated
    }

    fn evaluate(&mut self, number: usize, bytes: &[u8], ways: &[Vec<Option<usize>>]) {
        let site = &mut self.nodes[number];
        let packet = Packet::decode(bytes, &mut Shelf(&mut site.programs)).unwrap();
        assert_eq!(packet.bytes().as_deref(), Some(bytes));
        let mut machine = std::mem::take(&mut site.machine);
        let mut at = At { number, links: &self.links, ways, site, out: Vec::new() };
        let outcome = packet.evaluate(&mut machine, &mut at, Limits::default());
        let out = at.out;
        site.machine = machine;
        for (link, bytes) in out {
            self.put(number, link, bytes);
        }
        if let Outcome::Failed(cause) = outcome {
            self.fail(number, &packet, &cause, ways);
        }
    }

    fn put(&mut self, from: usize, link: usize, bytes: Vec<u8>) {
        let to = match self.links.get(link) {
            Some((a, b, _)) => {
                self.crossed[link] += 1;
                if *a == from { *b } else { *a }
            }
            None => from,
        };
        self.wires.push_back((to, bytes));
    }

    fn route(&mut self, number: usize, mut bytes: Vec<u8>, ways: &[Vec<Option<usize>>]) {
        let destination = View::new_checked(&bytes).unwrap().destination();
        let to = (0..self.nodes.len()).find(|node| host(*node) == destination);
        let link = to.and_then(|to| ways[to][number]);
        let spent = ViewMut::new_checked(&mut bytes).unwrap().spend(1, host(number));
        match link {
            Some(link) if spent => self.put(number, link, bytes),
            _ => {
                let packet = Packet::decode(&bytes, &mut Shelf(&mut self.nodes[number].programs)).unwrap();
                let name = if spent { "NoRoute" } else { "NotEnoughRB" };
                self.fail(number, &packet, &Cause::Exception(Name::new(name).unwrap()), ways);
            }
        }
    }

    fn fail(&mut self, number: usize, packet: &Packet, cause: &Cause, ways: &[Vec<Option<usize>>]) {
        // What is left of the bound is not kept here: a report may go as far as any.
        if let Some(report) = packet.report(cause, host(number), 64) {
            self.reports += 1;
            let bytes = report.bytes().unwrap();
            if report.header.destination == host(number) {
                self.wires.push_back((number, bytes));
            } else {
                self.route(number, bytes, ways);
            }
        }
    }
}

/// The program of a source text, which must be right.
pub fn program(name: &str, source: &str) -> Arc<Program> {
    let checked = plan::check(source);
    let shown = plan::diagnostic::render(&checked.diagnostics, name, source, false);
    Arc::new(Program::new(checked.code.unwrap_or_else(|| panic!("{shown}")), &Known))
}
