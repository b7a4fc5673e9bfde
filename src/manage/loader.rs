//! What the worker must not wait for: the code store on disk, the wasm compiler, and public-key operations.
//!
//! One thread takes the worker's effects in order and sends results back. Its queue is bounded by
//! what a node can have on its way; a worker that finds it full treats the store as empty. What concerns the kernel half goes past it to
//! a thread of its own ([`super::linker`]), and so does what is to be written to disk (`super::archive`).

use super::archive::Archive;
use super::kernel::Messenger;
use super::linker::Linker;
use super::resolver::Resolver;
use crate::code::bundle::Bundle;
use crate::code::run::Program;
use crate::code::run::service::WasmService;
use crate::code::run::wasm::Compiler;
use crate::code::store::Store;
use crate::ee::plan::{Brought, Wish};
use crate::node::{Effect, Linked};
use crate::port::PortId;
use crate::sys::poll::Waker;
use crate::trust::{Claim, Grant, Moment, Role, Roles, Statement};
use crate::wire::{Addr, Digest};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{SystemTime, UNIX_EPOCH};

/// Effects that can wait.
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
    /// The service of a module that a packet brought.
    Installed(Digest, Result<Brought, String>),
}

/// What roles there are at which node.
pub struct Policy {
    /// The node's name.
    pub node: String,
    /// Its roles.
    pub roles: Arc<Roles>,
}

enum Job {
    Effect(Effect),
    Request(Request, Sender<Result<(), String>>),
}

/// The worker's end.
pub struct Loader {
    jobs: SyncSender<Job>,
    results: Receiver<Loaded>,
    linker: Option<Linker>,
    /// For answers that nobody else gives.
    own: Sender<Loaded>,
    waker: Waker,
}

/// The end of those who add and remove code.
#[derive(Clone)]
pub struct Shelf {
    jobs: SyncSender<Job>,
}

impl Loader {
    /// Starts the thread; it ends with the last of its users.
    pub fn start(
        store: Store,
        compiler: Compiler,
        policy: Policy,
        kernel: Option<Messenger>,
        waker: Waker,
    ) -> std::io::Result<Loader> {
        let (jobs, inbox) = sync_channel(JOBS_MAX);
        let (outbox, results) = channel();
        let resolver = Resolver::start(outbox.clone(), waker.clone())?;
        let linker = kernel.map(|kernel| Linker::start(kernel, outbox.clone(), waker.clone())).transpose()?;
        let store = Arc::new(store);
        let helpers = (Archive::start(store.clone())?, resolver);
        let (own, wakes) = (outbox.clone(), waker.clone());
        std::thread::Builder::new()
            .name("anode-loader".into())
            .spawn(move || serve(&store, &compiler, &policy, &helpers, &inbox, &outbox, &wakes))?;
        Ok(Loader { jobs, results, linker, own, waker })
    }

    /// For threads that add and remove code.
    pub fn shelf(&self) -> Shelf {
        Shelf { jobs: self.jobs.clone() }
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
        match self.jobs.try_send(Job::Effect(effect)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(Job::Effect(effect)) | TrySendError::Disconnected(Job::Effect(effect))) => {
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

impl Shelf {
    /// Asks and waits for the answer.
    pub fn ask(&self, request: Request) -> Result<(), String> {
        let gone = || "the node is going down".to_string();
        let (reply, answer) = channel();
        self.jobs.send(Job::Request(request, reply)).map_err(|_| gone())?;
        answer.recv().unwrap_or_else(|_| Err(gone()))
    }
}

fn serve(
    store: &Store,
    compiler: &Compiler,
    policy: &Policy,
    (archive, resolver): &(Archive, Resolver),
    inbox: &Receiver<Job>,
    outbox: &Sender<Loaded>,
    waker: &Waker,
) {
    let since = unix_ns();
    while let Ok(job) = inbox.recv() {
        let result = match job {
            Job::Effect(Effect::LookUp(digest)) => Some(Loaded::Found(digest, store.object(&digest))),
            Job::Effect(Effect::Store(bytes)) => {
                archive.put(&bytes);
                None
            }
            Job::Effect(Effect::Prepare(prepare)) => {
                let result = guarded("the wasm compiler", || prepare.carry_out(compiler));
                Some(Loaded::Prepared(prepare.code, Box::new(result)))
            }
            Job::Effect(Effect::Authorise(claim)) => {
                let result = guarded("the reader of credentials", || policy.decide(&claim));
                Some(Loaded::Authorised(claim.code, Box::new(result)))
            }
            Job::Effect(Effect::Kernel(_) | Effect::Channel { .. }) => None,
            Job::Effect(Effect::Plan(Wish::Resolve(name))) => {
                resolver.submit(name).err().map(|name| Loaded::Resolved(name, None))
            }
            Job::Effect(Effect::Plan(Wish::Vouch(question, statement))) => {
                let judged = guarded("the reader of credentials", || policy.vouch(since, &statement));
                Some(Loaded::Vouched(question, judged))
            }
            Job::Effect(Effect::Plan(Wish::Install(install))) => {
                let brought = guarded("the wasm compiler", || WasmService::named(&install.module));
                Some(Loaded::Installed(install.digest, brought))
            }
            Job::Request(request, reply) => {
                archive.settle();
                // Whoever asked may have gone away meanwhile.
                let _ = reply.send(fulfil(store, request));
                None
            }
        };
        if let Some(result) = result {
            if outbox.send(result).is_err() {
                return;
            }
            waker.wake();
        }
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
        Request::Add(bundle) => store.put_bundle(&bundle, true).map_err(|error| error.to_string()),
        Request::Remove(name) => store.remove_bundle(&name).map(drop).map_err(|error| error.to_string()),
    }
}
