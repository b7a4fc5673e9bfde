//! Graphs with parts at neighbours: on bad links, through edits, partitions and restarts, and among neighbours that forge.

use crate::guests::seed;
use anode::core::reason::Reason;
use anode::graph::spec::GraphSpec;
use anode::node::graphs::{GraphStatus, PreparedGraph, Swapped};
use anode::node::proofs::{Demands, Guard};
use anode::sim::{Carries, Change, Line, Network, SECOND, Shape, Simulation};
use anode::trust::grants::Grants;
use anode::trust::graphs::GraphGrants;
use anode::trust::limits::Limits;
use anode::trust::{Role, Roles};
use std::sync::Arc;

const FAR: &str = "10.0.0.2";

const MILLISECOND: u64 = SECOND / 1000;

/// Nodes in a line, whose neighbours have two parts of graphs at most.
pub fn network(nodes: usize, line: Line) -> Network {
    let grants = Grants { bandwidth: u64::MAX, memory_bytes: 1 << 24, graph_parts: 2, ..Grants::default() };
    let graphs = GraphGrants { devices: vec!["x".into()], ..GraphGrants::default() };
    let role = Role { name: "graphs".into(), grants, graphs, ..Role::anyone(Limits::default()) };
    let mut network = Network::new(Shape::Line { nodes }, line, 0).unwrap();
    network.roles = Arc::new(Roles::new(vec![role]).unwrap());
    (network.secret, network.parts) = (Some([7; 32]), Some("graphs".into()));
    network.demands = Demands { mac: true, ..Demands::default() };
    network
}

pub fn simulation(network: Network) -> Simulation {
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    sim.watch_balance();
    sim
}

pub fn prepared(name: &str, text: &str) -> PreparedGraph {
    let spec = GraphSpec { name: name.into(), role: "graphs".into(), text: text.into(), ..GraphSpec::default() };
    spec.prepare().unwrap_or_else(|why| panic!("{why}"))
}

/// Applies a text at the first node, as an operator does.
pub fn apply(sim: &mut Simulation, name: &str, text: &str) -> Result<Swapped, String> {
    apply_at(sim, 0, name, text)
}

fn apply_at(sim: &mut Simulation, at: usize, name: &str, text: &str) -> Result<Swapped, String> {
    let mut graph = prepared(name, text);
    let offer = sim.with_node(at, |node, turn| node.offer_parts(turn, &graph, None)).unwrap()?;
    graph.offer = Some(offer);
    while !sim.with_node(at, |node, turn| node.is_accepted(turn, offer)).unwrap()? {
        sim.run_for(MILLISECOND);
    }
    sim.with_node(at, |node, turn| node.run_graph(turn, graph, None)).unwrap()
}

pub fn status(sim: &mut Simulation, node: usize) -> Vec<GraphStatus> {
    sim.with_node(node, |node, _| node.graphs()).unwrap()
}

pub fn read(sim: &mut Simulation, node: usize, graph: &str, engine: &str) -> u64 {
    let read = sim.with_node(node, |node, _| node.read_graph(graph, engine, "count")).unwrap();
    read.unwrap_or_else(|why| panic!("{why}")).parse().unwrap()
}

/// Packets that say which generation they are of, there and back; what meets another one is counted as mixed.
pub fn round(generation: u32, rate: u32) -> String {
    format!(
        "s :: RatedSource(\"x\", RATE {rate}) -> a :: Counter -> Paint({generation})
         -> c :: CheckPaint({generation}) @remote({FAR}) -> far :: Counter @remote({FAR})
         -> d :: CheckPaint({generation}) -> back :: Counter -> Discard;
         c [1] -> mixed :: Counter @remote({FAR}) -> Discard @remote({FAR}); d [1] -> mixed2 :: Counter -> Discard;"
    )
}

#[test]
fn packets_go_to_a_part_and_come_back_on_both_kinds_of_links() {
    for carries in [Carries::Overlay, Carries::Ethernet] {
        let mut sim = simulation(network(2, Line { carries, ..Line::default() }));
        // By an Ethernet link the neighbour is known under its address there.
        let far = if carries == Carries::Overlay { FAR } else { "172.16.0.2" };
        let text = "s :: RatedSource(\"x\", RATE 100, LIMIT 250) -> a :: Counter -> c :: Counter @remote(10.0.0.2)
                    -> b :: Counter -> Discard;";
        let swapped = apply(&mut sim, "g", &text.replace(FAR, far)).unwrap();
        assert_eq!((swapped.generation, swapped.in_kernel), (1, false));
        sim.run_for(4 * SECOND);
        let (here, there) = (status(&mut sim, 0).remove(0), status(&mut sim, 1).remove(0));
        let counts = [(0, "g", "a"), (1, &*there.name, "c"), (0, "g", "b")];
        assert_eq!(counts.map(|(node, graph, engine)| read(&mut sim, node, graph, engine)), [250; 3], "{carries:?}");
        assert_eq!((here.parts.len(), here.parts[0].answers, there.owner.is_some()), (1, true, true));
        assert_eq!(
            (here.traffic.left, here.traffic.came, there.traffic.came, there.traffic.left),
            (250, 250, 250, 250)
        );
        assert_eq!((here.traffic.held, there.traffic.held), (0, 0));
        sim.with_node(0, |node, turn| node.end_graph(turn, "g")).unwrap().unwrap();
        sim.run_for(SECOND);
        assert!(status(&mut sim, 1).is_empty(), "the part ends with its graph");
    }
}

#[test]
fn edits_under_loss_and_in_disorder_lose_and_mix_nothing_of_their_own() {
    for (loss, duplicate, reorder) in [(0.0, 0.2, 0.3), (0.1, 0.2, 0.3)] {
        let mut sim = simulation(network(2, Line { loss, duplicate, reorder, ..Line::default() }));
        for generation in 1..=12 {
            let swapped = apply(&mut sim, "g", &round(generation, 2000)).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(swapped.generation, generation);
            sim.run_for(30 * MILLISECOND);
        }
        sim.with_node(0, |node, turn| node.write_graph(turn.now, "g", ("s", "active"), "false")).unwrap().unwrap();
        sim.run_for(3 * SECOND);
        let (a, mixed2) = (read(&mut sim, 0, "g", "a"), read(&mut sim, 0, "g", "mixed2"));
        let mixed = read(&mut sim, 1, "g@10.0.0.1", "mixed");
        let [here, there] = [0, 1].map(|node| status(&mut sim, node).remove(0).traffic);
        assert_eq!((mixed, mixed2), (0, 0), "seed {}", sim.seed());
        assert!(a > 500 && here.left <= a && there.came <= here.left && here.came <= there.left, "seed {}", sim.seed());
        assert_eq!(there.came, there.left + there.dropped, "seed {}", sim.seed());
        if loss == 0.0 {
            assert_eq!([here.left, there.came, there.left, here.came], [a; 4], "seed {}: {}", sim.seed(), sim.report());
            // What came late counts as well.
            let counts = [(1, "g@10.0.0.1", "far"), (0, "g", "back")];
            assert_eq!(
                counts.map(|(node, graph, engine)| read(&mut sim, node, graph, engine)),
                [a; 2],
                "seed {}",
                sim.seed()
            );
        }
    }
}

#[test]
fn a_node_that_is_cut_off_leaves_the_graph_as_it_is_and_ends_what_it_runs_of_it() {
    let mut sim = simulation(network(2, Line::default()));
    apply(&mut sim, "g", &round(1, 10)).unwrap();
    sim.run_for(SECOND);
    sim.change(Change::Cut { link: 0 });
    let why = apply(&mut sim, "g", &round(2, 10)).unwrap_err();
    assert!(why.contains("graph g: 10.0.0.2 does not answer: nothing has changed"), "{why}");
    assert_eq!(status(&mut sim, 0)[0].generation, 1);
    sim.run_for(12 * SECOND);
    assert!(status(&mut sim, 1).is_empty(), "a part without a word of its neighbour");
    assert!(!status(&mut sim, 0)[0].parts[0].answers);
    let back = read(&mut sim, 0, "g", "back");
    sim.change(Change::Mend { link: 0 });
    sim.run_for(5 * SECOND);
    let part = status(&mut sim, 0).remove(0).parts.remove(0);
    assert!(part.answers && part.lost.is_none() && part.counts.came > 0, "it was offered again: {part:?}");
    assert!(read(&mut sim, 0, "g", "back") > back + 15, "it goes on");
    assert_eq!(apply(&mut sim, "g", &round(3, 10)).map(|swapped| swapped.generation), Ok(2));
}

#[test]
fn a_part_that_its_node_forgets_is_offered_again_and_one_that_is_ended_there_as_well() {
    let mut sim = simulation(network(2, Line::default()));
    apply(&mut sim, "g", &round(1, 10)).unwrap();
    for ends in [false, true] {
        sim.run_for(SECOND);
        if ends {
            sim.with_node(1, |node, turn| node.end_graph(turn, "g@10.0.0.1")).unwrap().unwrap();
        } else {
            sim.change(Change::Crash { node: 1 });
            sim.change(Change::Restart { node: 1, store_kept: true });
        }
        assert!(status(&mut sim, 1).is_empty());
        let back = read(&mut sim, 0, "g", "back");
        sim.run_for(5 * SECOND);
        let here = status(&mut sim, 0).remove(0);
        let part = &here.parts[0];
        assert!(part.answers && part.lost.is_none(), "{part:?}");
        assert_eq!((here.generation, status(&mut sim, 1).len()), (1, 1));
        assert!(read(&mut sim, 0, "g", "back") > back + 15, "packets pass again");
    }
    let here = status(&mut sim, 0).remove(0);
    let part = &here.parts[0];
    assert_eq!((part.sent, part.back), (here.traffic.left, here.traffic.came));
}

#[test]
fn what_one_node_has_accepted_ends_if_another_one_refuses() {
    let mut network = network(3, Line::default());
    network.parts = Some("graphs".into());
    let mut sim = simulation(network);
    let text = "Idle -> c :: Counter @remote(10.0.0.1) -> Discard;
                Idle -> d :: Counter @remote(10.0.0.3) -> Queue @remote(10.0.0.3) -> ToDevice(x) @remote(10.0.0.3);";
    let why = apply_at(&mut sim, 1, "g", text).unwrap_err();
    assert!(why.contains("10.0.0.3 refuses its part: no port with a link of its own is called x there"), "{why}");
    sim.run_for(SECOND);
    assert_eq!([0, 1, 2].map(|node| status(&mut sim, node).len()), [0; 3]);
    let text = "Idle -> c :: Counter @remote(10.0.0.1) -> d :: Counter @remote(10.0.0.3) -> Discard;";
    apply_at(&mut sim, 1, "g", text).unwrap();
    assert_eq!([0, 1, 2].map(|node| status(&mut sim, node).len()), [1; 3]);
}

#[test]
fn packets_of_a_part_are_paid_for_by_its_role_and_no_more_are_taken() {
    let mut network = network(2, Line::default());
    let grants = Grants { bandwidth: u64::MAX, memory_bytes: 1 << 24, graph_parts: 2, ..Grants::default() };
    let limits = Limits { packets_per_second: 100, ..Limits::default() };
    let few = Role { name: "few".into(), grants, ..Role::anyone(limits) };
    let many = Role { name: "graphs".into(), limits: Limits::default(), ..few.clone() };
    network.roles = Arc::new(Roles::new(vec![few, many]).unwrap());
    network.parts = Some("few".into());
    let mut sim = simulation(network);
    apply(&mut sim, "g", &round(1, 1000)).unwrap();
    sim.run_for(3 * SECOND);
    let there = status(&mut sim, 1).remove(0).traffic;
    let refused = sim.node(1).unwrap().drops().of(Reason::Budget);
    let sent = status(&mut sim, 0).remove(0).parts.remove(0).sent;
    assert!((300..=500).contains(&there.came), "{there:?}");
    let on_their_way = sent - there.came - refused;
    assert!(sent > 2900 && on_their_way < 50, "{sent} sent, {there:?}, {refused} refused");
}

#[test]
fn a_node_that_begins_anew_takes_the_place_of_its_own_part() {
    let mut sim = simulation(network(2, Line::default()));
    for _ in 0..4 {
        apply(&mut sim, "g", &round(1, 10)).unwrap();
        sim.run_for(SECOND);
        sim.change(Change::Crash { node: 0 });
        sim.change(Change::Restart { node: 0, store_kept: true });
        sim.run_for(SECOND);
    }
    apply(&mut sim, "g", &round(1, 10)).unwrap();
    let there = status(&mut sim, 1);
    assert_eq!(there.iter().map(|graph| graph.name.as_str()).collect::<Vec<_>>(), ["g@10.0.0.1"]);
}

#[test]
fn a_part_ends_when_its_neighbour_has_no_role_for_parts_any_more() {
    let mut sim = simulation(network(2, Line::default()));
    apply(&mut sim, "g", "Idle -> c :: Counter @remote(10.0.0.2) -> Discard;").unwrap();
    sim.run_for(SECOND);
    assert_eq!(status(&mut sim, 1).len(), 1);
    // Its lease is longer than this.
    sim.with_node(1, |node, turn| node.set_guard(turn.now, Guard::default())).unwrap();
    sim.run_for(3 * SECOND);
    assert_eq!(status(&mut sim, 1).len(), 0);
}

#[test]
fn who_may_not_have_a_part_is_told_why() {
    let part = |engines: usize| {
        format!("Idle -> c :: Counter @remote(10.0.0.2){} -> Discard;", " -> Counter @remote(10.0.0.2)".repeat(engines))
    };
    let mut sim = simulation(network(2, Line::default()));
    for name in ["one", "two"] {
        apply(&mut sim, name, &part(1)).unwrap();
    }
    let mut none = network(2, Line::default());
    none.parts = None;
    let mut keyless = network(2, Line::default());
    (keyless.secret, keyless.demands) = (None, Demands::default());
    let mut forged = network(2, Line::default());
    forged.wrong_keys.push((1, 0));
    let far = |text: &str| text.replace("10.0.0.2", "10.0.0.9");
    for (mut sim, name, text, said) in [
        (
            sim,
            "three",
            part(1),
            "it runs 2 parts of graphs of 10.0.0.1, and the role graphs grants 2 (grants.graph_parts): end one",
        ),
        (simulation(network(2, Line::default())), "g", part(600), "bytes as a text, and at most 16384 are sent"),
        (
            simulation(network(2, Line::default())),
            "g",
            far(&part(1)),
            "10.0.0.9 is no neighbour of this node; there are: 10.0.0.2",
        ),
        (
            simulation(network(2, Line::default())),
            "g",
            "Idle -> Queue @remote(10.0.0.2) -> ToDevice(x) @remote(10.0.0.2);".into(),
            "10.0.0.2 refuses its part: no port with a link of its own is called x there",
        ),
        (
            simulation(network(2, Line::default())),
            "g",
            part(64),
            "10.0.0.2 refuses its part: 67 engines are more than the role graphs has, 64 (graphs.engines)",
        ),
        (
            simulation(network(2, Line { carries: Carries::Ethernet, ..Line::default() })),
            "g",
            "Idle -> Queue @remote(172.16.0.2) -> ToDevice(y) @remote(172.16.0.2);".into(),
            "172.16.0.2 refuses its part: the role graphs leads to no device y (graphs.devices)",
        ),
        (simulation(none), "g", part(1), "10.0.0.2 refuses its part: it runs no parts of graphs of 10.0.0.1"),
        (simulation(keyless), "g", part(1), "10.0.0.2 has no key in common with this node"),
        (simulation(forged), "g", part(1), "10.0.0.2 does not answer"),
    ] {
        let why = apply(&mut sim, name, &text).unwrap_err();
        assert!(why.contains(said), "{why}\nand not\n{said}");
        assert!(status(&mut sim, 0).iter().all(|graph| graph.name != name));
        let there = status(&mut sim, 1).len();
        assert_eq!(there, if name == "three" { 2 } else { 0 });
    }
}

#[test]
fn a_neighbour_offers_no_faster_than_texts_are_read() {
    let mut sim = simulation(network(2, Line::default()));
    let graph = prepared("g", "Idle -> Counter @remote(10.0.0.2) -> Discard;");
    for _ in 0..900 {
        let offer = sim.with_node(0, |node, turn| node.offer_parts(turn, &graph, None)).unwrap().unwrap();
        sim.run_for(MILLISECOND / 10);
        // It is given up before it is answered.
        let other = sim.with_node(0, |node, turn| node.offer_parts(turn, &graph, None)).unwrap();
        assert!(other.unwrap_err().contains("somebody else is replacing it"));
        sim.with_node(0, |node, turn| node.give_up_offer(turn, offer)).unwrap();
    }
    sim.run_for(SECOND);
    let rate = sim.node(1).unwrap().drops().of(Reason::PartRate);
    assert!((300..400).contains(&rate), "{rate}: a text counts as a piece more");
    assert!(status(&mut sim, 1).is_empty(), "what was given up does not stay");
    apply(&mut sim, "g", "Idle -> Counter @remote(10.0.0.2) -> Discard;").unwrap();
}

#[test]
fn messages_of_nobody_and_of_no_form_are_dropped_and_counted() {
    let mut open = network(2, Line::default());
    open.demands = Demands::default();
    let mut sim = simulation(open);
    apply(&mut sim, "g", &round(1, 10)).unwrap();
    sim.run_for(SECOND);
    let came = status(&mut sim, 1)[0].traffic.came;
    // An ANEP packet of this type without a proof.
    let item = |kind: u8| {
        let mut bytes = vec![1, 0, 0x0a, 0xc5, 0, 2, 0, 8 + 24, 1, kind];
        bytes.resize(8 + 24, 0);
        bytes
    };
    for kind in [1, 6, 8, 99] {
        sim.put_frame(0, 0, &item(kind));
    }
    sim.run_for(10 * MILLISECOND);
    assert_eq!(sim.node(1).unwrap().drops().of(Reason::PartForeign), 4);
    assert_eq!(status(&mut sim, 1).len(), 1);
    assert!(status(&mut sim, 1)[0].traffic.came <= came + 1);
}
