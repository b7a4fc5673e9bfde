//! The disk side of the store: one file for each object, named by its digest.
//!
//! ```text
//! DIR/objects/ab/cdef…   an object, named by its digest; never changed, only renamed into place
//! DIR/new/PID-N          being written; remains are removed by whoever opens the store alone
//! DIR/pins/abcdef…       empty: this object stays
//! DIR/lock               shared lock of everybody who has the store open
//! ```
//!
//! The directory is a node's, and whoever opens it may be root with more rights than that: so every name is one name in an open directory,
//! no link among them is followed and what is no file is not opened (`sys/own.rs`).
//!
//! There is no index on disk that could contradict the objects: opening reads the directories. The
//! order of use survives in the files' modification times, written at most once an hour
//! for each object. kill -9 between any two steps leaves an object whole or absent.

use super::Error;
use super::lru::Lru;
use crate::sys::own;
use crate::trust::object_name;
use crate::wire::Digest;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, flock, fstat, mkdirat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How often the time of use of one object is written at most.
const TOUCH_EVERY: Duration = Duration::from_secs(3600);

/// For how long an opening waits for one that has the store to itself, and the time between two looks.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
const LOOK: Duration = Duration::from_millis(10);

/// What reading an object gave.
pub(super) enum Found {
    /// The object, verified.
    Object(Arc<[u8]>),
    /// No such object.
    Absent,
    /// Other bytes under its name; removed.
    Corrupt,
    /// The disk does not let itself be read.
    Failed,
}

/// Modes of what is made, less what the process's mask takes.
const FILE: Mode = Mode::from_raw_mode(0o666);
const DIRECTORY: Mode = Mode::from_raw_mode(0o777);

/// The owner of a directory, if that is somebody else and this process is root.
fn other_owner(directory: impl AsFd) -> io::Result<own::Owner> {
    let facts = fstat(directory)?;
    Ok((facts.st_uid != 0 && rustix::process::geteuid().is_root()).then_some((facts.st_uid, facts.st_gid)))
}

/// Locks a store beside others that have it open. Who opens it alone has it to himself for moments; who keeps it so was
/// stopped, or means harm.
fn lock_shared(lock: &File) -> io::Result<()> {
    let begin = Instant::now();
    loop {
        match flock(lock, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) if begin.elapsed() < PATIENCE => std::thread::sleep(LOOK),
            Err(Errno::WOULDBLOCK) => {
                let why = "another process has it to itself and does not let go; find it by `lslocks`, and end it";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            done => return Ok(done?),
        }
    }
}

/// The names in a directory that are UTF-8.
fn names(directory: impl AsFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        match entry?.file_name().to_str() {
            Ok("." | "..") | Err(_) => {}
            Ok(name) => names.push(name.to_owned()),
        }
    }
    Ok(names)
}

/// Makes a directory in another, if it is not there, and opens it.
fn make_in(above: impl AsFd, name: &str, owner: own::Owner) -> io::Result<OwnedFd> {
    let made = match mkdirat(&above, name, DIRECTORY) {
        Err(Errno::EXIST) => false,
        made => made.map(|()| true)?,
    };
    let directory = own::directory_in(&above, name)?;
    if made {
        own::give(&directory, owner)?;
        File::from(above.as_fd().try_clone_to_owned()?).sync_all()?;
    }
    Ok(directory)
}

/// Removes a name, and says whether it was there.
fn remove_in(directory: impl AsFd, name: &str) -> io::Result<bool> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What was never there is not there.
fn or_absent(done: io::Result<bool>) -> io::Result<bool> {
    done.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(false) } else { Err(error) })
}

/// A directory of objects.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    top: OwnedFd,
    /// The time of use that is on disk, for each object.
    books: Mutex<Lru<SystemTime>>,
    /// Whom the directory belongs to, if that is a node's user and this process is root: what root puts here the node
    /// could not take out else.
    owner: own::Owner,
    /// Holds the shared lock.
    _lock: File,
}

impl Disk {
    pub(super) fn open(path: &Path, bytes_max: u64, entries_max: usize) -> Result<Disk, Error> {
        Disk::open_at(path, bytes_max, entries_max).map_err(|cause| Error::Directory { path: path.into(), cause })
    }

    fn open_at(path: &Path, bytes_max: u64, entries_max: usize) -> io::Result<Disk> {
        fs::create_dir_all(path)?;
        let top = own::directory(path)?;
        let owner = other_owner(&top)?;
        for name in ["objects", "new", "pins"] {
            make_in(&top, name, owner)?;
        }
        let lock = own::lock_in(&top, "lock", owner)?;
        // Alone: nobody else is writing, so whatever is unfinished was interrupted.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let new = own::directory_in(&top, "new")?;
            for name in names(&new)? {
                remove_in(&new, &name)?;
            }
        }
        lock_shared(&lock)?;
        let disk =
            Disk { path: path.into(), top, books: Mutex::new(Lru::new(bytes_max, entries_max)), owner, _lock: lock };
        disk.take_stock()?;
        Ok(disk)
    }

    /// Enters into the books what the directories hold, the longest unused first, and removes what
    /// is beyond the limits.
    fn take_stock(&self) -> io::Result<()> {
        let mut books = self.books();
        for name in names(own::directory_in(&self.top, "pins")?)? {
            if let Ok(digest) = name.parse() {
                books.pin(&digest);
            }
        }
        let mut found = Vec::new();
        let objects = own::directory_in(&self.top, "objects")?;
        for first in names(&objects)? {
            let Ok(directory) = own::directory_in(&objects, &first) else { continue };
            for rest in names(&directory)? {
                let name = format!("{first}{rest}");
                // An object may vanish meanwhile, if another process makes room.
                let facts = statat(&directory, &rest, AtFlags::SYMLINK_NOFOLLOW);
                let (Ok(digest), Ok(facts)) = (name.parse::<Digest>(), facts) else { continue };
                let is_file = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile;
                if digest.to_string() != name || !is_file {
                    continue;
                }
                let modified = Duration::new(u64::try_from(facts.st_mtime).unwrap_or(0), facts.st_mtime_nsec as u32);
                found.push((SystemTime::UNIX_EPOCH + modified, digest, facts.st_size as u64));
            }
        }
        found.sort_unstable();
        self.date_back(&mut found);
        let mut gone = Vec::new();
        for (used, digest, size) in found {
            match books.insert(digest, size, used) {
                Some(victims) => gone.extend(victims),
                None => gone.push(digest),
            }
        }
        drop(books);
        for digest in gone {
            self.unlink(&digest)?;
        }
        Ok(())
    }

    /// Whatever is dated later than now was used before the clock was set back: it was used by now, in the same order. Else what is
    /// used from now on would be the first to go, for as long as the clock was ahead.
    fn date_back(&self, found: &mut [(SystemTime, Digest, u64)]) {
        let now = SystemTime::now();
        let later = found.partition_point(|(used, ..)| *used <= now);
        for (after, (used, digest, _)) in (0..).zip(&mut found[later..]) {
            *used = now + Duration::from_nanos(after);
            // If it fails, the order after the next start is less exact, and no more.
            let _ = self.open_object(digest).and_then(|file| file.set_modified(*used));
        }
    }

    pub(super) fn read(&self, digest: &Digest) -> Found {
        let mut file = match self.open_object(digest) {
            Ok(file) => file,
            Err(error) => {
                self.books().remove(digest);
                return if error.kind() == io::ErrorKind::NotFound { Found::Absent } else { Found::Failed };
            }
        };
        let mut bytes = Vec::new();
        // One byte more than an object may have shows that it is none.
        if (&mut file).take(super::bounds::OBJECT_MAX as u64 + 1).read_to_end(&mut bytes).is_err() {
            return Found::Failed;
        }
        if object_name(&bytes) != *digest {
            self.books().remove(digest);
            return if self.unlink(digest).is_ok() { Found::Corrupt } else { Found::Failed };
        }
        self.found(digest, bytes.len() as u64);
        Found::Object(bytes.into())
    }

    /// Notes a use, and about once an hour on disk too, for the order after the next start.
    pub(super) fn used(&self, digest: &Digest) {
        let now = SystemTime::now();
        let mut books = self.books();
        let Some(written) = books.touch(digest) else { return };
        if now.duration_since(*written).is_ok_and(|since| since >= TOUCH_EVERY) {
            *written = now;
            drop(books);
            // If it fails, the order after the next start is less exact, and no more.
            let _ = self.open_object(digest).and_then(|file| file.set_modified(now));
        }
    }

    /// Notes a use of an object that was read; if another process put it, that it is here.
    fn found(&self, digest: &Digest, size: u64) {
        let mut books = self.books();
        if books.peek(digest).is_some() {
            drop(books);
            return self.used(digest);
        }
        let victims = books.insert(*digest, size, SystemTime::now());
        drop(books);
        victims.into_iter().flatten().for_each(|victim| drop(self.unlink(&victim)));
    }

    /// The object's bytes if they are right; nothing is noted.
    pub(super) fn peek(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        let mut bytes = Vec::new();
        self.open_object(digest).ok()?.take(super::bounds::OBJECT_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
        (object_name(&bytes) == *digest).then(|| bytes.into())
    }

    /// Writes an object, and says how many others had to go.
    pub(super) fn write(&self, digest: &Digest, bytes: &[u8]) -> (Result<(), Error>, u64) {
        let mut books = self.books();
        // Credentials are renewed under their name; all else is what its name says.
        let same = || Digest::of(bytes) == *digest || self.peek(digest).is_some_and(|there| *there == *bytes);
        let present = books.touch(digest).is_some() && self.open_object(digest).is_ok() && same();
        if present {
            return (Ok(()), 0);
        }
        let Some(victims) = books.insert(*digest, bytes.len() as u64, SystemTime::now()) else {
            return (Err(Error::NoRoom { digest: *digest, path: Some(self.path.clone()) }), 0);
        };
        drop(books);
        for victim in &victims {
            // If it stays, it is found again at the next opening.
            let _ = self.unlink(victim);
        }
        let written = self.rename_into_place(digest, bytes);
        let mut books = self.books();
        if written.is_err() {
            books.remove(digest);
        } else if books.peek(digest).is_none() {
            // Another object took its room meanwhile.
            let _ = self.unlink(digest);
        }
        drop(books);
        let path = self.path.clone();
        (written.map_err(|cause| Error::NotOnDisk { digest: *digest, path, cause }), victims.len() as u64)
    }

    fn rename_into_place(&self, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let fresh = format!("{}-{number}", std::process::id());
        let new = make_in(&self.top, "new", self.owner)?;
        let write = || {
            // One of this name is of a process that is gone, or it is a trap.
            remove_in(&new, &fresh)?;
            let mut file = own::create_in(&new, &fresh, FILE, self.owner)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            let objects = make_in(&self.top, "objects", self.owner)?;
            let name = digest.to_string();
            let (first, rest) = name.split_at(2);
            let directory = make_in(&objects, first, self.owner)?;
            renameat(&new, &fresh, &directory, rest)?;
            File::from(directory).sync_all()
        };
        let result = write();
        if result.is_err() {
            let _ = remove_in(&new, &fresh);
        }
        result
    }

    pub(super) fn remove(&self, digest: &Digest) -> Result<bool, Error> {
        self.unpin(digest)?;
        let known = self.books().remove(digest).is_some();
        let failed = |cause| Error::Directory { path: self.object(digest), cause };
        Ok(self.unlink(digest).map_err(failed)? || known)
    }

    pub(super) fn pin(&self, digest: &Digest) -> Result<(), Error> {
        let name = digest.to_string();
        let make = || {
            let pins = make_in(&self.top, "pins", self.owner)?;
            match own::create_in(&pins, &name, FILE, self.owner) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => drop(made?),
            }
            File::from(pins).sync_all()
        };
        make().map_err(|cause| Error::Directory { path: self.path.join("pins").join(&name), cause })?;
        self.books().pin(digest);
        Ok(())
    }

    pub(super) fn unpin(&self, digest: &Digest) -> Result<bool, Error> {
        let name = digest.to_string();
        self.books().unpin(digest);
        let gone = own::directory_in(&self.top, "pins").and_then(|pins| remove_in(pins, &name));
        or_absent(gone).map_err(|cause| Error::Directory { path: self.path.join("pins").join(&name), cause })
    }

    /// Digest, size and whether pinned, of every object.
    pub(super) fn entries(&self) -> Vec<(Digest, u64, bool)> {
        self.books().entries().collect()
    }

    /// Bytes and number of the objects.
    pub(super) fn usage(&self) -> (u64, usize) {
        let books = self.books();
        (books.bytes(), books.len())
    }

    /// The path of an object, for people.
    fn object(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        let (directory, file) = name.split_at(2);
        self.path.join("objects").join(directory).join(file)
    }

    /// The directory of an object.
    fn above(&self, digest: &Digest) -> io::Result<OwnedFd> {
        let objects = own::directory_in(&self.top, "objects")?;
        own::directory_in(objects, &digest.to_string()[..2])
    }

    fn open_object(&self, digest: &Digest) -> io::Result<File> {
        own::open_in(self.above(digest)?, &digest.to_string()[2..])
    }

    /// Whether the file was there.
    fn unlink(&self, digest: &Digest) -> io::Result<bool> {
        or_absent(self.above(digest).and_then(|above| remove_in(above, &digest.to_string()[2..])))
    }

    fn books(&self) -> MutexGuard<'_, Lru<SystemTime>> {
        // The books are consistent between any two statements, so a panic elsewhere is no harm.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
