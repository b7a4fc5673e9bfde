//! Where the kernel half is pinned, so that it outlives the node's process.
//!
//! ```text
//! RUN_DIR/bpf/            a BPF file system of the node's own
//!   set-1/                maps by name, ingress when all are there, state-CODE for each code
//!   link-3-driver         the ingress at interface 3, in its driver or in the stack
//! ```
//!
//! A set without ingress was not finished and counts for nothing. A process that dies leaves all of it; the next
//! one takes it over, or makes another set and turns the links to it.

use crate::sys::bpf::{self, Link, XdpMode};
use crate::wire::Digest;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The folder in a node's run directory.
const FOLDER: &str = "bpf";
/// The name of what is about to get its own.
const FRESH: &str = "fresh";

/// The pins of one kernel half.
#[derive(Debug)]
pub struct Pins {
    root: PathBuf,
}

/// The pins of one set of maps.
#[derive(Debug)]
pub struct Set {
    folder: PathBuf,
    number: u32,
}

/// An ingress that stands at an interface.
#[derive(Debug)]
pub struct PinnedLink {
    /// The interface's index.
    pub interface: u32,
    /// How it stands there.
    pub mode: XdpMode,
    /// The link.
    pub link: Link,
    path: PathBuf,
}

impl Pins {
    /// The pins of the node with this run directory; its file system is mounted if it is not yet.
    pub fn open(run_dir: &Path) -> io::Result<Pins> {
        let root = run_dir.join(FOLDER);
        fs::create_dir_all(&root)?;
        if !bpf::is_mounted(&root) {
            bpf::mount(&root)?;
        }
        Ok(Pins { root })
    }

    /// The sets that were finished, newest first.
    pub fn sets(&self) -> io::Result<Vec<Set>> {
        let mut sets: Vec<Set> = self.folders()?.filter(|set| set.folder.join("ingress").exists()).collect();
        sets.sort_unstable_by_key(|set| std::cmp::Reverse(set.number));
        Ok(sets)
    }

    fn folders(&self) -> io::Result<impl Iterator<Item = Set>> {
        Ok(names(&self.root)?.filter_map(|(name, folder)| {
            let number = name.strip_prefix("set-")?.parse().ok()?;
            Some(Set { folder, number })
        }))
    }

    /// A new set.
    pub fn create(&self) -> io::Result<Set> {
        let number = self.folders()?.map(|set| set.number).max().unwrap_or(0) + 1;
        let folder = self.root.join(format!("set-{number}"));
        fs::create_dir(&folder)?;
        Ok(Set { folder, number })
    }

    /// Removes all sets but this.
    pub fn retain(&self, set: &Set) -> io::Result<()> {
        self.folders()?.filter(|other| other.number != set.number).try_for_each(|other| remove_folder(&other.folder))
    }

    /// The links that are pinned.
    pub fn links(&self) -> io::Result<Vec<PinnedLink>> {
        let link = |(name, path): (String, PathBuf)| {
            let (interface, mode) = name.strip_prefix("link-")?.split_once('-')?;
            let mode = if mode == XdpMode::Native.name() { XdpMode::Native } else { XdpMode::Generic };
            let link = Link::adopt(bpf::open(&path).ok()?);
            Some(PinnedLink { interface: interface.parse().ok()?, mode, link, path })
        };
        Ok(names(&self.root)?.filter_map(link).collect())
    }

    /// Keeps the ingress at an interface.
    pub fn keep_link(&self, interface: u32, mode: XdpMode, link: &Link) -> io::Result<()> {
        bpf::pin(link, &self.root.join(format!("link-{interface}-{}", mode.name())))
    }

    /// Takes everything away: whatever no process holds is gone then.
    pub fn remove(&self) -> io::Result<()> {
        self.links()?.into_iter().try_for_each(PinnedLink::remove)?;
        self.folders()?.try_for_each(|set| remove_folder(&set.folder))?;
        bpf::unmount(&self.root)?;
        fs::remove_dir(&self.root)
    }

    /// Takes away what a node that has died left in its run directory; says whether there was something.
    pub fn sweep(run_dir: &Path) -> io::Result<bool> {
        let root = run_dir.join(FOLDER);
        if !bpf::is_mounted(&root) {
            return Ok(false);
        }
        Pins { root }.remove()?;
        Ok(true)
    }
}

impl PinnedLink {
    /// Takes the pin away.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl Set {
    /// Keeps an object under a name, instead of one that had it.
    pub fn keep(&self, name: &str, object: &impl AsFd) -> io::Result<()> {
        // In one step: a process may die at any instant.
        let fresh = self.folder.join(FRESH);
        self.forget(FRESH)?;
        bpf::pin(object, &fresh)?;
        fs::rename(fresh, self.folder.join(name))
    }

    /// The object under a name.
    pub fn open(&self, name: &str) -> io::Result<OwnedFd> {
        bpf::open(&self.folder.join(name))
    }

    /// Lets the object under a name go.
    pub fn forget(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// The codes whose state is kept.
    pub fn states(&self) -> io::Result<impl Iterator<Item = Digest>> {
        Ok(names(&self.folder)?.filter_map(|(name, _)| name.strip_prefix("state-")?.parse().ok()))
    }
}

/// The name for the soft state of a code.
pub fn state_of(code: &Digest) -> String {
    format!("state-{code}")
}

fn names(folder: &Path) -> io::Result<impl Iterator<Item = (String, PathBuf)>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    Ok(entries.into_iter().filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))))
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    names(folder)?.try_for_each(|(_, path)| fs::remove_file(path))?;
    fs::remove_dir(folder)
}
