//! A thread at work for a domain: it leads, takes an entry, and runs its function.

use super::{Argument, CEnds, Channel, Crew, DELIVERS, Desk, Job, LEAVES, Overrun, ProcessDomain, State, Working};
use super::{NODES, caller, give_back, thread_self, works_for};
use crate::buffers::Packet;
use crate::entry::Message;
use crate::error::Error;
use crate::link::BATCH;
use crate::objects;
use crate::session::Session;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how long the node is not told of what was sent because there is more to do.
const UNTOLD: Duration = Duration::from_micros(50);

/// Numbers of threads, over all sessions.
static THREADS: AtomicU64 = AtomicU64::new(1);

/// What one thread knows of its work.
struct Shift {
    /// Its number in the session.
    number: u16,
    /// Counts activations and rests: odd while a function runs.
    turn: u32,
    /// Since when something that was sent is not told.
    untold: Option<Instant>,
}

impl Shift {
    /// Shows the node whether a function runs.
    fn turns(&mut self, session: &Session, domain: u32) {
        self.turn = self.turn.wrapping_add(1);
        session.link().shows(self.number, domain, self.turn);
    }
}

impl Desk {
    /// Works for a domain until it ends, until the time is up, or until the thread leaves.
    pub fn serve(&self, domain: &Arc<ProcessDomain>, until: Option<Instant>) -> Result<(), Error> {
        self.serve_unless(domain, until, &|| false)
    }

    /// The same, until it is to stop.
    pub fn serve_unless(
        &self,
        domain: &Arc<ProcessDomain>,
        until: Option<Instant>,
        stops: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let session = &domain.session;
        let mut state = self.lock();
        let crew = state.crews.get_mut(&domain.name).ok_or(Error::Stale)?;
        if crew.threads >= usize::from(domain.threads) {
            return Err(Error::Limit);
        }
        crew.threads += 1;
        let number = state.number();
        if number >= session.link().threads_max() {
            return Err(self.too_many(state, domain.name, number));
        }
        let thread = THREADS.fetch_add(1, Ordering::Relaxed);
        let mut shift = Shift { number, turn: 0, untold: None };
        let working = Working::begin(session, domain.name, thread);
        LEAVES.set(false);
        let mut batch = Vec::with_capacity(BATCH);
        let ended = loop {
            if let Err(error) = domain.living() {
                break Err(error);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) || LEAVES.get() || stops() {
                break Ok(());
            }
            state = match state.next(domain.name) {
                Some((of, job)) => self.work(state, (domain.name, of), &mut shift, (session, job)),
                None if state.leading => self.wait(state, domain, left),
                None => self.lead(state, session, &mut batch, left),
            };
        };
        drop(working);
        state.free.push(shift.number);
        if let Some(crew) = state.crews.get_mut(&domain.name) {
            crew.threads -= 1;
        }
        // Whoever leads when this one has gone.
        state.call_leader();
        drop(state);
        session.link().tell();
        ended
    }

    /// Does a job of a domain, of a crew's own or of an a-flow of it.
    fn work<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        (crew, domain): (u32, u32),
        shift: &mut Shift,
        (session, job): (&Session, Job),
    ) -> MutexGuard<'a, State> {
        if !state.leading {
            state.call_leader();
        }
        state.runs.begin(caller(), domain);
        drop(state);
        // What a program wants run for itself may take as long as it likes.
        let watched = !matches!(job, Job::Run(..) | Job::Flow(..));
        if watched {
            shift.turns(session, domain);
        }
        let lent = (domain != crew).then(|| Working::begin(session, domain, thread_self().unwrap_or(NODES)));
        let channel = perform(session, job);
        drop(lent);
        if watched {
            shift.turns(session, domain);
        }
        let mut state = self.lock();
        self.done(&mut state, channel);
        state.returned(domain, crew);
        if state.runs.end(caller(), domain) {
            self.end.notify_all();
        }
        self.tell(session, state, shift)
    }

    /// Waits for what comes from the node, and gives it to whom it concerns.
    fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        session: &Arc<Session>,
        batch: &mut Vec<Message>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        state.leading = true;
        drop(state);
        let taken = session.take(batch, left);
        let mut state = self.lock();
        state.leading = false;
        for message in batch.drain(..) {
            state = self.route(session, state, message);
        }
        if taken.is_err() {
            drop(state);
            session.end();
            state = self.lock();
        }
        state
    }

    /// More threads than the node can see work for the session: this one does not.
    #[cold]
    fn too_many(&self, mut state: MutexGuard<'_, State>, domain: u32, number: u16) -> Error {
        state.free.push(number);
        if let Some(crew) = state.crews.get_mut(&domain) {
            crew.threads -= 1;
        }
        Error::Limit
    }

    /// Tells the node of what was sent if that has waited for long; otherwise whoever waits next does ([`Desk::wait`], `take`).
    fn tell<'a>(&'a self, session: &Session, state: MutexGuard<'a, State>, shift: &mut Shift) -> MutexGuard<'a, State> {
        if !session.link().is_untold() {
            shift.untold = None;
            return state;
        }
        let since = *shift.untold.get_or_insert_with(Instant::now);
        if since.elapsed() < UNTOLD {
            return state;
        }
        shift.untold = None;
        drop(state);
        session.link().tell();
        self.lock()
    }

    /// Waits at the bell of a domain.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        domain: &ProcessDomain,
        left: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        if domain.session.link().is_untold() {
            drop(state);
            domain.session.link().tell();
            // There may be something to do meanwhile.
            return self.lock();
        }
        let listed = state.crews.get_mut(&domain.name).map(|crew: &mut Crew| {
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
        if *running == 0 && state.watchers > 0 {
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
                let ends = CEnds::of(source, destination);
                match state.channels.get(&channel).map(|(channel, _)| Job::Packet(channel.clone(), packet, ends)) {
                    Some(job) => {
                        if let Err(job) = state.give(domain, job, works_for(session)) {
                            give_back(session, job);
                        }
                    }
                    // The channel has just been destroyed.
                    None => drop(session.free(packet)),
                }
            }
            Message::Event { .. } | Message::Overrun { .. } | Message::Changed { .. } => {
                if let Some((domain, job)) = state.job_of(&message) {
                    // Of a domain that has just ended nobody is told.
                    let _ = state.give(domain, job, works_for(session));
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

    /// Has the calling thread, which is the node's, run the function that gets a packet.
    pub fn deliver_here(&self, session: &Session, channel: &Arc<Channel>, packet: Packet, ends: CEnds) {
        let _working = Working::begin(session, channel.domain, NODES);
        self.here.store(channel.domain.wrapping_add(1), Ordering::Release);
        deliver(session, channel, packet, &ends);
        self.here.store(0, Ordering::Release);
    }

    /// Has the calling thread, which is the node's, do what else comes of a message.
    pub fn perform_here(&self, session: &Session, message: &Message) {
        if let Message::Ended { domain } = message {
            self.close(session, *domain);
            return;
        }
        let Some((domain, job)) = self.lock().job_of(message) else { return };
        let _working = Working::begin(session, domain, NODES);
        self.here.store(domain.wrapping_add(1), Ordering::Release);
        perform(session, job);
        self.here.store(0, Ordering::Release);
    }
}

impl State {
    /// What is to be done when an event is due, memory overruns or a store has changed, and for which domain.
    fn job_of(&mut self, message: &Message) -> Option<(u32, Job)> {
        match *message {
            Message::Event { domain, argument, .. } => Some((domain, Job::Event(self.take_event(argument)?))),
            Message::Overrun { domain, pool, deadline } => {
                Some((domain, Job::Overrun(*self.pools.get(&pool)?, deadline)))
            }
            Message::Changed { domain, argument, .. } => {
                Some((domain, Job::Changed(self.watches.get(&argument)?.clone())))
            }
            _ => None,
        }
    }
}

/// Calls the function that gets a packet.
#[inline]
fn deliver(session: &Session, channel: &Channel, packet: Packet, ends: &CEnds) {
    let name = objects::packet_name(session.slot(), packet);
    let handle = channel.handle.get().copied().unwrap_or(0);
    (channel.function)(handle as *mut c_void, name, ends, channel.argument.pointer());
}

/// Does a job; gives the channel it was for.
fn perform(session: &Session, job: Job) -> Option<u32> {
    match job {
        Job::Packet(channel, packet, ends) => {
            DELIVERS.set(true);
            deliver(session, &channel, packet, &ends);
            DELIVERS.set(false);
            return Some(channel.name);
        }
        Job::Event(event) => {
            let handle = event.handle.get().copied().unwrap_or(0) as *mut c_void;
            // It has come, so its name means nothing any more; unless it was cancelled at the last moment.
            if objects::remove::<super::Event>(handle).is_ok() {
                (event.function)(handle, event.argument.pointer());
            }
        }
        Job::Overrun(Overrun { handle, function, argument }, deadline) => {
            function(handle as *mut c_void, deadline, Argument::pointer(argument));
        }
        Job::Changed(watch) => {
            let handle = watch.handle.get().copied().unwrap_or(0) as *mut c_void;
            (watch.function)(handle, watch.argument.pointer());
        }
        Job::Run(function, argument) => function(argument.pointer()),
        Job::Flow(function, domain, state) => {
            function(domain.handle.get().copied().unwrap_or(0) as *mut c_void, state.pointer());
        }
    }
    None
}
