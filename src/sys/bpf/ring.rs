//! The kernel's ring buffer, of the side that reads (Documentation/bpf/ringbuf.rst).
//!
//! ```text
//! page 0: how far was read, written here · page 1: how far was written, by the kernel · then the data, twice in a row
//! ```
//!
//! So a record that begins before the end of the data is in one piece. The kernel writes nothing over what was not read.

use super::map::Map;
use crate::sys::mapping::{Mapping, SharedWords};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::io;
use std::os::fd::AsFd;

/// Bytes before a record: its length with two marks, and where it is.
const HEAD: usize = 8;

/// Marks of a length: somebody writes it still; it is to be passed over.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// A ring buffer, to be read.
#[derive(Debug)]
pub struct RingBuffer {
    /// How far was read.
    read: SharedWords,
    /// All of it.
    all: Mapping,
    page: usize,
    size: usize,
}

impl RingBuffer {
    /// That of a map of so many bytes, a power of two.
    pub fn of(map: &Map, size: usize) -> io::Result<RingBuffer> {
        let page = rustix::param::page_size();
        if !size.is_power_of_two() || !size.is_multiple_of(page) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let read = SharedWords::map(map.as_fd(), page)?;
        let all = Mapping::shared_to_read(map.as_fd(), 2 * page + 2 * size)?;
        Ok(RingBuffer { read, all, page, size })
    }

    /// Hands all records over that are there.
    pub fn read(&mut self, mut take: impl FnMut(&[u8])) {
        let mut at = self.read.load(0);
        let written = self.written();
        while at < written {
            let place = 2 * self.page + (at as usize & (self.size - 1));
            // SAFETY: the place is a multiple of 8 below the end of the first copy of the data, so within the mapping, and the kernel
            // writes it as a whole.
            let length =
                unsafe { AtomicU32::from_ptr(self.all.base().as_ptr().add(place).cast()) }.load(Ordering::Acquire);
            if length & BUSY != 0 {
                break;
            }
            let bytes = (length & !(BUSY | DISCARDED)) as usize;
            if bytes > self.size {
                // No record is so long: nothing behind it can be found.
                at = written;
                break;
            }
            if length & DISCARDED == 0 {
                // SAFETY: a record is at most as long as the data, which is there twice, so it ends within the mapping; the kernel does not
                // write there before `read` is past it.
                take(unsafe { core::slice::from_raw_parts(self.all.base().as_ptr().add(place + HEAD), bytes) });
            }
            at += (bytes + HEAD).next_multiple_of(8) as u64;
            self.read.store(0, at);
        }
        self.read.store(0, at);
    }

    fn written(&self) -> u64 {
        // SAFETY: the second page is within the mapping, and begins with a word that the kernel writes as a whole.
        unsafe { AtomicU64::from_ptr(self.all.base().as_ptr().add(self.page).cast()) }.load(Ordering::Acquire)
    }
}
