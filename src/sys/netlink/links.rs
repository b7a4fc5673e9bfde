//! What the kernel tells of interfaces, addresses and rules as they change. Example: an interface went down, and with it routes of
//! which the kernel says nothing.
//!
//! All is read anew then, and so a message counts for little; but what went and is back when all is read can be seen by it alone.

use super::dump::ANSWER;
use super::news::{INET, messages};
use crate::sys::netdev;
use netlink_sys::{Socket, protocols::NETLINK_ROUTE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

/// Multicast groups that tell of changed links, addresses and rules (`RTNLGRP_*`): link, IPv4 address, IPv4 rule, IPv6 address,
/// IPv6 rule.
const GROUPS: [u32; 5] = [1, 5, 8, 9, 19];

/// Kinds of messages (`RTM_*`), and the flag of an interface that is set up (IFF_UP).
const NEW_LINK: u16 = 16;
const REMOVED_LINK: u16 = 17;
const REMOVED_ADDRESS: u16 = 21;
const UP: u32 = 1;

/// Datagrams that are read at once.
const AT_ONCE: usize = 256;

/// What has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkNews {
    /// Whether anything has.
    pub some: bool,
    /// Interfaces that went down or were removed, whether they are back or not.
    pub down: BTreeSet<u32>,
    /// Whether an address of IPv4 has gone.
    pub without_address: bool,
    /// More has changed than the socket holds: anything may have.
    pub lost: bool,
}

impl LinkNews {
    /// That has changed too.
    pub fn add(&mut self, more: LinkNews) {
        self.some |= more.some;
        self.without_address |= more.without_address;
        self.lost |= more.lost;
        self.down.extend(more.down);
    }

    /// Takes down what a datagram says.
    fn take(&mut self, datagram: &[u8]) {
        self.some = true;
        messages(datagram, |message| {
            let number = |at: usize| {
                let bytes = message.body.get(at..).and_then(<[u8]>::first_chunk::<4>);
                bytes.map(|bytes| u32::from_ne_bytes(*bytes))
            };
            let (index, flags) = (number(4), number(8));
            let is_down = match message.kind {
                NEW_LINK => flags.is_some_and(|flags| flags & UP == 0),
                REMOVED_LINK => true,
                _ => false,
            };
            self.down.extend(index.filter(|_| is_down));
            self.without_address |= message.kind == REMOVED_ADDRESS && message.body.first() == Some(&INET);
        });
    }
}

/// Tells of changes.
pub struct Watch {
    socket: Socket,
    /// Hears of what drivers do with redirected frames, where the kernel says so.
    features: Option<Socket>,
}

impl Watch {
    /// Begins to listen.
    pub fn new() -> io::Result<Watch> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        let features = netdev::changes()
            .inspect_err(|error| tracing::warn!(%error, "changes of drivers' XDP features are not heard of"))
            .ok();
        Ok(Watch { socket, features })
    }

    /// Waits until something has changed, or there is something to read from other sources; for so long at most, or
    /// without an end. Says what has changed.
    pub fn wait(&self, others: &[BorrowedFd<'_>], most: Option<Duration>) -> io::Result<LinkNews> {
        let own = || core::iter::once(&self.socket).chain(&self.features);
        let all = own().map(Socket::as_fd).chain(others.iter().copied());
        let mut waiting: Vec<PollFd<'_>> = all.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        while let Err(error) = poll(&mut waiting, most.as_ref()) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        let mut news = LinkNews::default();
        let is_ready = |waiting: &PollFd<'_>| !waiting.revents().is_empty();
        for (socket, _) in own().zip(&waiting).filter(|(_, waiting)| is_ready(waiting)) {
            read(socket, &mut news)?;
        }
        Ok(news)
    }
}

/// Reads what a socket has been told.
fn read(socket: &Socket, news: &mut LinkNews) -> io::Result<()> {
    let mut buffer = vec![0; ANSWER];
    for _ in 0..AT_ONCE {
        match socket.recv(&mut &mut buffer[..], libc::MSG_DONTWAIT) {
            Ok(length) => news.take(buffer.get(..length).unwrap_or(&[])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => (news.some, news.lost) = (true, true),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::news::HEADER;
    use super::*;

    /// A message with the header of an interface, or of an address.
    fn message(kind: u16, family: u8, index: u32, flags: u32) -> Vec<u8> {
        let body = [&[family, 0, 0, 0][..], &index.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 4]].concat();
        let length = (HEADER + body.len()) as u32;
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], &body].concat()
    }

    #[test]
    fn what_went_down_is_known_although_it_is_back() {
        let mut news = LinkNews::default();
        let down = [message(NEW_LINK, 0, 7, 0), message(NEW_LINK, 0, 7, UP), message(NEW_LINK, 0, 8, UP | 2)].concat();
        news.take(&down);
        news.take(&message(REMOVED_LINK, 0, 9, UP));
        assert_eq!(news, LinkNews { some: true, down: [7, 9].into(), ..LinkNews::default() });
        // One of IPv6 takes no routes along of which nobody is told; what is cut says nothing.
        news.take(&message(REMOVED_ADDRESS, 10, 7, 0));
        news.take(&message(NEW_LINK, 0, 6, 0)[..20]);
        assert!(!news.without_address && !news.down.contains(&6));
        let mut more = LinkNews::default();
        more.take(&message(REMOVED_ADDRESS, 2, 7, 0));
        news.add(more);
        assert!(news.without_address);
    }
}
