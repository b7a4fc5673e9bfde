//! Users that no two living jails of this host share.
//!
//! Each number of the range is a byte of one file that is locked as long as the init process of its jail lives (fcntl(2), open file
//! description locks): the kernel gives it back however that ends, and nodes of different configurations never meet. A number that the
//! host's `/etc/passwd` knows is not taken.
//!
//! Nodes that keep files in one place share a user, and so its number: they lock its byte for reading, and beside it one for each place, far
//! behind all numbers. So whoever finds a number taken can tell whether those who have it keep files where it does.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The file whose bytes are locked; only root can open it.
const LOCKS: &str = "/run/anode.uids";

/// The first free user from `first` to `last`; it stays taken as long as the file is open anywhere.
pub fn take(first: u32, last: u32) -> io::Result<(u32, File)> {
    take_at(Path::new(LOCKS), first, last, &known())
}

/// A directory in which files are kept: the numbers of its device and its own.
pub type Place = (u64, u64);

/// The first free user from `first` to `last` for somebody who keeps files in these places, and may share it with others who do.
pub fn take_to_share(first: u32, last: u32, places: &[Place]) -> io::Result<(u32, File)> {
    let (uid, file) = take(first, last)?;
    tell(&file, uid, places)?;
    Ok((uid, file))
}

/// This user, if it is free or whoever has it keeps files in one of these places.
pub fn share(uid: u32, places: &[Place]) -> io::Result<Option<File>> {
    share_at(Path::new(LOCKS), uid, places, &known())
}

fn share_at(path: &Path, uid: u32, places: &[Place], known: &[u32]) -> io::Result<Option<File>> {
    let file = open(path)?;
    let is_free = !known.contains(&uid) && lock(&file, uid.into(), libc::F_WRLCK)?;
    if !is_free {
        let mut shared = false;
        for place in places {
            shared |= is_locked(&file, byte_of(uid, *place))?;
        }
        if !shared || !lock(&file, uid.into(), libc::F_RDLCK)? {
            return Ok(None);
        }
    }
    tell(&file, uid, places)?;
    Ok(Some(file))
}

/// Tells others who keep files in these places that they can share a user.
fn tell(file: &File, uid: u32, places: &[Place]) -> io::Result<()> {
    let bytes = places.iter().map(|place| byte_of(uid, *place)).chain([uid.into()]);
    for byte in bytes {
        if !lock(file, byte, libc::F_RDLCK)? {
            return Err(io::Error::other(format!("user {uid} is being taken")));
        }
    }
    Ok(())
}

/// The byte that says that a user keeps files in a place: far behind those of users, and hardly ever that of another (FNV-1a).
fn byte_of(uid: u32, (device, number): Place) -> i64 {
    let words = [uid.into(), device, number].map(u64::to_le_bytes);
    let mix = |sum: u64, octet: &u8| (sum ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3);
    let mixed = words.as_flattened().iter().fold(0xcbf2_9ce4_8422_2325, mix);
    (mixed >> 2) as i64 | 1 << 40
}

fn take_at(path: &Path, first: u32, last: u32, known: &[u32]) -> io::Result<(u32, File)> {
    let file = open(path)?;
    let theirs = (first..=last).filter(|uid| known.contains(uid)).count();
    for uid in (first..=last).filter(|uid| !known.contains(uid)) {
        if lock(&file, uid.into(), libc::F_WRLCK)? {
            return Ok((uid, file));
        }
    }
    let others = (last - first) as usize + 1 - theirs;
    let by = [(theirs, "accounts of /etc/passwd"), (others, "other jails and nodes")];
    let by: Vec<_> =
        by.iter().filter(|(count, _)| *count > 0).map(|(count, who)| format!("{count} by {who}")).collect();
    Err(io::Error::other(format!("all users from {first} to {last} are taken, {}; see [jail] users", by.join(", "))))
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    options.custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW).open(path)
}

fn known() -> Vec<u32> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok()).collect()
}

/// Locks a byte for writing or for reading; false if somebody has it otherwise.
fn lock(file: &File, at: i64, kind: libc::c_int) -> io::Result<bool> {
    let wanted = one_byte(at, kind);
    // SAFETY: the kernel reads the structure, which lives for the call, and writes nothing.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &wanted) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            error => Err(error),
        },
    }
}

/// Whether somebody else has locked a byte.
fn is_locked(file: &File, at: i64) -> io::Result<bool> {
    let mut found = one_byte(at, libc::F_WRLCK);
    // SAFETY: the kernel reads and writes the structure, which lives for the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut found) } {
        0 => Ok(found.l_type != libc::F_UNLCK as i16),
        _ => Err(io::Error::last_os_error()),
    }
}

fn one_byte(at: i64, kind: libc::c_int) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: at, l_len: 1, l_pid: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_taken_once_and_free_again_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let (one, first) = take_at(&path, 100, 103, &[101]).unwrap();
        let (two, second) = take_at(&path, 100, 103, &[101]).unwrap();
        let third = take_at(&path, 100, 103, &[101]).unwrap();
        assert_eq!((one, two, third.0), (100, 102, 103), "101 is somebody's");
        for (known, by) in [
            (&[101][..], "taken, 1 by accounts of /etc/passwd, 3 by other jails and nodes; see [jail] users"),
            (&[], "taken, 1 by"),
            (&[100, 101, 102, 103], "taken, 4 by accounts of /etc/passwd;"),
        ] {
            match take_at(&path, 100, 103, known) {
                Err(why) => assert!(why.to_string().contains(by), "{why}"),
                Ok((taken, _)) => assert!(known.is_empty() && taken == 101, "nobody's"),
            }
        }
        let copy = second.try_clone().unwrap();
        drop(second);
        assert!(take_at(&path, 102, 102, &[]).is_err(), "a copy holds it");
        drop((copy, first));
        assert_eq!(take_at(&path, 100, 103, &[]).unwrap().0, 100);
        assert_eq!(take_at(&path, 102, 103, &[]).unwrap().0, 102);
    }
    #[test]
    fn a_user_is_shared_by_those_who_keep_files_in_one_place_and_by_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let share = |places: &[Place]| share_at(&path, 100, places, &[]).unwrap();
        let first = share(&[(1, 7), (1, 8)]).unwrap();
        assert!(share(&[(1, 9)]).is_none() && share(&[]).is_none(), "a stranger's");
        let second = share(&[(1, 8), (1, 9)]).unwrap();
        drop(first);
        assert!(share(&[(1, 7)]).is_none() && take_at(&path, 100, 100, &[]).is_err(), "the second has it");
        assert!(share(&[(1, 9)]).is_some());
        drop(second);
        let alone = take_at(&path, 100, 100, &[]).unwrap();
        assert!(share(&[(1, 8)]).is_none(), "a jail shares with nobody");
        drop(alone);
        assert!(share_at(&path, 100, &[(1, 8)], &[100]).unwrap().is_none(), "it is somebody's");
    }
}
