//! Files below a directory, and nothing else. `openat2` resolves every name: no `..`, no link, no absolute name, no
//! mount and no link of /proc leads out of it, whatever others do to the tree meanwhile.
//!
//! Errors are the system's; [`crate::manage::files`] says what they mean.

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, ftruncate, mkdirat, openat2, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// How often a name is resolved anew when the tree changed under it.
const TRIES: usize = 16;

/// What there is by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A link, a device, a pipe, a socket.
    Other,
}

/// What the system knows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What it is.
    pub kind: Kind,
    /// Its number in its file system.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Time of the last change, in nanoseconds after 1970 began.
    pub modified_ns: u64,
}

impl From<Stat> for Facts {
    fn from(stat: Stat) -> Facts {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            _ => Kind::Other,
        };
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
        let modified_ns = seconds.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as _);
        let size = if kind == Kind::File { stat.st_size as u64 } else { 0 };
        Facts { kind, inode: stat.st_ino, size, modified_ns }
    }
}

/// A directory that names below it are resolved from.
#[derive(Debug)]
pub struct Beneath(OwnedFd);

impl Beneath {
    /// Makes the directory, for its owner only, and opens it.
    pub fn make(path: &Path) -> io::Result<Beneath> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Beneath(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// The directory by a name below this one.
    pub fn directory(&self, path: &str) -> io::Result<Beneath> {
        self.resolve(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).map(Beneath)
    }

    /// What there is by a name, without opening it: devices and pipes are not touched.
    pub fn facts(&self, path: &str) -> io::Result<Facts> {
        let found = self.resolve(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
        facts(&found)
    }

    /// Opens a file that is there; what is no file is refused as a link is.
    pub fn open(&self, path: &str, writable: bool) -> io::Result<OwnedFd> {
        let known = self.facts(path)?;
        if known.kind == Kind::Directory {
            return Err(Errno::ISDIR.into());
        }
        let access = if writable { OFlags::RDWR } else { OFlags::RDONLY };
        let regular = |facts: &Facts| facts.kind == Kind::File && facts.inode == known.inode;
        if known.kind != Kind::File {
            return Err(Errno::LOOP.into());
        }
        let file = self.resolve(path, access | OFlags::NOCTTY | OFlags::NONBLOCK, Mode::empty())?;
        if regular(&facts(&file)?) { Ok(file) } else { Err(Errno::LOOP.into()) }
    }

    /// Makes a file that is not there, for its owner only.
    pub fn create(&self, path: &str) -> io::Result<OwnedFd> {
        self.resolve(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOCTTY, Mode::RUSR | Mode::WUSR)
    }

    /// Makes a directory here, for its owner only. `name` is one name.
    pub fn make_directory(&self, name: &str) -> io::Result<()> {
        one(name)?;
        Ok(mkdirat(&self.0, name, Mode::RWXU)?)
    }

    /// What there is by one name, links not followed.
    pub fn entry(&self, name: &str) -> io::Result<Facts> {
        one(name)?;
        Ok(statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?.into())
    }

    /// Takes a name away: of an empty directory, or of anything else.
    pub fn remove(&self, name: &str, directory: bool) -> io::Result<()> {
        one(name)?;
        Ok(unlinkat(&self.0, name, if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() })?)
    }

    /// Gives what is here by one name another one there, in the place of what is there by it.
    pub fn rename(&self, name: &str, there: &Beneath, to: &str) -> io::Result<()> {
        one(name).and(one(to))?;
        Ok(renameat(&self.0, name, &there.0, to)?)
    }

    /// All names here that are UTF-8, in order.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let listed = self.resolve(".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::new(listed)? {
            let entry = entry?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn resolve(&self, path: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let within =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        // A rename beside makes the kernel give up rather than be deceived.
        for _ in 1..TRIES {
            match openat2(&self.0, path, flags | OFlags::CLOEXEC, mode, within) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
        Ok(openat2(&self.0, path, flags | OFlags::CLOEXEC, mode, within)?)
    }
}

/// Refuses what is more than one name.
fn one(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains('/') { Err(Errno::INVAL.into()) } else { Ok(()) }
}

/// What the system knows of an open file.
pub fn facts(file: impl AsFd) -> io::Result<Facts> {
    Ok(fstat(file)?.into())
}

/// Reads at an offset; less than asked for only at the end.
pub fn read_at(file: impl AsFd, to: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < to.len() {
        match rustix::io::pread(&file, &mut to[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

/// Writes at an offset; how many bytes, which is less only if the disk has no place for the others.
pub fn write_at(file: impl AsFd, from: &[u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < from.len() {
        match rustix::io::pwrite(&file, &from[done..], offset + done as u64) {
            Ok(count) if count > 0 => done += count,
            Ok(_) | Err(Errno::NOSPC | Errno::DQUOT) if done > 0 => break,
            Ok(_) => return Err(Errno::NOSPC.into()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

/// Makes a file longer or shorter.
pub fn resize(file: impl AsFd, size: u64) -> io::Result<()> {
    Ok(ftruncate(file, size)?)
}

/// Waits until what was written is on the disk.
pub fn sync(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
}
