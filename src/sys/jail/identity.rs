//! Users that no two living jails of this host share.
//!
//! Each number of the range is a byte of one file that is locked as long as the init process of its jail lives (fcntl(2), open file
//! description locks): the kernel gives it back however that ends, and nodes of different configurations never meet. A number that the
//! host's `/etc/passwd` knows is not taken.

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

fn take_at(path: &Path, first: u32, last: u32, known: &[u32]) -> io::Result<(u32, File)> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    let file = options.custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW).open(path)?;
    let theirs = (first..=last).filter(|uid| known.contains(uid)).count();
    for uid in (first..=last).filter(|uid| !known.contains(uid)) {
        if lock(&file, uid)? {
            return Ok((uid, file));
        }
    }
    let others = (last - first) as usize + 1 - theirs;
    let by = [(theirs, "accounts of /etc/passwd"), (others, "other jails and nodes")];
    let by: Vec<_> =
        by.iter().filter(|(count, _)| *count > 0).map(|(count, who)| format!("{count} by {who}")).collect();
    Err(io::Error::other(format!("all users from {first} to {last} are taken, {}; see [jail] users", by.join(", "))))
}

fn known() -> Vec<u32> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok()).collect()
}

/// Locks a byte; false if somebody has it.
fn lock(file: &File, at: u32) -> io::Result<bool> {
    let wanted = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: at.into(),
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the kernel reads the structure, which lives for the call, and writes nothing.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &wanted) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            error => Err(error),
        },
    }
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
}
