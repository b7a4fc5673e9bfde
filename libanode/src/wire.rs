//! The link of a process to its node: calls over the socket, packets through the shared memory.
//!
//! Calls are made one at a time: a message, and its answer. One more thread watches the socket, so that the end of the node is noticed
//! when nobody calls. Towards the node an eventfd wakes; towards the process a futex in the shared memory, because waking must never
//! make the node wait, and the flags of a descriptor that both hold could be changed by either.

/// The node's sums, which the classifier needs.
#[allow(dead_code)]
#[path = "../../src/wire/sum.rs"]
pub(crate) mod sum;

use crate::buffers::{Buffers, Packet};
use crate::crew;
use crate::entry::{End, Message, Span};
use crate::error::Error;
use crate::link::{BATCH, Link};
use crate::memory::Memory;
use crate::message::{Answer, Call, MESSAGE_MAX};
use crate::ring::{Cells, Consumer, Nonsense, Producer};
use crate::seqpacket::SeqPacket;
use crate::session::Session;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{Shutdown, shutdown};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

type Shared = Arc<Memory>;

struct Down {
    ring: Producer<Shared>,
    /// Buffers of ours that the node has not copied yet, each with its number in the ring.
    flying: VecDeque<(u64, u16)>,
}

/// A connection over a socket.
pub struct Wire {
    origin: i64,
    memory: Shared,
    buffers: Buffers,
    socket: SeqPacket,
    calls: Mutex<()>,
    number: AtomicU32,
    wake: OwnedFd,
    up: Mutex<Consumer<Shared>>,
    down: Mutex<Down>,
    back: Mutex<Producer<Shared>>,
    nudged: AtomicBool,
    /// Packets were sent of which the node is not told yet.
    untold: AtomicBool,
    busy_poll: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn receive(socket: &SeqPacket, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    loop {
        match socket.receive_with(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its socket in the file system.
    Path(PathBuf),
    /// Behind a descriptor of this number, which the process has had from its birth: over it connections are asked for.
    Descriptor(i32),
}

impl Place {
    /// A connection to the node.
    fn connect(&self) -> Result<SeqPacket, Error> {
        match self {
            Place::Path(path) => SeqPacket::connect(path).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => Error::Denied,
                io::ErrorKind::InvalidInput => Error::Invalid,
                _ => Error::Unknown,
            }),
            Place::Descriptor(number) => through(*number),
        }
    }
}

/// Asks for a connection over the descriptor. Other processes that have it may ask at the same time: all answers are alike, so whoever gets
/// one may keep it.
fn through(number: i32) -> Result<SeqPacket, Error> {
    static ASKING: Mutex<()> = Mutex::new(());
    let _asking = lock(&ASKING);
    // A number that is no descriptor, or no socket of this kind, is refused by the calls below.
    let inherited = crate::seqpacket::duplicate(number).map(SeqPacket::of).map_err(|_| Error::Unknown)?;
    let mut message = Vec::new();
    Call::Connect {}.encode(0, &mut message);
    inherited.send(&message).map_err(|_| Error::Ended)?;
    let mut answer = [0; 64];
    let (length, descriptors) = receive(&inherited, &mut answer).map_err(|_| Error::Ended)?;
    match (Answer::decode(&answer[..length]), descriptors.into_iter().next()) {
        (Some((_, Answer::Connection {})), Some(connection)) => Ok(SeqPacket::of(connection)),
        (Some((_, Answer::Refused { error })), _) => Err(error),
        _ => Err(Error::Ended),
    }
}

impl Wire {
    /// Connects to the node that is there and says `hello`; gives the session's domain too. `generation`: of the first packet.
    pub fn connect(node: &Place, hello: &Call, busy_poll: Duration, generation: u32) -> Result<(Wire, u32), Error> {
        let socket = node.connect()?;
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
        let mut flying = VecDeque::new();
        flying.try_reserve_exact(geometry.down as usize).map_err(|_| Error::Memory)?;
        let down = Down { ring: Producer::new(memory.clone(), geometry.down()), flying };
        let wire = Wire {
            origin,
            buffers: Buffers::new(memory.clone(), generation),
            socket,
            calls: Mutex::new(()),
            number: AtomicU32::new(0),
            wake,
            up: Mutex::new(Consumer::new(memory.clone(), geometry.up())),
            down: Mutex::new(down),
            back: Mutex::new(Producer::new(memory.clone(), geometry.back())),
            memory,
            nudged: AtomicBool::new(false),
            untold: AtomicBool::new(false),
            busy_poll,
        };
        Ok((wire, domain))
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

    /// Wakes the node if it sleeps.
    fn wake(&self, down: &mut Down) {
        if down.ring.wakes() {
            // A counter that is full wakes the node as well.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Takes what there is; false if that is nothing.
    fn gather(up: &mut Consumer<Shared>, batch: &mut Vec<Message>) -> Result<bool, Nonsense> {
        let mut any = false;
        while batch.len() < BATCH
            && let Some(entry) = up.pop()?
        {
            any = true;
            batch.extend(Message::of(&entry));
        }
        Ok(any)
    }
}

impl Link for Wire {
    /// Has the session end when the node does.
    fn began(&self, session: &Arc<Session>) -> Result<(), Error> {
        let socket = self.socket.as_fd().try_clone_to_owned().map_err(|_| Error::Full)?;
        let session: Weak<Session> = Arc::downgrade(session);
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

    fn threads_max(&self) -> u16 {
        self.memory.geometry().threads as u16
    }

    fn call(&self, call: &Call) -> Result<Answer, Error> {
        self.call_for(call).map(|(answer, _)| answer)
    }

    fn call_for(&self, call: &Call) -> Result<(Answer, Option<OwnedFd>), Error> {
        let number = self.number.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut message = Vec::with_capacity(256);
        call.encode(number, &mut message);
        if message.len() > MESSAGE_MAX {
            return Ok((Answer::Refused { error: Error::Invalid }, None));
        }
        let answer = self.socket.send(&message).ok().and_then(|()| {
            message.resize(MESSAGE_MAX, 0);
            let (length, descriptors) = receive(&self.socket, &mut message).ok()?;
            let (answered, answer) = Answer::decode(&message[..length])?;
            (answered == number).then(|| (answer, descriptors.into_iter().next()))
        });
        answer.ok_or(Error::Ended)
    }

    fn hold_calls(&self) -> Option<MutexGuard<'_, ()>> {
        Some(lock(&self.calls))
    }

    fn now(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        (now.tv_sec * 1_000_000_000 + now.tv_nsec).saturating_sub(self.origin).max(0) as u64
    }

    fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    fn alloc(&self, _domain: u32) -> Result<Packet, Error> {
        if let Some(packet) = self.buffers.alloc() {
            return Ok(packet);
        }
        self.land(&mut lock(&self.down));
        self.buffers.alloc().ok_or(Error::Limit)
    }

    fn free(&self, packet: Packet) -> Result<(), Error> {
        self.buffers.claim(packet)?;
        if self.buffers.is_nodes(packet.buffer) {
            // The ring holds all buffers of the node's, so it is full only if the node has lost its mind.
            let _ = lock(&self.back).push(&Message::Free { buffer: packet.buffer }.entry());
        } else {
            self.buffers.release(packet.buffer);
        }
        Ok(())
    }

    fn send(&self, packet: Packet, channel: u32, domain: u32, to: Option<End>) -> Result<(), Error> {
        let extent = self.buffers.claim(packet)?;
        let span = Span { buffer: packet.buffer, offset: extent.start, length: extent.length };
        let entry = Message::Packet { span, channel, domain, source: None, destination: to }.entry();
        let mut down = lock(&self.down);
        match down.ring.push(&entry) {
            Ok(true) => {}
            refused => {
                self.buffers.unclaim(packet, extent);
                // It may be full because the node does not know of what is in it.
                self.wake(&mut down);
                return Err(if refused.is_err() { Error::Ended } else { Error::Again });
            }
        }
        if !self.buffers.is_nodes(packet.buffer) {
            let number = down.ring.put() - 1;
            down.flying.push_back((number, packet.buffer));
        }
        if crew::delivers() {
            // Told when its function has returned.
            self.untold.store(true, Ordering::Relaxed);
        } else {
            self.wake(&mut down);
        }
        if down.flying.len() > self.memory.geometry().down as usize / 2 {
            self.land(&mut down);
        }
        Ok(())
    }

    fn is_untold(&self) -> bool {
        self.untold.load(Ordering::Relaxed)
    }

    fn tell(&self) {
        if self.untold.swap(false, Ordering::Relaxed) {
            self.wake(&mut lock(&self.down));
        }
    }

    fn take(&self, batch: &mut Vec<Message>, time: Option<Duration>, stop: &dyn Fn() -> bool) -> Result<(), Nonsense> {
        let mut up = lock(&self.up);
        let mut began = None;
        let spins = self.busy_poll > Duration::ZERO;
        loop {
            if self.nudged.swap(false, Ordering::AcqRel) || stop() || Wire::gather(&mut up, batch)? {
                return Ok(());
            }
            // Nothing more to do, so nothing more comes with what was sent.
            self.tell();
            let elapsed = began.get_or_insert_with(Instant::now).elapsed();
            if spins && elapsed < self.busy_poll {
                core::hint::spin_loop();
                continue;
            }
            let left = time.map(|time| time.saturating_sub(elapsed));
            if left == Some(Duration::ZERO) {
                return Ok(());
            }
            let place = self.memory.geometry().up();
            if up.sleep()? {
                // Behind the fence in `sleep`: who nudges either is seen here or sees that we sleep.
                if !self.nudged.load(Ordering::Acquire) && !stop() {
                    self.memory.sleep_at(place.sleeping(), left);
                }
                up.awake();
            }
        }
    }

    fn nudge(&self) {
        self.nudged.store(true, Ordering::Release);
        let at = self.memory.geometry().up().sleeping();
        self.memory.fence(Ordering::SeqCst);
        self.memory.store(at, 0, Ordering::Relaxed);
        self.memory.wake_at(at);
    }

    fn shows(&self, thread: u16, domain: u32, turn: u32) {
        if let Some(at) = self.memory.geometry().thread(thread) {
            self.memory.store(at, u64::from(turn) << 32 | u64::from(domain), Ordering::Release);
        }
    }

    fn end(&self) {
        // Somebody may wait for an answer.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}
