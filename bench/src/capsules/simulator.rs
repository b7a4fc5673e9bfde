//! The simulator's speed: the thousand nodes of the tests, each with ten capsules a second to random others over links
//! that lose one in twenty.

use super::super::guests::{APP_PORT, Guests};
use super::super::micro::thread_time;
use super::super::series::{Key, Series};
use super::super::{Error, Settings};
use anode::sim::{Line, Network, SECOND, Shape, Simulation, Traffic};

/// Target: packet-hops a second on one core.
pub(super) const HOPS: f64 = 200_000.0;

const NODES: usize = 1000;
const LOSS: f64 = 0.05;
/// Virtual seconds before the measurement: codes are loaded, links are full.
const WARM: u64 = SECOND / 2;

/// Key of the figure with a target.
pub(super) fn key() -> Key {
    Key {
        variant: "simulator".into(),
        size: None,
        regime: format!("{NODES} nodes, {} % loss", LOSS * 100.0),
        metric: "packet-hops per second of CPU",
        unit: "1/s",
    }
}

/// Runs it: a simulation a round, each of another seed.
pub(super) fn run(settings: &Settings, guests: &Guests) -> Result<Series, Error> {
    let seconds = if settings.quick { 1 } else { 10 };
    let mut series = Series::default();
    settings.rounds("simulator", |round| {
        let mut sim = simulation(guests, round as u64 + 1)?;
        sim.run_for(WARM);
        let (hops, start) = (sim.totals().packet_hops, thread_time());
        sim.run_for(seconds * SECOND);
        let took = thread_time().saturating_sub(start).as_secs_f64();
        series.push(key(), (sim.totals().packet_hops - hops) as f64 / took);
        Ok(())
    })?;
    Ok(series)
}

fn simulation(guests: &Guests, seed: u64) -> Result<Simulation, Error> {
    let failed = |problem| Error::Node(format!("simulation: {problem}"));
    let shape = Shape::Random { nodes: NODES, degree: 4 };
    let mut network = Network::new(shape, Line { loss: LOSS, ..Line::default() }, seed).map_err(failed)?;
    network.sizes.state_entries = 64;
    let mut sim = Simulation::new(network, seed).map_err(failed)?;
    for node in 0..NODES {
        sim.add_code(node, &guests.forward);
        sim.open(node, APP_PORT);
    }
    sim.add_traffic(Traffic { app_port: APP_PORT, ..Traffic::everywhere(NODES, guests.forward.name()) });
    Ok(sim)
}
