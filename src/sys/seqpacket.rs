//! Unix sockets of the sequenced-packet kind: a connection that keeps message boundaries.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recv, send, socket_with,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// One end of a connection, or a socket that accepts them.
pub struct SeqPacket {
    fd: OwnedFd,
}

impl SeqPacket {
    /// A socket that accepts connections at `path`.
    pub fn listen(path: &Path) -> io::Result<SeqPacket> {
        let fd = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        bind(&fd, &SocketAddrUnix::new(path)?)?;
        listen(&fd, BACKLOG)?;
        Ok(SeqPacket { fd })
    }

    /// Connects to the socket at `path`; receiving waits.
    pub fn connect(path: &Path) -> io::Result<SeqPacket> {
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(SeqPacket { fd })
    }

    /// The next connection, if one waits.
    pub fn accept(&self) -> io::Result<SeqPacket> {
        Ok(SeqPacket { fd: accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)? })
    }

    /// Receives one message; 0 octets when the other end is gone.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.fd, buffer, RecvFlags::empty())?.0)
    }

    /// Receives one message, or nothing if none comes within the time.
    pub fn receive_within(&self, buffer: &mut [u8], time: std::time::Duration) -> io::Result<Option<usize>> {
        use rustix::event::{PollFd, PollFlags, poll};
        let timeout =
            rustix::time::Timespec { tv_sec: time.as_secs().min(86_400) as i64, tv_nsec: time.subsec_nanos() as _ };
        let mut waiting = [PollFd::new(&self.fd, PollFlags::IN)];
        match poll(&mut waiting, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(None),
            Ok(_) => self.receive(buffer).map(Some),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends one message whole.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        send(&self.fd, message, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl AsFd for SeqPacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
