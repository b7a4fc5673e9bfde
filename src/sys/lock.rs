//! Locks of what is right between any two statements: a thread that has died with one leaves nothing half done.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is in a lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
