//! Graphs of a configuration whose neighbours are not there, or do not accept their parts: they wait, and nothing waits for them.

use crate::parts::{apply, network, prepared, read, round, simulation, status};
use anode::core::reason::Reason;
use anode::node::proofs::Guard;
use anode::sim::{Change, Line, Network, SECOND, Simulation};
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;
use anode::trust::{Role, Roles};
use std::sync::Arc;

/// A graph of the first node's configuration.
fn await_graph(sim: &mut Simulation, name: &str, text: &str) {
    let graph = prepared(name, text);
    sim.with_node(0, |node, turn| node.await_graph(turn, graph)).unwrap();
}

fn waits(sim: &mut Simulation, name: &str) -> Option<String> {
    let graph = status(sim, 0).into_iter().find(|graph| graph.name == name).unwrap();
    assert!(graph.generation > 0 || graph.waits.is_some(), "{graph:?}");
    graph.waits
}

#[test]
fn a_graph_waits_for_a_neighbour_that_is_not_there_and_runs_when_it_comes() {
    let mut sim = simulation(network(2, Line::default()));
    sim.change(Change::Cut { link: 0 });
    await_graph(&mut sim, "g", &round(1, 10));
    assert_eq!(waits(&mut sim, "g").as_deref(), Some("waits for its parts, which are offered"));
    let own = prepared("own", "s :: RatedSource(\"x\", RATE 10) -> a :: Counter -> Discard;");
    sim.with_node(0, |node, turn| node.run_graph(turn, own, None)).unwrap().unwrap();
    sim.run_for(4 * SECOND);
    let why = waits(&mut sim, "g").unwrap();
    assert!(why.contains("offered again") && why.contains("10.0.0.2 does not answer"), "{why}");
    assert!(read(&mut sim, 0, "own", "a") > 30, "others run");
    // Each try takes three seconds, and the pauses between them grow: 1, 2, 4, 8.
    sim.run_for(20 * SECOND);
    let why = waits(&mut sim, "g").unwrap();
    assert!(why.contains("offered again after 8 s: graph g: 10.0.0.2 does not answer"), "{why}");
    sim.change(Change::Mend { link: 0 });
    sim.run_for(10 * SECOND);
    let graph = status(&mut sim, 0).into_iter().find(|graph| graph.name == "g").unwrap();
    assert_eq!((graph.generation, graph.waits, graph.parts.len()), (1, None, 1));
    assert!(read(&mut sim, 0, "g", "back") > 5, "packets pass");
}

#[test]
fn a_graph_that_is_refused_says_why_and_runs_when_it_is_not_any_more() {
    let mut none = network(2, Line::default());
    let roles = none.parts.take();
    let mut sim = simulation(none);
    await_graph(&mut sim, "g", &round(1, 10));
    sim.run_for(SECOND);
    let why = waits(&mut sim, "g").unwrap();
    assert!(why.contains("10.0.0.2 refuses its part: it runs no parts of graphs of 10.0.0.1"), "{why}");
    let mut granted = simulation(network(2, Line::default()));
    await_graph(&mut granted, "g", &round(1, 10));
    granted.run_for(SECOND);
    assert_eq!((waits(&mut granted, "g"), roles.as_deref()), (None, Some("graphs")));
    // Nobody is a neighbour of this name: it is looked for again as well.
    await_graph(&mut sim, "h", "Idle -> Counter @remote(10.0.0.9) -> Discard;");
    let why = waits(&mut sim, "h").unwrap();
    assert!(why.contains("offered again after 1 s: graph h: 10.0.0.9 is no neighbour of this node"), "{why}");
    for name in ["g", "h"] {
        assert!(sim.with_node(0, |node, turn| node.forget_waiting(turn, name)).unwrap());
    }
    assert!(status(&mut sim, 0).is_empty());
}

#[test]
fn what_runs_goes_on_until_the_next_one_has_its_parts_and_another_text_is_meant_instead_of_it() {
    let mut sim = simulation(network(2, Line::default()));
    apply(&mut sim, "g", &round(1, 10)).unwrap();
    sim.with_node(1, |node, turn| node.set_guard(turn.now, Guard::default())).unwrap();
    await_graph(&mut sim, "g", &round(2, 10));
    sim.run_for(SECOND);
    let graph = status(&mut sim, 0).remove(0);
    let next = graph.waits.unwrap();
    assert!(graph.generation == 1 && next.starts_with("waits for its parts"), "{next}");
    // An operator means something else.
    let local = prepared("g", "s :: RatedSource(\"x\", RATE 10) -> a :: Counter -> Discard;");
    sim.with_node(0, |node, turn| node.run_graph(turn, local, None)).unwrap().unwrap();
    assert_eq!((waits(&mut sim, "g"), status(&mut sim, 0)[0].generation), (None, 2));
    sim.run_for(SECOND);
    assert_eq!(status(&mut sim, 0)[0].generation, 2);
    assert_eq!(sim.node(0).unwrap().drops().of(Reason::PartRate), 0);
}

#[test]
fn an_operator_is_served_before_what_waits() {
    let mut sim = simulation(network(2, Line::default()));
    sim.change(Change::Cut { link: 0 });
    await_graph(&mut sim, "g", &round(1, 10));
    sim.run_for(SECOND);
    sim.change(Change::Mend { link: 0 });
    assert_eq!(apply(&mut sim, "g", &round(2, 10)).map(|swapped| swapped.generation), Ok(1));
    assert_eq!(waits(&mut sim, "g"), None);
}

/// As [`network`], with more parts.
fn wide(nodes: usize) -> Network {
    let mut network = network(nodes, Line::default());
    let grants = Grants { bandwidth: u64::MAX, memory_bytes: 1 << 24, graph_parts: 64, ..Grants::default() };
    network.roles =
        Arc::new(Roles::new(vec![Role { name: "graphs".into(), grants, ..Role::anyone(Limits::default()) }]).unwrap());
    network
}

const SMALL: &str = "Idle -> c :: Counter @remote(10.0.0.2) -> Discard;";

#[test]
fn graphs_that_wait_leave_room_for_operators_and_each_is_offered_in_its_turn() {
    let mut sim = simulation(wide(3));
    sim.change(Change::Cut { link: 0 });
    let text = SMALL.replace("10.0.0.2", "10.0.0.1");
    for number in 0..20 {
        let graph = prepared(&format!("w{number}"), &text);
        sim.with_node(1, |node, turn| node.await_graph(turn, graph)).unwrap();
    }
    sim.run_for(SECOND);
    let told = |sim: &mut Simulation| {
        let all = status(sim, 1).into_iter().filter_map(|graph| graph.waits);
        all.fold([0; 3], |mut told, waits| {
            let kind = ["parts, which are offered", "until parts of other graphs"];
            told[kind.iter().position(|kind| waits.contains(kind)).unwrap_or(2)] += 1;
            told
        })
    };
    assert_eq!(told(&mut sim), [8, 12, 0]);
    // Eight more are an operator's.
    assert_eq!(sim.with_node(1, |node, _| node.offers_free()).unwrap(), 8);
    sim.run_for(12 * SECOND);
    let all: Vec<_> = status(&mut sim, 1).into_iter().filter_map(|graph| graph.waits).collect();
    assert!(all.len() == 20 && all.iter().all(|waits| waits.contains("10.0.0.1 does not answer")), "{all:?}");
    sim.change(Change::Mend { link: 0 });
    sim.run_for(20 * SECOND);
    let all = status(&mut sim, 1);
    assert!(all.iter().all(|graph| graph.generation == 1 && graph.waits.is_none()), "{all:?}");
}

#[test]
fn more_graphs_are_accepted_before_any_runs_than_are_offered_at_once() {
    let mut sim = simulation(wide(2));
    let graphs: Vec<_> = (0..20).map(|number| prepared(&format!("g{number}"), SMALL)).collect();
    let offer =
        |sim: &mut Simulation, graph| sim.with_node(0, |node, turn| node.offer_parts(turn, graph, None)).unwrap();
    let mut offers: Vec<_> = graphs[..16].iter().map(|graph| offer(&mut sim, graph).unwrap()).collect();
    let why = offer(&mut sim, &graphs[16]).unwrap_err();
    assert!(why.contains("waits for answers to 16 offers"), "{why}");
    sim.run_for(SECOND);
    assert_eq!(sim.with_node(0, |node, _| node.offers_free()).unwrap(), 16);
    offers.extend(graphs[16..].iter().map(|graph| offer(&mut sim, graph).unwrap()));
    sim.run_for(SECOND);
    for (mut graph, number) in graphs.into_iter().zip(offers) {
        assert_eq!(sim.with_node(0, |node, turn| node.is_accepted(turn, number)).unwrap(), Ok(true));
        graph.offer = Some(number);
        sim.with_node(0, |node, turn| node.run_graph(turn, graph, None)).unwrap().unwrap();
    }
    assert_eq!([0, 1].map(|node| status(&mut sim, node).len()), [20, 20]);
}
