//! The account of a name space's files: counted once, then kept with every change.

use crate::nodeos::file::{DEPTH_MAX, Quota, Used};
use crate::nodeos::interface::Error;
use crate::sys::dir::{Beneath, Kind};
use std::collections::HashMap;
use std::io;

/// What is known of a file that is open.
#[derive(Default)]
struct Open {
    handles: usize,
    nameless: bool,
}

/// The account of one name space.
#[derive(Default)]
pub(super) struct Account {
    used: Used,
    /// Open files by their numbers: one that has lost its name counts until it is closed.
    open: HashMap<u64, Open>,
    refused: u64,
}

impl Account {
    pub fn of(used: Used) -> Account {
        Account { used, ..Account::default() }
    }

    pub fn used(&self) -> Used {
        self.used
    }

    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Files that are open.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Counts one more file or directory, if it fits.
    pub fn add(&mut self, quota: Quota) -> Result<(), Error> {
        let fits = self.used.may_add(quota);
        self.refused += u64::from(fits.is_err());
        fits?;
        self.used.files += 1;
        Ok(())
    }

    /// A file of so many bytes, or a directory, is gone.
    pub fn take_away(&mut self, bytes: u64) {
        self.used.files = self.used.files.saturating_sub(1);
        self.used.resize(bytes, 0);
    }

    pub fn may_grow(&mut self, quota: Quota, from: u64, to: u64) -> Result<(), Error> {
        let fits = self.used.may_grow(quota, from, to);
        self.refused += u64::from(fits == Err(Error::Limit));
        fits
    }

    pub fn resized(&mut self, from: u64, to: u64) {
        self.used.resize(from, to);
    }

    pub fn opened(&mut self, inode: u64) {
        self.open.entry(inode).or_default().handles += 1;
    }

    /// A name is gone; true if what it meant is open and so counts on.
    pub fn unlinked(&mut self, inode: u64) -> bool {
        match self.open.get_mut(&inode) {
            Some(open) => {
                open.nameless = true;
                true
            }
            None => false,
        }
    }

    /// A file of so many bytes is closed by one of those who have it open.
    pub fn closed(&mut self, inode: u64, size: u64) {
        let Some(open) = self.open.get_mut(&inode) else { return };
        open.handles -= 1;
        if open.handles == 0 {
            let nameless = open.nameless;
            self.open.remove(&inode);
            if nameless {
                self.take_away(size);
            }
        }
    }
}

/// Counts what is below a directory, as deep as paths reach; what nobody can name is not there for anybody.
pub(super) fn count(top: &Beneath) -> io::Result<Used> {
    let mut used = Used::default();
    count_below(top, &mut used, DEPTH_MAX)?;
    Ok(used)
}

fn count_below(directory: &Beneath, used: &mut Used, depth: usize) -> io::Result<()> {
    for name in directory.names()? {
        let facts = directory.entry(&name)?;
        used.files = used.files.saturating_add(1);
        used.bytes = used.bytes.saturating_add(facts.size);
        if facts.kind == Kind::Directory && depth > 1 {
            count_below(&directory.directory(&name)?, used, depth - 1)?;
        }
    }
    Ok(())
}
