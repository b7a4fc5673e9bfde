//! The file calls of a session: they run in its own thread, and the worker is only asked whose domain it is.

use super::calls::coded;
use crate::manage::control::Handle;
use crate::manage::files::Files;
use crate::nodeos::file::{FileId, FileSpec, OpenFlags, Quota};
use crate::nodeos::interface::{DomainId, Error};
use libanode::message::{Answer, Call, Contents, FILE_BYTES_MAX};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// What a session has of files.
pub struct SessionFiles {
    handle: Handle,
    domain: DomainId,
    /// Whose each file is that it has opened.
    open: RefCell<HashMap<FileId, DomainId>>,
    /// Domains below its own that have used files.
    users: RefCell<HashSet<DomainId>>,
}

impl SessionFiles {
    /// Those of a session with this domain.
    pub fn new(handle: Handle, domain: DomainId) -> SessionFiles {
        SessionFiles { handle, domain, open: RefCell::default(), users: RefCell::default() }
    }

    /// Carries a call out, if it is about files.
    pub fn answer(&self, call: &Call) -> Option<Answer> {
        let done = match call {
            Call::FileOpen { domain, path, write, create } => self.open(DomainId(*domain), path, (*write, *create)),
            Call::FileRead { file, offset, length } => self.with(*file, |files, domain, file| {
                let mut contents = vec![0; (*length as usize).min(FILE_BYTES_MAX)];
                let length = files.read(domain, file, *offset, &mut contents)?;
                contents.truncate(length);
                Ok(Answer::Read { contents: Contents(contents) })
            }),
            Call::FileWrite { file, offset, contents } => self.with(*file, |files, domain, file| {
                let bytes = files.write(domain, file, *offset, &contents.0)?;
                Ok(Answer::Written { bytes: bytes as u32 })
            }),
            Call::FileClose { file } => self.with(*file, |files, domain, file| {
                self.open.borrow_mut().remove(&file);
                files.close(domain, file).map(|()| Answer::Done {})
            }),
            Call::FileUnlink { domain, path } => self
                .use_as(DomainId(*domain))
                .and_then(|files| files.unlink(DomainId(*domain), None, path).map(|()| Answer::Done {})),
            _ => return None,
        };
        Some(done.unwrap_or_else(|error| Answer::Refused { error: coded(error) }))
    }

    /// Closes all that the session has open.
    pub fn close(&self) {
        let Some(files) = self.handle.files() else { return };
        for (file, domain) in self.open.borrow_mut().drain() {
            // Its domain may have ended, and the file with it.
            let _ = files.close(domain, file);
        }
        for domain in self.users.borrow_mut().drain() {
            files.leave(domain);
        }
    }

    /// The files, for a domain of the session, which begins to use them if it has not.
    fn use_as(&self, domain: DomainId) -> Result<&Files, Error> {
        let files = self.handle.files().ok_or(Error::Unsupported)?;
        let top = self.domain;
        let granted = self.handle.with_node(move |node, _| node.granted_within(domain, top));
        let quota = Quota::from(&granted.unwrap_or(Err(Error::Ended))?);
        if domain != top && !files.is_user(domain) {
            files.inherit(domain, top, quota)?;
            self.users.borrow_mut().insert(domain);
        }
        if files.is_user(domain) { Ok(files) } else { Err(Error::Denied) }
    }

    fn open(&self, domain: DomainId, path: &str, (write, create): (bool, bool)) -> Result<Answer, Error> {
        let files = self.use_as(domain)?;
        let flag = |given: bool, flag: OpenFlags| if given { flag } else { OpenFlags::default() };
        let flags = OpenFlags::READ.and(flag(write, OpenFlags::WRITE)).and(flag(create, OpenFlags::CREATE));
        let file = files.open(domain, &FileSpec { space: None, path: path.into(), flags })?;
        self.open.borrow_mut().insert(file, domain);
        Ok(Answer::Object { name: file.0 })
    }

    /// Does something with a file that the session has opened.
    fn with(
        &self,
        file: u32,
        act: impl FnOnce(&Files, DomainId, FileId) -> Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        let files = self.handle.files().ok_or(Error::Unsupported)?;
        let file = FileId(file);
        let owner = self.open.borrow().get(&file).copied();
        act(files, owner.ok_or(Error::Stale)?, file)
    }
}
