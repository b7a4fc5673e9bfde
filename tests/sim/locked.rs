//! Fields that a role locks: no other place than the graph sees them.

use crate::parts::{apply, network, read, simulation, status};
use anode::core::reason::Reason;
use anode::node::policy::Amendment;
use anode::sim::{Line, Network, SECOND};
use anode::trust::Roles;
use anode::trust::graphs::GraphGrants;
use std::sync::Arc;

/// The role that graphs and parts have locks these.
fn locking(fields: &[&str]) -> (Network, Arc<Roles>) {
    let mut network = network(2, Line::default());
    let before = network.roles.clone();
    let mut roles: Vec<_> = before.iter().map(|role| (**role).clone()).filter(|role| role.name == "graphs").collect();
    let locked = fields.iter().map(|field| (*field).to_owned()).collect();
    roles[0].graphs = GraphGrants { locked, ..roles[0].graphs.clone() };
    network.roles = Arc::new(Roles::new(roles).unwrap());
    (network, before)
}

/// Datagrams go to the other node, which looks at them, and come back.
const TEXT: &str = "s :: RatedSource(\"x\", RATE 100) -> UDPIPEncap(10.1.2.3, 5000, 192.0.2.7, 53) -> a :: Counter
    -> k :: CheckIPHeader @remote(10.0.0.2) -> u :: CheckUDPHeader @remote(10.0.0.2)
    -> f :: IPClassifier(src host 0.0.0.0 and udp dst port 0 and dst host 192.0.2.7, -) @remote(10.0.0.2)
    -> hidden :: Counter @remote(10.0.0.2) -> back :: Counter -> Discard;
    f [1] -> shown :: Counter @remote(10.0.0.2) -> Discard @remote(10.0.0.2);";

#[test]
fn locked_fields_do_not_go_to_another_node_and_sums_are_right_there() {
    let (network, open) = locking(&["ip.src", "udp.dport"]);
    let mut sim = simulation(network);
    apply(&mut sim, "g", TEXT).unwrap();
    sim.run_for(2 * SECOND);
    let far = |sim: &mut _, engine: &str| read(sim, 1, "g@10.0.0.1", engine);
    let (a, hidden) = (read(&mut sim, 0, "g", "a"), far(&mut sim, "hidden"));
    assert!(a > 150 && hidden + 2 >= a && read(&mut sim, 0, "g", "back") + 2 >= a, "{a} {hidden}");
    assert_eq!((far(&mut sim, "shown"), sim.node(1).unwrap().drops().of(Reason::LockedFields)), (0, 0));
    let [here, there] = [0, 1].map(|node| status(&mut sim, node).remove(0).traffic);
    assert_eq!(here.blanked, here.left);
    // They are zero there already, and the role is the same: so they are hidden once more.
    assert_eq!(there.blanked, there.left);
    // The operator says something else.
    sim.with_node(0, |node, turn| node.amend(turn, Amendment { roles: Some(open), ..Amendment::default() })).unwrap();
    let before = status(&mut sim, 0).remove(0).traffic.blanked;
    sim.run_for(SECOND);
    assert!(far(&mut sim, "shown") > 50);
    assert!(status(&mut sim, 0).remove(0).traffic.blanked <= before + 1);
}

#[test]
fn what_cannot_be_read_does_not_go_there_and_what_is_no_crossing_is_left_as_it_is() {
    let (network, _) = locking(&["ip.src"]);
    let mut sim = simulation(network);
    let text =
        "s :: RatedSource(\"x\", RATE 100, LIMIT 50) -> a :: Counter -> c :: Counter @remote(10.0.0.2) -> Discard;";
    apply(&mut sim, "g", text).unwrap();
    sim.run_for(2 * SECOND);
    assert_eq!((read(&mut sim, 0, "g", "a"), read(&mut sim, 1, "g@10.0.0.1", "c")), (50, 0));
    let traffic = status(&mut sim, 0).remove(0).traffic;
    assert_eq!((traffic.dropped, traffic.left, traffic.blanked), (50, 0, 0));
    assert_eq!(sim.node(0).unwrap().drops().of(Reason::LockedFields), 50);
    // Engines see them, lines do not, and the packet is as it was behind what prints.
    let text = "s :: RatedSource(\"x\", RATE 100, LIMIT 3) -> UDPIPEncap(10.1.2.3, 5000, 192.0.2.7, 53) -> p :: Print(A, 20)
                -> q :: IPPrint -> f :: IPClassifier(src host 10.1.2.3, -) -> c :: CheckIPHeader -> n :: Counter -> Discard;
                f [1] -> Discard; t :: RatedSource(\"ab\", RATE 100, LIMIT 1) -> Print(B) -> Discard;
                Idle -> Counter @remote(10.0.0.2) -> Discard;";
    apply(&mut sim, "h", text).unwrap();
    sim.run_for(SECOND);
    assert_eq!(read(&mut sim, 0, "h", "n"), 3);
    let said = sim.with_node(0, |node, _| node.graph("h").map(|shown| shown.said)).unwrap().unwrap();
    let of = |begins: &str| said.iter().filter(|line| line.starts_with(begins)).cloned().collect::<Vec<_>>();
    let printed = of("A: ");
    assert!(printed.len() == 3 && printed[0].ends_with(" 00000000 c0000207"), "{said:?}");
    assert_eq!(of("0.0.0.0.5000 > 192.0.2.7.53: udp").len(), 3, "{said:?}");
    assert!(of("B: ")[0].contains("(fields of it are locked"), "{said:?}");
}
