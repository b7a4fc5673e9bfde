//! Nodes with several workers in virtual time: all other tests of networks once more, and what only they can show.

use crate::guests::*;
use anode::sim::{Carries, Change, Line, Network, SECOND, Shape, Simulation, Traffic};
use std::process::Command;

/// What compares runs with kept ones, which have one worker, and this file.
const ELSEWHERE: [&str; 2] = ["digests::", "workers::"];

#[test]
fn all_tests_of_networks_pass_with_two_workers_in_each_node() {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.env("WORKERS", "2").arg("-q").args(ELSEWHERE.iter().flat_map(|name| ["--skip", name]));
    let done = again.output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "WORKERS=2: {text}{}", String::from_utf8_lossy(&done.stderr));
    assert!(text.contains("test result: ok"), "{text}");
}

/// A run of a network with two workers in each node: what was delivered and became of all frames, and the simulation.
fn run(seed: u64, carries: Carries) -> (String, Simulation) {
    let line = Line { carries, loss: 0.02, duplicate: 0.02, ..Line::default() };
    let mut network = Network::new(Shape::Random { nodes: 12, degree: 4 }, line, seed).unwrap();
    network.workers = 2;
    let mut sim = Simulation::new(network, seed).unwrap();
    sim.watch_balance();
    for code in [forward(), ping(), forking()] {
        for node in 0..sim.nodes() {
            sim.add_code(node, &code);
            sim.open(node, 1);
        }
        let stop = 2 * SECOND;
        sim.add_traffic(Traffic { per_second: 30.0, stop, bound: 20, ..Traffic::everywhere(12, code.name()) });
    }
    for (at, node) in [(SECOND / 2, 3), (SECOND, 5)] {
        sim.change_at(at, Change::Crash { node });
        sim.change_at(at + SECOND / 4, Change::Restart { node, store_kept: true });
    }
    sim.run_until(2 * SECOND);
    assert!(sim.drain(60 * SECOND), "leak:\n{}", sim.report());
    (format!("{:?}", sim.report()), sim)
}

#[test]
fn the_same_seed_interleaves_workers_in_the_same_way_and_no_frame_is_lost() {
    for carries in [Carries::Overlay, Carries::Ethernet] {
        let (first, sim) = run(seed(7), carries);
        assert_eq!(first, run(seed(7), carries).0, "the same seed");
        let received = |node: usize| sim.workers(node).map(|worker| worker.balance().received).collect::<Vec<_>>();
        let of_both: Vec<_> = (0..sim.nodes()).map(received).collect();
        let share = |worker: usize| of_both.iter().filter(|received| received[worker] > 100).count();
        assert!(share(0) >= 4 && share(1) >= 4, "each worker has some at many nodes: {of_both:?}");
        let forwarded = |node: usize| {
            let further = sim.workers(node).nth(1).unwrap().status();
            further.codes.iter().filter_map(|code| Some(code.usage.as_ref()?.forwarded)).sum::<u64>()
        };
        assert!((0..sim.nodes()).map(forwarded).sum::<u64>() > 1000, "further workers run codes themselves");
    }
}

#[test]
fn code_is_fetched_once_for_all_workers() {
    let mut network = Network::new(Shape::Tree { nodes: 9, fanout: 8 }, Line::default(), 1).unwrap();
    network.workers = 4;
    let mut sim = Simulation::new(network, seed(1)).unwrap();
    let code = forward();
    sim.add_code(1, &code);
    sim.collect(8, 1);
    // Capsules of the only node that has it go by the middle, to whichever worker there.
    for _ in 0..12 {
        sim.inject(1, header(code.name(), sim.address(8), 20), b"payload").unwrap();
    }
    assert!(sim.drain(SECOND), "{}", sim.report());
    assert_eq!(sim.take_arrivals().len(), 12, "{}", sim.report());
    assert_eq!(sim.totals().fetch.loads, 3, "at three nodes, once at each: {}", sim.report());
    assert_eq!(sim.totals().fetch.requests, 4, "a manifest and a module over each of two links");
}
