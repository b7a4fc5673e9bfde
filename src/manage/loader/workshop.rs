//! The compiling threads: each has a lane to the compiler in its jail, and one job.
//!
//! Jobs of all neighbours wait in [`Turns`] and are served in turn. One neighbour never has all lanes: the last is kept
//! for another, so a long module delays only its sender. Code for the optimiser has a queue and a lane of its own,
//! behind everything else. With one lane only (`jobs = 1`) all share it, and others wait for at most one module of a
//! neighbour.

use super::refused::{RefusedModules, RefusedStatus};
use super::turns::{QueueStatus, Turns};
use super::{Inbox, Loaded, guarded};
use crate::code::bundle::Kind;
use crate::code::compiler::{Compilers, Failure, Lane, Purpose};
use crate::code::run::wasm::{CompileError, Compiler};
use crate::code::run::{Cause, Ingress, LoadedProgram, Prepare, Tier};
use crate::ee::plan::wasm::WasmService;
use crate::ee::plan::{Brought, Install};
use crate::sys::threads::{self, Duty};
use crate::wire::Digest;
use serde::Serialize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Jobs that can wait to be compiled.
const JOBS_MAX: usize = 1024;

/// Codes that can wait to be compiled again.
const AGAIN_MAX: usize = 64;

/// Time between two lines of the log that say that nothing is compiled.
const SAID_AGAIN: Duration = Duration::from_secs(10);

/// What is to be compiled.
pub(super) enum Job {
    Prepare(Prepare),
    Install(Box<Install>),
}

/// A thread that compiles, and whose job it has.
struct Place {
    jobs: SyncSender<Job>,
    busy: Option<Ingress>,
}

/// A job is done.
pub(super) struct Done {
    place: usize,
    module: Digest,
    purpose: Purpose,
    failure: Option<Failure>,
    /// What the worker is told.
    pub(super) loaded: Loaded,
}

/// All that has to do with compiling.
pub(super) struct Workshop {
    turns: Turns<Job>,
    again: Turns<Job>,
    /// The last is for what is compiled again.
    places: Vec<Place>,
    refused: RefusedModules,
    counts: Counts,
}

/// What was compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Counts {
    compiled: u64,
    optimised: u64,
    failed: u64,
}

/// What there is to say of compiling.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WorkshopStatus {
    /// Modules compiled at once.
    pub compiled: u64,
    /// Modules compiled again by the optimiser.
    pub optimised: u64,
    /// Modules that could not be compiled.
    pub failed: u64,
    /// Queues, by ingress.
    pub queues: Vec<QueueStatus>,
    /// Codes that wait to be compiled again.
    pub again: usize,
    /// Modules that are not tried again.
    pub refused: RefusedStatus,
}

impl Workshop {
    /// Starts the threads: `jobs` of them, and one for what is compiled again.
    pub(super) fn start(
        compilers: &Arc<Compilers>,
        compiler: &Compiler,
        jobs: usize,
        inbox: &SyncSender<Inbox>,
    ) -> std::io::Result<Workshop> {
        let mut places = Vec::new();
        for place in 0..=jobs.max(1) {
            let (to, from) = sync_channel(1);
            let (compiler, lane, done) = (compiler.clone(), compilers.lane(), inbox.clone());
            threads::start(&format!("anode-comp-{place}"), Duty::Compile, move || {
                work(place, &compiler, lane, &from, &done);
            })?;
            places.push(Place { jobs: to, busy: None });
        }
        let (turns, again) = (Turns::new(JOBS_MAX), Turns::new(AGAIN_MAX));
        Ok(Workshop { turns, again, places, refused: RefusedModules::default(), counts: Counts::default() })
    }

    /// Takes a job in, and gives what the worker is to be told at once: of a job that is not done, this or another.
    pub(super) fn push(&mut self, cause: Cause, job: Job) -> Option<Loaded> {
        let (module, purpose) = job.module();
        if let Some(why) = self.refused.why(Instant::now(), &module, purpose) {
            return Some(job.refused(why));
        }
        let gone = match purpose {
            Purpose::Capsule(Tier::Optimised) => self.again.push(cause, job),
            _ => self.turns.push(cause, job),
        };
        gone.map(Job::dropped)
    }

    /// Gives jobs to whoever has none.
    pub(super) fn deal(&mut self) {
        let Some((last, first)) = self.places.split_last_mut() else { return };
        if last.busy.is_none()
            && let Some((ingress, job)) = self.again.next(|_| true)
        {
            last.give(ingress, job);
        }
        while let Some(free) = first.iter().position(|place| place.busy.is_none()) {
            let most = first.len().saturating_sub(1).max(1);
            let has = |ingress: &Ingress| first.iter().filter(|place| place.busy.as_ref() == Some(ingress)).count();
            let Some((ingress, job)) = self.turns.next(|ingress| has(ingress) < most) else { return };
            first[free].give(ingress, job);
        }
    }

    /// A job is done: remembers what it has shown, and gives what the worker is to be told.
    pub(super) fn done(&mut self, done: Done) -> Loaded {
        if let Some(place) = self.places.get_mut(done.place) {
            place.busy = None;
        }
        match (&done.failure, done.purpose) {
            (Some(_), _) => self.counts.failed += 1,
            (None, Purpose::Capsule(Tier::Optimised)) => self.counts.optimised += 1,
            (None, _) => self.counts.compiled += 1,
        }
        if let Some(failure) = &done.failure {
            self.refused.remember(Instant::now(), done.module, done.purpose, failure);
        }
        done.loaded
    }

    /// Forgets what the compiler failed on.
    pub(super) fn forgive(&mut self) -> usize {
        self.refused.clear()
    }

    /// What there is to say.
    pub(super) fn status(&self) -> WorkshopStatus {
        let Counts { compiled, optimised, failed } = self.counts;
        let (queues, again) = (self.turns.status(), self.again.len());
        WorkshopStatus { compiled, optimised, failed, queues, again, refused: self.refused.status(Instant::now()) }
    }
}

impl Place {
    fn give(&mut self, ingress: Ingress, job: Job) {
        // The thread waits for it; one that is gone never says that it is done, and gets no other.
        let _ = self.jobs.try_send(job);
        self.busy = Some(ingress);
    }
}

impl Job {
    /// What is compiled, for what.
    fn module(&self) -> (Digest, Purpose) {
        match self {
            Job::Prepare(prepare) => (Digest::of(&prepare.bytes), Purpose::Capsule(prepare.tier)),
            Job::Install(install) => (install.digest, Purpose::Service),
        }
    }

    fn refused(self, why: String) -> Loaded {
        match self {
            Job::Prepare(prepare) => prepared(&prepare, Err(why)),
            Job::Install(install) => Loaded::Installed(install.digest, Err(why)),
        }
    }

    /// There was no place for it.
    fn dropped(self) -> Loaded {
        match self {
            Job::Prepare(prepare) => Loaded::Unprepared(prepare.code),
            Job::Install(install) => Loaded::Installed(install.digest, Err("too much waits to be compiled".into())),
        }
    }
}

fn prepared(prepare: &Prepare, result: Result<LoadedProgram, String>) -> Loaded {
    match prepare.tier {
        Tier::Fast => Loaded::Prepared(prepare.code, Box::new(result)),
        Tier::Optimised => Loaded::Optimised(prepare.code, Box::new(result)),
    }
}

/// What a thread does: one job after the other.
fn work(place: usize, compiler: &Compiler, mut lane: Lane, jobs: &Receiver<Job>, done: &SyncSender<Inbox>) {
    if let Err(error) = lane.open() {
        tracing::warn!(%error, "no wasm compiler yet");
    }
    let mut said: Option<Instant> = None;
    while let Ok(job) = jobs.recv() {
        let (module, purpose) = job.module();
        let (loaded, failure) = match &job {
            Job::Prepare(prepare) => prepare_in(compiler, &mut lane, prepare),
            Job::Install(install) => install_in(&mut lane, install),
        };
        if let Some(why) = failure.as_ref().filter(|failure| failure.is_of_the_machine())
            && said.is_none_or(|at| at.elapsed() >= SAID_AGAIN)
        {
            said = Some(Instant::now());
            tracing::error!(%why, "code is not compiled");
        }
        if done.send(Inbox::Done(Box::new(Done { place, module, purpose, failure, loaded }))).is_err() {
            return;
        }
    }
}

fn prepare_in(compiler: &Compiler, lane: &mut Lane, prepare: &Prepare) -> (Loaded, Option<Failure>) {
    let mut failure = None;
    let result = guarded("the loader of code", || {
        prepare.carry_out_in(compiler, lane).map_err(|error| {
            let why = error.to_string();
            if let CompileError::Jailed(jailed) = error {
                failure = Some(jailed);
            }
            why
        })
    });
    // Nobody's fault: who waits for it goes, and the next capsule begins anew; what runs already runs on.
    let innocent = failure.as_ref().is_some_and(Failure::is_of_the_machine) && prepare.kind == Kind::Wasm;
    match innocent {
        true => (Loaded::Unprepared(prepare.code), failure),
        false => (prepared(prepare, result), failure),
    }
}

fn install_in(lane: &mut Lane, install: &Install) -> (Loaded, Option<Failure>) {
    let mut failure = None;
    let brought: Result<Brought, String> =
        guarded("the loader of services", || WasmService::named(&install.module, Some((lane, &mut failure))));
    (Loaded::Installed(install.digest, brought), failure)
}
