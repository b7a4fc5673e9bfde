//! Packets between parts of a graph that a procedure of an extension marshals, which both nodes must have.

use crate::parts::{network, read, simulation, status};
use anode::core::reason::Reason;
use anode::frame::Frame;
use anode::graph::class::{BroughtClass, BroughtClasses, MakesEngines, Marshals, PACKET_FUEL};
use anode::graph::engine::Engine;
use anode::graph::spec::{GraphSpec, PreparedGraph};
use anode::sim::{Line, SECOND, Simulation};
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;
use anode::trust::{Role, Roles};
use anode::wire::Digest;
use std::sync::Arc;

/// Turns all bits round; fails at every tenth packet here, and has every tenth fail there.
#[derive(Clone, Copy, Default)]
struct Turns {
    fails: bool,
    misleads: bool,
    count: u64,
    takes: u64,
}

impl Marshals for Turns {
    fn pack(&mut self, frame: &mut Frame, _: u64, fuel: &mut u64) -> bool {
        *fuel -= self.takes;
        frame.bytes_mut().iter_mut().for_each(|byte| *byte = !*byte);
        self.count += 1;
        let is_tenth = self.count.is_multiple_of(10);
        if self.misleads && is_tenth {
            frame.bytes_mut()[0] = 0;
        }
        !(self.fails && is_tenth)
    }

    fn unpack(&mut self, frame: &mut Frame, _: u64) -> bool {
        frame.bytes_mut().iter_mut().for_each(|byte| *byte = !*byte);
        // No packet here begins so.
        frame.bytes()[0] != 0xff
    }
}

impl MakesEngines for Turns {
    fn engine(&self, _: &str) -> Result<Box<dyn Engine>, String> {
        Err("it marshals".into())
    }

    fn marshal(&self) -> Result<Box<dyn Marshals>, String> {
        Ok(Box::new(*self))
    }
}

fn classes(turns: Turns, digest: u8) -> BroughtClasses {
    let class = BroughtClass::new("x", ("Turns", "0/0", false, "turns bits round"), Some(Box::new(turns)));
    BroughtClasses::new(vec![Arc::new(class.that_marshals(Digest([digest; 32])))])
}

const TEXT: &str =
    "s :: RatedSource(\"abcdefgh\", RATE 100, LIMIT 200) -> a :: Counter -> far :: Counter @remote(10.0.0.2, x/Turns)
                    -> i :: Classifier(0/61626364, -) @remote(10.0.0.2, x/Turns) -> back :: Classifier(4/65666768, -)
                    -> b :: Counter -> Discard; i [1] -> Discard @remote(10.0.0.2, x/Turns); back [1] -> Discard;";

/// What is accepted, and does not run yet.
fn accepted(sim: &mut Simulation, classes: &BroughtClasses, text: &str) -> Result<PreparedGraph, String> {
    let (name, role, text) = ("g".into(), "graphs".into(), text.into());
    let mut graph = GraphSpec { name, role, text, ..GraphSpec::default() }.prepare_with(classes)?;
    let offer = sim.with_node(0, |node, turn| node.offer_parts(turn, &graph, None)).unwrap()?;
    graph.offer = Some(offer);
    while !sim.with_node(0, |node, turn| node.is_accepted(turn, offer)).unwrap()? {
        sim.run_for(SECOND / 1000);
    }
    Ok(graph)
}

fn apply(sim: &mut Simulation, classes: &BroughtClasses) -> Result<(), String> {
    apply_text(sim, classes, TEXT)
}

fn apply_text(sim: &mut Simulation, classes: &BroughtClasses, text: &str) -> Result<(), String> {
    let graph = accepted(sim, classes, text)?;
    sim.with_node(0, |node, turn| node.run_graph(turn, graph, None)).unwrap().map(drop)
}

#[test]
fn packets_are_marshalled_there_and_back_and_those_that_cannot_be_are_dropped() {
    for (fails, misleads, there, back) in [(false, false, 200, 200), (true, false, 180, 180), (false, true, 180, 180)] {
        let turns = Turns { fails, misleads, ..Turns::default() };
        let (own, others) = (classes(turns, 7), classes(Turns::default(), 7));
        let mut sim = simulation(network(2, Line::default()));
        sim.with_node(1, |node, _| node.set_brought(others)).unwrap();
        apply(&mut sim, &own).unwrap();
        sim.run_for(4 * SECOND);
        let counts = [(0, "g", "a"), (1, "g@10.0.0.1", "far"), (0, "g", "b")];
        assert_eq!(counts.map(|(node, graph, engine)| read(&mut sim, node, graph, engine)), [200, there, back]);
        let dropped = [0, 1].map(|node| sim.node(node).unwrap().drops().of(Reason::MarshalFailed));
        assert_eq!(dropped, [if fails { 20 } else { 0 }, if misleads { 20 } else { 0 }]);
        let part = status(&mut sim, 0).remove(0).parts.remove(0);
        assert_eq!((part.marshal.as_deref(), part.back), (Some("x/Turns"), back));
        // What is used goes from neither node.
        for node in [0, 1] {
            let used = sim.with_node(node, |node, _| node.graphs_with(&["x".into()], &[])).unwrap();
            assert_eq!(used.len(), 1);
        }
    }
}

#[test]
fn both_nodes_have_the_same_extension_or_the_part_is_refused() {
    let own = classes(Turns::default(), 7);
    let gone = classes(Turns::default(), 7);
    gone.iter().for_each(|class| class.leave());
    for (there, said) in [
        (None, "10.0.0.2 refuses its part: no extension that is loaded marshals packets as x/Turns; there is none"),
        (
            Some(classes(Turns::default(), 8)),
            "10.0.0.2 refuses its part: its extension x is another one: of the module 08",
        ),
        (Some(gone), "no extension that is loaded marshals packets as x/Turns"),
    ] {
        let mut sim = simulation(network(2, Line::default()));
        if let Some(classes) = there {
            sim.with_node(1, |node, _| node.set_brought(classes)).unwrap();
        }
        let why = apply(&mut sim, &own).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
    let why = apply(&mut simulation(network(2, Line::default())), &BroughtClasses::default()).unwrap_err();
    assert!(why.contains("@remote(10.0.0.2, …): no extension that is loaded marshals packets as x/Turns"), "{why}");
}

/// One packet of 1,000 bytes becomes a hundred, which go: how many come there, and how many are dropped, and why.
fn copied(turns: Turns, bandwidth: u64) -> (u64, [u64; 2]) {
    let mut network = network(2, Line::default());
    let grants = Grants { bandwidth: u64::MAX, memory_bytes: 1 << 24, graph_parts: 2, ..Grants::default() };
    let there = Role { name: "there".into(), grants, ..Role::anyone(Limits::default()) };
    let role = Role { name: "graphs".into(), grants: Grants { bandwidth, ..grants }, ..there.clone() };
    network.roles = Arc::new(Roles::new(vec![there, role]).unwrap());
    network.parts = Some("there".into());
    let mut sim = simulation(network);
    let (own, others) = (classes(turns, 7), classes(Turns::default(), 7));
    sim.with_node(1, |node, _| node.set_brought(others)).unwrap();
    let copies: String = (0..100).map(|output| format!("t [{output}] -> b; ")).collect();
    let text = format!(
        "s :: RatedSource(\"{}\", RATE 10, LIMIT 1) -> t :: Tee(100);
         b :: Counter; {copies} b -> far :: Counter @remote(10.0.0.2, x/Turns) -> Discard @remote(10.0.0.2, x/Turns);",
        "a".repeat(1000)
    );
    apply_text(&mut sim, &own, &text).unwrap();
    sim.run_for(2 * SECOND);
    assert_eq!(read(&mut sim, 0, "g", "b"), 100);
    let far = read(&mut sim, 1, "g@10.0.0.1", "far");
    (far, [Reason::MarshalFailed, Reason::Bandwidth].map(|reason| sim.node(0).unwrap().drops().of(reason)))
}

#[test]
fn what_one_packet_becomes_is_marshalled_within_a_bound() {
    let takes = |takes| Turns { takes, ..Turns::default() };
    assert_eq!(copied(takes(PACKET_FUEL / 2), u64::MAX), (100, [0, 0]));
    assert_eq!(copied(takes(PACKET_FUEL), u64::MAX), (64, [36, 0]));
}

#[test]
fn what_has_no_bandwidth_is_not_marshalled() {
    // Every tenth that is marshalled fails: of 71 that are, 7, and the others take what there is.
    let turns = Turns { fails: true, ..Turns::default() };
    assert_eq!(copied(turns, 1), (64, [7, 29]));
}

#[test]
fn an_extension_stays_for_a_part_that_is_accepted_and_does_not_run_yet() {
    let own = classes(Turns::default(), 7);
    let mut sim = simulation(network(2, Line::default()));
    sim.with_node(1, |node, _| node.set_brought(classes(Turns::default(), 7))).unwrap();
    apply_text(&mut sim, &own, "Idle -> c :: Counter @remote(10.0.0.2) -> Discard;").unwrap();
    let used = |sim: &mut Simulation| sim.with_node(1, |node, _| node.graphs_with(&["x".into()], &[])).unwrap();
    assert_eq!(used(&mut sim).len(), 0);
    let graph = accepted(&mut sim, &own, TEXT).unwrap();
    assert_eq!(used(&mut sim), ["g@10.0.0.1"]);
    let offer = graph.offer.unwrap();
    sim.with_node(0, |node, turn| node.give_up_offer(turn, offer)).unwrap();
    sim.run_for(SECOND);
    assert_eq!(used(&mut sim).len(), 0);
}
