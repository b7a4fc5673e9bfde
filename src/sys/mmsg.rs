//! Many datagrams in one system call: recvmmsg(2) and sendmmsg(2).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Datagrams one call moves.
pub const BATCH: usize = 64;

/// A socket address in the kernel's form.
#[derive(Clone, Copy)]
pub struct RawAddr {
    storage: libc::sockaddr_in6,
    length: libc::socklen_t,
}

impl RawAddr {
    /// No address: the socket is bound or connected to one.
    pub const NONE: RawAddr = RawAddr {
        storage: libc::sockaddr_in6 {
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        },
        length: 0,
    };

    /// The kernel's form of `addr`. IPv4 goes through IPv6 sockets in mapped form.
    pub fn new(addr: SocketAddr) -> RawAddr {
        let (octets, scope) = match addr {
            SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped().octets(), 0),
            SocketAddr::V6(v6) => (v6.ip().octets(), v6.scope_id()),
        };
        RawAddr {
            storage: libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: addr.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: octets },
                sin6_scope_id: scope,
            },
            length: size_of::<libc::sockaddr_in6>() as libc::socklen_t,
        }
    }

    /// The address as a socket for both families is bound to it: IPv4 in mapped form.
    pub fn mapped(&self) -> SocketAddr {
        let ip = Ipv6Addr::from(self.storage.sin6_addr.s6_addr);
        SocketAddr::V6(SocketAddrV6::new(ip, u16::from_be(self.storage.sin6_port), 0, self.storage.sin6_scope_id))
    }

    /// The address as the standard library has it; IPv4 out of its mapped form.
    pub fn addr(&self) -> SocketAddr {
        let ip = Ipv6Addr::from(self.storage.sin6_addr.s6_addr);
        let port = u16::from_be(self.storage.sin6_port);
        match ip.to_ipv4_mapped() {
            Some(v4) => SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(v4.octets()), port)),
            None => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, self.storage.sin6_scope_id)),
        }
    }

    /// Whether two addresses are the same host and port.
    #[inline]
    pub fn same(&self, other: &RawAddr) -> bool {
        self.storage.sin6_port == other.storage.sin6_port
            && self.storage.sin6_addr.s6_addr == other.storage.sin6_addr.s6_addr
    }
}

/// Room for the headers of one batch, used again for every call.
pub struct Batch {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    addrs: Vec<RawAddr>,
}

// SAFETY: the pointers inside `headers` and `vectors` are written right before each system call and
// never read after it, so moving a batch to another thread between calls is harmless.
unsafe impl Send for Batch {}

impl Default for Batch {
    fn default() -> Batch {
        // SAFETY: both are C structures for which all-zero octets are a valid value.
        let (header, vector) = unsafe { (core::mem::zeroed(), core::mem::zeroed()) };
        Batch { headers: vec![header; BATCH], vectors: vec![vector; BATCH], addrs: vec![RawAddr::NONE; BATCH] }
    }
}

impl Batch {
    /// Receives into the buffers, without waiting. Gives how many datagrams came; their lengths and
    /// senders are then at [`Batch::length`] and [`Batch::sender`].
    pub fn receive<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        buffers: impl Iterator<Item = &'a mut [u8]>,
    ) -> io::Result<usize> {
        let mut count = 0;
        for (at, buffer) in buffers.take(BATCH).enumerate() {
            self.addrs[at] = RawAddr::NONE;
            self.vectors[at] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            self.set_header(at, size_of::<libc::sockaddr_in6>());
            count = at + 1;
        }
        // SAFETY: the first `count` headers point to vectors and addresses of this batch, which live
        // as long as `self`, and the vectors to buffers borrowed for the whole of this call.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
                core::ptr::null_mut(),
            )
        };
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
    }

    /// Sends the buffers, without waiting, each to its address. Gives how many were sent.
    pub fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        datagrams: impl Iterator<Item = (&'a [u8], RawAddr)>,
    ) -> io::Result<usize> {
        let mut count = 0;
        for (at, (bytes, addr)) in datagrams.take(BATCH).enumerate() {
            self.addrs[at] = addr;
            self.vectors[at] = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            self.set_header(at, addr.length as usize);
            count = at + 1;
        }
        // SAFETY: as in `receive`; the kernel only reads through the vectors when sending.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    /// Octets of the datagram at `index` of the last receive.
    #[inline]
    pub fn length(&self, index: usize) -> usize {
        self.headers[index].msg_len as usize
    }

    /// Who sent the datagram at `index` of the last receive.
    #[inline]
    pub fn sender(&self, index: usize) -> &RawAddr {
        &self.addrs[index]
    }

    /// Whether the datagram at `index` of the last receive was longer than its buffer.
    #[inline]
    pub fn truncated(&self, index: usize) -> bool {
        self.headers[index].msg_hdr.msg_flags & libc::MSG_TRUNC != 0
    }

    fn set_header(&mut self, at: usize, addr_length: usize) {
        let header = &mut self.headers[at];
        header.msg_len = 0;
        header.msg_hdr.msg_name =
            if addr_length == 0 { core::ptr::null_mut() } else { (&raw mut self.addrs[at].storage).cast() };
        header.msg_hdr.msg_namelen = addr_length as libc::socklen_t;
        header.msg_hdr.msg_iov = &raw mut self.vectors[at];
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = core::ptr::null_mut();
        header.msg_hdr.msg_controllen = 0;
        header.msg_hdr.msg_flags = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn a_batch_crosses_a_socket_with_senders_and_lengths() {
        let (a, b) = (UdpSocket::bind("[::1]:0").unwrap(), UdpSocket::bind("[::1]:0").unwrap());
        let to = RawAddr::new(b.local_addr().unwrap());
        let mut batch = Batch::default();
        let data: Vec<Vec<u8>> = (1..=5u8).map(|n| vec![n; usize::from(n)]).collect();
        assert_eq!(batch.send(a.as_fd(), data.iter().map(|d| (&d[..], to))).unwrap(), 5);
        let mut buffers = [[0u8; 4]; 10];
        let got = batch.receive(b.as_fd(), buffers.iter_mut().map(|buffer| &mut buffer[..])).unwrap();
        assert_eq!(got, 5);
        assert_eq!(batch.length(2), 3);
        assert!(batch.truncated(4) && !batch.truncated(3));
        assert!(batch.sender(0).same(&RawAddr::new(a.local_addr().unwrap())));
        assert_eq!(batch.sender(0).addr(), a.local_addr().unwrap());
    }

    #[test]
    fn addresses_of_both_families_survive_the_kernels_form() {
        for text in ["127.0.0.1:4001", "[2001:db8::1]:9"] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddr::new(addr).addr(), addr);
        }
    }
}
