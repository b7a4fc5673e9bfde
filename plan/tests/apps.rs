//! The shipped programs, on networks in memory.

mod network;

use network::{Network, host, program, value};
use plan::program::Program;
use plan::value::{Callee, Chunk, Value};
use std::sync::Arc;

/// 0 ─ 1 ─ 2 ─ 3 ─ 4
fn line() -> Network {
    Network::new(&[(0, 1, 1500), (1, 2, 1400), (2, 3, 9000), (3, 4, 1500)])
}

fn app(name: &str) -> Arc<Program> {
    let path = format!("{}/../apps/plan/{name}.plan", env!("CARGO_MANIFEST_DIR"));
    program(name, &std::fs::read_to_string(path).unwrap())
}

fn chunk(program: &Arc<Program>, function: &str, arguments: Vec<Value>) -> Chunk {
    Chunk::of(program, function, arguments).unwrap()
}

#[test]
fn every_program_in_the_folder_is_right() {
    let folder = format!("{}/../apps/plan", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        program(&path.display().to_string(), &std::fs::read_to_string(&path).unwrap());
        count += 1;
    }
    assert!(count >= 6, "{count}");
}

#[test]
fn ping_comes_back() {
    let mut network = line();
    let ping = app("ping");
    let evaluated = network.run(0, chunk(&ping, "ping", vec![value(0), value(4)]), 8);
    assert_eq!(network.nodes[0].printed, ["Success"]);
    assert_eq!(evaluated, 3, "at the source, at the destination, at the source again");
    assert_eq!(network.crossed, [2, 2, 2, 2]);
    assert_eq!(network.reports, 0);
}

#[test]
fn a_ping_without_enough_bound_is_reported() {
    // Four hops there and one hop back of four: it ends where the bound does.
    let mut network = line();
    network.run(0, chunk(&app("ping"), "ping", vec![value(0), value(4)]), 5);
    assert_eq!(network.nodes[0].printed, ["ERROR: <chunk:\nack[]> raised NotEnoughRB on 10.0.0.3"]);
    // None left for the way back: the exception is raised at the destination.
    let mut network = line();
    network.run(0, chunk(&app("ping"), "ping", vec![value(0), value(4)]), 4);
    let expected = "ERROR: <chunk:\nping[10.0.0.0;10.0.0.4]> raised NotEnoughRB on 10.0.0.4";
    assert_eq!(network.nodes[0].printed, [expected]);
}

#[test]
fn an_unknown_destination_is_reported_where_it_is_met() {
    let mut network = line();
    network.run(0, chunk(&app("ping"), "ping", vec![value(0), value(77)]), 5);
    assert_eq!(network.nodes[0].printed, ["ERROR: <chunk:\nping[10.0.0.0;10.0.0.77]> raised NoRoute on 10.0.0.0"]);
}

#[test]
fn hello_brings_a_greeting_home() {
    let mut network = line();
    network.run(1, chunk(&app("hello"), "hello", vec![value(1), value(3)]), 4);
    assert_eq!(network.nodes[1].printed, ["(\"Hello, world\", 10.0.0.3)"]);
}

#[test]
fn traceroute_names_every_node() {
    let mut network = line();
    let arguments = vec![value(0), value(4), Value::Int(0)];
    network.run(0, chunk(&app("traceroute"), "trace", arguments), 1 + 2 + 3 + 4 + 5 + 4);
    let mut printed = network.nodes[0].printed.clone();
    printed.retain(|text| text != "\n");
    printed.sort();
    let expected: Vec<_> = (0..5).map(|hop| format!("({hop}, {})", host(hop))).collect();
    assert_eq!(printed, expected);
    assert_eq!(network.reports, 0);
}

#[test]
fn the_path_mtu_is_the_smallest() {
    let mut network = line();
    network.run(0, chunk(&app("pathmtu"), "pathMTU", vec![value(0), value(4)]), 8);
    assert_eq!(network.nodes[0].printed, ["1400"]);
}

#[test]
fn multicast_crosses_every_link_of_the_tree_once() {
    //         0
    //         1
    //      2     3
    //    4  5   6  7
    let links = [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 6), (3, 7)].map(|(a, b)| (a, b, 1500));
    let mut network = Network::new(&links);
    let dests = Value::list([4, 5, 6, 7, 1].into_iter().map(value)).unwrap();
    let arguments = vec![value(0), dests, Value::text(*b"news"), Value::Int(0)];
    network.run(0, chunk(&app("multicast"), "multicast", arguments), 200);
    let mut printed = network.nodes[0].printed.clone();
    printed.retain(|text| text != "\n");
    printed.sort();
    assert_eq!(printed, [1, 4, 5, 6, 7].map(|node| format!("(\"news\", {})", host(node))));
    assert_eq!(network.reports, 0);
    // Once down, and acknowledgements of those behind it up.
    assert_eq!(network.crossed, [1 + 5, 1 + 2, 1 + 2, 1 + 1, 1 + 1, 1 + 1, 1 + 1]);
}

#[test]
fn a_load_is_carried_along_a_way() {
    let mut network = line();
    let way = Value::list([3, 1, 4].into_iter().map(value)).unwrap();
    network.run(0, chunk(&app("along"), "tour", vec![value(0), way]), 20);
    assert_eq!(network.nodes[0].printed, ["10.0.0.4"]);
    assert_eq!(network.crossed, [2, 4, 4, 2]);
}

#[test]
fn a_carrier_and_its_load_may_be_different_programs() {
    let mut network = line();
    let load = Value::Chunk(Arc::new(chunk(&app("hello"), "hello", vec![value(0), value(2)])));
    let way = Value::list([4].into_iter().map(value)).unwrap();
    network.run(0, chunk(&app("along"), "along", vec![way, load]), 20);
    assert_eq!(network.nodes[0].printed, ["(\"Hello, world\", 10.0.0.2)"]);
}

#[test]
fn a_chunk_may_be_of_a_service_alone() {
    let mut network = line();
    let print = Chunk::new(Callee::Service(plan::name::Name::new("print").unwrap()), vec![Value::Int(7)]).unwrap();
    assert_eq!(network.run(2, print, 0), 1);
    assert_eq!(network.nodes[2].printed, ["7"]);
}

#[test]
fn packets_that_multiply_end_with_their_bound() {
    // Each evaluation halves its bound into two packets to itself: as many packets as the bound has units.
    let source = "fun split() = (OnRemote(|split|(), getSource(), getRB() / 2, defaultRoute);
                                 OnRemote(|split|(), getSource(), getRB(), defaultRoute))";
    let mut network = line();
    let evaluated = network.run(0, chunk(&program("split", source), "split", vec![]), 1000);
    // Reports are evaluated too, one for each packet that had nothing left.
    assert!(network.reports > 0 && network.reports <= 1001, "{}", network.reports);
    assert!(evaluated - network.reports <= 1001, "{evaluated}");
}
