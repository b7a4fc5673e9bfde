//! The disk side of the store.
//!
//! ```text
//! DIR/objects/ab/cdef…   an object, named by its digest; never changed, only renamed into place
//! DIR/new/PID-N          being written; remains are removed by whoever opens the store alone
//! DIR/pins/abcdef…       empty: this object stays
//! DIR/lock               shared lock of everybody who has the store open
//! ```
//!
//! There is no index on disk that could contradict the objects: opening reads the directories. The
//! order of use survives in the files' modification times, written at most once an hour
//! for each object. kill -9 between any two steps leaves an object whole or absent.

use super::Error;
use super::lru::Lru;
use crate::trust::object_name;
use crate::wire::Digest;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// How often the time of use of one object is written at most.
const TOUCH_EVERY: Duration = Duration::from_secs(3600);

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

/// The owner of a directory, if that is somebody else and this process is root.
fn other_owner(path: &Path) -> Option<(u32, u32)> {
    let facts = fs::metadata(path).ok()?;
    (facts.uid() != 0 && rustix::process::geteuid().is_root()).then(|| (facts.uid(), facts.gid()))
}

/// A directory of objects.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    /// The time of use that is on disk, for each object.
    books: Mutex<Lru<SystemTime>>,
    /// Whom the directory belongs to, if that is a node's user and this process is root.
    owner: Option<(u32, u32)>,
    /// Holds the shared lock.
    _lock: File,
}

impl Disk {
    pub(super) fn open(path: &Path, bytes_max: u64, entries_max: usize) -> Result<Disk, Error> {
        let failed = |cause| Error::Directory { path: path.into(), cause };
        for name in ["objects", "new", "pins"] {
            fs::create_dir_all(path.join(name)).map_err(failed)?;
        }
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(path.join("lock")).map_err(failed)?;
        // Alone: nobody else is writing, so whatever is unfinished was interrupted.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            for entry in fs::read_dir(path.join("new")).map_err(failed)?.flatten() {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        flock(&lock, FlockOperation::LockShared).map_err(|cause| failed(cause.into()))?;
        let disk = Disk {
            path: path.into(),
            books: Mutex::new(Lru::new(bytes_max, entries_max)),
            owner: other_owner(path),
            _lock: lock,
        };
        disk.take_stock().map_err(failed)?;
        Ok(disk)
    }

    /// Enters into the books what the directories hold, the longest unused first, and removes what
    /// is beyond the limits.
    fn take_stock(&self) -> io::Result<()> {
        let mut books = self.books();
        for entry in fs::read_dir(self.path.join("pins"))?.flatten() {
            if let Some(digest) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                books.pin(&digest);
            }
        }
        let mut found = Vec::new();
        for directory in fs::read_dir(self.path.join("objects"))?.flatten() {
            let Ok(entries) = fs::read_dir(directory.path()) else { continue };
            for entry in entries.flatten() {
                let name =
                    directory.file_name().into_string().unwrap_or_default() + &entry.file_name().to_string_lossy();
                // An object may vanish meanwhile, if another process makes room.
                let (Ok(digest), Ok(meta)) = (name.parse::<Digest>(), entry.metadata()) else { continue };
                if digest.to_string() != name {
                    continue;
                }
                found.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), digest, meta.len()));
            }
        }
        found.sort_unstable();
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

    pub(super) fn read(&self, digest: &Digest) -> Found {
        let mut file = match File::open(self.object(digest)) {
            Ok(file) => file,
            Err(error) => {
                self.books().remove(digest);
                return if error.kind() == io::ErrorKind::NotFound { Found::Absent } else { Found::Failed };
            }
        };
        let mut bytes = Vec::new();
        // One byte more than an object may have shows that it is none.
        if (&mut file).take(super::OBJECT_MAX as u64 + 1).read_to_end(&mut bytes).is_err() {
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
            let _ = File::open(self.object(digest)).and_then(|file| file.set_modified(now));
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
        let bytes = fs::read(self.object(digest)).ok()?;
        (object_name(&bytes) == *digest).then(|| bytes.into())
    }

    /// Writes an object, and says how many others had to go.
    pub(super) fn write(&self, digest: &Digest, bytes: &[u8]) -> (Result<(), Error>, u64) {
        let mut books = self.books();
        // Credentials are renewed under their name; all else is what its name says.
        let same = || Digest::of(bytes) == *digest || self.peek(digest).is_some_and(|there| *there == *bytes);
        let present = books.touch(digest).is_some() && self.object(digest).exists() && same();
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

    /// What root puts here is the node's, which could not take it out else.
    fn give(&self, path: &Path) -> io::Result<()> {
        self.owner.map_or(Ok(()), |(uid, gid)| std::os::unix::fs::lchown(path, Some(uid), Some(gid)))
    }

    fn rename_into_place(&self, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let new = self.path.join("new").join(format!("{}-{number}", std::process::id()));
        let target = self.object(digest);
        let write = || {
            let mut file = File::create(&new)?;
            self.give(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            let directory = target.parent().unwrap_or(&self.path);
            if !directory.exists() {
                fs::create_dir_all(directory)?;
                self.give(directory)?;
                File::open(self.path.join("objects"))?.sync_all()?;
            }
            fs::rename(&new, &target)?;
            File::open(directory)?.sync_all()
        };
        let result = write();
        if result.is_err() {
            let _ = fs::remove_file(&new);
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
        let path = self.path.join("pins").join(digest.to_string());
        let made = File::create(&path).and_then(|_| {
            self.give(&path)?;
            File::open(self.path.join("pins"))?.sync_all()
        });
        made.map_err(|cause| Error::Directory { path, cause })?;
        self.books().pin(digest);
        Ok(())
    }

    pub(super) fn unpin(&self, digest: &Digest) -> Result<bool, Error> {
        let path = self.path.join("pins").join(digest.to_string());
        self.books().unpin(digest);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(Error::Directory { path, cause }),
        }
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

    fn object(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        let (directory, file) = name.split_at(2);
        self.path.join("objects").join(directory).join(file)
    }

    /// Whether the file was there.
    fn unlink(&self, digest: &Digest) -> io::Result<bool> {
        match fs::remove_file(self.object(digest)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn books(&self) -> MutexGuard<'_, Lru<SystemTime>> {
        // The books are consistent between any two statements, so a panic elsewhere is no harm.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
