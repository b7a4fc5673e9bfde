//! The common part of tests of PLAN networks: simulated networks with an application at every node, programs, and the
//! books.

use anode::apps::plan::{Local, Script, packet};
use anode::ee::plan::{Config, Seat};
use anode::sim::{Line, Network, Problem, SECOND, Simulation};
use anode::topology::Ceiling;
use plan::value::{Chunk, Host, Value};
use std::sync::Arc;

/// A simulated network with an application at every node.
pub struct Net {
    pub sim: Simulation,
    pub seats: Vec<Seat>,
}

pub fn host(number: usize) -> Host {
    Host::v4([10, 0, ((number + 1) >> 8) as u8, (number + 1) as u8])
}

pub fn value(number: usize) -> Value {
    Value::Host(host(number))
}

/// A program of the library.
#[allow(dead_code, reason = "not every test uses it")]
pub fn app(name: &str) -> Script {
    let path = format!("{}/apps/plan/{name}.plan", env!("CARGO_MANIFEST_DIR"));
    Script::new(name, &std::fs::read_to_string(path).unwrap()).unwrap_or_else(|why| panic!("{why}"))
}

/// A network with these links, all with this line.
pub fn network(links: &[(usize, usize)], line: Line) -> Network {
    let nodes = links.iter().map(|(a, b)| a.max(b) + 1).max().unwrap_or(1);
    let mut network = Network::unlinked(nodes);
    network.ceiling = Ceiling::all(4096);
    links.iter().for_each(|(a, b)| {
        network.link(*a, *b, line);
    });
    network
}

/// What was printed, without the line feeds that programs print between their lines.
#[allow(dead_code, reason = "not every test uses it")]
pub fn lines(printed: Vec<String>) -> Vec<String> {
    printed.into_iter().filter(|text| text != "\n").collect()
}

/// The simulation of a network, whose nodes have as many workers as `WORKERS` says: `workers.rs` runs all tests once more with two.
pub fn simulation(network: Network, seed: u64) -> Result<Simulation, Problem> {
    let workers = std::env::var("WORKERS").map_or(network.workers, |text| text.parse().unwrap());
    Simulation::new(Network { workers, ..network }, seed)
}

impl Net {
    pub fn new(network: Network, seed: u64) -> Net {
        let mut sim = crate::net::simulation(network, seed).unwrap();
        let seats = (0..sim.nodes()).map(|node| sim.attach_plan(node, node as u32 + 100).unwrap()).collect();
        Net { sim, seats }
    }

    pub fn with(links: &[(usize, usize)], line: Line, config: Config) -> Net {
        let mut network = network(links, line);
        network.plan = config;
        Net::new(network, 1)
    }

    /// 0 ─ 1 ─ 2 …
    #[allow(dead_code, reason = "not every test uses it")]
    pub fn line(nodes: usize, line: Line) -> Net {
        let links: Vec<_> = (1..nodes).map(|node| (node - 1, node)).collect();
        Net::with(&links, line, Config::default())
    }

    /// An application injects a chunk, to be evaluated at its own node.
    pub fn inject(&mut self, node: usize, chunk: Arc<Chunk>, bound: u32) {
        self.inject_packet(node, packet(chunk, bound));
    }

    pub fn inject_packet(&mut self, node: usize, packet: plan::packet::Packet) {
        let bytes = packet.bytes().unwrap();
        self.sim.inject_plan(node, self.seats[node].port, &bytes).unwrap();
    }

    #[allow(dead_code, reason = "not every test uses it")]
    /// Injects a call as it is written, and lets everything happen for a while; what was printed.
    pub fn call(&mut self, node: usize, script: &Script, call: &str, bound: u32) -> Vec<String> {
        let mut local = Local { addresses: vec![host(node)], session: self.seats[node].session, ..Local::default() };
        local.hosts.extend((0..self.seats.len()).map(|node| (format!("n{node}"), host(node))));
        let chunk = script.first(call, &mut local).unwrap();
        self.inject(node, chunk, bound);
        self.sim.run_for(5 * SECOND);
        lines(self.sim.take_printed())
    }

    /// Every node's account balances; gives the sums of all nodes.
    pub fn audit(&self) -> Sums {
        let mut sums = Sums::default();
        for node in (0..self.sim.nodes()).filter(|node| self.sim.is_up(*node)) {
            let status = self.sim.status(node).unwrap().plan.unwrap();
            let account = status.account;
            let came = account.injected + account.received;
            let went = account.sent + account.spent + account.unused + status.held;
            assert_eq!(came, went, "node {node}: {status:?}");
            sums.injected += account.injected;
            sums.received += account.received;
            sums.sent += account.sent;
            sums.spent += account.spent;
            sums.unused += account.unused;
            sums.held += status.held;
            sums.by_digest += account.by_digest;
            sums.wanted += account.wanted;
            sums.packets += account.packets;
            sums.reports += account.reports;
        }
        sums
    }
}

/// Accounts of all nodes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(dead_code, reason = "not every test reads every one")]
pub struct Sums {
    pub injected: u64,
    pub received: u64,
    pub sent: u64,
    pub spent: u64,
    pub unused: u64,
    pub held: u64,
    pub by_digest: u64,
    pub wanted: u64,
    pub packets: u64,
    pub reports: u64,
}
