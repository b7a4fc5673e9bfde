//! A broker that is a service of its own: a service manager starts it as root, and the node as the user that it is to be.
//!
//! ```text
//! anode node helper ── prepares ──▶ RUN_DIR/helper.sock, for the node's user alone ── a connection of that user's ──▶ broker
//! anode node run --helper ─────────────────────▲ gets: lanes, locks, and the directories of the configuration
//! ```
//!
//! The node has no privilege at any time, so its unit can be hardened as that of any program. One node is served, and the
//! socket goes as soon as it is there. What is sent is a head in JSON with the ends of the lanes and the locks, then a message for each
//! directory. Both processes read the configuration; the helper obeys its own.

use super::alone::Interfaces;
use super::message::WAYS;
use super::prepare::{self, Reached, Ready};
use super::{client, listen, sandbox, start};
use crate::config::NodeFile;
use crate::kernel::pins;
use crate::sys::bpf;
use crate::sys::jail;
use crate::sys::privileges;
use crate::sys::seqpacket::SeqPacket;
use anyhow::{Context, Result, bail, ensure};
use rustix::net::sockopt::socket_peercred;
use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The socket in a run directory at which a node asks for its broker.
pub const SOCKET: &str = "helper.sock";

/// For how long the other process may take for one message.
const PATIENCE: Duration = Duration::from_secs(10);

/// For how long the helper sleeps while nobody comes.
const LONG: Duration = Duration::from_secs(3600);

/// Bytes of the longest message: a path of Linux, or the head.
const MESSAGE_MAX: usize = 4096 + 1;

/// What comes first.
#[derive(Serialize, Deserialize)]
struct Head {
    /// Who the node is, for people.
    user: String,
    /// What its jails lack.
    jails_weaker: Vec<jail::Part>,
    /// Locks among the descriptors.
    locks: usize,
    /// Directories that follow.
    paths: usize,
}

/// Makes everything ready for the node of a configuration, calls `ready`, waits for the node, and is its broker to its end.
pub fn serve(file: &NodeFile, ready: impl FnOnce()) -> Result<()> {
    let jails_weaker = sandbox::expected(file)?.jails_weaker;
    let Ready { run_dir, user, lock, interfaces, paths } = prepare::prepare(file)?;
    let user = user.context("only root can be the helper of a node; without it: anode node run CONFIG")?;
    let place = run_dir.join(SOCKET);
    prepare::take_away(&place)?;
    let listener = SeqPacket::of(listen::listen_for(&place, user.identity)?);
    ready();
    let (node, process) = await_node(&listener, user.identity.uid)?;
    drop(listener);
    std::fs::remove_file(&place).with_context(|| place.display().to_string())?;
    let (own, others) = start::lanes()?;
    let head = Head { user: user.name, jails_weaker, locks: lock.len(), paths: paths.len() };
    let given: Vec<BorrowedFd<'_>> = own.iter().map(AsFd::as_fd).chain(lock.iter().map(AsFd::as_fd)).collect();
    node.send_with(&serde_json::to_vec(&head)?, &given).context("the node does not take its lanes")?;
    for path in &paths {
        let (at, name, writes) = path.parts();
        let message = [&[u8::from(writes)], name.as_os_str().as_bytes()].concat();
        node.send_with(&message, &[at]).context("the node does not take its directories")?;
    }
    drop((own, paths, node));
    let interfaces = Interfaces::of(file, interfaces)?;
    let lanes = start::lanes_of(file, run_dir, Some(user.identity), (process, interfaces))?;
    start::be_broker(others, lanes, lock)
}

/// The connection of the node, and its process. Nobody else than its user is answered.
fn await_node(listener: &SeqPacket, uid: u32) -> Result<(SeqPacket, i32)> {
    loop {
        if !listener.wait(LONG)? {
            continue;
        }
        let Ok(connection) = listener.accept() else { continue };
        let peer = socket_peercred(&connection)?;
        if peer.uid.as_raw() == uid {
            return Ok((connection, peer.pid.as_raw_nonzero().get()));
        }
        tracing::warn!(user = peer.uid.as_raw(), "somebody else than the node asks for its broker, and gets nothing");
    }
}

/// Makes the calling process, which must have one thread, the node whose helper listens there.
pub fn join(file: &NodeFile, socket: &Path) -> Result<()> {
    let there = || format!("no helper at {}; start it as root: anode node helper CONFIG", socket.display());
    let helper = SeqPacket::connect(socket).with_context(there)?;
    let peer = socket_peercred(&helper)?;
    ensure!(peer.uid.is_root(), "{} is not root's: user {} is no helper", socket.display(), peer.uid.as_raw());
    let (words, mut given) = next(&helper)?;
    let head: Head = serde_json::from_slice(&words).context("the helper is of another version")?;
    ensure!(given.len() == WAYS + head.locks, "the helper is of another version");
    let locks = given.split_off(WAYS).into_iter().map(File::from).collect();
    let lanes: Vec<_> = given.into_iter().map(SeqPacket::of).collect();
    let mut paths = Vec::new();
    for _ in 0..head.paths {
        let (words, given) = next(&helper)?;
        let ([writes, name @ ..], Ok([at])) = (&words[..], <[OwnedFd; 1]>::try_from(given)) else {
            bail!("the helper is of another version");
        };
        paths.push(Reached::of(PathBuf::from(std::ffi::OsStr::from_bytes(name)), at, *writes != 0));
    }
    client::set(lanes.try_into().map_err(|_| anyhow::anyhow!("a socket for each lane"))?, locks)?;
    privileges::become_user(None, CapabilitySet::empty()).context("the node cannot give its privileges away")?;
    let reached = prepare::keep(paths)?;
    sandbox::enter(file, &reached, Some(head.user), head.jails_weaker).context("the node cannot be confined")
}

/// The next message of the helper.
fn next(helper: &SeqPacket) -> Result<(Vec<u8>, Vec<OwnedFd>)> {
    ensure!(helper.wait(PATIENCE)?, "the helper does not answer");
    let mut message = vec![0; MESSAGE_MAX];
    let (length @ 1.., given) = helper.receive_with(&mut message)? else {
        bail!("the helper has ended, or serves another node; see its log");
    };
    message.truncate(length);
    Ok((message, given))
}

/// Mounts where a node keeps pins of its kernel half, if it has one, for all who share the mounts of the calling process. A helper that a
/// service manager has given mounts of its own cannot.
pub fn mount(file: &NodeFile) -> Result<()> {
    let run_dir = file.run_dir();
    let root = pins::root_of(&run_dir);
    if !file.has_half() || bpf::is_mounted(&root) {
        return Ok(());
    }
    prepare::make_run_dir(&run_dir)?;
    let cannot = || format!("no BPF file system can be mounted at {}", root.display());
    std::fs::create_dir_all(&root).and_then(|()| bpf::mount(&root)).with_context(cannot)
}
