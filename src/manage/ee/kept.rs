//! Stores that outlive the node: each has a journal among its holder's files, to which a change is written before it is
//! made.
//!
//! ```text
//! put ─▶ would it be made? ─▶ appended to stores/NAME ─▶ made in the node ─▶ answered
//!                                └─ longer than it need be: written anew beside, and renamed
//! ```
//!
//! So what was answered is kept when the node is killed, and by [`KeptStores::sync`] when the host is. The files are in the
//! holder's name space ([`Files`]): they count for its quota, and a program that writes to them harms itself alone. All
//! of it is done by the thread that calls; the worker waits for no disk.

use crate::core::domain::DomainId;
use crate::manage::files::{CALL_BYTES_MAX, Files};
use crate::nodeos::file::{FileId, FileSpec, OpenFlags};
use crate::nodeos::interface::Error;
use crate::nodeos::store::ask::{StoreAsk, StoreId};
use crate::nodeos::store::journal::{self, JournalEntry};
use crate::nodeos::store::replay::{Replayed, number_of};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The directory of a name space with its stores.
const DIRECTORY: &str = "stores";

/// Bytes by which a journal may be longer than twice what it need be.
const SLACK: usize = 256 << 10;

/// The journal of a store.
pub struct Journal {
    /// In whose name its file is open.
    domain: DomainId,
    holder: Arc<str>,
    name: String,
    file: FileId,
    /// Bytes that are written, and were when it was as short as can be.
    length: usize,
    least: usize,
    /// Whether the file may hold what it should not.
    broken: bool,
}

/// All stores of a node that outlive it and are open.
pub struct KeptStores {
    files: Arc<Files>,
    open: Mutex<HashMap<StoreId, Arc<Mutex<Journal>>>>,
    /// Held by whoever opens a store of a holder.
    opening: Mutex<HashMap<Arc<str>, Arc<Mutex<()>>>>,
}

fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is held is right between any two statements, or marked as broken.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

fn path(name: &str) -> String {
    format!("{DIRECTORY}/{name}")
}

const READ_WRITE: OpenFlags = OpenFlags::READ.and(OpenFlags::WRITE);

impl KeptStores {
    /// None is open.
    pub fn new(files: Arc<Files>) -> KeptStores {
        KeptStores { files, open: Mutex::default(), opening: Mutex::default() }
    }

    /// As long as it is locked no other thread opens a store of the holder.
    pub fn entrance(&self, holder: &Arc<str>) -> Arc<Mutex<()>> {
        let mut opening = hold(&self.opening);
        opening.retain(|_, lock| Arc::strong_count(lock) > 1);
        opening.entry(holder.clone()).or_default().clone()
    }

    /// The journal of a store, if it has one.
    pub fn of(&self, store: StoreId) -> Option<Arc<Mutex<Journal>>> {
        hold(&self.open).get(&store).cloned()
    }

    /// A store has this journal from now on. One of a store that has ended goes with that.
    pub fn enter(&self, store: StoreId, journal: Journal) {
        let mut open = hold(&self.open);
        let files = &self.files;
        open.retain(|_, other| {
            let Ok(other) = other.try_lock() else { return true };
            let same = other.holder == journal.holder && other.name == journal.name;
            !same && files.owner(other.file) == Some(other.domain)
        });
        open.insert(store, Arc::new(Mutex::new(journal)));
    }

    /// A store is no more.
    pub fn forget(&self, store: StoreId) {
        hold(&self.open).remove(&store);
    }

    /// Opens the journal of a store of a domain's own holder, or begins one. Bytes: those that the store may hold.
    pub fn load(
        &self,
        domain: DomainId,
        holder: &Arc<str>,
        name: &str,
        bytes: u64,
    ) -> Result<(Journal, Replayed), Error> {
        let files = &*self.files;
        let spec = |flags| FileSpec { space: None, path: path(name), flags };
        let journal = |file| Journal {
            domain,
            holder: holder.clone(),
            name: name.into(),
            file,
            length: 0,
            least: 0,
            broken: false,
        };
        let file = match files.open(domain, &spec(READ_WRITE)) {
            Err(Error::Unknown) => {
                match files.make_directory(domain, None, DIRECTORY) {
                    Ok(()) | Err(Error::Exists) => {}
                    Err(error) => return Err(error),
                }
                files.open(domain, &spec(READ_WRITE.and(OpenFlags::CREATE)))?
            }
            opened => opened?,
        };
        let loaded = self.replay(journal(file), bytes);
        if loaded.is_err() {
            // It was opened above.
            let _ = files.close(domain, file);
        }
        loaded
    }

    fn replay(&self, mut journal: Journal, bytes: u64) -> Result<(Journal, Replayed), Error> {
        let (holder, store) = (&*journal.holder, &*journal.name);
        let most = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_mul(2).saturating_add(2 * SLACK);
        let all = self.read(&journal, most)?;
        let replayed = Replayed::of(&all).map_err(|journal::Damage { at, what }| {
            tracing::error!(holder, store, at, what, "a store is damaged and stays closed: repair or remove its file");
            Error::Io
        })?;
        if replayed.whole < all.len() {
            let torn = all.len() - replayed.whole;
            tracing::warn!(holder, store, torn, "the end of a store's file was not written whole, and is cut off");
            self.files.truncate(journal.domain, journal.file, replayed.whole as u64)?;
        }
        journal.length = replayed.whole;
        journal.least = replayed.rewritten().len();
        if journal.length == 0 {
            let mut record = Vec::new();
            journal::write(0, JournalEntry::Begins, &mut record);
            self.append(&mut journal, &record)?;
        }
        Ok((journal, replayed))
    }

    /// All bytes of a journal, if there are not more.
    fn read(&self, journal: &Journal, most: usize) -> Result<Vec<u8>, Error> {
        let (files, domain, file) = (&self.files, journal.domain, journal.file);
        let size = usize::try_from(files.stat(domain, file)?.size).unwrap_or(usize::MAX);
        if size > most {
            return Err(Error::Limit);
        }
        let mut all = vec![0; size];
        let mut read = 0;
        while read < size {
            let end = size.min(read + CALL_BYTES_MAX);
            match files.read(domain, file, read as u64, &mut all[read..end])? {
                0 => break,
                bytes => read += bytes,
            }
        }
        all.truncate(read);
        Ok(all)
    }

    /// Writes a change that will have this number.
    pub fn write(&self, journal: &mut Journal, version: u64, ask: &StoreAsk) -> Result<(), Error> {
        if journal.broken {
            return Err(Error::Io);
        }
        let kept = match ask {
            StoreAsk::Put { key, value, .. } => JournalEntry::Put(key, value),
            StoreAsk::Delete { key, .. } => JournalEntry::Deleted(key),
            StoreAsk::Share { with, access, .. } => JournalEntry::Shared(with, number_of(*access)),
            _ => return Err(Error::Invalid),
        };
        let mut record = Vec::new();
        journal::write(version, kept, &mut record);
        if journal.length + record.len() > 2 * journal.least + SLACK {
            self.rewrite(journal)?;
        }
        self.append(journal, &record)
    }

    /// Writes all of it or nothing.
    fn append(&self, journal: &mut Journal, record: &[u8]) -> Result<(), Error> {
        let (files, domain, file) = (&self.files, journal.domain, journal.file);
        let written = files.write(domain, file, journal.length as u64, record);
        if written == Ok(record.len()) {
            journal.length += record.len();
            return Ok(());
        }
        // A part of it may stand there; behind it nothing may follow.
        journal.broken = files.truncate(domain, file, journal.length as u64).is_err();
        Err(written.err().unwrap_or(Error::Full))
    }

    /// Writes the journal anew, as short as can be, and has it take the place of the old one in one step.
    fn rewrite(&self, journal: &mut Journal) -> Result<(), Error> {
        let (files, domain) = (&*self.files, journal.domain);
        let all = self.read(journal, usize::MAX)?;
        let replayed = Replayed::of(&all).map_err(|_| Error::Io)?;
        let bytes = replayed.rewritten();
        let beside = format!("{DIRECTORY}/.{}", journal.name);
        let flags = READ_WRITE.and(OpenFlags::CREATE).and(OpenFlags::TRUNCATE);
        let file = files.open(domain, &FileSpec { space: None, path: beside.clone(), flags })?;
        let written = bytes.chunks(CALL_BYTES_MAX).zip(0..).try_for_each(|(part, at)| {
            let done = files.write(domain, file, (at * CALL_BYTES_MAX) as u64, part)?;
            if done == part.len() { Ok(()) } else { Err(Error::Full) }
        });
        // The name may be on the disk before the bytes are, unless those are waited for.
        let done = written.and_then(|()| files.sync(domain, file));
        let done = done.and_then(|()| files.rename(domain, None, &beside, &path(&journal.name)));
        if let Err(error) = done {
            let _ = (files.close(domain, file), files.unlink(domain, None, &beside));
            return Err(error);
        }
        // The old one has no name any more.
        let _ = files.close(domain, journal.file);
        (journal.file, journal.length, journal.least) = (file, bytes.len(), bytes.len());
        Ok(())
    }

    /// Waits until what was written to a journal is on the disk.
    pub fn sync(&self, journal: &Journal) -> Result<(), Error> {
        self.files.sync(journal.domain, journal.file)
    }

    /// Takes the file of a store away.
    pub fn remove(&self, journal: &mut Journal) -> Result<(), Error> {
        match self.files.unlink(journal.domain, None, &path(&journal.name)) {
            // The holder may have taken it away as any file of its own.
            Ok(()) | Err(Error::Unknown) => {}
            Err(error) => return Err(error),
        }
        journal.broken = true;
        self.files.close(journal.domain, journal.file)
    }

    /// Closes the journal of a store that could not be made.
    pub fn let_go(&self, journal: &Journal) {
        let _ = self.files.close(journal.domain, journal.file);
    }
}
