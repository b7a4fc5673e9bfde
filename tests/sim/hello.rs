//! Hellos in networks: neighbours are known before they speak, under loss, duplication, reordering and partition, and
//! nothing else follows from it.

use crate::guests::*;
use anode::core::reason::Reason;
use anode::sim::{Carries, Change, Line, Network, SECOND, Shape, Simulation};

/// Four nodes in a line that say hello once a second.
fn simulation(line: Line, hello: u16) -> Simulation {
    let mut network = Network::new(Shape::Line { nodes: 4 }, line, 0).unwrap();
    network.hello = hello;
    crate::net::simulation(network, seed(1)).unwrap()
}

/// How many neighbours of a node have said hello within three intervals, and how many it knows.
fn known(sim: &Simulation, node: usize) -> (usize, usize) {
    let neighbours = sim.status(node).unwrap().neighbours;
    (neighbours.iter().filter(|known| known.hello.is_some()).count(), neighbours.len())
}

fn all_known(sim: &Simulation) -> bool {
    [1, 2, 2, 1].into_iter().enumerate().all(|(node, count)| known(sim, node) == (count, count))
}

#[test]
fn neighbours_are_known_before_they_speak_and_get_no_route() {
    for carries in [Carries::Overlay, Carries::Ethernet] {
        let line = Line { carries, ..Line::default() };
        let mut sim = simulation(line, 10);
        let routes: Vec<usize> = (0..4).map(|node| sim.status(node).unwrap().routes).collect();
        sim.run_for(SECOND);
        assert!(all_known(&sim), "{carries:?}: {}", sim.report());
        sim.run_for(99 * SECOND);
        for (node, routes) in routes.into_iter().enumerate() {
            let status = sim.status(node).unwrap();
            assert_eq!((status.routes, status.drops.total()), (routes, 0), "{carries:?}: {}", sim.report());
            // Once in 1 to 1.25 seconds for each link.
            let links = status.neighbours.len() as u64;
            assert!((links * 80..=links * 101).contains(&status.hellos.said), "{carries:?}: {:?}", status.hellos);
            let hello = status.neighbours[0].hello.unwrap();
            assert!((98_000..100_000).contains(&hello.age_ms) && hello.heard_ns <= sim.now(), "{carries:?}: {hello:?}");
        }
    }
}

#[test]
fn who_says_nothing_knows_nobody_and_changes_nothing() {
    let mut sim = simulation(Line::default(), 0);
    sim.run_for(100 * SECOND);
    assert!((0..4).all(|node| known(&sim, node).0 == 0), "{}", sim.report());
    assert!((0..4).all(|node| sim.status(node).unwrap().hellos.said == 0));
}

#[test]
fn loss_duplication_and_reordering_do_no_harm_and_a_partition_ends_what_was_known() {
    for carries in [Carries::Overlay, Carries::Ethernet] {
        let line = Line { carries, loss: 0.2, duplicate: 0.3, reorder: 0.5, reorder_ms: 200.0, ..Line::default() };
        let mut sim = simulation(line, 10);
        let mut seen = 0;
        for _ in 0..200 {
            sim.run_for(SECOND);
            seen += usize::from(all_known(&sim));
        }
        // All of six directions lose three in a row about once in twenty intervals.
        assert!(seen > 100, "seed {}: {seen} of 200: {}", sim.seed(), sim.report());
        sim.change(Change::Cut { link: 1 });
        sim.run_for(10 * SECOND);
        let (told, all) = known(&sim, 1);
        assert!(
            told <= 1 && all <= if carries == Carries::Overlay { 2 } else { 1 },
            "seed {}: {told} {all}",
            sim.seed()
        );
        sim.change(Change::Mend { link: 1 });
        let mut again = false;
        for _ in 0..60 {
            sim.run_for(SECOND);
            again |= all_known(&sim);
        }
        assert!(again, "seed {}: {}", sim.seed(), sim.report());
        let totals = sim.totals();
        let foreign = totals.dropped.of(Reason::HelloForeign) + totals.messages_dropped.of(Reason::HelloForeign);
        let rate = totals.dropped.of(Reason::HelloRate) + totals.messages_dropped.of(Reason::HelloRate);
        assert_eq!((foreign, rate), (0, 0), "seed {}: {}", sim.seed(), sim.report());
    }
}

#[test]
fn the_same_seed_says_hello_at_the_same_moments() {
    let run = || {
        let mut sim = simulation(Line { loss: 0.2, ..Line::default() }, 3);
        sim.run_for(20 * SECOND);
        (0..4).map(|node| sim.status(node).unwrap().neighbours.iter().map(|known| known.hello).collect()).collect()
    };
    let (first, second): (Vec<Vec<_>>, Vec<Vec<_>>) = (run(), run());
    assert_eq!(first, second);
    assert!(first.iter().flatten().any(Option::is_some));
}
