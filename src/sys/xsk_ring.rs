//! The rings between an AF_XDP socket and the kernel (networking/af_xdp in the kernel's documentation).
//!
//! A ring has one producer and one consumer. Each moves its own position, a counter that wraps, and looks at the
//! other's; an entry belongs to the consumer between the two. Fill and transmit rings are ours to put into ([`Outbound`]),
//! receive and completion rings ours to take from ([`Inbound`]).

use super::mapping::Mapping;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::os::fd::BorrowedFd;

/// What stands in a ring: a plain C value, for which every pattern of bytes is one.
///
/// # Safety
/// As said.
pub(super) unsafe trait Entry: Copy {}

// SAFETY: an integer.
unsafe impl Entry for u64 {}
// SAFETY: a structure of integers without padding.
unsafe impl Entry for libc::xdp_desc {}

/// A ring in memory shared with the kernel.
struct Ring<T> {
    memory: Mapping,
    offsets: libc::xdp_ring_offset,
    size: u32,
    /// Our position, and the other side's as last seen.
    here: u32,
    there: u32,
    entries: PhantomData<T>,
}

impl<T: Entry> Ring<T> {
    fn map(
        socket: BorrowedFd<'_>,
        offsets: libc::xdp_ring_offset,
        size: u32,
        page: libc::off_t,
    ) -> io::Result<Ring<T>> {
        assert!(size.is_power_of_two(), "the size of a ring");
        let length = offsets.desc as usize + size as usize * size_of::<T>();
        let memory = Mapping::shared(socket, length, page)?;
        Ok(Ring { memory, offsets, size, here: 0, there: 0, entries: PhantomData })
    }

    /// A word in front of the entries.
    #[inline]
    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel gave the offset, of an aligned word in front of the entries; the mapping holds the entries too
        // and lives as long as `self`, and both sides access the word as a word only.
        unsafe { AtomicU32::from_ptr(self.memory.base().add(offset as usize).cast::<u32>().as_ptr()) }
    }

    /// Where the entry for this position is.
    #[inline]
    fn entry(&self, position: u32) -> NonNull<T> {
        let at = self.offsets.desc as usize + (position & (self.size - 1)) as usize * size_of::<T>();
        // SAFETY: the position is masked by the size, so the entry lies within the mapping, which was made for that many.
        unsafe { self.memory.base().add(at).cast() }
    }

    /// Whether the kernel wants to be woken.
    #[inline]
    fn sleeps(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring that we put entries into.
pub(super) struct Outbound<T>(Ring<T>);

impl<T: Entry> Outbound<T> {
    /// The ring of this size at this page of the socket.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        offsets: libc::xdp_ring_offset,
        size: u32,
        page: libc::off_t,
    ) -> io::Result<Outbound<T>> {
        Ring::map(socket, offsets, size, page).map(Outbound)
    }

    /// Entries that the kernel has not taken yet, among those shown to it.
    #[inline]
    pub(super) fn waiting(&mut self) -> u32 {
        let ring = &mut self.0;
        ring.there = ring.word(ring.offsets.consumer).load(Ordering::Acquire);
        ring.here.wrapping_sub(ring.there)
    }

    /// Puts an entry in; false if there is no room.
    #[inline]
    pub(super) fn put(&mut self, entry: T) -> bool {
        if self.0.here.wrapping_sub(self.0.there) >= self.0.size && self.waiting() >= self.0.size {
            return false;
        }
        let ring = &mut self.0;
        // SAFETY: the kernel is done with this entry (it is not between its position and ours) and sees it after `show` only.
        unsafe { ring.entry(ring.here).as_ptr().write(entry) };
        ring.here = ring.here.wrapping_add(1);
        true
    }

    /// Shows the kernel what was put in.
    #[inline]
    pub(super) fn show(&self) {
        self.0.word(self.0.offsets.producer).store(self.0.here, Ordering::Release);
    }

    /// Whether the kernel wants to be woken.
    #[inline]
    pub(super) fn sleeps(&self) -> bool {
        self.0.sleeps()
    }
}

/// A ring that we take entries from.
pub(super) struct Inbound<T>(Ring<T>);

impl<T: Entry> Inbound<T> {
    /// The ring of this size at this page of the socket.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        offsets: libc::xdp_ring_offset,
        size: u32,
        page: libc::off_t,
    ) -> io::Result<Inbound<T>> {
        Ring::map(socket, offsets, size, page).map(Inbound)
    }

    /// Takes the oldest entry.
    #[inline]
    pub(super) fn take(&mut self) -> Option<T> {
        let ring = &mut self.0;
        if ring.here == ring.there {
            ring.there = ring.word(ring.offsets.producer).load(Ordering::Acquire);
            if ring.here == ring.there {
                return None;
            }
        }
        // SAFETY: the kernel has shown this entry (it is between our position and its) and leaves it alone until `release`.
        let entry = unsafe { ring.entry(ring.here).as_ptr().read() };
        ring.here = ring.here.wrapping_add(1);
        Some(entry)
    }

    /// Gives the kernel back the room of what was taken.
    #[inline]
    pub(super) fn release(&self) {
        self.0.word(self.0.offsets.consumer).store(self.0.here, Ordering::Release);
    }
}
