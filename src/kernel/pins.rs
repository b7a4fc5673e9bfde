//! The pins of the kernel half in a BPF file system, by which it outlives the node's process.
//!
//! ```text
//! RUN_DIR/bpf/            a BPF file system of the node's own
//!   set-1/                maps by name, ingress when all are there, state-CODE for each code
//!   link-3-driver         the ingress at interface 3, in its driver or in the stack
//! ```
//!
//! A set without ingress was not finished and counts for nothing. A process that dies leaves all of it; the next
//! one takes it over, or makes another set and turns the links to it.

use super::found::{self, LINK, STEERING, forget};
use crate::broker::{self, NAMES_MAX, Pin, PinRequest, Request};
use crate::sys::bpf::{self, Link, Map, Program, XdpMode};
use crate::wire::Digest;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The folder in a node's run directory.
const FOLDER: &str = "bpf";
/// The name of what is about to get its own.
const FRESH: &str = "fresh";
/// How the folders of sets begin.
const SET: &str = "set-";
/// Sets at the same time: one at work, its successor, and what starts have left that were killed.
pub const SETS_MAX: usize = 8;
/// The name that says that a set is whole.
pub(super) const INGRESS: &str = "ingress";

/// The pins of one kernel half.
#[derive(Debug)]
pub struct Pins {
    root: PathBuf,
}

/// The pins of one set of maps.
#[derive(Debug)]
pub struct Set {
    root: PathBuf,
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
    root: PathBuf,
    name: String,
}

impl Pins {
    /// The pins of the node with this run directory; its file system is mounted if it is not yet.
    pub fn open(run_dir: &Path) -> io::Result<Pins> {
        let pins = Pins { root: run_dir.join(FOLDER) };
        ask(&pins.root, PinRequest::Open, None).map(|_| pins)
    }

    /// Those in the BPF file system mounted there.
    pub(crate) fn at(root: PathBuf) -> Pins {
        Pins { root }
    }

    /// The sets that were finished, newest first.
    pub fn sets(&self) -> io::Result<Vec<Set>> {
        let mut finished = Vec::new();
        for set in self.folders()? {
            if names(&self.root, Some(set.number))?.iter().any(|name| name == INGRESS) {
                finished.push(set);
            }
        }
        finished.sort_unstable_by_key(|set| std::cmp::Reverse(set.number));
        Ok(finished)
    }

    fn folders(&self) -> io::Result<Vec<Set>> {
        let set = |name: &String| Some(Set { root: self.root.clone(), number: name.strip_prefix(SET)?.parse().ok()? });
        Ok(names(&self.root, None)?.iter().filter_map(set).collect())
    }

    /// A new set.
    pub fn create(&self) -> io::Result<Set> {
        let number = self.folders()?.iter().map(|set| set.number).max().unwrap_or(0) + 1;
        ask(&self.root, PinRequest::Make { set: number }, None)?;
        Ok(Set { root: self.root.clone(), number })
    }

    /// Removes all sets but this.
    pub fn retain(&self, set: &Set) -> io::Result<()> {
        let others = self.folders()?.into_iter().filter(|other| other.number != set.number);
        others.into_iter().try_for_each(|other| other.remove())
    }

    /// The links that are pinned.
    pub fn links(&self) -> io::Result<Vec<PinnedLink>> {
        let link = |name: String| {
            let (interface, mode) = name.strip_prefix(LINK)?.split_once('-')?;
            let mode = if mode == XdpMode::Native.name() { XdpMode::Native } else { XdpMode::Generic };
            let interface = interface.parse().ok()?;
            let link = Link::adopt(fetch(&self.root, pin(None, &name)).ok()?);
            Some(PinnedLink { interface, mode, link, root: self.root.clone(), name })
        };
        Ok(names(&self.root, None)?.into_iter().filter_map(link).collect())
    }

    /// Keeps the ingress at an interface. If that fails, what was found there is put back.
    pub fn keep_link(&self, interface: u32, mode: XdpMode, link: &Link) -> io::Result<()> {
        self.keep_or_give_back(interface, &format!("{LINK}{interface}-{}", mode.name()), link)
    }

    fn keep_or_give_back(&self, interface: u32, name: &str, object: &impl AsFd) -> io::Result<()> {
        let kept = ask(&self.root, PinRequest::Keep(pin(None, name)), Some(object.as_fd()));
        kept.map(drop).inspect_err(|_| {
            if let Err(error) = self.give_back(Some(interface)) {
                tracing::error!(interface, %error, "what was found at an interface is not put back yet");
            }
        })
    }

    /// Takes everything away, and puts back what was found: whatever no process holds is gone then.
    pub fn remove(&self) -> io::Result<()> {
        self.give_back(None)?;
        self.links()?.into_iter().try_for_each(PinnedLink::remove)?;
        self.folders()?.iter().try_for_each(Set::remove)?;
        ask(&self.root, PinRequest::Close, None).map(drop)
    }

    /// Programs that were found at interfaces, and are to be put back.
    pub fn found(&self) -> io::Result<Vec<(u32, Program)>> {
        let mut all = Vec::new();
        for name in names(&self.root, None)? {
            if let Some((interface, ..)) = found::parse(&name) {
                all.push((interface, Program::adopt(fetch(&self.root, pin(None, &name))?)));
            }
        }
        Ok(all)
    }

    /// Puts back what was found at an interface, or at all.
    pub fn give_back(&self, interface: Option<u32>) -> io::Result<()> {
        ask(&self.root, PinRequest::GiveBack { interface }, None).map(drop)
    }

    /// Keeps what stands at an interface beside the kernel half, with the maps by which it jumps to the program that was found there.
    /// If that fails, that one is put back.
    pub fn keep_steering(&self, interface: u32, mode: XdpMode, link: &Link, maps: [(&str, &Map); 2]) -> io::Result<()> {
        for (name, map) in maps {
            self.keep_or_give_back(interface, &format!("{STEERING}{name}"), map)?;
        }
        self.keep_or_give_back(interface, &format!("{STEERING}{interface}-{}", mode.name()), link)
    }

    /// An interface is gone before which something stood so.
    pub fn forget_steering(&self, interface: u32) -> io::Result<()> {
        self.give_back(Some(interface))?;
        for mode in [XdpMode::Native, XdpMode::Generic] {
            let name = format!("{STEERING}{interface}-{}", mode.name());
            ask(&self.root, PinRequest::Forget(pin(None, &name)), None)?;
        }
        Ok(())
    }

    /// The interfaces before which a kernel half stands that a process before has left; nothing: there is none.
    pub fn standing(run_dir: &Path) -> io::Result<Option<Vec<u32>>> {
        let pins = Pins { root: run_dir.join(FOLDER) };
        if !ask(&pins.root, PinRequest::IsOpen, None)?.was() || pins.sets()?.is_empty() {
            return Ok(None);
        }
        Ok(Some(pins.links()?.into_iter().map(|link| link.interface).collect()))
    }

    /// Takes the ingress away from these interfaces.
    pub fn remove_links(run_dir: &Path, which: impl Fn(u32) -> bool) -> io::Result<()> {
        let pins = Pins { root: run_dir.join(FOLDER) };
        pins.links()?.into_iter().filter(|link| which(link.interface)).try_for_each(PinnedLink::remove)
    }

    /// Takes away what a node that has died left in its run directory; says whether there was something.
    pub fn sweep(run_dir: &Path) -> io::Result<bool> {
        let root = run_dir.join(FOLDER);
        let there = ask(&root, PinRequest::IsOpen, None)?.was();
        if there {
            Pins { root }.remove()?;
        } else {
            // A start that was killed may have come no further; a folder with something in it is not ours.
            let _ = fs::remove_dir(&root);
        }
        Ok(there)
    }
}

impl PinnedLink {
    /// Takes the pin away, and puts back what was found there.
    pub fn remove(self) -> io::Result<()> {
        ask(&self.root, PinRequest::GiveBack { interface: Some(self.interface) }, None)?;
        ask(&self.root, PinRequest::Forget(pin(None, &self.name)), None).map(drop)
    }
}

impl Set {
    /// Keeps an object under a name, instead of one that had it.
    pub fn keep(&self, name: &str, object: &impl AsFd) -> io::Result<()> {
        ask(&self.root, PinRequest::Keep(pin(Some(self.number), name)), Some(object.as_fd())).map(drop)
    }

    /// The object under a name.
    pub fn open(&self, name: &str) -> io::Result<OwnedFd> {
        fetch(&self.root, pin(Some(self.number), name))
    }

    /// Lets the object under a name go.
    pub fn forget(&self, name: &str) -> io::Result<()> {
        ask(&self.root, PinRequest::Forget(pin(Some(self.number), name)), None).map(drop)
    }

    /// The codes whose state is kept.
    pub fn states(&self) -> io::Result<impl Iterator<Item = Digest>> {
        let all = names(&self.root, Some(self.number))?;
        Ok(all.into_iter().filter_map(|name| name.strip_prefix("state-")?.parse().ok()))
    }

    fn remove(&self) -> io::Result<()> {
        ask(&self.root, PinRequest::Remove { set: self.number }, None).map(drop)
    }
}

fn pin(set: Option<u32>, name: &str) -> Pin {
    Pin { set, name: name.to_owned() }
}

fn fetch(root: &Path, pin: Pin) -> io::Result<OwnedFd> {
    ask(root, PinRequest::Fetch(pin), None)?.descriptor()
}

/// All names beside the sets, or in one.
fn names(root: &Path, set: Option<u32>) -> io::Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let more = ask(root, PinRequest::Names { set, behind: all.last().cloned() }, None)?.names()?;
        if more.is_empty() {
            return Ok(all);
        }
        all.extend(more);
    }
}

/// Has it done in the run directory around `root`.
fn ask(root: &Path, request: PinRequest, object: Option<BorrowedFd<'_>>) -> io::Result<broker::Done> {
    let run_dir = root.parent().ok_or(io::ErrorKind::InvalidInput)?;
    broker::ask_at(run_dir, &Request::Pins(request), object.as_slice())
}

/// The BPF file system of the node with this run directory.
pub fn root_of(run_dir: &Path) -> PathBuf {
    run_dir.join(FOLDER)
}

static KEEPING: Mutex<()> = Mutex::new(());

/// Does what was asked for in the BPF file system at `root`.
pub fn carry_out(root: &Path, request: &PinRequest, object: Option<BorrowedFd<'_>>) -> io::Result<broker::Done> {
    let folder = |set: Option<u32>| folder(root, set);
    let path = |pin: &Pin| folder(pin.set).join(&pin.name);
    match request {
        PinRequest::IsOpen => return Ok(broker::Done::of_flag(bpf::is_mounted(root))),
        PinRequest::Open => {
            fs::create_dir_all(root)?;
            if !bpf::is_mounted(root) {
                bpf::mount(root)?;
            }
        }
        // Everything else is done in a BPF file system or not at all.
        _ if !bpf::is_mounted(root) => {
            return Err(io::Error::other("no BPF file system is mounted in the run directory"));
        }
        PinRequest::Names { set, behind } => return list(&folder(*set), behind.as_deref()).map(broker::Done::of_names),
        PinRequest::Make { set } => fs::create_dir(folder(Some(*set)))?,
        PinRequest::Keep(pin) => {
            let object = object.ok_or_else(|| io::Error::other("nothing to be kept"))?;
            // In one step: a process may die at any instant. One at a time: they have the name for that in common.
            let _one = KEEPING.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = folder(pin.set).join(FRESH);
            forget(&fresh)?;
            bpf::pin(&object, &fresh)?;
            fs::rename(fresh, path(pin))?;
        }
        PinRequest::Fetch(pin) => return bpf::open(&path(pin)).map(broker::Done::of),
        PinRequest::GiveBack { interface } => found::give_back(root, *interface)?,
        PinRequest::Forget(pin) => forget(&path(pin))?,
        PinRequest::Remove { set } => {
            let folder = folder(Some(*set));
            fs::read_dir(&folder)?.try_for_each(|entry| fs::remove_file(entry?.path()))?;
            fs::remove_dir(folder)?;
        }
        PinRequest::Close => {
            bpf::unmount(root)?;
            fs::remove_dir(root)?;
        }
    }
    Ok(broker::Done::default())
}

/// Says why what is there does not allow a request. Names outlive whoever asks, so a folder has `most` of them, and there are
/// [`SETS_MAX`] folders; what is kept for others does not go with the file system.
pub fn check(root: &Path, request: &PinRequest, most: usize) -> Result<(), String> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    match request {
        PinRequest::Keep(pin) => {
            let names = names(&folder(root, pin.set));
            match names.len() >= most && !names.contains(&pin.name) {
                true => Err(format!(
                    "there are {} names in its folder of the BPF file system, and at most {most}",
                    names.len()
                )),
                false => Ok(()),
            }
        }
        PinRequest::Make { .. } => match names(root).iter().filter(|name| name.starts_with(SET)).count() {
            sets if sets >= SETS_MAX => Err(format!("there are {sets} sets of maps, and at most {SETS_MAX}")),
            _ => Ok(()),
        },
        PinRequest::Close if found::is_some_kept(root) => {
            Err("programs that were found at interfaces are kept there, and not put back yet".into())
        }
        _ => Ok(()),
    }
}

/// Where the names of a set are, or those beside sets.
fn folder(root: &Path, set: Option<u32>) -> PathBuf {
    set.map_or_else(|| root.to_owned(), |set| root.join(format!("{SET}{set}")))
}

/// Some names of a folder behind one, in order.
fn list(folder: &Path, behind: Option<&str>) -> io::Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        all.extend(entry?.file_name().into_string().ok().filter(|name| behind.is_none_or(|last| name.as_str() > last)));
    }
    all.sort_unstable();
    all.truncate(NAMES_MAX);
    Ok(all)
}

/// The name for the soft state of a code.
pub fn state_of(code: &Digest) -> String {
    format!("state-{code}")
}
