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
//! taken away, so whatever ends a process, the next one or `anode node down` finds it and puts it back.

use crate::sys::bpf::{self, Link, Program, XdpMode};
use crate::sys::{ethtool, hook};
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What names of this project's programs in the kernel begin with.
const OURS: &str = "anode_";

/// How the names of pins begin: of programs that were found, and of links that stand there since, of the kernel half and of what takes
/// frames to sockets without one.
const FOUND: &str = "found-";
pub(super) const LINK: &str = "link-";
pub(super) const STEERING: &str = "steer-";

/// A program that is kept until its interface is to have it again.
struct Kept {
    path: PathBuf,
    interface: u32,
    mode: XdpMode,
    network: u64,
}

/// Puts a program of ours, as `attach` does, before one of somebody else's, which is jumped to by a map of programs from now on:
/// the link, and what that one is called. `root` is where it is pinned meanwhile.
pub fn put_before(
    root: &Path,
    interface: u32,
    map: BorrowedFd<'_>,
    attach: impl FnOnce() -> io::Result<Link>,
) -> io::Result<(Link, String)> {
    let (id, mode) = hook::standing(interface)?.ok_or_else(|| io::Error::other("another program stands in its way"))?;
    let found = Program::by_id(id)?;
    let name = found.name()?;
    if name.starts_with(OURS) {
        return Err(stays(&name, "it is another node's, or of one that died: anode node down takes it away"));
    }
    if !bpf::is_mounted(root) {
        return Err(stays(&name, "there is no BPF file system to keep it in meanwhile"));
    }
    bpf::set_descriptor(map, interface, &found).map_err(|error| match error.raw_os_error() {
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
        let _ = bpf::forget_descriptor(map, interface);
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
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => bpf::pin(found, &path)?,
    }
    let attached = match hook::take_away(interface, found, mode) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            Err(stays(name, "it stands by a link of another process; end that, or have it attach by netlink (ip link)"))
        }
        Err(error) => Err(stays(name, &error.to_string())),
        Ok(()) => attach().inspect_err(|_| {
            if let Err(error) = hook::put(interface, found, mode) {
                tracing::error!(interface, %error, "a program that was found at an interface cannot be put back");
            }
        }),
    };
    if attached.is_err() {
        fs::remove_file(&path)?;
    }
    attached
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
        let put = if is_there { hook::put(kept.interface, &found, kept.mode) } else { Ok(()) };
        match put {
            // It has gone with its interface; or somebody has put another one there.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EBUSY | libc::EEXIST)) => {
                let interface = ethtool::name(kept.interface).unwrap_or_default();
                tracing::warn!(interface, %error, "an XDP program that was found there is not put back");
            }
            put => put?,
        }
        fs::remove_file(&kept.path)?;
    }
    Ok(())
}

/// The links of ours at an interface let it go at once, whoever has them open; whether it is still that interface, and not another of its
/// number.
fn detach_ours(root: &Path, interface: u32) -> io::Result<bool> {
    let mut is_there = true;
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        let of_ours = [LINK, STEERING].iter().find_map(|kept| name.strip_prefix(kept));
        let at = of_ours.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if at == Some(interface) {
            let link = Link::adopt(bpf::open(&entry.path())?);
            is_there &= link.target()?.0 == interface;
            link.detach()?;
        }
    }
    Ok(is_there)
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
        for wrong in ["found-", "found-3", "found-3-driver", "found-x-driver-1", "found-3-else-1", "link-3-driver"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
