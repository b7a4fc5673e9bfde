//! A running environment, as a process or as an object of this one: how it is watched and ended, and how it has ended.

use super::object::Object;
use super::{Domains, Environment, Member, Program};
use crate::broker::process::{self, Started};
use crate::core::domain::DomainId;
use crate::sys::jail::{Groups, Jailed, Part, Starter};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// A process or an object.
pub(super) enum Being {
    Process(Box<Process>),
    Object(Object),
}

/// A process in its jail.
pub(super) struct Process {
    jailed: Jailed,
    /// Its control groups, whoever removes them.
    groups: Groups,
    said: Option<File>,
}

/// How one has ended.
pub(super) struct End {
    /// Whether it says that all was well.
    pub done: bool,
    /// For people.
    pub how: String,
}

impl Being {
    /// Starts what an environment is, for its domain.
    pub fn start(
        environment: &Environment,
        domain: DomainId,
        domains: &dyn Domains,
        starter: Option<&Starter>,
    ) -> io::Result<Being> {
        match &environment.program {
            Program::Process(program) => {
                let started = match starter {
                    Some(starter) => process::start(starter, &environment.name, program),
                    None => process::have_started(&environment.name),
                };
                let Started { jailed, groups, weights, said, socket } = started?;
                let (name, role) = (environment.name.clone(), environment.role.clone());
                let kept = groups.clone();
                domains.admit(Member { name, role, domain, groups, pid: jailed.pid, weights }, socket)?;
                Ok(Being::Process(Box::new(Process { jailed, groups: kept, said: Some(said) })))
            }
            Program::Object(words) => {
                let host = domains.host(domain, &environment.role).map_err(io::Error::other)?;
                Object::start(words, host).map(Being::Object)
            }
        }
    }

    /// Its process, if that is its own.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Being::Process(process) => Some(process.jailed.pid),
            Being::Object(_) => None,
        }
    }

    /// What of its jail this host has not.
    pub fn weaker(&self) -> &[Part] {
        match self {
            Being::Process(process) => &process.jailed.weaker,
            Being::Object(_) => &[],
        }
    }

    /// What can be read when it has ended.
    pub fn watch(&self) -> io::Result<OwnedFd> {
        match self {
            Being::Process(process) => process.jailed.process.try_clone(),
            Being::Object(object) => object.watch(),
        }
    }

    /// What it says.
    pub fn take_said(&mut self) -> Option<File> {
        match self {
            Being::Process(process) => process.said.take(),
            // It says what it says as this process.
            Being::Object(_) => None,
        }
    }

    /// Asks it to end.
    pub fn ask(&self) {
        if let Being::Process(process) = self {
            process.jailed.ask();
        }
    }

    /// Kills a process and all it has started. An object cannot be killed: it ends when its main function sees that its domain has.
    pub fn kill(&self) {
        if let Being::Process(process) = self {
            process.jailed.kill();
        }
    }

    /// How it has ended, once it has; a process was killed or has ended already, so this does not wait for long.
    pub fn end(&mut self) -> Option<End> {
        match self {
            Being::Process(process) => {
                let end = process.jailed.await_end();
                let starved = process.groups.out_of_memory();
                process.jailed.groups.remove();
                process::clear(process.jailed.pid);
                let why = starved.map(|(killed, limit)| {
                    format!(
                        ": its control group was at its limit of memory, {limit} bytes, for which the kernel has \
                             ended {killed} of its processes"
                    )
                });
                Some(End { done: end.is_success(), how: format!("{end}{}", why.unwrap_or_default()) })
            }
            Being::Object(object) => object.outcome().map(|outcome| match outcome {
                Ok(status) => End { done: status == 0, how: format!("status {status}") },
                Err(why) => End { done: false, how: why },
            }),
        }
    }
}
