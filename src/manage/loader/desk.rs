//! The loader's thread: takes effects in, does quick ones itself, each neighbour and principal in its turn, and deals
//! out modules to be compiled.

use super::queues::{Next, Queues};
use super::workshop::{self, Workshop};
use super::{INBOX_MAX, Inbox, Job, Loaded, LoaderStatus, Policy, Request, guarded};
use crate::code::judge::{Claim, Grant};
use crate::code::store::Store;
use crate::ee::plan::Wish;
use crate::manage::archive::Archive;
use crate::manage::plumber::{Asked, Plumbing};
use crate::manage::resolver::Resolver;
use crate::node::{Cause, Effect};
use crate::sys::poll::Waker;
use crate::trust::{Moment, Role, Statement};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What the thread works with.
pub(super) struct Desk {
    pub(super) store: Arc<Store>,
    pub(super) policy: Policy,
    pub(super) archive: Archive,
    pub(super) resolver: Resolver,
    pub(super) workshop: Workshop,
    pub(super) plumbing: Plumbing,
    pub(super) queues: Queues<Job>,
    pub(super) outbox: Sender<Loaded>,
    pub(super) waker: Waker,
    pub(super) over: Arc<AtomicBool>,
    /// When the node began to remember numbers of statements, in nanoseconds since 1970.
    pub(super) since: u64,
}

impl Desk {
    /// Works until there is nobody left to work for.
    pub(super) fn serve(mut self, inbox: &Receiver<Inbox>) {
        while let Ok(first) = inbox.recv() {
            let mut going_on = self.take(first);
            loop {
                // What has come meanwhile has its turn before the next job begins.
                let came = inbox.try_iter().take(INBOX_MAX);
                going_on &= came.fold(true, |on, it| on & self.take(it));
                going_on &= !self.over.load(Ordering::Acquire);
                self.workshop.deal();
                if !going_on {
                    return;
                }
                match self.queues.next() {
                    Some(Next::LookUp(digest)) => self.tell(Loaded::Found(digest, self.store.object(&digest))),
                    Some(Next::Job(ingress, job)) => {
                        let began = Instant::now();
                        let result = self.work(job);
                        self.queues.took(ingress, began.elapsed().as_nanos() as u64);
                        result.into_iter().for_each(|loaded| self.tell(loaded));
                    }
                    None => break,
                }
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
                let (look_ups, queues) = self.queues.status();
                let (compiler, names) = (self.workshop.status(), self.resolver.status());
                let status = LoaderStatus { look_ups, queues, compiler, names };
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
            Effect::LookUp(digest, ingress) => {
                let gone = self.queues.look_up(ingress, digest);
                gone.into_iter().for_each(|digest| self.tell(Loaded::Found(digest, None)));
            }
            Effect::Store(bytes) => self.archive.put(&bytes),
            Effect::Prepare(prepare) => self.compile(prepare.cause, workshop::Job::Prepare(prepare)),
            Effect::Authorise(claim, cause) => self.queue(cause, Job::Authorise(claim)),
            Effect::Plan(Wish::Resolve(name), cause) => {
                let told = self.resolver.submit(cause, name);
                told.into_iter().for_each(|loaded| self.tell(loaded));
            }
            Effect::Plan(Wish::Vouch(question, statement), cause) => self.queue(cause, Job::Vouch(question, statement)),
            Effect::Plan(Wish::Install(install), cause) => self.compile(cause, workshop::Job::Install(install)),
            Effect::Plan(Wish::Graph(ask), cause) => {
                let told = self.plumbing.submit(cause, Asked::Program(ask));
                told.into_iter().for_each(|loaded| self.tell(loaded));
            }
            Effect::GraphEdit(wish) => {
                let told = self.plumbing.submit(Cause::default(), Asked::Code(wish));
                told.into_iter().for_each(|loaded| self.tell(loaded));
            }
            Effect::Revoke(repr, from, ingress) => {
                self.queue(Cause { ingress, principal: None }, Job::Revoke(repr, from))
            }
            // Those are for other workers.
            Effect::Kernel(_) | Effect::Channel { .. } | Effect::Workers(_) => {}
            Effect::Foreign(..) | Effect::NoneForeign => {}
            Effect::Heard(_) | Effect::AskLink(..) | Effect::EndStores(_) => {}
        }
    }

    fn compile(&mut self, cause: Cause, job: workshop::Job) {
        let told = self.workshop.push(cause, job);
        told.into_iter().for_each(|loaded| self.tell(loaded));
    }

    /// A job waits for its turn. The one that has no place is answered at once.
    fn queue(&mut self, cause: Cause, job: Job) {
        let displaced = self.queues.push(cause, job);
        displaced.and_then(unserved).into_iter().for_each(|loaded| self.tell(loaded));
    }

    fn work(&mut self, job: Job) -> Option<Loaded> {
        match job {
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

/// The answer to a job that has no place. An operator's request gets its own.
fn unserved(job: Job) -> Option<Loaded> {
    match job {
        Job::Authorise(claim) => Some(Loaded::Unprepared(claim.code)),
        Job::Vouch(question, _) => Some(Loaded::Vouched(question, Err("too many wait".into()))),
        // Neighbours tell it again.
        Job::Revoke(..) => Some(Loaded::Unjudged),
        Job::Request(_, reply) => {
            let _ = reply.send(Err("too many requests wait".into()));
            None
        }
    }
}

impl Policy {
    /// The role of code here and now.
    fn decide(&self, claim: &Claim) -> Result<Grant, String> {
        let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.roles.now().authorise(&self.node, unix_s, claim).map_err(|error| error.to_string())
    }

    /// The role of a signed packet here and now, at a node that remembers numbers since then.
    fn vouch(&self, since: u64, statement: &Statement) -> Result<Arc<Role>, String> {
        let at = Moment { now: crate::sys::clock::unix_ns(), since };
        self.roles.now().vouch(&self.node, at, statement).map_err(|why| why.to_string())
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::fetch::Source;
    use crate::frame::{Payer, PeerId, PortId};
    use crate::node::Ingress;
    use crate::wire::Addr;
    use crate::wire::revocation::{Repr, What};

    #[test]
    fn each_revocation_that_finds_no_place_is_answered() {
        let of = |port| Source { port: PortId(port), peer: PeerId::NONE, addr: Addr::v4([10, 0, 0, 9]) };
        let repr = Repr { what: What::Code, unix_s: 5, subject: [1; 32], signer: [2; 32], signature: [0; 64] };
        let mut queues = Queues::new();
        let mut answers = 0;
        for number in 0..3000 {
            let ingress = Ingress::Port(PortId(number % 3), Payer(number % 3));
            let job = Job::Revoke(Box::new(repr), of(number % 3));
            let displaced = queues.push(Cause { ingress, principal: None }, job);
            answers += usize::from(matches!(displaced.and_then(unserved), Some(Loaded::Unjudged)));
        }
        let waiting = std::iter::from_fn(|| queues.next()).count();
        assert!(answers > 0);
        assert_eq!(answers + waiting, 3000, "none without an answer");
    }
}
