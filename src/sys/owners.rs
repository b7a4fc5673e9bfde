//! Owners of files: directories opened without being read, and trees given to another user.

use super::privileges::Identity;
use rustix::fs::{
    Access, AtFlags, CWD, Dir, FileType, FsWord, Gid, Mode, OFlags, PROC_SUPER_MAGIC, Stat, Uid, accessat, chownat,
    fchown, fstat, open, openat, readlinkat, statfs,
};
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories within each other, at most, in what is given away.
const DEPTH: usize = 16;

/// Links on one way, at most.
const LINKS: usize = 40;

/// Why a way leads through what somebody else can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untrusted {
    /// The directory or link.
    pub step: PathBuf,
    /// Who else it belongs to; nothing: it is ours, or root's, but others can write to it.
    pub owner: Option<u32>,
}

/// Follows a way from the root of the file system: all directories and links on it belong to this user or to root, and
/// nobody else can put anything in the place of what is in them. What is at its end is not looked at, and what is not
/// there yet is nobody's. The inner error says what is not so.
pub fn check_way(path: &Path) -> io::Result<Result<(), Untrusted>> {
    let absolute = std::path::absolute(path)?;
    let mut left: Vec<OsString> = absolute.iter().rev().map(OsStr::to_owned).collect();
    let mut way = vec![(PathBuf::from("/"), open_path(Path::new("/"))?)];
    let mut links = 0;
    while let Some(name) = left.pop().filter(|_| !left.is_empty()) {
        let Some((above, directory)) = way.last() else { return Err(io::ErrorKind::NotFound.into()) };
        let shown = above.join(&name);
        if name == "/" {
            way.truncate(1);
        } else if name == ".." {
            way.truncate(way.len().saturating_sub(1).max(1));
        } else if name != "." {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let step = match openat(directory, &name, flags, Mode::empty()) {
                Err(rustix::io::Errno::NOENT) => return Ok(Ok(())),
                step => step?,
            };
            let facts = fstat(&step)?;
            if let Some(owner) = other_owner(&facts) {
                return Ok(Err(Untrusted { step: shown, owner: Some(owner) }));
            }
            if FileType::from_raw_mode(facts.st_mode) == FileType::Symlink {
                links += 1;
                if links > LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                let target = readlinkat(&step, c"", Vec::new())?;
                left.extend(Path::new(OsStr::from_bytes(target.to_bytes())).iter().rev().map(OsStr::to_owned));
                continue;
            }
            way.push((shown, step));
        }
        let Some((shown, step)) = way.last() else { continue };
        let facts = fstat(step)?;
        if let Some(owner) = other_owner(&facts) {
            return Ok(Err(Untrusted { step: shown.clone(), owner: Some(owner) }));
        }
        // In a sticky directory names stay with whoever they belong to, which is looked at next.
        if facts.st_mode & 0o022 != 0 && facts.st_mode & 0o1000 == 0 {
            return Ok(Err(Untrusted { step: shown.clone(), owner: None }));
        }
    }
    Ok(Ok(()))
}

/// What the kernel shows as files, where nobody makes any: /proc and /sys.
const SHOWN: [FsWord; 2] = [PROC_SUPER_MAGIC, 0x6265_6572];

/// The directory that keeps the calling user from writing to a directory, or from making it: itself, or the last one on
/// the way that is there. Nothing: there is none, as far as rights and kinds of file systems go.
pub fn unwritable(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let there = absolute.ancestors().find(|step| std::fs::symlink_metadata(step).is_ok())?;
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    let refused = accessat(CWD, there, wanted, AtFlags::EACCESS) == Err(rustix::io::Errno::ACCESS);
    let shown = || statfs(there).is_ok_and(|facts| SHOWN.contains(&facts.f_type));
    (refused || shown()).then(|| if there == absolute { path.to_owned() } else { there.to_owned() })
}

/// Who something belongs to that is neither this user's nor root's.
fn other_owner(facts: &Stat) -> Option<u32> {
    let own = rustix::process::geteuid().as_raw();
    Some(facts.st_uid).filter(|owner| ![0, own].contains(owner))
}

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
        // What is judged is what is given, whatever has the name by then.
        let this = match openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            // Another node that shares the directory has taken it away meanwhile.
            Err(rustix::io::Errno::NOENT) => continue,
            this => this?,
        };
        let facts = fstat(&this)?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::Directory if facts.st_dev == device && depth > 0 => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let below = openat(&this, c".", flags, Mode::empty())?;
                give_all(below.as_fd(), user, (owner, device), depth - 1, &|_| true)?;
            }
            FileType::RegularFile if was(facts.st_uid) && facts.st_uid != user.uid && facts.st_nlink == 1 => {
                chownat(&this, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_the_kernel_only_shows_is_not_to_be_written_to_by_root_either() {
        assert_eq!(unwritable(Path::new("/proc/none/below")), Some("/proc".into()));
        assert_eq!(unwritable(Path::new("/sys/none")), Some("/sys".into()));
        assert_eq!(unwritable(&tempfile::tempdir().unwrap().path().join("none")), None);
    }

    #[test]
    fn ways_through_what_others_can_change_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["own/below", "open/below", "own/links"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let mode = |name: &str, mode| fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        mode("open", 0o777);
        let found = |name: &str| check_way(&at(name)).unwrap().err();
        let by_mode = |name: &str| Some(Untrusted { step: at(name), owner: None });
        assert_eq!((found("own/below/end"), found("own/none/none/end")), (None, None));
        assert_eq!(
            (found("open/below/end"), found("open/end"), found("open")),
            (by_mode("open"), by_mode("open"), None)
        );
        symlink(at("open/below"), at("own/links/out")).unwrap();
        symlink("../below", at("own/links/back")).unwrap();
        symlink("round", at("own/links/round")).unwrap();
        assert_eq!((found("own/links/out/end"), found("own/links/back/end")), (by_mode("open"), None));
        assert!(check_way(&at("own/links/round/end")).is_err());
        assert_eq!(found("open/../own/end"), by_mode("open"), "whoever can write there can make it a link");
        mode("open", 0o1777);
        assert_eq!(found("open/below/end"), None, "names stay whose they are");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(at("open/below"), Some(12345), None).unwrap();
            assert_eq!(found("open/below/end"), Some(Untrusted { step: at("open/below"), owner: Some(12345) }));
            std::os::unix::fs::lchown(at("own/links/back"), Some(12345), None).unwrap();
            assert_eq!(found("own/links/back/end").and_then(|step| step.owner), Some(12345));
        }
    }
}
