//! Clean text for people: strangers' names and texts reach terminals, logs and programs through a running node, and do
//! nothing there.

use crate::single::{ANODE, Node};
use crate::wait;
use anode::clean::is_clean;
use anode::code::bundle::{Bundle, Kind};
use anode::manage::client::Attachment;
use anode::wire::{Addr, capsule};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// An export's name that sets the title of a terminal, then forges a line, then turns writing round; C1's way to say the same.
const NAME: &str = "\u{1b}]0;owned\u{7}\nok\u{202e}\u{9b}31m";

/// A node with an environment that says what sets a title and turns writing round.
fn start() -> Node {
    let said = ["sh", "-c", "printf 'said \\033]0;owned\\007\\342\\200\\256\\n' >&2; exec sleep 1000"];
    Node::start(&format!("[[role]]\nname = \"ee\"\n[[ee]]\nname = \"talker\"\nrole = \"ee\"\ncommand = {said:?}\n"))
}

/// What the control socket says, as it comes.
fn asked(node: &Node, ask: &Value) -> String {
    let mut stream = UnixStream::connect(node.run_dir().join("control.sock")).unwrap();
    writeln!(stream, "{ask}").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

/// All that a command prints.
fn anode(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(ANODE).args(arguments).current_dir(folder).output().unwrap();
    let bytes = [output.stdout, output.stderr].concat();
    String::from_utf8(bytes).unwrap()
}

/// Code that wasmparser refuses, quoting the name.
fn titled() -> Bundle {
    let name: String = NAME.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let text = format!("(module (func $f) (export \"{name}\" (func $f)) (export \"{name}\" (func $f)))");
    let module = wat::parse_str(&text).unwrap();
    Bundle::build("titled", 16, &[(Kind::Wasm, Arc::from(module))], None).unwrap()
}

fn assert_clean(what: &str, text: &str) {
    let bad = text.chars().find(|c| !is_clean(*c) && *c != '\n' && *c != '\t');
    assert_eq!(bad, None, "{what}: {text:?}");
}

#[test]
fn an_export_that_sets_a_terminals_title_does_not_through_node_status() {
    crate::gate::pass();
    let node = start();
    let code = node.control().add_code(&titled()).unwrap();
    let seat = Attachment::attach(&node.run_dir(), 0).unwrap();
    let (previous, source) = (Addr::UNSPECIFIED, Addr::UNSPECIFIED);
    let destination = Addr::v4([10, 9, 9, 1]);
    let header = capsule::Header { app_port: seat.port(), bound: 4, code, previous, source, destination };
    seat.send(&header, &[0; 16]).unwrap();
    let status = node.until(|| {
        let status = node.control().status().unwrap();
        (status["codes"][0]["state"] == "refused").then_some(status)
    });
    // The name did get so far: it is shown, and does nothing.
    let why = status["codes"][0]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("owned"), "{why}");
    for arguments in [&["node", "status"][..], &["node", "status", "--json"], &["domain", "ls"]] {
        let (_, text) = node.anode(arguments);
        assert_clean(&arguments.join(" "), &text);
        assert!(!text.lines().any(|line| line.starts_with("ok")), "a line was forged: {text}");
    }
    assert!(node.anode(&["node", "status"]).1.contains("\\u001b]0;owned\\u0007\\nok\\u202e\\u009b31m"));
    let json: Value = serde_json::from_str(&node.anode(&["node", "status", "--json"]).1).unwrap();
    assert_eq!(json["codes"][0]["why"], why);
    assert_clean("status", asked(&node, &json!({"do": "status"})).trim_end());
    assert_clean("error", asked(&node, &json!({"do": NAME})).trim_end());
    let both = |log: &str| (log.contains("code refused") && log.contains("said ")).then(|| log.to_owned());
    let log = wait::text(&node.dir.path().join("log"), Some(&node.process), both);
    assert_clean("log", &log);
    assert!(log.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "one line, one event: {log}");
}

#[test]
fn a_bundle_is_explained_to_its_author_in_clean_words() {
    crate::gate::pass();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("titled.anb"), titled().write()).unwrap();
    for arguments in [&["code", "check", "titled.anb"][..], &["code", "check", "titled.anb", "--json"]] {
        let text = anode(folder.path(), arguments);
        assert!(text.contains("owned"), "{text}");
        assert_clean("code check", &text);
    }
}

#[test]
fn what_a_program_prints_or_is_written_with_stays_text() {
    crate::gate::pass();
    let folder = tempfile::tempdir().unwrap();
    let program =
        "fun set() : unit = print(implode([chr(27); chr(93); chr(48); chr(59); chr(7); chr(10); chr(111)]))\n";
    fs::write(folder.path().join("set.plan"), program).unwrap();
    let text = anode(folder.path(), &["plan", "run", "set.plan", "set()"]);
    assert_eq!(text, "\\u001b]0;\\u0007\no");
    fs::write(folder.path().join("bad.plan"), "fun f() = \u{1b}]0;owned\u{7} + 1\n").unwrap();
    let text = anode(folder.path(), &["plan", "check", "bad.plan"]);
    assert!(text.contains("owned"), "{text}");
    assert_clean("plan check", &text);
}
