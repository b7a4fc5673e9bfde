//! Neighbour advertisements (RFC 4861) as the Linux stack takes them in: a raw ICMPv6 socket on one interface (ipv6(7), raw(7)).
//!
//! The socket is given a copy where the stack delivers, so frames that are only forwarded never meet it.

use super::option::set_option;
use crate::wire::Addr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `ICMP6_FILTER` of linux/icmpv6.h, the types that it lets through, and the words of the set of those that it does not.
const FILTER: libc::c_int = 1;
const ADVERTISEMENT: usize = 136;
const WORDS: usize = 8;

/// Bytes of room for what the kernel says beside a message.
const CONTROL: usize = 128;

/// A message, and what the IPv6 header before it said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Bytes that it has.
    pub length: usize,
    /// Its source.
    pub from: Addr,
    /// Its destination.
    pub to: Addr,
    /// Its hop limit.
    pub hop_limit: u8,
}

/// Room that the kernel aligns as its headers need.
#[repr(align(8))]
struct Control([u8; CONTROL]);

/// A socket for advertisements that come in by one interface.
pub struct DiscoverySocket {
    fd: OwnedFd,
}

impl DiscoverySocket {
    /// With a socket from [`DiscoverySocket::raw`].
    pub fn with(fd: OwnedFd) -> DiscoverySocket {
        DiscoverySocket { fd }
    }

    /// The socket, which needs CAP_NET_RAW; it stays with the interface, unless somebody has that. Nothing: this host has no IPv6.
    pub fn raw(interface: u32) -> io::Result<Option<OwnedFd>> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: socket(2) takes three integers.
        let raw = unsafe { libc::socket(libc::AF_INET6, kind, libc::IPPROTO_ICMPV6) };
        if raw < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::EAFNOSUPPORT) { Ok(None) } else { Err(error) };
        }
        // SAFETY: the descriptor was just made and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let mut blocked = [u32::MAX; WORDS];
        blocked[ADVERTISEMENT / 32] &= !(1 << (ADVERTISEMENT % 32));
        // Nothing before the filter is there: a socket that is not bound to an interface hears all.
        set_option(fd.as_fd(), libc::IPPROTO_ICMPV6, FILTER, &blocked)?;
        set_option(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &1)?;
        set_option(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, &1)?;
        set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &(interface as libc::c_int))?;
        Ok(Some(fd))
    }

    /// Receives the next message, cut off at the room's length; nothing if there is none, or if it is not as it should be.
    pub fn receive(&mut self, room: &mut [u8]) -> Option<Message> {
        let mut control = Control([0; CONTROL]);
        // SAFETY: all-zero bytes are a valid value of these C structures.
        let (mut from, mut message): (libc::sockaddr_in6, libc::msghdr) = unsafe { core::mem::zeroed() };
        let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL as _;
        // SAFETY: the kernel writes into `from`, `room` and `control`, which outlive the call and have the lengths given.
        let length = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, 0) };
        let length = usize::try_from(length).ok()?;
        let (to, hop_limit) = said(&message)?;
        Some(Message { length, from: Addr(from.sin6_addr.s6_addr), to, hop_limit })
    }
}

impl AsFd for DiscoverySocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Destination and hop limit, from what the kernel has put beside a message.
fn said(message: &libc::msghdr) -> Option<(Addr, u8)> {
    let (mut to, mut hop_limit) = (None, None);
    // SAFETY: the kernel has filled the header and the control memory that it names, which the caller still has.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give headers that lie within the control memory.
        let (header, data) = unsafe { (&*at, libc::CMSG_DATA(at)) };
        match (header.cmsg_level, header.cmsg_type) {
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: behind a header of this type there is this structure, whatever its alignment.
                let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
                to = Some(Addr(info.ipi6_addr.s6_addr));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                // SAFETY: behind a header of this type there is an integer, whatever its alignment.
                hop_limit = Some(unsafe { data.cast::<libc::c_int>().read_unaligned() } as u8);
            }
            _ => {}
        }
        // SAFETY: as for the first one.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    to.zip(hop_limit)
}
