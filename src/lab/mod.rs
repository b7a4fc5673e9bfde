//! Labs: networks of namespaces on this machine, from a lab file.
//!
//! ```text
//! FILE.toml ─▶ labfile ─▶ Topology
//!                            │ plan: what differs from what observe sees
//!                            ▼
//!                          build ─▶ tools: ip, ethtool ─▶ namespaces an-LAB-NODE
//! ```
//!
//! A node is a network namespace, a link a veth pair between two of them, a switch a namespace
//! with a bridge. A link with a rate, a delay or the like is carried by a process of the lab (`links`).
//! Nothing is made in the namespace of the caller. `up` changes only what differs,
//! so it may be repeated, also after a crash; `down` removes what `up` made and nothing else.
//!
//! ```no_run
//! use anode::lab::{Lab, Topology};
//! let topology = Topology::load("examples/line/topology.toml")?.renamed("mytest")?;
//! let lab = Lab::up(&topology)?.guarded(); // removed when the guard goes
//! let socket = lab.enter("a", || std::net::UdpSocket::bind("0.0.0.0:0"))?;
//! let status = lab.command("a", "ping")?.args(["-c1", "10.0.2.2"]).status();
//! # Ok::<(), anode::lab::Error>(())
//! ```

mod build;
pub mod check;
mod ending;
mod error;
pub mod graph;
pub mod import;
pub(crate) mod links;
pub mod nodes;
mod observe;
mod plan;
mod state;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

pub use build::Down;
pub use error::Error;
pub use links::report::Crossing;
pub use links::spec;

use crate::labfile::{self, LabFile, topology};
pub use crate::labfile::{Cidr, Interface, Kind, Mac, Neighbour, Node, Route, Topology};
use crate::sys::netns::{self, Namespace};

/// A lab that is up.
#[derive(Clone, Debug)]
pub struct Lab {
    topology: Topology,
    changes: usize,
}

impl Lab {
    /// Makes the lab, or what of it is missing. Needs root. The process of shaped links is this program, which must be `anode`.
    pub fn up(topology: &Topology) -> Result<Lab, Error> {
        let program = std::env::current_exe();
        Lab::up_by(topology, &program.map_err(|source| Error::Tool { program: "anode", source })?)
    }

    /// The same by the `anode` at this path.
    pub fn up_by(topology: &Topology, program: &Path) -> Result<Lab, Error> {
        let changes = build::up(topology, program)?;
        nodes::renew_hosts(topology)?;
        Ok(Lab { topology: topology.clone(), changes })
    }

    /// A lab that somebody has made.
    pub fn open(name: &str) -> Result<Lab, Error> {
        known_name(name)?;
        let record = state::read(name).ok_or_else(|| Error::NoLab { name: name.to_owned() })?;
        let topology = Topology::parse(&record.topology, &record.path)?.renamed(name)?;
        Ok(Lab { topology, changes: 0 })
    }

    /// Removes the lab of that name: ends the processes in its namespaces, then removes these.
    /// It is no error if there is none.
    pub fn down(name: &str) -> Result<Down, Error> {
        known_name(name)?;
        build::down(name)
    }

    /// The network.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How many changes [`Lab::up`] made: 0 if everything was there.
    pub fn changes(&self) -> usize {
        self.changes
    }

    /// The namespace of a node.
    pub fn namespace(&self, node: &str) -> Result<Namespace, Error> {
        let none = || Error::NoNode { lab: self.topology.name.clone(), node: node.to_owned() };
        self.topology.node(node).ok_or_else(none)?;
        Namespace::open(&self.topology.namespace(node)).ok().flatten().ok_or_else(none)
    }

    /// A command that will run in the node's namespace; all else it shares with us, `/sys` too.
    pub fn command(&self, node: &str, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        Ok(self.namespace(node)?.command(program))
    }

    /// Runs `f` on a new thread in the node's namespace and waits for it. Sockets opened there, and
    /// threads and programs started there, stay in the namespace.
    pub fn enter<T: Send>(&self, node: &str, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let what = || format!("entering the namespace of '{node}'");
        self.namespace(node)?.enter(f).map_err(|source| Error::System { what: what(), source })
    }

    /// Both directions of every link with a rate, a delay or the like.
    pub fn crossings(&self) -> Result<Vec<Crossing>, Error> {
        links::report::crossings(&self.topology)
    }

    /// Where all frames of a shaped link are seen, which is named by one of its ends: `NODE/INTERFACE`.
    pub fn tap(&self, link: &str) -> Result<LinkTap, Error> {
        let wrong = |plain| Error::NotCarried { link: link.to_owned(), plain };
        let (node, interface) = link.split_once('/').ok_or_else(|| wrong(false))?;
        let end = self.topology.node(node).and_then(|node| node.interface(interface)).ok_or_else(|| wrong(false))?;
        if !end.quality.is_shaped() {
            return Err(wrong(true));
        }
        let name = self.topology.namespace(links::PLACE);
        let place = Namespace::open(&name).ok().flatten();
        let gone = || Error::Links { said: "their namespace is gone; `anode lab up` repairs".into() };
        let interfaces = [0, 1].map(|at| links::spec::interface(end.link, at));
        Ok(LinkTap { place: place.ok_or_else(gone)?, interfaces, longest: links::longest(end.mtu) })
    }

    /// Where the active nodes, and the process of the links if there is one, write their logs.
    pub fn logs(&self) -> Vec<(String, PathBuf)> {
        let name = |node: &str| format!("{}.{node}", self.topology.name);
        let active = self.topology.nodes.iter().filter(|node| node.active);
        let log = |node: &Node| (node.name.clone(), crate::config::default_run_dir(&name(&node.name)).join("node.log"));
        let links = links::run_dir(&self.topology.name).join("links.log");
        active.map(log).chain(links.exists().then(|| ("links".to_owned(), links))).collect()
    }

    /// The same lab, removed when the guard is dropped.
    pub fn guarded(self) -> Guard {
        Guard(self)
    }
}

/// A name is a part of paths: one that no lab may have is nobody's, wherever it comes from.
fn known_name(name: &str) -> Result<(), Error> {
    match labfile::resolve::is_lab_name(name) {
        true => Ok(()),
        false => Err(Error::NoLab { name: name.to_owned() }),
    }
}

/// A lab that goes when this value is dropped.
#[derive(Debug)]
pub struct Guard(Lab);

impl Deref for Guard {
    type Target = Lab;
    fn deref(&self) -> &Lab {
        &self.0
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(error) = Lab::down(&self.0.topology.name) {
            tracing::warn!(lab = %self.0.topology.name, %error, "a lab could not be removed");
        }
    }
}

/// Where the frames of a link are seen as they enter it.
#[derive(Clone, Debug)]
pub struct LinkTap {
    /// The namespace.
    pub place: Namespace,
    /// By which interface they come in from each end.
    pub interfaces: [String; 2],
    /// Bytes of the longest frame.
    pub longest: usize,
}

/// How much of a lab is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Everything.
    Up,
    /// Parts: an `up` was interrupted, namespaces were removed by hand, or the process of shaped links has ended.
    Partial,
    /// The namespaces are there, but no record of them.
    Unrecorded,
}

/// A line of the list of labs.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The lab's name.
    pub name: String,
    /// How much of it is there.
    pub status: Status,
    /// Its nodes that are there.
    pub nodes: Vec<String>,
    /// The topology's file.
    pub file: Option<PathBuf>,
}

/// All labs on this machine.
pub fn list() -> Result<Vec<Summary>, Error> {
    let names = netns::names().map_err(|source| Error::System { what: "listing namespaces".into(), source })?;
    let mut labs = state::labs();
    labs.extend(names.iter().filter_map(|name| Some(name.strip_prefix("an-")?.split_once('-')?.0.to_owned())));
    Ok(labs.iter().filter_map(|lab| summary(lab, &names)).collect())
}

fn summary(lab: &str, names: &[String]) -> Option<Summary> {
    let prefix = topology::namespace(lab, "");
    let record = state::read(lab);
    let there: BTreeSet<String> = names.iter().filter(|name| name.starts_with(&prefix)).cloned().collect();
    let status = match &record {
        Some(record) if record.complete && record.namespaces.is_subset(&there) => Status::Up,
        Some(_) => Status::Partial,
        None if there.iter().any(|name| matches!(state::owner(lab, name, None), Ok(state::Owner::Lab(..)))) => {
            Status::Unrecorded
        }
        None => return None,
    };
    let links = topology::namespace(lab, links::PLACE);
    let carried = |name: &str| Namespace::open(name).is_ok_and(|place| place.is_some_and(is_used));
    let status =
        if status == Status::Up && there.contains(&links) && !carried(&links) { Status::Partial } else { status };
    let known =
        |name: &&String| **name != links && record.as_ref().is_none_or(|record| record.namespaces.contains(*name));
    let nodes = there.iter().filter(known).map(|name| name.replacen(&prefix, "", 1)).collect();
    Some(Summary { name: lab.to_owned(), status, nodes, file: record.map(|record| record.path) })
}

/// Whether a process is in a namespace.
fn is_used(place: Namespace) -> bool {
    place.processes().is_ok_and(|processes| !processes.is_empty())
}

/// The lab's name in a lab file, which need not be correct otherwise.
pub fn name_in(path: impl AsRef<Path>) -> Result<String, Error> {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.into(), source })?;
    match toml::from_str::<toml::Table>(&text) {
        Ok(table) if table.contains_key("name") => match table["name"].as_str() {
            Some(name) => Ok(name.to_owned()),
            None => Ok(LabFile::parse(&text, path)?.name()?),
        },
        Ok(_) => Ok(labfile::resolve::name_of(path).map_err(|problem| labfile::Error::at(path, &text, problem))?),
        Err(error) => Err(labfile::Error::Syntax { path: path.into(), message: error.to_string() }.into()),
    }
}
