//! Heaps: memory of the process that is charged to a memory pool of the node's.
//!
//! The node is asked in larger pieces, not for every allocation. What a heap still holds goes with it.

use crate::error::Error;
use crate::message::Call;
use crate::session::Session;
use core::ffi::c_void;
use std::alloc::Layout;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are charged at a time.
const PIECE: u64 = 64 << 10;

/// How allocations are aligned: for anything in C.
const ALIGNMENT: usize = 16;

/// Bytes that are there before a call allocates what is small: more than any call does, and less than what the
/// system's allocator maps by itself, so that they stay with it when they are given back.
const ROOM: usize = 64 << 10;

/// Refuses if the process has no memory for what a call allocates, which would end it otherwise.
pub fn has_room() -> Result<(), Error> {
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(ROOM).map_err(|_| Error::Memory)?;
    core::hint::black_box(&mut room);
    Ok(())
}

#[derive(Default)]
struct Blocks {
    sizes: HashMap<usize, usize>,
    used: u64,
    charged: u64,
}

/// A heap.
pub struct Heap {
    session: Arc<Session>,
    domain: u32,
    pool: u32,
    limit: u64,
    blocks: Mutex<Blocks>,
}

impl Heap {
    /// An empty heap that takes at most `limit` bytes from a pool; 0: as many as that has.
    pub fn new(session: Arc<Session>, domain: u32, pool: u32, limit: u64) -> Heap {
        let limit = if limit == 0 { u64::MAX } else { limit };
        Heap { session, domain, pool, limit, blocks: Mutex::default() }
    }

    /// Its session.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The domain it goes with.
    pub fn domain(&self) -> u32 {
        self.domain
    }

    /// Allocates zeroed memory.
    pub fn alloc(&self, bytes: usize) -> Result<*mut c_void, Error> {
        let layout = Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| Error::Invalid)?;
        if bytes == 0 {
            return Err(Error::Invalid);
        }
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let used = blocks.used.saturating_add(bytes as u64);
        if used > self.limit {
            return Err(Error::Limit);
        }
        // Beyond what a call may take without asking: a table doubles.
        blocks.sizes.try_reserve(1).map_err(|_| Error::Memory)?;
        let before = blocks.charged;
        if used > blocks.charged {
            let more = (used - blocks.charged).next_multiple_of(PIECE).min(self.limit - blocks.charged);
            let bytes = i64::try_from(more).map_err(|_| Error::Limit)?;
            self.session.call(&Call::PoolCharge { pool: self.pool, bytes })?;
            blocks.charged += more;
        }
        // SAFETY: the layout has a size that is not 0.
        let block = unsafe { std::alloc::alloc_zeroed(layout) };
        if block.is_null() {
            let more = blocks.charged - before;
            // What the node does not take back now goes back with the heap.
            if more > 0 && self.session.call(&Call::PoolCharge { pool: self.pool, bytes: -(more as i64) }).is_ok() {
                blocks.charged = before;
            }
            return Err(Error::Memory);
        }
        blocks.sizes.insert(block as usize, bytes);
        blocks.used = used;
        Ok(block.cast())
    }

    /// Frees memory of this heap.
    pub fn free(&self, block: *mut c_void) -> Result<(), Error> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = blocks.sizes.remove(&(block as usize)).ok_or(Error::Invalid)?;
        blocks.used -= bytes as u64;
        release(block as usize, bytes);
        Ok(())
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        let blocks = self.blocks.get_mut().unwrap_or_else(PoisonError::into_inner);
        blocks.sizes.drain().for_each(|(block, bytes)| release(block, bytes));
        if blocks.charged > 0 {
            // With the session its charges have ended too.
            let _ = self.session.call(&Call::PoolCharge { pool: self.pool, bytes: -(blocks.charged as i64) });
        }
    }
}

/// Gives a block back that a heap has allocated and taken out of its table.
fn release(block: usize, bytes: usize) {
    if let Ok(layout) = Layout::from_size_align(bytes, ALIGNMENT) {
        // SAFETY: the block was allocated with this layout, and its entry in the table, of which there is one, is gone.
        unsafe { std::alloc::dealloc(block as *mut u8, layout) };
    }
}
