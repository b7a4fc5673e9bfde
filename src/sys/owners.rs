//! Whose files are: directories opened without being read, and trees given to another user.

use super::privileges::Identity;
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fchown, fstat, open, openat, statat};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Directories within each other, at most, in what is given away.
const DEPTH: usize = 16;

/// Opens a file or a directory to be reached by, without reading it.
pub fn open_path(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Gives a directory to a user, with all below these names in it that belonged to whoever the directory belonged to, or to root. Links are
/// not followed, other file systems not entered, and files with several names not given: one of the names may be elsewhere.
pub fn give(path: &Path, names: &[&str], user: Identity) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = open(path, flags, Mode::empty())?;
    let before = fstat(&directory)?;
    let is_meant = |name: &CStr| names.iter().any(|known| name.to_bytes() == known.as_bytes());
    give_all(directory.as_fd(), user, (before.st_uid, before.st_dev), DEPTH, &is_meant)
}

fn give_all(
    directory: BorrowedFd<'_>,
    user: Identity,
    (owner, device): (u32, u64),
    depth: usize,
    is_meant: &dyn Fn(&CStr) -> bool,
) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let was = |uid: u32| uid == owner || uid == 0;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." || !is_meant(name) {
            continue;
        }
        let facts = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::Directory if facts.st_dev == device && depth > 0 => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let below = openat(directory, name, flags, Mode::empty())?;
                give_all(below.as_fd(), user, (owner, device), depth - 1, &|_| true)?;
            }
            FileType::RegularFile if was(facts.st_uid) && facts.st_uid != user.uid && facts.st_nlink == 1 => {
                chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            _ => {}
        }
    }
    let facts = fstat(directory)?;
    if was(facts.st_uid) && facts.st_uid != user.uid {
        fchown(directory, Some(uid), Some(gid))?;
    }
    Ok(())
}
