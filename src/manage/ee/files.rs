//! The file calls of a process, carried out by its session's thread, since a disk may be slow.
//!
//! A session keeps the files that it has opened, so no process reaches another's. Rights in name spaces are judged by
//! [`super::super::files`].

use crate::manage::files::Files;
use crate::nodeos::file::{Access, FileId, FileKind, FileSpec, FileStat, OpenFlags, Quota};
use crate::nodeos::interface::{DomainId, Error};
use libanode::message::{Answer, Call, Contents, FILE_BYTES_MAX};
use std::collections::HashMap;
use std::sync::Arc;

/// What a session has open.
pub struct Opened {
    files: Option<Arc<Files>>,
    quota: Quota,
    open: HashMap<u32, DomainId>,
    users: Vec<DomainId>,
}

/// The domain in whose name a call opens or unlinks: the session has to see to it that it is its own.
pub fn in_name_of(call: &Call) -> Option<DomainId> {
    match call {
        Call::FileOpen { domain, .. }
        | Call::FileUnlink { domain, .. }
        | Call::FileStatPath { domain, .. }
        | Call::FileMakeDirectory { domain, .. }
        | Call::FileRename { domain, .. }
        | Call::FileNext { domain, .. }
        | Call::FileShare { domain, .. } => Some(DomainId(*domain)),
        _ => None,
    }
}

/// Whether a call is about files.
pub fn is_about_files(call: &Call) -> bool {
    let of_open = matches!(
        call,
        Call::FileRead { .. }
            | Call::FileWrite { .. }
            | Call::FileClose { .. }
            | Call::FileTruncate { .. }
            | Call::FileSync { .. }
            | Call::FileStat { .. }
    );
    of_open || in_name_of(call).is_some()
}

impl Opened {
    /// Nothing is open.
    pub fn new(files: Option<Arc<Files>>, quota: Quota) -> Opened {
        Opened { files, quota, open: HashMap::new(), users: Vec::new() }
    }

    /// Lets the session's first domain use the name space of a holder, if it can be one.
    pub fn enter(&mut self, domain: DomainId, holder: &str) {
        if let Some(files) = &self.files
            && files.enter(domain, holder, self.quota).is_ok()
        {
            self.users.push(domain);
        }
    }

    /// Lets a domain that was created use what the one above it uses.
    pub fn inherit(&mut self, domain: DomainId, above: DomainId) {
        if let Some(files) = &self.files
            && files.inherit(domain, above, self.quota).is_ok()
        {
            self.users.push(domain);
        }
    }

    /// Carries a call out.
    pub fn execute(&mut self, call: &Call) -> Result<Answer, Error> {
        let files = self.files.clone().ok_or(Error::Unsupported)?;
        match call {
            Call::FileOpen { domain, space, path, flags } => {
                let spec = FileSpec { space: space.clone(), path: path.clone(), flags: OpenFlags(*flags) };
                let file = files.open(DomainId(*domain), &spec)?;
                self.open.insert(file.0, DomainId(*domain));
                Ok(Answer::Object { name: file.0 })
            }
            Call::FileRead { file, offset, length } => {
                let domain = self.owner(*file)?;
                let mut bytes = vec![0; (*length as usize).min(FILE_BYTES_MAX)];
                let read = files.read(domain, FileId(*file), *offset, &mut bytes)?;
                bytes.truncate(read);
                Ok(Answer::Read { contents: Contents(bytes) })
            }
            Call::FileWrite { file, offset, contents } => {
                let written = files.write(self.owner(*file)?, FileId(*file), *offset, &contents.0)?;
                Ok(Answer::Written { bytes: written as u32 })
            }
            Call::FileClose { file } => {
                let domain = self.owner(*file)?;
                self.open.remove(file);
                files.close(domain, FileId(*file)).map(|()| Answer::Done {})
            }
            Call::FileTruncate { file, size } => {
                files.truncate(self.owner(*file)?, FileId(*file), *size).map(|()| Answer::Done {})
            }
            Call::FileSync { file } => files.sync(self.owner(*file)?, FileId(*file)).map(|()| Answer::Done {}),
            Call::FileStat { file } => {
                files.stat(self.owner(*file)?, FileId(*file)).map(|stat| found(String::new(), &stat))
            }
            call => of_path(&files, call),
        }
    }

    fn owner(&self, file: u32) -> Result<DomainId, Error> {
        self.open.get(&file).copied().ok_or(Error::Stale)
    }
}

/// Carries out a call about a path.
fn of_path(files: &Files, call: &Call) -> Result<Answer, Error> {
    let done = |()| Answer::Done {};
    match call {
        Call::FileUnlink { domain, space, path } => files.unlink(DomainId(*domain), space.as_deref(), path).map(done),
        Call::FileStatPath { domain, space, path } => {
            files.stat_path(DomainId(*domain), space.as_deref(), path).map(|stat| found(String::new(), &stat))
        }
        Call::FileMakeDirectory { domain, space, path } => {
            files.make_directory(DomainId(*domain), space.as_deref(), path).map(done)
        }
        Call::FileRename { domain, space, from, to } => {
            files.rename(DomainId(*domain), space.as_deref(), from, to).map(done)
        }
        Call::FileNext { domain, space, path, after } => {
            let list = files.list(DomainId(*domain), space.as_deref(), path.as_deref(), after)?;
            let first = list.into_iter().next().ok_or(Error::Unknown)?;
            Ok(found(first.name, &first.stat))
        }
        Call::FileShare { domain, with, access } => {
            let access = [Access::None, Access::Read, Access::Write].get(usize::from(*access)).ok_or(Error::Invalid)?;
            files.share(DomainId(*domain), with, *access).map(done)
        }
        _ => Err(Error::Invalid),
    }
}

fn found(name: String, stat: &FileStat) -> Answer {
    let directory = stat.kind == FileKind::Directory;
    Answer::Found { name, size: stat.size, modified_ns: stat.modified_ns, directory }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(files) = &self.files {
            for domain in &self.users {
                files.leave(*domain);
            }
        }
    }
}
