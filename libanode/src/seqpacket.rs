//! Unix sockets of the sequenced-packet kind: a connection that keeps message boundaries.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recv, recvmsg, send,
    sendmsg, socket_with, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// Descriptors that go with one message, at most.
pub const DESCRIPTORS: usize = 32;

/// A descriptor of its own for the file behind a number; an error if there is none.
pub fn duplicate(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: fcntl(2) with F_DUPFD_CLOEXEC touches no memory, and gives a new descriptor, which nobody else has, or -1.
    match unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: as above.
        new => Ok(unsafe { OwnedFd::from_raw_fd(new) }),
    }
}

/// Receives what comes behind a reset. An end that closes while it has messages to read has the other one told ECONNRESET, once and
/// before all that it has sent: those messages are still there. Where there are none the reset is what has come.
fn behind_reset<T>(
    mut receive: impl FnMut() -> rustix::io::Result<T>,
    is_end: impl Fn(&T) -> bool,
) -> rustix::io::Result<T> {
    let reset = rustix::io::Errno::CONNRESET;
    match receive() {
        Err(error) if error == reset => receive().and_then(|came| if is_end(&came) { Err(reset) } else { Ok(came) }),
        received => received,
    }
}

/// One end of a connection, or a socket that accepts them.
#[derive(Debug)]
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

    /// Two ends of a connection; the second is for another process.
    pub fn pair() -> io::Result<(SeqPacket, OwnedFd)> {
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((SeqPacket { fd: own }, other))
    }

    /// The connection behind a descriptor of one of its ends.
    pub fn of(fd: OwnedFd) -> SeqPacket {
        SeqPacket { fd }
    }

    /// The next connection, if one waits.
    pub fn accept(&self) -> io::Result<SeqPacket> {
        Ok(SeqPacket { fd: accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)? })
    }

    /// Receives one message; 0 bytes when the other end is gone.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(behind_reset(|| recv(&self.fd, &mut *buffer, RecvFlags::empty()), |came| came.0 == 0)?.0)
    }

    /// Receives one message, or nothing if none comes within the time.
    pub fn receive_within(&self, buffer: &mut [u8], time: std::time::Duration) -> io::Result<Option<usize>> {
        if self.wait(time)? { self.receive(buffer).map(Some) } else { Ok(None) }
    }

    /// Ends the connection in both directions: whoever waits for a message is told.
    pub fn shutdown(&self) {
        // One that is broken is shut down already.
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both);
    }

    /// Sends one message whole.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        send(&self.fd, message, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl SeqPacket {
    /// Sends one message whole, with descriptors for the other end.
    pub fn send_with(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other(format!(
                "{} descriptors in a message, {DESCRIPTORS} at most",
                descriptors.len()
            )));
        }
        sendmsg(&self.fd, &[IoSlice::new(message)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives one message with the descriptors that came with it; 0 bytes when the other end is gone.
    pub fn receive_with(&self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        receive_by(&self.fd, buffer, RecvFlags::CMSG_CLOEXEC)
    }

    /// Waits until a message is there or the other end is gone; false if neither happens in this time.
    pub fn wait(&self, time: std::time::Duration) -> io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let began = std::time::Instant::now();
        loop {
            let left = time.saturating_sub(began.elapsed());
            let timeout = Timespec { tv_sec: left.as_secs().min(86_400) as i64, tv_nsec: left.subsec_nanos() as _ };
            match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                // A signal says nothing of the time.
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Receives one message of a connection that is there now, with the descriptors that came with it; 0 bytes when the other end is gone.
pub fn receive_now(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    receive_by(fd, buffer, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)
}

fn receive_by(fd: &OwnedFd, buffer: &mut [u8], flags: RecvFlags) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let receive = || recvmsg(fd, &mut [IoSliceMut::new(&mut *buffer)], &mut ancillary, flags);
    let came = behind_reset(receive, |came| came.bytes == 0)?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(list) = message {
            descriptors.extend(list);
        }
    }
    Ok((came.bytes, descriptors))
}

impl AsFd for SeqPacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_an_end_closed_comes_though_that_one_has_left_messages_unread() {
        let receive = |own: &SeqPacket| {
            let mut buffer = [0; 8];
            own.receive(&mut buffer).map(|length| buffer[..length].to_vec())
        };
        let receive_with = |own: &SeqPacket| {
            let mut buffer = [0; 8];
            own.receive_with(&mut buffer).map(|(length, _)| buffer[..length].to_vec())
        };
        for receive in [&receive as &dyn Fn(&SeqPacket) -> io::Result<Vec<u8>>, &receive_with] {
            let (own, other) = SeqPacket::pair().unwrap();
            let other = SeqPacket::of(other);
            own.send(b"unread").unwrap();
            other.send(b"one").unwrap();
            other.send(b"two").unwrap();
            drop(other);
            assert_eq!([receive(&own).unwrap(), receive(&own).unwrap()], [b"one", b"two"]);
            assert_eq!(receive(&own).unwrap(), b"");
            let (own, other) = SeqPacket::pair().unwrap();
            own.send(b"unread").unwrap();
            drop(other);
            assert_eq!(receive(&own).unwrap_err().kind(), io::ErrorKind::ConnectionReset, "it has sent nothing");
        }
    }
}
