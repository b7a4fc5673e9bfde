//! Waiting for many descriptors, and waking a waiting thread from another.

use rustix::event::epoll;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::Timespec;
use std::io;
use std::sync::Arc;

/// A set of descriptors, each with a number to know it by.
pub struct Poll {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The descriptor's number.
    pub token: u64,
    /// It can be read, or its other end is gone.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
}

impl Poll {
    /// An empty set.
    pub fn new() -> io::Result<Poll> {
        Ok(Poll { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, ready: Vec::with_capacity(64) })
    }

    /// Adds a descriptor to be told of when it can be read.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    /// Says whether to be told also when the descriptor can be written.
    pub fn want_write(&self, fd: impl AsFd, token: u64, wanted: bool) -> io::Result<()> {
        let flags = if wanted { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token), flags)?)
    }

    /// Takes a descriptor out.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until something is ready or `nanoseconds` have passed, and tells what is.
    pub fn wait(&mut self, nanoseconds: u64, into: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: (nanoseconds / 1_000_000_000).min(3600) as i64,
            tv_nsec: (nanoseconds % 1_000_000_000) as _,
        };
        self.ready.clear();
        into.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.ready), Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        into.extend(self.ready.iter().map(|event| {
            let flags = event.flags;
            Ready {
                token: event.data.u64(),
                readable: flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR),
                writable: flags.contains(epoll::EventFlags::OUT),
            }
        }));
        Ok(())
    }
}

/// Wakes a thread that waits in [`Poll::wait`].
#[derive(Clone)]
pub struct Waker {
    event: Arc<OwnedFd>,
}

impl Waker {
    /// A waker; add it to the poll of the thread to be woken.
    pub fn new() -> io::Result<Waker> {
        Ok(Waker { event: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?) })
    }

    /// Wakes the thread, now or when it waits next.
    pub fn wake(&self) {
        // Only a counter at its end could make this fail, and then the thread is woken anyway.
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
    }

    /// Takes the wake-ups so far back: call it when woken.
    pub fn rest(&self) {
        let _ = rustix::io::read(&*self.event, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_is_seen_once_until_it_rests() {
        let mut poll = Poll::new().unwrap();
        let waker = Waker::new().unwrap();
        poll.add(&waker, 7).unwrap();
        let mut ready = Vec::new();
        poll.wait(0, &mut ready).unwrap();
        assert!(ready.is_empty());
        waker.wake();
        waker.wake();
        poll.wait(1_000_000_000, &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 7, readable: true, writable: false }]);
        waker.rest();
        poll.wait(0, &mut ready).unwrap();
        assert!(ready.is_empty());
    }
}
