//! Routes as the kernel tells of them: all at once, and each change.
//!
//! What is not told are routes that go with an interface or with an object of next hops: of such a change the whole is read again.

use super::dump::ANSWER;
use super::news::{
    DONE, ERROR, GET_ROUTE, HEADER, INET, INET6, INTERRUPTED, MAIN, REQUEST_ALL, RouteNews, messages, take_message,
};
use crate::sys::option::{option, set_option};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Multicast groups of changed routes (`RTNLGRP_*`): IPv4, IPv6, and objects of next hops, which an old kernel has not.
const GROUPS: [u32; 2] = [7, 11];
const NEXT_HOPS: u32 = 32;

/// Bytes of messages that wait for the node to read them, where it may have so many.
const QUEUE: libc::c_int = 16 << 20;

/// Hears of changes.
pub struct RouteWatch {
    socket: Socket,
    buffer: Vec<u8>,
}

impl RouteWatch {
    /// Begins to listen.
    pub fn new() -> io::Result<RouteWatch> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for force in [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF] {
            if set_option(socket.as_fd(), libc::SOL_SOCKET, force, &QUEUE).is_ok() {
                break;
            }
        }
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        if let Err(error) = socket.add_membership(NEXT_HOPS) {
            tracing::debug!(%error, "no objects of next hops are told of");
        }
        Ok(RouteWatch { socket, buffer: vec![0; ANSWER] })
    }

    /// Bytes of messages that may wait.
    pub fn room(&self) -> io::Result<usize> {
        option(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF).map(|bytes| bytes as usize)
    }

    /// Takes what is told by now, without waiting; says whether that is all, and no change was lost.
    pub fn take(&mut self, take: &mut impl FnMut(RouteNews)) -> io::Result<bool> {
        let mut whole = true;
        loop {
            match self.socket.recv_from(&mut &mut self.buffer[..], libc::MSG_DONTWAIT) {
                // Others than the kernel have nothing to say here.
                Ok((got, from)) if from.port_number() == 0 => {
                    messages(&self.buffer[..got], |message| take_message(message, take));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(whole),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => whole = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The kernel has no memory just now: what it could not tell is read when it has.
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for RouteWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The routes of one family as they are: read piece by piece.
pub struct RouteReader {
    socket: Socket,
    buffer: Vec<u8>,
}

impl RouteReader {
    /// Asks for the routes of IPv4, or of IPv6.
    pub fn ask(v4: bool) -> io::Result<RouteReader> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // A kernel that does not know this tells of all tables.
        let _ = socket.set_netlink_get_strict_chk(true);
        let mut request = [0u8; HEADER + 12];
        request[..4].copy_from_slice(&(HEADER as u32 + 12).to_ne_bytes());
        request[4..6].copy_from_slice(&GET_ROUTE.to_ne_bytes());
        request[6..8].copy_from_slice(&REQUEST_ALL.to_ne_bytes());
        request[8..12].copy_from_slice(&1u32.to_ne_bytes());
        request[HEADER] = if v4 { INET } else { INET6 };
        request[HEADER + 4] = MAIN as u8;
        socket.send(&request, 0)?;
        Ok(RouteReader { socket, buffer: vec![0; ANSWER] })
    }

    /// Takes the next piece; says whether there is more. An error [`io::ErrorKind::Interrupted`]: routes have changed
    /// meanwhile, so that some may be missing.
    pub fn next(&mut self, take: &mut impl FnMut(RouteNews)) -> io::Result<bool> {
        let got = self.socket.recv(&mut &mut self.buffer[..], 0)?;
        let mut end = Ok(true);
        messages(&self.buffer[..got], |message| {
            if message.flags & INTERRUPTED != 0 {
                end = Err(io::ErrorKind::Interrupted.into());
            }
            match message.kind {
                // There is no main table before it has a route.
                ERROR | DONE if end.is_ok() => end = answer(message.body).map(|()| false),
                ERROR | DONE => {}
                _ => take_message(message, take),
            }
        });
        end
    }
}

/// What the last message of an answer says: an error, or that it was the last.
fn answer(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code)) {
        code if code >= 0 || -code == libc::ENOENT => Ok(()),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_routes_can_be_read_and_watched() {
        let mut watch = RouteWatch::new().unwrap();
        assert!(watch.room().unwrap() >= 64 << 10);
        assert!(watch.take(&mut |_| {}).unwrap());
        for v4 in [true, false] {
            let mut reader = RouteReader::ask(v4).unwrap();
            while reader.next(&mut |_| {}).unwrap() {}
        }
    }
}
