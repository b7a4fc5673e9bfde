//! Waiting for many descriptors, and waking a waiting thread from another.
//!
//! Sockets of ports are waited for by poll(2), all others behind them by epoll(7). An epoll set stays on
//! the socket's list of waiters all the time, so the kernel would call it for every packet that the
//! socket sends; poll is on that list only while the thread sleeps.

use rustix::event::epoll;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::Timespec;
use std::io;
use std::sync::Arc;

/// A set of descriptors, each with a number to know it by.
pub struct Poll {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    ports: Vec<Port>,
}

/// A descriptor waited for by poll(2).
struct Port {
    fd: OwnedFd,
    token: u64,
    sends: bool,
    writable: bool,
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
        Ok(Poll {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            ready: Vec::with_capacity(64),
            ports: Vec::new(),
        })
    }

    /// Adds a descriptor to be told of when it can be read.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    /// Adds a descriptor to be told of whenever it is written to. It is never read, so whoever shares it cannot make us wait.
    pub fn add_edge(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), flags)?)
    }

    /// Adds a socket of a port, the one that `sends` or another, to be told of when it can be read. It stays.
    pub fn add_port(&mut self, fd: impl AsFd, token: u64, sends: bool) -> io::Result<()> {
        self.ports.push(Port { fd: fd.as_fd().try_clone_to_owned()?, token, sends, writable: false });
        Ok(())
    }

    /// Takes the sockets of the port with this number out.
    pub fn drop_port(&mut self, token: u64) {
        self.ports.retain(|port| port.token != token);
    }

    /// Says whether to be told also when the port with this number can be written.
    pub fn want_write(&mut self, token: u64, wanted: bool) {
        let sender = |port: &&mut Port| port.sends && port.token == token;
        self.ports.iter_mut().filter(sender).for_each(|port| port.writable = wanted);
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
        into.clear();
        let flags = |port: &Port| if port.writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut all: Vec<PollFd<'_>> = vec![PollFd::new(&self.epoll, PollFlags::IN)];
        all.extend(self.ports.iter().map(|port| PollFd::new(&port.fd, flags(port))));
        match poll(&mut all, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let others = !all[0].revents().is_empty();
        for (port, poll) in self.ports.iter().zip(&all[1..]) {
            if poll.revents().contains(PollFlags::ERR) {
                // An interface that went down says so until somebody has heard it. What came with it is seen by who reads or sends.
                let _ = rustix::net::sockopt::socket_error(&port.fd);
            }
        }
        into.extend(self.ports.iter().zip(&all[1..]).filter(|(_, poll)| !poll.revents().is_empty()).map(
            |(port, poll)| {
                let flags = poll.revents();
                let readable = flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
                Ready { token: port.token, readable, writable: flags.contains(PollFlags::OUT) }
            },
        ));
        if others { self.look(into) } else { Ok(()) }
    }

    /// Tells what of the epoll set is ready now.
    fn look(&mut self, into: &mut Vec<Ready>) -> io::Result<()> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.ready.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.ready), Some(&now)) {
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

    /// A descriptor that wakes the thread when somebody writes to it, for another process.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.event.try_clone()
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

    #[test]
    fn an_edge_is_seen_once_for_each_write_and_never_read() {
        let mut poll = Poll::new().unwrap();
        let waker = Waker::new().unwrap();
        poll.add_edge(&waker, 7).unwrap();
        let mut ready = Vec::new();
        for _ in 0..3 {
            waker.wake();
            poll.wait(1_000_000_000, &mut ready).unwrap();
            assert_eq!(ready, [Ready { token: 7, readable: true, writable: false }]);
            poll.wait(0, &mut ready).unwrap();
            assert!(ready.is_empty());
        }
    }

    #[test]
    fn a_port_is_told_of_beside_the_others() {
        let mut poll = Poll::new().unwrap();
        let (port, waker) = (Waker::new().unwrap(), Waker::new().unwrap());
        poll.add(&waker, 7).unwrap();
        poll.add_port(&port, 8, true).unwrap();
        poll.want_write(8, true);
        let (mut ready, idle) = (Vec::new(), Ready { token: 8, readable: false, writable: true });
        poll.wait(0, &mut ready).unwrap();
        assert_eq!(ready, [idle]);
        poll.want_write(8, false);
        port.wake();
        waker.wake();
        poll.wait(1_000_000_000, &mut ready).unwrap();
        let readable = |token| Ready { token, readable: true, writable: false };
        assert_eq!(ready, [readable(8), readable(7)]);
    }
}
