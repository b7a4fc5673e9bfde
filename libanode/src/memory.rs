//! The memory that the node and one process share: three rings and the packet buffers.
//!
//! The node makes it (a memfd, sealed so that nobody can shrink it), maps it and hands it to the process. In words:
//!
//! ```text
//! up       node → process   packets and events
//! down     process → node   packets to send
//! back     process → node   buffers of the node's that are free again; holds all of them, so it never is full
//! threads  a word for each thread of the process: which domain it works for, and whether a function runs (odd) or it rests
//! buffers  the node's, filled for `up`; behind them the process's, filled for `down`
//! ```
//!
//! A packet is copied once at the boundary, into a buffer or out of one, since the process may change its memory at any time.

use crate::mapping::Mapping;
use crate::ring::{Cells, Place, words};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::thread::futex;
use rustix::time::Timespec;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Bytes free in front of a packet that the node puts into a buffer, for headers.
pub const HEADROOM: usize = 64;

/// Bytes of the largest buffer: offsets and lengths are 16 bits.
pub const BUFFER_BYTES_MAX: usize = 1 << 16;

/// Buffers of a session, at most: their numbers are 16 bits.
pub const BUFFERS_MAX: usize = 1 << 16;

/// Entries of a ring, at most.
const RING_MAX: usize = 1 << 16;

/// Threads of a session, at most.
const THREADS_MAX: u32 = 1024;

/// Words between those of two threads: each has a cache line.
const THREAD_WORDS: usize = 8;

/// Bytes of a page: where the buffers begin.
const PAGE: usize = 4096;

/// How much of what: the same numbers on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Entries of the ring to the process; a power of two.
    pub up: u32,
    /// Entries of the ring to the node; a power of two.
    pub down: u32,
    /// Buffers of the node's; a power of two.
    pub buffers_node: u32,
    /// Buffers of the process's.
    pub buffers_process: u32,
    /// Bytes of a buffer: a multiple of 64.
    pub buffer_bytes: u32,
    /// Threads of the process that can work at the same time.
    pub threads: u32,
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry { up: 1024, down: 1024, buffers_node: 512, buffers_process: 512, buffer_bytes: 2048, threads: 128 }
    }
}

impl Geometry {
    /// The same if it can be.
    pub fn checked(self) -> Option<Geometry> {
        let ring = |entries: u32| entries.is_power_of_two() && entries as usize <= RING_MAX;
        let buffers = u64::from(self.buffers_node) + u64::from(self.buffers_process);
        let bytes = self.buffer_bytes as usize;
        let fits = bytes.is_multiple_of(64) && bytes > HEADROOM && bytes <= BUFFER_BYTES_MAX;
        let rings = ring(self.up) && ring(self.down) && ring(self.buffers_node);
        let threads = (1..=THREADS_MAX).contains(&self.threads);
        (rings && fits && threads && buffers <= BUFFERS_MAX as u64).then_some(self)
    }

    /// All buffers.
    pub fn buffers(&self) -> usize {
        (self.buffers_node + self.buffers_process) as usize
    }

    /// Where the ring to the process lies.
    pub fn up(&self) -> Place {
        Place { base: 0, capacity: self.up as usize }
    }

    /// Where the ring to the node lies.
    pub fn down(&self) -> Place {
        Place { base: words(self.up as usize), capacity: self.down as usize }
    }

    /// Where the ring of free buffers lies.
    pub fn back(&self) -> Place {
        let down = self.down();
        Place { base: down.base + words(down.capacity), capacity: self.buffers_node as usize }
    }

    /// The word of a thread, if there is one with this number.
    pub fn thread(&self, number: u16) -> Option<usize> {
        let back = self.back();
        let first = back.base + words(back.capacity);
        (u32::from(number) < self.threads).then_some(first + usize::from(number) * THREAD_WORDS)
    }

    fn first_buffer(&self) -> usize {
        let back = self.back();
        let threads = self.threads as usize * THREAD_WORDS;
        ((back.base + words(back.capacity) + threads) * size_of::<u64>()).next_multiple_of(PAGE)
    }

    /// Bytes of it all.
    pub fn bytes(&self) -> usize {
        (self.first_buffer() + self.buffers() * self.buffer_bytes as usize).next_multiple_of(PAGE)
    }
}

/// The memory, mapped.
#[derive(Debug)]
pub struct Memory {
    mapping: Mapping,
    geometry: Geometry,
    words: usize,
}

impl Memory {
    /// Makes the memory of a session; the descriptor is for the process.
    pub fn make(geometry: Geometry) -> io::Result<(Arc<Memory>, OwnedFd)> {
        let geometry = geometry.checked().ok_or(io::ErrorKind::InvalidInput)?;
        let fd = memfd_create("anode-nodeos", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, geometry.bytes() as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = Memory::map(std::os::fd::AsFd::as_fd(&fd), geometry)?;
        Ok((memory, fd))
    }

    /// Maps the memory behind a descriptor.
    pub fn map(fd: BorrowedFd<'_>, geometry: Geometry) -> io::Result<Arc<Memory>> {
        let geometry = geometry.checked().ok_or(io::ErrorKind::InvalidInput)?;
        if rustix::fs::fstat(fd)?.st_size as u64 != geometry.bytes() as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mapping = Mapping::shared(fd, geometry.bytes(), 0)?;
        Ok(Arc::new(Memory { words: mapping.len() / size_of::<u64>(), mapping, geometry }))
    }

    /// How much of what.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// A word that both sides read and write as a whole; the first if there is none with this number.
    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        let at = if at < self.words { at } else { 0 };
        // SAFETY: the word lies within the mapping, which begins at a page and lives as long as `self`; Rust code of both sides
        // accesses shared memory through atomics only.
        unsafe { AtomicU64::from_ptr(self.mapping.base().cast::<u64>().add(at).as_ptr()) }
    }

    /// Waits until somebody wakes those that sleep at this word, if it is 1 now, or until the time has passed.
    pub fn sleep_at(&self, at: usize, time: Option<std::time::Duration>) {
        let time = time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        // Interrupted, woken, out of time or not 1 any more: the caller looks again in any case.
        let _ = futex::wait(self.half(at), futex::Flags::empty(), 1, time.as_ref());
    }

    /// Wakes who sleeps at this word. Never waits: unlike a descriptor, whose flags the other side could change.
    pub fn wake_at(&self, at: usize) {
        let _ = futex::wake(self.half(at), futex::Flags::empty(), u32::MAX >> 1);
    }

    /// The half of a word that the kernel compares: the lower one.
    fn half(&self, at: usize) -> &AtomicU32 {
        const { assert!(cfg!(target_endian = "little"), "the lower half of a word comes first") }
        let word = self.word(at).as_ptr().cast::<u32>();
        // SAFETY: a word is aligned for its half, and lives as long as `self`.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// Where bytes of a buffer are, or nothing if they do not lie within it.
    #[inline]
    fn span(&self, buffer: usize, offset: usize, length: usize) -> Option<*mut u8> {
        let size = self.geometry.buffer_bytes as usize;
        if buffer >= self.geometry.buffers() || offset > size || length > size - offset {
            return None;
        }
        // SAFETY: the buffers lie within the mapping behind the rings, and the bytes within one of them, as was just checked.
        Some(unsafe { self.mapping.base().as_ptr().add(self.geometry.first_buffer() + buffer * size + offset) })
    }

    /// The address of a buffer's byte, for programs in C. Nobody else reads or writes there while the buffer is theirs.
    pub fn address(&self, buffer: usize, offset: usize) -> Option<*mut u8> {
        self.span(buffer, offset, 0)
    }

    /// Copies bytes out of a buffer; false if they do not lie within it. The other side may write meanwhile: then the copy is what
    /// was there at some time, byte by byte.
    #[inline]
    pub fn copy_out(&self, buffer: usize, offset: usize, into: &mut [u8]) -> bool {
        let Some(mut from) = self.span(buffer, offset, into.len()) else { return false };
        let ahead = from.align_offset(8).min(into.len());
        let (first, rest) = into.split_at_mut(ahead);
        let mut words = rest.chunks_exact_mut(8);
        for byte in first {
            (*byte, from) = byte_at(from);
        }
        for word in &mut words {
            // SAFETY: aligned by the bytes before, and within the span; shared memory is accessed through atomics only.
            let value = unsafe { AtomicU64::from_ptr(from.cast()) }.load(Ordering::Relaxed);
            word.copy_from_slice(&value.to_ne_bytes());
            // SAFETY: at most the end of the span.
            from = unsafe { from.add(8) };
        }
        for byte in words.into_remainder() {
            (*byte, from) = byte_at(from);
        }
        true
    }

    /// Copies bytes into a buffer; false if they do not fit.
    #[inline]
    pub fn copy_in(&self, buffer: usize, offset: usize, bytes: &[u8]) -> bool {
        let Some(mut to) = self.span(buffer, offset, bytes.len()) else { return false };
        let (first, rest) = bytes.split_at(to.align_offset(8).min(bytes.len()));
        let words = rest.chunks_exact(8);
        let last = words.remainder();
        for byte in first {
            to = put_byte(to, *byte);
        }
        for word in words {
            let value = u64::from_ne_bytes(word.try_into().unwrap_or_default());
            // SAFETY: aligned by the bytes before, and within the span; shared memory is accessed through atomics only.
            unsafe { AtomicU64::from_ptr(to.cast()) }.store(value, Ordering::Relaxed);
            // SAFETY: at most the end of the span.
            to = unsafe { to.add(8) };
        }
        for byte in last {
            to = put_byte(to, *byte);
        }
        true
    }
}

/// Reads a byte of a span, and gives the address behind it.
#[inline]
fn byte_at(from: *mut u8) -> (u8, *mut u8) {
    // SAFETY: the callers count the bytes of a span, which lies in shared memory; that is accessed through atomics only.
    unsafe { (AtomicU8::from_ptr(from).load(Ordering::Relaxed), from.add(1)) }
}

/// Writes a byte of a span, and gives the address behind it.
#[inline]
fn put_byte(to: *mut u8, byte: u8) -> *mut u8 {
    // SAFETY: as for `byte_at`.
    unsafe {
        AtomicU8::from_ptr(to).store(byte, Ordering::Relaxed);
        to.add(1)
    }
}

impl Cells for Arc<Memory> {
    #[inline]
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.word(at).load(order)
    }

    #[inline]
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.word(at).store(value, order);
    }

    #[inline]
    fn fence(&self, order: Ordering) {
        fence(order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_in_and_out_at_any_offset_and_not_beyond_the_buffer() {
        let geometry = Geometry { buffer_bytes: 128, ..Geometry::default() };
        let (memory, fd) = Memory::make(geometry).unwrap();
        let other = Memory::map(std::os::fd::AsFd::as_fd(&fd), geometry).unwrap();
        let bytes: Vec<u8> = (0..128).collect();
        for offset in 0..=128 {
            for length in [0, 1, 7, 8, 9, 31, 128 - offset].into_iter().filter(|length| offset + length <= 128) {
                assert!(memory.copy_in(1023, offset, &bytes[..length]));
                let mut copy = vec![0xff; length];
                assert!(other.copy_out(1023, offset, &mut copy));
                assert_eq!(copy, bytes[..length], "offset {offset}");
            }
            assert!(!memory.copy_in(1023, offset, &bytes[..129 - offset.max(1)]) || offset == 0);
        }
        assert!(!memory.copy_in(1024, 0, &[]) && !other.copy_out(0, 1, &mut [0; 128]));
    }

    #[test]
    fn what_is_shared_cannot_be_shrunk_and_must_have_the_size_that_is_said() {
        let (_memory, fd) = Memory::make(Geometry::default()).unwrap();
        assert!(ftruncate(&fd, 0).is_err() && ftruncate(&fd, 1 << 30).is_err());
        let other = Geometry { buffers_node: 1024, ..Geometry::default() };
        assert!(Memory::map(std::os::fd::AsFd::as_fd(&fd), other).is_err());
        for bad in [
            Geometry { up: 3, ..Geometry::default() },
            Geometry { buffers_node: 0, ..Geometry::default() },
            Geometry { buffers_process: u32::MAX, ..Geometry::default() },
            Geometry { buffer_bytes: 65, ..Geometry::default() },
            Geometry { buffer_bytes: 64, ..Geometry::default() },
            Geometry { threads: 0, ..Geometry::default() },
        ] {
            assert_eq!(bad.checked(), None);
        }
    }
}
