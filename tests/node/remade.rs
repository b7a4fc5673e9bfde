//! Files of the node that say what workers share, made of loom's atomics and locks in the place of std's: see `interleaved`.
#![allow(dead_code, reason = "the node uses the rest")]

use anode::core::domain::DomainId;
use anode::trust::limits::Limits;

#[path = "../../src/core/common/account.rs"]
pub mod account;
#[path = "../../src/core/common/bucket.rs"]
mod bucket;
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

    /// A cell that is set once. What was set is never freed: a model is short.
    #[derive(Debug)]
    pub struct OnceLock<T: 'static>(Mutex<Option<&'static T>>);

    impl<T> OnceLock<T> {
        pub fn new() -> OnceLock<T> {
            OnceLock(Mutex::new(None))
        }

        pub fn get(&self) -> Option<&T> {
            *self.0.lock().unwrap()
        }

        pub fn set(&self, value: T) -> Result<(), ()> {
            let mut place = self.0.lock().unwrap();
            if place.is_some() {
                return Err(());
            }
            *place = Some(Box::leak(Box::new(value)));
            Ok(())
        }
    }
}
