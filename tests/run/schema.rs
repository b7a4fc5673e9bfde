//! What commands print of a node with `--json` is as `anode schema` says: each command, at a node that has something to say.

use crate::held::{Held, OF_NODES, printed, wrong};
use crate::single::{ANODE, Node};
use anode::code::bundle::{Bundle, Kind};
use model::schema::ALL;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

/// Code that counts its packets and ends there, or traps.
fn code(title: &str, then: &str) -> Bundle {
    let text = format!(
        "(module (import \"anode\" \"an_state_add\" (func $add (param i64 i64 i32) (result i64)))
        (memory (export \"memory\") 1024 1024 (pagesize 1)) (global (export \"an_arena\") i32 (i32.const 0))
        (func (export \"capsule\") (param i32 i32) (result i32)
            (drop (call $add (i64.const 7) (i64.const 1) (i32.const 60000))) {then} (i32.const 0)))"
    );
    Bundle::build(title, 0, &[(Kind::Wasm, wat::parse_str(text).unwrap().into())], None).unwrap()
}

/// A node with two workers, an environment, PLAN and two codes that have run.
fn busy() -> (Node, [String; 2]) {
    let ee = "[[ee]]\nname = \"idle\"\nrole = \"ee\"\ncommand = [\"sh\", \"-c\", \"exec sleep 1000\"]\n";
    let more = "[[role]]\nname = \"ee\"\n[plan]\n[cpu]\nworkers = 2\n";
    let node = Node::start(&format!("{more}{ee}"));
    let codes = [("counts", ""), ("traps", "unreachable")].map(|(title, then)| {
        let (bundle, file) = (code(title, then), node.dir.path().join(title));
        fs::write(&file, bundle.write()).unwrap();
        let run = node.run_dir();
        let words = ["capsule", "send", file.to_str().unwrap(), "10.9.9.1", "--node", run.to_str().unwrap()];
        // Nothing comes back.
        Command::new(ANODE).args(words).args(["--timeout", "0"]).output().unwrap();
        bundle.name().to_string()
    });
    node.until(|| {
        let status = node.control().status().unwrap();
        let ran = |code: &&Value| code["usage"]["packets"] == 1;
        (status["codes"].as_array().unwrap().iter().filter(ran).count() == 2).then_some(())
    });
    node.await_environment("idle", |environment| environment["state"] == "running");
    (node, codes)
}

#[test]
fn what_is_printed_as_json_is_as_its_schema_says() {
    let (node, [counts, traps]) = busy();
    let (mut held, run) = (Held::default(), node.run_dir().display().to_string());
    let run = run.as_str();
    let mut of = |name: &'static str, words: &[&str]| held.check(name, &printed(&[words, &["--json"]].concat()));
    let status = of("status", &["node", "status", run]);
    assert_eq!(status["codes"].as_array().map(Vec::len), Some(2), "{status}");
    of("watch", &["node", "watch", run, "--count", "1", "--interval", "0.1"]);
    of("event", &["node", "events", run]);
    let log = of("log", &["node", "log", run]);
    assert!(log[0]["trap"]["kind"].is_string(), "a trap is a line: {log}");
    of("ways", &["node", "route", run, "10.9.9.1", "10.9.9.7", "192.0.2.1"]);
    of("history", &["node", "history", run]);
    of("domains", &["domain", "ls", run]);
    of("domain", &["domain", "show", run, "idle"]);
    of("domain-moved", &["domain", "move", run, "idle", "1"]);
    of("environments", &["ee", "ls", run]);
    of("environment", &["ee", "restart", run, "idle"]);
    let state = of("code-state", &["code", "state", run, &counts]);
    assert_eq!(state["entries"][0]["number"], 1, "{state}");
    of("code-retried", &["code", "retry", run]);
    of("channels", &["channel", "ls", run]);
    of("revocation", &["cred", "revoke", "--code", &traps, "--node", run]);
    of("revocations", &["cred", "revoked", run]);
    let file = node.dir.path().join("node.toml");
    let next = node.dir.path().join("next.toml");
    fs::write(&next, fs::read_to_string(&file).unwrap() + "[entry]\nshare = 0.25\n").unwrap();
    let difference = of("difference", &["node", "apply", next.to_str().unwrap(), "--node", run]);
    assert_eq!(difference["changes"][0]["line"], "entry.share: 0.5 → 0.25", "{difference}");
    of("difference", &["node", "rollback", run]);
    of("history", &["node", "history", run]);
    let bundle = node.dir.path().join("counts");
    of("code", &["code", "add", run, bundle.to_str().unwrap()]);
    of("code-removed", &["code", "rm", run, &counts]);
    of("domain-ended", &["domain", "kill", run, "idle"]);
    held.check("report", &printed(&["node", "report", run]));
    // Whether all is well is no matter here.
    let health = Command::new(ANODE).args(["node", "health", run, "--json"]).output().unwrap();
    held.check("health", &health.stdout);
    held.check("domain-made", &serde_json::to_vec(&model::code::Made { domain: 7 }).unwrap());
    let mut follow = Command::new(ANODE);
    follow.args(["node", "log", run, "--follow", "--json"]).stdout(Stdio::piped());
    let mut follow = follow.spawn().unwrap();
    let (mut first, mut rest) = (String::new(), String::new());
    let mut lines = BufReader::new(follow.stdout.take().unwrap());
    lines.read_line(&mut first).unwrap();
    node.down();
    lines.read_to_string(&mut rest).unwrap();
    assert!(follow.wait().unwrap().success());
    held.check("log-line", (first + &rest).as_bytes());
    assert_eq!(held.0, BTreeSet::from(OF_NODES), "something was held against each schema");
}

#[test]
fn schemas_are_listed_with_the_commands_that_print_them_and_say_what_is_missing() {
    let list = String::from_utf8(printed(&["schema"])).unwrap();
    assert!(
        list.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == ["health", "node", "health"]),
        "{list}"
    );
    assert_eq!(list.lines().count(), ALL.len());
    let schema: Value = serde_json::from_slice(&printed(&["schema", "health"])).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let health = |state: &str| json!({"node": "m", "state": state, "checks": []});
    assert_eq!(wrong(&schema, &schema, &health("healthy")), None);
    for (bad, why) in [
        (health("well"), "state: "),
        (json!({"node": "m", "state": "healthy"}), "\"checks\" is missing"),
        (json!({"node": 1, "state": "healthy", "checks": []}), "node: 1 is no "),
        (json!({"node": "m", "state": "healthy", "checks": [], "new": 1}), "new is not in the schema"),
        (json!([]), "[] is no "),
    ] {
        assert!(wrong(&schema, &schema, &bad).is_some_and(|said| said.contains(why)), "{bad}");
    }
    assert!(!Command::new(ANODE).args(["schema", "nothing"]).output().unwrap().status.success());
}
