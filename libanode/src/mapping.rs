//! Memory mapped into the process: its own, or shared with the kernel behind a descriptor (mmap(2)).

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A mapping; it goes with this value.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is plain memory that belongs to no thread; whoever reads or writes it says why it may.
unsafe impl Send for Mapping {}
// SAFETY: as above: this type gives out an address only.
unsafe impl Sync for Mapping {}

/// Memory to read and to write.
const BOTH: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

impl Mapping {
    /// New memory of the process's own, zeroed.
    pub fn anonymous(length: usize) -> io::Result<Mapping> {
        Mapping::make(length, BOTH, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// Memory shared through a descriptor.
    pub fn shared(of: BorrowedFd<'_>, length: usize, offset: libc::off_t) -> io::Result<Mapping> {
        Mapping::make(length, BOTH, libc::MAP_SHARED | libc::MAP_POPULATE, of.as_raw_fd(), offset)
    }

    /// The same for who may only read it.
    pub fn shared_to_read(of: BorrowedFd<'_>, length: usize) -> io::Result<Mapping> {
        Mapping::make(length, libc::PROT_READ, libc::MAP_SHARED, of.as_raw_fd(), 0)
    }

    fn make(
        length: usize,
        access: libc::c_int,
        flags: libc::c_int,
        fd: libc::c_int,
        offset: libc::off_t,
    ) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), length, access, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, length })
    }

    /// Where it begins.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none, which no mapping is.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `make` with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// Words that the process shares with programs in the kernel: each is read and written as a whole.
#[derive(Debug)]
pub struct SharedWords(Mapping);

impl SharedWords {
    /// Maps the memory behind a descriptor, from its beginning.
    pub fn map(of: BorrowedFd<'_>, bytes: usize) -> io::Result<SharedWords> {
        Mapping::shared(of, bytes, 0).map(SharedWords)
    }

    /// The word with this number.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn at(&self, index: usize) -> &AtomicU64 {
        assert!((index + 1) * size_of::<u64>() <= self.0.len(), "a word of the shared memory");
        // SAFETY: the word lies within the mapping, which begins at a page and lives as long as `self`; both sides access
        // it as a word only.
        unsafe { AtomicU64::from_ptr(self.0.base().cast::<u64>().add(index).as_ptr()) }
    }

    /// Reads a word.
    #[inline]
    pub fn load(&self, index: usize) -> u64 {
        self.at(index).load(Ordering::Acquire)
    }

    /// Writes a word.
    #[inline]
    pub fn store(&self, index: usize, value: u64) {
        self.at(index).store(value, Ordering::Release);
    }
}

/// Words that another process writes, and this one reads: each as a whole.
#[derive(Debug)]
pub struct ForeignWords(Mapping);

impl ForeignWords {
    /// Maps the memory behind a descriptor, which must be that long, from its beginning.
    pub fn map(of: BorrowedFd<'_>, bytes: usize) -> io::Result<ForeignWords> {
        Mapping::shared_to_read(of, bytes).map(ForeignWords)
    }

    /// Reads a word; zero if there is none.
    #[inline]
    pub fn load(&self, index: usize) -> u64 {
        if (index + 1) * size_of::<u64>() > self.0.len() {
            return 0;
        }
        // SAFETY: the word lies within the mapping, which begins at a page and lives as long as `self`; it is only read, which an
        // atomic load of a machine word does with memory that may not be written too.
        unsafe { AtomicU64::from_ptr(self.0.base().cast::<u64>().add(index).as_ptr()) }.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_memory_is_zero_and_of_the_length_asked_for() {
        let memory = Mapping::anonymous(8192).unwrap();
        // SAFETY: the mapping is that long and nobody else knows it.
        let bytes = unsafe { core::slice::from_raw_parts(memory.base().as_ptr(), memory.len()) };
        assert!(bytes.len() == 8192 && bytes.iter().all(|byte| *byte == 0));
    }
}
