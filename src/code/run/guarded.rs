//! Memory for optimised code that ends at a page boundary, with nothing mapped behind: the processor stops an access
//! beyond its last byte.
//!
//! ```text
//!   start                    base = boundary - N          boundary
//!     |<------- 64 KiB, to read and write ------------------>|<--- 4 GiB and a guard, inaccessible --->|
//!     | never reached            | N bytes of memory         | every address that code can compute     |
//! ```
//!
//! A capsule's memory has pages of one byte, so that it is as small as what the code needs. For such pages wasmtime compares every address
//! with the end, and masks it against speculation. An address is 32 bits wide: if the memory ends where a page ends, and 4 GiB behind
//! it are reserved, neither is needed, and the same accesses trap. So the module is written again for the optimiser with one page of 64 KiB
//! ([`rewritten`]), whose maximum, which nothing else uses since no memory grows, tells [`Guarded`] how many bytes there really are.

#![allow(unsafe_code)]

use super::super::check::WasmFacts;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::sync::Arc;
use wasm_encoder::{MemorySection, MemoryType, Module, RawSection};
use wasmparser::{Parser, Payload};
use wasmtime::{LinearMemory, MemoryCreator};

/// Bytes of a page of WebAssembly, and of the part that is to read and write: a multiple of every processor's pages.
const PAGE: usize = 1 << 16;

/// The same module for a [`Guarded`] memory. Nothing if its code would see the difference, or has whole pages already.
pub(super) fn rewritten(wasm: &[u8], facts: &WasmFacts) -> Option<Vec<u8>> {
    if !facts.byte_pages || facts.bulk_memory || facts.reads_memory_size || facts.memory_bytes == 0 {
        return None;
    }
    let mut module = Module::new();
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.ok()? {
            Payload::CustomSection(_) => {}
            Payload::MemorySection(_) => {
                let mut section = MemorySection::new();
                section.memory(MemoryType {
                    minimum: 1,
                    maximum: Some(facts.memory_bytes.into()),
                    memory64: false,
                    shared: false,
                    page_size_log2: None,
                });
                module.section(&section);
            }
            payload => {
                if let Some((id, range)) = payload.as_section() {
                    module.section(&RawSection { id, data: wasm.get(range)? });
                }
            }
        }
    }
    Some(module.finish())
}

/// Makes memories for instances of [`rewritten`] modules: at most so many at a time.
pub(super) struct Guarded {
    most: u32,
    living: Arc<AtomicU32>,
}

impl Guarded {
    /// At most `most` at a time: each reserves a little more than 4 GiB of addresses, and uses what its code touches.
    pub(super) fn new(most: u32) -> Arc<Guarded> {
        Arc::new(Guarded { most, living: Arc::default() })
    }
}

/// One memory.
struct Mapped {
    start: NonNull<u8>,
    /// Bytes of all that is mapped.
    whole: usize,
    /// Bytes of the memory.
    bytes: usize,
    living: Arc<AtomicU32>,
}

// SAFETY: a mapping belongs to the process and not to a thread; who reads and writes it is decided by whoever has the instance.
unsafe impl Send for Mapped {}
// SAFETY: as above, and nothing can be changed by a shared reference.
unsafe impl Sync for Mapped {}

// SAFETY: a memory is zeros, `byte_size` of them are to read and write from `as_ptr` on, and `reserved` and `guard` bytes
// behind them are inaccessible: `reserved` is what the engine was told, 4 GiB, and it lets code compute addresses no further than
// `reserved + guard` behind the first byte. Code compiled by that engine therefore stays within the mapping.
unsafe impl MemoryCreator for Guarded {
    fn new_memory(
        &self,
        _kind: wasmtime::MemoryType,
        minimum: usize,
        maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let bytes = maximum.unwrap_or(0) / PAGE;
        let fits = minimum == PAGE && (1..=PAGE).contains(&bytes) && reserved.is_some_and(|bytes| bytes >= 1 << 32);
        let whole = reserved.and_then(|reserved| PAGE.checked_add(reserved)?.checked_add(guard)).filter(|_| fits);
        let whole = whole.ok_or("no memory of this shape is made here")?;
        if self.living.fetch_add(1, Relaxed) >= self.most {
            self.living.fetch_sub(1, Relaxed);
            return Err(format!("{} memories are in use", self.most));
        }
        let mapped = map(whole).map(|start| Mapped { start, whole, bytes, living: self.living.clone() });
        let mapped = mapped.inspect_err(|_| {
            self.living.fetch_sub(1, Relaxed);
        });
        Ok(Box::new(mapped.map_err(|error| error.to_string())?))
    }
}

/// Reserves addresses, of which the first [`PAGE`] are to read and write.
fn map(whole: usize) -> rustix::io::Result<NonNull<u8>> {
    // SAFETY: a new mapping, where the kernel finds room, touches nothing that is there.
    let start =
        unsafe { mmap_anonymous(null_mut(), whole, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)? };
    // SAFETY: these bytes are those just mapped, and nobody else knows of them.
    let opened = unsafe { mprotect(start, PAGE, MprotectFlags::READ | MprotectFlags::WRITE) };
    match (opened, NonNull::new(start.cast::<u8>())) {
        (Ok(()), Some(start)) => Ok(start),
        (opened, _) => {
            // SAFETY: as above.
            let _ = unsafe { munmap(start, whole) };
            Err(opened.err().unwrap_or(rustix::io::Errno::NOMEM))
        }
    }
}

// SAFETY: see `Guarded`; the memory neither grows nor moves.
unsafe impl LinearMemory for Mapped {
    fn byte_size(&self) -> usize {
        self.bytes
    }

    fn byte_capacity(&self) -> usize {
        self.bytes
    }

    fn grow_to(&mut self, _bytes: usize) -> wasmtime::Result<()> {
        Err(wasmtime::Error::msg("memories of capsules do not grow"))
    }

    fn as_ptr(&self) -> *mut u8 {
        // SAFETY: `bytes` is between 1 and `PAGE`, and that many are mapped from the start on.
        unsafe { self.start.as_ptr().add(PAGE - self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and the instance that used it is gone.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.whole) };
        self.living.fetch_sub(1, Relaxed);
    }
}
