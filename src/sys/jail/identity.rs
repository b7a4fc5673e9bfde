//! User numbers for jails: no two living jails of this host share one.
//!
//! Each number of the range is a byte of one file, locked as long as the init process of its jail lives (fcntl(2), open
//! file description locks). The kernel gives the lock back however that ends, and nodes of different configurations
//! never meet. A number in the host's `/etc/passwd` is not taken, nor one of a living process: that process could read,
//! trace and end the jail's.
//!
//! Nodes that keep files in one place share a user, and so its number: they lock its byte for reading, and beside it
//! one for each place, far behind all numbers. So a node that finds a number taken can tell whether its owners keep
//! files in the same place.

use crate::sys::privileges::accounts;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The file whose bytes are locked; only root can open it.
const LOCKS: &str = "/run/anode.uids";

/// The first free user from `first` to `last`; it stays taken as long as the file is open anywhere. `passed` gets those
/// of whom processes live on.
pub fn take(first: u32, last: u32, passed: &mut Vec<u32>) -> io::Result<(u32, File)> {
    take_at(Path::new(LOCKS), first, last, &known(), passed)
}

/// A directory in which files are kept: the numbers of its device and its own.
pub type Place = (u64, u64);

/// The first free user from `first` to `last` for somebody who keeps files in these places, and may share it with others who do.
pub fn take_to_share(first: u32, last: u32, places: &[Place]) -> io::Result<(u32, File)> {
    let mut passed = Vec::new();
    let taken = take(first, last, &mut passed);
    passed.into_iter().for_each(say_passed);
    let (uid, file) = taken?;
    tell(&file, uid, places)?;
    Ok((uid, file))
}

/// This user, if it is free or whoever has it keeps files in one of these places.
pub fn share(uid: u32, places: &[Place]) -> io::Result<Option<File>> {
    share_at(Path::new(LOCKS), uid, places, &known())
}

/// Has these places alone, as long as the file is open, among those who ask for the same; nothing: somebody has one of them.
pub fn hold_places(places: &[Place]) -> io::Result<Option<File>> {
    hold_places_at(Path::new(LOCKS), places)
}

/// Has more places by a file that holds some: all of these, or none if somebody has one of them.
pub fn hold_more(file: &File, places: &[Place]) -> io::Result<bool> {
    for (at, place) in places.iter().enumerate() {
        match lock(file, byte_of(0, *place), libc::F_WRLCK) {
            Ok(true) => {}
            other => {
                let_go(file, &places[..at])?;
                return other;
            }
        }
    }
    Ok(true)
}

/// Lets go of some of the places that a file holds.
pub fn let_go(file: &File, places: &[Place]) -> io::Result<()> {
    places.iter().try_for_each(|place| lock(file, byte_of(0, *place), libc::F_UNLCK).map(drop))
}

/// Whether somebody has a place alone; the question keeps nobody from it.
pub fn is_held(place: Place) -> io::Result<bool> {
    is_locked(&open(Path::new(LOCKS))?, byte_of(0, place))
}

/// The place that stands for an interface of a network namespace: no directory is on a device of such a number.
pub fn place_of_interface(network: u64, name: &str) -> Place {
    (network | 1 << 63, fnv(name.as_bytes()))
}

fn hold_places_at(path: &Path, places: &[Place]) -> io::Result<Option<File>> {
    let file = open(path)?;
    for place in places {
        // Nobody's user is 0. Who gets but some gives those back with the file.
        if !lock(&file, byte_of(0, *place), libc::F_WRLCK)? {
            return Ok(None);
        }
    }
    Ok(Some(file))
}

fn share_at(path: &Path, uid: u32, places: &[Place], known: &[u32]) -> io::Result<Option<File>> {
    let file = open(path)?;
    let is_free = !known.contains(&uid) && lock(&file, uid.into(), libc::F_WRLCK)?;
    if is_free {
        if living()?.contains(&uid) {
            say_passed(uid);
            return Ok(None);
        }
    } else {
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
    (fnv(words.as_flattened()) >> 2) as i64 | 1 << 40
}

fn fnv(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn take_at(path: &Path, first: u32, last: u32, known: &[u32], passed: &mut Vec<u32>) -> io::Result<(u32, File)> {
    let file = open(path)?;
    let theirs = (first..=last).filter(|uid| known.contains(uid)).count();
    for uid in (first..=last).filter(|uid| !known.contains(uid)) {
        if !lock(&file, uid.into(), libc::F_WRLCK)? {
            continue;
        }
        // Looked at when nobody else can get it any more: what has it now was there before.
        if !living()?.contains(&uid) {
            return Ok((uid, file));
        }
        lock(&file, uid.into(), libc::F_UNLCK)?;
        passed.push(uid);
    }
    let others = (last - first) as usize + 1 - theirs - passed.len();
    let by = [
        (theirs, "accounts of /etc/passwd"),
        (others, "other jails and nodes"),
        (passed.len(), "processes that live on; see ps -u"),
    ];
    let by: Vec<_> =
        by.iter().filter(|(count, _)| *count > 0).map(|(count, who)| format!("{count} by {who}")).collect();
    Err(io::Error::other(format!("all users from {first} to {last} are taken, {}; see [jail] users", by.join(", "))))
}

/// Says that a user is not taken.
pub(super) fn say_passed(uid: u32) {
    tracing::warn!(uid, "processes of user {uid} live on, so nobody else becomes that; see: ps -u {uid}");
}

/// The users of all processes that this one can see and that can still do something: real, effective, saved, and that of files.
fn living() -> io::Result<BTreeSet<u32>> {
    let mut users = BTreeSet::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        // One that has ended meanwhile has no user.
        let Ok(text) = std::fs::read_to_string(entry.path().join("status")) else { continue };
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        if field("State:").is_some_and(|state| !state.trim_start().starts_with(['Z', 'X'])) {
            let all = field("Uid:").unwrap_or_default().split_whitespace();
            users.extend(all.filter_map(|uid| uid.parse::<u32>().ok()));
        }
    }
    Ok(users)
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    options.custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW).open(path)
}

fn known() -> Vec<u32> {
    accounts().into_iter().collect()
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
    use std::os::unix::process::CommandExt;

    /// What is free as soon as children of other tests, which are copies of this process until they run a program, have let go of it.
    fn freed<T>(take: impl Fn() -> Option<T>) -> T {
        (0..100_000).find_map(|_| take()).expect("it is free")
    }

    #[test]
    fn a_user_is_taken_once_and_free_again_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let (one, first) = take_at(&path, 61_900, 61_903, &[61_901], &mut Vec::new()).unwrap();
        let (two, second) = take_at(&path, 61_900, 61_903, &[61_901], &mut Vec::new()).unwrap();
        let third = take_at(&path, 61_900, 61_903, &[61_901], &mut Vec::new()).unwrap();
        assert_eq!((one, two, third.0), (61_900, 61_902, 61_903), "61_901 is somebody's");
        for (known, by) in [
            (&[61_901][..], "taken, 1 by accounts of /etc/passwd, 3 by other jails and nodes; see [jail] users"),
            (&[], "taken, 1 by"),
            (&[61_900, 61_901, 61_902, 61_903], "taken, 4 by accounts of /etc/passwd;"),
        ] {
            match take_at(&path, 61_900, 61_903, known, &mut Vec::new()) {
                Err(why) => assert!(why.to_string().contains(by), "{why}"),
                Ok((taken, _)) => assert!(known.is_empty() && taken == 61_901, "nobody's"),
            }
        }
        let copy = second.try_clone().unwrap();
        drop(second);
        assert!(take_at(&path, 61_902, 61_902, &[], &mut Vec::new()).is_err(), "a copy holds it");
        drop((copy, first));
        let again = |first: u32| freed(|| take_at(&path, first, first, &[], &mut Vec::new()).ok()).0;
        assert_eq!((again(61_900), again(61_902)), (61_900, 61_902));
    }
    #[test]
    fn a_user_is_shared_by_those_who_keep_files_in_one_place_and_by_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let share = |places: &[Place]| share_at(&path, 61_900, places, &[]).unwrap();
        let first = share(&[(1, 7), (1, 8)]).unwrap();
        assert!(share(&[(1, 9)]).is_none() && share(&[]).is_none(), "a stranger's");
        let second = share(&[(1, 8), (1, 9)]).unwrap();
        drop(first);
        assert!(
            share(&[(1, 7)]).is_none() && take_at(&path, 61_900, 61_900, &[], &mut Vec::new()).is_err(),
            "the second has it"
        );
        assert!(share(&[(1, 9)]).is_some());
        drop(second);
        let alone = freed(|| take_at(&path, 61_900, 61_900, &[], &mut Vec::new()).ok());
        assert!(share(&[(1, 8)]).is_none(), "a jail shares with nobody");
        drop(alone);
        assert!(share_at(&path, 61_900, &[(1, 8)], &[61_900]).unwrap().is_none(), "it is somebody's");
    }

    #[test]
    fn a_user_whose_processes_live_on_is_not_given_away() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: only root has processes of other users");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let mut left = std::process::Command::new("/bin/sleep");
        // SAFETY: setsid(2) takes nothing and touches no memory.
        let away = || unsafe { libc::setsid() };
        // SAFETY: what runs between fork and exec is one system call.
        unsafe { left.pre_exec(move || if away() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }) };
        let mut left = left.arg("1000").uid(61_998).gid(61_998).spawn().unwrap();
        let (uid, _other) = take_at(&path, 61_998, 61_999, &[], &mut Vec::new()).unwrap();
        let alone =
            take_at(&path, 61_998, 61_998, &[], &mut Vec::new()).map(|(uid, _)| uid).map_err(|error| error.to_string());
        let shared = share_at(&path, 61_998, &[(1, 7)], &[]).unwrap().map(drop);
        left.kill().unwrap();
        left.wait().unwrap();
        assert_eq!((uid, shared), (61_999, None));
        assert!(alone.as_ref().is_err_and(|why| why.contains("1 by processes that live on")), "{alone:?}");
        assert_eq!(freed(|| take_at(&path, 61_998, 61_998, &[], &mut Vec::new()).ok()).0, 61_998, "now it is free");
    }

    #[test]
    fn a_place_is_one_starts_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let hold = |places: &[Place]| hold_places_at(&path, places).unwrap();
        let first = hold(&[(1, 7), (1, 8), (1, 7)]).unwrap();
        assert!(hold(&[(1, 9), (1, 8)]).is_none() && hold(&[(1, 9)]).is_some());
        drop(first);
        drop(freed(|| hold(&[(1, 8)])));
    }
}
