//! `anode capsule send`: what the node refuses was not sent, and where to look when nothing comes back.

use crate::single::{ANODE, Node};
use anode::code::bundle::{Bundle, Kind};
use std::fs;
use std::process::Command;

/// Verdicts.
const DROP: u32 = 0;
const FORWARD: u32 = 1;
const DELIVER: u32 = 2;

/// What the command says of a capsule whose code has this verdict, and whether it succeeds.
fn send(node: &Node, verdict: u32, to: &str, more: &[&str]) -> (bool, String) {
    let module = format!(
        r#"(module (memory (export "memory") 1024 1024 (pagesize 1)) (global (export "an_arena") i32 (i32.const 0))
            (func (export "capsule") (param i32 i32) (result i32) i32.const {verdict}))"#
    );
    let bundle = Bundle::build("verdict", 0, &[(Kind::Wasm, wat::parse_str(module).unwrap().into())], None).unwrap();
    let file = node.dir.path().join("verdict.anb");
    fs::write(&file, bundle.write()).unwrap();
    let mut command = Command::new(ANODE);
    command.args(["capsule", "send"]).arg(file).args([to, "--node"]).arg(node.run_dir());
    let output = command.args(more).output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn a_capsule_that_the_node_refuses_was_not_sent() {
    let node = Node::start("");
    let nowhere = |more: &[&str]| send(&node, FORWARD, "10.7.7.7", &[&["--timeout", "0"], more].concat());
    let (done, said) = nowhere(&["--size", "4000", "--count", "9"]);
    assert!(!done && said.contains("the node refuses: a capsule has 88 to ") && !said.contains("sent"), "{said}");
    assert_eq!(node.control().status().unwrap()["balance"]["made"], 0);
    let (done, said) = send(&node, FORWARD, "10.7.7.7", &["--timeout", "60", "--count", "9"]);
    assert!(!done && said.contains("sent 9 of") && !said.contains("nothing came back"), "{said}");
    assert_eq!(said.matches("not sent on by this node: no-route: ").count(), 9, "{said}");
    let (done, said) = send(&node, FORWARD, "10.7.7.7", &["--timeout", "60", "--json"]);
    assert!(!done && said.lines().count() == 2 && said.contains("{\"refused\":\"no-route: "), "{said}");
    // What its own code ends is no refusal.
    let (done, said) = send(&node, DROP, "10.9.9.1", &["--timeout", "0"]);
    assert!(!done && said.contains("nothing came back; status of each node"), "{said}");
}

/// The node delivers the first one before it says that it has taken that in, once the code is there.
#[test]
fn what_comes_while_the_node_is_asked_is_not_lost() {
    let node = Node::start("");
    for _ in 0..2 {
        let more = ["--count", "3", "--answers", "3", "--timeout", "60"];
        let (done, said) = send(&node, DELIVER, "10.9.9.1", &more);
        assert!(done && said.matches("from 10.9.9.1").count() == 3, "{said}");
    }
}
