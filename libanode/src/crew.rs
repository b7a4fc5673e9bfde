//! The threads that run a program's functions: deliver functions, events, exceptions.
//!
//! Each domain has a crew of at most so many threads. All crews of a session share the ring from the node: one thread at a time
//! *leads*, that is, waits at the ring. What it takes out is queued with the crew of its domain; if that is its own crew, it leaves
//! the lead to a thread that has nothing to do and runs the function itself. So in an environment with one thread a packet passes
//! no other thread, and a domain whose threads all work keeps nobody else's from leading.
//!
//! A queue is bounded by what can be in it: packets by the node's buffers, events by those scheduled.

use crate::buffers::Packet;
use crate::entry::{End, Message};
use crate::error::Error;
use crate::objects;
use crate::session::Session;
use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Threads of one crew, at most.
pub const THREADS_MAX: usize = 64;

/// Functions that wait for a thread of a crew because a program asked for it.
const RUNS_MAX: usize = 1024;

/// A program's pointer, handed back to it and never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument(pub usize);

impl Argument {
    /// That of a pointer.
    pub fn of(pointer: *mut c_void) -> Argument {
        Argument(pointer as usize)
    }

    fn pointer(self) -> *mut c_void {
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

/// Both ends of a packet, as programs see them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CEnds {
    /// Who sent it.
    pub source: CEnd,
    /// To whom.
    pub destination: CEnd,
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
    ended: AtomicBool,
    bell: Condvar,
    started: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl ProcessDomain {
    /// A domain that lives.
    pub fn new(session: Arc<Session>, name: u32, parent: Option<u32>, threads: u16) -> ProcessDomain {
        ProcessDomain {
            session,
            name,
            parent,
            handle: OnceLock::new(),
            ends: None,
            threads,
            ended: AtomicBool::new(false),
            bell: Condvar::new(),
            started: Mutex::default(),
        }
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
    /// The node's name of it.
    pub name: OnceLock<u64>,
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

/// What a thread of a crew is to do.
enum Job {
    Packet(Arc<Channel>, Packet, CEnds),
    Event(Arc<Event>),
    Overrun(Overrun, u64),
    Run(RunFunction, Argument),
}

/// A domain's queue and threads.
struct Crew {
    domain: Arc<ProcessDomain>,
    jobs: VecDeque<Job>,
    /// Threads in it, and those of them that wait at its bell.
    threads: usize,
    waiting: usize,
    /// Whether it stands on the bench: somebody of it waits.
    listed: bool,
}

#[derive(Default)]
struct State {
    leading: bool,
    crews: HashMap<u32, Crew>,
    channels: HashMap<u32, (Arc<Channel>, u16)>,
    events: HashMap<u64, Arc<Event>>,
    pools: HashMap<u32, Overrun>,
    bench: Vec<u32>,
}

/// The desk of a session: who waits, who leads, and what is to do.
#[derive(Default)]
pub struct Desk {
    state: Mutex<State>,
    /// Rung when a channel is quiet or a domain has ended.
    quiet: Condvar,
}

thread_local! {
    /// The session (its slot) and domain for which this thread works.
    static WORKS_FOR: Cell<Option<(u8, u32)>> = const { Cell::new(None) };
}

/// The domain of this session for which the calling thread works, if it is one of a crew.
pub fn works_for(session: &Session) -> Option<u32> {
    WORKS_FOR.get().filter(|(slot, _)| *slot == session.slot()).map(|(_, domain)| domain)
}

/// Whether the calling thread is one of a crew.
pub fn is_of_a_crew() -> bool {
    WORKS_FOR.get().is_some()
}

impl State {
    /// The next thing to do for a crew, as far as its channels allow.
    fn next(&mut self, domain: u32) -> Option<Job> {
        let crew = self.crews.get_mut(&domain)?;
        let channels = &self.channels;
        let free = |job: &Job| match job {
            Job::Packet(channel, ..) => {
                channels.get(&channel.name).is_none_or(|(channel, running)| *running < channel.threads)
            }
            _ => true,
        };
        let at = crew.jobs.iter().position(free)?;
        let job = crew.jobs.remove(at)?;
        if let Job::Packet(channel, ..) = &job
            && let Some((_, running)) = self.channels.get_mut(&channel.name)
        {
            *running += 1;
        }
        Some(job)
    }

    /// Gives a job to the crew of a domain, and wakes somebody of it who waits, unless the caller is of it and looks himself.
    fn give(&mut self, domain: u32, job: Job, own: Option<u32>) -> Result<(), Job> {
        let Some(crew) = self.crews.get_mut(&domain) else { return Err(job) };
        crew.jobs.push_back(job);
        if own != Some(domain) {
            crew.domain.bell.notify_one();
        }
        Ok(())
    }

    /// Wakes somebody who has nothing to do, so that he may lead.
    fn call_leader(&mut self) {
        while let Some(domain) = self.bench.pop() {
            let Some(crew) = self.crews.get_mut(&domain) else { continue };
            crew.listed = false;
            if crew.waiting > 0 {
                return crew.domain.bell.notify_one();
            }
        }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a domain, and starts its threads unless the program brings them itself.
    pub fn open(&self, domain: &Arc<ProcessDomain>, start: bool, stack_bytes: usize) -> Result<(), Error> {
        let crew = Crew { domain: domain.clone(), jobs: VecDeque::new(), threads: 0, waiting: 0, listed: false };
        self.lock().crews.insert(domain.name, crew);
        for _ in 0..if start { domain.threads } else { 0 } {
            let (session, domain_) = (domain.session.clone(), domain.clone());
            let mut builder = std::thread::Builder::new().name("anode-crew".into());
            if stack_bytes > 0 {
                builder = builder.stack_size(stack_bytes.max(64 << 10));
            }
            let thread = builder.spawn(move || {
                // The domain may have ended before its thread began.
                let _ = session.desk().serve(&domain_, None);
            });
            match thread {
                Ok(thread) => domain.started.lock().unwrap_or_else(PoisonError::into_inner).push(thread),
                Err(_) => return Err(Error::Full),
            }
        }
        Ok(())
    }

    /// The program's name of a domain.
    pub fn handle_of(&self, name: u32) -> Option<usize> {
        self.lock().crews.get(&name)?.domain.handle.get().copied()
    }

    /// Lets packets of a channel come.
    pub fn add_channel(&self, channel: &Arc<Channel>) {
        self.lock().channels.insert(channel.name, (channel.clone(), 0));
    }

    /// Lets no more packets of a channel come, and waits until none is worked on; a thread of a crew does not wait.
    pub fn remove_channel(&self, session: &Session, name: u32) {
        let mut state = self.lock();
        while !is_of_a_crew() && state.channels.get(&name).is_some_and(|(_, running)| *running > 0) {
            state = self.quiet.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.channels.remove(&name);
        let mut dropped = Vec::new();
        for crew in state.crews.values_mut() {
            let goes = |job: &Job| matches!(job, Job::Packet(channel, ..) if channel.name == name);
            let (gone, kept) = core::mem::take(&mut crew.jobs).into_iter().partition::<VecDeque<_>, _>(goes);
            crew.jobs = kept;
            dropped.extend(gone);
        }
        drop(state);
        dropped.into_iter().for_each(|job| give_back(session, job));
    }

    /// Lets an event come, under the number it was scheduled with.
    pub fn add_event(&self, number: u64, event: &Arc<Event>) {
        self.lock().events.insert(number, event.clone());
    }

    /// Lets an event not come any more; false if it has.
    pub fn remove_event(&self, event: &Arc<Event>) -> bool {
        let mut state = self.lock();
        let before = state.events.len();
        state.events.retain(|_, other| !Arc::ptr_eq(other, event));
        let waiting = |job: &Job| matches!(job, Job::Event(other) if Arc::ptr_eq(other, event));
        let mut found = state.events.len() < before;
        if let Some(crew) = state.crews.get_mut(&event.domain) {
            found |= crew.jobs.iter().any(waiting);
            crew.jobs.retain(|job| !waiting(job));
        }
        found
    }

    /// Says who is told when a pool is over its limit.
    pub fn add_pool(&self, name: u32, overrun: Overrun) {
        self.lock().pools.insert(name, overrun);
    }

    /// Tells nobody any more.
    pub fn remove_pool(&self, name: u32) {
        self.lock().pools.remove(&name);
    }

    /// Has a thread of a crew run a function.
    pub fn run(&self, domain: &ProcessDomain, function: RunFunction, argument: Argument) -> Result<(), Error> {
        let mut state = self.lock();
        let crew = state.crews.get(&domain.name).ok_or(Error::Stale)?;
        if crew.jobs.len() >= RUNS_MAX {
            return Err(Error::Again);
        }
        let idle = crew.waiting > 0;
        state.give(domain.name, Job::Run(function, argument), None).map_err(|_| Error::Stale)?;
        if !idle {
            // It may be this crew's only thread that leads.
            domain.session.nudge();
        }
        Ok(())
    }

    /// Waits until a domain has ended.
    pub fn wait_for_end(&self, domain: &ProcessDomain) {
        let mut state = self.lock();
        while domain.living().is_ok() {
            state = self.quiet.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
    }

    /// Works for a domain until it ends, or until the time is up.
    pub fn serve(&self, domain: &Arc<ProcessDomain>, until: Option<Instant>) -> Result<(), Error> {
        let session = &domain.session;
        let mut state = self.lock();
        let crew = state.crews.get_mut(&domain.name).ok_or(Error::Stale)?;
        if crew.threads >= usize::from(domain.threads) {
            return Err(Error::Limit);
        }
        crew.threads += 1;
        let before = WORKS_FOR.replace(Some((session.slot(), domain.name)));
        let ended = loop {
            if let Err(error) = domain.living() {
                break Err(error);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break Ok(());
            }
            if let Some(job) = state.next(domain.name) {
                if !state.leading {
                    state.call_leader();
                }
                drop(state);
                let channel = perform(session, job);
                state = self.lock();
                self.done(&mut state, channel);
            } else if !state.leading {
                state.leading = true;
                drop(state);
                let entry = session.take(left);
                state = self.lock();
                state.leading = false;
                match entry {
                    Ok(Some(message)) => state = self.route(session, state, message),
                    Ok(None) => {}
                    Err(_) => {
                        drop(state);
                        session.end();
                        state = self.lock();
                    }
                }
            } else {
                state = self.wait(state, domain, left);
            }
        };
        WORKS_FOR.set(before);
        if let Some(crew) = state.crews.get_mut(&domain.name) {
            crew.threads -= 1;
        }
        // Whoever leads when this one has gone.
        state.call_leader();
        ended
    }

    /// Waits at the bell of a domain.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        domain: &ProcessDomain,
        left: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        let listed = state.crews.get_mut(&domain.name).map(|crew| {
            crew.waiting += 1;
            core::mem::replace(&mut crew.listed, true)
        });
        if listed == Some(false) {
            state.bench.push(domain.name);
        }
        let mut state = match left {
            Some(left) => domain.bell.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            None => domain.bell.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
        if let Some(crew) = state.crews.get_mut(&domain.name) {
            crew.waiting -= 1;
        }
        state
    }

    fn done(&self, state: &mut State, channel: Option<u32>) {
        let Some((_, running)) = channel.and_then(|name| state.channels.get_mut(&name)) else { return };
        *running -= 1;
        if *running == 0 {
            self.quiet.notify_all();
        }
    }

    /// Gives what came from the node to whom it concerns.
    fn route<'a>(
        &'a self,
        session: &Arc<Session>,
        mut state: MutexGuard<'a, State>,
        message: Message,
    ) -> MutexGuard<'a, State> {
        match message {
            Message::Packet { span, channel, domain, source, destination } => {
                if !state.channels.contains_key(&channel) {
                    // The answer to the call that creates it may not be read yet.
                    drop(state);
                    session.let_calls_finish();
                    state = self.lock();
                }
                let packet = session.buffers().revive(span.buffer, span.offset, span.length);
                let Some(packet) = packet else { return state };
                let ends = CEnds { source: CEnd::of(source), destination: CEnd::of(destination) };
                let job = state.channels.get(&channel).map(|(channel, _)| Job::Packet(channel.clone(), packet, ends));
                let refused = job.and_then(|job| state.give(domain, job, works_for(session)).err());
                if let Some(job) = refused {
                    give_back(session, job);
                } else if !state.channels.contains_key(&channel) {
                    // The channel has just been destroyed.
                    let _ = session.free(packet);
                }
            }
            Message::Event { domain, argument, .. } => {
                if let Some(event) = state.events.remove(&argument) {
                    let _ = state.give(domain, Job::Event(event), works_for(session));
                }
            }
            Message::Overrun { domain, pool, deadline } => {
                if let Some(overrun) = state.pools.get(&pool).copied() {
                    let _ = state.give(domain, Job::Overrun(overrun, deadline), works_for(session));
                }
            }
            Message::Ended { domain } => {
                drop(state);
                self.close(session, domain);
                state = self.lock();
            }
            Message::Free { .. } => {}
        }
        state
    }

    /// Ends a domain and those below it here: no function of theirs begins any more. Gives the domains that have ended.
    pub fn close(&self, session: &Session, domain: u32) -> Vec<Arc<ProcessDomain>> {
        let mut state = self.lock();
        let (mut open, mut ended) = (vec![domain], Vec::new());
        while let Some(name) = open.pop() {
            let below = |crew: &&Crew| crew.domain.parent == Some(name);
            open.extend(state.crews.values().filter(below).map(|crew| crew.domain.name));
            ended.extend(state.crews.remove(&name));
        }
        let gone: Vec<u32> = ended.iter().map(|crew| crew.domain.name).collect();
        state.channels.retain(|_, (channel, _)| !gone.contains(&channel.domain));
        state.events.retain(|_, event| !gone.contains(&event.domain));
        for crew in &ended {
            crew.domain.ended.store(true, Ordering::Release);
            crew.domain.bell.notify_all();
        }
        self.quiet.notify_all();
        drop(state);
        session.nudge();
        let mut domains = Vec::new();
        for crew in ended {
            crew.jobs.into_iter().for_each(|job| give_back(session, job));
            if let (Some((function, argument)), Some(handle)) = (crew.domain.ends, crew.domain.handle.get()) {
                function(*handle as *mut c_void, argument.pointer());
            }
            domains.push(crew.domain);
        }
        domains
    }

    /// Ends all domains here.
    pub fn close_all(&self, session: &Session) -> Vec<Arc<ProcessDomain>> {
        let names: Vec<u32> = self.lock().crews.keys().copied().collect();
        let closed = names.iter().flat_map(|name| self.close(session, *name)).collect();
        *self.lock() = State::default();
        closed
    }
}

/// Waits until the threads of domains that have ended are gone; a thread of a crew does not wait.
pub fn join(domains: Vec<Arc<ProcessDomain>>) {
    for domain in domains {
        let threads = core::mem::take(&mut *domain.started.lock().unwrap_or_else(PoisonError::into_inner));
        if !is_of_a_crew() {
            for thread in threads {
                // A thread that panicked has said so.
                let _ = thread.join();
            }
        }
    }
}

/// Does a job; gives the channel it was for.
fn perform(session: &Session, job: Job) -> Option<u32> {
    match job {
        Job::Packet(channel, packet, ends) => {
            let name = objects::packet_name(session.slot(), packet);
            let handle = channel.handle.get().copied().unwrap_or(0);
            (channel.function)(handle as *mut c_void, name, &ends, channel.argument.pointer());
            return Some(channel.name);
        }
        Job::Event(event) => {
            let handle = event.handle.get().copied().unwrap_or(0) as *mut c_void;
            // It has come, so its name means nothing any more; unless it was cancelled at the last moment.
            if objects::remove::<Event>(handle).is_ok() {
                (event.function)(handle, event.argument.pointer());
            }
        }
        Job::Overrun(Overrun { handle, function, argument }, deadline) => {
            function(handle as *mut c_void, deadline, argument.pointer());
        }
        Job::Run(function, argument) => function(argument.pointer()),
    }
    None
}

/// A job that nobody does: its packet goes back.
fn give_back(session: &Session, job: Job) {
    if let Job::Packet(_, packet, _) = job {
        let _ = session.free(packet);
    }
}
