//! Errors of a store, each with its cause.

use super::bounds::OBJECT_MAX;
use crate::wire::Digest;
use core::fmt;
use std::io;
use std::path::PathBuf;

/// Why an operation of a store failed.
#[derive(Debug)]
pub enum Error {
    /// An object is longer than a representation may be.
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// The directory cannot be opened, or a pin or removal cannot be written.
    Directory {
        /// Where.
        path: PathBuf,
        /// What the operating system says.
        cause: io::Error,
    },
    /// The object is in memory, but could not be written to disk.
    NotOnDisk {
        /// The object.
        digest: Digest,
        /// Where.
        path: PathBuf,
        /// What the operating system says.
        cause: io::Error,
    },
    /// The limits leave no room beside what is pinned.
    NoRoom {
        /// The object.
        digest: Digest,
        /// The store's directory; the object is then in memory. `None`: it is nowhere.
        path: Option<PathBuf>,
    },
}

impl Error {
    /// The object that is in memory although the disk refused it.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Error::NotOnDisk { digest, .. } | Error::NoRoom { digest, path: Some(_) } => Some(*digest),
            Error::TooLong { .. } | Error::Directory { .. } | Error::NoRoom { path: None, .. } => None,
        }
    }
}

impl Error {
    /// Whether the disk is full or takes nothing, so that only memory is left.
    pub fn is_of_full_disk(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        match self {
            Error::Directory { cause, .. } | Error::NotOnDisk { cause, .. } => {
                matches!(cause.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
            }
            Error::TooLong { .. } | Error::NoRoom { .. } => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TooLong { bytes } => {
                write!(f, "an object of {bytes} bytes, {} are allowed; make the program smaller", OBJECT_MAX)
            }
            Error::Directory { path, cause } => {
                write!(f, "store {}: {cause}; choose a writable directory with --store", path.display())
            }
            Error::NotOnDisk { digest, path, cause } => write!(
                f,
                "object {} is kept in memory only, {}: {cause}; make room on that file system or move the store",
                digest.short(),
                path.display()
            ),
            Error::NoRoom { digest, path } => {
                let (kept, place) = match path {
                    Some(path) => ("is kept in memory only", format!("the store {}", path.display())),
                    None => ("is not kept", "memory".into()),
                };
                let digest = digest.short();
                write!(
                    f,
                    "object {digest} {kept}, {place} has no room beside what is pinned; raise its limits or remove code with: anode code rm"
                )
            }
        }
    }
}

impl core::error::Error for Error {}
