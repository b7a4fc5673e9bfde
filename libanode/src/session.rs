//! The connection of a program to its node: its domains and objects, and the link ([`crate::link`]) to the node.

use crate::buffers::{Buffers, Packet};
use crate::crew::{Desk, ProcessDomain};
use crate::entry::{End, Message};
use crate::error::Error;
use crate::link::Link;
use crate::message::{Answer, Call};
use crate::ring::Nonsense;
use crate::wire::{Place, Wire};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// Sessions of one process at the same time.
pub const SESSIONS_MAX: usize = 64;

/// Generations of packets that one session uses before the names of the next in its slot may meet them.
const GENERATIONS: u32 = 1 << 20;

/// A connection to a node.
pub struct Session {
    slot: u8,
    domain: u32,
    link: Box<dyn Link>,
    desk: Desk,
    ended: AtomicBool,
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

/// Where the generations of a new session's packets begin.
pub fn first_generation() -> u32 {
    let mut sessions = sessions().write().unwrap_or_else(PoisonError::into_inner);
    sessions.serial = sessions.serial.wrapping_add(1);
    sessions.serial.wrapping_mul(GENERATIONS)
}

impl Session {
    /// Connects to the node that is there and says `hello`.
    pub fn connect(node: &Place, hello: &Call, busy_poll: Duration) -> Result<Arc<Session>, Error> {
        let (wire, domain) = Wire::connect(node, hello, busy_poll, first_generation())?;
        Session::begin(domain, Box::new(wire))
    }

    /// Begins a session with a domain, over a link.
    pub fn begin(domain: u32, link: Box<dyn Link>) -> Result<Arc<Session>, Error> {
        crate::heap::has_room()?;
        let mut sessions = sessions().write().unwrap_or_else(PoisonError::into_inner);
        let slot = match sessions.slots.iter().position(Option::is_none) {
            Some(slot) => slot,
            None if sessions.slots.len() < SESSIONS_MAX => {
                sessions.slots.push(None);
                sessions.slots.len() - 1
            }
            None => {
                drop(sessions);
                link.end();
                return Err(Error::Full);
            }
        };
        let session = Arc::new(Session {
            slot: slot as u8,
            domain,
            desk: if link.is_here() { Desk::of_node() } else { Desk::default() },
            link,
            ended: AtomicBool::new(false),
            numbers: AtomicU64::new(0),
            closed: Mutex::default(),
            first: OnceLock::new(),
        });
        sessions.slots[slot] = Some(session.clone());
        drop(sessions);
        session.link.began(&session).inspect_err(|_| session.disconnect())?;
        Ok(session)
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

    /// Its way to the node.
    pub fn link(&self) -> &dyn Link {
        &*self.link
    }

    /// Its packet buffers.
    pub fn buffers(&self) -> &Buffers {
        self.link.buffers()
    }

    /// Who works for it.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Nanoseconds of the node's clock.
    pub fn now(&self) -> u64 {
        self.link.now()
    }

    /// A number that was not given before.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Refuses if it has ended.
    fn living(&self) -> Result<(), Error> {
        if self.has_ended() { Err(Error::Ended) } else { Ok(()) }
    }

    /// Makes a call.
    pub fn call(&self, call: &Call) -> Result<Answer, Error> {
        self.call_then(call, Ok)
    }

    /// Makes a call and does something with the answer before what follows from it can arrive.
    pub fn call_then<R>(&self, call: &Call, then: impl FnOnce(Answer) -> Result<R, Error>) -> Result<R, Error> {
        crate::heap::has_room()?;
        let held = self.link.hold_calls();
        self.living()?;
        match self.link.call(call) {
            Ok(Answer::Refused { error }) => Err(error),
            Ok(answer) => then(answer),
            Err(error) => {
                drop(held);
                self.end();
                Err(error)
            }
        }
    }

    /// Makes a call whose answer may come with a socket.
    pub fn call_for(&self, call: &Call) -> Result<(Answer, Option<OwnedFd>), Error> {
        crate::heap::has_room()?;
        let held = self.link.hold_calls();
        self.living()?;
        match self.link.call_for(call) {
            Ok((Answer::Refused { error }, _)) => Err(error),
            Ok(answered) => Ok(answered),
            Err(error) => {
                drop(held);
                self.end();
                Err(error)
            }
        }
    }

    /// Waits until no call is being made.
    pub fn let_calls_finish(&self) {
        drop(self.link.hold_calls());
    }

    /// Sends a packet; the program keeps it if that fails.
    #[inline]
    pub fn send(&self, packet: Packet, channel: u32, domain: u32, to: Option<End>) -> Result<(), Error> {
        self.living()?;
        self.link.send(packet, channel, domain, to)
    }

    /// An empty packet.
    pub fn alloc(&self, domain: u32) -> Result<Packet, Error> {
        self.living()?;
        self.link.alloc(domain)
    }

    /// Gives a packet back.
    pub fn free(&self, packet: Packet) -> Result<(), Error> {
        self.link.free(packet)
    }

    /// Waits for something from the node, so long at most; nothing if there is something else to do.
    pub fn take(&self, batch: &mut Vec<Message>, time: Option<Duration>) -> Result<(), Nonsense> {
        self.link.take(batch, time, &|| self.has_ended())
    }

    /// Has the thread that waits for the node look up.
    pub fn nudge(&self) {
        self.link.nudge();
    }

    /// Ends it here: no function of the program begins any more on its behalf.
    pub fn end(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.link.end();
            self.close();
        }
    }

    /// The node has ended it.
    pub fn ended_by_node(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.close();
        }
    }

    fn close(&self) {
        let closed = self.desk.close_all(self);
        lock(&self.closed).extend(closed);
    }

    /// Ends it and forgets it.
    pub fn disconnect(self: &Arc<Session>) {
        self.end();
        let closed = core::mem::take(&mut *lock(&self.closed));
        self.desk.wait_for_functions(self.domain);
        crate::crew::join(&closed);
        crate::objects::remove_of(self, None);
        let mut sessions = sessions().write().unwrap_or_else(PoisonError::into_inner);
        sessions.slots[usize::from(self.slot)] = None;
    }
}
