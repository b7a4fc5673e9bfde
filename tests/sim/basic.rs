//! The simulator itself: packets arrive, books balance, seeds repeat.

use crate::guests::*;
use anode::sim::{Carries, Family, Line, Network, SECOND, Shape, Simulation, Traffic};

fn line(nodes: usize, line: Line) -> Simulation {
    crate::net::simulation(Network::new(Shape::Line { nodes }, line, 0).unwrap(), seed(1)).unwrap()
}

#[test]
fn a_capsule_brings_its_code_hop_by_hop() {
    for (carries, units) in [(Carries::Overlay, 1), (Carries::Ethernet, 2)] {
        let mut sim = line(4, Line { carries, ..Line::default() });
        let code = forward();
        sim.add_code(0, &code);
        sim.collect(3, 1);
        let packet = sim.inject(0, header(code.name(), sim.address(3), 20), b"payload").unwrap();
        assert!(sim.drain(SECOND));
        let arrivals = sim.take_arrivals();
        assert_eq!(arrivals.len(), 1, "{carries:?} {}", sim.report());
        let arrival = &arrivals[0];
        assert_eq!((arrival.packet, arrival.hops, arrival.payload.as_slice()), (packet, 3, b"payload".as_slice()));
        // Each of the four verdicts spent one, and each of three nodes that fetched the code has spent on that.
        assert_eq!((arrival.header.bound, arrival.header.source), (16 - 3 * units, sim.address(0)));
        assert_eq!(sim.totals().fetch.loads, 4);
        assert_eq!(sim.totals().fetch.requests, 6, "a manifest and a module over each of three links");
    }
}

/// A run with everything that can go wrong on links; gives its history and result.
fn rough(seed: u64, carries: Carries, family: Family) -> (Vec<u8>, String, Simulation) {
    let rough = Line {
        carries,
        loss: 0.1,
        duplicate: 0.05,
        reorder: 0.2,
        rate_mbit: 2.0,
        queue_bytes: 4000,
        ..Line::default()
    };
    let mut network = Network::new(Shape::Random { nodes: 20, degree: 4 }, rough, seed).unwrap();
    network.family = family;
    let mut sim = crate::net::simulation(network, seed).unwrap();
    let history = History::default();
    sim.trace(Box::new(history.clone()));
    for (code, per_second) in [(forward(), 20.0), (ping(), 10.0), (forking(), 2.0)] {
        for node in 0..sim.nodes() {
            sim.add_code(node, &code);
            sim.open(node, 1);
        }
        let stop = 3 * SECOND;
        sim.add_traffic(Traffic { per_second, stop, bound: 20, ..Traffic::everywhere(20, code.name()) });
    }
    sim.run_until(3 * SECOND);
    assert!(sim.drain(60 * SECOND), "leak:\n{}", sim.report());
    sim.finish_trace().unwrap();
    let report = format!("{:?}", sim.report());
    let history = std::mem::take(&mut *history.0.borrow_mut());
    (history, report, sim)
}

#[derive(Clone, Default)]
struct History(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl std::io::Write for History {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_books_balance() {
    for (carries, family) in [
        (Carries::Overlay, Family::V4),
        (Carries::Overlay, Family::Both),
        (Carries::Ethernet, Family::V6),
        (Carries::Ethernet, Family::Both),
    ] {
        let (_, _, sim) = rough(seed(7), carries, family);
        let totals = sim.totals();
        println!("{}", sim.report());
        assert_eq!(totals.begun(), totals.ended(), "{carries:?} {family:?}");
        assert!(totals.delivered > 500 && totals.lost.link > 100 && totals.doubled > 50 && totals.children > 100);
        assert_eq!(totals.fetch.requests, 0, "everybody has the code");
        assert_eq!(sim.report().fetching, 0);
    }
}

#[test]
fn the_same_seed_gives_the_same_history_byte_by_byte() {
    for carries in [Carries::Overlay, Carries::Ethernet] {
        let (history, report, _) = rough(seed(3), carries, Family::Both);
        let (again, same, _) = rough(seed(3), carries, Family::Both);
        assert!(history.len() > 100_000 && history == again);
        assert_eq!(report, same);
        assert_ne!(report, rough(seed(3) + 1, carries, Family::Both).1);
    }
}

/// A thousand nodes, each sending ten capsules a second for a minute of virtual time, a twentieth of
/// all frames lost; wasm really runs.
fn a_thousand_nodes(seed: u64) -> Simulation {
    let nodes = 1000;
    let shape = Shape::Random { nodes, degree: 4 };
    let mut network = Network::new(shape, Line { loss: 0.05, ..Line::default() }, seed).unwrap();
    network.sizes.state_entries = 64;
    let mut sim = crate::net::simulation(network, seed).unwrap();
    let code = forward();
    for node in 0..nodes {
        sim.add_code(node, &code);
        sim.open(node, 1);
    }
    sim.add_traffic(Traffic { stop: 60 * SECOND, ..Traffic::everywhere(nodes, code.name()) });
    sim.run_until(60 * SECOND);
    assert!(sim.drain(120 * SECOND), "{}", sim.report());
    sim
}

#[test]
fn a_thousand_nodes_run_for_a_minute_the_same_every_time() {
    let sim = a_thousand_nodes(seed(1));
    let report = sim.report();
    println!("{report}");
    assert!((599_000..601_000).contains(&report.totals.injected), "{report}");
    assert_eq!(report.totals.begun(), report.totals.ended(), "{report}");
    assert!(report.totals.packet_hops > 2_000_000, "{report}");
    // Of paths of five to six links, each of which loses a twentieth.
    let share = report.totals.delivered as f64 / report.totals.injected as f64;
    assert!((0.6..0.9).contains(&share), "{report}");
    assert_eq!(report, a_thousand_nodes(seed(1)).report());
}
