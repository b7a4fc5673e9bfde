//! Code wishes for edits of graphs at every hop: those of its role are taken, at whichever worker it runs, and all others are refused.

use crate::guests::*;
use anode::code::bundle::{Bundle, Kind};
use anode::node::wishing::WishCounts;
use anode::sim::{Line, Network, SECOND, Shape, Simulation};
use anode::trust::edits::NamedEdit;
use anode::trust::graphs::GraphGrants;
use anode::trust::limits::Limits;
use anode::trust::{PrincipalKey, Role, Roles};
use std::sync::Arc;

const CAPSULES: u64 = 50;

fn author() -> PrincipalKey {
    PrincipalKey::from_seed([2; 32])
}

/// A role with one edit, of the number 3.
fn plumber() -> Role {
    let edit = NamedEdit { number: 3, name: "reset".into(), graph: "g".into(), ..NamedEdit::default() };
    let named = vec![NamedEdit { write: Some("c.reset=".into()), ..edit }];
    let graphs = GraphGrants { edits_per_second: 10, named, ..GraphGrants::default() };
    Role { name: "plumber".into(), trusts: vec![author().id()], graphs, ..Role::anyone(Limits::default()) }
}

/// Wishes for the edits 3 and 4 at every hop, and goes on.
fn wishing() -> Bundle {
    let imports = r#"(import "anode" "an_graph_wish" (func $wish (param i32) (result i32)))"#;
    let body = "(drop (call $wish (i32.const 3))) (drop (call $wish (i32.const 4))) (i32.const 1)";
    Bundle::build("wishing", 0, &[(Kind::Wasm, module(imports, body).into())], Some(&author())).unwrap()
}

fn counts(sim: &Simulation, node: usize) -> WishCounts {
    sim.status(node).unwrap().graph_wishes
}

#[test]
fn each_hop_takes_wishes_of_its_own_roles_and_refuses_all_others() {
    let mut network = Network::new(Shape::Line { nodes: 3 }, Line::default(), 0).unwrap();
    network.roles = Arc::new(Roles::new(vec![plumber()]).unwrap());
    // The second node trusts nobody.
    network.own_roles.insert(1, Arc::default());
    let mut sim = crate::net::simulation(network, seed(1)).unwrap();
    let (code, to) = (wishing(), sim.address(2));
    (0..3).for_each(|node| sim.open(node, 1));
    sim.add_code(0, &code);
    sim.inject(0, header(code.name(), to, 64), b"").unwrap();
    assert!(sim.drain(sim.now() + 60 * SECOND), "{}", sim.report());
    for _ in 1..CAPSULES {
        sim.inject(0, header(code.name(), to, 64), b"").unwrap();
    }
    assert!(sim.drain(sim.now() + 60 * SECOND), "{}", sim.report());
    sim.run_until(sim.now() + 3 * SECOND);
    for node in [0, 2] {
        let WishCounts { taken, later, refused } = counts(&sim, node);
        assert!(
            (1..CAPSULES).contains(&taken),
            "node {node}: {taken} of {CAPSULES}, which are one as long as it stands"
        );
        assert_eq!((later, refused), (0, CAPSULES), "node {node}");
    }
    assert_eq!(counts(&sim, 1), WishCounts { taken: 0, later: 0, refused: 2 * CAPSULES });
}
