//! The demo in virtual time: the same nodes, the same code, no privileges.

use super::{Crossings, Stage};
use crate::apps::cache::{Key, ORIGIN_PORT, Origin};
use crate::apps::{App, Attached, Error, Received};
use crate::sim::trace::{Entry, What};
use crate::sim::{Application, Arrival, Line, Network, Sending, Simulation};
use crate::wire::capsule::Header;
use crate::wire::{Addr, Digest};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The demo's seed: any would do.
const SEED: u64 = 1;

/// The application port of the one who watches.
const PORT: u16 = 40_000;

/// How finely time moves while the one who watches waits, in nanoseconds.
const STEP: u64 = 10_000;

/// The names of the nodes in the story.
const NAMES: [&str; 3] = ["a", "r", "b"];

/// The network and the seat at its first node.
pub(super) struct Simulated {
    seat: Seat,
    history: History,
    added: u64,
}

struct Seat {
    simulation: Simulation,
    arrived: VecDeque<Received>,
}

/// The simulation's history, one JSON object a line.
#[derive(Clone, Default)]
struct History(Arc<Mutex<Vec<u8>>>);

impl Write for History {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl History {
    fn entries(&self) -> Vec<Entry> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

struct Serving(Origin);

impl Application for Serving {
    fn receive(&mut self, arrival: Arrival) -> Vec<Sending> {
        let answer = self.0.answer(&arrival.header, &arrival.payload);
        answer.into_iter().map(|(header, payload)| Sending { after: 0, header, payload }).collect()
    }
}

impl Simulated {
    pub(super) fn new() -> anyhow::Result<Simulated> {
        let mut network = Network::unlinked(NAMES.len());
        network.names = NAMES.map(str::to_owned).to_vec();
        let line = Line { delay_ms: 1.0, ..Line::default() };
        network.link(0, 1, line).link(1, 2, line);
        let mut simulation = Simulation::new(network, SEED)?;
        simulation.collect(0, PORT);
        let history = History::default();
        simulation.trace(Box::new(history.clone()));
        Ok(Simulated { seat: Seat { simulation, arrived: VecDeque::new() }, history, added: 0 })
    }
}

impl Stage for Simulated {
    fn seat(&mut self) -> &mut dyn Attached {
        &mut self.seat
    }

    fn add(&mut self, app: &App) -> anyhow::Result<Digest> {
        let bundle = app.bundle()?;
        self.added = self.seat.simulation.now();
        self.seat.simulation.add_code(0, &bundle);
        Ok(bundle.name())
    }

    fn far_end(&self) -> Addr {
        self.seat.simulation.address(2)
    }

    fn passive_ping(&mut self) -> anyhow::Result<Option<(f64, f64)>> {
        Ok(None)
    }

    fn loads(&mut self, code: Digest) -> anyhow::Result<Vec<(String, f64)>> {
        let code = code.to_string();
        let is_ready = |entry: &Entry| matches!(&entry.what, What::Ready { code: ready } if *ready == code);
        let loads = self.history.entries().into_iter().filter(is_ready);
        Ok(loads.map(|load| (load.node, (load.at - self.added) as f64 / 1e6)).collect())
    }

    fn crossings(&mut self) -> anyhow::Result<Crossings> {
        let mut crossings = Crossings::new();
        for entry in self.history.entries() {
            let What::Served { object, parts } = entry.what else { continue };
            // In a line, what a node serves crosses the link to the next one.
            let link = if entry.node == "a" { "a–r" } else { "r–b" };
            let object = object.chars().take(8).collect();
            let times = crossings.entry(link.into()).or_default().entry(object).or_default();
            (0..parts as u16).for_each(|part| *times.entry(part.to_string()).or_default() += 1);
        }
        Ok(crossings)
    }

    fn serve(&mut self, code: Digest, values: &[(Key, Vec<u8>)]) -> anyhow::Result<()> {
        let mut origin = Origin::new(code, Duration::from_secs(60), values.len());
        for (key, value) in values {
            anyhow::ensure!(origin.set(*key, value.clone()), "the origin has no room");
        }
        self.seat.simulation.attach(2, ORIGIN_PORT, Box::new(Serving(origin)));
        Ok(())
    }

    fn name(&self, addr: Addr) -> String {
        let simulation = &self.seat.simulation;
        let owner = (0..NAMES.len()).find(|node| simulation.address(*node) == addr);
        owner.map_or_else(|| addr.to_string(), |node| NAMES[node].to_owned())
    }
}

impl Attached for Seat {
    fn address(&self) -> Addr {
        self.simulation.address(0)
    }

    fn port(&self) -> u16 {
        PORT
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.simulation.now())
    }

    fn send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Error> {
        self.simulation.inject(0, *header, payload).map(drop).map_err(|error| Error::Refused(format!("{error:?}")))
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<Received>, Error> {
        let until = self.simulation.now() + timeout.as_nanos() as u64;
        loop {
            let arrivals = self.simulation.take_arrivals().into_iter();
            self.arrived.extend(arrivals.map(|arrival| (arrival.header, arrival.payload)));
            let now = self.simulation.now();
            if !self.arrived.is_empty() || now >= until {
                return Ok(self.arrived.pop_front());
            }
            self.simulation.run_until(until.min(now + STEP));
        }
    }
}
