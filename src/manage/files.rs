//! The files of domains on the disk of this host.
//!
//! ```text
//! DIR/lock             held by the node that uses the directory
//! DIR/spaces/HOLDER/   a name space: directories and files, nothing else
//! DIR/records/HOLDER   its quota and who shares it, in JSON; replaced as a whole
//! ```
//!
//! No account is on disk that could contradict the files: what a name space holds is counted once, when it is first
//! used, and kept from then on under its lock together with every change. A node that is killed leaves files whole or
//! half written, as POSIX has it, and nothing to repair. Calls run in the thread of the session that makes them, never
//! in the worker; those that change a name space are done one after the other, those that read are not held up. Names
//! are resolved by [`crate::sys::dir`], which they cannot leave.

mod account;
mod space;

use crate::core::domain::DomainId;
use crate::core::table::Table;
use crate::nodeos::file::{
    Access, FileId, FileKind, FileSpec, FileStat, HANDLES_MAX, OpenFlags, Quota, Used, check_holder, check_path,
};
use crate::nodeos::interface::Error;
use crate::sys::dir::{self, Beneath};
use crate::sys::own;
use crate::trust::grants::DOMAINS_MAX;
use rustix::fs::{FlockOperation, flock};
use space::{Handle, Space};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Name spaces of one node.
pub const SPACES_MAX: usize = 4096;

/// Open files of one node.
pub const OPEN_MAX: usize = 32_768;

/// Bytes that one call reads or writes.
pub const CALL_BYTES_MAX: usize = 1 << 20;

/// Names that one call lists.
pub const LIST_MAX: usize = 256;

/// How often the lock is tried: a process that is being started may hold it for a moment.
const LOCK_TRIES: usize = 100;

/// Pause between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Without what is above it.
    pub name: String,
    /// What it is.
    pub stat: FileStat,
}

/// How a name space stands.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SpaceStatus {
    /// Whose it is.
    pub holder: String,
    /// How far it may grow.
    pub quota: Quota,
    /// What it holds.
    pub used: Used,
    /// Files that are open.
    pub open: usize,
    /// Calls refused because of its quota, or that of the caller's role.
    pub refused: u64,
}

/// A domain that uses files.
struct User {
    holder: String,
    quota: Quota,
    open: Vec<FileId>,
}

/// Who uses files, and which are open.
struct Users {
    domains: HashMap<DomainId, User>,
    open: Table<FileId, (DomainId, Arc<Handle>)>,
}

impl Default for Users {
    fn default() -> Users {
        Users { domains: HashMap::new(), open: Table::new(OPEN_MAX) }
    }
}

/// The files of a node.
pub struct Files {
    spaces_dir: Beneath,
    records: PathBuf,
    spaces: Mutex<BTreeMap<String, Arc<Mutex<Space>>>>,
    users: Mutex<Users>,
    _lock: File,
}

/// A lock whose holder panicked guards whole values still: every change is one assignment.
fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// Uses a directory, which is made if it is not there; refused while another node does.
    pub fn open_at(path: &Path) -> io::Result<Files> {
        let spaces_dir = Beneath::make(&path.join("spaces"))?;
        let records = path.join("records");
        Beneath::make(&records)?;
        let lock = own::lock_in(own::directory(path)?, "lock", None)?;
        take_lock(&lock)?;
        for entry in std::fs::read_dir(&records)?.flatten() {
            // What a process was writing when it was killed.
            if entry.file_name().to_string_lossy().starts_with('.') {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(Files { spaces_dir, records, spaces: Mutex::default(), users: Mutex::default(), _lock: lock })
    }

    /// Lets a domain use the name space of a holder as its own, and make it grow so far. The first domain of a holder sets the
    /// name space's quota.
    pub fn enter(&self, domain: DomainId, holder: &str, quota: Quota) -> Result<(), Error> {
        check_holder(holder)?;
        let mut users = hold(&self.users);
        if users.domains.contains_key(&domain) {
            return Err(Error::Exists);
        }
        if users.domains.len() >= DOMAINS_MAX {
            return Err(Error::Full);
        }
        let first = !users.domains.values().any(|user| user.holder == holder);
        users.domains.insert(domain, User { holder: holder.into(), quota, open: Vec::new() });
        drop(users);
        if first && quota != Quota::default() {
            let space = self.space(holder, true)?;
            let mut space = hold(&space);
            space.take_stock()?;
            space.set_quota(quota)?;
        }
        Ok(())
    }

    /// Lets a domain use what the domain above it uses, and make it grow so far.
    pub fn inherit(&self, domain: DomainId, above: DomainId, quota: Quota) -> Result<(), Error> {
        let holder = hold(&self.users).domains.get(&above).map(|user| user.holder.clone()).ok_or(Error::Stale)?;
        self.enter(domain, &holder, quota)
    }

    /// A domain has ended: all its files are closed. Gives how many were open.
    pub fn leave(&self, domain: DomainId) -> usize {
        let mut users = hold(&self.users);
        let open = users.domains.remove(&domain).map(|user| user.open).unwrap_or_default();
        let closed: Vec<_> = open.into_iter().filter_map(|file| users.open.remove(file)).collect();
        // Closing may wait for a name space, the others need not wait for that.
        drop(users);
        closed.len()
    }

    /// The domains that use files.
    pub fn users(&self) -> Vec<DomainId> {
        hold(&self.users).domains.keys().copied().collect()
    }

    /// Whether a domain may use files.
    pub fn is_user(&self, domain: DomainId) -> bool {
        hold(&self.users).domains.contains_key(&domain)
    }

    /// Whose file it is.
    pub fn owner(&self, file: FileId) -> Option<DomainId> {
        hold(&self.users).open.get(file).map(|(owner, _)| *owner)
    }

    /// Opens a file.
    pub fn open(&self, domain: DomainId, spec: &FileSpec) -> Result<FileId, Error> {
        spec.flags.check()?;
        check_path(&spec.path)?;
        let wanted = if spec.flags.has(OpenFlags::WRITE) { Access::Write } else { Access::Read };
        let (space, quota) = self.reach(domain, spec.space.as_deref(), wanted)?;
        let foreign = hold(&space).holder() != self.holder(domain)?;
        let handle = Space::open(&space, &spec.path, spec.flags, (quota, foreign))?;
        let mut users = hold(&self.users);
        let Users { domains, open } = &mut *users;
        // The domain may have ended meanwhile; what was opened for it is closed then.
        let user = domains.get_mut(&domain).ok_or(Error::Ended)?;
        if user.open.len() >= HANDLES_MAX {
            return Err(Error::Limit);
        }
        let file = open.add((domain, Arc::new(handle))).map_err(|_| Error::Full)?;
        user.open.push(file);
        Ok(file)
    }

    /// Reads at an offset: how many bytes, fewer than asked for only at the end.
    pub fn read(&self, domain: DomainId, file: FileId, offset: u64, to: &mut [u8]) -> Result<usize, Error> {
        let (handle, _) = self.handle(domain, file)?;
        if to.len() > CALL_BYTES_MAX || offset.checked_add(to.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(Error::Invalid);
        }
        handle.read(offset, to)
    }

    /// Writes at an offset: how many bytes, all unless the disk is full.
    pub fn write(&self, domain: DomainId, file: FileId, offset: u64, from: &[u8]) -> Result<usize, Error> {
        let (handle, quota) = self.handle(domain, file)?;
        if from.len() > CALL_BYTES_MAX {
            return Err(Error::Invalid);
        }
        handle.write(offset, from, quota)
    }

    /// Makes a file longer, with zeros, or shorter.
    pub fn truncate(&self, domain: DomainId, file: FileId, size: u64) -> Result<(), Error> {
        let (handle, quota) = self.handle(domain, file)?;
        handle.truncate(size, quota)
    }

    /// Waits until what was written is on the disk.
    pub fn sync(&self, domain: DomainId, file: FileId) -> Result<(), Error> {
        let (handle, _) = self.handle(domain, file)?;
        handle.sync()
    }

    /// What is known of an open file.
    pub fn stat(&self, domain: DomainId, file: FileId) -> Result<FileStat, Error> {
        let (handle, _) = self.handle(domain, file)?;
        handle.stat()
    }

    /// Closes a file.
    pub fn close(&self, domain: DomainId, file: FileId) -> Result<(), Error> {
        let mut users = hold(&self.users);
        users.open.get(file).filter(|(owner, _)| *owner == domain).ok_or(Error::Stale)?;
        let closed = users.open.remove(file);
        if let Some(user) = users.domains.get_mut(&domain) {
            user.open.retain(|other| *other != file);
        }
        drop(users);
        closed.map(drop).ok_or(Error::Stale)
    }

    /// What is known of what is there by a name.
    pub fn stat_path(&self, domain: DomainId, space: Option<&str>, path: &str) -> Result<FileStat, Error> {
        check_path(path)?;
        let (space, _) = self.reach(domain, space, Access::Read)?;
        let space = hold(&space);
        space.stat(path)
    }

    /// Makes a directory.
    pub fn make_directory(&self, domain: DomainId, space: Option<&str>, path: &str) -> Result<(), Error> {
        check_path(path)?;
        let (space, quota) = self.reach(domain, space, Access::Write)?;
        let mut space = hold(&space);
        space.make_directory(path, quota)
    }

    /// Takes the name of a file away, or an empty directory. The file is gone when nobody has it open any more.
    pub fn unlink(&self, domain: DomainId, space: Option<&str>, path: &str) -> Result<(), Error> {
        check_path(path)?;
        let (space, _) = self.reach(domain, space, Access::Write)?;
        let mut space = hold(&space);
        space.unlink(path)
    }

    /// Gives a file another name in the same name space; a file that has it loses it in the same instant.
    pub fn rename(&self, domain: DomainId, space: Option<&str>, from: &str, to: &str) -> Result<(), Error> {
        check_path(from).and(check_path(to))?;
        let (space, _) = self.reach(domain, space, Access::Write)?;
        let mut space = hold(&space);
        space.rename(from, to)
    }

    /// The names in a directory (`None`: the uppermost one) that come behind `after` in order, at most [`LIST_MAX`].
    pub fn list(
        &self,
        domain: DomainId,
        space: Option<&str>,
        path: Option<&str>,
        after: &str,
    ) -> Result<Vec<Entry>, Error> {
        path.map_or(Ok(()), check_path)?;
        let (space, _) = self.reach(domain, space, Access::Read)?;
        let space = hold(&space);
        space.list(path, after)
    }

    /// Lets the domains of another holder (`*`: of all) use the caller's name space, or not any more. Files they have open stay open.
    pub fn share(&self, domain: DomainId, with: &str, access: Access) -> Result<(), Error> {
        let (space, _) = self.reach(domain, None, Access::Write)?;
        let mut space = hold(&space);
        space.share(with, access)
    }

    /// All name spaces that have been used since the node started.
    pub fn status(&self) -> Vec<SpaceStatus> {
        let spaces: Vec<_> = hold(&self.spaces).values().cloned().collect();
        spaces.iter().map(|space| hold(space).status()).collect()
    }

    /// Files that a domain has open.
    pub fn opened_by(&self, domain: DomainId) -> usize {
        hold(&self.users).domains.get(&domain).map_or(0, |user| user.open.len())
    }

    fn holder(&self, domain: DomainId) -> Result<String, Error> {
        hold(&self.users).domains.get(&domain).map(|user| user.holder.clone()).ok_or(Error::Stale)
    }

    fn handle(&self, domain: DomainId, file: FileId) -> Result<(Arc<Handle>, Quota), Error> {
        let users = hold(&self.users);
        let user = users.domains.get(&domain).ok_or(Error::Stale)?;
        let own = users.open.get(file).filter(|(owner, _)| *owner == domain);
        own.map(|(_, handle)| (handle.clone(), user.quota)).ok_or(Error::Stale)
    }

    /// The name space of that name as the domain may use it, and how far the domain may make it grow.
    fn reach(
        &self,
        domain: DomainId,
        space: Option<&str>,
        wanted: Access,
    ) -> Result<(Arc<Mutex<Space>>, Quota), Error> {
        let users = hold(&self.users);
        let user = users.domains.get(&domain).ok_or(Error::Stale)?;
        let (who, own) = (user.holder.clone(), user.quota);
        drop(users);
        let name = space.unwrap_or(&who);
        check_holder(name)?;
        // Only its holder's domains make one, if they may make files; of those of others nothing is said that a share does not say.
        let make = name == who && own.files > 0;
        let found = self.space(name, make).map_err(|error| if name == who { error } else { Error::Denied })?;
        let mut space = hold(&found);
        if space.record().shares.access(name, &who) < wanted {
            return Err(Error::Denied);
        }
        space.take_stock()?;
        let quota = if name == who { own } else { own.least(space.record().quota) };
        drop(space);
        Ok((found, quota))
    }

    fn space(&self, name: &str, make: bool) -> Result<Arc<Mutex<Space>>, Error> {
        let mut spaces = hold(&self.spaces);
        if let Some(space) = spaces.get(name) {
            return Ok(space.clone());
        }
        if spaces.len() >= SPACES_MAX {
            return Err(Error::Full);
        }
        let space = Arc::new(Mutex::new(Space::load(&self.spaces_dir, &self.records, name, make)?));
        spaces.insert(name.into(), space.clone());
        Ok(space)
    }
}

fn take_lock(lock: &File) -> io::Result<()> {
    for _ in 0..LOCK_TRIES {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            done => return Ok(done?),
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "another node uses this directory"))
}

/// What an error of the system means to a domain.
fn meaning(error: &io::Error) -> Error {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NOTDIR) => Error::Unknown,
        Some(Errno::EXIST | Errno::NOTEMPTY) => Error::Exists,
        Some(Errno::XDEV | Errno::LOOP | Errno::ACCESS | Errno::PERM | Errno::ROFS) => Error::Denied,
        Some(Errno::INVAL | Errno::ISDIR | Errno::NAMETOOLONG | Errno::ILSEQ) => Error::Invalid,
        Some(Errno::NOSPC | Errno::DQUOT | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::FBIG) => Error::Full,
        Some(Errno::AGAIN | Errno::BUSY) => Error::Again,
        Some(Errno::NOSYS) => Error::Unsupported,
        _ => Error::Io,
    }
}

impl From<dir::Facts> for FileStat {
    fn from(facts: dir::Facts) -> FileStat {
        let kind = if facts.kind == dir::Kind::Directory { FileKind::Directory } else { FileKind::File };
        FileStat { kind, size: facts.size, modified_ns: facts.modified_ns }
    }
}
