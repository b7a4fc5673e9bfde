//! TCP sockets for others: one that listens, and one on its way to the other end. What the kernel holds of each is bounded.

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_reuseaddr, set_socket_send_buffer_size};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect as begin, listen as start_listening, socket_with,
};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Bytes that the kernel is asked to hold of one connection in each direction: it takes as many again for what is around them, and no
/// more however fast the link is. A stream over a way of 10 ms so has 12 MB a second.
pub const BUFFER_BYTES: usize = 128 << 10;

/// Connections that wait at a socket until somebody accepts them.
pub const BACKLOG: i32 = 128;

/// A socket with bounded buffers, as those have that it accepts.
fn socket(at: SocketAddr, flags: SocketFlags) -> io::Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | flags, None)?;
    // Before anything else: the window that is offered follows from it.
    set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
    set_socket_send_buffer_size(&socket, BUFFER_BYTES)?;
    Ok(socket)
}

/// A socket that listens.
pub fn listen(at: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket(at, SocketFlags::empty())?;
    // Connections of before may still be waiting for late segments.
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)?;
    start_listening(&socket, BACKLOG)?;
    Ok(socket)
}

/// A socket that is being connected, or is already: nobody waits for that here.
pub fn connect(at: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket(at, SocketFlags::NONBLOCK)?;
    match begin(&socket, &at) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::acceptfrom;
    use rustix::net::sockopt::{socket_recv_buffer_size, socket_send_buffer_size};
    use std::net::TcpListener;

    #[test]
    fn what_the_kernel_holds_of_either_end_is_bounded() {
        let listener = TcpListener::from(listen("127.0.0.1:0".parse().unwrap()).unwrap());
        let near = connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = acceptfrom(&listener).unwrap();
        for socket in [near, far] {
            let sizes = (socket_recv_buffer_size(&socket).unwrap(), socket_send_buffer_size(&socket).unwrap());
            assert_eq!(sizes, (2 * BUFFER_BYTES, 2 * BUFFER_BYTES));
        }
        assert_eq!(listen(listener.local_addr().unwrap()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
