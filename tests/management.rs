//! Environments in processes of their own, at real nodes: they start, are kept to what they have, and end with their domains.

#[path = "nodeos/build.rs"]
mod build;

use anode::manage::client::Control;
use build::{Linked, build};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long something may take that is bound to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that runs.
struct Node {
    process: Child,
    dir: tempfile::TempDir,
}

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

impl Node {
    fn start(config: &str) -> Node {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let beginning = format!(
            "name = \"m\"\nrun_dir = {:?}\nfiles = {:?}\n[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.9.9.1/24\"]\n",
            at("run"),
            at("files")
        );
        fs::write(at("node.toml"), format!("{beginning}{ROLE}{config}")).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_anode"))
            .args(["node", "run"])
            .arg(at("node.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(at("log")).unwrap())
            .spawn()
            .unwrap();
        let node = Node { process, dir };
        node.until("its sockets", || Control::connect(&node.run_dir()).ok());
        node
    }

    fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Looks until there is something.
    fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < end, "no {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn domains(&self) -> Value {
        Control::connect(&self.run_dir()).unwrap().ask(&json!({"do": "domains"})).unwrap()
    }

    fn environment(&self, name: &str) -> Value {
        let all = self.domains();
        all["environments"].as_array().unwrap().iter().find(|environment| environment["name"] == name).unwrap().clone()
    }

    /// Looks at an environment until `there` says yes.
    fn await_environment(&self, name: &str, there: impl Fn(&Value) -> bool) -> Value {
        self.until(name, || Some(self.environment(name)).filter(&there))
    }

    /// What an environment has said, once it has said it.
    fn await_said(&self, begins: &str) -> String {
        self.until(begins, || {
            let log = self.log();
            let at = log.find(begins)?;
            let rest = &log[at + begins.len()..];
            rest.find(['"', '\n']).map(|end| rest[..end].trim().to_owned())
        })
    }

    fn anode(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anode"));
        let (verb, rest) = arguments.split_at(2);
        let done = command.args(verb).arg(self.run_dir()).args(rest).output().unwrap();
        (done.status.success(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether a process is gone, or only waits for its parent.
fn is_gone(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z') || rest.starts_with('X'))
}

fn pid(environment: &Value) -> String {
    environment["pid"].as_u64().unwrap().to_string()
}

/// Lives until it is ended, with a child, and says which; the children of shells ignore being asked.
const FAMILY: &str = "trap '' TERM; sh -c \"trap '' TERM; while :; do sleep 1000; done\" & echo child $! >&2; while :; do sleep 1000; done";

#[test]
fn the_management_environment_is_first_and_the_others_are_below_it() {
    let node = Node::start(&shell("idle", "role = \"ee\"", "exec sleep 1000"));
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
    let node = Node::start(&shell("family", "role = \"ee\"\nrestart = \"always\"", FAMILY));
    let running = node.await_environment("family", |environment| environment["state"] == "running");
    let child = node.await_said("child ");
    assert!(!is_gone(&pid(&running)) && !is_gone(&child));
    for own in ["node", "capsules", "management", "99999"] {
        let (done, text) = node.anode(&["domain", "kill", own]);
        assert!(!done && (text.contains("ends with it") || text.contains("there is no domain")), "{text}");
    }
    let (done, text) = node.anode(&["domain", "kill", "family"]);
    assert_eq!(
        (done, text.as_str()),
        (true, "ended 1 domains; freed 0 channels, 0 events, 0 codes, 0 B of memory, 0 open files\n")
    );
    node.until("end of the child", || is_gone(&child).then_some(()));
    node.until("end of the process", || is_gone(&pid(&running)).then_some(()));
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
    let node = Node::start(&config.concat());
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
    assert_eq!(ended("once"), (1, 1, json!("signal 11")));
    assert_eq!(ended("absent"), (1, 1, json!("status 1")));
    node.await_said("no-such-program: ");
}

#[test]
fn a_process_that_ends_by_itself_takes_its_children_along() {
    let script = "sh -c 'while :; do sleep 1000; done' & echo child $! >&2; exit 0";
    let node = Node::start(&shell("parent", "", script));
    let child = node.await_said("child ");
    node.await_environment("parent", |environment| environment["state"] == "ended");
    node.until("end of the child", || is_gone(&child).then_some(()));
}

#[test]
fn all_end_when_the_node_goes_down_and_when_it_is_killed() {
    let polite = shell("polite", "", "trap 'exit 0' TERM; while :; do sleep 0.1; done");
    for kill in [false, true] {
        let mut node = Node::start(&[shell("family", "", FAMILY), polite.clone()].concat());
        let child = node.await_said("child ");
        let pids = ["family", "polite"].map(|name| pid(&node.await_environment(name, |it| it["state"] == "running")));
        if kill {
            node.process.kill().unwrap();
        } else {
            assert!(node.anode(&["node", "down"]).0);
        }
        let status = node.process.wait().unwrap();
        assert_eq!(status.success(), !kill);
        for pid in &pids {
            node.until("end of a process", || is_gone(pid).then_some(()));
        }
        if !kill {
            node.until("end of the child", || is_gone(&child).then_some(()));
        } else {
            // It outlives a node that could do nothing, with nothing of the node's.
            let _ = Command::new("kill").args(["-KILL", &child]).status();
        }
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
        run=$(dirname \"$ANODE_NODEOS\")
        test -d \"$run\" && say node found
        say descriptors $(ls /proc/self/fd | wc -l)
        cat {secret:?} 2>/dev/null && say secret read || say secret kept
        ls \"$run/../files\" 2>/dev/null && say files seen || say files kept
        cat \"$run/../node.toml\" 2>/dev/null && say config read || say config kept
        (echo x > {made:?}) 2>/dev/null && say file made || say file refused
        (echo x > /tmp/anode-test-made) 2>/dev/null && say tmp made || say tmp refused
        echo x > /dev/null && say null written
        setsid true 2>/dev/null && say session left || say session kept
        grep -q 'NoNewPrivs:\\s*1' /proc/self/status && say privileges none
        say capabilities $(grep CapBnd /proc/self/status | cut -f 2) $(grep CapEff /proc/self/status | cut -f 2)
        kill -0 $PPID 2>/dev/null && say signal sent || say signal refused
        say \"$({binary:?} domain kill \"$run\" self 2>&1 >/dev/null | head -1)\"
        echo \"$all end of script\" >&2
        exec sleep 1000"
    );
    let reads = words(&[binary.parent().unwrap().to_str().unwrap()]);
    let node = Node::start(&shell("self", &format!("reads = {reads}"), &script));
    node.await_said("end of");
    let log = node.log();
    let enforced = !log.contains("no Landlock");
    let said = |what: &str| assert!(log.contains(what), "{what} was not said\n{log}");
    for what in ["node found", "null written", "session kept", "privileges none", "have no control of the node"] {
        said(what);
    }
    said("capabilities 0000000000000000 0000000000000000");
    // Standard streams, and the directory that is listed.
    said("descriptors 4");
    if enforced {
        for what in ["secret kept", "files kept", "config kept", "file refused", "tmp refused", "signal refused"] {
            said(what);
        }
        assert!(!made.exists());
    } else {
        assert!(std::env::var_os("CI").is_none(), "this kernel has no Landlock");
        eprintln!("SKIPPED files and signals: this kernel has no Landlock");
    }
    assert_eq!(node.environment("self")["state"], "running", "it has not ended itself");
}

#[test]
fn an_environment_has_its_domain_its_role_and_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("tests/nodeos/environment.c", folder.path(), &["-O1"], Linked::Static);
    let rich = "[[role]]\nname = \"rich\"\ngrants = { files = 20 }\n";
    let ee = format!("[[ee]]\nname = \"lives\"\nrole = \"ee\"\nrestart = \"always\"\ncommand = [{program:?}]\n");
    let node = Node::start(&format!("{rich}{ee}"));
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
    node.until("one life's domains", || {
        ((there("lives"), there("second"), there("domain")) == (1, 1, 1)).then_some(())
    });
    let (done, text) = node.anode(&["domain", "kill", "lives"]);
    assert!(done && text.starts_with("ended 3 domains; freed 0 channels, 0 events, 0 codes, "), "{text}");
    node.await_environment("lives", |environment| environment["state"] == "killed");
    assert_eq!(there("lives") + there("second") + there("domain"), 0);
    let files =
        node.until("closed files", || Some(node.domains()["files"][0].clone()).filter(|files| files["open"] == 0));
    assert_eq!(files["used"], json!({"files": 2, "bytes": 1}));
}

#[test]
fn what_a_process_says_is_bounded() {
    let script = "while :; do echo flood; done >&2";
    let node = Node::start(&shell("loud", "", script));
    node.await_said("floo");
    // While it floods, the node answers and ends it.
    let running = node.await_environment("loud", |environment| environment["state"] == "running");
    assert!(node.anode(&["domain", "kill", "loud"]).0);
    node.until("end of the process", || is_gone(&pid(&running)).then_some(()));
    let lines = node.log().matches("flood").count();
    assert!(lines < 5000, "{lines} lines");
}
