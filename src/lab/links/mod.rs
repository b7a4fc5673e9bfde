//! Shaped links: those of limited rate, and with delay, loss and the like.
//!
//! ```text
//! an-LAB-a            an-LAB--links                    an-LAB-b
//! to-b ═══ veth ═══ l0-0 ─▶ ring ─▶ model ─▶ travel ─▶ l0-1 ═══ veth ═══ to-a
//! ```
//!
//! One process of the lab carries all its shaped links: each end is a veth whose peer is in a namespace of that process. So what a link
//! does is done to every frame, whoever has sent it: the stack, a packet socket, AF_XDP, or a redirect of XDP, which no queueing
//! discipline sees. `anode lab up` starts the process, or tells the one that runs what differs; it ends with its namespace's
//! interfaces, and `anode lab down` ends it. It keeps meters ([`crate::link::meter`]) in its run directory.

pub(crate) mod carrier;
mod end;
pub(super) mod report;
pub mod spec;
mod travel;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::ending::end_processes;
use super::error::Error;
use super::state::at;
use crate::labfile::Kind;
use crate::labfile::Mac;
use crate::labfile::topology::{Interface, Node, Topology};
use crate::link::LinkQuality;
use crate::sys::netns::Namespace;
use crate::sys::own;
use spec::{Answer, Spec};

/// The links' namespace as if it were a node; no node can be called so.
pub(super) const PLACE: &str = "-links";

/// The number of interfaces at links in their Ethernet addresses, beyond those of nodes. They send nothing of their own.
const MAC: u16 = 0xffff;

/// How long the process may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of the longest frame: with an Ethernet header and a VLAN tag.
pub(super) fn longest(mtu: u32) -> usize {
    mtu as usize + 18
}

/// The run directory of the process: root's, as labs are.
pub(super) fn run_dir(lab: &str) -> PathBuf {
    Path::new("/run/anode").join(format!("{lab}.{PLACE}"))
}

/// Removes what the process has left there; it has ended.
pub(super) fn forget(lab: &str) -> Result<(), Error> {
    match fs::remove_dir_all(run_dir(lab)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::File { path: run_dir(lab), source }),
        _ => Ok(()),
    }
}

/// The file of the links' meters.
pub(super) fn meters(lab: &str) -> PathBuf {
    run_dir(lab).join("meters")
}

/// The topology as it is built: a shaped link is two veths that end in one more namespace.
pub(super) fn wired(topology: &Topology) -> Topology {
    let mut wired = topology.clone();
    // A veth has a number of its own.
    let veths = topology.links();
    let mut ends = Vec::new();
    for node in &mut wired.nodes {
        for end in node.interfaces.iter_mut().filter(|end| end.quality.is_shaped()) {
            let name = spec::interface(end.link, end.end);
            let link = end.link + veths * end.end;
            ends.push(Interface {
                name: name.clone(),
                mac: Mac::of(MAC, end.end as u8 + 1),
                addresses: Vec::new(),
                peer: (node.name.clone(), end.name.clone()),
                link,
                end: 1,
                segment: link,
                mtu: end.mtu,
                quality: LinkQuality::default(),
                cost: 1,
                routed: false,
            });
            (end.peer, end.link, end.end) = ((PLACE.to_owned(), name), link, 0);
        }
    }
    if !ends.is_empty() {
        // It has nothing to say itself.
        let silent = |scope: &str| (format!("net/ipv6/conf/{scope}/disable_ipv6"), "1".to_owned());
        let place = Node {
            name: PLACE.to_owned(),
            kind: Kind::Host,
            active: false,
            anode: None,
            every: Default::default(),
            addresses: Vec::new(),
            interfaces: ends,
            routes: Vec::new(),
            neighbours: Vec::new(),
            sysctls: BTreeMap::from(["all", "default"].map(silent)),
        };
        let at = wired.nodes.partition_point(|node| node.name.as_str() < PLACE);
        wired.nodes.insert(at, place);
    }
    wired
}

/// Has the links of a lab carried as the topology says, by the process that does or a new one of `program`; the number of changes
/// that it took.
pub(super) fn carry(topology: &Topology, place: &Namespace, program: &Path) -> Result<usize, Error> {
    let dir = run_dir(&topology.name);
    fs::create_dir_all(&dir).map_err(at(&dir))?;
    let socket = dir.join("links.sock");
    let spec = Spec::of(topology);
    let mut changes = 0;
    // One that is in no namespace of the lab carries other links, if any; one that carries nothing any more may just be ending.
    let runs = place.processes().is_ok_and(|processes| !processes.is_empty());
    let told = if runs { UnixStream::connect(&socket) } else { Err(io::ErrorKind::NotFound.into()) };
    let told = told.and_then(|stream| tell(stream, &spec));
    let told = match told {
        Ok(answer) => Ok(answer),
        // It is there, and busy.
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Err(error),
        Err(_) => {
            changes += 1;
            end_processes(std::slice::from_ref(place))?;
            start(place, program, &dir, &socket)?;
            UnixStream::connect(&socket).and_then(|stream| tell(stream, &spec))
        }
    };
    match told {
        Ok(Answer::Changes(more)) => Ok(changes + more),
        Ok(Answer::Error(said)) => Err(Error::Links { said }),
        Err(error) => {
            let log = fs::read_to_string(dir.join("links.log")).unwrap_or_default();
            Err(Error::Links { said: format!("{error}; it wrote: {}", log.trim_end()) })
        }
    }
}

fn start(place: &Namespace, program: &Path, dir: &Path, socket: &Path) -> Result<(), Error> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(socket)(error)),
        _ => {}
    }
    // Whoever connects from now on waits until the process is there, or is told that it is gone.
    let listener = UnixListener::bind(socket).map_err(at(socket))?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600)).map_err(at(socket))?;
    let log = dir.join("links.log");
    let output = own::make(&log).and_then(|file| file.set_len(0).map(|()| file)).map_err(at(&log))?;
    let mut command = place.command(program);
    command.args(["lab", "carry"]).arg(dir);
    command.stdin(Stdio::from(OwnedFd::from(listener))).stdout(Stdio::null()).stderr(output).process_group(0);
    let mut child = command.spawn().map_err(|source| Error::Tool { program: "anode", source })?;
    drop(command);
    // If it ends before we do, nothing of it stays.
    let reap = move || child.wait();
    std::thread::Builder::new()
        .name("links".into())
        .spawn(reap)
        .map_err(|source| Error::System { what: "waiting for the process of the lab's links".into(), source })?;
    Ok(())
}

fn tell(mut stream: UnixStream, spec: &Spec) -> io::Result<Answer> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&serde_json::to_vec(spec)?)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}
