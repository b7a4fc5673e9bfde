//! Control groups of jails: memory, processes, the processor.
//!
//! Version 2 of the interface where its controllers can be had, version 1 for each controller that the host has bound
//! there. A node (or whoever starts jails for it) has one *parent*, a directory `anode-NAME` in each hierarchy, below
//! which each jail gets a directory of its own, removed when the jail is empty. A parent is locked (flock(2)) as long
//! as its owner lives; so whoever starts can tell what a node that died has left, and removes it ([`Parent::open`]).

mod hierarchy;
mod processor;

use super::{Group, Part};
use hierarchy::{Controller, Hierarchy, hierarchies};
use processor::written;
pub use processor::{Meter, Unread, Weights};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What names of parents begin with.
const PREFIX: &str = "anode-";

/// How long is waited for the kernel to take the last process out of a group that was killed, and for somebody who removes a parent.
const PATIENCE: Duration = Duration::from_secs(2);

/// Microseconds over which a maximum of the processor is counted.
const PERIOD_US: u64 = 100_000;

/// The directories of one node's jails.
#[derive(Debug)]
pub struct Parent {
    places: Vec<Place>,
    /// Held open: its lock says that somebody lives.
    _locks: Vec<OwnedFd>,
}

#[derive(Clone, Debug)]
struct Place {
    hierarchy: Hierarchy,
    at: PathBuf,
}

/// The directories of one jail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// What the jail joins.
    pub places: Vec<PathBuf>,
}

impl Parent {
    /// Makes the directories of a parent, and removes those of parents that nobody holds any more. Controllers that cannot be had are left
    /// out.
    pub fn open(name: &str) -> Parent {
        let (mut places, mut locks, until) = (Vec::new(), Vec::new(), Instant::now() + PATIENCE);
        for hierarchy in hierarchies() {
            remove_left(&hierarchy.base);
            let at = hierarchy.base.join(format!("{PREFIX}{name}"));
            match make_parent(&hierarchy, &at, until) {
                Ok(lock) => {
                    locks.push(lock);
                    places.push(Place { hierarchy, at });
                }
                Err(error) => tracing::debug!(path = %at.display(), %error, "no control group here"),
            }
        }
        Parent { places, _locks: locks }
    }

    /// What limits cannot be set here.
    pub fn lacks(&self) -> Vec<Part> {
        let wanted =
            [(Controller::Memory, Part::Memory), (Controller::Pids, Part::Processes), (Controller::Cpu, Part::Cpu)];
        let has = |wanted| self.places.iter().any(|place| place.hierarchy.controllers.contains(&wanted));
        wanted.into_iter().filter(|(controller, _)| !has(*controller)).map(|(_, part)| part).collect()
    }

    /// Makes the directories of a jail, with its limits.
    pub fn add(&self, name: &str, group: &Group) -> io::Result<Groups> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        // Of two jails that follow each other the first may not be gone yet.
        let name = format!("{name}.{}", SERIAL.fetch_add(1, Ordering::Relaxed));
        let mut groups = Groups::default();
        for place in &self.places {
            let at = place.at.join(&name);
            let made = create(&at).map(|()| groups.places.push(at.clone()));
            if let Err(error) = made.and_then(|()| limit(&place.hierarchy, &at, group)) {
                groups.remove();
                return Err(io::Error::new(error.kind(), format!("control group {}: {error}", at.display())));
            }
        }
        Ok(groups)
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        for place in &self.places {
            remove_tree(&place.at);
        }
    }
}

impl Groups {
    /// How many of its processes the kernel has ended since the group was at its limit of memory, and that limit in bytes; nothing: none.
    pub fn out_of_memory(&self) -> Option<(u64, u64)> {
        let read = |file: &str| self.places.iter().find_map(|place| fs::read_to_string(place.join(file)).ok());
        let kills = killed(&read("memory.events").or_else(|| read("memory.oom_control"))?)?;
        let limit = read("memory.max").or_else(|| read("memory.limit_in_bytes"))?;
        Some((kills, limit.trim().parse().unwrap_or(u64::MAX)))
    }

    /// Removes the directories of a jail that has ended.
    pub fn remove(&self) {
        let until = Instant::now() + PATIENCE;
        for place in &self.places {
            if let Err(error) = remove_one(place, until) {
                tracing::warn!(path = %place.display(), %error, "a control group stays");
            }
        }
    }
}

/// The number of processes ended for want of memory, if any, that a file says of its group.
fn killed(text: &str) -> Option<u64> {
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok().filter(|count| *count > 0)
}

/// Makes a group that others can pass through and not read, so that nobody else can lock it.
fn create(at: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o711).create(at)
}

/// Removes a group as soon as its last process is out of it, which was killed already.
fn remove_one(at: &Path, until: Instant) -> io::Result<()> {
    loop {
        match fs::remove_dir(at) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        }
    }
}

/// Removes a parent and what is below it, as far as no process is in it.
fn remove_tree(parent: &Path) {
    let Ok(children) = fs::read_dir(parent) else { return };
    for child in children.flatten().filter(|child| child.file_type().is_ok_and(|kind| kind.is_dir())) {
        // What still has processes stays, and is removed by the next who starts.
        let _ = remove_one(&child.path(), Instant::now() + PATIENCE);
    }
    let _ = fs::remove_dir(parent);
}

/// Removes what nodes that were killed have left in the groups that this process is in, and in the uppermost ones.
pub fn remove_all_left() {
    hierarchy::places().iter().for_each(|base| remove_left(base));
}

/// Removes parents whose owners are gone.
fn remove_left(base: &Path) {
    let Ok(found) = fs::read_dir(base) else { return };
    for entry in found.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        // Held until it is gone, and no other one that has come in its place.
        match hold(&entry.path()) {
            Ok(lock) if is_at(&lock, &entry.path()) => remove_tree(&entry.path()),
            _ => {}
        }
    }
}

/// Locks a parent; an error if somebody has it.
fn hold(at: &Path) -> io::Result<OwnedFd> {
    let directory = open(at, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    Ok(directory)
}

/// Whether a directory is still the one there.
fn is_at(directory: &OwnedFd, at: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::fs::fstat(directory).map(|facts| facts.st_ino);
    fs::metadata(at).is_ok_and(|facts| own == Ok(facts.ino()))
}

fn make_parent(hierarchy: &Hierarchy, at: &Path, until: Instant) -> io::Result<OwnedFd> {
    let lock = loop {
        match create(at) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Somebody who starts now may take it for one that is left until it is held, and holds it himself as long as he removes it.
        match hold(at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
            Ok(lock) if is_at(&lock, at) => break lock,
            Ok(_) => {}
        }
    };
    if hierarchy.unified {
        let enabled = hierarchy.enable(at);
        if enabled.is_err() {
            // An empty directory serves nobody.
            let _ = fs::remove_dir(at);
        }
        enabled?;
    }
    Ok(lock)
}

/// Writes the limits of a group.
fn limit(hierarchy: &Hierarchy, at: &Path, group: &Group) -> io::Result<()> {
    let write = |file: &str, value: String| {
        fs::write(at.join(file), value).map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))
    };
    // What some kernels have not been built with.
    let write_if_there = |file: &str, value: String| if at.join(file).exists() { write(file, value) } else { Ok(()) };
    let quota_us = u64::from(group.cpu_percent) * PERIOD_US / 100;
    for controller in &hierarchy.controllers {
        match (controller, hierarchy.unified) {
            (Controller::Memory, _) if group.memory_bytes == 0 => {}
            (Controller::Memory, true) => {
                write("memory.max", group.memory_bytes.to_string())?;
                write_if_there("memory.swap.max", "0".into())?;
            }
            (Controller::Memory, false) => {
                write("memory.limit_in_bytes", group.memory_bytes.to_string())?;
                write_if_there("memory.memsw.limit_in_bytes", group.memory_bytes.to_string())?;
            }
            (Controller::Pids, _) if group.tasks == 0 => {}
            (Controller::Pids, _) => write("pids.max", group.tasks.to_string())?,
            (Controller::Cpu, true) => {
                write("cpu.weight", written(group.cpu_weight, true).to_string())?;
                if quota_us > 0 {
                    write_if_there("cpu.max", format!("{quota_us} {PERIOD_US}"))?;
                }
            }
            (Controller::Cpu, false) => {
                write("cpu.shares", written(group.cpu_weight, false).to_string())?;
                if quota_us > 0 {
                    write_if_there("cpu.cfs_quota_us", quota_us.to_string())?;
                }
            }
            (Controller::Account, _) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
