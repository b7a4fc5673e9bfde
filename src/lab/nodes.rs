//! The active nodes of a lab: one `anode node run` in the namespace of each active node.
//!
//! Unless the topology says otherwise a node has a packet port on every interface of its namespace
//! and follows the kernel's routes there. PLAN programs on it know the lab's nodes by name. Its sockets, its
//! configuration and its log are in `/run/anode/LAB.NODE`, so `--node LAB.NODE` finds it. A node that runs already is
//! left alone.

use super::state::at;
use super::{Error, Lab, Node, Topology};
use crate::config::default_run_dir;
use crate::manage::client::Control;
use crate::sys::watch::{self, Process};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;
use toml::{Table, Value};

/// For how long a node may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that was started.
pub struct Daemon {
    /// The node's name in the topology.
    pub node: String,
    /// Where its sockets are; what `--node` takes.
    pub run_dir: PathBuf,
    /// What it writes.
    pub log: PathBuf,
    child: Child,
}

impl Daemon {
    /// Waits for a node that was told to stop.
    pub fn wait(&mut self) -> io::Result<()> {
        self.child.wait().map(drop)
    }

    /// Ends the node at once.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.wait()
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// The most that a resource bound counts for between nodes of a lab: they are one person's.
const BOUND_MAX: u32 = 4096;

/// The configuration of an active node: what the topology says, over what it need not say.
pub fn configuration(lab: &str, node: &Node) -> Table {
    let mut config = Table::new();
    let name = format!("{lab}.{}", node.name);
    config.insert("run_dir".into(), Value::String(default_run_dir(&name).display().to_string()));
    config.insert("name".into(), Value::String(name));
    config.insert("routes".into(), Value::String("kernel".into()));
    let port = |interface: &super::Interface| {
        Value::Table(Table::from_iter([("packet".into(), interface.name.clone().into())]))
    };
    config.insert("port".into(), Value::Array(node.interfaces.iter().map(port).collect()));
    if let Some(sizes) = &node.every.sizes {
        config.insert("sizes".into(), Value::Table(sizes.clone()));
    }
    config.extend(node.anode.clone().into_iter().flatten());
    fill_ports(node, &mut config);
    if let Some(workers) = node.every.workers {
        let cpu = config.entry("cpu").or_insert_with(|| Value::Table(Table::new()));
        let cpu = cpu.as_table_mut().map(|cpu| cpu.entry("workers"));
        cpu.into_iter().for_each(|own| {
            own.or_insert(Value::Integer(workers.into()));
        });
    }
    limit_anyone(node, &mut config);
    meter(lab, node, &mut config);
    config
}

/// What ports at interfaces of the lab have unless they say otherwise, also those that the file lists itself.
fn fill_ports(node: &Node, config: &mut Table) {
    let most = node.every.bound_max.unwrap_or(BOUND_MAX);
    let bound = |most: u32| Value::Integer(most.into());
    let usual = [("bound_max", Some(bound(most))), ("hello", Some(Value::Boolean(true)))];
    let usual = usual.into_iter().chain([("signed_bound_max", node.every.signed_bound_max.map(bound))]);
    let usual: Vec<_> = usual.filter_map(|(key, value)| Some((key, value?))).collect();
    let of_lab = |port: &&mut Table| {
        port.get("packet").and_then(Value::as_str).is_some_and(|name| node.interface(name).is_some())
    };
    let ports = config.get_mut("port").and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_table_mut).filter(of_lab) {
        for (key, value) in &usual {
            port.entry(*key).or_insert_with(|| value.clone());
        }
    }
}

/// What anybody's code may use, unless the node says it itself.
fn limit_anyone(node: &Node, config: &mut Table) {
    let Some(Ok(limits)) = node.every.anyone.map(Table::try_from) else { return };
    let roles = config.entry("role").or_insert_with(|| Value::Array(Vec::new()));
    let is_anyone = |role: &Value| role.get("name").and_then(Value::as_str) == Some("anyone");
    if let Some(roles) = roles.as_array_mut().filter(|roles| !roles.iter().any(is_anyone)) {
        let role = [("name", Value::String("anyone".into())), ("limits", Value::Table(limits))];
        roles.push(Value::Table(role.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()));
    }
}

/// Has the ports at shaped links know their meters: those at an interface, and those that listen on an address of one.
fn meter(lab: &str, node: &Node, config: &mut Table) {
    let file = super::links::meters(lab).display().to_string();
    let Some(ports) = config.get_mut("port").and_then(Value::as_array_mut) else { return };
    for port in ports.iter_mut().filter_map(Value::as_table_mut).filter(|port| !port.contains_key("meter")) {
        let is = |key: &str| port.get(key).and_then(Value::as_str);
        let listens = is("udp").and_then(|udp| udp.parse::<std::net::SocketAddr>().ok()).map(|udp| udp.ip());
        let at = |end: &&super::Interface| {
            is("packet") == Some(end.name.as_str()) || end.addresses.iter().any(|own| Some(own.addr.ip()) == listens)
        };
        let Some(end) = node.interfaces.iter().find(at).filter(|end| end.quality.is_shaped()) else { continue };
        let name = Value::String(super::links::spec::meter(&node.name, &end.name));
        let meter = Table::from_iter([("file".to_owned(), Value::String(file.clone())), ("name".to_owned(), name)]);
        port.insert("meter".into(), Value::Table(meter));
    }
}

/// A node that runs, and cannot become what the file says while it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The node.
    pub node: String,
    /// The settings that differ, such as `port`; none if the file has the node not active any more.
    pub settings: Vec<String>,
}

/// The nodes that run with other settings than the topology gives them. Those that it has not any more are no matter: they are ended.
pub fn changed(topology: &Topology) -> Vec<Changed> {
    let differs = |node: &Node| {
        let run_dir = default_run_dir(&format!("{}.{}", topology.name, node.name));
        // Whoever started it in another way knows why.
        let before = fs::read_to_string(run_dir.join("node.toml")).ok()?.parse::<Table>().ok()?;
        let mut config = configuration(&topology.name, node);
        know_hosts(&mut config, &run_dir.join("hosts"));
        let keys: BTreeSet<&String> = before.keys().chain(config.keys()).collect();
        let other = keys.into_iter().filter(|key| before.get(*key) != config.get(*key)).cloned().collect::<Vec<_>>();
        let settings = if node.active { other } else { Vec::new() };
        let is_another = !node.active || !settings.is_empty();
        (is_another && Control::connect(&run_dir).is_ok()).then(|| Changed { node: node.name.clone(), settings })
    };
    topology.nodes.iter().filter_map(differs).collect()
}

/// Has the nodes that run know the hosts of a topology that has changed: commands find them at once, PLAN programs from the next start.
pub(super) fn renew_hosts(topology: &Topology) -> Result<(), Error> {
    for node in topology.nodes.iter().filter(|node| node.active) {
        let hosts = default_run_dir(&format!("{}.{}", topology.name, node.name)).join("hosts");
        let now = topology.hosts();
        if fs::read_to_string(&hosts).is_ok_and(|before| before != now) {
            fs::write(&hosts, now).map_err(|source| Error::File { path: hosts, source })?;
        }
    }
    Ok(())
}

impl Lab {
    /// Starts every active node that does not run yet, with `program` (the `anode` binary), and waits
    /// until all answer. `adjust` may change a node's configuration before.
    pub fn start_nodes(&self, program: &Path, adjust: &dyn Fn(&str, &mut Table)) -> Result<Vec<Daemon>, Error> {
        let mut started = Vec::new();
        for node in self.topology().nodes.iter().filter(|node| node.active) {
            let mut config = configuration(&self.topology().name, node);
            adjust(&node.name, &mut config);
            let run_dir = match config.get("run_dir") {
                Some(Value::String(dir)) => PathBuf::from(dir),
                _ => default_run_dir(&node.name),
            };
            if Control::connect(&run_dir).is_err() {
                started.push(self.start(program, node, &config, run_dir)?);
            }
        }
        for daemon in &started {
            daemon.await_answer()?;
        }
        Ok(started)
    }

    fn start(&self, program: &Path, node: &Node, config: &Table, run_dir: PathBuf) -> Result<Daemon, Error> {
        fs::create_dir_all(&run_dir).map_err(at(&run_dir))?;
        let (file, log) = (run_dir.join("node.toml"), run_dir.join("node.log"));
        let (mut config, hosts) = (config.clone(), run_dir.join("hosts"));
        if know_hosts(&mut config, &hosts) {
            fs::write(&hosts, self.topology().hosts()).map_err(at(&hosts))?;
        }
        fs::write(&file, config.to_string()).map_err(at(&file))?;
        let output = File::create(&log).map_err(at(&log))?;
        let errors = output.try_clone().map_err(at(&log))?;
        let child = self
            .command(&node.name, program)?
            .args(["node", "run"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Tool { program: "anode", source })?;
        Ok(Daemon { node: node.name.clone(), run_dir, log, child })
    }
}

/// Has a node know the hosts of its lab by name, unless its configuration has hosts of its own; whether it has none.
fn know_hosts(config: &mut Table, hosts: &Path) -> bool {
    let plan = config.entry("plan").or_insert_with(|| Value::Table(Table::new()));
    let Some(plan) = plan.as_table_mut().filter(|plan| !plan.contains_key("hosts")) else { return false };
    plan.insert("hosts".into(), Value::String(hosts.display().to_string()));
    true
}

impl Daemon {
    fn await_answer(&self) -> Result<(), Error> {
        let process = Process::open(self.child.id()).ok().flatten();
        let answers = || Control::connect(&self.run_dir).ok();
        watch::until(&self.run_dir, process.as_ref(), PATIENCE, answers).map(drop).map_err(|missed| {
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            Error::NodeFailed { node: self.node.clone(), said: if said.is_empty() { missed.to_string() } else { said } }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of ports of the file's own, as for a kernel half, takes nothing from them that the lab gives to others.
    #[test]
    fn ports_that_the_file_lists_have_what_ports_of_a_lab_have() {
        let line = Topology::parse(
            "name = 'x'\nnodes.a = { active = true, anode = { port = [{ packet = 'to-b', kernel = true }], role = [{ name = 'me' }] } }\n\
             nodes.b = { active = true, anode.port = [{ packet = 'to-a', hello = false, bound_max = 7 }] }\n\
             node = { signed_bound_max = 9, anyone = { packets_per_second = 5 } }\n[[links]]\nends = ['a', 'b']\n",
            "x",
        )
        .unwrap();
        let config = |node: &str| configuration("x", line.node(node).unwrap());
        let port = |node: &str| config(node)["port"][0].clone();
        let has = |node: &str, key: &str| port(node).get(key).cloned();
        assert_eq!((has("a", "hello"), has("a", "bound_max")), (Some(true.into()), Some(4096.into())));
        assert_eq!((has("a", "kernel"), has("a", "signed_bound_max")), (Some(true.into()), Some(9.into())));
        assert_eq!((has("b", "hello"), has("b", "bound_max")), (Some(false.into()), Some(7.into())));
        let roles = |node: &str| {
            config(node)["role"].as_array().unwrap().iter().map(|role| role["name"].to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            (roles("a"), roles("b")),
            (vec!["\"me\"".into(), "\"anyone\"".into()], vec!["\"anyone\"".to_owned()])
        );
    }
}
