//! Demand loading in bad weather: code arrives, or its capsules end in counted drops; nothing leaks.

use crate::guests::*;
use anode::core::reason::Reason;
use anode::sim::{Carries, Change, Family, Line, MS, Network, SECOND, Shape, Simulation, Traffic};

fn simulation(nodes: usize, line: Line, seed: u64) -> Simulation {
    crate::net::simulation(Network::new(Shape::Line { nodes }, line, seed).unwrap(), seed).unwrap()
}

/// Nothing is under way, and the books balance.
fn at_rest(sim: &mut Simulation) {
    assert!(sim.drain(sim.now() + 120 * SECOND), "capsules leak:\n{}", sim.report());
    sim.run_for(60 * SECOND);
    let report = sim.report();
    assert_eq!(report.fetching, 0, "fetches leak:\n{report}");
    assert_eq!(report.totals.begun(), report.totals.ended(), "{report}");
}

#[test]
fn code_arrives_or_its_capsules_end_in_counted_drops() {
    let base = seed(100);
    for (number, loss) in [0.0, 0.1, 0.2, 0.3, 0.4].into_iter().enumerate() {
        for carries in [Carries::Overlay, Carries::Ethernet] {
            let line = Line { carries, loss, duplicate: 0.1, reorder: 0.3, reorder_ms: 30.0, ..Line::default() };
            let mut sim = simulation(5, line, base + number as u64);
            let code = padded_forward(number as u32, 9000);
            sim.add_code(0, &code);
            sim.open(4, 1);
            for _ in 0..40 {
                sim.inject(0, header(code.name(), sim.address(4), 200), b"").unwrap();
                sim.run_for(100 * MS);
            }
            at_rest(&mut sim);
            let totals = sim.totals();
            let chance = (1.0 - loss).powi(4) * 40.0;
            println!("{carries:?} {loss}: {} delivered, {:?}", totals.delivered, totals.dropped);
            // On worse links the four seconds may pass before every hop knows the next one's link address.
            assert!(loss > 0.1 || totals.delivered as f64 > chance / 3.0, "{}", sim.report());
            let dropped =
                [Reason::FetchTimeout, Reason::FetchFull, Reason::Unresolved].map(|reason| totals.dropped.of(reason));
            assert_eq!(totals.dropped.total(), dropped.iter().sum::<u64>(), "{}", sim.report());
        }
    }
}

#[test]
fn one_request_serves_all_capsules_of_a_code() {
    let mut sim = simulation(2, Line::default(), seed(1));
    let code = forward();
    sim.add_code(0, &code);
    sim.open(1, 1);
    for _ in 0..10 {
        sim.inject(0, header(code.name(), sim.address(1), 5), b"").unwrap();
    }
    at_rest(&mut sim);
    assert_eq!(sim.totals().delivered, 10);
    assert_eq!((sim.totals().fetch.requests, sim.totals().fetch.parts), (2, 2), "a manifest and a module");
}

#[test]
fn the_first_capsule_over_a_cold_hop_takes_three_round_trips_and_the_load_time() {
    const RTT: u64 = 40 * MS;
    for (bytes, family) in [(10, Family::V4), (2000, Family::V4), (2000, Family::V6), (15_000, Family::V6)] {
        let line = Line { delay_ms: 20.0, ..Line::default() };
        let mut network = Network::new(Shape::Line { nodes: 2 }, line, 0).unwrap();
        network.family = family;
        let load = network.prepare_ns + 10 * network.look_up_ns;
        let mut sim = crate::net::simulation(network, seed(1)).unwrap();
        let code = padded_forward(1, bytes);
        sim.add_code(0, &code);
        sim.collect(1, 1);
        sim.inject(0, header(code.name(), sim.address(1), 64), b"").unwrap();
        at_rest(&mut sim);
        let latency = sim.take_arrivals()[0].latency;
        println!("{bytes} bytes: {:.2} RTT", latency as f64 / RTT as f64);
        assert!(latency <= 3 * RTT + 2 * load, "{bytes} bytes: {latency} ns");
    }
}

#[test]
fn a_partition_that_heals_delays_code_and_loses_none() {
    let mut sim = simulation(3, Line::default(), seed(1));
    let code = padded_forward(1, 5000);
    sim.add_code(0, &code);
    sim.open(2, 1);
    sim.inject(0, header(code.name(), sim.address(2), 64), b"").unwrap();
    // The capsule is at its first hop, whose request is on the way.
    sim.run_until(3_500_000);
    sim.change(Change::Cut { link: 0 });
    sim.change_at(800 * MS, Change::Mend { link: 0 });
    at_rest(&mut sim);
    assert_eq!(sim.totals().delivered, 1, "{}", sim.report());
}

#[test]
fn a_partition_that_stays_ends_in_a_counted_drop() {
    let mut sim = simulation(3, Line::default(), seed(1));
    let code = forward();
    sim.add_code(0, &code);
    sim.inject(0, header(code.name(), sim.address(2), 64), b"").unwrap();
    sim.run_until(3_500_000);
    sim.change(Change::Cut { link: 0 });
    at_rest(&mut sim);
    assert_eq!(sim.totals().dropped.of(Reason::FetchTimeout), 1, "{}", sim.report());
}

/// The middle node crashes when it has sent a capsule on, before the next hop has its code.
fn crash_of_the_previous_hop(restart: Option<bool>) -> Simulation {
    let mut sim = simulation(4, Line::default(), seed(1));
    let code = padded_forward(1, 3000);
    sim.add_code(0, &code);
    sim.open(3, 1);
    sim.inject(0, header(code.name(), sim.address(3), 64), b"").unwrap();
    while sim.totals().fetch.loads < 2 {
        assert!(sim.step());
    }
    sim.run_for(MS / 2);
    sim.change(Change::Crash { node: 1 });
    if let Some(store_kept) = restart {
        sim.change_at(sim.now() + 500 * MS, Change::Restart { node: 1, store_kept });
    }
    at_rest(&mut sim);
    sim
}

#[test]
fn a_crash_of_the_previous_hop_ends_in_a_counted_drop() {
    for restart in [None, Some(false)] {
        let sim = crash_of_the_previous_hop(restart);
        assert_eq!(sim.totals().dropped.of(Reason::FetchTimeout), 1, "{restart:?}\n{}", sim.report());
    }
}

#[test]
fn a_previous_hop_that_starts_again_serves_from_its_store() {
    let sim = crash_of_the_previous_hop(Some(true));
    assert_eq!(sim.totals().delivered, 1, "{}", sim.report());
}

#[test]
fn what_waits_in_a_node_is_lost_with_it_and_accounted() {
    let mut sim = simulation(2, Line { delay_ms: 50.0, ..Line::default() }, seed(1));
    let code = forward();
    sim.add_code(0, &code);
    for _ in 0..5 {
        sim.inject(0, header(code.name(), sim.address(1), 9), b"").unwrap();
    }
    sim.run_until(80 * MS);
    assert_eq!(sim.alive(), 5);
    sim.change(Change::Crash { node: 1 });
    assert_eq!((sim.alive(), sim.totals().lost.crash), (0, 5));
    at_rest(&mut sim);
}

#[test]
fn many_codes_over_mixed_links_with_crashes_leak_nothing() {
    let base = seed(40);
    for seed in base..base + 4 {
        let line = Line { loss: 0.15, duplicate: 0.05, reorder: 0.1, ..Line::default() };
        let mut network = Network::new(Shape::Random { nodes: 12, degree: 3 }, line, seed).unwrap();
        network.family = Family::Both;
        network.sizes.codes = 8;
        for link in network.links.iter_mut().step_by(2) {
            link.line.carries = Carries::Ethernet;
        }
        let mut sim = crate::net::simulation(network, seed).unwrap();
        for number in 0..24 {
            let code = padded_forward(number, 200 * number as usize);
            let sender = number as usize % 12;
            sim.add_code(sender, &code);
            let traffic = Traffic::everywhere(12, code.name());
            sim.add_traffic(Traffic { from: vec![sender], per_second: 5.0, stop: 10 * SECOND, ..traffic });
        }
        (0..12).for_each(|node| sim.open(node, 1));
        for node in [2, 5, 7] {
            sim.change_at((node as u64) * SECOND, Change::Crash { node });
            sim.change_at((node as u64) * SECOND + SECOND, Change::Restart { node, store_kept: node == 5 });
        }
        sim.change_at(3 * SECOND, Change::Cut { link: 4 });
        sim.change_at(4 * SECOND, Change::Mend { link: 4 });
        sim.run_until(10 * SECOND);
        at_rest(&mut sim);
        println!("{}", sim.report());
        assert!(sim.totals().delivered > 300, "{}", sim.report());
    }
}
