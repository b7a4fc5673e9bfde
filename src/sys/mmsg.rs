//! Many datagrams in one system call: recvmmsg(2) and sendmmsg(2).
//!
//! One datagram takes the plain calls, which cost less.
//!
//! Datagrams of one length to one receiver that stand next to each other can leave as one message, which
//! the kernel cuts up as late as it can (UDP_SEGMENT, udp(7)): they go through its stack as one.

use core::ops::Range;
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
        let (bytes, scope) = match addr {
            SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped().octets(), 0),
            SocketAddr::V6(v6) => (v6.ip().octets(), v6.scope_id()),
        };
        RawAddr {
            storage: libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: addr.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: bytes },
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

/// Datagrams that the kernel has dropped for want of room in a socket, since it was opened.
pub fn dropped(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // SK_MEMINFO_DROPS is the last of nine words (linux/sock_diag.h).
    let mut words = [0u32; 9];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `words`, which are that long and integers.
    let done = unsafe {
        let (at, length) = ((&raw mut words).cast(), &raw mut length);
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, at, length)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(words[8]) }
}

/// Lets the kernel keep so many bytes of datagrams for a socket, whatever its limit for others is; needs CAP_NET_ADMIN.
pub fn deepen(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    super::option::set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes)
}

/// Bytes of one message that the kernel cuts into datagrams; below what an IPv4 packet holds.
const MESSAGE_MAX: usize = 60_000;

/// Room for the headers of one batch, used again for every call.
pub struct Batch {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    addrs: Vec<RawAddr>,
    controls: Vec<Control>,
    /// Datagrams in each message of the last send.
    groups: Vec<usize>,
    /// Whether the kernel and the way to the neighbours take messages to be cut up.
    segments: bool,
}

/// The control message that says how long each datagram is: a C `cmsghdr`, two bytes, and padding.
#[derive(Clone, Copy)]
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    size: u16,
    padding: [u8; 6],
}

// SAFETY: the pointers inside `headers` and `vectors` are written right before each system call and
// never read after it, so moving a batch to another thread between calls is harmless.
unsafe impl Send for Batch {}

impl Default for Batch {
    fn default() -> Batch {
        // SAFETY: all three are C structures for which all-zero bytes are a valid value.
        let (header, vector, control) = unsafe { (core::mem::zeroed(), core::mem::zeroed(), core::mem::zeroed()) };
        Batch {
            headers: vec![header; BATCH],
            vectors: vec![vector; BATCH],
            addrs: vec![RawAddr::NONE; BATCH],
            controls: vec![control; BATCH],
            groups: Vec::with_capacity(BATCH),
            segments: false,
        }
    }
}

impl Batch {
    /// A batch for UDP sockets, whose datagrams may leave as messages to be cut up.
    pub fn segmenting() -> Batch {
        Batch { segments: true, ..Batch::default() }
    }

    /// Receives into the buffers, without waiting. Gives how many datagrams came; their lengths are then
    /// at [`Batch::length`] and, if wanted, their senders at [`Batch::sender`].
    pub fn receive<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        buffers: impl Iterator<Item = &'a mut [u8]>,
        senders: bool,
    ) -> io::Result<usize> {
        let addr_length = if senders { size_of::<libc::sockaddr_in6>() } else { 0 };
        let mut count = 0;
        for (at, buffer) in buffers.take(BATCH).enumerate() {
            self.addrs[at] = RawAddr::NONE;
            self.vectors[at] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            self.set_header(at, addr_length, at..at + 1);
            count = at + 1;
        }
        if count == 1 {
            return self.receive_one(socket);
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

    /// Receives the first datagram alone.
    fn receive_one(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let libc::iovec { iov_base, iov_len } = self.vectors[0];
        let header = &mut self.headers[0];
        let name = header.msg_hdr.msg_name;
        let length = if name.is_null() { core::ptr::null_mut() } else { &raw mut header.msg_hdr.msg_namelen };
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the vector is a buffer borrowed by the caller for the whole of this call; the name is null, or an address of this
        // batch of the length that is given with it.
        let got = unsafe { libc::recvfrom(socket.as_raw_fd(), iov_base, iov_len, flags, name.cast(), length) };
        // The whole length is told, also of what was cut off.
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        header.msg_len = got.min(iov_len) as libc::c_uint;
        header.msg_hdr.msg_flags = if got > iov_len { libc::MSG_TRUNC } else { 0 };
        Ok(1)
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
            count = at + 1;
        }
        self.group(count);
        let sent = self.send_groups(socket);
        match sent {
            // The kernel is too old, or a datagram does not fit into the link's packets and must be cut by IP.
            Err(error)
                if self.groups.first().is_some_and(|group| *group > 1)
                    && matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE)) =>
            {
                self.segments = false;
                self.group(count);
                self.send_groups(socket)
            }
            sent => sent,
        }
    }

    /// Puts the first `count` datagrams into messages, one each or as many as the kernel may cut up.
    fn group(&mut self, count: usize) {
        self.groups.clear();
        let mut first = 0;
        while first < count {
            let end = self.group_end(first, count);
            self.set_header(self.groups.len(), self.addrs[first].length as usize, first..end);
            self.groups.push(end - first);
            first = end;
        }
    }

    /// Where the message that begins with datagram `first` ends: all are as long as that, the last may be shorter.
    fn group_end(&self, first: usize, count: usize) -> usize {
        let size = self.vectors[first].iov_len;
        let mut end = first + 1;
        if !self.segments || size == 0 {
            return end;
        }
        while end < count && (end - first + 1) * size <= MESSAGE_MAX {
            let length = self.vectors[end].iov_len;
            if length == 0 || length > size || !self.addrs[end].same(&self.addrs[first]) {
                break;
            }
            end += 1;
            if length < size {
                break;
            }
        }
        end
    }

    fn send_groups(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        if self.groups == [1] {
            let (libc::iovec { iov_base, iov_len }, header) = (self.vectors[0], &self.headers[0].msg_hdr);
            let (name, length) = (header.msg_name.cast_const().cast(), header.msg_namelen);
            // SAFETY: as in `receive_one`; the kernel only reads.
            let sent = unsafe { libc::sendto(socket.as_raw_fd(), iov_base, iov_len, flags, name, length) };
            return if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(1) };
        }
        // SAFETY: as in `receive`, with the control messages, which live in this batch too; the kernel only
        // reads through the vectors when sending.
        let sent = unsafe {
            let count = self.groups.len() as libc::c_uint;
            libc::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count, flags)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(self.groups[..sent as usize].iter().sum()) }
    }

    /// Bytes of the datagram at `index` of the last receive.
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

    /// Message `at` is the datagrams of `range`, to or from the address of the first.
    fn set_header(&mut self, at: usize, addr_length: usize, range: Range<usize>) {
        let addr = &raw mut self.addrs[range.start].storage;
        let header = &mut self.headers[at];
        header.msg_len = 0;
        header.msg_hdr.msg_name = if addr_length == 0 { core::ptr::null_mut() } else { addr.cast() };
        header.msg_hdr.msg_namelen = addr_length as libc::socklen_t;
        header.msg_hdr.msg_iov = &raw mut self.vectors[range.start];
        header.msg_hdr.msg_iovlen = range.len() as _;
        header.msg_hdr.msg_control = core::ptr::null_mut();
        header.msg_hdr.msg_controllen = 0;
        header.msg_hdr.msg_flags = 0;
        if range.len() > 1 {
            let control = &mut self.controls[at];
            // SAFETY: CMSG_LEN only computes.
            control.header.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<u16>() as libc::c_uint) } as _;
            control.header.cmsg_level = libc::SOL_UDP;
            control.header.cmsg_type = libc::UDP_SEGMENT;
            control.size = self.vectors[range.start].iov_len as u16;
            header.msg_hdr.msg_control = (control as *mut Control).cast();
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
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
        let got = batch.receive(b.as_fd(), buffers.iter_mut().map(|buffer| &mut buffer[..]), true).unwrap();
        assert_eq!(got, 5);
        assert_eq!(batch.length(2), 3);
        assert!(batch.truncated(4) && !batch.truncated(3));
        assert!(batch.sender(0).same(&RawAddr::new(a.local_addr().unwrap())));
        assert_eq!(batch.sender(0).addr(), a.local_addr().unwrap());
    }

    #[test]
    fn one_datagram_alone_is_received_like_many() {
        let (a, b) = (UdpSocket::bind("[::1]:0").unwrap(), UdpSocket::bind("[::1]:0").unwrap());
        let to = RawAddr::new(b.local_addr().unwrap());
        let mut batch = Batch::segmenting();
        let mut buffer = [[0u8; 4]];
        let mut receive = |batch: &mut Batch| {
            let got = batch.receive(b.as_fd(), buffer.iter_mut().map(|buffer| &mut buffer[..]), true);
            got.map(|got| (got, batch.length(0), batch.truncated(0), batch.sender(0).addr()))
        };
        let from = a.local_addr().unwrap();
        for (data, expected) in
            [(&b""[..], (1, 0, false, from)), (b"four", (1, 4, false, from)), (b"fives", (1, 4, true, from))]
        {
            assert_eq!(batch.send(a.as_fd(), [(data, to)].into_iter()).unwrap(), 1);
            assert_eq!(receive(&mut batch).unwrap(), expected);
        }
        assert_eq!(receive(&mut batch).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn addresses_of_both_families_survive_the_kernels_form() {
        for text in ["127.0.0.1:4001", "[2001:db8::1]:9"] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddr::new(addr).addr(), addr);
        }
    }

    #[test]
    fn grouped_datagrams_arrive_one_by_one() {
        let (a, b) = (UdpSocket::bind("[::1]:0").unwrap(), UdpSocket::bind("[::1]:0").unwrap());
        let (to_a, to_b) = (RawAddr::new(a.local_addr().unwrap()), RawAddr::new(b.local_addr().unwrap()));
        let mut batch = Batch::segmenting();
        let data: Vec<Vec<u8>> = [9, 9, 9, 4, 9, 12, 12, 0, 9].iter().map(|n| vec![*n as u8; *n]).collect();
        let ends = data.iter().map(|d| if d.len() == 12 { to_a } else { to_b });
        assert_eq!(batch.send(a.as_fd(), data.iter().map(|d| &d[..]).zip(ends)).unwrap(), 9);
        assert!(!batch.segments || batch.groups == [4, 1, 2, 1, 1]);
        let mut buffers = vec![[0u8; 32]; 10];
        let got = batch.receive(b.as_fd(), buffers.iter_mut().map(|buffer| &mut buffer[..]), true).unwrap();
        let lengths: Vec<usize> = (0..got).map(|at| batch.length(at)).collect();
        assert_eq!(lengths, [9, 9, 9, 4, 9, 0, 9]);
        assert!((0..got).all(|at| buffers[at][..lengths[at]].iter().all(|byte| usize::from(*byte) == lengths[at])));
    }

    #[test]
    fn what_cannot_be_cut_up_leaves_one_by_one() {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        let mut batch = Batch::segmenting();
        // No datagram of this length fits into a packet of the loopback interface.
        let data = vec![vec![1u8; 65_500]; 2];
        assert_eq!(batch.send(a.as_fd(), data.iter().map(|d| (&d[..], RawAddr::NONE))).unwrap(), 2);
        assert_eq!(batch.groups, [1, 1]);
    }
}
