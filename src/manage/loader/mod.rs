//! The loader: the code store on disk, the wasm compiler, and public-key operations, so that the worker need not wait
//! for them.
//!
//! One thread takes the worker's effects in, lets each ingress and principal have its turn ([`turns`]), and sends
//! results back. It (`desk`) looks into the store and judges credentials itself. Modules go to threads with lanes to
//! the jailed compiler ([`workshop`]). Every queue is bounded; a worker that finds the first one full treats the store
//! as empty. Work on the kernel half goes past it to a thread of its own ([`super::linker`]), and so do writes to disk
//! (`super::archive`).

mod desk;
mod queues;
pub mod refused;
pub mod turns;
pub mod workshop;

use super::archive::Archive;
use super::kernel::Messenger;
use super::linker::Linker;
use super::plumber::{Plumber, Plumbing};
use super::resolver::{NamesStatus, Resolver};
use super::revoked::Revocations;
use crate::code::bundle::Bundle;
use crate::code::compiler::Compilers;
use crate::code::fetch::Source;
use crate::code::judge::{Claim, Grant};
use crate::code::run::LoadedProgram;
use crate::code::run::wasm::Compiler;
use crate::code::store::Store;
use crate::config::compiler::CompilerFile;
use crate::ee::plan::{Brought, GraphAnswer, GraphAsk};
use crate::frame::PortId;
use crate::node::wishing::WishedEdit;
use crate::node::{Effect, Linked};
use crate::sys::poll::Waker;
use crate::sys::threads::{self, Duty};
use crate::trust::{CurrentRoles, Kept, Role, Statement};
use crate::wire::revocation::Repr;
use crate::wire::{Addr, Digest};
use desk::Desk;
use queues::Queues;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;
use turns::QueueStatus;
use workshop::{Done, Workshop, WorkshopStatus};

/// Effects that can wait to be taken in.
const INBOX_MAX: usize = 1024;

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
    Prepared(Digest, Box<Result<LoadedProgram, String>>),
    /// What the compiler made of a code that runs already.
    Optimised(Digest, Box<Result<LoadedProgram, String>>),
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
    /// There was no place for a revocation to be judged.
    Unjudged,
    /// The service of a module that a packet brought.
    Installed(Digest, Result<Brought, String>),
    /// There was no place for a program's call about a graph.
    Graph(Box<GraphAsk>, GraphAnswer),
    /// There was none for an edit that code wishes for.
    Edit(Box<WishedEdit>),
}

/// What roles there are at which node.
pub struct Policy {
    /// The node's name.
    pub node: String,
    /// Its roles.
    pub roles: CurrentRoles,
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
    /// Look-ups in the store that wait, by ingress.
    pub look_ups: Vec<QueueStatus>,
    /// What waits to be judged, by ingress.
    pub queues: Vec<QueueStatus>,
    /// The compiler.
    pub compiler: WorkshopStatus,
    /// Names of hosts.
    pub names: NamesStatus,
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
    /// Whether the worker is gone: so that the thread ends also if its inbox is full then.
    over: Arc<AtomicBool>,
    /// For answers that nobody else gives.
    own: Sender<Loaded>,
    waker: Waker,
    plumber: Plumber,
}

/// The end of those who add and remove code.
#[derive(Clone)]
pub struct Shelf {
    inbox: SyncSender<Inbox>,
    plumber: Plumber,
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
        let (own, wakes, over) = (outbox.clone(), waker.clone(), Arc::new(AtomicBool::new(false)));
        let plumbing = Plumbing::new();
        let plumber = plumbing.plumber();
        let desk = Desk {
            store,
            policy,
            archive,
            resolver,
            workshop,
            plumbing,
            queues: Queues::new(),
            outbox,
            waker: wakes,
            over: over.clone(),
            since: crate::sys::clock::unix_ns(),
        };
        threads::start("anode-loader", Duty::Store, move || desk.serve(&came))?;
        Ok(Loader { inbox, results, linker, over, own, waker, plumber })
    }

    /// For threads that add and remove code.
    pub fn shelf(&self) -> Shelf {
        Shelf { inbox: self.inbox.clone(), plumber: self.plumber.clone() }
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
        // Whoever compiles holds an end of the inbox too; so the thread is told that there is nobody left who would listen. If there is no
        // room for that, it has something to take in, and looks here behind it.
        self.over.store(true, Ordering::Release);
        let _ = self.inbox.try_send(Inbox::End);
    }
}

impl Shelf {
    /// Asks and waits for the answer.
    pub fn ask(&self, request: Request) -> Result<(), String> {
        self.exchange(|reply| Inbox::Request(request, reply))?
    }

    /// Who changes graphs for PLAN programs.
    pub fn plumber(&self) -> Plumber {
        self.plumber.clone()
    }

    /// What there is to say of the loader.
    pub fn status(&self) -> Result<LoaderStatus, String> {
        self.exchange(Inbox::Ask)
    }

    /// The same if it answers within this time.
    pub fn status_within(&self, time: Duration) -> Result<LoaderStatus, String> {
        let (reply, answer) = channel();
        self.inbox.send(Inbox::Ask(reply)).map_err(|error| error.to_string())?;
        answer.recv_timeout(time).map_err(|error| error.to_string())
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

/// Large libraries work on anybody's input: a panic in one costs one code, not the thread.
pub(super) fn guarded<R>(who: &str, work: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(format!("{who} failed on it; please report this")))
}
