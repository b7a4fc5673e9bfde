//! The resource bound: spent by every hop, split among children, never made.

use crate::guests::*;
use anode::sim::{Line, Network, SECOND, Shape, Simulation};

const NODES: usize = 14;

/// Bounds on all links, plus what every hop so far has cost.
fn spent_and_left(sim: &Simulation) -> (u64, u64) {
    let flying = sim.in_flight();
    let left = flying.values().map(|header| u64::from(header.bound)).sum();
    // A hop is paid for when it begins.
    (sim.totals().packet_hops + flying.len() as u64, left)
}

#[test]
fn bounds_of_living_packets_and_hops_spent_never_exceed_what_was_injected() {
    let base = seed(500);
    for seed in base..base + 30 {
        let shape = match seed % 3 {
            0 => Shape::Random { nodes: NODES, degree: 3 },
            1 => Shape::Tree { nodes: NODES, fanout: 3 },
            _ => Shape::Grid { width: 7, height: 2 },
        };
        let line = Line { loss: 0.02, reorder: 0.2, ..Line::default() };
        let mut sim = crate::net::simulation(Network::new(shape, line, seed).unwrap(), seed).unwrap();
        let code = forking();
        for node in 0..NODES {
            sim.add_code(node, &code);
            sim.open(node, 1);
            // Everybody has the code ready, so that no packet waits unseen.
            sim.inject(node, header(code.name(), sim.address(node), 1), b"").unwrap();
        }
        sim.run_for(SECOND);
        let (before, _) = spent_and_left(&sim);
        let injected = 20 + seed % 200;
        let (from, to) = (seed as usize % NODES, (seed as usize * 5 + 3) % NODES);
        let to = if from == to { (to + 1) % NODES } else { to };
        sim.inject(from, header(code.name(), sim.address(to), injected as u32), b"").unwrap();
        let mut last = injected;
        while sim.alive() > 0 {
            let (spent, left) = spent_and_left(&sim);
            assert!(spent - before + left <= injected, "seed {seed}: {spent} spent and {left} left of {injected}");
            assert!(left <= last, "seed {seed}: the bounds grew from {last} to {left}");
            last = left;
            assert!(sim.step());
        }
        assert!(sim.totals().children > 0, "seed {seed}: {}", sim.report());
        assert_eq!(sim.totals().begun(), sim.totals().ended());
    }
}
