//! What an operator is told of a node that is not as it should be: an interface that is missing, an environment that fails, a node that is
//! gone, and words that mean nothing.

use crate::single::{ANODE, Node, anode, is_root};
use model::Ask;
use model::health::{Health, Known, State};
use model::status::Metrics;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// A port whose interface is nowhere, behind the one that a node has.
const WAITS: &str = "[[port]]\nname = \"late\"\npacket = \"anodelate0\"\n";

const FAILS: &str = "[[role]]\nname = \"ee\"\n[[ee]]\nname = \"failing\"\nrole = \"ee\"\nrestart = \"on-failure\"\n\
                     command = [\"sh\", \"-c\", \"exit 3\"]\n";

fn check<'a>(health: &'a Health, name: &str) -> &'a model::health::Check {
    health.checks.iter().find(|check| check.name == name).unwrap()
}

fn metrics(node: &Node) -> String {
    node.control().asked::<Metrics>(&Ask::Metrics { classic: false }).unwrap().text
}

#[test]
fn an_interface_that_is_missing_is_named_by_health_status_metrics_and_check() {
    if !is_root("ports at interfaces need root") {
        return;
    }
    let node = Node::start(WAITS);
    let health: Health = node.control().asked(&Ask::Health).unwrap();
    let carrier = check(&health, "carrier");
    assert_eq!((carrier.state, carrier.value, health.state), (State::Degraded, 1, State::Degraded));
    assert!(carrier.said.ends_with(": late (waits for interface anodelate0)"), "{}", carrier.said);
    assert!(metrics(&node).contains("anode_port_carrier{node=\"m\",port=\"late\"} 0\n"), "{}", metrics(&node));
    let (_, said) = node.anode(&["node", "status"]);
    assert!(said.contains("  interface anodelate0 of port late waits: its interface is not there"), "{said}");
    let file = node.dir.path().join("node.toml");
    let said = String::from_utf8(anode(&["node", "check"], &file).output().unwrap().stdout).unwrap();
    assert!(said.contains("port late: waits for its interface; bound 64"), "{said}");
    node.down();
}

#[test]
fn an_environment_that_fails_is_named_by_health_and_counted_by_metrics() {
    let node = Node::start(FAILS);
    node.await_environment("failing", |environment| environment["failures"].as_u64() > Some(3));
    let health = node.until(|| {
        let health: Health = node.control().asked(&Ask::Health).ok()?;
        // It is started again and again, and runs for a moment.
        (check(&health, "environments").value == 1).then_some(health)
    });
    let environments = check(&health, "environments");
    assert_eq!((environments.state, health.state), (State::Degraded, State::Degraded));
    assert!(environments.said.contains(": failing (waiting, failed "), "{}", environments.said);
    let text = metrics(&node);
    let failures = "anode_environment_failures_total{node=\"m\",environment=\"failing\",role=\"ee\"} ";
    let count = text.lines().find_map(|line| line.strip_prefix(failures)).unwrap();
    assert!(count.parse::<u64>().unwrap() > 3, "{text}");
    assert!(text.contains("anode_configuration_unconfirmed{node=\"m\"} 0\n"), "{text}");
    node.down();
}

#[test]
fn status_says_which_configuration_runs_and_that_it_waits_to_be_confirmed() {
    let role = |packets: u64| format!("[[role]]\nname = \"guests\"\nlimits = {{ packets_per_second = {packets} }}\n");
    let node = Node::start(&role(1000));
    let begin = std::fs::read_to_string(node.dir.path().join("node.toml")).unwrap();
    let next = node.dir.path().join("next.toml");
    std::fs::write(&next, begin.replace("= 1000", "= 7")).unwrap();
    assert!(anode(&["node", "apply"], &next).args(["--confirm-within", "1h"]).status().unwrap().success());
    let (_, said) = node.anode(&["node", "status"]);
    let number = node.control().status().unwrap()["configuration"]["number"].to_string();
    assert!(said.contains(&format!("  configuration {number}, given by ")), "{said}");
    assert!(said.contains(&format!("s: anode node confirm m {number}\n")), "{said}");
    let of = |name: &str| metrics(&node).contains(name);
    assert!(of("anode_configuration_unconfirmed{node=\"m\"} 1\n"));
    assert!(of(&format!("anode_configuration_number{{node=\"m\"}} {number}\n")));
    // What is refused is shown to programs too.
    std::fs::write(&next, begin.replace("= 1000", "= 9")).unwrap();
    let refused = anode(&["node", "apply"], &next).arg("--json").output().unwrap();
    let difference: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!((refused.status.code(), &difference["applied"]), (Some(1), &Value::Bool(false)), "{difference}");
    assert!(difference["changes"][0]["line"].as_str().unwrap().contains("→ 9"), "{difference}");
    node.down();
}

#[test]
fn of_a_node_that_was_killed_what_is_left_is_taken_away_and_said() {
    let mut node = Node::start("");
    node.process.kill().unwrap();
    let run = node.run_dir();
    let _dir = node.down_dead();
    let down = anode(&["node", "down"], &run).output().unwrap();
    let said = String::from_utf8([down.stdout, down.stderr].concat()).unwrap();
    assert!(down.status.success() && said.contains("was not running; taken away: ") && said.contains("lock"), "{said}");
    let again = anode(&["node", "down"], &run).output().unwrap();
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(again.status.code() == Some(1) && said.contains("no node answers at"), "nothing was left: {said}");
    let health = anode(&["node", "health", "--json"], &run).output().unwrap();
    let health: Health = serde_json::from_slice(&health.stdout).unwrap();
    assert!(health.state == State::Unreachable && health.not_reachable.is_some(), "{health:?}");
}

/// The last line of a command that is refused, and its status.
fn refused(words: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(ANODE).args(words).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn words_that_mean_nothing_are_refused_with_those_that_do() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let node = Node::start("");
    let run = node.run_dir().display().to_string();
    let run = run.as_str();
    std::fs::write(at("empty.toml"), "").unwrap();
    let begin = std::fs::read_to_string(node.dir.path().join("node.toml")).unwrap();
    std::fs::write(at("half.toml"), begin.trim_end()).unwrap();
    for (words, status, why) in [
        (&["node", "watch", run, "--interval", "0"][..], 2, "seconds from 0.1 to 3600"),
        (&["node", "metrics", run, "--textfile", "a.txt"], 2, "end with .prom"),
        (&["node", "log", run, "--set-level", "info", "--part", "nosuch"], 1, "there are anode::abi, "),
        (&["node", "report", run, "--store", &at("nowhere")], 1, "cannot be read as the store of a node"),
        (&["node", "report", run, "--store", &at("")], 1, "is no store of a node"),
        (&["node", "apply", "r1"], 1, "the file of a configuration is wanted"),
        (&["node", "apply", "/dev/null"], 1, "is no file"),
        (&["node", "apply", &at("empty.toml")], 1, "is empty"),
        (&["node", "check", &at("empty.toml")], 1, "is empty"),
        (&["node", "apply", &at("half.toml")], 1, "its last line does not end"),
        (&["node", "check", &at("half.toml")], 1, "its last line does not end"),
        (&["node", "apply", &at("half.toml"), "--confirm-within", "1000h"], 2, "from 1ms to 24h"),
    ] {
        let (code, said) = refused(words);
        assert!(code == Some(status) && said.contains(why), "{words:?}: {code:?} {said}");
    }
    let (done, said) = node.anode(&["node", "log"]);
    assert!(
        done && said.starts_with("mobile code has logged nothing; lines of the node itself: anode node log "),
        "{said}"
    );
    let schemas = ["health", "node health"].map(|name| refused(&["schema", name]));
    assert!(schemas[0] == schemas[1] && schemas[0].1.contains("\"checks\""), "{schemas:?}");
    assert!(!Path::new("a.txt").exists());
    node.down();
}

#[test]
fn nodes_are_listed_with_what_is_wrong_with_them() {
    let node = Node::start("");
    let session = tempfile::tempdir().unwrap();
    let nodes = session.path().join("anode");
    std::fs::create_dir_all(nodes.join("gone/bpf/set-1")).unwrap();
    std::fs::create_dir(nodes.join("stopped")).unwrap();
    std::os::unix::fs::symlink(node.run_dir(), nodes.join("m")).unwrap();
    // Somebody who takes connections and says nothing.
    std::fs::create_dir(nodes.join("mute")).unwrap();
    let _mute = std::os::unix::net::UnixListener::bind(nodes.join("mute/control.sock")).unwrap();
    let list = |words: &[&str]| {
        let output =
            Command::new(ANODE).args(["node", "ls"]).args(words).env("XDG_RUNTIME_DIR", session.path()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let all: Vec<Known> = serde_json::from_str(&list(&["--json"])).unwrap();
    let own: Vec<&Known> = all.iter().filter(|known| Path::new(&known.run_dir).starts_with(&nodes)).collect();
    assert_eq!(own.iter().map(|known| known.node.as_str()).collect::<Vec<_>>(), ["gone", "m", "mute"], "{all:?}");
    assert_eq!((own[1].state, own[1].said.as_str()), (State::Healthy, ""), "{all:?}");
    assert!(own[0].said.contains("its kernel half works on"), "{all:?}");
    assert!(own[2].state == State::Unreachable && own[2].said.contains("it has not answered within"), "{all:?}");
    let text = list(&[]);
    assert!(text.lines().any(|line| line.starts_with("m ") && line.contains(" healthy ")), "{text}");
    node.down();
}
