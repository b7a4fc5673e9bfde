//! The clock of real nodes.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the clock was made; never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: u64,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Clock {
        Clock { origin: monotonic() }
    }

    /// A clock that began at `origin` of the system's monotonic clock, in nanoseconds.
    pub fn since(origin: u64) -> Clock {
        Clock { origin }
    }

    /// When it began, in nanoseconds of the system's monotonic clock.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> u64 {
        monotonic() - self.origin
    }
}

#[inline]
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}
