//! One name space: its tree, its record, and its account.

use super::account::{Account, count};
use super::{Entry, LIST_MAX, SpaceStatus, hold, meaning};
use crate::nodeos::file::{Access, FileStat, OpenFlags, Quota, Record, split_path};
use crate::nodeos::interface::Error;
use crate::sys::dir::{self, Beneath, Facts, Kind};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Bytes of a record's file.
const RECORD_BYTES_MAX: u64 = 1 << 16;

/// A name space in use.
pub(super) struct Space {
    holder: String,
    top: Beneath,
    records: PathBuf,
    record: Record,
    account: Account,
    /// Whether the account is that of the files that are there.
    counted: bool,
}

/// An open file of a domain. Closed when the last one that uses it lets it go.
pub(super) struct Handle {
    space: Arc<Mutex<Space>>,
    file: OwnedFd,
    inode: u64,
    flags: OpenFlags,
    /// Whether it is in the name space of another holder.
    foreign: bool,
}

fn failed(error: io::Error) -> Error {
    meaning(&error)
}

impl Space {
    /// Opens a holder's name space; makes it if it is not there and may be made.
    pub fn load(spaces: &Beneath, records: &Path, holder: &str, make: bool) -> Result<Space, Error> {
        if make
            && let Err(error) = spaces.make_directory(holder)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(failed(error));
        }
        let top = spaces.directory(holder).map_err(failed)?;
        let record = match read_record(&records.join(holder)) {
            Ok(record) => record,
            Err(error) => {
                // Without it nobody but the holder may do anything, which is safe.
                tracing::warn!(holder, %error, "the record of a name space cannot be read: nobody shares it now");
                Record::default()
            }
        };
        Ok(Space {
            holder: holder.into(),
            top,
            records: records.into(),
            record,
            account: Account::default(),
            counted: false,
        })
    }

    /// Counts what it holds when it is used for the first time. Only those wait that use the same name space.
    pub fn take_stock(&mut self) -> Result<(), Error> {
        if !self.counted {
            self.account = Account::of(count(&self.top).map_err(failed)?);
            self.counted = true;
        }
        Ok(())
    }

    pub fn holder(&self) -> &str {
        &self.holder
    }

    pub fn record(&self) -> &Record {
        &self.record
    }

    pub fn status(&self) -> SpaceStatus {
        SpaceStatus {
            holder: self.holder.clone(),
            quota: self.record.quota,
            used: self.account.used(),
            open: self.account.open(),
            refused: self.account.refused(),
        }
    }

    pub fn set_quota(&mut self, quota: Quota) -> Result<(), Error> {
        if self.record.quota == quota {
            return Ok(());
        }
        self.replace_record(Record { quota, ..self.record.clone() })
    }

    pub fn share(&mut self, with: &str, access: Access) -> Result<(), Error> {
        let mut record = self.record.clone();
        record.shares.share(with, access)?;
        self.replace_record(record)
    }

    /// Writes the record beside and renames it, so that a node that is killed leaves the old one or the new one.
    fn replace_record(&mut self, record: Record) -> Result<(), Error> {
        let beside = self.records.join(format!(".{}", self.holder));
        let text = serde_json::to_vec(&record).map_err(|_| Error::Io)?;
        let written = File::create(&beside).and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()));
        written.and_then(|()| std::fs::rename(&beside, self.records.join(&self.holder))).map_err(failed)?;
        self.record = record;
        Ok(())
    }

    /// Opens or makes a file.
    pub fn open(
        this: &Arc<Mutex<Space>>,
        path: &str,
        flags: OpenFlags,
        (quota, foreign): (Quota, bool),
    ) -> Result<Handle, Error> {
        let mut space = hold(this);
        let writable = flags.has(OpenFlags::WRITE);
        let file = match space.top.open(path, writable) {
            Ok(_) if flags.has(OpenFlags::EXCLUSIVE) => return Err(Error::Exists),
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && flags.has(OpenFlags::CREATE) => {
                space.account.add(quota)?;
                let made = space.top.create(path);
                if made.is_err() {
                    space.account.take_away(0);
                }
                made.map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        };
        let facts = dir::facts(&file).map_err(failed)?;
        if flags.has(OpenFlags::TRUNCATE) && facts.size > 0 {
            dir::resize(&file, 0).map_err(failed)?;
            space.account.resized(facts.size, 0);
        }
        space.account.opened(facts.inode);
        drop(space);
        Ok(Handle { space: this.clone(), file, inode: facts.inode, flags, foreign })
    }

    pub fn stat(&self, path: &str) -> Result<FileStat, Error> {
        let facts = self.top.facts(path).map_err(failed)?;
        if facts.kind == Kind::Other { Err(Error::Denied) } else { Ok(facts.into()) }
    }

    pub fn make_directory(&mut self, path: &str, quota: Quota) -> Result<(), Error> {
        let (above, name) = self.place(path)?;
        self.account.add(quota)?;
        let made = above.as_ref().unwrap_or(&self.top).make_directory(name);
        if made.is_err() {
            self.account.take_away(0);
        }
        made.map_err(failed)
    }

    pub fn unlink(&mut self, path: &str) -> Result<(), Error> {
        let (above, name) = self.place(path)?;
        let above = above.as_ref().unwrap_or(&self.top);
        let facts = above.entry(name).map_err(failed)?;
        above.remove(name, facts.kind == Kind::Directory).map_err(failed)?;
        self.nameless(&facts);
        Ok(())
    }

    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), Error> {
        let ((above, name), (there, other)) = (self.place(from)?, self.place(to)?);
        let (above, there) = (above.as_ref().unwrap_or(&self.top), there.as_ref().unwrap_or(&self.top));
        let moved = above.entry(name).map_err(failed)?;
        // A directory could come to lie deeper than paths reach.
        if moved.kind != Kind::File {
            return Err(Error::Invalid);
        }
        let lost = match there.entry(other) {
            Ok(facts) if facts.inode == moved.inode => return Ok(()),
            Ok(facts) if facts.kind == Kind::Directory => return Err(Error::Invalid),
            Ok(facts) => Some(facts),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        above.rename(name, there, other).map_err(failed)?;
        if let Some(lost) = lost {
            self.nameless(&lost);
        }
        Ok(())
    }

    pub fn list(&self, path: Option<&str>, after: &str) -> Result<Vec<Entry>, Error> {
        let found = path.map(|path| self.top.directory(path)).transpose().map_err(failed)?;
        let directory = found.as_ref().unwrap_or(&self.top);
        let names = directory.names().map_err(failed)?;
        let from = names.partition_point(|name| name.as_str() <= after);
        let mut entries = Vec::new();
        for name in names.into_iter().skip(from).take(LIST_MAX) {
            let facts = directory.entry(&name).map_err(failed)?;
            // A link or a device that somebody has put there is no file of the name space.
            if facts.kind != Kind::Other {
                entries.push(Entry { name, stat: facts.into() });
            }
        }
        Ok(entries)
    }

    /// The directory of a path, unless it is the uppermost one, and the last name.
    fn place<'a>(&self, path: &'a str) -> Result<(Option<Beneath>, &'a str), Error> {
        let (directory, name) = split_path(path);
        Ok((directory.map(|directory| self.top.directory(directory)).transpose().map_err(failed)?, name))
    }

    /// A name is gone; what it meant is too, unless it is open.
    fn nameless(&mut self, facts: &Facts) {
        if !self.account.unlinked(facts.inode) {
            self.account.take_away(facts.size);
        }
    }
}

impl Handle {
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<usize, Error> {
        self.may(OpenFlags::READ)?;
        dir::read_at(&self.file, to, offset).map_err(failed)
    }

    pub fn write(&self, offset: u64, from: &[u8], quota: Quota) -> Result<usize, Error> {
        self.may(OpenFlags::WRITE)?;
        self.change(
            quota,
            |size| {
                let offset = if self.flags.has(OpenFlags::APPEND) { size } else { offset };
                let end = offset.checked_add(from.len() as u64).ok_or(Error::Invalid)?;
                Ok((if from.is_empty() { size } else { end.max(size) }, offset))
            },
            |_, offset| dir::write_at(&self.file, from, offset),
        )
    }

    pub fn truncate(&self, size: u64, quota: Quota) -> Result<(), Error> {
        self.may(OpenFlags::WRITE)?;
        self.change(quota, |_| Ok((size, 0)), |size, _| dir::resize(&self.file, size))
    }

    pub fn sync(&self) -> Result<(), Error> {
        dir::sync(&self.file).map_err(failed)
    }

    pub fn stat(&self) -> Result<FileStat, Error> {
        Ok(dir::facts(&self.file).map_err(failed)?.into())
    }

    fn may(&self, flags: OpenFlags) -> Result<(), Error> {
        if self.flags.has(flags) { Ok(()) } else { Err(Error::Denied) }
    }

    /// Changes the file while nobody else does: `plan` says how large it will be, and the account follows how large it is then.
    fn change<R>(
        &self,
        quota: Quota,
        plan: impl FnOnce(u64) -> Result<(u64, u64), Error>,
        act: impl FnOnce(u64, u64) -> io::Result<R>,
    ) -> Result<R, Error> {
        let mut space = hold(&self.space);
        let before = dir::facts(&self.file).map_err(failed)?.size;
        let (size, offset) = plan(before)?;
        let quota = if self.foreign { quota.least(space.record.quota) } else { quota };
        space.account.may_grow(quota, before, size)?;
        let done = act(size, offset);
        if let Ok(after) = dir::facts(&self.file) {
            space.account.resized(before, after.size);
        }
        done.map_err(failed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut space = hold(&self.space);
        // Under the lock: another who has it open may be writing.
        let size = dir::facts(&self.file).map_or(0, |facts| facts.size);
        space.account.closed(self.inode, size);
    }
}

fn read_record(path: &Path) -> io::Result<Record> {
    use std::io::Read as _;
    let mut text = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(RECORD_BYTES_MAX).read_to_end(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Record::default()),
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&text).map_err(io::Error::other)
}
