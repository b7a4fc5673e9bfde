//! Capture files: created or emptied by the broker, and given to the node's user. Only a file that is new or that a
//! node has made is touched.
//!
//! Somebody with write access to the directory may have put a link, a pipe or another's file there before; somebody
//! with access above it, another directory.

use super::prepare::{check_way, is_expected};
use crate::config::NodeFile;
use crate::sys::own;
use crate::sys::owners;
use crate::sys::privileges::Identity;
use anyhow::{Context, Result, bail};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Those of a configuration.
pub(super) fn of(file: &NodeFile) -> impl Iterator<Item = &Path> {
    file.ports.iter().filter_map(|port| port.pcap.as_deref())
}

/// Refuses what is no place for one.
pub(super) fn check(path: &Path, file: &NodeFile) -> Result<()> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !above.is_dir() {
        bail!("pcap = \"{}\": there is no directory {}", path.display(), above.display());
    }
    check_way(path).with_context(|| format!("pcap = \"{}\"", path.display()))?;
    let Ok(facts) = fs::symlink_metadata(path) else { return Ok(()) };
    check_facts(&facts, path, file)?;
    check_open(&own::open(path).with_context(|| format!("pcap = \"{}\"", path.display()))?, path)
}

/// Refuses what is no file, or somebody else's.
fn check_facts(facts: &Metadata, path: &Path, file: &NodeFile) -> Result<()> {
    let shown = path.display();
    if !facts.is_file() {
        bail!("pcap = \"{shown}\": this is no file; name one that is not there yet");
    }
    if facts.nlink() != 1 {
        bail!("pcap = \"{shown}\": this file has another name too, and would be lost by that; remove it");
    }
    let own = rustix::process::geteuid();
    if facts.uid() != own.as_raw() && !(own.is_root() && is_expected(facts.uid(), file)) {
        bail!(
            "pcap = \"{shown}\": this file belongs to user {}, and no node has made it; remove it, or name another",
            facts.uid()
        );
    }
    Ok(())
}

/// Refuses an open file that has something, but no frames.
fn check_open(file: &File, path: &Path) -> Result<()> {
    if !is_capture(file).with_context(|| format!("pcap = \"{}\"", path.display()))? {
        bail!(
            "pcap = \"{}\": this is no capture file, and would be lost; move it away, or name another",
            path.display()
        );
    }
    Ok(())
}

/// Makes one, or empties one that is there, and gives it to the node's user: the way to that very file, whatever has its name later.
pub(super) fn make(path: &Path, file: &NodeFile, user: Option<Identity>) -> Result<OwnedFd> {
    let cannot = || format!("cannot make the capture file {}", path.display());
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let made: File = match rustix::fs::openat(CWD, path, flags | OFlags::CREATE | OFlags::EXCL, mode) {
        Err(Errno::EXIST) => {
            let there = rustix::fs::openat(CWD, path, flags, mode).map(File::from).with_context(cannot)?;
            check_facts(&there.metadata()?, path, file)?;
            check_open(&there, path)?;
            there
        }
        made => made.map(File::from).with_context(cannot)?,
    };
    made.set_len(0)?;
    own::give(&made, user.map(|user| (user.uid, user.gid)))?;
    let here = format!("/proc/self/fd/{}", made.as_raw_fd());
    owners::open_path(Path::new(&here)).with_context(|| format!("{} cannot be opened", path.display()))
}

/// Whether an open file may be made a capture file: an ordinary one that is empty, or is one already, of whatever kind and host.
fn is_capture(file: &File) -> io::Result<bool> {
    // Of pcap, in microseconds and in nanoseconds, and of pcapng: the first word of each.
    const KINDS: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0x0a0d_0d0a];
    let facts = file.metadata()?;
    let mut word = [0; 4];
    if !facts.is_file() || (1..4).contains(&facts.len()) {
        return Ok(false);
    }
    if facts.len() > 0 {
        file.read_exact_at(&mut word, 0)?;
    }
    let word = u32::from_ne_bytes(word);
    Ok(facts.len() == 0 || KINDS.contains(&word) || KINDS.contains(&word.swap_bytes()))
}
