//! The threads of a node. All are started here, so that each can make the system calls of its kind and no others.
//!
//! A kind has a list, `jail/seccomp/PROCESSOR/NAME.json`; other calls fail with EPERM. A thread has its starter's list
//! from its first moment, and no list has the call that sets another. So a thread with a list starts threads of its own
//! kind only. Lists hold in a process that [confines](confine) its threads, as a node without privileges does; in
//! others (tests, benchmarks) threads are ordinary ones.

use super::jail::Filters;
use std::cell::Cell;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

/// Workers of one node, at most.
pub const WORKERS_MAX: u16 = 64;

/// What a thread does, and so what it can ask the system for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Packets in and out, and the code that they name.
    Worker,
    /// Programs of the operator's in this process.
    Operators,
    /// Whoever looks after the node, by its control socket.
    Control,
    /// Environments and their processes: messages, shared memory, files of domains.
    Sessions,
    /// PLAN ports by TCP.
    PlanTcp,
    /// The store: files.
    Store,
    /// Modules go to the compiler, machine code comes back.
    Compile,
    /// Names of hosts.
    Resolver,
    /// Interfaces, what takes frames from them, routes and rules.
    Routes,
    /// The kernel half.
    Kernel,
    /// Time and signals.
    Ticks,
}

impl Duty {
    /// All of them.
    pub const ALL: [Duty; 11] = [
        Duty::Worker,
        Duty::Operators,
        Duty::Control,
        Duty::Sessions,
        Duty::PlanTcp,
        Duty::Store,
        Duty::Compile,
        Duty::Resolver,
        Duty::Routes,
        Duty::Kernel,
        Duty::Ticks,
    ];

    /// The name of its list.
    pub fn list(self) -> &'static str {
        match self {
            Duty::Worker => "worker",
            Duty::Operators => "operators",
            Duty::Control => "control",
            Duty::Sessions => "sessions",
            Duty::PlanTcp => "plan-tcp",
            Duty::Store => "store",
            Duty::Compile => "compile",
            Duty::Resolver => "resolver",
            Duty::Routes => "routes",
            Duty::Kernel => "kernel",
            Duty::Ticks => "ticks",
        }
    }

    /// What it is where the operator lets programs into this process: they are called by the worker, loaded by whoever compiles,
    /// and run on threads that a session's thread starts.
    fn with_operators(self, programs: bool) -> Duty {
        match self {
            Duty::Worker | Duty::Compile | Duty::Sessions if programs => Duty::Operators,
            duty => duty,
        }
    }
}

/// The lists of this process, compiled.
struct Lists {
    programs: bool,
    filters: Vec<(Duty, Filters)>,
}

static LISTS: OnceLock<Lists> = OnceLock::new();

/// From now on threads of this process have the lists of their kinds; `programs`: the operator lets programs into it,
/// native code, native extensions or objects.
pub fn confine(programs: bool) -> io::Result<()> {
    let filters = Duty::ALL.into_iter().map(|duty| Ok((duty, Filters::of(duty.list())?)));
    let lists = Lists { programs, filters: filters.collect::<io::Result<_>>()? };
    LISTS.set(lists).map_err(|_| io::Error::other("the threads of this process are confined already"))
}

thread_local! {
    /// The kind of this thread, once it has its list.
    static OWN: Cell<Option<Duty>> = const { Cell::new(None) };
}

/// Makes the calling thread one of this kind, for good.
pub fn become_one(duty: Duty) -> io::Result<()> {
    let Some(lists) = LISTS.get() else { return Ok(()) };
    let duty = duty.with_operators(lists.programs);
    if let Some((_, filters)) = lists.filters.iter().find(|(of, _)| *of == duty) {
        filters.apply()?;
    }
    OWN.set(Some(duty));
    Ok(())
}

/// Starts a thread of this kind.
pub fn start<T: Send + 'static>(
    name: &str,
    duty: Duty,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let builder = Builder::new().name(name.to_owned());
    let Some(lists) = LISTS.get() else { return builder.spawn(work) };
    if let Some(own) = OWN.get() {
        if duty.with_operators(lists.programs) != own {
            return Err(io::Error::other(format!("a thread of the kind {own:?} starts none of the kind {duty:?}")));
        }
        return builder.spawn(move || {
            OWN.set(Some(own));
            work()
        });
    }
    let (telling, told) = sync_channel(1);
    let thread = builder.spawn(move || {
        let confined = become_one(duty);
        let is_confined = confined.is_ok();
        // Whoever starts it waits for this.
        let _ = telling.send(confined);
        if !is_confined {
            // It ends without a word, and nobody waits for what it would have given.
            std::panic::resume_unwind(Box::new(()));
        }
        work()
    })?;
    told.recv().map_err(|_| io::ErrorKind::BrokenPipe)??;
    Ok(thread)
}

#[cfg(test)]
mod tests;
