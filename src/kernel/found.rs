//! A hook that somebody else has a program at: the node's comes first, and what is not the node's goes to that one.
//!
//! ```text
//! before   [its program, by netlink]
//! now      [ours, by a link] ─ what is not the node's ─ found_map ─▶ [its program]
//! after    [its program, by netlink]
//! ```
//!
//! The kernel exchanges no program of netlink for one of a link, so for a moment between the two none stands there. A program
//! that stands by a link of its own is its owner's, and one that was loaded otherwise than ours cannot be jumped to: both are
//! left where they are, and the node does without. The program is pinned (`found-INTERFACE-MODE-NETWORK`) before it is
//! taken away, and ours (`found-link-INTERFACE`) before anybody is told of it. So whatever ends a process, the next one or
//! `anode node down` finds both, and puts the other one back. These names are the broker's: no node keeps or forgets one.

use super::layout;
use crate::sys::bpf::{self, Link, Map, Program, XdpMode};
use crate::sys::{ethtool, hook};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What names of this project's programs in the kernel begin with.
const OURS: &str = "anode_";

/// How the names of pins begin: of programs that were found, and of links that stand there since, of the kernel half and of what takes
/// frames to sockets without one.
const FOUND: &str = "found-";
const HELD: &str = "found-link-";
pub(super) const LINK: &str = "link-";
pub(super) const STEERING: &str = "steer-";

/// For how long a process that has died may have its link, and between two looks.
const DYING: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(5);

/// A program that is kept until its interface is to have it again.
struct Kept {
    path: PathBuf,
    interface: u32,
    mode: XdpMode,
    network: u64,
}

/// Whether a name is one by which something is kept of somebody else's.
pub fn keeps(name: &str) -> bool {
    name.starts_with(FOUND)
}

/// Whether anything of somebody else's is kept there.
pub fn is_some_kept(root: &Path) -> bool {
    kept(root).is_ok_and(|all| !all.is_empty())
}

/// Puts a program of ours, as `attach` does, before one of somebody else's, which is jumped to by a map of programs from now on:
/// the link, and what that one is called. `root` is where both are pinned meanwhile. An error too if the map is another one.
pub fn put_before(
    root: &Path,
    interface: u32,
    map: BorrowedFd<'_>,
    attach: impl FnOnce() -> io::Result<Link>,
) -> io::Result<(Link, String)> {
    let map = Map::adopt(map.try_clone_to_owned()?, layout::FOUND)?;
    let (id, mode) = hook::standing(interface)?.ok_or_else(|| io::Error::other("another program stands in its way"))?;
    let found = Program::by_id(id)?;
    let name = found.name()?;
    if is_ours(&name) {
        return Err(stays(&name, "it is another node's, or of one that died: anode node down takes it away"));
    }
    if !bpf::is_mounted(root) {
        return Err(stays(&name, "there is no BPF file system to keep it in meanwhile"));
    }
    let key = interface.to_ne_bytes();
    map.set(&key, &found.as_fd().as_raw_fd().to_ne_bytes()).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => stays(
            &name,
            "it cannot be jumped to: it was loaded without frags (SEC(\"xdp.frags\")), or for another place than XDP",
        ),
        Some(libc::EBUSY) => stays(&name, "it cannot be jumped to: others extend it, as a dispatcher of libxdp"),
        _ => stays(&name, &error.to_string()),
    })?;
    let taken = displace(root, (&found, &name, mode), interface, attach);
    if taken.is_err() {
        // Nobody jumps to it, and it may be there no more.
        let _ = map.remove(&key);
    }
    taken.map(|link| (link, name))
}

fn displace(
    root: &Path,
    (found, name, mode): (&Program, &str, XdpMode),
    interface: u32,
    attach: impl FnOnce() -> io::Result<Link>,
) -> io::Result<Link> {
    let path = root.join(format!("{FOUND}{interface}-{}-{}", mode.name(), network()?));
    pin_anew(found, &path)?;
    let attached = match hook::take_away(interface, found, mode) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            Err(stays(name, "it stands by a link of another process; end that, or have it attach by netlink (ip link)"))
        }
        Err(error) => Err(stays(name, &error.to_string())),
        Ok(()) => match attach().and_then(|link| hold(link, &held(root, interface))) {
            Err(error) => {
                if let Err(error) = hook::put(interface, found, mode) {
                    tracing::error!(interface, %error, "a program that was found at an interface is not put back yet");
                    return Err(error);
                }
                Err(error)
            }
            attached => attached,
        },
    };
    if attached.is_err() {
        fs::remove_file(&path)?;
    }
    attached
}

/// Pins a link before whoever it is for knows of it: that process may end before it has done so itself.
fn hold(link: Link, path: &Path) -> io::Result<Link> {
    if let Err(error) = pin_anew(&link, path) {
        link.detach()?;
        return Err(error);
    }
    Ok(link)
}

fn pin_anew(object: &impl AsFd, path: &Path) -> io::Result<()> {
    forget(path)?;
    bpf::pin(object, path)
}

pub(super) fn forget(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Whether another program stands where one was to be put.
pub fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

/// Where the link is pinned that stands before a program that was found.
fn held(root: &Path, interface: u32) -> PathBuf {
    root.join(format!("{HELD}{interface}"))
}

fn is_ours(name: &str) -> bool {
    name.starts_with(OURS)
}

fn stays(name: &str, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, format!("the XDP program {name} stands there, and stays: {why}"))
}

/// Puts back what stood before an interface, or before all, with what stands there of ours out of the way. What belongs to another
/// network namespace stays, and is an error.
pub fn give_back(root: &Path, only: Option<u32>) -> io::Result<()> {
    let here = network()?;
    for kept in kept(root)?.into_iter().filter(|kept| only.is_none_or(|only| only == kept.interface)) {
        if kept.network != here {
            return Err(io::Error::other(format!(
                "an XDP program that was found at interface {} is to be put back in the network namespace of number {}: \
                 anode node down, in that namespace",
                kept.interface, kept.network
            )));
        }
        let found = Program::adopt(bpf::open(&kept.path)?);
        let is_there = detach_ours(root, kept.interface)?;
        let put = if is_there { put_back(&kept, &found) } else { Ok(()) };
        match put {
            // It has gone with its interface; or somebody has put another one there.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EBUSY | libc::EEXIST)) => {
                let interface = ethtool::name(kept.interface).unwrap_or_default();
                tracing::warn!(interface, %error, "an XDP program that was found there is not put back");
            }
            put => put?,
        }
        forget(&held(root, kept.interface))?;
        fs::remove_file(&kept.path)?;
    }
    Ok(())
}

/// Puts a program back where nothing of ours stands any more. An error, and it is kept, as long as another node stands there.
fn put_back(kept: &Kept, found: &Program) -> io::Result<()> {
    let begin = Instant::now();
    loop {
        match hook::put(kept.interface, found, kept.mode) {
            Err(error) if is_taken(&error) && has_ours(kept.interface) => {
                if begin.elapsed() > DYING {
                    return Err(io::Error::other(format!(
                        "an XDP program that was found at interface {} is not put back yet: another node's stands there; \
                         stop that node, then anode node down",
                        kept.interface
                    )));
                }
                std::thread::sleep(LOOK);
            }
            done => return done,
        }
    }
}

/// Whether a program of ours stands there, or did a moment ago.
fn has_ours(interface: u32) -> bool {
    let Ok(standing) = hook::standing(interface) else { return false };
    let name = |id| Program::by_id(id).and_then(|program| program.name());
    standing.is_none_or(|(id, _)| name(id).is_ok_and(|name| is_ours(&name)))
}

/// The links of ours at an interface let it go at once, whoever has them open; whether it is still that interface, and not another of its
/// number.
fn detach_ours(root: &Path, interface: u32) -> io::Result<bool> {
    let held = held(root, interface);
    let links = match fs::symlink_metadata(&held) {
        Ok(_) => vec![held],
        // A version before has left only what the node itself has pinned.
        Err(_) => links_at(root, interface)?,
    };
    let mut is_there = true;
    for path in links {
        let link = Link::adopt(bpf::open(&path)?);
        is_there &= link.target()?.0 == interface;
        link.detach()?;
    }
    Ok(is_there)
}

/// Where the node has pinned its links at an interface.
fn links_at(root: &Path, interface: u32) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        let of_ours = [LINK, STEERING].iter().find_map(|kept| name.strip_prefix(kept));
        let at = of_ours.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        all.extend((at == Some(interface)).then(|| entry.path()));
    }
    Ok(all)
}

/// The programs that are kept.
fn kept(root: &Path) -> io::Result<Vec<Kept>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        all.extend(parse(&name).map(|(interface, mode, network)| Kept {
            path: entry.path(),
            interface,
            mode,
            network,
        }));
    }
    Ok(all)
}

/// What the name of a pin says of a program that was found: its interface, how it stood there, and in which network.
pub(super) fn parse(name: &str) -> Option<(u32, XdpMode, u64)> {
    let mut words = name.strip_prefix(FOUND)?.split('-');
    let interface = words.next()?.parse().ok()?;
    let mode = [XdpMode::Native, XdpMode::Generic]
        .into_iter()
        .zip([words.next()?; 2])
        .find(|(mode, word)| mode.name() == *word);
    Some((interface, mode?.0, words.next()?.parse().ok()?))
}

fn network() -> io::Result<u64> {
    fs::metadata("/proc/thread-self/ns/net").map(|of| of.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pins_say_where_a_program_stood() {
        assert_eq!(parse("found-3-driver-4026531840"), Some((3, XdpMode::Native, 4_026_531_840)));
        assert_eq!(parse("found-12-stack-1"), Some((12, XdpMode::Generic, 1)));
        for wrong in [
            "found-",
            "found-link-3",
            "found-3",
            "found-3-driver",
            "found-x-driver-1",
            "found-3-else-1",
            "link-3-driver",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
