//! The ports of a running node, of any kind ([`crate::port`]).

mod opener;

pub(super) use opener::{ForeignPorts, Opener};

use crate::broker::MORE;
use crate::config::Plan;
use crate::core::reason::Reason;
use crate::frame::WorkerId;
use crate::frame::{Frame, FramePool, PortId};
use crate::manage::extensions::Policies;
use crate::port::packet::{Change, Taker};
use crate::port::pcap::HEADERS;
use crate::port::sorted::{Sorting, SortingSpec};
use crate::port::vacant::VacantPort;
use crate::port::xdp::QueueSocket;
use crate::port::{BeforeStack, Socket};
use crate::schedule::discipline::{ClassCounts, PolicyCounts};
use crate::sys::packet::Room;
use crate::sys::poll::Poll;
use crate::sys::threads::{self, Duty};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// An open port.
pub struct OpenPort {
    socket: Socket,
    /// Whether frames wait because the system takes no more.
    pub(super) blocked: bool,
    /// The order in which its frames leave, if that is another one than that in which they come.
    sorting: Option<Box<Sorting>>,
}

impl OpenPort {
    /// Opens it for packets of up to `mtu` bytes, for each of so many workers, with what it has before the Linux stack; and what
    /// takes frames for it, if it is a native port.
    pub(super) fn open(
        id: PortId,
        plan: Plan,
        before: BeforeStack,
        (mtu, workers, policies): (usize, WorkerId, &Policies),
    ) -> io::Result<(Vec<OpenPort>, Option<Taker>)> {
        let sorting = || plan.sorting.as_deref().map(|sorting| sorted(sorting, policies)).transpose();
        let (sockets, taker) = plan.opening.open(id, mtu, before, workers)?;
        let open = |socket| Ok(OpenPort { socket, blocked: false, sorting: sorting()? });
        Ok((sockets.into_iter().map(open).collect::<io::Result<_>>()?, taker))
    }

    /// None, at a place that is vacant.
    pub(super) fn vacant() -> OpenPort {
        OpenPort { socket: Socket::Vacant(VacantPort::default()), blocked: false, sorting: None }
    }

    /// Whether closing it may take its time.
    pub(super) fn closes_slowly(&self) -> bool {
        self.socket.closes_slowly()
    }

    /// Its interface is gone, and with it its AF_XDP sockets; the poll waits for the others under `token`.
    pub(super) fn leave_interface(&mut self, poll: &mut Poll, token: u64) -> io::Result<()> {
        if self.socket.leave_interface() { self.wait_anew(poll, token) } else { Ok(()) }
    }

    /// Receives by other sockets from now on; gives those that it had.
    pub(super) fn change(&mut self, change: Change, poll: &mut Poll, token: u64) -> io::Result<Option<Change>> {
        let before = self.socket.change(change);
        self.wait_anew(poll, token).map(|()| before)
    }

    /// Has these AF_XDP sockets from now on, whose poll token stays; an AF_PACKET port has none.
    pub(super) fn take_sockets(&mut self, sockets: Vec<QueueSocket>, poll: &mut Poll, token: u64) -> io::Result<()> {
        if self.socket.take_sockets(sockets) { self.wait_anew(poll, token) } else { Ok(()) }
    }

    fn wait_anew(&mut self, poll: &mut Poll, token: u64) -> io::Result<()> {
        poll.drop_port(token);
        self.wait_for(poll, token)?;
        poll.want_write(token, self.blocked);
        Ok(())
    }

    /// Frames since the last call that were longer than the port's largest packet, and are nobody's.
    pub(super) fn cut_short(&mut self) -> u32 {
        self.socket.cut_short()
    }

    /// Lets the poll wait for the port's sockets.
    pub(super) fn wait_for(&self, poll: &mut Poll, token: u64) -> io::Result<()> {
        self.socket.wait_for(poll, token)
    }

    /// Its neighbours are at these places from now on.
    pub(super) fn set_peers(&mut self, peers: &[Option<SocketAddr>]) {
        self.socket.set_peers(peers);
    }

    /// Lets the driver look for frames in this thread, if it is to be polled.
    pub(super) fn poll_driver(&self) {
        self.socket.poll_driver();
    }

    /// Nothing of what was received is on its way inside the node any more.
    pub(super) fn settled(&mut self) {
        self.socket.settled();
    }

    /// Frames the kernel has dropped since the last call.
    pub(super) fn overflows(&mut self) -> u32 {
        self.socket.overflows()
    }

    /// Receives what is there; says how much that is, and whether there may be more.
    pub(super) fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> io::Result<(usize, bool)> {
        self.socket.receive(pool, into)
    }

    /// Has a frame wait that is to leave; it is given back with the reason if there is no room.
    #[inline]
    pub(super) fn push(&mut self, frame: Frame, now: u64) -> Result<(), (Frame, Reason)> {
        match &mut self.sorting {
            Some(sorting) => sorting.push(frame, now),
            None => self.socket.queue().push(frame).map_err(|frame| (frame, Reason::QueueFull)),
        }
    }

    /// Whether any frame may leave at `now`.
    #[inline]
    pub(super) fn has_some(&mut self, now: u64) -> bool {
        !self.socket.queue().is_empty() || self.sorting.as_ref().is_some_and(|sorting| sorting.due() <= now)
    }

    /// When a frame may leave that waits for a rate; where the system takes no more, the poll says when it does.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        if self.blocked {
            return u64::MAX;
        }
        self.sorting.as_ref().map_or(u64::MAX, |sorting| sorting.due())
    }

    /// Sends what may leave, as far as the system takes it; whether the system takes no more.
    pub(super) fn send(&mut self, now: u64, pool: &mut FramePool, refused: &mut Vec<Frame>) -> bool {
        let Some(sorting) = &mut self.sorting else {
            self.socket.flush(pool, refused);
            return !self.socket.queue().is_empty();
        };
        loop {
            sorting.feed(self.socket.queue(), now);
            if self.socket.queue().is_empty() {
                return false;
            }
            self.socket.flush(pool, refused);
            if !self.socket.queue().is_empty() {
                return true;
            }
        }
    }

    /// Frames and bytes that wait, and how many have left.
    pub(super) fn waiting(&mut self) -> ((u32, u32), u64) {
        let (frames, bytes) = self.sorting.as_ref().map_or((0, 0), |sorting| sorting.waiting());
        let queue = self.socket.queue();
        let bytes = (queue.bytes() + bytes).min(u64::from(u32::MAX)) as u32;
        ((queue.len() as u32 + frames, bytes), queue.sent())
    }

    /// What waits at another port in its place waits here from now on; what finds no room is given back.
    pub(super) fn take_over(&mut self, before: &mut OpenPort, now: u64) -> Vec<(Frame, Reason)> {
        *self.socket.queue() = core::mem::take(before.socket.queue());
        let frames = before.sorting.as_mut().map_or_else(Vec::new, |sorting| sorting.drain());
        frames.into_iter().filter_map(|frame| self.push(frame, now).err()).collect()
    }

    /// Its frames leave in another order from now on; what waits goes along, and what finds no room is given back.
    pub(super) fn sort_by(&mut self, sorting: Box<Sorting>, now: u64) -> Vec<(Frame, Reason)> {
        let before = self.sorting.replace(sorting);
        let frames = before.map_or_else(Vec::new, |mut sorting| sorting.drain());
        frames.into_iter().filter_map(|frame| self.push(frame, now).err()).collect()
    }

    /// What extensions decide in its discipline: of which class, or of none, and what that has done.
    pub(super) fn policies(&self) -> impl Iterator<Item = (&str, PolicyCounts)> {
        self.sorting.iter().flat_map(|sorting| sorting.policies())
    }

    /// Its classes with queues, and what each has done.
    pub(super) fn classes(&self) -> impl Iterator<Item = (&str, ClassCounts)> {
        self.sorting.iter().flat_map(|sorting| sorting.counts())
    }

    /// What a frame that has come in, or goes out, has before its bytes in captures; says how many bytes that are.
    pub(super) fn headers(&self, room: &mut [u8; HEADERS], frame: &Frame, inward: bool) -> usize {
        self.socket.headers(room, frame, inward)
    }
}

/// An order of frames that nobody who sends them can foresee.
pub(super) fn sorted(sorting: &SortingSpec, policies: &Policies) -> io::Result<Box<Sorting>> {
    let seed = RandomState::new().hash_one(sorting.spec.classes.len());
    Sorting::new(sorting, seed, policies).map(Box::new).map_err(io::Error::other)
}

/// How many ports are opened or closed at a time: the kernel lets whoever does it wait for all CPUs, and many wait as long
/// as one does.
const AT_ONCE: usize = MORE + 1;

/// Bytes of the rings of all native ports together: where there are many each has less.
const RINGS: usize = 64 << 20;

/// A port that was opened, for each worker, and what takes frames for it.
pub(super) type Opened = (Vec<OpenPort>, Option<Taker>);

/// Opens ports, which are called by these names, for each of so many workers; in their order.
pub(super) fn open_all(
    names: Vec<String>,
    mut ways: Vec<(Plan, BeforeStack)>,
    (mtu, workers, policies): (usize, WorkerId, Policies),
) -> io::Result<Vec<Opened>> {
    let native = ways.iter().filter(|(plan, _)| plan.opening.interface().is_some()).count();
    let room = room_of(native, workers);
    ways.iter_mut().for_each(|(_, before)| before.room = room);
    let open = move |(at, (plan, before)): (usize, (Plan, BeforeStack))| {
        let opened = OpenPort::open(PortId(at as u16), plan, before, (mtu, workers, &policies));
        opened.map_err(|error| explain(&names[at], error))
    };
    let all = each(ways.into_iter().enumerate().collect(), Duty::Routes, open)?;
    all.into_iter().collect()
}

/// What each packet socket has where so many native ports have one for each worker.
pub(super) fn room_of(native: usize, workers: WorkerId) -> Room {
    Room::each(native * usize::from(workers), RINGS)
}

/// Closes ports.
pub(super) fn close_all(ports: Vec<OpenPort>) {
    // Without threads they are closed one after the other, with whoever has them.
    let _ = each(ports, Duty::Worker, drop);
}

/// Does something with each, on several threads if they are many; what comes of it, in their order.
fn each<T: Send + 'static, R: Send + 'static>(
    items: Vec<T>,
    duty: Duty,
    work: impl Fn(T) -> R + Send + Sync + 'static,
) -> io::Result<Vec<R>> {
    let count = items.len();
    if count < 2 {
        return Ok(items.into_iter().map(work).collect());
    }
    let (left, work) = (Arc::new(Mutex::new(items.into_iter().enumerate())), Arc::new(work));
    let mut threads = Vec::new();
    for _ in 0..count.min(AT_ONCE) {
        let (left, work) = (left.clone(), work.clone());
        let next = move || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        let some = move || std::iter::from_fn(next).map(|(at, item)| (at, work(item))).collect::<Vec<_>>();
        threads.push(threads::start("anode-sockets", duty, some)?);
    }
    let mut done = Vec::with_capacity(count);
    for thread in threads {
        done.extend(thread.join().map_err(|_| io::Error::other("a thread that opens ports has panicked"))?);
    }
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// What is to be done where a port cannot be opened.
pub(super) fn explain(port: &str, error: io::Error) -> io::Error {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ". A packet port needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF (root has them); an overlay port (udp = …) needs no privilege"
        }
        io::ErrorKind::AddrInUse => ". Another process listens there",
        io::ErrorKind::AddrNotAvailable => ". The address is not one of this host's",
        _ => "",
    };
    io::Error::new(error.kind(), format!("cannot open port {port}: {error}{remedy}"))
}
