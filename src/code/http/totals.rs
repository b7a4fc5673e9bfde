//! What is counted of fetches by HTTP.

use std::sync::atomic::{AtomicU64, Ordering};

/// All of it.
#[derive(Debug, Default)]
pub struct HttpTotals {
    /// Fetches that were asked for.
    pub begun: AtomicU64,
    /// Those whose code is in the store.
    pub stored: AtomicU64,
    /// Those that led where nothing is fetched from, or were too many.
    pub refused: AtomicU64,
    /// Those that brought nothing, or something else.
    pub failed: AtomicU64,
    /// Redirections that were followed.
    pub redirected: AtomicU64,
    /// Bytes of code.
    pub bytes: AtomicU64,
}

impl HttpTotals {
    /// All of it.
    pub fn status(&self) -> model::status::HttpFetches {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        model::status::HttpFetches {
            begun: of(&self.begun),
            stored: of(&self.stored),
            refused: of(&self.refused),
            failed: of(&self.failed),
            redirected: of(&self.redirected),
            bytes: of(&self.bytes),
        }
    }
}
