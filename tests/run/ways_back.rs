//! Ways back from another configuration: open though files of before are gone, to the one that ran before, by whom it was.

use crate::apply::{apply, file, history, role, standing};
use crate::single::{ANODE, Node, is_root};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// A port with a neighbour whose key is in a file.
fn port(node: &Node, key: &str) -> String {
    let path = node.dir.path().join(key);
    format!(
        "[[port]]\nname = \"two\"\nudp = \"127.0.0.1:0\"\naddress = [\"10.5.0.1/24\"]\n\
         neighbours = [{{ address = \"10.5.0.2\", at = \"127.0.0.1:9\", keys = [{path:?}] }}]\n"
    )
}

fn new_key(node: &Node, name: &str) {
    let path = node.dir.path().join(name);
    let done = Command::new(ANODE).args(["cred", "secret"]).arg(&path).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn ports(node: &Node) -> Vec<Value> {
    node.control().status().unwrap()["ports"].as_array().unwrap().iter().map(|port| port["name"].clone()).collect()
}

#[test]
fn the_way_back_is_open_though_files_of_before_are_gone() {
    let node = Node::start(&role(1000));
    new_key(&node, "old.key");
    new_key(&node, "new.key");
    assert!(apply(&file(&node, "one.toml", &(role(1000) + &port(&node, "old.key"))), &[]).0);
    let (begin, number) = (ports(&node), standing(&node)["number"].clone());
    assert_eq!(begin.len(), 2);
    let other = file(&node, "other.toml", &(role(7) + &port(&node, "new.key").replace("two", "three")));
    let (done, said) = apply(&other, &["--confirm-within", "2s"]);
    assert!(done, "{said}");
    // As whoever changes keys does.
    fs::remove_file(node.dir.path().join("old.key")).unwrap();
    node.until(|| (standing(&node)["reverted"] == 1).then_some(()));
    assert_eq!(ports(&node), begin);
    let last = history(&node).pop().unwrap();
    assert_ne!(last["number"], number, "the broker knows it: {last}");
    assert_eq!((&last["partly"], &standing(&node)["number"]), (&json!(false), &last["number"]));
    // What an operator asks for is read as at any start.
    let (done, said) = node.anode(&["node", "rollback", &number.to_string()]);
    assert!(!done && said.contains("old.key"), "{said}");
}

#[test]
fn who_takes_back_what_waits_to_be_confirmed_is_written_down() {
    let node = Node::start(&role(1000));
    assert!(apply(&file(&node, "x.toml", &role(7)), &["--confirm-within", "1h"]).0);
    let (done, said) = node.anode(&["node", "rollback"]);
    assert!(done && said.contains("applied as configuration"), "{said}");
    let own = format!("process {}", std::process::id());
    let last = history(&node).pop().unwrap();
    let who = last["who"].as_str().unwrap();
    assert!(who.contains("who took the one before back") && !who.contains(&own), "by the command: {last}");
    assert_eq!((&last["partly"], &standing(&node)["reverted"]), (&json!(false), &json!(0)));
    // A second one leads to no configuration that waited.
    let (done, said) = node.anode(&["node", "rollback"]);
    assert!(!done && said.contains("no other configuration has run before"), "{said}");
}

#[test]
fn a_file_that_is_refused_at_a_hang_up_is_an_event() {
    let node = Node::start(&role(1000));
    file(&node, "node.toml", "[cpu\n");
    assert!(Command::new("kill").args(["-HUP", &node.process.id().to_string()]).status().unwrap().success());
    node.until(|| {
        let (_, said) = node.anode(&["node", "events", "--kind", "node"]);
        said.lines().any(|line| line.contains("configuration refused") && line.contains("SIGHUP")).then_some(())
    });
}

#[test]
fn a_node_without_interfaces_takes_a_port_at_one() {
    if !is_root("only root's nodes have interfaces") {
        return;
    }
    let node = Node::start(&role(1000));
    let other = file(&node, "other.toml", &(role(1000) + "[[port]]\npacket = \"anode-none0\"\n"));
    let (done, said) = apply(&other, &[]);
    assert!(done && said.contains("applied as configuration"), "{said}");
    let status = node.control().status().unwrap();
    assert_eq!(status["links"][0]["state"], "away", "{status}");
    // Whoever follows interfaces does so now, and not twice.
    let more = role(1000) + "[[port]]\npacket = \"anode-none0\"\n[[port]]\npacket = \"anode-none1\"\n";
    assert!(apply(&file(&node, "more.toml", &more), &[]).0);
    assert_eq!(node.control().status().unwrap()["links"].as_array().unwrap().len(), 2);
}

#[test]
fn a_node_whose_file_cannot_be_read_twice_knows_what_it_runs() {
    let node = Node::start(&role(1000));
    fs::remove_file(node.dir.path().join("node.toml")).unwrap();
    let (done, said) = node.anode(&["node", "report"]);
    assert!(done && said.contains("packets_per_second = 1000"), "{said}");
    let first = history(&node).remove(0);
    assert_eq!(first["who"], "the start of the node");
}
