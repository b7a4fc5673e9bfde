//! Waiting for many descriptors, and waking a waiting thread from another.
//!
//! Sockets of ports are waited for by poll(2), all others behind them by epoll(7). An epoll set stays on
//! the socket's list of waiters all the time, so the kernel would call it for every packet that the
//! socket sends; poll is on that list only while the thread sleeps.
//!
//! A wait ends by a timer of its own. The one of poll would be set and taken back in every wait, before the first packet is looked
//! at; this one stays set from wait to wait, and is set anew only for an earlier end, or when it has rung.
//!
//! poll(2) refuses to wait for more descriptors than a process may have now (`RLIMIT_NOFILE`), which whoever may signal a process can
//! lower for it while it runs. Then ports are looked at once a millisecond, until it waits again.

use rustix::event::epoll;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::{ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A set of descriptors, each with a number to know it by.
pub struct Poll {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    ports: Vec<Port>,
    alarm: Alarm,
    /// Whether the kernel did not wait for ports the last time.
    refused: Cell<bool>,
}

/// The number of the timer in the epoll set, which nobody else has.
const ALARM: u64 = u64::MAX;

/// Waits up to this long, in nanoseconds, are poll's: their end changes all the time.
const SHORT: u64 = 2_000_000;

/// Descriptors that one wait has room for without allocating.
const FEW: usize = 16;

/// Between two looks at ports that the kernel does not wait for.
const LOOK: Duration = Duration::from_millis(1);

/// The longest wait, in nanoseconds.
const LONGEST: u64 = 3600 * 1_000_000_000;

/// A timer that ends waits.
struct Alarm {
    fd: OwnedFd,
    /// When it rings, in nanoseconds of the system's monotonic clock; never if it is not set.
    at: u64,
}

impl Alarm {
    fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Alarm { fd: rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?, at: u64::MAX })
    }

    /// Sets it to ring in so many nanoseconds, or earlier.
    fn within(&mut self, nanoseconds: u64) -> io::Result<()> {
        let now = rustix::time::clock_gettime(ClockId::Monotonic);
        let end = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 + nanoseconds;
        if self.at > end {
            let value = Itimerspec { it_interval: timespec(0), it_value: timespec(end) };
            rustix::time::timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &value)?;
            self.at = end;
        }
        Ok(())
    }

    /// It has rung.
    fn rest(&mut self) {
        // It can be read, since it has rung; it is not set after that.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        self.at = u64::MAX;
    }
}

fn timespec(nanoseconds: u64) -> Timespec {
    Timespec { tv_sec: (nanoseconds / 1_000_000_000) as i64, tv_nsec: (nanoseconds % 1_000_000_000) as _ }
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
        let (epoll, alarm) = (epoll::create(epoll::CreateFlags::CLOEXEC)?, Alarm::new()?);
        epoll::add(&epoll, &alarm.fd, epoll::EventData::new_u64(ALARM), epoll::EventFlags::IN)?;
        Ok(Poll { epoll, ready: Vec::with_capacity(64), ports: Vec::new(), alarm, refused: Cell::new(false) })
    }

    /// Adds a descriptor to be told of when it can be read. The largest number is the poll's own.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        self.add_for(fd, token, epoll::EventFlags::IN)
    }

    /// Adds a descriptor to be told of whenever it is written to. It is never read, so whoever shares it cannot make us wait.
    pub fn add_edge(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        self.add_for(fd, token, epoll::EventFlags::IN | epoll::EventFlags::ET)
    }

    fn add_for(&self, fd: impl AsFd, token: u64, flags: epoll::EventFlags) -> io::Result<()> {
        if token == ALARM {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this number is the timer's"));
        }
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

    /// Waits until something is ready or `nanoseconds` have passed, and tells what is. It may end too early.
    pub fn wait(&mut self, nanoseconds: u64, into: &mut Vec<Ready>) -> io::Result<()> {
        into.clear();
        let short = nanoseconds <= SHORT;
        if !short {
            self.alarm.within(nanoseconds.min(LONGEST))?;
        }
        let timeout = short.then(|| timespec(nanoseconds));
        let others = self.wait_for_ports(timeout.as_ref(), into)?;
        if others { self.look(into) } else { Ok(()) }
    }

    /// Tells which ports are ready now, and looks at nothing else.
    pub fn look_at_ports(&mut self, into: &mut Vec<Ready>) -> io::Result<()> {
        into.clear();
        self.wait_for_ports(Some(&timespec(0)), into).map(drop)
    }

    /// Waits until a port or something of the epoll set is ready; tells which ports are, and says whether there is something else.
    fn wait_for_ports(&mut self, timeout: Option<&Timespec>, into: &mut Vec<Ready>) -> io::Result<bool> {
        let flags = |port: &Port| if port.writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let epoll = || PollFd::new(&self.epoll, PollFlags::IN);
        let ports = self.ports.iter().map(|port| PollFd::new(&port.fd, flags(port)));
        // Few ports have room here; a wait is no time to allocate.
        let (mut few, mut many): ([PollFd<'_>; FEW], _) = (std::array::from_fn(|_| epoll()), Vec::new());
        let all = if self.ports.len() < FEW {
            few[1..].iter_mut().zip(ports).for_each(|(place, port)| *place = port);
            &mut few[..=self.ports.len()]
        } else {
            many.push(epoll());
            many.extend(ports);
            &mut many[..]
        };
        match poll(all, timeout) {
            Ok(_) if self.refused.replace(false) => tracing::info!("ports are waited for again"),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error @ (rustix::io::Errno::INVAL | rustix::io::Errno::NOMEM)) => {
                self.look_without_waiting(error, timeout, into);
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        }
        for (port, poll) in self.ports.iter().zip(&all[1..]) {
            let flags = poll.revents();
            if flags.is_empty() {
                continue;
            }
            if flags.contains(PollFlags::ERR) {
                // An interface that went down says so until somebody has heard it. What came with it is seen by who reads or sends.
                let _ = rustix::net::sockopt::socket_error(&port.fd);
            }
            let readable = flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
            into.push(Ready { token: port.token, readable, writable: flags.contains(PollFlags::OUT) });
        }
        Ok(!all[0].revents().is_empty())
    }

    /// The kernel does not wait for ports: lets a little time pass, and tells that each may be ready.
    #[cold]
    fn look_without_waiting(&self, error: rustix::io::Errno, timeout: Option<&Timespec>, into: &mut Vec<Ready>) {
        if !self.refused.replace(true) {
            let descriptors = self.ports.len() + 1;
            tracing::error!(
                %error,
                descriptors,
                "the kernel does not wait for so many descriptors (is RLIMIT_NOFILE lower now?): ports are looked at once a millisecond"
            );
        }
        let most = timeout.and_then(|most| Duration::try_from(*most).ok()).map_or(LOOK, |most| most.min(LOOK));
        let wait = timespec(most.as_nanos() as u64);
        // What wakes this thread is in the epoll set, which may be waited for as long as one descriptor is allowed.
        if poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&wait)).is_err() {
            std::thread::sleep(most);
        }
        into.extend(self.ports.iter().map(|port| Ready { token: port.token, readable: true, writable: port.writable }));
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
        if self.ready.iter().any(|event| event.data.u64() == ALARM) {
            self.alarm.rest();
        }
        let others = self.ready.iter().filter(|event| event.data.u64() != ALARM);
        into.extend(others.map(|event| {
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
#[derive(Clone, Debug)]
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
    fn nobody_has_the_number_of_the_timer() {
        let poll = Poll::new().unwrap();
        let waker = Waker::new().unwrap();
        let refused = |added: io::Result<()>| added.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput);
        assert!(refused(poll.add(&waker, ALARM)) && refused(poll.add_edge(&waker, ALARM)));
        assert!(poll.add(&waker, ALARM - 1).is_ok());
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

    /// No wait is longer than asked for, whichever timer ends it.
    #[test]
    fn a_wait_ends_by_the_earliest_end_asked_for() {
        let mut poll = Poll::new().unwrap();
        let mut ready = Vec::new();
        let mut turns = 0;
        for ends in [LONGEST, 3 * SHORT, 2 * SHORT, SHORT / 2, 2 * SHORT] {
            let waker = Waker::new().unwrap();
            poll.add(&waker, 7).unwrap();
            if ends == LONGEST {
                waker.wake();
            }
            let clock = crate::sys::clock::Clock::start();
            // One that rings for an earlier wait ends a later one too early.
            while clock.now() < ends && ready.is_empty() {
                poll.wait(ends.saturating_sub(clock.now()), &mut ready).unwrap();
                turns += 1;
            }
            assert_eq!(ready.is_empty(), ends != LONGEST);
            ready.clear();
            poll.remove(&waker).unwrap();
        }
        assert!(turns < 100, "{turns} waits");
    }

    #[test]
    fn more_ports_than_have_room_are_waited_for_too() {
        let mut poll = Poll::new().unwrap();
        let wakers: Vec<Waker> = (0..2 * FEW).map(|_| Waker::new().unwrap()).collect();
        for (token, waker) in wakers.iter().enumerate() {
            poll.add_port(waker, token as u64, true).unwrap();
        }
        let mut ready = Vec::new();
        for (token, waker) in wakers.iter().enumerate() {
            waker.wake();
            poll.wait(u64::MAX, &mut ready).unwrap();
            assert_eq!(ready, [Ready { token: token as u64, readable: true, writable: false }]);
            waker.rest();
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
