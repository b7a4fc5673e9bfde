//! Files of the node that say what workers share, made of loom's atomics and locks in the place of std's: see `interleaved`.
#![allow(dead_code, reason = "the node uses the rest")]

use anode::core::domain::DomainId;
use anode::trust::limits::Limits;

#[path = "../../src/core/common/account.rs"]
pub mod account;
#[path = "../../src/core/common/state.rs"]
pub mod state;

/// The soft state of a code that may have so many entries, in a table of that many.
pub fn state(entries: u32) -> state::CommonState {
    let limits = Limits { state_entries: entries, keep_ms_max: 60_000, ..Limits::default() };
    let store = std::sync::Arc::new(state::CommonStore::new(entries as usize));
    state::CommonState::new(store, DomainId(3), 1, &limits)
}

mod sync {
    pub use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
    pub use loom::sync::{Mutex, MutexGuard};

    /// Parts of the table of soft state: as many as tell one from another.
    pub const PARTS: usize = 2;

    /// A cell that is set once. What was set is never freed, so that its address is good for as long as the model runs.
    #[derive(Debug)]
    pub struct OnceLock<T: 'static>(loom::sync::atomic::AtomicPtr<T>);

    impl<T> OnceLock<T> {
        pub fn new() -> OnceLock<T> {
            OnceLock(loom::sync::atomic::AtomicPtr::new(std::ptr::null_mut()))
        }

        pub fn get(&self) -> Option<&T> {
            let pointer = self.0.load(Acquire);
            // SAFETY: whoever has set it has leaked a box, and nobody changes what is in it.
            unsafe { pointer.as_ref() }
        }

        pub fn set(&self, value: T) -> Result<(), ()> {
            let (new, none) = (Box::into_raw(Box::new(value)), std::ptr::null_mut());
            self.0.compare_exchange(none, new, Release, Relaxed).map(drop).map_err(drop)
        }
    }
}
