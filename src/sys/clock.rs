//! The clock of real nodes.

use std::time::Instant;

/// Nanoseconds since the clock was made; never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}
