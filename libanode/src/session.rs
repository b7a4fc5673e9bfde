//! The connection of a process to its node: calls over the socket, packets through the shared memory.
//!
//! Calls are made one at a time: a message, and its answer. One more thread watches the socket, so that the end of the node is noticed
//! when nobody calls. Towards the node an eventfd wakes; towards the process a futex in the shared memory, because waking must never
//! make the node wait, and the flags of a descriptor that both hold could be changed by either.

use crate::buffers::{Buffers, Packet};
use crate::crew::{Desk, ProcessDomain};
use crate::entry::{End, Message, Span};
use crate::error::Error;
use crate::memory::Memory;
use crate::message::{Answer, Call, MESSAGE_MAX};
use crate::ring::{Consumer, Nonsense, Producer};
use crate::seqpacket::SeqPacket;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{Shutdown, shutdown};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

/// Sessions of one process at the same time.
pub const SESSIONS_MAX: usize = 64;

/// Generations of packets that one session uses before the names of the next in its slot may meet them.
const GENERATIONS: u32 = 1 << 20;

type Shared = Arc<Memory>;

struct Down {
    ring: Producer<Shared>,
    /// Buffers of ours that the node has not copied yet, each with its number in the ring.
    flying: VecDeque<(u64, u16)>,
}

/// A connection to a node.
pub struct Session {
    slot: u8,
    domain: u32,
    origin: i64,
    memory: Shared,
    buffers: Buffers,
    socket: SeqPacket,
    calls: Mutex<u32>,
    wake: OwnedFd,
    up: Mutex<Consumer<Shared>>,
    down: Mutex<Down>,
    back: Mutex<Producer<Shared>>,
    desk: Desk,
    ended: AtomicBool,
    nudged: AtomicBool,
    busy_poll: Duration,
    numbers: AtomicU64,
    /// Domains that ended with it.
    closed: Mutex<Vec<Arc<ProcessDomain>>>,
    /// The program's name of the first domain.
    first: OnceLock<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sessions of this process, by their slots.
#[derive(Default)]
struct Sessions {
    slots: Vec<Option<Arc<Session>>>,
    serial: u32,
}

fn sessions() -> &'static RwLock<Sessions> {
    static SESSIONS: OnceLock<RwLock<Sessions>> = OnceLock::new();
    SESSIONS.get_or_init(RwLock::default)
}

/// The session in a slot.
pub fn session_of(slot: u8) -> Result<Arc<Session>, Error> {
    let sessions = sessions().read().unwrap_or_else(PoisonError::into_inner);
    sessions.slots.get(usize::from(slot)).cloned().flatten().ok_or(Error::Stale)
}

fn receive(socket: &SeqPacket, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    loop {
        match socket.receive_with(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

impl Session {
    /// Connects to the node at `path` and says `hello`.
    pub fn connect(path: &Path, hello: &Call, busy_poll: Duration) -> Result<Arc<Session>, Error> {
        let socket = SeqPacket::connect(path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::Denied,
            io::ErrorKind::InvalidInput => Error::Invalid,
            _ => Error::Unknown,
        })?;
        let mut message = Vec::new();
        hello.encode(0, &mut message);
        socket.send(&message).map_err(|_| Error::Ended)?;
        message.resize(MESSAGE_MAX, 0);
        let (length, descriptors) = receive(&socket, &mut message).map_err(|_| Error::Ended)?;
        let (domain, geometry, origin) = match Answer::decode(&message[..length]) {
            Some((0, Answer::Welcome { domain, geometry, origin })) => (domain, geometry, origin),
            Some((0, Answer::Refused { error })) => return Err(error),
            _ => return Err(Error::Ended),
        };
        let [memory, wake] = <[OwnedFd; 2]>::try_from(descriptors).map_err(|_| Error::Ended)?;
        let memory = Memory::map(memory.as_fd(), geometry).map_err(|_| Error::Full)?;
        let mut sessions = sessions().write().unwrap_or_else(PoisonError::into_inner);
        sessions.serial = sessions.serial.wrapping_add(1);
        let slot = match sessions.slots.iter().position(Option::is_none) {
            Some(slot) => slot,
            None if sessions.slots.len() < SESSIONS_MAX => {
                sessions.slots.push(None);
                sessions.slots.len() - 1
            }
            None => return Err(Error::Full),
        };
        let session = Arc::new(Session {
            slot: slot as u8,
            domain,
            origin,
            buffers: Buffers::new(memory.clone(), sessions.serial.wrapping_mul(GENERATIONS)),
            socket,
            calls: Mutex::new(0),
            wake,
            up: Mutex::new(Consumer::new(memory.clone(), geometry.up())),
            down: Mutex::new(Down {
                ring: Producer::new(memory.clone(), geometry.down()),
                flying: VecDeque::with_capacity(geometry.down as usize),
            }),
            back: Mutex::new(Producer::new(memory.clone(), geometry.back())),
            memory,
            desk: Desk::default(),
            ended: AtomicBool::new(false),
            nudged: AtomicBool::new(false),
            busy_poll,
            numbers: AtomicU64::new(0),
            closed: Mutex::default(),
            first: OnceLock::new(),
        });
        session.watch()?;
        sessions.slots[slot] = Some(session.clone());
        Ok(session)
    }

    /// Notices the end of the node.
    fn watch(self: &Arc<Session>) -> Result<(), Error> {
        let socket = self.socket.as_fd().try_clone_to_owned().map_err(|_| Error::Full)?;
        let session: Weak<Session> = Arc::downgrade(self);
        let watch = move || {
            loop {
                let mut fds = [PollFd::new(&socket, PollFlags::RDHUP)];
                match poll(&mut fds, None) {
                    Err(rustix::io::Errno::INTR) => {}
                    _ => break,
                }
            }
            if let Some(session) = session.upgrade() {
                session.end();
            }
        };
        let thread = std::thread::Builder::new().name("anode-watch".into()).stack_size(64 << 10).spawn(watch);
        thread.map(drop).map_err(|_| Error::Full)
    }

    /// Its slot among the sessions of this process.
    pub fn slot(&self) -> u8 {
        self.slot
    }

    /// Its first domain.
    pub fn domain(&self) -> u32 {
        self.domain
    }

    /// The program's name of its first domain.
    pub fn first(&self) -> Option<usize> {
        self.first.get().copied()
    }

    /// Says what the program calls its first domain.
    pub fn set_first(&self, handle: usize) {
        let _ = self.first.set(handle);
    }

    /// Its packet buffers.
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Who works for it.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Nanoseconds of the node's clock.
    pub fn now(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        (now.tv_sec * 1_000_000_000 + now.tv_nsec).saturating_sub(self.origin).max(0) as u64
    }

    /// A number that was not given before.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Makes a call.
    pub fn call(&self, call: &Call) -> Result<Answer, Error> {
        self.call_then(call, Ok)
    }

    /// Makes a call and does something with the answer before what follows from it can arrive.
    pub fn call_then<R>(&self, call: &Call, then: impl FnOnce(Answer) -> Result<R, Error>) -> Result<R, Error> {
        let mut number = lock(&self.calls);
        if self.has_ended() {
            return Err(Error::Ended);
        }
        *number = number.wrapping_add(1);
        let mut message = Vec::with_capacity(256);
        call.encode(*number, &mut message);
        if message.len() > MESSAGE_MAX {
            return Err(Error::Invalid);
        }
        let answer = self.socket.send(&message).ok().and_then(|()| {
            message.resize(MESSAGE_MAX, 0);
            let length = receive(&self.socket, &mut message).ok()?.0;
            Answer::decode(&message[..length]).filter(|(answered, _)| answered == &*number)
        });
        match answer {
            Some((_, Answer::Refused { error })) => Err(error),
            Some((_, answer)) => then(answer),
            None => {
                drop(number);
                self.end();
                Err(Error::Ended)
            }
        }
    }

    /// Waits until no call is being made.
    pub fn let_calls_finish(&self) {
        drop(lock(&self.calls));
    }

    /// Sends a packet; the program keeps it if that fails.
    pub fn send(&self, packet: Packet, channel: u32, domain: u32, to: Option<End>) -> Result<(), Error> {
        if self.has_ended() {
            return Err(Error::Ended);
        }
        let extent = self.buffers.claim(packet)?;
        let span = Span { buffer: packet.buffer, offset: extent.start, length: extent.length };
        let entry = Message::Packet { span, channel, domain, source: None, destination: to }.entry();
        let mut down = lock(&self.down);
        match down.ring.push(&entry) {
            Ok(true) => {}
            refused => {
                self.buffers.unclaim(packet, extent);
                return Err(if refused.is_err() { Error::Ended } else { Error::Again });
            }
        }
        if !self.buffers.is_nodes(packet.buffer) {
            let number = down.ring.put() - 1;
            down.flying.push_back((number, packet.buffer));
        }
        if down.ring.wakes() {
            // A counter that is full wakes the node as well.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
        if down.flying.len() > self.memory.geometry().down as usize / 2 {
            self.land(&mut down);
        }
        Ok(())
    }

    /// Takes back the buffers that the node has copied.
    fn land(&self, down: &mut Down) {
        // What the node says of its progress is only believed as far as it can be.
        let _ = down.ring.has_room();
        while let Some((number, buffer)) = down.flying.front().copied() {
            if number >= down.ring.taken() {
                break;
            }
            down.flying.pop_front();
            self.buffers.release(buffer);
        }
    }

    /// An empty packet.
    pub fn alloc(&self) -> Result<Packet, Error> {
        if self.has_ended() {
            return Err(Error::Ended);
        }
        if let Some(packet) = self.buffers.alloc() {
            return Ok(packet);
        }
        self.land(&mut lock(&self.down));
        self.buffers.alloc().ok_or(Error::Limit)
    }

    /// Gives a packet back.
    pub fn free(&self, packet: Packet) -> Result<(), Error> {
        self.buffers.claim(packet)?;
        if self.buffers.is_nodes(packet.buffer) {
            // The ring holds all buffers of the node's, so it is full only if the node has lost its mind.
            let _ = lock(&self.back).push(&Message::Free { buffer: packet.buffer }.entry());
        } else {
            self.buffers.release(packet.buffer);
        }
        Ok(())
    }

    /// Waits for something from the node, so long at most; nothing if there is something else to do.
    pub fn take(&self, time: Option<Duration>) -> Result<Option<Message>, Nonsense> {
        let mut up = lock(&self.up);
        let began = Instant::now();
        let spins = self.busy_poll > Duration::ZERO;
        loop {
            if self.nudged.swap(false, Ordering::AcqRel) || self.has_ended() {
                return Ok(None);
            }
            if let Some(entry) = up.pop()? {
                return Ok(Message::of(&entry));
            }
            if spins && began.elapsed() < self.busy_poll {
                core::hint::spin_loop();
                continue;
            }
            let left = time.map(|time| time.saturating_sub(began.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            let place = self.memory.geometry().up();
            if up.sleep()? {
                // Behind the fence in `sleep`: who nudges either is seen here or sees that we sleep.
                if !self.nudged.load(Ordering::Acquire) && !self.has_ended() {
                    self.memory.sleep_at(place.sleeping(), left);
                }
                up.awake();
            }
        }
    }

    /// Has the thread that waits for the node look up.
    pub fn nudge(&self) {
        use crate::ring::Cells;
        self.nudged.store(true, Ordering::Release);
        let at = self.memory.geometry().up().sleeping();
        self.memory.fence(Ordering::SeqCst);
        self.memory.store(at, 0, Ordering::Relaxed);
        self.memory.wake_at(at);
    }

    /// Ends it here: no function of the program begins any more on its behalf.
    pub fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        // Somebody may wait for an answer.
        let _ = shutdown(&self.socket, Shutdown::Both);
        let closed = self.desk.close_all(self);
        lock(&self.closed).extend(closed);
    }

    /// Ends it and forgets it.
    pub fn disconnect(self: &Arc<Session>) {
        self.end();
        let closed = core::mem::take(&mut *lock(&self.closed));
        crate::crew::join(closed);
        crate::objects::remove_of(self, None);
        let mut sessions = sessions().write().unwrap_or_else(PoisonError::into_inner);
        sessions.slots[usize::from(self.slot)] = None;
    }
}
