//! Other configurations for running nodes: shown, applied as a whole or not at all, confirmed, taken back, remembered.

use crate::single::{ANODE, Node, anode};
use crate::wait;
use anode::broker::message::OPERATOR_SOCKET;
use anode::broker::operator;
use model::wish::Difference;
use serde_json::{Value, json};
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A role with so many packets a second.
pub fn role(packets: u64) -> String {
    format!("[[role]]\nname = \"guests\"\nlimits = {{ packets_per_second = {packets} }}\n")
}

/// Another file of a node, with these lines at its end.
pub fn file(node: &Node, name: &str, more: &str) -> PathBuf {
    let text = fs::read_to_string(node.dir.path().join("node.toml")).unwrap();
    let begin = text.split_inclusive('\n').take_while(|line| !line.starts_with("[[role]]")).collect::<String>();
    let path = node.dir.path().join(name);
    fs::write(&path, begin + more).unwrap();
    path
}

/// What `anode node apply` says of a file.
pub fn apply(path: &Path, words: &[&str]) -> (bool, String) {
    let done = anode(&["node", "apply"], path).args(words).output().unwrap();
    (done.status.success(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
}

/// How the configuration of a node stands.
pub fn standing(node: &Node) -> Value {
    node.control().status().unwrap()["configuration"].clone()
}

fn configure(node: &Node, what: Value) -> Result<Value, String> {
    node.control().ask(&json!({"do": "configure", "what": what})).map_err(|error| error.to_string())
}

/// The lines of what ran.
pub fn history(node: &Node) -> Vec<Value> {
    configure(node, json!("history")).unwrap().as_array().unwrap().clone()
}

#[test]
fn a_difference_is_shown_and_applied_as_a_whole() {
    let node = Node::start(&role(1000));
    let begin = standing(&node);
    let other =
        file(&node, "other.toml", &(role(7) + "[cpu]\nscheduler = \"fifo\"\nshare = 0.5\n[entry]\nshare = 0.25\n"));
    let (done, said) = apply(&other, &["--dry-run"]);
    let lines = "cpu.scheduler: none → fifo\ncpu.share: 1.0 → 0.5\nentry.share: 0.5 → 0.25\n\
                 role guests limits.packets_per_second: 1000 → 7\n";
    assert_eq!((done, said), (true, format!("{lines}nothing is changed: this was a dry run\n")));
    assert_eq!(standing(&node), begin);
    let (done, said) = apply(&other, &[]);
    assert!(done && said.starts_with(lines) && said.contains("applied as configuration "), "{said}");
    let status = node.control().status().unwrap();
    assert_eq!((&status["cpu"]["scheduler"], &status["cpu"]["share"]), (&json!("fifo"), &json!(0.5)));
    assert_eq!((&status["configuration"]["applied"], &status["unaccounted"]), (&json!(1), &json!(0)));
    let (done, said) = apply(&other, &[]);
    assert_eq!((done, said.as_str()), (true, "nothing is changed: the node runs this already\n"));
    let (done, said) = node.anode(&["node", "history"]);
    assert!(done && said.contains("\n    role guests limits.packets_per_second: 1000 → 7\n"), "{said}");
}

#[test]
fn what_needs_a_restart_is_named_and_then_nothing_is_applied() {
    let node = Node::start(&role(1000));
    let other = file(&node, "other.toml", &(role(7) + "[sizes]\ncodes = 7\n"));
    let (done, said) = apply(&other, &[]);
    assert!(!done && said.contains("sizes.codes: 1024 → 7   (needs a restart)"), "{said}");
    assert!(said.contains("need a restart (anode node down") && said.contains("--partly applies the rest"), "{said}");
    assert_eq!((&standing(&node)["applied"], &standing(&node)["refused"]), (&json!(0), &json!(1)));
    let (done, said) = apply(&other, &["--partly"]);
    assert!(done && said.contains("applied as configuration"), "{said}");
    assert_eq!(history(&node).last().unwrap()["changes"], json!(["role guests limits.packets_per_second: 1000 → 7"]));
    let (_, said) = apply(&other, &["--dry-run"]);
    assert!(
        said.starts_with("sizes.codes: 1024 → 7   (needs a restart)\nnothing"),
        "the rest is still to be done: {said}"
    );
}

/// What `anode node apply` of a file says of a node after the lines of the difference, and whether it has done it.
fn refusal(path: &Path, words: &[&str]) -> (bool, String) {
    let (done, said) = apply(path, words);
    let last = said.lines().rfind(|line| !line.starts_with("nothing is changed")).unwrap_or_default();
    let words = ["anode: the node would refuse it: ", "anode: the node refuses: "];
    (done, words.into_iter().fold(last, |last, begin| last.strip_prefix(begin).unwrap_or(last)).to_owned())
}

#[test]
fn a_dry_run_says_what_the_node_would_say_and_leaves_nothing() {
    let node = Node::start(&role(1000));
    let begin = standing(&node);
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = |at: &str| format!("[[port]]\nname = \"two\"\nudp = \"{at}\"\naddress = [\"10.5.0.1/24\"]\n");
    let busy = role(1000) + &port(&taken.local_addr().unwrap().to_string());
    let far = role(1000) + &shell("e", "exec sleep 1") + "worker = 2\n";
    for (more, part) in [
        (busy.as_str(), "Another process listens there"),
        (far.as_str(), "ee e: worker = 2: the node's last one is 0"),
        ("[sizes]\ncodes = 7\n", "these changes need a restart"),
    ] {
        let other = file(&node, "other.toml", more);
        let (dry, wet) = (refusal(&other, &["--dry-run"]), refusal(&other, &[]));
        assert!(!dry.0 && dry.1.contains(part), "{dry:?}");
        assert_eq!(dry, wet);
    }
    // What it leaves out it does not refuse.
    let other = file(&node, "other.toml", &(role(7) + "[sizes]\ncodes = 7\n"));
    assert!(apply(&other, &["--dry-run", "--partly"]).0);
    let done = anode(&["node", "apply"], &other).args(["--dry-run", "--json"]).output().unwrap();
    let said: Difference = serde_json::from_slice(&done.stdout).unwrap();
    assert!(!done.status.success() && said.refused.unwrap().contains("need a restart"));
    assert_eq!((&standing(&node)["number"], &standing(&node)["applied"]), (&begin["number"], &json!(0)));
    // A port that could be had is not had.
    let free = file(&node, "free.toml", &(role(1000) + &port("127.0.0.1:0")));
    assert!(apply(&free, &["--dry-run"]).0);
    assert_eq!(node.control().status().unwrap()["ports"].as_array().unwrap().len(), 1);
    // While one waits for a word nothing else is applied, and it is gone back from.
    assert!(apply(&file(&node, "x.toml", &role(7)), &["--confirm-within", "1h"]).0);
    let (done, said) = apply(&free, &["--dry-run"]);
    assert!(!done && said.contains("the node would refuse it: ") && said.contains("waits to be confirmed"), "{said}");
    let (done, said) = node.anode(&["node", "rollback", "--dry-run"]);
    assert!(done && said.starts_with("role guests limits.packets_per_second: 7 → 1000\n"), "{said}");
    let (done, said) = node.anode(&["node", "rollback"]);
    assert!(done, "{said}");
    let (done, said) = node.anode(&["node", "rollback", "99", "--dry-run"]);
    assert!(!done && said.contains("there is no configuration 99"), "{said}");
    // What was refused is not told as if it had been done.
    let (_, said) = node.anode(&["node", "events", "--kind", "node"]);
    let refused = said.lines().filter(|line| line.contains("; refused: ")).collect::<Vec<_>>();
    assert!(refused.len() == 3 && refused.iter().all(|line| line.contains("not done: a configuration was")), "{said}");
}

#[test]
fn what_contradicts_or_is_half_written_is_refused_and_touches_nothing() {
    let node = Node::start(&role(1000));
    let begin = standing(&node);
    for (more, part) in [
        ("[[route]]\nto = \"10.0.0.0/8\"\nvia = \"192.0.2.1\"\n", "no port has this next hop"),
        ("[[role]]\nname = \"r\"\n[[role]]\nname = \"r\"\n", "r stands twice"),
        ("[[ee]]\nname = \"e\"\ncommand = [\"sh\"]\nrole = \"none\"\n", "no such [[role]]"),
        ("[entry]\nshare = 7.0\n", "[entry] share = 7"),
        ("[[role]]\nname = \"anyone\"\nrepresentations = [\"native\"]\n", "can have neither native code"),
        ("[cpu\n", "TOML parse error"),
        ("[cpu]\nshare = 0.5", "its last line does not end"),
    ] {
        let (done, said) = apply(&file(&node, "bad.toml", more), &[]);
        assert!(!done && said.contains(part), "{more:?}: {said}");
    }
    // Workers are as many as receive queues, if nothing else is said: one here.
    let far = file(&node, "far.toml", &(role(1000) + &shell("e", "exec sleep 1") + "worker = 2\n"));
    let check = anode(&["node", "check"], &far).output().unwrap();
    let check = (check.status.success(), String::from_utf8(check.stderr).unwrap());
    for (done, said) in [check, apply(&far, &[])] {
        assert!(!done && said.contains("ee e: worker = 2: the node's last one is 0"), "{said}");
    }
    // The node itself refuses what no command line would send.
    let why = operator::give(&node.run_dir(), "name = \"other\"\n[[port]]\nudp = \"127.0.0.1:0\"\n", "x").unwrap_err();
    assert!(why.contains("this node is m"), "{why}");
    let why = operator::give(&node.run_dir(), &"#".repeat((1 << 20) + 1), "x").unwrap_err();
    assert!(why.contains("1048576 bytes"), "{why}");
    let why = configure(&node, json!({"apply": {"number": 99}})).unwrap_err();
    assert!(why.contains("has given another configuration meanwhile"), "{why}");
    assert_eq!(standing(&node)["number"], begin["number"]);
}

#[test]
fn of_two_who_apply_at_once_one_is_refused_and_told_who_the_other_is() {
    let node = Node::start(&role(1000));
    let texts = [7, 8].map(|packets| fs::read_to_string(file(&node, "x.toml", &role(packets))).unwrap());
    let [first, second] = texts.map(|text| operator::give(&node.run_dir(), &text, "x").unwrap());
    let why = configure(&node, json!({"apply": {"number": first}})).unwrap_err();
    let own = std::process::id();
    assert!(why.contains(&format!("process {own} has given another configuration meanwhile")), "{why}");
    let base = standing(&node)["number"].as_u64().unwrap();
    let wish = |base: u64| json!({"apply": {"number": second, "base": base, "confirm_within_ms": 3_600_000}});
    let why = configure(&node, wish(base + 99)).unwrap_err();
    assert!(why.contains("look again"), "{why}");
    configure(&node, wish(base)).unwrap();
    let (done, said) = apply(&file(&node, "y.toml", &role(9)), &[]);
    assert!(!done && said.contains(&format!("process {own} waits to be confirmed, for ")), "{said}");
    assert_eq!(standing(&node)["refused"], 3);
}

#[test]
fn of_many_who_apply_at_once_each_is_done_or_told_why_not() {
    let node = Node::start(&role(1000));
    let all: Vec<_> = (1..=6).map(|at| file(&node, &format!("{at}.toml"), &role(at))).collect();
    let said: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = all.iter().map(|path| scope.spawn(|| apply(path, &[]))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (done, said) in &said {
        let known = ["has given another configuration meanwhile", "changes the configuration right now", "look again"];
        assert!(*done || known.iter().any(|known| said.contains(known)), "{said}");
    }
    // It may be none: whose is the last is told of one who is at it, and that one of the last.
    let done = said.iter().filter(|(done, _)| *done).count();
    assert_eq!(standing(&node)["applied"], done);
    assert_eq!(history(&node).len(), 1 + done, "each of them ran");
    assert!(apply(&file(&node, "alone.toml", &role(9)), &[]).0, "nobody is in the way any more");
}

#[test]
fn what_nobody_confirms_is_taken_back_and_what_somebody_does_stays() {
    let node = Node::start(&role(1000));
    let other = file(&node, "other.toml", &(role(7) + "[cpu]\nshare = 0.5\n"));
    // Whoever asks for it is gone at once.
    let (done, said) = apply(&other, &["--confirm-within", "300ms"]);
    assert!(done && said.contains("taken back in 1 s unless confirmed"), "{said}");
    node.until(|| (standing(&node)["reverted"] == 1).then_some(()));
    assert_eq!(node.control().status().unwrap()["cpu"]["share"], 1.0);
    let last = history(&node).pop().unwrap();
    assert!(last["who"].as_str().unwrap().contains("was not confirmed"), "{last}");
    assert!(last["changes"].to_string().contains("guests limits.packets_per_second: 7 → 1000"), "{last}");
    let (done, said) = node.anode(&["node", "rollback"]);
    assert!(!done && said.contains("no other configuration has run before"), "not what nobody has confirmed: {said}");
    let runs = || standing(&node)["number"].to_string();
    let (done, said) = node.anode(&["node", "confirm", &runs()]);
    assert!(!done && said.contains("no configuration waits to be confirmed"), "{said}");
    let before = runs();
    let (done, said) = apply(&other, &["--confirm-within", "1h"]);
    let words = format!("unless confirmed: anode node confirm {} {}\n", node.run_dir().display(), runs());
    assert!(done && said.ends_with(&words), "{said}");
    // Who means another one has not looked at this one.
    let (done, said) = node.anode(&["node", "confirm", &before]);
    let own = format!("configuration {}, of ", runs());
    assert!(
        !done && said.contains(&own) && said.contains(&format!("confirmed, and not {before}: look at it")),
        "{said}"
    );
    assert!(standing(&node)["unconfirmed_ms"].as_u64().unwrap() > 3_000_000);
    let (done, said) = node.anode(&["node", "confirm", &runs()]);
    assert!(done && said.contains(&format!("configuration {} stays", runs())), "{said}");
    let status = node.control().status().unwrap();
    assert_eq!((&status["cpu"]["share"], &status["configuration"]["unconfirmed_ms"]), (&json!(0.5), &Value::Null));
}

#[test]
fn the_last_twenty_are_kept_and_each_can_be_gone_back_to() {
    let node = Node::start(&role(1000));
    for packets in 1..=25 {
        assert!(apply(&file(&node, "\u{1b}[31mother.toml", &role(packets)), &[]).0);
    }
    let all = history(&node);
    assert_eq!(all.len(), 20);
    assert_eq!(all.last().unwrap()["changes"], json!(["role guests limits.packets_per_second: 24 → 25"]));
    let (_, said) = node.anode(&["node", "history"]);
    assert!(!said.contains('\u{1b}') && said.contains("\\u001b[31mother.toml"), "{said}");
    let (done, said) = node.anode(&["node", "rollback"]);
    assert!(done && said.starts_with("role guests limits.packets_per_second: 25 → 24\n"), "{said}");
    let tenth = all[10]["number"].to_string();
    let (done, said) = node.anode(&["node", "rollback", &tenth, "--dry-run"]);
    assert!(done && said.starts_with("role guests limits.packets_per_second: 24 → 16\n"), "{said}");
    let (done, said) = node.anode(&["node", "rollback", "1"]);
    assert!(!done && said.contains("there is no configuration 1: see anode node history"), "{said}");
    // They outlive the process.
    let before = history(&node).last().unwrap()["number"].as_u64().unwrap();
    let node = Node::start_in(node.down(), &role(1000));
    let all = history(&node);
    assert_eq!((all.len(), all.last().unwrap()["number"].as_u64()), (20, Some(before + 1)));
    let (done, said) = node.anode(&["node", "rollback"]);
    assert!(done && said.starts_with("role guests limits.packets_per_second: 1000 → 24\n"), "{said}");
}

#[test]
fn a_hang_up_has_the_file_read_again_and_a_bad_one_is_refused() {
    let node = Node::start(&role(1000));
    let hang_up = || {
        let done = Command::new("kill").args(["-HUP", &node.process.id().to_string()]).status().unwrap();
        assert!(done.success());
    };
    file(&node, "node.toml", &role(7));
    hang_up();
    node.until(|| (standing(&node)["applied"] == 1).then_some(()));
    assert_eq!(history(&node).last().unwrap()["who"], "SIGHUP");
    file(&node, "node.toml", "[[role]]\nname = \"gues");
    hang_up();
    node.until(|| (standing(&node)["refused"] == 1).then_some(()));
    assert_eq!(standing(&node)["applied"], 1);
    // However many there are, and whatever is being applied just then: what the file says at the last one holds.
    for packets in 10..40 {
        file(&node, "node.toml", &role(packets));
        hang_up();
    }
    node.until(|| {
        let last = history(&node).pop()?["changes"].to_string();
        last.contains(" → 39").then_some(())
    });
}

/// The control socket is there before all else is: whoever finds it may send a signal.
#[test]
fn a_hang_up_while_the_node_begins_does_not_end_it() {
    for _ in 0..4 {
        let node = Node::start_in(tempfile::tempdir().unwrap(), &role(1000));
        let pid = node.process.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        wait::text(&node.dir.path().join("log"), Some(&node.process), |log| log.contains("node runs").then_some(()));
        node.down();
    }
}

#[test]
fn a_node_that_is_killed_while_it_applies_comes_up_whole() {
    let mut dir = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let mut node = Node::start_in(dir, &role(1000));
        let number = standing(&node)["number"].as_u64().unwrap();
        let all: Vec<_> = (0..8).map(|at| file(&node, &format!("{at}.toml"), &role(round * 10 + at + 1))).collect();
        let applies = std::thread::spawn(move || all.iter().take_while(|path| apply(path, &[]).0).count());
        node.until(|| (standing(&node)["number"].as_u64()? > number + round).then_some(()));
        node.process.kill().unwrap();
        assert!(applies.join().unwrap() >= round as usize, "a kill may come before the answer");
        dir = node.down_dead();
    }
    let node = Node::start_in(dir, &role(1000));
    let numbers: Vec<u64> = history(&node).iter().map(|kept| kept["number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert_eq!(history(&node).last().unwrap()["who"], "the start of the node");
}

#[test]
fn a_node_gets_its_configuration_from_nobody_but_its_operator() {
    use std::os::unix::fs::MetadataExt as _;
    let node = Node::start(&role(1000));
    let facts = fs::metadata(node.run_dir().join(OPERATOR_SOCKET)).unwrap();
    assert_eq!((facts.mode() & 0o777, facts.uid()), (0o600, rustix::process::geteuid().as_raw()));
    let kept = fs::metadata(node.run_dir().join("configurations")).unwrap();
    assert_eq!((kept.mode() & 0o777, kept.uid()), (0o700, rustix::process::geteuid().as_raw()));
    if crate::single::is_root("only root's nodes are somebody else") {
        let user = fs::metadata(node.run_dir().join("control.sock")).unwrap().uid();
        assert_ne!((user, facts.uid()), (0, user), "the node is not its operator");
    }
    for garbage in ["", "{", "[]", "{\"text\":7}", "{\"text\":\"\",\"source\":\"\",\"more\":1}"] {
        use std::io::{Read as _, Write as _};
        let mut connection = std::os::unix::net::UnixStream::connect(node.run_dir().join(OPERATOR_SOCKET)).unwrap();
        connection.write_all(garbage.as_bytes()).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("{\"error\":\"request not understood"), "{garbage:?}: {answer}");
    }
    assert_eq!(standing(&node)["applied"], 0);
}

#[test]
fn neighbours_come_move_and_go_with_configurations() {
    let near = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let (first, second) = (near(), near());
    let port = |neighbours: String| {
        format!(
            "{}[[port]]\nname = \"two\"\nudp = \"127.0.0.1:0\"\naddress = [\"10.5.0.1/24\"]\nhello_interval_ms = 100\n\
             neighbours = [{neighbours}]\n",
            role(1000)
        )
    };
    let at = |socket: &UdpSocket| format!("{{ address = \"10.5.0.2\", at = \"{}\" }}", socket.local_addr().unwrap());
    let node = Node::start(&port(String::new()));
    let known = || {
        let all = node.control().status().unwrap()["neighbours"].as_array().unwrap().clone();
        all.iter().filter(|near| near["port"] == "two").count()
    };
    let hears = |socket: &UdpSocket| {
        socket.set_read_timeout(Some(wait::PATIENCE)).unwrap();
        socket.recv_from(&mut [0; 2048]).unwrap().1
    };
    assert_eq!(known(), 0);
    let (done, said) = apply(&file(&node, "x.toml", &port(at(&first))), &[]);
    assert!(done && said.starts_with("+ port two neighbours 10.5.0.2\n"), "{said}");
    let from = hears(&first);
    assert_eq!(known(), 1);
    assert!(apply(&file(&node, "x.toml", &port(at(&second))), &[]).0);
    assert_eq!(hears(&second), from, "the socket is the same");
    assert!(apply(&file(&node, "x.toml", &port(String::new())), &[]).0);
    assert_eq!(known(), 0);
    let status = node.control().status().unwrap();
    assert_eq!((&status["unaccounted"], &status["configuration"]["applied"]), (&json!(0), &json!(3)));
}

/// An environment that a shell is.
fn shell(name: &str, script: &str) -> String {
    format!("[[ee]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", {script:?}]\nrestart = \"always\"\n")
}

#[test]
fn environments_come_and_go_with_configurations_and_by_name() {
    let (one, two) = (shell("one", "exec sleep 1000"), shell("two", "exec sleep 1000"));
    let node = Node::start(&(role(1000) + &one));
    let is = |state: &'static str| move |environment: &Value| environment["state"] == state;
    let first = node.await_environment("one", is("running"))["pid"].clone();
    assert!(apply(&file(&node, "other.toml", &(role(7) + &one + &two)), &[]).0);
    node.await_environment("two", is("running"));
    assert_eq!(node.environment("one")["pid"], first, "it has not changed");
    let changed = shell("two", "exec sleep 2000");
    assert!(apply(&file(&node, "other.toml", &(role(7) + &one + &changed)), &[]).0);
    node.await_environment("two", |environment| environment["starts"] == 2 && environment["state"] == "running");
    let act = |verb: &str, name: &str| {
        let mut command = Command::new(ANODE);
        let done = command.args(["ee", verb]).arg(node.run_dir()).arg(name).stdin(Stdio::null()).output().unwrap();
        (done.status.success(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
    };
    let (done, said) = act("stop", "one");
    assert!(done && said.contains("one              stopped"), "{said}");
    wait::gone(first.as_u64().unwrap() as u32);
    let (done, said) = act("stop", "one");
    assert!(!done && said.contains("one does not run"), "{said}");
    let (done, said) = act("start", "one");
    assert!(done && said.contains("running") && said.contains("started 2 times, failed 0"), "{said}");
    let (done, said) = act("start", "one");
    assert!(!done && said.contains("one runs already"), "{said}");
    let (done, said) = act("restart", "one");
    assert!(done && said.contains("started 3 times"), "{said}");
    let (done, said) = act("start", "three");
    assert!(!done && said.contains("there is no environment three; there are: one, two"), "{said}");
    assert!(apply(&file(&node, "other.toml", &(role(7) + &one)), &[]).0);
    node.until(|| node.find("two").is_none().then_some(()));
    let (done, said) = node.anode(&["ee", "ls"]);
    assert!(done && said.lines().count() == 1 && said.starts_with("one"), "{said}");
    assert!(node.domains()["domains"].as_array().unwrap().iter().all(|domain| domain["title"] != "two"));
    // A process that ignores being asked is killed.
    let deaf = shell("one", "trap '' TERM; while :; do sleep 1000; done");
    assert!(apply(&file(&node, "other.toml", &(role(7) + &deaf)), &[]).0);
    node.await_environment("one", |environment| environment["starts"] == 4 && environment["state"] == "running");
    // One that is taken away and is there again before it has ended comes back.
    assert!(apply(&file(&node, "other.toml", &role(7)), &[]).0);
    assert!(apply(&file(&node, "other.toml", &(role(7) + &deaf)), &[]).0);
    node.await_environment("one", |environment| {
        environment["starts"].as_u64() >= Some(1) && environment["state"] == "running"
    });
    let (done, said) = act("stop", "one");
    assert!(done && said.contains("stopped"), "{said}");
}

/// What `print(memoryUse())` comes to at a node, signed with the key that is in its directory.
fn signed(node: &Node) -> (Option<i32>, String) {
    let mut command = Command::new(ANODE);
    command.args([
        "plan",
        "inject",
        "who.plan",
        "1",
        "who()",
        "--sign",
        "root.key",
        "--replies",
        "1",
        "--wait",
        "60",
        "--node",
    ]);
    let done = command.arg(node.run_dir()).current_dir(node.dir.path()).output().unwrap();
    (done.status.code(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
}

#[test]
fn other_services_of_a_role_are_seen_from_the_next_packet_on() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("who.plan"), "fun who() : unit = print(length(memoryUse()) > 0)\n").unwrap();
    let made = anode(&["cred", "new", "--json"], &dir.path().join("root.key")).output().unwrap();
    let key: Value = serde_json::from_slice(&made.stdout).unwrap();
    let role = |services: &str| {
        format!("[[role]]\nname = \"ops\"\ntrusts = [{}]\nservices = [{services}]\n", key["principal"])
    };
    let plan = "[plan]\nrestricted = [\"memoryUse\"]\n";
    let node = Node::start_in(dir, &format!("{plan}{}", role("")));
    for (applied, services) in ["", "\"memoryUse\"", "", "\"memoryUse\", \"bandwidthSend\""].into_iter().enumerate() {
        if applied > 0 {
            let (done, said) = apply(&file(&node, "next.toml", &role(services)), &[]);
            assert!(done && said.contains("role ops services"), "{said}");
        }
        let (status, said) = signed(&node);
        let seen = services.contains("memoryUse");
        let expected = if seen { (Some(0), "true") } else { (Some(3), "raised ServiceNotPresent") };
        assert!(status == expected.0 && said.contains(expected.1), "{services}: {status:?} {said}");
        assert_eq!(standing(&node)["applied"].as_u64().unwrap_or(0), applied as u64);
    }
}
