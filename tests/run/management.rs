//! Environments in processes of their own, at real nodes: they start, are kept to their role, and end with their
//! domains.

use crate::build::{Linked, build};
use crate::single::Node;
use crate::wait;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Words for TOML.
fn words(all: &[&str]) -> String {
    format!("{all:?}")
}

/// An environment that a shell is.
fn shell(name: &str, rest: &str, script: &str) -> String {
    format!("[[ee]]\nname = \"{name}\"\n{rest}\ncommand = {}\n", words(&["sh", "-c", script]))
}

/// A role that environments can have.
const ROLE: &str = "[[role]]\nname = \"ee\"\ngrants = { files = 10, file_bytes = 1000, domains = 4, channels = 4 }\n";

/// A node with that role and these environments.
fn start(environments: &str) -> Node {
    Node::start(&format!("{ROLE}{environments}"))
}

/// Waits until a process is gone, or only waits for its parent.
fn await_end(pid: &str) {
    wait::gone(pid.parse().unwrap());
}

/// The number on this host of what a process calls by a number of its jail.
fn on_host(of: &str, inner: &str) -> String {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let is = |pid: &String| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        numbers.split_whitespace().last() == Some(inner) && namespace(pid) == namespace(of)
    };
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    all.filter(|name| name.parse::<u32>().is_ok())
        .find(is)
        .unwrap_or_else(|| panic!("no process {inner} in the jail of {of}"))
}

fn pid(environment: &Value) -> String {
    environment["pid"].as_u64().unwrap().to_string()
}

/// Lives until it is ended, with a child, and says which; the children of shells ignore being asked.
const FAMILY: &str = "trap '' TERM; sh -c \"trap '' TERM; while :; do sleep 1000; done\" & echo child $! >&2; while :; do sleep 1000; done";

#[test]
fn the_management_environment_is_first_and_the_others_are_below_it() {
    let node = start(&shell("idle", "role = \"ee\"", "exec sleep 1000"));
    let running = node.await_environment("idle", |environment| environment["state"] == "running");
    let all = node.domains();
    let list = all["domains"].as_array().unwrap();
    let titles: Vec<_> = list.iter().map(|domain| domain["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["node", "management", "idle", "capsules", "plan"]);
    assert_eq!((&list[1]["parent"], &list[2]["parent"]), (&list[0]["id"], &list[1]["id"]));
    assert_eq!((&list[2]["role"], &list[2]["id"]), (&json!("ee"), &running["domain"]));
    assert_eq!(
        all["files"][0],
        json!({"holder": "idle", "quota": {"files": 10, "bytes": 1000}, "used": {"files": 0, "bytes": 0}, "open": 0, "refused": 0})
    );
    assert_eq!(all["security"]["domains_granted"], 1);
    let (done, text) = node.anode(&["domain", "ls"]);
    assert!(done && text.contains("    idle") && text.contains("environment idle is running"), "{text}");
    let (done, text) = node.anode(&["domain", "show", "idle"]);
    assert!(done && text.contains("grants.files                     10\n"), "{text}");
    assert!(node.anode(&["channel", "ls"]).0);
}

#[test]
fn a_process_ends_with_its_domain_and_all_it_has_started_too() {
    let node = start(&shell("family", "role = \"ee\"\nrestart = \"always\"", FAMILY));
    let running = node.await_environment("family", |environment| environment["state"] == "running");
    let child = on_host(&pid(&running), &node.await_said("child "));
    for own in ["node", "capsules", "management", "99999"] {
        let (done, text) = node.anode(&["domain", "kill", own]);
        assert!(!done && (text.contains("ends with it") || text.contains("there is no domain")), "{text}");
    }
    let (done, text) = node.anode(&["domain", "kill", "family"]);
    assert_eq!(
        (done, text.as_str()),
        (true, "ended 1 domains; freed 0 channels, 0 events, 0 codes, 0 B of memory, 0 open files\n")
    );
    await_end(&child);
    await_end(&pid(&running));
    let ended = node.await_environment("family", |environment| environment["state"] == "killed");
    assert_eq!((&ended["starts"], &ended["failures"], &ended["pid"]), (&json!(1), &json!(0), &Value::Null));
    assert!(node.domains()["domains"].as_array().unwrap().iter().all(|domain| domain["title"] != "family"));
}

#[test]
fn a_process_that_fails_is_started_again_in_a_new_domain_and_one_that_does_not_is_not() {
    let config = [
        shell("failing", "restart = \"on-failure\"", "exit 3"),
        shell("done", "restart = \"on-failure\"", "exit 0"),
        shell("again", "restart = \"always\"", "exit 0"),
        shell("once", "restart = \"never\"", "kill -SEGV $$"),
        "[[ee]]\nname = \"absent\"\ncommand = [\"no-such-program\"]\nrestart = \"never\"\n".into(),
    ];
    let node = start(&config.concat());
    let failing = node.await_environment("failing", |environment| environment["failures"].as_u64() > Some(2));
    assert_eq!(failing["ended"], "status 3");
    node.await_environment("again", |environment| environment["starts"].as_u64() > Some(2));
    assert_eq!(node.environment("again")["failures"], 0);
    let ended = |name: &str| {
        let environment = node.await_environment(name, |environment| environment["state"] == "ended");
        (
            environment["starts"].as_u64().unwrap(),
            environment["failures"].as_u64().unwrap(),
            environment["ended"].clone(),
        )
    };
    assert_eq!(ended("done"), (1, 0, json!("status 0")));
    let (done, text) = node.anode(&["domain", "ls"]);
    assert!(
        done && text.contains("environment done is ended: started 1 times, failed 0 times, ended last: status 0"),
        "{text}"
    );
    assert_eq!(ended("once"), (1, 1, json!("signal 11")));
    let (starts, failures, why) = ended("absent");
    assert!(
        (starts, failures) == (1, 1)
            && why.as_str().unwrap().ends_with("cannot start no-such-program: no such program"),
        "{why}"
    );
}

#[test]
fn a_cut_that_cannot_be_is_refused_by_the_end_that_is_meant() {
    let node = start("");
    let (done, text) = node.anode(&["channel", "cut", "passed *", "if0/ip *", "--role", "ee"]);
    assert!(!done && text.contains("passed: programs pass packets on"), "{text}");
    let (done, text) = node.anode(&["channel", "cut", "if7/ip 10.0.2.0/24", "if8/ip * proto 17", "--role", "ee"]);
    let why = "no cut-through channel: if7/ip 10.0.2.0/24: no interface, route or file of this name";
    assert!(!done && text.contains(why), "{text}");
    assert!(node.domains()["domains"].as_array().unwrap().iter().all(|domain| domain["title"] != "cut-through"));
}

#[test]
fn a_process_that_ends_by_itself_takes_its_children_along() {
    let script = "trap 'exit 0' TERM; sh -c 'while :; do sleep 1000; done' & echo child $! >&2; wait";
    let node = start(&shell("parent", "restart = \"never\"", script));
    let running = node.await_environment("parent", |environment| environment["state"] == "running");
    let child = on_host(&pid(&running), &node.await_said("child "));
    assert!(Command::new("kill").args(["-TERM", &pid(&running)]).status().unwrap().success());
    node.await_environment("parent", |environment| environment["state"] == "ended");
    await_end(&child);
}

#[test]
fn all_end_when_the_node_goes_down_and_when_it_is_killed() {
    let polite = shell("polite", "", "trap 'exit 0' TERM; sleep 1000 & wait");
    for kill in [false, true] {
        let mut node = start(&[shell("family", "", FAMILY), polite.clone()].concat());
        let pids = ["family", "polite"].map(|name| pid(&node.await_environment(name, |it| it["state"] == "running")));
        let child = on_host(&pids[0], &node.await_said("child "));
        if kill {
            node.process.kill().unwrap();
        } else {
            assert!(node.anode(&["node", "down"]).0);
        }
        let status = node.process.wait().unwrap();
        assert_eq!(status.success(), !kill);
        for pid in &pids {
            await_end(pid);
        }
        // It dies with its jail, which dies with the node.
        await_end(&child);
    }
}

#[test]
fn a_process_has_nothing_but_what_it_was_given() {
    let binary = Path::new(env!("CARGO_BIN_EXE_anode"));
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let (secret, made) = (outside.path().join("secret"), outside.path().join("made"));
    let script = format!(
        "say() {{ all=\"$all$*; \"; }}
        say socket $ANODE_NODEOS_FD path $ANODE_NODEOS user $(id -u) pid $$
        for path in {secret:?} THERE/control.sock THERE/nodeos.sock THERE/../files THERE/../node.toml /proc/OUTSIDE /etc/shadow /root; do
            test -e $path && say sees $path; done
        (echo x > {made:?}) 2>/dev/null && say file made || say file refused
        (echo x > /tmp/anode-test-made) 2>/dev/null && say tmp made || say tmp refused
        (chmod 4755 /usr/bin/true) 2>/dev/null && say mode changed || say mode kept
        echo x > /dev/null && say null written
        setsid true 2>/dev/null && say session left || say session kept
        unshare -Ur true 2>/dev/null && say users made || say users refused
        kill -0 $PPID 2>/dev/null && kill -9 1 2>/dev/null; kill -0 OUTSIDE 2>/dev/null && say signal sent || say signal refused
        {binary:?} domain kill THERE self > /dev/null 2>&1 && say control found || say control refused
        echo \"$all end of script\" >&2
        exec sleep 1000"
    );
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let script = script.replace("THERE", run.to_str().unwrap()).replace("OUTSIDE", &std::process::id().to_string());
    let reads = words(&[binary.to_str().unwrap()]);
    let node = Node::start_in(dir, &(ROLE.to_owned() + &shell("self", &format!("reads = {reads}"), &script)));
    node.await_said("end of");
    let log = node.log();
    let said = |what: &str| assert!(log.contains(what), "{what} was not said\n{log}");
    said("socket 3 path user ");
    said("mode kept; null written; session kept; users refused; signal refused; control refused");
    let weaker = node.environment("self")["weaker"].clone();
    if weaker.as_array().is_none_or(|parts| !parts.contains(&json!("namespaces"))) {
        said("pid 2; file refused; tmp refused");
        assert!(!made.exists());
    } else {
        assert!(std::env::var_os("CI").is_none(), "weaker: {weaker}");
        eprintln!("SKIPPED files and signals: no namespaces here");
    }
    assert_eq!(node.environment("self")["state"], "running", "it has not ended itself");
}

#[test]
fn an_environment_has_its_domain_its_role_and_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("tests/nodeos/environment.c", folder.path(), &["-O1"], Linked::Static);
    let rich = "[[role]]\nname = \"rich\"\ngrants = { files = 20 }\n";
    let ee = format!("[[ee]]\nname = \"lives\"\nrole = \"ee\"\nrestart = \"always\"\ncommand = [{program:?}]\n");
    let node = start(&format!("{rich}{ee}"));
    // More than its role: refused. What leads out: invalid. Beyond the quota: the limit.
    let said = "more 3, escape 1, absent 6, shared 0, second 1, quota 4.";
    assert_eq!(node.await_said("life 1: "), said);
    let running = node.await_environment("lives", |environment| environment["state"] == "running");
    let all = node.domains();
    let list = all["domains"].as_array().unwrap();
    let own = list.iter().find(|domain| domain["title"] == "lives").unwrap();
    let below: Vec<_> = list.iter().filter(|domain| domain["parent"] == own["id"]).collect();
    assert_eq!((&own["id"], &own["role"]), (&running["domain"], &json!("ee")));
    assert_eq!(below.iter().map(|domain| domain["title"].as_str().unwrap()).collect::<Vec<_>>(), ["domain", "second"]);
    assert!(own["host"] != 0 && below[0]["host"] == own["host"] && below[1]["host"] != own["host"]);
    assert_eq!(all["files"][0]["used"], json!({"files": 2, "bytes": 1}));
    assert_eq!(all["files"][0]["open"], 1);
    // It dies by itself; what it had is gone but for its files.
    assert!(Command::new("kill").args(["-KILL", &pid(&running)]).status().unwrap().success());
    assert_eq!(node.await_said("life 2: "), said);
    let again = node.await_environment("lives", |environment| environment["starts"] == 2);
    assert!(again["domain"] != running["domain"]);
    let there = |title: &str| {
        let all = node.domains();
        all["domains"].as_array().unwrap().iter().filter(|domain| domain["title"] == title).count()
    };
    node.until(|| ((there("lives"), there("second"), there("domain")) == (1, 1, 1)).then_some(()));
    let (done, text) = node.anode(&["domain", "kill", "lives"]);
    assert!(done && text.starts_with("ended 3 domains; freed 0 channels, 0 events, 0 codes, "), "{text}");
    node.await_environment("lives", |environment| environment["state"] == "killed");
    assert_eq!(there("lives") + there("second") + there("domain"), 0);
    let files = node.until(|| Some(node.domains()["files"][0].clone()).filter(|files| files["open"] == 0));
    assert_eq!(files["used"], json!({"files": 2, "bytes": 1}));
}

#[test]
fn what_the_node_has_ended_has_failed_whatever_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("tests/nodeos/hangs.c", folder.path(), &["-O1"], Linked::Static);
    let ee = |name: &str, restart: &str| {
        format!("[[ee]]\nname = {name:?}\nrole = \"two\"\nrestart = {restart:?}\ncommand = [{program:?}]\n")
    };
    let role = "[[role]]\nname = \"two\"\ngrants = { threads = 2, events = 4 }\n";
    let node = start(&(role.to_owned() + &ee("again", "on-failure") + &ee("once", "never")));
    let again = node.await_environment("again", |environment| environment["starts"].as_u64() >= Some(2));
    assert!(again["failures"].as_u64() >= Some(1), "{again}");
    let how = again["ended"].as_str().unwrap();
    assert!(how.ends_with(", after the node had ended its domain"), "{how}");
    let once = node.await_environment("once", |environment| environment["state"] == "ended");
    assert_eq!((&once["starts"], &once["failures"]), (&json!(1), &json!(1)));
}

#[test]
fn a_domain_that_cannot_end_keeps_neither_the_node_nor_others_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("tests/nodeos/terminates.c", folder.path(), &["-O1"], Linked::Static);
    // So long may a thread be in a function that nothing here waits for the end of that.
    let role = "[[role]]\nname = \"two\"\ngrants = { threads = 2, thread_ms = 600_000, events = 4, domains = 4 }\n";
    let ee = format!("[[ee]]\nname = \"ends\"\nrole = \"two\"\nrestart = \"never\"\ncommand = [{program:?}]\n");
    let node = start(&(role.to_owned() + &ee + &shell("beside", "", "exec sleep 1000")));
    node.await_said("it ends a domain");
    // The domain is gone at the node, though the caller waits for its function.
    node.until(|| {
        let all = node.domains();
        let below = |domain: &&Value| domain["parent"] == node.environment("ends")["domain"];
        all["domains"].as_array().unwrap().iter().find(below).is_none().then_some(())
    });
    for _ in 0..10 {
        assert_eq!(node.control().status().unwrap()["node"], "m");
    }
    assert!(node.anode(&["domain", "kill", "beside"]).0);
    node.await_environment("beside", |environment| environment["state"] == "killed");
    let waits = node.environment("ends");
    assert_eq!((&waits["state"], &waits["starts"]), (&json!("running"), &json!(1)));
    assert!(!node.log().contains("it has ended it"), "the function is still there");
    assert!(node.anode(&["domain", "kill", "ends"]).0);
    await_end(&pid(&waits));
}

#[test]
fn what_a_process_says_is_bounded() {
    let script = "while :; do echo flood; done >&2";
    let node = start(&shell("loud", "", script));
    node.await_said("floo");
    // While it floods, the node answers and ends it.
    let running = node.await_environment("loud", |environment| environment["state"] == "running");
    assert!(node.anode(&["domain", "kill", "loud"]).0);
    await_end(&pid(&running));
    let lines = node.log().matches("flood").count();
    assert!(lines < 5000, "{lines} lines");
}
