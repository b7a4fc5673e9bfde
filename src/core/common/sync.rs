//! What is shared between threads is made of these. In `tests/node/interleaved.rs`, which has [`super::account`], [`super::bucket`] and
//! [`super::state`] as modules of its own, they are those of loom, which tries every order of the threads' steps.

pub use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
pub use std::sync::{Mutex, MutexGuard, OnceLock};

/// Parts of the table of soft state.
pub const PARTS: usize = 64;
