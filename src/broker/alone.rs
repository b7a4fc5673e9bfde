//! What one node can have at a time: an interface, and an address to listen at.
//!
//! Two nodes at one interface would take each other's capsules away, and neither would know. So a node holds its
//! interfaces by locks of root's, as long as it or its broker lives. `anode node check` looks at them, and at what
//! others listen to, and holds nothing.

use super::prepare::{self, DYING, LOOK};
use crate::config::NodeFile;
use crate::sys::jail::{self, Place};
use crate::sys::process;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

/// The interfaces of a configuration, with the names of their ports.
fn interfaces(file: &NodeFile) -> Result<Vec<(String, String, Place)>> {
    let network = fs::metadata("/proc/thread-self/ns/net").context("/proc/thread-self/ns/net")?.ino();
    let named = file.ports.iter().zip(file.titles());
    let native = named.filter_map(|(port, title)| Some((title, port.packet.clone()?)));
    Ok(native.map(|(title, name)| (title, name.clone(), jail::place_of_interface(network, &name))).collect())
}

/// Has the interfaces of a configuration for a node, as long as the result is open.
pub(super) fn hold(file: &NodeFile) -> Result<File> {
    let all = interfaces(file)?;
    let places: Vec<Place> = all.iter().map(|(.., place)| *place).collect();
    let begin = Instant::now();
    loop {
        if let Some(held) = jail::hold_places(&places).context("interfaces cannot be locked")? {
            return Ok(held);
        }
        // Processes of a node that was killed have theirs a moment longer.
        if begin.elapsed() > DYING {
            refuse_held(&all)?;
        }
        std::thread::sleep(LOOK);
    }
}

/// The interfaces that a node has alone, by locks that its processes share; none of a node without privileges.
#[derive(Default)]
pub(super) struct Interfaces {
    locks: Option<File>,
    held: Vec<Place>,
}

impl Interfaces {
    /// Those of a configuration, which are held by these locks.
    pub fn of(file: &NodeFile, locks: Option<File>) -> Result<Interfaces> {
        let held = interfaces(file)?.into_iter().map(|(.., place)| place).collect();
        Ok(Interfaces { locks, held })
    }

    /// Has those of another configuration too, all of them or none that are new.
    pub fn take(&mut self, file: &NodeFile) -> Result<()> {
        let all = interfaces(file)?;
        let Some(locks) = &self.locks else {
            return match all.first() {
                Some((title, name, _)) => bail!(
                    "port {title}: packet = \"{name}\": whoever started this node has no privilege, so it gets no socket of an \
                     interface: start it as root, or use udp ports"
                ),
                None => Ok(()),
            };
        };
        let new: Vec<Place> = all.iter().map(|(.., place)| *place).filter(|place| !self.held.contains(place)).collect();
        if !jail::hold_more(locks, &new).context("interfaces cannot be locked")? {
            let new: Vec<_> = all.into_iter().filter(|(.., place)| new.contains(place)).collect();
            refuse_held(&new)?;
            bail!("another node has had an interface until now: ask again");
        }
        self.held.extend(new);
        Ok(())
    }

    /// Lets go of those that a configuration has not.
    pub fn keep(&mut self, file: &NodeFile) -> Result<()> {
        let Some(locks) = &self.locks else { return Ok(()) };
        let own: Vec<Place> = interfaces(file)?.into_iter().map(|(.., place)| place).collect();
        let gone: Vec<Place> = self.held.iter().copied().filter(|place| !own.contains(place)).collect();
        jail::let_go(locks, &gone).context("locks of interfaces stay")?;
        self.held = own;
        Ok(())
    }
}

fn refuse_held(all: &[(String, String, Place)]) -> Result<()> {
    for (title, name, place) in all {
        if jail::is_held(*place).context("locks of interfaces cannot be looked at")? {
            bail!(
                "port {title}: packet = \"{name}\": another node has this interface; stop that one (anode node down NODE), or \
                 leave the port out"
            );
        }
    }
    Ok(())
}

/// Refuses what others have that a start needs. A node that runs has all of it itself.
pub(super) fn check(file: &NodeFile) -> Result<()> {
    if prepare::is_claimed(&file.run_dir()) {
        return Ok(());
    }
    if process::is_root() {
        refuse_held(&interfaces(file)?)?;
    }
    for (port, title) in file.ports.iter().zip(file.titles()) {
        if let Some(at) = port.udp {
            listens(&format!("port {title}: udp = \"{at}\""), UdpSocket::bind(at).map(drop))?;
        }
    }
    let tcp = file.plan.tcp.filter(|_| file.plan.enabled);
    tcp.map_or(Ok(()), |at| listens(&format!("[plan] tcp = \"{at}\""), TcpListener::bind(at).map(drop)))
}

/// What came of listening somewhere.
fn listens(key: &str, bound: io::Result<()>) -> Result<()> {
    match bound {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            bail!(
                "{key}: another process listens there; stop it (ss -lnup, ss -lntp show it), or choose another number"
            )
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            bail!("{key}: this number needs CAP_NET_BIND_SERVICE; start the node as root, or choose one from 1024 on")
        }
        Err(error) => Err(error).with_context(|| key.to_owned()),
        Ok(()) => Ok(()),
    }
}
