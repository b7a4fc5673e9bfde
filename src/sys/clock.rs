//! The clock of real nodes: monotonic nanoseconds, of the host or since a moment.

#![allow(unsafe_code)]

use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since the clock began; never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: u64,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Clock {
        Clock { origin: monotonic() }
    }

    /// The host's own: the same for all its nodes and the kernel, so that times of several can be subtracted.
    pub fn of_host() -> Clock {
        Clock { origin: 0 }
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

/// What time it is, in nanoseconds since 1970; 0 before.
pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// The largest number of a process: the kernel's PID_MAX_LIMIT.
const PID_MAX: u32 = 1 << 22;

/// CPU time of a process so far, all its threads, in nanoseconds; nothing if it is gone.
pub fn process_cpu(pid: u32) -> Option<u64> {
    if pid > PID_MAX {
        // Names of clocks have not room for all numbers.
        return None;
    }
    let mut clock = 0;
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both functions write to the place given and nothing else; the second uses what the first has found.
    let known = unsafe {
        libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) == 0 && libc::clock_gettime(clock, &mut used) == 0
    };
    known.then_some(used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_is_at_least_that_of_a_thread() {
        let thread = thread_cpu();
        assert!(process_cpu(std::process::id()).is_some_and(|process| process >= thread));
        assert_eq!((process_cpu(PID_MAX), process_cpu(u32::MAX)), (None, None));
    }
}
