//! The parts of a program besides memory: its domains, channels, coming events, and registered functions.

use crate::entry::End;
use crate::error::Error;
use crate::layout;
use crate::message::Threads;
use crate::session::Session;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// A program's pointer, handed back to it and never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument(pub usize);

impl Argument {
    /// That of a pointer.
    pub fn of(pointer: *mut c_void) -> Argument {
        Argument(pointer as usize)
    }

    /// The pointer.
    pub fn pointer(self) -> *mut c_void {
        self.0 as *mut c_void
    }
}

/// The address and port of one end of a packet, as programs see it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CEnd {
    /// IPv6, or IPv4 in mapped form.
    pub address: [u8; 16],
    /// The port, in the host's order.
    pub port: u16,
    /// Whether the channel's protocols say it.
    pub known: u16,
}

layout::an_End!(CEnd);

/// Both ends of a packet, as programs see them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CEnds {
    /// Who sent it.
    pub source: CEnd,
    /// To whom.
    pub destination: CEnd,
}

layout::an_Ends!(CEnds);

impl CEnds {
    /// Those of a packet, as far as they are known.
    pub fn of(source: Option<End>, destination: Option<End>) -> CEnds {
        CEnds { source: CEnd::of(source), destination: CEnd::of(destination) }
    }
}

impl CEnd {
    fn of(end: Option<End>) -> CEnd {
        end.map_or_else(CEnd::default, |(address, port)| CEnd { address, port, known: 1 })
    }
}

/// Gets the packets of a channel.
pub type ReceiveFunction = extern "C" fn(*mut c_void, *mut c_void, *const CEnds, *mut c_void);
/// Is called with an object's name: when an event is due, or a domain has ended.
pub type ObjectFunction = extern "C" fn(*mut c_void, *mut c_void);
/// Is called when a memory pool is over its limit.
pub type OverrunFunction = extern "C" fn(*mut c_void, u64, *mut c_void);
/// Is run by a thread of a crew.
pub type RunFunction = extern "C" fn(*mut c_void);

/// A domain that this process runs.
pub struct ProcessDomain {
    /// Its session.
    pub session: Arc<Session>,
    /// The node's name of it.
    pub name: u32,
    /// The domain above it, if that is of this process too.
    pub parent: Option<u32>,
    /// The program's name of it.
    pub handle: OnceLock<usize>,
    /// Told when it ends.
    pub ends: Option<(ObjectFunction, Argument)>,
    /// Threads that may work for it at the same time.
    pub threads: u16,
    /// Bytes of their stacks; 0: as many as threads usually have.
    pub(super) stack_bytes: usize,
    /// Whether the library starts them.
    pub starts: bool,
    /// What makes it an a-flow, if it is one: then it has no thread of its own.
    pub flow: Option<super::Flow>,
    /// Whether it has ended.
    pub(super) ended: AtomicBool,
    /// Rung when there is something to do for its threads.
    pub(super) bell: Condvar,
    /// Threads that the library has started for it.
    pub(super) started: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl ProcessDomain {
    /// A domain that lives.
    pub fn new(
        session: Arc<Session>,
        name: u32,
        parent: Option<u32>,
        threads: &Threads,
        starts: bool,
    ) -> ProcessDomain {
        ProcessDomain {
            session,
            name,
            parent,
            handle: OnceLock::new(),
            ends: None,
            threads: threads.max_threads,
            stack_bytes: threads.stack_bytes as usize,
            starts,
            flow: None,
            ended: AtomicBool::new(false),
            bell: Condvar::new(),
            started: Mutex::default(),
        }
    }

    /// Whether it is an a-flow.
    pub fn is_leaf(&self) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.leaf)
    }

    /// The domain whose threads run its functions.
    pub fn workers(&self) -> u32 {
        self.flow.as_ref().map_or(self.name, |flow| flow.workers)
    }

    /// Refuses if it has ended.
    pub fn living(&self) -> Result<(), Error> {
        if self.session.has_ended() {
            return Err(Error::Ended);
        }
        if self.ended.load(Ordering::Acquire) { Err(Error::Stale) } else { Ok(()) }
    }
}

/// An incoming channel.
pub struct Channel {
    /// Its session.
    pub session: Arc<Session>,
    /// Its domain.
    pub domain: u32,
    /// The node's name of it.
    pub name: u32,
    /// The program's name of it.
    pub handle: OnceLock<usize>,
    /// Gets its packets.
    pub function: ReceiveFunction,
    /// Goes with it.
    pub argument: Argument,
    /// Packets worked on at the same time.
    pub threads: u16,
}

/// An event to come.
pub struct Event {
    /// Its session.
    pub session: Arc<Session>,
    /// Its domain.
    pub domain: u32,
    /// The number it is scheduled with.
    pub number: u64,
    /// The node's name of it.
    pub name: OnceLock<u64>,
    /// The program's name of it.
    pub handle: OnceLock<usize>,
    /// Is called.
    pub function: ObjectFunction,
    /// Goes with it.
    pub argument: Argument,
}

/// Who wants to know of changes in a store.
pub struct Watch {
    /// Its session.
    pub session: Arc<Session>,
    /// Its domain.
    pub domain: u32,
    /// The node's name of it.
    pub name: OnceLock<u32>,
    /// The program's name of it.
    pub handle: OnceLock<usize>,
    /// Is called.
    pub function: ObjectFunction,
    /// Goes with it.
    pub argument: Argument,
}

/// Who is told that a memory pool is over its limit.
#[derive(Clone, Copy)]
pub struct Overrun {
    /// The program's name of the pool.
    pub handle: usize,
    /// Is called.
    pub function: OverrunFunction,
    /// Goes with it.
    pub argument: Argument,
}
