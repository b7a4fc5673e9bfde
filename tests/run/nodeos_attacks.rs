//! Known attacks of environments on nodes, all refused now: attacks.c in a real environment, in a role that owns
//! nothing, under a node of root's (docs/threat-model.md). Before there were jails each of them worked, except those
//! that Landlock and seccomp prevented already.

use crate::build::{Linked, build};
use crate::single;
use crate::single::Node;
use libanode::seqpacket::SeqPacket;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

fn has_root() -> bool {
    single::is_root("an ordinary user has no node that root runs")
}

fn environment(name: &str, role: &str, words: &[String]) -> String {
    format!("[[ee]]\nname = \"{name}\"\nrole = \"{role}\"\nrestart = \"never\"\ncommand = {words:?}\n")
}

const ROLE: &str = "[[role]]\nname = \"rich\"\ngrants = { files = 10, file_bytes = 1000, domains = 4, channels = 4 }\n";

fn program(folder: &Path) -> String {
    build("tests/nodeos/attacks.c", folder, &["-O1"], Linked::Static).to_str().unwrap().to_owned()
}

#[test]
fn an_environment_that_owns_nothing_can_do_no_harm() {
    if !has_root() {
        return;
    }
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let other = Node::start_in(other, "");
    let sockets = |dir: &Path| {
        ["control.sock", "apps.sock", "nodeos.sock"].map(|name| dir.join(name).to_str().unwrap().to_owned())
    };
    let program = program(own.path());
    let mut words = vec![program.clone(), std::process::id().to_string()];
    words.extend(sockets(&own.path().join("run")).into_iter().chain(sockets(&other.run_dir())));
    let victim = ["sh", "-c", "exec sleep 1000"].map(str::to_owned);
    let secret = own.path().join("files/spaces/victim");
    fs::create_dir_all(&secret).unwrap();
    fs::write(secret.join("secret"), "secret").unwrap();
    let config = [ROLE, &environment("victim", "rich", &victim), &environment("attacker", "anyone", &words)].concat();
    let node = Node::start_in(own, &config);
    let said = node.await_said("attacks: ");
    let done: Vec<_> = said.trim_end_matches('.').split(' ').filter(|word| !word.ends_with("=refused")).collect();
    assert_eq!(done, ["connected=done"], "{said}");
    assert!(said.split(' ').count() > 20, "{said}");
    let refused = || node.log().contains("a gibibyte was refused") || node.environment("attacker")["state"] == "ended";
    node.until(|| refused().then_some(()));
    assert!(!node.log().contains("a gibibyte was taken"));
    let mode = fs::metadata(&program).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "nobody has made it setuid");
    for name in sockets(&node.run_dir()) {
        let facts = fs::metadata(&name).unwrap();
        assert!(facts.file_type().is_socket() && facts.permissions().mode() & 0o077 == 0, "{name} is its owner's only");
    }
    assert_eq!(node.environment("victim")["state"], "running");
}

#[test]
fn nobody_keeps_others_out() {
    if !has_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = program(dir.path());
    let greedy = environment("greedy", "anyone", &[program.clone(), "greedy".into()]);
    let attacker = environment("modest", "anyone", &[program, "0".into()]);
    let node = Node::start_in(dir, &[greedy, attacker].concat());
    let greedy: usize = node.await_said("greedy has ").parse().unwrap();
    assert!((1..=16).contains(&greedy), "{greedy}");
    // An operator's processes that never say hello.
    let half_open: Vec<_> =
        (0..200).map(|_| SeqPacket::connect(&node.run_dir().join("nodeos.sock")).unwrap()).collect();
    let refused = || half_open.iter().filter(|one| one.wait(Duration::ZERO).unwrap()).count();
    node.until(|| (refused() >= 192).then_some(()));
    // Another environment has its connection all the same, and control answers.
    assert!(node.await_said("attacks: ").contains("connected=done"));
    assert_eq!(node.environment("greedy")["state"], "running");
    // Who says nothing in time loses his place, and others have it: as many as before, and one of nine is refused.
    let count = |which: &str| node.control().status().unwrap()["connections"]["environments"][which].as_u64().unwrap();
    node.until(|| (refused() == half_open.len()).then_some(()));
    assert!(count("silent") > 0 && count("refused") >= 190);
    let again: Vec<_> = (0..9).map(|_| SeqPacket::connect(&node.run_dir().join("nodeos.sock")).unwrap()).collect();
    let refused = || again.iter().filter(|one| one.wait(Duration::ZERO).unwrap()).count();
    node.until(|| (refused() > 0).then_some(()));
    assert!(refused() == 1 && again[8].wait(Duration::ZERO).unwrap());
}

#[test]
fn who_connects_without_end_pays_for_it() {
    if !has_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = program(dir.path());
    let node = Node::start_in(dir, &[ROLE, &environment("hasty", "rich", &[program, "hasty".into()])].concat());
    let welcome: u64 = node.await_said("hasty was welcome ").parse().unwrap();
    assert!(welcome > 0);
    let counts = node.control().status().unwrap()["connections"]["environments"].clone();
    let cost = counts["cost_ns"].as_u64().unwrap();
    assert!(cost > 3000 * 1000, "a thread each is more than a microsecond: {counts}");
    // What it has used itself comes on top; a millisecond may wait for the next bill.
    let domains = node.domains();
    let own = domains["domains"].as_array().unwrap().iter().find(|domain| domain["title"] == "hasty").unwrap();
    assert!(own["usage"]["cpu_ns"].as_u64().unwrap() > cost * 9 / 10, "{own} {counts}");
    assert_eq!(node.environment("hasty")["state"], "running");
}
