//! Crews: the threads that run a program's functions for packets, events and exceptions.
//!
//! Each domain has a crew of at most so many threads. All crews of a session share what comes from the node: one thread
//! at a time *leads*, that is, waits for it. What it takes out is queued with the crews of its domains; then it leaves
//! the lead to a thread that has nothing to do, if there is one, and works itself. So in an environment with one thread
//! a packet passes no other thread, and a domain whose threads all work keeps nobody else's from leading. What is taken
//! at a time is a batch, and the node is woken behind a batch: a wake-up costs more than a packet.
//!
//! In the node's own process nobody leads: the node's thread calls the functions ([`Desk::perform_here`]), and crews have threads only for
//! what a program wants run besides ([`Desk::run`]).
//!
//! A queue is bounded by what can be in it: packets by the node's buffers, events by those scheduled.

mod flows;
mod parts;
pub mod runs;
mod serve;

pub use flows::Flow;
pub use parts::{
    Argument, CEnd, CEnds, Channel, Event, ObjectFunction, Overrun, OverrunFunction, ProcessDomain, ReceiveFunction,
    RunFunction, Watch,
};

use crate::buffers::Packet;
use crate::error::Error;
use crate::numbers::Numbers;
use crate::session::Session;
use core::cell::Cell;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use runs::Runs;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Threads of one crew, at most.
pub const THREADS_MAX: usize = 64;

/// Functions that wait for a thread of a crew because a program asked for it.
const RUNS_MAX: usize = 1024;

/// Domains that have ended and are remembered, besides as many as there are.
const FORGOTTEN: usize = 64;

/// What a thread of a crew is to do.
enum Job {
    Packet(Arc<Channel>, Packet, CEnds),
    Event(Arc<Event>),
    Overrun(Overrun, u64),
    Changed(Arc<Watch>),
    Run(RunFunction, Argument),
    /// Of an a-flow, with its state.
    Flow(ObjectFunction, Arc<ProcessDomain>, Argument),
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
    /// Its a-flows that have something to do.
    line: flows::Line,
    /// Of an a-flow: functions that run, and whether it stands in the line of those who run them.
    running: usize,
    offered: bool,
    /// Its incoming channels, and how many of its timers wait.
    channels: Vec<u32>,
    timers: u32,
}

#[derive(Default)]
struct State {
    /// Whether a thread waits for what comes from the node; in the node's process always.
    leading: bool,
    crews: Numbers<u32, Crew>,
    channels: Numbers<u32, (Arc<Channel>, u16)>,
    events: Numbers<u64, Arc<Event>>,
    pools: Numbers<u32, Overrun>,
    watches: Numbers<u64, Arc<Watch>>,
    bench: Vec<u32>,
    /// Functions that run, and who waits for them.
    runs: Runs,
    /// Threads that wait for a channel to be quiet.
    watchers: usize,
    /// Numbers of threads that are free again, and how many were given out.
    free: Vec<u16>,
    numbered: u16,
}

/// The desk of a session: who waits, who leads, and what is to do.
#[derive(Default)]
pub struct Desk {
    state: Mutex<State>,
    /// Rung when a channel is quiet, if somebody watches: not for every packet because the program's first thread waits for the end.
    quiet: Condvar,
    /// Rung when a domain has ended, and when a function has returned that somebody waits for.
    end: Condvar,
    /// In the node's process, the domain whose function the node's thread runs, and one more; 0: none.
    here: AtomicU32,
}

/// How often a thread looks whether the node's thread, which wakes nobody, has returned from a function.
const LOOK: Duration = Duration::from_millis(1);

/// Threads of this process that have a number.
static CALLERS: AtomicU64 = AtomicU64::new(1);

/// The number of the node's own thread, when it calls functions in its process.
const NODES: u64 = 0;

/// For whom a thread works.
#[derive(Clone, Copy)]
struct Works {
    slot: u8,
    domain: u32,
    /// The thread's own number, which is no other's that works.
    thread: u64,
}

thread_local! {
    /// Its session; whoever sets it holds that until it is set anew.
    static SESSION: Cell<Option<NonNull<Session>>> = const { Cell::new(None) };
    static WORKS_FOR: Cell<Option<Works>> = const { Cell::new(None) };
    /// Whether the thread leaves its crew when its function has returned.
    static LEAVES: Cell<bool> = const { Cell::new(false) };
    /// Its number among those that run functions or wait for them.
    static CALLER: u64 = CALLERS.fetch_add(1, Ordering::Relaxed);
    /// Whether it runs a deliver function.
    static DELIVERS: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread's number in [`Runs`].
fn caller() -> u64 {
    CALLER.with(|number| *number)
}

/// Whether the calling thread is the node's own, which waits for nothing.
fn is_of_node() -> bool {
    WORKS_FOR.get().is_some_and(|works| works.thread == NODES)
}

/// As long as it lives, the calling thread works for a domain of a session.
struct Working<'a> {
    before: (Option<NonNull<Session>>, Option<Works>),
    /// Held meanwhile.
    _session: PhantomData<&'a Session>,
}

impl<'a> Working<'a> {
    fn begin(session: &'a Session, domain: u32, thread: u64) -> Working<'a> {
        let works = Works { slot: session.slot(), domain, thread };
        let before = (SESSION.replace(Some(NonNull::from(session))), WORKS_FOR.replace(Some(works)));
        Working { before, _session: PhantomData }
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        SESSION.set(self.before.0);
        WORKS_FOR.set(self.before.1);
    }
}

/// Does something with the session in this slot if the calling thread works for it.
#[inline]
pub fn with_own<R>(slot: u8, work: impl FnOnce(&Session) -> R) -> Option<R> {
    let session = SESSION.get()?;
    // SAFETY: whoever has set it borrows the session until it is set anew, on this very thread.
    let session = unsafe { session.as_ref() };
    // The slot of one that has ended may be another's.
    (session.slot() == slot && !session.has_ended()).then(|| work(session))
}

/// The domain of this session for which the calling thread works, if it is one of a crew.
pub fn works_for(session: &Session) -> Option<u32> {
    WORKS_FOR.get().filter(|works| works.slot == session.slot()).map(|works| works.domain)
}

/// Whether the calling thread is one of a crew.
pub fn is_of_a_crew() -> bool {
    WORKS_FOR.get().is_some()
}

/// Whether the calling thread runs a deliver function: the node is told of what that sends when it has returned.
pub fn delivers() -> bool {
    DELIVERS.get()
}

/// The number of the calling thread, if it is one of a crew: no other thread has it as long as this one works.
pub fn thread_self() -> Option<u64> {
    WORKS_FOR.get().map(|works| works.thread)
}

/// The state of the a-flow for which the calling thread works.
pub fn own_flow_state() -> Option<Argument> {
    let domain = WORKS_FOR.get()?.domain;
    // SAFETY: as in `with_own`: whoever has set it borrows the session until it is set anew, on this very thread.
    let session = unsafe { SESSION.get()?.as_ref() };
    session.desk().state_of(domain)
}

/// The calling thread leaves its crew when the function that it runs has returned; false if it is of none, or the node's.
pub fn leave() -> bool {
    let leaves = WORKS_FOR.get().is_some_and(|works| works.thread != NODES);
    LEAVES.set(leaves);
    leaves
}

impl State {
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

    /// Takes a coming event out.
    fn take_event(&mut self, number: u64) -> Option<Arc<Event>> {
        let event = self.events.remove(&number)?;
        if let Some(crew) = self.crews.get_mut(&event.domain) {
            crew.timers -= 1;
        }
        Some(event)
    }

    /// Lets nothing come any more for domains that have ended.
    fn forget(&mut self, ended: &[Crew]) {
        let gone: Numbers<u32, ()> = ended.iter().map(|crew| (crew.domain.name, ())).collect();
        for crew in ended {
            self.dismiss(crew);
            crew.channels.iter().for_each(|channel| drop(self.channels.remove(channel)));
        }
        if ended.iter().any(|crew| crew.timers > 0) {
            self.events.retain(|_, event| !gone.contains_key(&event.domain));
        }
        self.watches.retain(|_, watch| !gone.contains_key(&watch.domain));
    }

    /// A number for a thread.
    fn number(&mut self) -> u16 {
        self.free.pop().unwrap_or_else(|| {
            self.numbered = self.numbered.saturating_add(1);
            self.numbered - 1
        })
    }
}

impl Desk {
    /// The desk of a session in the node's process, where functions are called by the node's thread.
    pub fn of_node() -> Desk {
        Desk { state: Mutex::new(State { leading: true, ..State::default() }), ..Desk::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses if so many more threads cannot work for the session: the node could not see them.
    pub fn has_room(&self, session: &Session, threads: u16) -> Result<(), Error> {
        let state = self.lock();
        // A-flows have none of their own.
        let own = state.crews.values().filter(|crew| crew.domain.flow.is_none());
        let all: usize = own.map(|crew| usize::from(crew.domain.threads)).sum();
        let most = usize::from(session.link().threads_max());
        if all + usize::from(threads) <= most { Ok(()) } else { Err(Error::Limit) }
    }

    /// Adds a domain, and starts its threads unless the program brings them itself.
    pub fn open(&self, domain: &Arc<ProcessDomain>) -> Result<(), Error> {
        let mut state = self.lock();
        if domain.parent.is_some_and(|parent| !state.crews.contains_key(&parent)) {
            // It has ended with the one above it before it was known here.
            domain.ended.store(true, Ordering::Release);
            return Err(Error::Stale);
        }
        state.hire(domain)?;
        state.runs.add(domain.name, domain.parent);
        state.crews.insert(domain.name, Crew::of(domain));
        drop(state);
        let starts = domain.starts && domain.flow.is_none() && !domain.session.link().is_here();
        (0..if starts { domain.threads } else { 0 }).try_for_each(|_| start_thread(domain))
    }

    /// The program's name of a domain.
    pub fn handle_of(&self, name: u32) -> Option<usize> {
        self.lock().crews.get(&name)?.domain.handle.get().copied()
    }

    /// The state of an a-flow.
    fn state_of(&self, name: u32) -> Option<Argument> {
        self.lock().crews.get(&name)?.domain.flow.as_ref().filter(|flow| flow.leaf).map(|flow| flow.state)
    }

    /// Lets packets of a channel come.
    pub fn add_channel(&self, channel: &Arc<Channel>) {
        let mut state = self.lock();
        state.channels.insert(channel.name, (channel.clone(), 0));
        if let Some(crew) = state.crews.get_mut(&channel.domain) {
            crew.channels.push(channel.name);
        }
        drop(state);
        channel.session.link().opened(channel);
    }

    /// Lets no more packets of a channel come, and waits until none is worked on; a thread of a crew does not wait.
    pub fn remove_channel(&self, session: &Session, name: u32) {
        session.link().closed(name);
        let mut state = self.lock();
        while !is_of_a_crew() && state.channels.get(&name).is_some_and(|(_, running)| *running > 0) {
            state.watchers += 1;
            state = self.quiet.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.watchers -= 1;
        }
        let mut dropped = Vec::new();
        let domain = state.channels.remove(&name).map(|(channel, _)| channel.domain);
        if let Some(crew) = domain.and_then(|domain| state.crews.get_mut(&domain)) {
            crew.channels.retain(|other| *other != name);
            let goes = |job: &Job| matches!(job, Job::Packet(channel, ..) if channel.name == name);
            let (gone, kept) = core::mem::take(&mut crew.jobs).into_iter().partition::<VecDeque<_>, _>(goes);
            crew.jobs = kept;
            dropped.extend(gone);
        }
        drop(state);
        dropped.into_iter().for_each(|job| give_back(session, job));
    }

    /// Lets an event come, under the number it was scheduled with. Refuses if the domain's a-flow has all its timers.
    pub fn add_event(&self, event: &Arc<Event>) -> Result<(), Error> {
        let mut state = self.lock();
        let crew = state.crews.get_mut(&event.domain).ok_or(Error::Stale)?;
        if !crew.has_timer() {
            return Err(Error::Limit);
        }
        crew.timers += 1;
        state.events.insert(event.number, event.clone());
        Ok(())
    }

    /// Lets an event not come any more; false if it has.
    pub fn remove_event(&self, event: &Arc<Event>) -> bool {
        let mut state = self.lock();
        let mut found = state.take_event(event.number).is_some();
        let waiting = |job: &Job| matches!(job, Job::Event(other) if Arc::ptr_eq(other, event));
        if let Some(crew) = state.crews.get_mut(&event.domain) {
            found |= crew.jobs.iter().any(waiting);
            crew.jobs.retain(|job| !waiting(job));
        }
        found
    }

    /// Has a watch be told of changes, under the number it was begun with.
    pub fn add_watch(&self, number: u64, watch: &Arc<Watch>) {
        self.lock().watches.insert(number, watch.clone());
    }

    /// Tells it nothing any more.
    pub fn remove_watch(&self, watch: &Arc<Watch>) {
        let mut state = self.lock();
        state.watches.retain(|_, other| !Arc::ptr_eq(other, watch));
        if let Some(crew) = state.crews.get_mut(&watch.domain) {
            crew.jobs.retain(|job| !matches!(job, Job::Changed(other) if Arc::ptr_eq(other, watch)));
        }
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
    pub fn run(&self, domain: &Arc<ProcessDomain>, function: RunFunction, argument: Argument) -> Result<(), Error> {
        self.have_done(domain, Job::Run(function, argument))
    }

    /// Has a thread run a function for an a-flow, with its state.
    pub fn run_flow(&self, flow: &Arc<ProcessDomain>, function: ObjectFunction, state: Argument) -> Result<(), Error> {
        self.have_done(flow, Job::Flow(function, flow.clone(), state))
    }

    /// Has a packet come to a channel of the program, which somebody else of it has: it has another name from now on.
    pub fn pass(&self, channel: &Arc<Channel>, packet: Packet, ends: CEnds) -> Result<(), Error> {
        let session = &channel.session;
        self.have(channel.domain, || Ok(Job::Packet(channel.clone(), session.buffers().rename(packet)?, ends)))
    }

    fn have_done(&self, domain: &Arc<ProcessDomain>, job: Job) -> Result<(), Error> {
        self.have(domain.name, || Ok(job))
    }

    /// Has a thread do what is made only if there is room for it.
    fn have(&self, domain: u32, job: impl FnOnce() -> Result<Job, Error>) -> Result<(), Error> {
        crate::heap::has_room()?;
        let mut state = self.lock();
        let crew = state.crews.get_mut(&domain).ok_or(Error::Stale)?;
        if crew.jobs.len() >= RUNS_MAX {
            return Err(Error::Again);
        }
        crew.jobs.try_reserve(1).map_err(|_| Error::Memory)?;
        let (workers, idle) = state.workers_of(domain).ok_or(Error::Stale)?;
        state.give(domain, job()?, None).map_err(|_| Error::Memory)?;
        drop(state);
        if idle {
            return Ok(());
        }
        if workers.session.link().is_here() {
            // In the node's process threads are for such functions alone.
            let started = workers.started.lock().unwrap_or_else(PoisonError::into_inner).len();
            let grows = workers.starts && started < usize::from(workers.threads);
            return if grows { start_thread(&workers) } else { Ok(()) };
        }
        // It may be this crew's only thread that leads.
        workers.session.nudge();
        Ok(())
    }

    /// Waits until a domain has ended.
    pub fn wait_for_end(&self, domain: &ProcessDomain) {
        let mut state = self.lock();
        while domain.living().is_ok() {
            state = self.end.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a domain and those below it here: no function of theirs begins any more. Gives the domains that have ended.
    pub fn close(&self, session: &Session, domain: u32) -> Vec<Arc<ProcessDomain>> {
        let mut state = self.lock();
        let within = state.within(domain);
        let ended: Vec<Crew> = within.iter().filter_map(|name| state.crews.remove(name)).collect();
        state.forget(&ended);
        let tells = |crew: &&Crew| crew.domain.ends.is_some() && crew.domain.handle.get().is_some();
        ended.iter().filter(tells).for_each(|crew| state.runs.begin(caller(), crew.domain.name));
        for crew in &ended {
            crew.domain.ended.store(true, Ordering::Release);
            crew.domain.bell.notify_all();
        }
        self.quiet.notify_all();
        self.end.notify_all();
        drop(state);
        session.nudge();
        let mut domains = Vec::new();
        for crew in ended {
            crew.jobs.into_iter().for_each(|job| give_back(session, job));
            if let (Some((function, argument)), Some(handle)) = (crew.domain.ends, crew.domain.handle.get()) {
                function(*handle as *mut c_void, argument.pointer());
                self.returned(crew.domain.name);
            }
            domains.push(crew.domain);
        }
        domains
    }

    /// Ends all domains here.
    pub fn close_all(&self, session: &Session) -> Vec<Arc<ProcessDomain>> {
        let state = self.lock();
        let is_top = |crew: &&Crew| crew.domain.parent.is_none_or(|parent| !state.crews.contains_key(&parent));
        let tops: Vec<u32> = state.crews.values().filter(is_top).map(|crew| crew.domain.name).collect();
        drop(state);
        let closed = tops.iter().flat_map(|name| self.close(session, *name)).collect();
        let mut state = self.lock();
        let watchers = state.watchers;
        let (runs, leading) = (core::mem::take(&mut state.runs), session.link().is_here());
        *state = State { watchers, runs, leading, ..State::default() };
        closed
    }

    /// A function of a domain that this thread ran has returned.
    fn returned(&self, domain: u32) {
        if self.lock().runs.end(caller(), domain) {
            self.end.notify_all();
        }
    }

    /// Waits until no function of a domain or of one below it runs, but for those of the calling thread. The node's own
    /// thread does not wait.
    pub fn wait_for_functions(&self, domain: u32) {
        if is_of_node() {
            return;
        }
        let mut state = self.lock();
        state.runs.wait(caller(), domain);
        // Functions that this thread waits for, and that wait for this one, need not any more.
        self.end.notify_all();
        loop {
            let here = self.here.load(Ordering::Acquire).checked_sub(1);
            let by_node = here.is_some_and(|here| state.runs.is_within(here, domain));
            if !by_node && !state.runs.holds(caller(), domain) {
                break;
            }
            state = match by_node {
                true => self.end.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0,
                false => self.end.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        state.runs.waited(caller(), domain);
        let State { runs, crews, .. } = &mut *state;
        // Not each time: there may be many.
        if runs.known() > 2 * crews.len() + FORGOTTEN {
            runs.forget(|domain| crews.get(&domain).is_some());
        }
    }
}

/// Starts a thread of a domain's.
fn start_thread(domain: &Arc<ProcessDomain>) -> Result<(), Error> {
    crate::heap::has_room()?;
    let (session, works_for) = (domain.session.clone(), domain.clone());
    let mut builder = std::thread::Builder::new().name("anode-crew".into());
    if domain.stack_bytes > 0 {
        builder = builder.stack_size(domain.stack_bytes.max(64 << 10));
    }
    let thread = builder.spawn(move || {
        // The domain may have ended before its thread began.
        let _ = session.desk().serve(&works_for, None);
    });
    let thread = thread.map_err(|_| Error::Memory)?;
    domain.started.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    Ok(())
}

/// Waits until the threads of domains that have ended are gone; a thread of a crew does not wait.
pub fn join(domains: &[Arc<ProcessDomain>]) {
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

/// A job that nobody does: its packet goes back.
fn give_back(session: &Session, job: Job) {
    if let Job::Packet(_, packet, _) = job {
        let _ = session.free(packet);
    }
}
