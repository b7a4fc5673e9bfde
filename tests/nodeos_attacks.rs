//! What has been done to nodes by environments in processes, and may not be any more: attacks.c in a real environment, in a role that owns nothing, under a
//! node of root's (docs/threat-model.md). On the tree before jails each of them was done, but for those that Landlock and seccomp kept off already.

#[path = "nodeos/build.rs"]
mod build;

use anode::manage::client::Control;
use build::{Linked, build};
use libanode::seqpacket::SeqPacket;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
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

impl Node {
    fn start(dir: tempfile::TempDir, config: &str) -> Node {
        let at = |name: &str| dir.path().join(name);
        let beginning = format!(
            "name = \"m\"\nrun_dir = {:?}\nfiles = {:?}\n[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.9.9.1/24\"]\n",
            at("run"),
            at("files")
        );
        fs::write(at("node.toml"), format!("{beginning}{config}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_anode"));
        command.args(["node", "run"]).arg(at("node.toml")).stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.stderr(File::create(at("log")).unwrap()).spawn().unwrap();
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

    fn environment(&self, name: &str) -> Value {
        let all = Control::connect(&self.run_dir()).unwrap().ask(&json!({"do": "domains"})).unwrap();
        all["environments"].as_array().unwrap().iter().find(|environment| environment["name"] == name).unwrap().clone()
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
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn has_root() -> bool {
    let root = anode::sys::process::is_root();
    if !root {
        assert!(std::env::var_os("CI").is_none(), "these tests need root in continuous integration");
        eprintln!("SKIPPED: needs root");
    }
    root
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
    let other = Node::start(other, "");
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
    let node = Node::start(own, &config);
    let said = node.await_said("attacks: ");
    let done: Vec<_> = said.trim_end_matches('.').split(' ').filter(|word| !word.ends_with("=refused")).collect();
    assert_eq!(done, ["connected=done"], "{said}");
    assert!(said.split(' ').count() > 20, "{said}");
    let refused = || node.log().contains("a gibibyte was refused") || node.environment("attacker")["state"] == "ended";
    node.until("end of its greed", || refused().then_some(()));
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
    let node = Node::start(dir, &[greedy, attacker].concat());
    let greedy: usize = node.await_said("greedy has ").parse().unwrap();
    assert!((1..=16).contains(&greedy), "{greedy}");
    // An operator's processes that never say hello.
    let half_open: Vec<_> =
        (0..200).map(|_| SeqPacket::connect(&node.run_dir().join("nodeos.sock")).unwrap()).collect();
    let refused = || half_open.iter().filter(|one| one.wait(Duration::ZERO).unwrap()).count();
    node.until("refusals", || (refused() >= 192).then_some(()));
    // Another environment has its connection all the same, and control answers.
    assert!(node.await_said("attacks: ").contains("connected=done"));
    assert_eq!(node.environment("greedy")["state"], "running");
}
