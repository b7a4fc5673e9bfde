//! The ring in which the kernel leaves received frames: TPACKET_V2 (packet_mmap in the kernel's
//! documentation).
//!
//! A slot belongs to the kernel or to us, by its status word; taking a frame is a look at memory, and no
//! system call. Version 2 shows a frame at once, where version 3 holds it back to fill a block.

use super::option::set_option;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of a ring with much room, unless its frames are so long that `SLOTS_MIN` need more.
pub const RING: usize = 4 << 20;

/// Frames a ring holds at least.
const SLOTS_MIN: usize = 64;

/// Bytes a slot has for the kernel's header, the sender's link address and padding, before the frame.
const SLOT_HEAD: usize = 128;

/// Bytes of memory the kernel takes in one piece.
pub const BLOCK_MIN: usize = 64 << 10;

/// How many frames may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// As many as come while the node is at other work.
    #[default]
    Much,
    /// A few.
    Little,
    /// As many as fit into so many bytes, a power of two.
    Bytes(usize),
}

impl Room {
    /// Bytes of a ring with it; 0: the smallest.
    pub fn bytes(self) -> usize {
        match self {
            Room::Much => RING,
            Room::Little => 0,
            Room::Bytes(bytes) => bytes,
        }
    }

    /// For what comes seldom: a quarter.
    pub fn quarter(self) -> Room {
        Room::Bytes((self.bytes() / 4).max(BLOCK_MIN))
    }

    /// What each of so many sockets has that have so many bytes together, and no more than [`Room::Much`].
    pub fn each(sockets: usize, together: usize) -> Room {
        let bytes = (together / sockets.max(1)).clamp(BLOCK_MIN, RING);
        Room::Bytes(1 << bytes.ilog2())
    }
}

/// Where a VLAN tag stands: behind both addresses.
const TAG_AT: usize = 12;

/// A frame as it lies in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its bytes, as far as they are there.
    pub bytes: &'a [u8],
    /// Whether all of them are.
    pub whole: bool,
    /// Whether a checksum in it is still to be completed.
    pub unfinished: bool,
    /// The VLAN tag that stood behind its addresses.
    pub tag: Option<[u8; 4]>,
    /// When it came, in nanoseconds since 1970.
    pub at: u64,
}

impl Seen<'_> {
    /// The frame as it was on the wire: what stands before its tag, the tag if it has one, and the rest.
    pub fn pieces(&self) -> [&[u8]; 3] {
        let (front, rest) = self.bytes.split_at(TAG_AT.min(self.bytes.len()));
        [front, self.tag.as_ref().map_or(&[], |tag| tag), rest]
    }
}

/// The frames of one packet socket that nobody has taken yet.
pub struct ReceiveRing {
    base: NonNull<u8>,
    slot: usize,
    count: usize,
    next: usize,
    /// Frames that were longer than a slot and are nobody's.
    cut_short: u32,
}

// SAFETY: the mapping is this value's alone, and nothing about it belongs to a thread.
unsafe impl Send for ReceiveRing {}

/// Bytes of a slot, of a block and of all, for frames of up to `longest` bytes.
fn sizes(longest: usize, room: Room) -> (usize, usize, usize) {
    let slot = (longest + SLOT_HEAD).next_power_of_two().max(2048);
    let block = slot.max(BLOCK_MIN);
    (slot, block, room.bytes().max(slot * SLOTS_MIN))
}

/// Bytes of the smallest ring for frames of up to `longest` bytes.
pub fn least_ring(longest: usize) -> usize {
    sizes(longest, Room::Little).2
}

/// Has the kernel make a ring for a socket, which must not be bound yet.
pub fn make(socket: BorrowedFd<'_>, longest: usize, room: Room) -> io::Result<()> {
    let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
    let (slot, block, bytes) = sizes(longest, room);
    let request = libc::tpacket_req {
        tp_block_size: block as libc::c_uint,
        tp_block_nr: (bytes / block) as libc::c_uint,
        tp_frame_size: slot as libc::c_uint,
        tp_frame_nr: (bytes / slot) as libc::c_uint,
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
}

impl ReceiveRing {
    /// The ring that was made for a socket with [`make`].
    pub fn of(socket: BorrowedFd<'_>, longest: usize, room: Room) -> io::Result<ReceiveRing> {
        let (slot, _, bytes) = sizes(longest, room);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(ReceiveRing { base, slot, count: bytes / slot, next: 0, cut_short: 0 })
    }

    /// Frames since the last call of which the kernel had room for a part alone: they were longer than the ring is for.
    pub fn cut_short(&mut self) -> u32 {
        core::mem::take(&mut self.cut_short)
    }

    /// Shows the oldest frame that is whole to `look` and gives its slot back to the kernel; false if there is none.
    #[inline]
    pub fn take(&mut self, look: impl FnOnce(&[u8])) -> bool {
        let mut whole = false;
        let mut look = Some(look);
        while !whole {
            let show = |bytes: &[u8]| {
                if let Some(look) = look.take() {
                    look(bytes);
                }
                whole = true;
            };
            if !self.take_any(show) {
                return false;
            }
        }
        true
    }

    /// Gives the oldest slot back to the kernel; shows the frame in it if it is whole.
    #[inline]
    fn take_any(&mut self, look: impl FnOnce(&[u8])) -> bool {
        let mut whole = true;
        let some = self.see(|seen| {
            whole = seen.whole;
            if whole {
                look(seen.bytes);
            }
        });
        self.cut_short = self.cut_short.saturating_add(u32::from(!whole));
        some
    }

    /// Shows the oldest frame, whole or not, to `look` and gives its slot back to the kernel; false if there is none.
    #[inline]
    pub fn see(&mut self, look: impl FnOnce(Seen<'_>)) -> bool {
        // SAFETY: `next` is below `count`, so the slot lies within the mapping, which is `count` slots long.
        let slot = unsafe { self.base.add(self.next * self.slot) };
        // SAFETY: a slot begins with its status word, aligned as the slot is to 2048; the kernel and we access it
        // as a word only.
        let status = unsafe { AtomicU32::from_ptr(slot.cast().as_ptr()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        let header = slot.cast::<libc::tpacket2_hdr>().as_ptr();
        // SAFETY: the status says that the slot is ours until we give it back; it begins with this header, of integers alone.
        let header = unsafe { header.read() };
        let (start, length, flags) = (usize::from(header.tp_mac), header.tp_snaplen as usize, header.tp_status);
        let there = length.min(self.slot.saturating_sub(start));
        // SAFETY: as above, and the bytes lie within the slot.
        let bytes = unsafe { core::slice::from_raw_parts(slot.as_ptr().add(start.min(self.slot)), there) };
        let tag = || {
            let kind = if flags & libc::TP_STATUS_VLAN_TPID_VALID == 0 { 0x8100 } else { header.tp_vlan_tpid };
            let ([a, b], [c, d]) = (kind.to_be_bytes(), header.tp_vlan_tci.to_be_bytes());
            [a, b, c, d]
        };
        look(Seen {
            bytes,
            whole: there as u64 >= u64::from(header.tp_len),
            unfinished: flags & libc::TP_STATUS_CSUMNOTREADY != 0,
            tag: (flags & libc::TP_STATUS_VLAN_VALID != 0).then(tag),
            at: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
        });
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = if self.next + 1 == self.count { 0 } else { self.next + 1 };
        true
    }
}

impl Drop for ReceiveRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `of` with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.slot * self.count) };
    }
}
