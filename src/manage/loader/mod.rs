//! What the worker must not wait for: the code store on disk, the wasm compiler, and public-key operations.
//!
//! One thread takes the worker's effects in, lets each ingress and principal have its turn ([`turns`]), and sends results back. It looks into
//! the store and judges credentials itself; what is to be compiled it deals out to threads with lanes to the compiler in its jail
//! ([`workshop`]). Every queue is bounded; a worker that finds the first one full treats the store as empty. What concerns the kernel
//! half goes past it to a thread of its own ([`super::linker`]), and so does what is to be written to disk (`super::archive`).

pub mod refused;
pub mod turns;
pub mod workshop;

use super::archive::Archive;
use super::config::compiler::CompilerFile;
use super::kernel::Messenger;
use super::linker::Linker;
use super::resolver::Resolver;
use super::revoked::Revocations;
use crate::code::bundle::Bundle;
use crate::code::compiler::Compilers;
use crate::code::fetch::Source;
use crate::code::run::Program;
use crate::code::run::wasm::Compiler;
use crate::code::store::Store;
use crate::ee::plan::{Brought, Wish};
use crate::node::{Cause, Effect, Ingress, Linked};
use crate::port::PortId;
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty};
use crate::trust::{Claim, Grant, Kept, Moment, Role, Roles, Statement};
use crate::wire::revocation::Repr;
use crate::wire::{Addr, Digest};
use serde::Serialize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{SystemTime, UNIX_EPOCH};
use turns::{QueueStatus, Turns};
use workshop::{Done, Workshop, WorkshopStatus};

/// Effects that can wait to be taken in.
const INBOX_MAX: usize = 1024;

/// Look-ups, claims, statements and requests that can wait for their turn.
const JOBS_MAX: usize = 1024;

/// What somebody on this node asks for.
pub enum Request {
    /// Put a bundle into the store and keep it there.
    Add(Box<Bundle>),
    /// Take a code's manifest and its representations out.
    Remove(Digest),
}

/// A result.
pub enum Loaded {
    /// What the store has under a name.
    Found(Digest, Option<Arc<[u8]>>),
    /// What the compiler made of a code.
    Prepared(Digest, Box<Result<Program, String>>),
    /// What the compiler made of a code that runs already.
    Optimised(Digest, Box<Result<Program, String>>),
    /// There was no place for a code to be compiled.
    Unprepared(Digest),
    /// The role of a code.
    Authorised(Digest, Box<Result<Grant, String>>),
    /// What the kernel half made of a code.
    Linked(Digest, Linked),
    /// Neighbours that the kernel half hears.
    Heard(Vec<(PortId, Addr)>),
    /// The address of a name.
    Resolved(Box<str>, Option<Addr>),
    /// In which role a signed packet acts.
    Vouched(u64, Result<Arc<Role>, String>),
    /// What was made of a revocation; nothing if it is forged.
    Revoked(Box<Repr>, Source, Option<Kept>),
    /// The service of a module that a packet brought.
    Installed(Digest, Result<Brought, String>),
}

/// What roles there are at which node.
pub struct Policy {
    /// The node's name.
    pub node: String,
    /// Its roles.
    pub roles: Arc<Roles>,
    /// What was taken back.
    pub revocations: Arc<Revocations>,
}

/// Who compiles.
pub struct Compiling {
    /// What links and runs what was compiled.
    pub compiler: Compiler,
    /// The compiler in its jail.
    pub jailed: Arc<Compilers>,
    /// Jobs that it does at the same time.
    pub jobs: usize,
}

impl Compiling {
    /// As a node's configuration says; the compiler is this program again.
    pub fn new(compiler: Compiler, file: &CompilerFile) -> Compiling {
        Compiling { compiler, jailed: Compilers::new("/proc/self/exe".into(), file.limits()), jobs: file.jobs }
    }
}

/// What there is to say of the loader.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoaderStatus {
    /// Queues for the store and for credentials, by ingress.
    pub queues: Vec<QueueStatus>,
    /// The compiler.
    pub compiler: WorkshopStatus,
}

/// What comes to the thread.
enum Inbox {
    Effect(Effect),
    Request(Request, Sender<Result<(), String>>),
    Done(Box<Done>),
    Ask(Sender<LoaderStatus>),
    Forgive(Sender<usize>),
    /// The worker is gone.
    End,
}

/// What the thread does itself.
enum Job {
    LookUp(Digest),
    Authorise(Claim),
    Vouch(u64, Box<Statement>),
    Revoke(Box<Repr>, Source),
    Request(Request, Sender<Result<(), String>>),
}

/// The worker's end.
pub struct Loader {
    inbox: SyncSender<Inbox>,
    results: Receiver<Loaded>,
    linker: Option<Linker>,
    /// For answers that nobody else gives.
    own: Sender<Loaded>,
    waker: Waker,
}

/// The end of those who add and remove code.
#[derive(Clone)]
pub struct Shelf {
    inbox: SyncSender<Inbox>,
}

impl Loader {
    /// Starts the threads; they end with the last of their users.
    pub fn start(
        store: Store,
        compiling: Compiling,
        policy: Policy,
        kernel: Option<Messenger>,
        waker: Waker,
    ) -> std::io::Result<Loader> {
        let (inbox, came) = sync_channel(INBOX_MAX);
        let (outbox, results) = channel();
        let resolver = Resolver::start(outbox.clone(), waker.clone())?;
        let linker = kernel.map(|kernel| Linker::start(kernel, outbox.clone(), waker.clone())).transpose()?;
        let store = Arc::new(store);
        let archive = Archive::start(store.clone())?;
        let Compiling { compiler, jailed, jobs } = compiling;
        let workshop = Workshop::start(&jailed, &compiler, jobs, &inbox)?;
        let (own, wakes) = (outbox.clone(), waker.clone());
        let desk = Desk {
            store,
            policy,
            archive,
            resolver,
            workshop,
            turns: Turns::new(JOBS_MAX),
            outbox,
            waker: wakes,
            since: unix_ns(),
        };
        threads::start("anode-loader", Duty::Store, move || desk.serve(&came))?;
        Ok(Loader { inbox, results, linker, own, waker })
    }

    /// For threads that add and remove code.
    pub fn shelf(&self) -> Shelf {
        Shelf { inbox: self.inbox.clone() }
    }

    /// Hands an effect over; gives it back if the queue is full or the thread is gone.
    pub fn submit(&self, effect: Effect) -> Result<(), Effect> {
        if let Effect::Kernel(order) = effect {
            if let Some((code, why)) = self.linker.as_ref().and_then(|linker| linker.submit(order).err()) {
                // The other end is this value's.
                let _ = self.own.send(Loaded::Linked(code, Err(why)));
                self.waker.wake();
            }
            return Ok(());
        }
        match self.inbox.try_send(Inbox::Effect(effect)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(Inbox::Effect(effect)) | TrySendError::Disconnected(Inbox::Effect(effect))) => {
                Err(effect)
            }
            Err(_) => Ok(()),
        }
    }

    /// The next result, if there is one.
    pub fn result(&self) -> Option<Loaded> {
        self.results.try_recv().ok()
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // Whoever compiles holds an end of the inbox too; so the thread is told that there is nobody left who would listen.
        let _ = self.inbox.try_send(Inbox::End);
    }
}

impl Shelf {
    /// Asks and waits for the answer.
    pub fn ask(&self, request: Request) -> Result<(), String> {
        self.exchange(|reply| Inbox::Request(request, reply))?
    }

    /// What there is to say of the loader.
    pub fn status(&self) -> Result<LoaderStatus, String> {
        self.exchange(Inbox::Ask)
    }

    /// Has modules tried again on which the compiler has failed; says how many they are.
    pub fn forgive(&self) -> Result<usize, String> {
        self.exchange(Inbox::Forgive)
    }

    fn exchange<R>(&self, ask: impl FnOnce(Sender<R>) -> Inbox) -> Result<R, String> {
        let gone = |_| "the node is going down".to_string();
        let (reply, answer) = channel();
        self.inbox.send(ask(reply)).map_err(|error| gone(error.to_string()))?;
        answer.recv().map_err(|error| gone(error.to_string()))
    }
}

/// What the thread works with.
struct Desk {
    store: Arc<Store>,
    policy: Policy,
    archive: Archive,
    resolver: Resolver,
    workshop: Workshop,
    turns: Turns<Job>,
    outbox: Sender<Loaded>,
    waker: Waker,
    /// When the node began to remember numbers of statements, in nanoseconds since 1970.
    since: u64,
}

impl Desk {
    fn serve(mut self, inbox: &Receiver<Inbox>) {
        while let Ok(first) = inbox.recv() {
            let mut going_on = self.take(first);
            loop {
                // What has come meanwhile has its turn before the next job begins.
                let came = inbox.try_iter().take(INBOX_MAX);
                going_on &= came.fold(true, |on, it| on & self.take(it));
                self.workshop.deal();
                if !going_on {
                    return;
                }
                let Some((_, job)) = self.turns.next(|_| true) else { break };
                let result = self.work(job);
                result.into_iter().for_each(|loaded| self.tell(loaded));
            }
        }
    }

    /// Takes something in; false if there is nobody left to work for.
    fn take(&mut self, came: Inbox) -> bool {
        match came {
            Inbox::Effect(effect) => self.take_effect(effect),
            Inbox::Request(request, reply) => self.queue(Cause::default(), Job::Request(request, reply)),
            Inbox::Done(done) => {
                let loaded = self.workshop.done(*done);
                self.tell(loaded);
            }
            Inbox::Ask(reply) => {
                let status = LoaderStatus { queues: self.turns.status(), compiler: self.workshop.status() };
                // Whoever asked may have gone away meanwhile.
                let _ = reply.send(status);
            }
            Inbox::Forgive(reply) => {
                let _ = reply.send(self.workshop.forgive());
            }
            Inbox::End => return false,
        }
        true
    }

    fn take_effect(&mut self, effect: Effect) {
        match effect {
            // Each neighbour's rate of look-ups is bounded before: all of them share a turn.
            Effect::LookUp(digest) => {
                self.queue(Cause { ingress: Ingress::Store, principal: None }, Job::LookUp(digest));
            }
            Effect::Store(bytes) => self.archive.put(&bytes),
            Effect::Prepare(prepare) => self.compile(prepare.cause, workshop::Job::Prepare(prepare)),
            Effect::Authorise(claim, cause) => self.queue(cause, Job::Authorise(claim)),
            Effect::Plan(Wish::Resolve(name), cause) => {
                if let Some(name) = self.resolver.submit(cause, name) {
                    self.tell(Loaded::Resolved(name, None));
                }
            }
            Effect::Plan(Wish::Vouch(question, statement), cause) => self.queue(cause, Job::Vouch(question, statement)),
            Effect::Plan(Wish::Install(install), cause) => self.compile(cause, workshop::Job::Install(install)),
            Effect::Revoke(repr, from, ingress) => {
                self.queue(Cause { ingress, principal: None }, Job::Revoke(repr, from))
            }
            Effect::Kernel(_) | Effect::Channel { .. } => {}
        }
    }

    fn compile(&mut self, cause: Cause, job: workshop::Job) {
        let told = self.workshop.push(cause, job);
        told.into_iter().for_each(|loaded| self.tell(loaded));
    }

    /// A job waits for its turn. The one that has no place is answered at once.
    fn queue(&mut self, cause: Cause, job: Job) {
        match self.turns.push(cause, job) {
            Some(Job::LookUp(digest)) => self.tell(Loaded::Found(digest, None)),
            Some(Job::Authorise(claim)) => self.tell(Loaded::Unprepared(claim.code)),
            Some(Job::Vouch(question, _)) => self.tell(Loaded::Vouched(question, Err("too many wait".into()))),
            // Neighbours tell it again.
            Some(Job::Revoke(..)) => {}
            Some(Job::Request(_, reply)) => {
                let _ = reply.send(Err("too many requests wait".into()));
            }
            None => {}
        }
    }

    fn work(&mut self, job: Job) -> Option<Loaded> {
        match job {
            Job::LookUp(digest) => Some(Loaded::Found(digest, self.store.object(&digest))),
            Job::Authorise(claim) => {
                let result = guarded("the reader of credentials", || self.policy.decide(&claim));
                Some(Loaded::Authorised(claim.code, Box::new(result)))
            }
            Job::Vouch(question, statement) => {
                let vouch = || self.policy.vouch(self.since, &statement);
                Some(Loaded::Vouched(question, guarded("the reader of credentials", vouch)))
            }
            Job::Revoke(repr, from) => {
                let kept = self.policy.revocations.hear(&repr);
                Some(Loaded::Revoked(repr, from, kept))
            }
            Job::Request(request, reply) => {
                self.archive.settle();
                let _ = reply.send(fulfil(&self.store, request));
                None
            }
        }
    }

    fn tell(&self, loaded: Loaded) {
        // A worker that has gone wants no answers.
        let _ = self.outbox.send(loaded);
        self.waker.wake();
    }
}

/// Large libraries work on anybody's input: a panic in one costs one code, not the thread.
fn guarded<R>(who: &str, work: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(format!("{who} failed on it; please report this")))
}

impl Policy {
    /// The role of code here and now.
    fn decide(&self, claim: &Claim) -> Result<Grant, String> {
        let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.roles.authorise(&self.node, unix_s, claim).map_err(|error| error.to_string())
    }

    /// The role of a signed packet here and now, at a node that remembers numbers since then.
    fn vouch(&self, since: u64, statement: &Statement) -> Result<Arc<Role>, String> {
        let at = Moment { now: unix_ns(), since };
        self.roles.vouch(&self.node, at, statement).map_err(|why| why.to_string())
    }
}

/// Nanoseconds since 1970.
fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn fulfil(store: &Store, request: Request) -> Result<(), String> {
    match request {
        Request::Add(bundle) => match store.put_bundle(&bundle, true) {
            Err(error) if error.is_of_full_disk() => {
                tracing::warn!(%error, "code that was added is kept in memory only");
                Ok(())
            }
            done => done.map_err(|error| error.to_string()),
        },
        Request::Remove(name) => store.remove_bundle(&name).map(drop).map_err(|error| error.to_string()),
    }
}
