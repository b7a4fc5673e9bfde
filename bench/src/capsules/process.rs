//! A running `anode node run` for benchmarks: its configuration, its control socket, its applications.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::Error;
use super::super::compile::Programs;
use super::super::gateway::Running;
use super::super::guests::{APP_PORT, header};
use super::super::node::{PATIENCE, Up, failed};
use super::super::place::{Scratch, free_port};
use super::super::programs;
use anode::code::bundle::Bundle;
use anode::manage::client::Attachment;
use anode::wire::{Addr, capsule};

/// A node of the benchmark's own, with one overlay port and one neighbour.
pub(crate) struct Process {
    up: Up,
    running: Running,
    _scratch: Scratch,
}

impl Process {
    /// Two nodes that are neighbours of each other.
    pub(crate) fn pair(programs: &Programs) -> Result<[Process; 2], Error> {
        let (near, far) = ((free_port()?, "10.0.0.1"), (free_port()?, "10.0.0.2"));
        Ok([Process::start(programs, near, far, false)?, Process::start(programs, far, near, false)?])
    }

    /// One with a store on disk, whose neighbour is not there.
    pub(crate) fn with_store(programs: &Programs) -> Result<Process, Error> {
        Process::start(programs, (free_port()?, "10.0.0.1"), (free_port()?, "10.0.0.2"), true)
    }

    fn start(
        programs: &Programs,
        own: (SocketAddr, &str),
        other: (SocketAddr, &str),
        has_store: bool,
    ) -> Result<Process, Error> {
        let scratch = Scratch::new()?;
        let store = if has_store { format!("store = {:?}\n", scratch.path().join("store")) } else { String::new() };
        let (dir, config) = (scratch.path().join("run"), scratch.path().join("node.toml"));
        let text = format!(
            "name = \"bench\"\nrun_dir = {dir:?}\n{store}[[port]]\nudp = \"{}\"\naddress = [\"{}/24\"]\n\
             neighbours = [{{ address = \"{}\", at = \"{}\" }}]\n",
            own.0, own.1, other.1, other.0
        );
        std::fs::write(&config, text).map_err(|cause| Error::Write { path: config.clone(), cause })?;
        let log = scratch.path().join("log");
        let file = File::create(&log).map_err(|cause| Error::Write { path: log.clone(), cause })?;
        let mut command = Command::new(&programs.launch);
        command.arg(programs::node()?).args(["node", "run"]).arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = command.spawn().map_err(|cause| Error::Start { program: programs.launch.clone(), cause })?;
        let running = Running::new(child, log);
        Ok(Process { up: Up::wait(&dir)?, running, _scratch: scratch })
    }

    /// Puts code into its store.
    pub(crate) fn add(&mut self, bundle: &Bundle) -> Result<(), Error> {
        self.up.add(bundle)
    }

    /// Revokes code as its operator; gives the time until the node has said that it has ended and is remembered.
    pub(crate) fn revoke(&mut self, bundle: &Bundle) -> Result<Duration, Error> {
        self.up.revoke(bundle)
    }

    /// How code of its was compiled, once it is ready.
    pub(crate) fn tier(&mut self, bundle: &Bundle) -> Result<Option<String>, Error> {
        self.up.tier(bundle)
    }

    /// Attaches the application of [`APP_PORT`].
    pub(crate) fn attach(&self) -> Result<Attachment, Error> {
        Attachment::attach(&self.up.dir, APP_PORT).map_err(failed)
    }

    /// Its memory in RAM, in MiB.
    pub(crate) fn resident_mib(&self) -> Result<f64, Error> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.running.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(|| Error::Node("it has ended".into()))
    }
}

/// Sends a capsule of this code from one application to another and waits for it; gives the time it took.
pub(crate) fn cross(from: &Attachment, to: &mut Attachment, bundle: &Bundle) -> Result<Duration, Error> {
    let start = Instant::now();
    send(from, to.address(), bundle)?;
    arrives(to)?;
    Ok(start.elapsed())
}

/// Sends a capsule of this code to the node it starts from, so that the code is ready there.
pub(crate) fn make_ready(at: &mut Attachment, bundle: &Bundle) -> Result<(), Error> {
    send(at, at.address(), bundle)?;
    arrives(at)
}

fn send(from: &Attachment, to: Addr, bundle: &Bundle) -> Result<(), Error> {
    let header = capsule::Header { source: Addr::UNSPECIFIED, ..header(bundle, to) };
    from.send(&header, &[]).map_err(failed)
}

fn arrives(at: &mut Attachment) -> Result<(), Error> {
    match at.receive(PATIENCE) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Error::Node(format!("no capsule came within {} s", PATIENCE.as_secs()))),
        Err(error) => Err(failed(error)),
    }
}
