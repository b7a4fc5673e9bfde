//! What a node that has ended leaves, whichever of its processes died how: taken away by `anode node down`.
//!
//! A node that ends in good order leaves its run directory alone. One that was killed leaves its kernel half, which works
//! on; if its broker was killed too, also sockets, drivers' settings and control groups.

use super::apart;
use super::message::{LocalSocket, OPERATOR_SOCKET};
use super::prepare::{self, LOCK, LOOK, PATIENCE};
use crate::kernel::{self, pins};
use crate::sys::{bpf, jail, own};
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Instant;

/// What there may be in a run directory when its sockets are gone.
const KNOWN: [&str; 7] = ["bpf", "configurations", LOCK, "settings", "settings.new", "rxvlan", "rxvlan.new"];

/// Takes away what a node with this run directory has left, once its last process has ended; the directory goes too unless there is
/// something else in it. Says what there was, for people. `stopped`: the node was there a moment ago.
pub fn clear(run_dir: &Path, stopped: bool) -> Result<Vec<&'static str>> {
    let Ok(directory) = own::directory(run_dir) else { return Ok(Vec::new()) };
    let lock = match own::open_in(&directory, LOCK) {
        Ok(lock) => Some(alone(lock, run_dir)?),
        // Whoever may not open it is not its user, and would see nothing else either.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Vec::new()),
        Err(_) => None,
    };
    let swept = kernel::sweep(run_dir).with_context(|| format!("what is left of {}", run_dir.display()))?;
    let mut sockets = false;
    for name in LocalSocket::ALL.map(LocalSocket::name).into_iter().chain([apart::SOCKET, OPERATOR_SOCKET]) {
        let path = run_dir.join(name);
        sockets |= path.symlink_metadata().is_ok();
        prepare::take_away(&path)?;
    }
    jail::remove_left();
    let some = swept.pins || swept.settings || sockets;
    let is_free = stopped || some || is_all_known(run_dir)?;
    let locked = lock.is_some() && is_free && !bpf::is_mounted(&pins::root_of(run_dir));
    if locked {
        // Whoever waits for the lock finds that it is gone, and makes another one.
        forget(&run_dir.join(LOCK))?;
        // Something else may be in it.
        let _ = fs::remove_dir(run_dir);
    }
    let all = [
        (swept.pins, "kernel half"),
        (swept.settings, "settings of interfaces"),
        (sockets, "sockets"),
        (locked, "lock"),
    ];
    Ok(all.into_iter().filter_map(|(is, what)| is.then_some(what)).collect())
}

/// The lock of a run directory that nobody else has.
fn alone(lock: File, run_dir: &Path) -> Result<File> {
    let begin = Instant::now();
    while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        if begin.elapsed() > PATIENCE {
            bail!("a process of the node with {} does not come to its end", run_dir.display());
        }
        std::thread::sleep(LOOK);
    }
    Ok(lock)
}

/// Whether there is nothing in a directory but what is a node's.
fn is_all_known(run_dir: &Path) -> Result<bool> {
    let names = fs::read_dir(run_dir).with_context(|| run_dir.display().to_string())?.flatten();
    let mut strange = names.filter(|entry| !KNOWN.iter().any(|known| entry.file_name() == *known));
    Ok(strange.next().is_none())
}

fn forget(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).with_context(|| path.display().to_string()),
        _ => Ok(()),
    }
}
