//! The relay of a session: one thread that hands the bytes of its streams over, both ways.
//!
//! It reads from a side only when it has given the other one all that it has, so what it holds is bounded ([`HELD`], charged to the
//! domain) and whoever is slow slows the other down. What it costs its domain pays as it pays for calls.

use super::account::{Right, Seat, Streams, between};
use super::stream::{Stream, Then};
use crate::core::domain::DomainId;
use crate::nodeos::interface::Error;
use crate::sys::clock::Clock;
use crate::sys::lock::lock;
use crate::sys::poll::Waker;
use crate::sys::seqpacket::SeqPacket;
use crate::sys::threads::{self, Duty};
use libanode::arrival::{Arrival, StreamEnd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};

/// Streams of a session whose ends nobody has asked about; of more the oldest is forgotten.
const ENDED_MAX: usize = 1024;

/// For how long nobody is accepted when the process has no descriptors left.
const PAUSE_NS: u64 = 100_000_000;

/// Who pays for the relay's work, and for what streams hold.
pub trait Payer: 'static {
    /// Takes memory of a domain for one more stream.
    fn charge(&self, domain: DomainId) -> Result<(), Error>;
    /// Gives it back.
    fn free(&self, domain: DomainId);
    /// Pays for what this thread has done, and waits if it has done too much.
    fn pay(&self);
    /// The same at its end.
    fn end(&self);
}

/// Why streams have ended that did not end well, by their numbers.
type Reasons = Arc<Mutex<BTreeMap<u32, Error>>>;

/// The relay, as its session knows it. With it all its streams end.
pub struct Relay {
    tasks: Sender<Task>,
    waker: Waker,
    reasons: Reasons,
}

/// Something to be looked after.
pub enum Task {
    /// A channel that listens.
    Listen(Listener),
    /// A stream.
    Stream(Box<Stream>),
}

/// A channel that listens: who connects is told to the program with one end of a pair.
pub struct Listener {
    seat: Seat,
    socket: Arc<OwnedFd>,
    at: SocketAddr,
    told: Arc<SeqPacket>,
    /// Until then nobody is accepted.
    pause: u64,
}

impl Listener {
    /// One over a socket that listens; the other end for the program.
    pub fn begin(seat: Seat, socket: OwnedFd, at: SocketAddr) -> Result<(Listener, OwnedFd), Error> {
        let (told, other) = SeqPacket::pair().map_err(|_| Error::Full)?;
        // Neither who does not take its streams is waited for, nor who has gone before he was accepted.
        rustix::fs::fcntl_setfl(&told, rustix::fs::OFlags::NONBLOCK).map_err(|_| Error::Full)?;
        rustix::fs::fcntl_setfl(&socket, rustix::fs::OFlags::NONBLOCK).map_err(|_| Error::Full)?;
        let (socket, told) = (Arc::new(socket), Arc::new(told));
        seat.show("listen", (at.to_string(), Right::Listen(at)), [socket.clone(), told.clone()])?;
        Ok((Listener { seat, socket, at, told, pause: 0 }, other))
    }
}

impl Relay {
    /// Starts one for the streams of a session; `payer` is made in the new thread.
    pub fn start<P: Payer>(
        (clock, streams): (Clock, Streams),
        payer: impl FnOnce() -> P + Send + 'static,
    ) -> io::Result<Relay> {
        let (tasks, taken) = channel();
        let (waker, reasons) = (Waker::new()?, Reasons::default());
        let woken = waker.descriptor()?;
        let kept = reasons.clone();
        threads::start("anode-ee-tcp", Duty::Sessions, move || {
            let payer = payer();
            let (listeners, all) = (Vec::new(), Vec::new());
            let work = Work { clock, streams, payer: &payer, reasons: kept, listeners, all };
            work.run(&taken, &woken);
            payer.end();
        })?;
        Ok(Relay { tasks, waker, reasons })
    }

    /// One more to look after.
    pub fn take(&self, task: Task) -> Result<(), Error> {
        self.tasks.send(task).map_err(|_| Error::Ended)?;
        self.waker.wake();
        Ok(())
    }

    /// Why a stream has ended; nothing if that was as it should be.
    pub fn why(&self, number: u32) -> Option<Error> {
        lock(&self.reasons).get(&number).copied()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The thread looks at its tasks when it wakes, and sees that nobody sends any.
        self.tasks = channel().0;
        self.waker.wake();
    }
}

/// What the thread has.
struct Work<'a> {
    clock: Clock,
    streams: Streams,
    payer: &'a dyn Payer,
    reasons: Reasons,
    listeners: Vec<Listener>,
    all: Vec<Stream>,
}

impl Work<'_> {
    fn run(mut self, tasks: &Receiver<Task>, woken: &OwnedFd) {
        loop {
            loop {
                match tasks.try_recv() {
                    Ok(Task::Listen(listener)) => self.listeners.push(listener),
                    Ok(Task::Stream(stream)) => self.all.push(*stream),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return self.end(),
                }
            }
            let Some(ready) = self.wait(woken) else { return self.end() };
            self.serve(&ready);
            self.payer.pay();
        }
    }

    /// Waits until something can be done: what is ready of each listener's two sockets, then of each stream's.
    fn wait(&mut self, woken: &OwnedFd) -> Option<Vec<PollFlags>> {
        let (clock, now, mut wake_at) = (self.clock, self.clock.now(), None);
        // What is wanted of each socket. Of one with nothing the kernel tells errors all the same: wanted of the programs' sides alone.
        let mut wanted = vec![Some(PollFlags::IN)];
        for listener in &self.listeners {
            let paused = listener.pause > now;
            if paused {
                wake_at = Some(wake_at.map_or(listener.pause, |other: u64| other.min(listener.pause)));
            }
            wanted.extend([(!paused).then_some(PollFlags::IN), Some(PollFlags::empty())]);
        }
        for stream in &mut self.all {
            let (tcp, ours) = stream.waits_for(clock, &mut wake_at);
            let hears = !stream.gone || ours.contains(PollFlags::IN);
            wanted.extend([Some(tcp).filter(|flags| !flags.is_empty()), hears.then_some(ours)]);
        }
        let of_listeners = self.listeners.iter().flat_map(|of| [of.socket.as_fd(), of.told.as_fd()]);
        let of_streams = self.all.iter().flat_map(|of| [of.tcp.as_fd(), of.ours.as_fd()]);
        let all = core::iter::once(woken.as_fd()).chain(of_listeners).chain(of_streams);
        let asked = all.zip(&wanted).enumerate().filter_map(|(at, (fd, flags))| Some((at, fd, (*flags)?)));
        let (places, mut fds): (Vec<_>, Vec<_>) =
            asked.map(|(at, fd, flags)| (at, PollFd::from_borrowed_fd(fd, flags))).unzip();
        let left = wake_at.map(|at| at.saturating_sub(clock.now()));
        let left = left.map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ });
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        let mut ready = vec![PollFlags::empty(); wanted.len()];
        places.iter().zip(&fds).for_each(|(at, fd)| ready[*at] = fd.revents());
        if !ready[0].is_empty() {
            // It was readable; whoever writes next wakes again.
            let _ = rustix::io::read(woken, &mut [0; 8]);
        }
        Some(ready)
    }

    fn serve(&mut self, ready: &[PollFlags]) {
        let (of_listeners, of_streams) = ready[1..].split_at(2 * self.listeners.len());
        let mut ends = Vec::new();
        // From the last one on, so that those before keep their places.
        for at in (0..self.all.len()).rev() {
            let ready = [of_streams[2 * at], of_streams[2 * at + 1]];
            if let Then::Ends(why) = self.all[at].look(ready, self.clock) {
                ends.push((self.all.swap_remove(at), why));
            }
        }
        for at in (0..self.listeners.len()).rev() {
            let [socket, told] = [of_listeners[2 * at], of_listeners[2 * at + 1]];
            let stays = told.is_empty() && (socket.is_empty() || self.accept(at));
            if !stays {
                let listener = self.listeners.swap_remove(at);
                self.give_back(listener.seat);
            }
        }
        for (stream, why) in ends {
            self.forget(stream, why);
        }
    }

    fn forget(&self, stream: Stream, why: Option<Error>) {
        if let Some(why) = why {
            let mut reasons = lock(&self.reasons);
            reasons.insert(stream.seat.number(), why);
            if reasons.len() > ENDED_MAX {
                reasons.pop_first();
            }
        }
        self.give_back(stream.seat);
    }

    /// A seat is free again, and its memory the domain's.
    fn give_back(&self, seat: Seat) {
        let domain = seat.domain();
        drop(seat);
        self.payer.free(domain);
    }

    /// Takes in whoever has connected; false if nobody can any more.
    fn accept(&mut self, at: usize) -> bool {
        let Listener { seat, socket, at: here, pause, .. } = &mut self.listeners[at];
        if let Some(then) = seat.account().begins_at(self.clock.now()) {
            // The system has him wait, as far as it has room.
            *pause = then;
            return true;
        }
        let (tcp, peer) = match acceptfrom_with(&**socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok((tcp, peer)) => (tcp, peer.and_then(|peer| SocketAddr::try_from(peer).ok())),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => return true,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                *pause = self.clock.now() + PAUSE_NS;
                return true;
            }
            Err(_) => return false,
        };
        let here = *here;
        let begun = self.receive(at, tcp, peer, here);
        let seat = &self.listeners[at].seat;
        match &begun {
            Ok(_) => seat.count_accepted(),
            Err(why) => {
                seat.count_refused();
                if matches!(why, Error::Limit | Error::Full) {
                    // No more for a while: the system's queue has room for some, and refuses the rest.
                    self.listeners[at].pause = self.clock.now() + PAUSE_NS;
                }
            }
        }
        self.all.extend(begun.ok());
        true
    }

    /// Makes a stream of a connection, and tells the program.
    fn receive(&self, at: usize, tcp: OwnedFd, peer: Option<SocketAddr>, here: SocketAddr) -> Result<Stream, Error> {
        let Listener { seat, told, .. } = &self.listeners[at];
        let domain = seat.domain();
        let taken = self.streams.take_quietly(seat.account(), self.clock.now())?;
        self.payer.charge(domain)?;
        let number = taken.number();
        let shown = (between(peer, here), Right::Listen(here));
        let begun = Stream::begin(taken, tcp, shown, false).and_then(|(stream, other)| {
            let destination = Some(end(here)).filter(|_| !here.ip().is_unspecified());
            let arrival = Arrival { stream: number, source: peer.map(end), destination };
            // One that does not take its streams has no more of them.
            told.send_with(&arrival.encode(), &[other.as_fd()]).map(|()| stream).map_err(|_| Error::Again)
        });
        begun.inspect_err(|_| self.payer.free(domain))
    }

    /// The session ends: so do its streams.
    fn end(mut self) {
        for stream in core::mem::take(&mut self.all) {
            self.forget(stream, None);
        }
        for listener in core::mem::take(&mut self.listeners) {
            self.give_back(listener.seat);
        }
    }
}

fn end(of: SocketAddr) -> StreamEnd {
    (crate::wire::Addr::from(of.ip()).0, of.port())
}
