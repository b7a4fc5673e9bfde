//! A lab whose nodes run as real processes.
#![allow(dead_code, reason = "each test program uses its part")]

use anode::lab::nodes::Daemon;
use anode::lab::{Guard, Lab, Topology};
use anode::manage::client::Control;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The program.
pub const ANODE: &str = env!("CARGO_BIN_EXE_anode");

/// A lab with its nodes, ended with the test.
pub struct Running {
    pub lab: Guard,
    pub daemons: Vec<Daemon>,
}

impl Running {
    /// Without root: says so, and fails where tests must run.
    pub fn up(name: &str, topology: &str) -> Option<Running> {
        Running::up_with(name, topology, &|_, _| {})
    }

    /// The same, with changes to the nodes' configurations.
    pub fn up_with(name: &str, topology: &str, adjust: &dyn Fn(&str, &mut toml::Table)) -> Option<Running> {
        if !anode::sys::process::is_root() {
            assert!(std::env::var_os("CI").is_none(), "namespaces need root, and continuous integration must run this");
            println!("SKIPPED: network namespaces need root");
            return None;
        }
        let name = format!("{name}{}", std::process::id());
        let topology = Topology::parse(topology, Path::new("test")).unwrap().renamed(&name).unwrap();
        let lab = Lab::up(&topology).unwrap().guarded();
        let daemons = lab.start_nodes(Path::new(ANODE), adjust).unwrap();
        Some(Running { lab, daemons })
    }

    pub fn dir(&self, node: &str) -> &Path {
        &self.daemons.iter().find(|daemon| daemon.node == node).unwrap().run_dir
    }

    pub fn status(&self, node: &str) -> Value {
        Control::connect(self.dir(node)).unwrap().status().unwrap()
    }

    /// Pings from a node by capsule; the summary.
    pub fn ping(&self, from: &str, to: &str, count: u32) -> Value {
        let dir = self.dir(from).to_str().unwrap();
        let count = count.to_string();
        let output = Command::new(ANODE)
            .args(["ping", "--node", dir, "-c", &count, "-i", "0.005", "--json", to])
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Looks at a node until `there` says yes.
    pub fn await_status(&self, node: &str, there: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..100_000 {
            let status = self.status(node);
            if there(&status) {
                return status;
            }
            std::thread::yield_now();
        }
        panic!("{}", self.status(node));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            // The node may be gone already; the lab's end takes what is left.
            let _ = daemon.kill();
        }
    }
}

/// Every port with the kernel half before it.
pub fn in_kernel(_: &str, config: &mut toml::Table) {
    for port in config["port"].as_array_mut().unwrap() {
        port.as_table_mut().unwrap().insert("kernel".into(), toml::Value::Boolean(true));
    }
}
