//! Records of labs between commands, and the lab of each namespace.
//!
//! A record is written before the lab's first namespace is made. So after a crash `up` and `down` know what may be half
//! there. If a record is lost, the names `an-LAB-NODE` and the alias of each namespace's loopback interface still tell.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::plan::marker;
use super::tools;
use crate::sys::netns::Namespace;
use crate::sys::own;
use crate::sys::process;

/// A lab as remembered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// The lab's name.
    pub(super) lab: String,
    /// The topology's file, absolute if it was there.
    pub(super) path: PathBuf,
    /// The topology's text.
    pub(super) topology: String,
    /// Every namespace that was made or is about to be.
    pub(super) namespaces: BTreeSet<String>,
    /// Whether the last `up` reached its end.
    pub(super) complete: bool,
}

/// `/run/anode/lab`, or below `$XDG_RUNTIME_DIR` without root.
fn directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !process::is_root() => PathBuf::from(runtime).join("anode/lab"),
        _ => PathBuf::from("/run/anode/lab"),
    }
}

fn file(lab: &str) -> PathBuf {
    directory().join(format!("{lab}.json"))
}

/// The error of what went wrong with a file.
pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::File { path: path.into(), source }
}

/// Keeps other `up` and `down` out until it is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Waits for the lock.
pub(super) fn lock() -> Result<Lock, Error> {
    let path = directory();
    fs::create_dir_all(&path).map_err(at(&path))?;
    // Everybody can open the directory, and lock it.
    let lock = own::directory(&path).and_then(|directory| own::lock_in(directory, "lock", None)).map_err(at(&path))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|errno| at(&path)(errno.into()))?;
    Ok(Lock { _file: lock })
}

/// The record of a lab, if there is one. One that cannot be understood counts as lost.
pub(super) fn read(lab: &str) -> Option<Record> {
    serde_json::from_slice(&fs::read(file(lab)).ok()?).ok()
}

/// The names of all labs with a record, sorted.
pub(super) fn labs() -> BTreeSet<String> {
    let entries = fs::read_dir(directory()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
}

/// Replaces the lab's record: the old one or the new one is there at any instant.
pub(super) fn write(record: &Record) -> Result<(), Error> {
    let path = file(&record.lab);
    let draft = path.with_extension("new");
    let text = serde_json::to_vec_pretty(record).map_err(|error| at(&path)(error.into()))?;
    File::create(&draft).and_then(|mut file| file.write_all(&text)).map_err(at(&draft))?;
    fs::rename(&draft, &path).map_err(at(&path))
}

/// Forgets the lab.
pub(super) fn remove(lab: &str) -> Result<(), Error> {
    let path = file(lab);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path)(error)),
        _ => Ok(()),
    }
}

/// Whose a name among the namespaces is.
#[derive(Debug)]
pub(super) enum Owner {
    /// There is no such name.
    Nobody,
    /// The lab made it.
    Lab(Namespace),
    /// The lab's, but only a name: the crash came before the namespace was mounted.
    Stub,
    /// Somebody else.
    Other,
}

/// Finds out whose the namespace is. `record` is the lab's, if any.
pub(super) fn owner(lab: &str, name: &str, record: Option<&Record>) -> Result<Owner, Error> {
    let announced = record.is_some_and(|record| record.namespaces.contains(name));
    let namespace = match Namespace::open(name) {
        Ok(Some(namespace)) => namespace,
        Ok(None) => return Ok(if announced { Owner::Stub } else { Owner::Other }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Owner::Nobody),
        Err(source) => return Err(Error::System { what: format!("opening namespace {name}"), source }),
    };
    let observed = tools::observe(&namespace)?;
    let alias = observed.links.get("lo").map_or("", |lo| lo.alias.as_str());
    // An announced namespace without a marker is ours if nobody has used it yet.
    let blank = alias.is_empty() && observed.links.values().all(|link| !link.enabled);
    if alias == marker(lab) || (announced && blank) {
        return Ok(Owner::Lab(namespace));
    }
    Ok(Owner::Other)
}
