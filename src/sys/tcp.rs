//! TCP sockets on their way to the other end.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect as begin, socket_with};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A socket that is being connected, or is already: nobody waits for that here.
pub fn connect(at: SocketAddr) -> io::Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    match begin(&socket, &at) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}
