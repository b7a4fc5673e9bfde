//! Files in a directory that others may write to: opened by one name in it, without following a link and without
//! waiting.
//!
//! A name there may be a link to anywhere, a pipe that blocks an open, or a device that never ends. So only an ordinary
//! file is opened; others are refused.

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, fchown, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// A user and a group, by number.
pub type Owner = Option<(u32, u32)>;

/// Not followed, not waited for, not a terminal of this process's.
const PLAIN: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// How often a lock is made anew that others could open, before that is an error.
const TRIES: usize = 16;

/// A directory by its path, which is whoever names it's to judge.
pub fn directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// A directory by its name in another.
pub fn directory_in(above: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(above, one(name)?, flags, Mode::empty())?)
}

/// Opens an ordinary file to be read.
pub fn open_in(directory: impl AsFd, name: &str) -> io::Result<File> {
    ordinary(openat(directory, one(name)?, OFlags::RDONLY | PLAIN, Mode::empty())?)
}

/// Opens a file, by its path, to be read; only its last name is not followed.
pub fn open(path: &Path) -> io::Result<File> {
    ordinary(rustix::fs::open(path, OFlags::RDONLY | PLAIN, Mode::empty())?)
}

/// Opens a file, by its path, to be read and written, and makes it if it is not there: for all to read, and its owner to write. Only its
/// last name is not followed.
pub fn make(path: &Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let file = ordinary(rustix::fs::open(path, OFlags::RDWR | OFlags::CREATE | PLAIN, mode)?)?;
    rustix::fs::fchmod(&file, mode)?;
    Ok(file)
}

/// Makes a file that is not there, to be written to, and gives it to somebody.
pub fn create_in(directory: impl AsFd, name: &str, mode: Mode, owner: Owner) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | PLAIN;
    let made = openat(directory, one(name)?, flags, mode)?;
    give(&made, owner)?;
    Ok(made.into())
}

/// Gives what is open to somebody.
pub fn give(open: impl AsFd, owner: Owner) -> io::Result<()> {
    let Some((uid, gid)) = owner else { return Ok(()) };
    Ok(fchown(open, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
}

/// A file to be locked, made if it is not there: for its owner alone, so nobody else can hold a lock on it. One that
/// others could open, as older versions have left it, is made anew.
pub fn lock_in(directory: impl AsFd, name: &str, owner: Owner) -> io::Result<File> {
    let name = one(name)?;
    for _ in 0..TRIES {
        let made =
            openat(&directory, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | PLAIN, Mode::RUSR | Mode::WUSR);
        match made {
            Ok(made) => {
                give(&made, owner)?;
                return Ok(made.into());
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let lock = match openat(&directory, name, OFlags::RDWR | PLAIN, Mode::empty()) {
            Ok(lock) => ordinary(lock)?,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        if fstat(&lock)?.st_mode & 0o077 == 0 {
            return Ok(lock);
        }
        remove_if(&directory, name, &lock)?;
    }
    Err(io::Error::other(format!("others can open {name}; remove it")))
}

/// Takes a name away if it is still that of what is open.
fn remove_if(directory: impl AsFd, name: &str, open: &File) -> io::Result<()> {
    let (there, own) = (statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW), fstat(open)?);
    if !there.is_ok_and(|there| (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)) {
        return Ok(());
    }
    match unlinkat(&directory, name, AtFlags::empty()) {
        Err(Errno::NOENT) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Refuses what is no file.
fn ordinary(open: OwnedFd) -> io::Result<File> {
    match FileType::from_raw_mode(fstat(&open)?.st_mode) {
        FileType::RegularFile => Ok(open.into()),
        // As a link is.
        _ => Err(Errno::LOOP.into()),
    }
}

/// Refuses what is more than one name.
fn one(name: &str) -> io::Result<&str> {
    let is_one = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    if is_one { Ok(name) } else { Err(Errno::INVAL.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mknodat;
    use std::fs;
    use std::io::ErrorKind;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn links_pipes_and_devices_are_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let here = directory(dir.path()).unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        symlink("file", dir.path().join("link")).unwrap();
        mknodat(&here, "pipe", FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(open_in(&here, "file").is_ok() && open(&dir.path().join("file")).is_ok());
        for name in ["link", "pipe", "../file", ".", "", "a/b"] {
            assert!(open_in(&here, name).is_err(), "{name}");
            assert!(create_in(&here, name, Mode::RUSR, None).is_err(), "{name}");
            assert!(lock_in(&here, name, None).is_err(), "{name}");
        }
        assert!(open(&dir.path().join("link")).is_err() && open(Path::new("/dev/zero")).is_err());
        assert!(make(&dir.path().join("link")).is_err() && make(&dir.path().join("pipe")).is_err());
        fs::set_permissions(dir.path().join("file"), fs::Permissions::from_mode(0o666)).unwrap();
        for name in ["file", "made"] {
            assert_eq!(make(&dir.path().join(name)).unwrap().metadata().unwrap().mode() & 0o777, 0o644, "{name}");
        }
        assert_eq!(create_in(&here, "file", Mode::RUSR, None).unwrap_err().kind(), ErrorKind::AlreadyExists);
        symlink(dir.path(), dir.path().join("away")).unwrap();
        assert!(directory_in(&here, "away").is_err() && directory_in(&here, "..").is_err());
    }

    #[test]
    fn a_lock_that_others_can_open_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let here = directory(dir.path()).unwrap();
        let path = dir.path().join("lock");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let before = fs::File::open(&path).unwrap();
        let lock = lock_in(&here, "lock", None).unwrap();
        assert_eq!(lock.metadata().unwrap().mode() & 0o777, 0o600);
        assert_ne!(lock.metadata().unwrap().ino(), before.metadata().unwrap().ino());
        let again = lock_in(&here, "lock", None).unwrap();
        assert_eq!(lock.metadata().unwrap().ino(), again.metadata().unwrap().ino(), "it is one for all");
    }
}
