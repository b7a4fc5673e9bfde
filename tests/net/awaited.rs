//! A graph of a node's configuration with a part at a neighbour: the node starts without the neighbour, and the graph runs as soon as
//! that is there. Another text is applied as by `anode graph apply`.

use crate::apply::apply;
use crate::parts::{Ends, Line, TO_K};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;

const GRAPHS: &str = r#"
[[graph]]
name = "fw"
role = "graphs"
take = ["to-h/ip/udp *:7000"]
text = "FromDevice(to-h) -> c :: Counter -> far :: Counter @remote(10.0.2.2) -> back :: Counter -> Discard;"
[[graph]]
name = "own"
role = "graphs"
text = "TimedSource(0.05) -> n :: Counter -> Discard;"
"#;

/// Waits until the graph runs at a in this generation, with its part at b.
fn until_it_runs(line: &Line, generation: u64) -> Value {
    line.net.until("a", || {
        let graph = line.graph("a", "fw");
        let runs =
            graph["generation"] == generation && graph["parts"][0]["answers"] == true && graph["waits"].is_null();
        runs.then_some(graph)
    })
}

/// Packets are sent until one has come back from b.
fn pass(line: &Line, from: &UdpSocket) {
    let before = line.count("a", "fw", "back");
    line.net.until("a", || {
        from.send_to(b"x", TO_K).unwrap();
        (line.count("a", "fw", "back") > before).then_some(())
    });
    assert!(line.count("b", "fw@10.0.2.1", "far") > 0);
}

#[test]
fn a_node_starts_with_a_graph_whose_neighbour_is_not_there_and_the_graph_runs_when_it_is() {
    let more = |node: &str, config: &mut toml::Table| {
        if node == "a" {
            config.extend(GRAPHS.parse::<toml::Table>().unwrap());
        }
    };
    let Some(mut line) = Line::with("awaited", &more) else { return };
    let from = line.socket("h", "10.0.1.1:4000");
    until_it_runs(&line, 1);
    pass(&line, &from);
    line.net.kill("b");
    line.net.kill("a");
    let again = Ends(line.net.start_again("a"));
    let waits = line.net.until("a", || {
        let waits = line.graph("a", "fw")["waits"].as_str().unwrap_or_default().to_owned();
        waits.contains("10.0.2.2 does not answer").then_some(waits)
    });
    assert!(waits.starts_with("waits for its parts, which are offered again"), "{waits}");
    let said = line.said("a", "ls", &[]);
    assert!(said.lines().any(|line| line.starts_with("fw ") && line.contains("waits for its parts")), "{said}");
    assert!(line.said("a", "show", &["fw"]).contains("is to take to-h/ip/udp *:7000"));
    line.net.until("a", || (line.count("a", "own", "n") > 3).then_some(()));
    let there = Ends(line.net.start_again("b"));
    until_it_runs(&line, 1);
    pass(&line, &from);
    applied(&line, there);
    drop(again);
}

/// Another text of the configuration has its part before it runs, or is refused.
fn applied(line: &Line, there: Ends) {
    let config = fs::read_to_string(line.net.dir("a").join("node.toml")).unwrap();
    let other = config.replace("far :: Counter @remote", "far :: Counter @remote(10.0.2.2) -> more :: Counter @remote");
    assert_ne!(other, config);
    let path = line.file("other.toml", &other);
    drop(there);
    let (done, said) = apply(&line.net, "a", path.as_ref(), &[]);
    let why = "graph fw: 10.0.2.2 does not answer: nothing has changed";
    assert!(!done && said.contains(why) && said.contains("runs again"), "{said}");
    assert_eq!(line.graph("a", "fw")["generation"], 1);
    let _there = Ends(line.net.start_again("b"));
    line.net.until("a", || apply(&line.net, "a", path.as_ref(), &[]).0.then_some(()));
    assert_eq!(line.graph("a", "fw")["generation"], 2);
    assert_eq!(line.count("b", "fw@10.0.2.1", "more"), line.count("b", "fw@10.0.2.1", "far"));
}
