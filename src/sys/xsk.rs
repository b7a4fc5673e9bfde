//! AF_XDP sockets (networking/af_xdp in the kernel's documentation): frames between one receive queue of an interface and
//! memory of ours.
//!
//! The memory ([`Umem`]) is one for all sockets, cut into chunks. Each socket has chunks of its own: those for receiving
//! are in its fill ring, in its receive ring, or with the kernel; those for sending are free, in its transmit ring or with
//! the kernel. So nothing can overflow and nobody waits for another. Frames are copied out of a chunk when they come and into one
//! when they go: a frame of the node may wait for code, for a link address or for an application, and a chunk that waited
//! would be missing at the interface.

use super::mapping::Mapping;
use super::option::set_option;
use super::xsk_ring::{Inbound, Outbound};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Bytes the kernel keeps free in front of a received frame (`XDP_PACKET_HEADROOM`).
pub const HEADROOM: usize = 256;

/// Bytes of frames on their way out that the kernel may keep for a socket.
const SEND_BUFFER: libc::c_int = 8 << 20;

/// Frames the kernel sends in one call, if it lets that be chosen.
const SEND_BUDGET: libc::c_int = 256;
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Calls in a row that may be needed to send what is in a transmit ring.
const KICKS_MAX: usize = 64;

/// Options of busy polling (linux/socket.h).
const SO_BUSY_POLL: libc::c_int = 46;
const SO_PREFER_BUSY_POLL: libc::c_int = 69;
const SO_BUSY_POLL_BUDGET: libc::c_int = 70;

/// Frames taken from the driver in one busy poll.
const BUSY_POLL_BUDGET: libc::c_int = 64;

/// Memory for the frames of AF_XDP sockets. It has a descriptor, so that another process may make it known to the kernel, which lets
/// only the privileged keep much in RAM.
#[derive(Debug)]
pub struct Umem {
    memory: Mapping,
    file: OwnedFd,
    chunk: u32,
}

impl Umem {
    /// Memory of `count` chunks of `chunk` bytes, a power of two that is 2048 or more and no more than a page.
    pub fn new(chunk: u32, count: u32) -> io::Result<Umem> {
        let length = chunk as usize * count as usize;
        let file = memfd_create("anode-frames", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, length as u64)?;
        Ok(Umem { memory: Mapping::shared(file.as_fd(), length, 0)?, file, chunk })
    }

    /// Bytes of a chunk.
    pub fn chunk(&self) -> u32 {
        self.chunk
    }

    fn chunks(&self) -> u32 {
        (self.memory.len() / self.chunk as usize) as u32
    }

    /// Bytes of all.
    pub fn size(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Makes it known to the kernel, by the first of its sockets.
    pub fn register(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        make_known(socket, &self.memory, self.chunk)
    }

    /// The bytes at an address of the kernel's descriptors; none if they are not within one chunk.
    ///
    /// # Safety
    /// The chunk must be the caller's: shown by a ring and not given back, and nobody else may look at it meanwhile.
    #[inline]
    unsafe fn bytes(&self, addr: u64, length: usize) -> Option<&[u8]> {
        let within = (addr & u64::from(self.chunk - 1)) as usize + length <= self.chunk as usize;
        if !within || addr as usize + length > self.memory.len() {
            return None;
        }
        // SAFETY: the bytes are within the mapping, which lives as long as `self`; they are the caller's for now.
        Some(unsafe { core::slice::from_raw_parts(self.memory.base().as_ptr().add(addr as usize), length) })
    }
}

impl AsFd for Umem {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes shared memory, of whatever process, known to the kernel, by the first of its sockets.
pub fn register(socket: BorrowedFd<'_>, memory: BorrowedFd<'_>, chunk: u32, length: u64) -> io::Result<()> {
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    make_known(socket, &Mapping::shared(memory, length, 0)?, chunk)
}

fn make_known(socket: BorrowedFd<'_>, memory: &Mapping, chunk_size: u32) -> io::Result<()> {
    let (addr, len) = (memory.base().as_ptr() as u64, memory.len() as u64);
    let request = libc::xdp_umem_reg { addr, len, chunk_size, headroom: 0, flags: 0, tx_metadata_len: 0 };
    set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &request)
}

/// What needs a privilege of an AF_XDP socket: CAP_NET_RAW to have it, CAP_NET_ADMIN for its room and to have its driver polled for so many
/// microseconds. It is bound to nothing.
pub fn raw(busy_poll_us: u32) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes three integers.
    let raw = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    // Without the privilege, or in a kernel that does not know it, the system's figure stays: shorter batches.
    let _ = set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
    if busy_poll_us > 0 {
        poll_busily(fd.as_fd(), busy_poll_us)?;
    }
    Ok(fd)
}

/// How frames get between driver and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// The kernel copies them: works with every driver.
    Copy,
    /// The driver puts them there.
    ZeroCopy,
}

/// Where a socket stands, and what it may use.
#[derive(Clone, Debug)]
pub struct Place {
    /// The interface's index.
    pub interface: u32,
    /// The receive queue.
    pub queue: u32,
    /// The first of its chunks.
    pub first: u32,
    /// Chunks to receive into, a power of two.
    pub receive: u32,
    /// Chunks to send from, a power of two; 0: the socket only receives.
    pub send: u32,
    /// Microseconds for which the driver is polled by whoever looks for frames; 0: it is not.
    pub busy_poll_us: u32,
}

/// What sends.
struct Sender {
    ring: Outbound<libc::xdp_desc>,
    done: Inbound<u64>,
    free: Vec<u64>,
}

/// An AF_XDP socket.
pub struct XskSocket {
    umem: Arc<Umem>,
    received: Inbound<libc::xdp_desc>,
    fill: Outbound<u64>,
    sender: Option<Sender>,
    zero_copy: bool,
    busy: bool,
    fd: OwnedFd,
}

impl XskSocket {
    /// Opens a socket in this memory, which `first` opened, or nobody yet. The first one says how frames are copied.
    pub fn open(umem: &Arc<Umem>, first: Option<&XskSocket>, place: &Place, copying: Copying) -> io::Result<XskSocket> {
        let fd = raw(place.busy_poll_us)?;
        if first.is_none() {
            umem.register(fd.as_fd())?;
        }
        XskSocket::with(fd, umem, first, place, copying)
    }

    /// The same with a socket from [`raw`], which the memory is known by if it is the first.
    pub fn with(
        fd: OwnedFd,
        umem: &Arc<Umem>,
        first: Option<&XskSocket>,
        place: &Place,
        copying: Copying,
    ) -> io::Result<XskSocket> {
        assert!(place.first + place.receive + place.send <= umem.chunks(), "chunks of the memory");
        let socket = fd.as_fd();
        let ring = |name, size: u32| set_option(socket, libc::SOL_XDP, name, &size);
        ring(libc::XDP_UMEM_FILL_RING, place.receive)?;
        ring(libc::XDP_UMEM_COMPLETION_RING, place.send.max(1))?;
        ring(libc::XDP_RX_RING, place.receive)?;
        if place.send > 0 {
            ring(libc::XDP_TX_RING, place.send)?;
        }
        let offsets = offsets(socket)?;
        let chunks = |first: u32, count: u32| (first..first + count).map(|at| u64::from(at) * u64::from(umem.chunk));
        let mut fill = Outbound::map(socket, offsets.fr, place.receive, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t)?;
        chunks(place.first, place.receive).for_each(|chunk| {
            fill.put(chunk);
        });
        fill.show();
        let received = Inbound::map(socket, offsets.rx, place.receive, libc::XDP_PGOFF_RX_RING)?;
        let sender = (place.send > 0).then(|| -> io::Result<Sender> {
            let done = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
            Ok(Sender {
                ring: Outbound::map(socket, offsets.tx, place.send, libc::XDP_PGOFF_TX_RING)?,
                done: Inbound::map(socket, offsets.cr, place.send, done)?,
                free: chunks(place.first + place.receive, place.send).collect(),
            })
        });
        let sender = sender.transpose()?;
        // In a kernel that does not know it the system's figure stays: shorter batches.
        let _ = set_option(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &SEND_BUDGET);
        let busy = place.busy_poll_us > 0;
        bind(socket, first.map(AsFd::as_fd), place, copying)?;
        let zero_copy = is_zero_copy(socket)?;
        Ok(XskSocket { umem: umem.clone(), received, fill, sender, zero_copy, busy, fd })
    }

    /// Whether the driver puts frames into memory itself.
    pub fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Shows the next frame to `look` and gives its chunk back to be filled; false if there is none. Follow a batch with
    /// [`XskSocket::refill`].
    #[inline]
    pub fn receive(&mut self, look: impl FnOnce(&[u8])) -> bool {
        let Some(described) = self.received.take() else { return false };
        // SAFETY: the receive ring has shown this chunk, and it goes into the fill ring below only.
        if let Some(bytes) = unsafe { self.umem.bytes(described.addr, described.len as usize) } {
            look(bytes);
        }
        // There is room: the ring holds all chunks that there are for receiving.
        self.fill.put(described.addr & !u64::from(self.umem.chunk - 1));
        true
    }

    /// Lets the kernel have the chunks of the frames taken.
    #[inline]
    pub fn refill(&mut self) {
        self.received.release();
        self.fill.show();
        if self.fill.sleeps() && !self.busy {
            self.take_turn();
        }
    }

    /// Lets the driver look for frames now, in this thread, if it is to be polled.
    pub fn poll_driver(&self) {
        if self.busy {
            self.take_turn();
        }
    }

    fn take_turn(&self) {
        // SAFETY: recvfrom(2) with no room for bytes and no address takes integers only. What it says does not matter: it is
        // called for what it does on the way.
        unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                core::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                core::ptr::null_mut(),
                core::ptr::null_mut(),
            );
        }
    }

    /// Sends frames from the front, as many as there are chunks for, and says how many; an error is of the first.
    pub fn send<'a>(&mut self, frames: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
        let Some(sender) = &mut self.sender else { return Err(io::ErrorKind::Unsupported.into()) };
        if sender.ring.waiting() > 0 {
            // What makes those stay, an interface that is down, concerns these too.
            kick(self.fd.as_fd(), &mut sender.ring, self.zero_copy)?;
        }
        let (mut count, mut refused) = (0, None);
        for frame in frames {
            if frame.len() > self.umem.chunk as usize {
                refused = Some(io::Error::from_raw_os_error(libc::EMSGSIZE));
                break;
            }
            if sender.free.is_empty() {
                sender.reclaim();
            }
            let Some(addr) = sender.free.pop() else { break };
            // SAFETY: the chunk was free, so it is ours; the frame is no longer than a chunk; a chunk lies within the mapping.
            unsafe {
                let to = self.umem.memory.base().as_ptr().add(addr as usize);
                core::ptr::copy_nonoverlapping(frame.as_ptr(), to, frame.len());
            }
            // There is room: the ring holds all chunks that there are for sending.
            sender.ring.put(libc::xdp_desc { addr, len: frame.len() as u32, options: 0 });
            count += 1;
        }
        if count > 0 {
            sender.ring.show();
            // An error is one of the next frame's, if it stays.
            let _ = kick(self.fd.as_fd(), &mut sender.ring, self.zero_copy);
            sender.reclaim();
            return Ok(count);
        }
        refused.map_or_else(|| Err(io::ErrorKind::WouldBlock.into()), Err)
    }

    /// Frames that the kernel has thrown away since the beginning because the socket had no room.
    pub fn lost(&self) -> u64 {
        // SAFETY: all-zero bytes are a valid value of this C structure.
        let mut stats: libc::xdp_statistics = unsafe { core::mem::zeroed() };
        match option(self.fd.as_fd(), libc::XDP_STATISTICS, &mut stats) {
            Ok(()) => stats.rx_dropped + stats.rx_ring_full,
            Err(_) => 0,
        }
    }
}

impl Sender {
    /// Takes back the chunks of frames that have left.
    #[inline]
    fn reclaim(&mut self) {
        while let Some(addr) = self.done.take() {
            self.free.push(addr);
        }
        self.done.release();
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Lets the kernel send what is in the ring. In copy mode it does so within the call, some frames in each.
fn kick(socket: BorrowedFd<'_>, ring: &mut Outbound<libc::xdp_desc>, zero_copy: bool) -> io::Result<()> {
    let mut before = ring.waiting();
    for _ in 0..KICKS_MAX {
        if before == 0 || !ring.sleeps() {
            return Ok(());
        }
        // SAFETY: sendto(2) with no bytes and no address takes integers only.
        let done =
            unsafe { libc::sendto(socket.as_raw_fd(), core::ptr::null(), 0, libc::MSG_DONTWAIT, core::ptr::null(), 0) };
        let error = if done < 0 { Some(io::Error::last_os_error()) } else { None };
        let after = ring.waiting();
        let stuck = after == before || zero_copy;
        match error {
            Some(error) if !is_of_the_moment(&error) => return Err(error),
            _ if stuck => return Ok(()),
            _ => before = after,
        }
    }
    Ok(())
}

/// Errors that say: some other time.
fn is_of_the_moment(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR))
}

fn bind(socket: BorrowedFd<'_>, first: Option<BorrowedFd<'_>>, place: &Place, copying: Copying) -> io::Result<()> {
    let how = match copying {
        Copying::Copy => libc::XDP_COPY,
        Copying::ZeroCopy => libc::XDP_ZEROCOPY,
    };
    let addr = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        // The others do as the first.
        sxdp_flags: if first.is_some() { libc::XDP_SHARED_UMEM } else { how | libc::XDP_USE_NEED_WAKEUP },
        sxdp_ifindex: place.interface,
        sxdp_queue_id: place.queue,
        sxdp_shared_umem_fd: first.map_or(0, |first| first.as_raw_fd() as u32),
    };
    // SAFETY: the address is a whole sockaddr_xdp and its length is given.
    let done = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const addr).cast(), size_of::<libc::sockaddr_xdp>() as libc::socklen_t)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whoever asks the socket for frames polls the driver, and interrupts rest as long as somebody does.
fn poll_busily(socket: BorrowedFd<'_>, microseconds: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1i32)?;
    set_option(socket, libc::SOL_SOCKET, SO_BUSY_POLL, &(microseconds.min(i32::MAX as u32) as i32))?;
    set_option(socket, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, &BUSY_POLL_BUDGET)
}

fn offsets(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: all-zero bytes are a valid value of this C structure.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { core::mem::zeroed() };
    option(socket, libc::XDP_MMAP_OFFSETS, &mut offsets).map(|()| offsets)
}

fn is_zero_copy(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut options = libc::xdp_options { flags: 0 };
    option(socket, libc::XDP_OPTIONS, &mut options)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// Reads an option that is a C structure of integers.
fn option<T>(socket: BorrowedFd<'_>, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `value`, which is that long and of integers.
    let done =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, name, (&raw mut *value).cast(), &raw mut length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
