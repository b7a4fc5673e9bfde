//! The listening sockets in a node's run directory: for the node's user only, from their first moment.

use super::client::ask_at;
use super::message::{LocalSocket, Request};
use crate::sys::privileges::Identity;
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chownat, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen as wait, socket_with};
use rustix::process::{getegid, geteuid};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// A socket that listens in the node's run directory.
pub fn listen(run_dir: &Path, socket: LocalSocket) -> io::Result<OwnedFd> {
    ask_at(run_dir, &Request::Listen { socket }, &[])?.descriptor()
}

/// The same, opened in this process, for this user.
pub(super) fn listen_here(run_dir: &Path, socket: LocalSocket, user: Option<Identity>) -> io::Result<OwnedFd> {
    let path = run_dir.join(socket.name());
    listen_at(&path, socket, user).map_err(|error| {
        let why = format!("cannot listen at {}: {error}", path.display());
        io::Error::new(error.kind(), why)
    })
}

/// The socket of a helper, at which the node of this user asks for its broker.
pub(super) fn listen_for(path: &Path, user: Identity) -> io::Result<OwnedFd> {
    listen_with(path, (SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK), Some(user))
}

/// The socket at which operators give a node another configuration: its owner is whoever this process is.
pub(super) fn listen_for_operator(path: &Path) -> io::Result<OwnedFd> {
    listen_with(path, (SocketType::STREAM, SocketFlags::CLOEXEC), None)
}

fn listen_at(path: &Path, socket: LocalSocket, user: Option<Identity>) -> io::Result<OwnedFd> {
    let way = match socket {
        LocalSocket::Control => (SocketType::STREAM, SocketFlags::CLOEXEC),
        LocalSocket::Apps | LocalSocket::Nodeos => {
            (SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        }
    };
    listen_with(path, way, user)
}

fn listen_with(path: &Path, (kind, flags): (SocketType, SocketFlags), user: Option<Identity>) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    // The name gets this mode when it is made.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let of_user = user.map(|Identity { uid, gid }| (Uid::from_raw(uid), Gid::from_raw(gid)));
    let (uid, gid) = of_user.unwrap_or_else(|| (geteuid(), getegid()));
    let own = || chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW);
    own()?;
    wait(&socket, BACKLOG)?;
    // Nothing changes, but whoever watches the directory (inotify(7)) is told now, when it can connect.
    own()?;
    Ok(socket)
}
