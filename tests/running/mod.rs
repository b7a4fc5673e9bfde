//! A lab whose nodes run as real processes.
#![allow(dead_code, reason = "each test program uses its part")]

use crate::wait;
use anode::code::author;
use anode::code::bundle::Bundle;
use anode::lab::nodes::Daemon;
use anode::lab::{Guard, Lab, Topology};
use anode::manage::client::{Attachment, Control};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The program.
pub const ANODE: &str = env!("CARGO_BIN_EXE_anode");

/// Three nodes in a line, with addresses of both kinds: a is 10.0.1.1 and fd00:0:1::1, b 10.0.2.2 and fd00:0:2::2.
pub const LINE: &str = r#"
name = "t"
nodes.a.active = true
nodes.r.active = true
nodes.b.active = true
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24", "fd00:0:1::/64"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.2.0/24", "fd00:0:2::/64"]
"#;

#[allow(unused_imports, reason = "each test program uses its part")]
pub use crate::wait::PATIENCE;

/// A node between two hosts.
pub const HOSTS: &str = r#"
name = "t"
nodes.a = {}
nodes.r.active = true
nodes.b = {}
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24", "fd00:0:1::/64"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.2.0/24", "fd00:0:2::/64"]
"#;

/// What the nodes' configurations have beside the lab file's.
pub type Adjust<'a> = &'a dyn Fn(&str, &mut toml::Table);

/// A lab with its nodes, ended with the test.
pub struct Running {
    pub lab: Guard,
    pub daemons: Vec<Daemon>,
}

impl Running {
    /// The lab without its nodes. Without root: says so, and fails where tests must run.
    pub fn build(name: &str, topology: &str) -> Option<Running> {
        crate::gate::pass();
        if !anode::sys::process::is_root() {
            assert!(std::env::var_os("CI").is_none(), "namespaces need root, and continuous integration must run this");
            println!("SKIPPED: network namespaces need root");
            return None;
        }
        let name = format!("{name}{}", std::process::id());
        let topology = Topology::parse(topology, Path::new("test")).unwrap().renamed(&name).unwrap();
        Some(Running { lab: Lab::up_by(&topology, Path::new(ANODE)).unwrap().guarded(), daemons: Vec::new() })
    }

    /// Starts the nodes that do not run.
    pub fn start(&mut self, adjust: Adjust<'_>) {
        self.daemons.extend(self.lab.start_nodes(Path::new(ANODE), adjust).unwrap());
    }

    /// The lab with its nodes.
    pub fn up(name: &str, topology: &str) -> Option<Running> {
        Running::up_with(name, topology, &|_, _| {})
    }

    /// The same, with changes to the nodes' configurations.
    pub fn up_with(name: &str, topology: &str, adjust: Adjust<'_>) -> Option<Running> {
        let mut net = Running::build(name, topology)?;
        net.start(adjust);
        Some(net)
    }

    pub fn dir(&self, node: &str) -> &Path {
        &self.daemon(node).run_dir
    }

    pub fn daemon(&self, node: &str) -> &Daemon {
        self.daemons.iter().find(|daemon| daemon.node == node).unwrap()
    }

    /// Kills a node and waits until it has gone.
    pub fn kill(&mut self, node: &str) {
        self.daemons.iter_mut().find(|daemon| daemon.node == node).unwrap().kill().unwrap();
    }

    /// Starts a node again that has gone, without waiting for it.
    pub fn spawn_again(&self, node: &str) -> Child {
        let mut command = self.lab.command(node, ANODE).unwrap();
        command.args(["node", "run"]).arg(self.dir(node).join("node.toml"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The same, and waits for its sockets.
    pub fn start_again(&self, node: &str) -> Child {
        let process = self.spawn_again(node);
        wait::control(self.dir(node), Some(&process), String::new);
        process
    }

    pub fn control(&self, node: &str) -> Control {
        Control::connect(self.dir(node)).unwrap()
    }

    pub fn status(&self, node: &str) -> Value {
        accounted(self.control(node).status().unwrap())
    }

    /// What a node has written to its log so far.
    pub fn log(&self, node: &str) -> String {
        std::fs::read_to_string(&self.daemon(node).log).unwrap()
    }

    pub fn attach(&self, node: &str, port: u16) -> Attachment {
        Attachment::attach(self.dir(node), port).unwrap()
    }

    /// The status of a node, as soon as `there` says yes to it.
    pub fn await_status(&self, node: &str, mut there: impl FnMut(&Value) -> bool) -> Value {
        let look = |status| Some(accounted(status)).filter(&mut there);
        wait::told(self.dir(node), "status", look)
    }

    /// Waits until something is so of which the status of a node may tell.
    pub fn until<T>(&self, node: &str, mut look: impl FnMut() -> Option<T>) -> T {
        wait::told(self.dir(node), "status", |_| look())
    }

    /// `anode` with these arguments at a node; what it prints as JSON.
    pub fn anode(&self, node: &str, arguments: &[&str]) -> Value {
        let mut command = Command::new(ANODE);
        command.args(arguments).args(["--json", "--node", self.dir(node).to_str().unwrap()]);
        let output = command.output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Pings from a node by capsule; the summary, and what all nodes have dropped if one is missing.
    pub fn ping(&self, from: &str, to: &str, count: u32) -> Value {
        let mut pinged = self.anode(from, &["ping", "-c", &count.to_string(), "-i", "0.005", to]);
        if pinged["summary"]["received"] != count {
            let drops = self.daemons.iter().filter_map(|daemon| {
                let status = Control::connect(&daemon.run_dir).ok()?.status().ok()?;
                Some((daemon.node.clone(), status["drops"].clone()))
            });
            pinged["drops"] = drops.collect();
        }
        pinged
    }

    /// The same with many, behind one by which the nodes get the code: only a few packets may wait for one, however long it takes.
    pub fn ping_warm(&self, from: &str, to: &str, count: u32) -> Value {
        let first = self.ping(from, to, 1);
        assert_eq!(first["summary"]["received"], 1, "{first}");
        self.ping(from, to, count)
    }

    /// Runs a shell script in a node's namespace.
    pub fn shell(&self, node: &str, script: &str) -> String {
        let done = self.lab.command(node, "sh").unwrap().args(["-c", script]).output().unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            if std::thread::panicking() {
                let status = Control::connect(&daemon.run_dir).and_then(|mut control| control.status());
                let log = std::fs::read_to_string(&daemon.log);
                // A node that has ended is a zombie until it is waited for.
                let process = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap_or_default();
                let state = process.lines().find(|line| line.starts_with("State"));
                println!("{} {state:?}: {status:?}\n{}", daemon.node, log.unwrap_or_default());
            }
            // The node may be gone already; the lab's end takes what is left.
            let _ = daemon.kill();
        }
    }
}

/// A guest of `tests/guests`, in all its representations.
pub fn guest(name: &str) -> Bundle {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/guests/{name}.c"));
    author::build(&source, &author::AuthorOptions::default()).unwrap()
}

/// Every port with the kernel half before it.
pub fn in_kernel(_: &str, config: &mut toml::Table) {
    for port in config["port"].as_array_mut().unwrap() {
        port.as_table_mut().unwrap().insert("kernel".into(), toml::Value::Boolean(true));
    }
}

/// Every port with AF_XDP sockets, and with the kernel half before it or not.
pub fn sockets(kernel: bool) -> impl Fn(&str, &mut toml::Table) {
    move |_, config| {
        for port in config["port"].as_array_mut().unwrap() {
            let port = port.as_table_mut().unwrap();
            port.insert("xdp".into(), toml::Value::Boolean(true));
            port.insert("kernel".into(), toml::Value::Boolean(kernel));
            // A hello may come before the queue has its socket: it goes up the stack then, and is counted there.
            port.insert("hello".into(), toml::Value::Boolean(false));
        }
    }
}

/// The same, with these lines of `[xdp]`.
pub fn sockets_with(kernel: bool, lines: &str) -> impl Fn(&str, &mut toml::Table) {
    let (plain, table) = (sockets(kernel), lines.parse::<toml::Table>().unwrap());
    move |node, config| {
        plain(node, config);
        config.insert("xdp".into(), toml::Value::Table(table.clone()));
    }
}

/// Whether nothing was dropped.
pub fn no_drops(status: &Value) -> bool {
    status["drops"].as_object().is_some_and(|drops| drops.is_empty())
}

/// The sum of a counter over the ports of a node that have sockets.
pub fn sum(status: &Value, counter: &str) -> u64 {
    status["xdp"].as_array().unwrap().iter().map(|port| port[counter].as_u64().unwrap()).sum()
}

/// The status of a node, which has lost no frame without a counter.
pub fn accounted(status: Value) -> Value {
    let kernel = (&status["kernel"]["balance"], &status["kernel"]["counts"]);
    assert_eq!(status["unaccounted"], 0, "{} {kernel:?} {}", status["balance"], status["drops"]);
    status
}
