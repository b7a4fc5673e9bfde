//! UDP sockets of overlay ports.

use super::mmsg::{RawAddr, deepen};
use super::option::set_option;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of datagrams that the kernel may keep for a socket.
const BUFFER: usize = 8 << 20;

/// A socket that listens; what of it needs a privilege is room, and a port below 1024.
/// `shared`: others of this user may listen there too, and each has the datagrams of some senders.
pub fn bind(listen: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_only_v6(false)?;
    socket.set_nonblocking(true)?;
    if shared {
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, &1)?;
    }
    // Without the right to more the system's limit applies; what it grants is enough for shorter bursts.
    let deep = deepen(socket.as_fd(), BUFFER as u32);
    let _ = deep.or_else(|_| socket.set_recv_buffer_size(BUFFER));
    let _ = socket.set_send_buffer_size(BUFFER);
    let at = RawAddr::new(listen).mapped();
    socket.bind(&at.into())?;
    Ok(socket.into())
}
