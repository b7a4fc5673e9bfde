//! The files of a node before it gives its privileges away: run directory and store, with their owners.
//!
//! The run directory stays root's, so the node can change nothing there on which the broker relies. Store and files of
//! domains become the node user's. A directory above them may be closed to that user: so they are opened before, and
//! reached by their descriptors from then on ([`reach`]).

use super::alone;
use super::captures;
use super::message::{LocalSocket, OPERATOR_SOCKET};
use crate::config::NodeFile;
use crate::config::security::{USERS, User, is_root};
use crate::sys::jail::{self, Place};
use crate::sys::own;
use crate::sys::owners::{self, Untrusted};
use crate::sys::privileges::{self, Identity};
use crate::sys::process;
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// For how long another node may keep what this one waits for, its run directory or a store, and between two looks.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// For how long what belongs to a node that was killed may look as if it lived.
pub(super) const DYING: Duration = Duration::from_secs(1);

/// What is locked in a run directory as long as it is a node's.
pub(super) const LOCK: &str = "lock";

/// What there is in stores and directories of files.
const KEPT: [&str; 12] = [
    "objects",
    "new",
    "pins",
    "lock",
    "revoked",
    "revoked.new",
    "codes",
    "codes.new",
    "spaces",
    "records",
    "fall",
    "fall.before",
];

/// Directories that are reached by descriptors.
static REACHED: OnceLock<Vec<Reached>> = OnceLock::new();

/// What is ready.
pub struct Ready {
    /// The run directory.
    pub run_dir: PathBuf,
    /// Who the node becomes; nothing: it stays who it is.
    pub user: Option<Chosen>,
    /// Held as long as somebody uses the run directory.
    pub lock: Vec<File>,
    /// The one by which interfaces are held, once more; a node without privileges has none.
    pub interfaces: Option<File>,
    /// Directories that the node reaches when it is somebody else.
    pub paths: Vec<Reached>,
}

/// A directory or a file that the node reaches.
pub struct Reached {
    path: PathBuf,
    at: OwnedFd,
    writes: bool,
}

impl Reached {
    /// One that somebody else has opened.
    pub(super) fn of(path: PathBuf, at: OwnedFd, writes: bool) -> Reached {
        Reached { path, at, writes }
    }

    /// What it is, where, and whether it is written to.
    pub(super) fn parts(&self) -> (BorrowedFd<'_>, &Path, bool) {
        (self.at.as_fd(), &self.path, self.writes)
    }
}

/// Who a node would become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Becomes {
    /// What the user is called, for people.
    pub name: String,
    /// Whether nothing belongs to it but what is the node's; else somebody has made it, maybe for more.
    pub own: bool,
}

/// A user for the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its numbers.
    pub identity: Identity,
    /// What it is called, for people.
    pub name: String,
}

/// Refuses what a start would refuse, and changes nothing.
pub fn check(file: &NodeFile) -> Result<()> {
    check_writable(file)?;
    let run_dir = file.run_dir();
    check_way(&run_dir)?;
    if run_dir.exists() {
        check_run_dir(&run_dir)?;
    }
    captures::of(file).try_for_each(|path| captures::check(path, file))?;
    file.store.iter().chain(&file.files).try_for_each(|path| check_kept(path, file))?;
    alone::check(file)
}

/// Refuses directories that whoever starts the node may not write to, or not make. A disk that takes nothing is another
/// matter: the node works without.
fn check_writable(file: &NodeFile) -> Result<()> {
    let kept = [("store", &file.store), ("files", &file.files)];
    let kept = kept.into_iter().filter_map(|(key, path)| Some((key, path.clone()?)));
    for (key, path) in kept.chain([("run_dir", file.run_dir())]) {
        if let Some(step) = owners::unwritable(&path) {
            bail!(
                "{} cannot be written by user {}{}; set {key} in the configuration to a directory that can",
                path.display(),
                rustix::process::geteuid().as_raw(),
                if step == path { String::new() } else { format!(", who may make nothing in {}", step.display()) }
            );
        }
    }
    Ok(())
}

/// Who the node of a configuration becomes that is started by whoever asks this, for people; nothing: it stays who it is.
pub fn user_of(file: &NodeFile) -> Result<Option<Becomes>> {
    if !process::is_root() {
        return Ok(None);
    }
    let own = || Becomes { name: format!("of its own, from {} to {}", USERS.0, USERS.1), own: true };
    let made = chosen(file)?.map(|user| Becomes { name: user.name, own: false });
    Ok(made.or_else(|| Some(own())))
}

/// Makes everything ready for a node.
pub fn prepare(file: &NodeFile) -> Result<Ready> {
    check_writable(file)?;
    let run_dir = file.run_dir();
    let mut lock = vec![claim(&run_dir)?];
    captures::of(file).try_for_each(|path| captures::check(path, file))?;
    let kept: Vec<&Path> = file.store.iter().chain(&file.files).map(PathBuf::as_path).collect();
    for path in &kept {
        check_kept(path, file)?;
    }
    let places = make_all(&kept)?;
    let (mut user, mut alone, mut interfaces) = (None, None, None);
    if process::is_root() {
        let held = alone::hold(file)?;
        interfaces = Some(held.try_clone()?);
        lock.push(held);
        alone = Some(alone_with(&places)?);
        let (chosen, taken) = choose(file, &run_dir, &places)?;
        user = Some(chosen);
        lock.extend(taken);
    }
    let paths = open_all(file, &kept, user.as_ref().map(|user| user.identity))?;
    drop(alone);
    Ok(Ready { run_dir, user, lock, interfaces, paths })
}

/// By which others know where files are kept.
fn place_of(facts: &fs::Metadata) -> Place {
    (facts.dev(), facts.ino())
}

/// Makes what a node keeps files in.
fn make_all(kept: &[&Path]) -> Result<Vec<Place>> {
    let make = |path: &&Path| {
        let cannot = || format!("cannot make {}", path.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).with_context(cannot)?;
        fs::symlink_metadata(path).map(|facts| place_of(&facts)).with_context(cannot)
    };
    let mut places = kept.iter().map(make).collect::<Result<Vec<_>>>()?;
    places.sort_unstable();
    Ok(places)
}

/// Has these places alone for as long as the result lives, by a file that root alone can open: nodes that share one and
/// start together agree on its user.
fn alone_with(places: &[Place]) -> Result<File> {
    let begin = Instant::now();
    loop {
        match jail::hold_places(places).context("where files are kept cannot be locked")? {
            Some(held) => return Ok(held),
            None if begin.elapsed() > PATIENCE => {
                bail!("another node that keeps files in the same place does not come to an end of its start")
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Who a node becomes that is root and keeps files in these places.
fn choose(file: &NodeFile, run_dir: &Path, places: &[Place]) -> Result<(Chosen, Option<File>)> {
    if let Some(user) = chosen(file)? {
        return Ok((user, None));
    }
    let own = |uid: u32| Chosen { identity: Identity { uid, gid: uid }, name: format!("{uid}, of its own") };
    // Nodes that share a store share its user; one that another node has, which keeps nothing here, is given up.
    if let Some(uid) = user_of_kept(file)
        && let Some(taken) = jail::share_user(uid, places)?
    {
        return Ok((own(uid), Some(taken)));
    }
    let (uid, taken) = take_user(run_dir, places)?;
    Ok((own(uid), Some(taken)))
}

/// The user that somebody has made for the node; nothing: it gets one of its own.
fn chosen(file: &NodeFile) -> Result<Option<Chosen>> {
    let named = |name: &str| -> Result<Option<Chosen>> {
        let found = privileges::user(name).context("/etc/passwd cannot be read")?;
        match found {
            Some(Identity { uid: 0, .. }) => bail!("{}", is_root(&format!("\"{name}\""))),
            Some(Identity { uid, .. }) => file.check_user(uid).map_err(anyhow::Error::msg)?,
            None => {}
        }
        Ok(found.map(|identity| Chosen { identity, name: format!("{name} ({})", identity.uid) }))
    };
    match &file.security.user {
        Some(User::Number(uid)) => {
            Ok(Some(Chosen { identity: Identity { uid: *uid, gid: *uid }, name: uid.to_string() }))
        }
        Some(User::Name(name)) => match named(name)? {
            None => {
                bail!("[security] user = \"{name}\": there is no such user; make one with: useradd --system {name}")
            }
            user => Ok(user),
        },
        None => named("anode"),
    }
}

/// A user that no other living node has, the same as the last time if that is so.
fn take_user(run_dir: &Path, places: &[Place]) -> Result<(u32, File)> {
    let (first, last) = USERS;
    let mixed =
        run_dir.as_os_str().as_encoded_bytes().iter().fold(7u32, |sum, byte| sum.wrapping_mul(31) ^ u32::from(*byte));
    let wanted = first + mixed % (last - first + 1);
    let taken = jail::take_user(wanted, wanted, places).or_else(|_| jail::take_user(first, last, places));
    taken.context("no user is free for the node; name one with [security] user")
}

/// Makes a run directory, in which nobody else can change something.
pub(super) fn make_run_dir(dir: &Path) -> Result<()> {
    let cannot = || format!("cannot make {}; set run_dir in the configuration", dir.display());
    check_way(dir)?;
    if let Some(above) = dir.parent() {
        // Whoever may connect to a socket in one of these gets there through it.
        fs::DirBuilder::new().recursive(true).mode(0o755).create(above).with_context(cannot)?;
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(cannot)?;
    check_run_dir(dir)
}

/// Makes the run directory ours: sockets of a node that died are taken away, those of a living one are not.
fn claim(dir: &Path) -> Result<File> {
    let begin = Instant::now();
    let lock = loop {
        make_run_dir(dir)?;
        // Others may look into the directory, so they could lock it; the file is for its owner alone.
        let lock = own::directory(dir).and_then(|at| own::lock_in(at, LOCK, None));
        let lock = lock.with_context(|| format!("{} cannot be opened", dir.join(LOCK).display()))?;
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            // Processes of a node that was killed have its sockets and its lock a moment longer.
            let lives = UnixStream::connect(dir.join(LocalSocket::Control.name())).is_ok();
            if begin.elapsed() > if lives { DYING } else { PATIENCE } {
                bail!("a node is running with {}; stop it with: anode node down {0}", dir.display());
            }
            std::thread::sleep(LOOK);
        }
        // Whoever had it before may have taken it away with all else that was left.
        if lock.metadata()?.nlink() > 0 {
            break lock;
        }
    };
    for socket in LocalSocket::ALL.map(LocalSocket::name).into_iter().chain([OPERATOR_SOCKET]) {
        take_away(&dir.join(socket))?;
    }
    Ok(lock)
}

/// Whether a node or its helper lives that has this run directory.
pub(super) fn is_claimed(dir: &Path) -> bool {
    let lock = own::directory(dir).and_then(|at| own::open_in(at, LOCK));
    // Not for long: whoever starts meanwhile tries again.
    lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
}

/// Refuses a run directory in which somebody else can change something.
pub fn check_run_dir(dir: &Path) -> Result<()> {
    check_way(dir)?;
    let shown = dir.display();
    let facts = fs::symlink_metadata(dir).with_context(|| format!("{shown} cannot be looked at"))?;
    if !facts.is_dir() {
        bail!("{shown} is no directory; set run_dir in the configuration to one");
    }
    let own = rustix::process::geteuid().as_raw();
    if facts.uid() != own {
        bail!(
            "{shown} belongs to user {}, who could take the node's sockets away; chown it to user {own}, or set another run_dir",
            facts.uid()
        );
    }
    if facts.mode() & 0o022 != 0 {
        bail!(
            "others can write to {shown} (mode {:o}) and take the node's sockets away; chmod go-w {shown}",
            facts.mode() & 0o7777
        );
    }
    Ok(())
}

/// Refuses a way to a directory on which somebody else could put another in its place.
pub(super) fn check_way(path: &Path) -> Result<()> {
    let shown = path.display();
    let found = owners::check_way(path).with_context(|| format!("{shown} cannot be looked at"))?;
    match found {
        Ok(()) => Ok(()),
        Err(Untrusted { step, owner: Some(owner) }) => bail!(
            "{} belongs to user {owner}, who could put something else in the place of {shown}; name another directory",
            step.display()
        ),
        Err(Untrusted { step, owner: None }) => bail!(
            "others can write to {0} and put something else in the place of {shown}; chmod go-w {0}, or name another directory",
            step.display()
        ),
    }
}

/// Takes a socket away that a node has left, if it is as a node leaves it.
pub(super) fn take_away(path: &Path) -> Result<()> {
    let shown = path.display();
    let Ok(facts) = fs::symlink_metadata(path) else { return Ok(()) };
    if !facts.file_type().is_socket() {
        bail!("{shown} is no socket; no node has made it: remove it");
    }
    if facts.mode() & 0o077 != 0 {
        bail!("{shown} has mode {:o}: somebody has opened it to others; remove it", facts.mode() & 0o777);
    }
    fs::remove_file(path).with_context(|| format!("cannot replace {shown}"))
}

/// Refuses a store, or a directory of files, to which others can write, or which is something else.
fn check_kept(path: &Path, file: &NodeFile) -> Result<()> {
    check_way(path)?;
    let shown = path.display();
    let Ok(facts) = fs::symlink_metadata(path) else { return Ok(()) };
    if !facts.is_dir() {
        bail!("{shown} is no directory (and a link to one could be turned elsewhere); name the directory itself");
    }
    if facts.mode() & 0o022 != 0 {
        bail!(
            "others can write to {shown} (mode {:o}), so anybody could change what the node keeps there; chmod go-w {shown}",
            facts.mode() & 0o7777
        );
    }
    let own = rustix::process::geteuid().as_raw();
    if process::is_root() && !is_expected(facts.uid(), file) && facts.uid() != own {
        bail!(
            "{shown} belongs to user {}, who could change what the node keeps there; chown it to user {own}",
            facts.uid()
        );
    }
    let names: Vec<_> = fs::read_dir(path).with_context(|| format!("{shown} cannot be read"))?.flatten().collect();
    let known = |entry: &fs::DirEntry| KEPT.iter().any(|known| entry.file_name() == *known);
    match names.first() {
        Some(other) if !names.iter().any(known) => {
            bail!("{shown} is something else (there is {:?}); name a directory of the node's own", other.file_name())
        }
        _ => Ok(()),
    }
}

/// Whether a user is one that nodes have, or that of this one.
pub(super) fn is_expected(uid: u32, file: &NodeFile) -> bool {
    let named = |name: &str| privileges::user(name).ok().flatten().is_some_and(|made| made.uid == uid);
    let own = match &file.security.user {
        Some(User::Number(number)) => *number == uid,
        Some(User::Name(name)) => named(name),
        None => false,
    };
    own || named("anode") || (USERS.0..=USERS.1).contains(&uid)
}

/// The user that a store belongs to already, if that is one of those that nodes have for themselves.
fn user_of_kept(file: &NodeFile) -> Option<u32> {
    let owner = |path: &PathBuf| fs::symlink_metadata(path).ok().map(|facts| facts.uid());
    file.store.iter().chain(&file.files).filter_map(owner).find(|uid| (USERS.0..=USERS.1).contains(uid))
}

/// Opens what the node reaches, and makes its user's what it writes to.
fn open_all(file: &NodeFile, kept: &[&Path], user: Option<Identity>) -> Result<Vec<Reached>> {
    let mut open = Vec::new();
    let reached = |path: &Path, writes: bool| -> Result<Reached> {
        let cannot = || format!("{} cannot be opened", path.display());
        let at = owners::open_path(path).with_context(cannot)?;
        Ok(Reached { path: path.to_owned(), at, writes })
    };
    for path in kept {
        if let Some(user) = user {
            owners::give(path, &KEPT, user)
                .with_context(|| format!("{} cannot be given to user {}", path.display(), user.uid))?;
        }
        open.push(reached(path, true)?);
    }
    for path in captures::of(file) {
        let at = captures::make(path, file, user)?;
        open.push(Reached { path: path.to_owned(), at, writes: true });
    }
    for environment in &file.environments {
        // A file that is not there is said when it is to be loaded.
        if let Some(above) = environment.library.first().and_then(|path| Path::new(path).parent()) {
            open.extend(reached(above, false).ok());
        }
    }
    let run_dir = file.run_dir();
    if user.is_some() {
        // Whoever may connect to a socket there must be able to get to it.
        fs::set_permissions(&run_dir, fs::Permissions::from_mode(0o755))?;
    }
    open.push(reached(&run_dir, false)?);
    Ok(open)
}

/// From now on these are reached by their descriptors; those to write to, and those to read, for whoever says what may be reached.
pub fn keep(paths: Vec<Reached>) -> Result<[Vec<OwnedFd>; 2]> {
    let copies = |writes: bool| {
        let some = paths.iter().filter(move |path| path.writes == writes);
        some.map(|path| path.at.try_clone()).collect::<std::io::Result<Vec<_>>>()
    };
    let copies = [copies(true)?, copies(false)?];
    REACHED.set(paths).map_err(|_| anyhow::anyhow!("this process has a broker"))?;
    Ok(copies)
}

/// The path by which a file of the configuration is reached in this process.
pub fn reach(path: &Path) -> PathBuf {
    let known = REACHED.get().map(Vec::as_slice).unwrap_or_default();
    let found = known.iter().filter_map(|known| Some((path.strip_prefix(&known.path).ok()?, &known.at)));
    match found.min_by_key(|(rest, _)| rest.as_os_str().len()) {
        Some((rest, fd)) => {
            let here = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
            match (rest.as_os_str().is_empty(), here.is_dir()) {
                // Not the link itself, where links are not followed.
                (true, true) => here.join("."),
                (true, false) => here,
                (false, _) => here.join(rest),
            }
        }
        None => path.to_owned(),
    }
}
