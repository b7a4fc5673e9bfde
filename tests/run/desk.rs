//! What an author sees of code at a running node: it is given and taken out, its soft state, its traps, and the log as it
//! comes.

use crate::single::{ANODE, Node};
use anode::code::bundle::{Bundle, Kind};
use anode::manage::client::{Attachment, ClientError};
use anode::wire::{Addr, capsule};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const SOURCE: &str = "#include <anode/capsule.h>
struct p { u8 n; };
AN_CAPSULE(p, struct p)
{
    struct an_value value = {{w->payload.n}};
    an_state_put(w->payload.n, &value, 60000);
    an_log(7, 42);
    if (w->payload.n == 9)
        __builtin_trap();
    return an_drop();
}
";

/// A bundle of the program, in the node's directory, and its name.
fn bundle(node: &Node) -> (PathBuf, String) {
    let (source, bundle) = (node.dir.path().join("p.c"), node.dir.path().join("p.anb"));
    fs::write(&source, SOURCE).unwrap();
    let built = Command::new(ANODE).args(["code", "build", "--only", "wasm", "-o"]).arg(&bundle).arg(&source).output();
    let built = built.unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    (bundle, String::from_utf8(built.stdout).unwrap().trim().to_owned())
}

/// `anode NOUN VERB …`, in these words.
fn anode(words: &[&str]) -> (bool, String) {
    let output = Command::new(ANODE).args(words).output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Sends a capsule with this payload, which is not answered.
fn send(node: &Node, bundle: &str, hex: &str) -> String {
    let dir = node.run_dir();
    let to = ["--node", dir.to_str().unwrap(), "--hex", hex, "--timeout", "0", "--answers", "0"];
    anode(&[&["capsule", "send", bundle, "10.9.9.1"], &to[..]].concat()).1
}

#[test]
fn code_is_given_to_a_running_node_looked_into_and_taken_out() {
    let node = Node::start("");
    let (file, name) = bundle(&node);
    let (dir, file) = (node.run_dir(), file.to_str().unwrap().to_owned());
    let dir = dir.to_str().unwrap();
    let (done, said) = anode(&["code", "add", dir, &file]);
    assert!(done && said.contains(&name), "{said}");
    for byte in ["01", "02", "09"] {
        send(&node, &file, byte);
    }
    node.until(|| (node.control().status().unwrap()["codes"][0]["trap"]["source"] == "p.c:9").then_some(()));
    let (_, said) = node.anode(&["node", "status"]);
    assert!(said.contains("it trapped last with a place that was not to be reached, in capsule at p.c:9"), "{said}");
    let (_, said) = node.anode(&["node", "log"]);
    assert!(said.contains("trap: a place that was not to be reached, in capsule at p.c:9"), "{said}");
    let (done, said) = anode(&["code", "state", dir, &name[..8], "--json"]);
    let told: Value = serde_json::from_str(&said).unwrap();
    let mut keys: Vec<_> = told["entries"].as_array().unwrap().iter().map(|entry| entry["key"].as_u64()).collect();
    keys.sort_unstable();
    assert!(done && keys == [1, 2, 9].map(Some) && told["half"] == "user", "{said}");
    assert!(told["entries"][0]["expires_ms"].as_u64().is_some_and(|left| (1..=60_000).contains(&left)), "{said}");
    let (done, said) = anode(&["code", "state", dir, "p"]);
    assert!(done && said.contains("3 entries of") && said.contains("key 0000000000000002  value 02"), "{said}");
    let (done, said) = anode(&["code", "rm", dir, &name]);
    assert!(done && said.contains("0 packets that waited"), "{said}");
    let (done, said) = anode(&["code", "state", dir, &name]);
    assert!(!done && said.contains("does not run here"), "{said}");
    let (done, said) = anode(&["code", "add", dir, &file, "--store", dir]);
    assert!(!done && said.contains("has its own store"), "{said}");
    node.down();
}

#[test]
fn code_that_is_refused_takes_no_place_of_lines() {
    let node = Node::start("");
    let (file, _) = bundle(&node);
    send(&node, file.to_str().unwrap(), "09");
    let trap = || node.control().status().unwrap()["codes"][0]["trap"]["source"].clone();
    node.until(|| (trap() == "p.c:9").then_some(()));
    // The store's disk has gone.
    fs::remove_dir_all(node.dir.path().join("store")).unwrap();
    let known = Bundle::read(&fs::read(&file).unwrap()).unwrap();
    let module = known.representation(Kind::Wasm).unwrap();
    for number in 0..65 {
        let other = Bundle::build(&format!("other-{number}"), 1, &[(Kind::Wasm, module.clone())], None).unwrap();
        let refused = node.control().add_code(&other);
        assert!(matches!(refused, Err(ClientError::Refused(_))), "{refused:?}");
    }
    assert_eq!(trap(), "p.c:9");
}

#[test]
fn the_log_is_followed_until_the_node_ends() {
    let node = Node::start("");
    let (file, _) = bundle(&node);
    let mut follower = Command::new(ANODE)
        .args(["node", "log", "--follow", "--level", "warn", "--json"])
        .arg(node.run_dir())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    send(&node, file.to_str().unwrap(), "01");
    send(&node, file.to_str().unwrap(), "09");
    let of_code = |line: &String| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["code"].is_string().then_some(line)
    };
    let told = lines.find_map(|line| of_code(&line)).unwrap();
    // The lines that the code has written are no warnings.
    assert_eq!((&told["level"], &told["trap"]["source"]), (&json!("warn"), &json!("p.c:9")), "{told}");
    let dir = node.down();
    assert!(lines.all(|line| of_code(&line).is_none()));
    assert!(follower.wait().unwrap().success());
    drop(dir);
}

#[test]
fn who_sends_is_told_what_its_own_node_did_with_it() {
    let node = Node::start("");
    let (file, name) = bundle(&node);
    let (dir, file) = (node.run_dir(), file.to_str().unwrap().to_owned());
    let (done, said) =
        anode(&["ping", "10.77.0.1", "--count", "2", "--interval", "0", "--node", dir.to_str().unwrap()]);
    assert!(!done && said.matches("not sent on by this node: no-route: ").count() == 2, "{said}");
    assert!(!said.contains("nothing came back"), "{said}");
    let to = ["10.9.9.1", "--node", dir.to_str().unwrap(), "--hex", "09", "--timeout", "60"];
    let (done, said) = anode(&[&["capsule", "send", &file], &to[..]].concat());
    assert!(!done && said.contains("not sent on by this node: trap: "), "{said}");
    assert!(said.contains("a place that was not to be reached, in function "), "{said}");
    // What the code itself ends is no refusal, and who has not asked is told of none.
    let header = capsule::Header {
        app_port: 0,
        bound: 9,
        code: name.parse().unwrap(),
        previous: Addr::UNSPECIFIED,
        source: Addr::UNSPECIFIED,
        destination: Addr::v4([10, 9, 9, 1]),
    };
    let mut quiet = Attachment::attach(&dir, 0).unwrap();
    quiet.send(&header, &[9]).unwrap();
    quiet.settle().unwrap();
    quiet.settle().unwrap();
    let mut here = Attachment::attach(&dir, 0).unwrap();
    here.tell_ends().unwrap();
    here.send(&header, &[1]).unwrap();
    here.send(&header, &[9]).unwrap();
    let told = here.receive(Duration::from_secs(60));
    assert!(matches!(&told, Err(ClientError::Refused(why)) if why.starts_with("trap: ")), "{told:?}");
    here.settle().unwrap();
    assert!(here.receive(Duration::ZERO).unwrap().is_none(), "once for each packet");
    assert!(quiet.receive(Duration::ZERO).unwrap().is_none());
    node.down();
}
