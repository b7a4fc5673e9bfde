//! One overlay node as a real process, with all its files in a folder of its own.
#![allow(dead_code, reason = "each test program uses its part")]

use crate::wait;
use anode::manage::client::Control;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// The program.
pub const ANODE: &str = env!("CARGO_BIN_EXE_anode");

/// A node that runs, in a directory that only the user of the tests can enter.
pub struct Node {
    pub process: Child,
    pub dir: TempDir,
}

/// `anode` with these words, and a path behind them.
pub fn anode(words: &[&str], path: &Path) -> Command {
    let mut command = Command::new(ANODE);
    command.args(words).arg(path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The configuration of an overlay node in a directory, with these lines at its end.
pub fn write_config(dir: &Path, more: &str) -> PathBuf {
    let at = |name: &str| dir.join(name);
    let beginning =
        format!("name = \"m\"\nrun_dir = {:?}\nstore = {:?}\nfiles = {:?}\n", at("run"), at("store"), at("files"));
    let port = "[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.9.9.1/24\"]\n";
    fs::write(at("node.toml"), format!("{beginning}{port}{more}")).unwrap();
    at("node.toml")
}

/// Whether these tests are root's; if not they say what they need, and fail where they must run.
pub fn is_root(why: &str) -> bool {
    let root = anode::sys::process::is_root();
    if !root {
        assert!(std::env::var_os("CI").is_none(), "{why}, and continuous integration must run this as root");
        println!("SKIPPED: {why}");
    }
    root
}

impl Node {
    /// Starts one, and waits for its sockets.
    pub fn start(more: &str) -> Node {
        Node::start_in(tempfile::tempdir().unwrap(), more)
    }

    /// The same in a directory, in which another may have been before.
    pub fn start_in(dir: TempDir, more: &str) -> Node {
        crate::gate::pass();
        let file = write_config(dir.path(), more);
        let log = File::create(dir.path().join("log")).unwrap();
        let process = anode(&["node", "run"], &file).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let node = Node { process, dir };
        wait::control(&node.run_dir(), Some(&node.process), || node.log());
        node
    }

    pub fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub fn control(&self) -> Control {
        Control::connect(&self.run_dir()).unwrap()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Waits until there is something of which the node's status may tell.
    pub fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        wait::told(&self.run_dir(), "status", |_| look())
    }

    /// What `anode NOUN VERB RUN_DIR …` prints, and whether it succeeds.
    pub fn anode(&self, words: &[&str]) -> (bool, String) {
        let (verb, rest) = words.split_at(2);
        let Output { status, stdout, stderr } = anode(verb, &self.run_dir()).args(rest).output().unwrap();
        (status.success(), String::from_utf8([stdout, stderr].concat()).unwrap())
    }

    /// Ends it in good order; its directory stays.
    pub fn down(mut self) -> TempDir {
        let (done, said) = self.anode(&["node", "down"]);
        assert!(done, "{said}");
        assert!(self.process.wait().unwrap().success(), "{}", self.log());
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }

    /// The directory of one that was killed.
    pub fn down_dead(mut self) -> TempDir {
        wait::ended(&mut self.process);
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }

    /// Its domains and environments.
    pub fn domains(&self) -> Value {
        self.control().ask(&json!({"do": "domains"})).unwrap()
    }

    /// An environment; nothing while the node has not come to it.
    pub fn find(&self, name: &str) -> Option<Value> {
        wait::environment_in(&self.domains(), name)
    }

    pub fn environment(&self, name: &str) -> Value {
        self.find(name).unwrap()
    }

    /// An environment, as soon as `there` says yes to it.
    pub fn await_environment(&self, name: &str, there: impl Fn(&Value) -> bool) -> Value {
        wait::environment(&self.run_dir(), name, there)
    }

    /// What an environment has said behind these words, once it has said it.
    pub fn await_said(&self, begins: &str) -> String {
        wait::text(&self.dir.path().join("log"), Some(&self.process), |log| {
            let at = log.find(begins)?;
            let rest = &log[at + begins.len()..];
            rest.find(['"', '\n']).map(|end| rest[..end].trim().to_owned())
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
