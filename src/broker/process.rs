//! The process of an environment: its jail, and its connection to the node from birth.

use super::client::ask;
use super::message::Request;
use crate::config::environments::Process;
use crate::sys::jail::{Group, Groups, Identity, Jail, Jailed, Limits, Part, Paths, Program, Starter, Weights};
use crate::sys::seqpacket::SeqPacket;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// Where an environment finds its node: the number of a descriptor, in this variable.
const DESCRIPTOR: &str = "ANODE_NODEOS_FD";
/// See [`DESCRIPTOR`].
const DESCRIPTOR_NUMBER: u32 = 3;

/// Its standard error, which the node hears.
const ERROR_NUMBER: u32 = 2;

/// What an environment has of the node's environment variables.
const PASSED: [&str; 3] = ["PATH", "LANG", "TZ"];

/// Descriptors it may have.
const DESCRIPTORS: u64 = 1024;

/// An environment's process that runs.
pub struct Started {
    /// Its jail.
    pub jailed: Jailed,
    /// Its control groups, which know what it uses.
    pub groups: Groups,
    /// The files with their weights, if they have some.
    pub weights: Option<Weights>,
    /// What it says.
    pub said: File,
    /// The node's end of its connection.
    pub socket: SeqPacket,
}

/// Starts the process of an environment of this name. What it says comes by its standard error.
pub fn start(starter: &Starter, name: &str, process: &Process) -> io::Result<Started> {
    let (said, saying) = std::io::pipe()?;
    let (socket, other) = SeqPacket::pair()?;
    let jailed = starter.start(&jail(name, process)?, &[saying.as_fd(), other.as_fd()])?;
    let weights = Weights::of(&jailed.groups);
    Ok(Started { groups: jailed.groups.clone(), weights, jailed, said: OwnedFd::from(said).into(), socket })
}

/// Has the process of an environment started by the broker, which removes its control groups when it is told to [clear].
pub fn have_started(name: &str) -> io::Result<Started> {
    let done = ask(&Request::Start { environment: name.into() }, &[])?;
    let (jail, [process, control, said, socket], files) = done.jail()?;
    let weaker = Part::ALL.into_iter().filter(|part| jail.weaker.iter().any(|name| name == part.name())).collect();
    let (pid, uid, control) = (jail.pid, jail.uid, SeqPacket::of(control));
    let jailed = Jailed { pid, uid, process, control, weaker, groups: Groups::default() };
    let groups = Groups { places: jail.groups.into_iter().map(PathBuf::from).collect() };
    let weights = files.map(|files| Weights::opened(files, jail.unified));
    Ok(Started { jailed, groups, weights, said: said.into(), socket: SeqPacket::of(socket) })
}

/// What the broker has of the jail of an environment that has ended goes.
pub fn clear(process: u32) {
    if let Err(error) = ask(&Request::Clear { process }, &[]) {
        tracing::warn!(process, %error, "something of an environment stays");
    }
}

/// The jail of an environment.
fn jail(name: &str, process: &Process) -> io::Result<Jail> {
    let passed = PASSED.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let mut paths = Paths::of_environments();
    paths.read.extend(process.reads.iter().cloned());
    Ok(Jail {
        name: name.to_owned(),
        program: Program::File(process.words()?),
        variables: passed.chain([(DESCRIPTOR.to_owned(), DESCRIPTOR_NUMBER.to_string())]).collect(),
        keep: vec![ERROR_NUMBER, DESCRIPTOR_NUMBER],
        identity: Identity::Own { first: process.users.0, last: process.users.1 },
        capabilities: Vec::new(),
        host_network: process.host_network,
        paths,
        seccomp: if process.host_network { "ee-network" } else { "ee" }.into(),
        group: Some(Group {
            // What is shared with the node may be charged to either.
            memory_bytes: process.data_bytes,
            tasks: process.tasks,
            cpu_weight: process.cpu_weight,
            cpu_percent: process.cpu_percent,
        }),
        limits: Limits { data_bytes: Some(process.data_bytes), descriptors: Some(DESCRIPTORS), ..Limits::default() },
        required: process.required.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jail_of_an_environment_is_one_that_can_be_made() {
        let process = Process {
            command: vec!["sh".into()],
            module: None,
            reads: vec!["/srv/data".into()],
            data_bytes: 1 << 26,
            tasks: 16,
            cpu_weight: 100,
            cpu_percent: 100,
            users: (60_834, 61_183),
            host_network: false,
            required: Vec::new(),
        };
        let jail = jail("name", &process).unwrap();
        assert_eq!(jail.check(), Ok(()));
        assert!(jail.paths.read.contains(&"/srv/data".into()) && jail.capabilities.is_empty());
        let granted = super::jail("name", &Process { host_network: true, ..process }).unwrap();
        assert_eq!((granted.check(), granted.host_network), (Ok(()), true));
    }
}
