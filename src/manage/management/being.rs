//! What runs for an environment, a process or an object of this one: how it is watched, ended, and how it has ended.

use super::object::Object;
use super::{Domains, Environment, Program, process};
use crate::nodeos::domain::DomainId;
use crate::sys::process::{signal_group, watch};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ExitStatus};

/// A process or an object.
pub(super) enum Being {
    Process(Child),
    Object(Object),
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
        run_dir: &Path,
    ) -> io::Result<Being> {
        match &environment.program {
            Program::Process(program) => process::start(program, run_dir).map(Being::Process),
            Program::Object(words) => {
                let host = domains.host(domain, &environment.role).map_err(io::Error::other)?;
                Object::start(words, host).map(Being::Object)
            }
        }
    }

    /// Its process, if that is its own.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Being::Process(child) => Some(child.id()),
            Being::Object(_) => None,
        }
    }

    /// What can be read when it has ended.
    pub fn watch(&self) -> io::Result<OwnedFd> {
        match self {
            Being::Process(child) => watch(child.id()),
            Being::Object(object) => object.watch(),
        }
    }

    /// What it says.
    pub fn take_said(&mut self) -> Option<ChildStderr> {
        match self {
            Being::Process(child) => child.stderr.take(),
            // It says what it says as this process.
            Being::Object(_) => None,
        }
    }

    /// Asks it to end.
    pub fn ask(&self) {
        if let Being::Process(child) = self {
            // One that cannot be asked is killed soon.
            let _ = signal_group(child.id(), false);
        }
    }

    /// Kills a process and all it has started. An object cannot be killed: it ends when its main function sees that its domain has.
    pub fn kill(&self) {
        if let Being::Process(child) = self
            && let Err(error) = signal_group(child.id(), true)
        {
            tracing::error!(pid = child.id(), %error, "an environment cannot be ended");
        }
    }

    /// How it has ended, once it has; a process was killed or has ended already, so this does not wait for long.
    pub fn end(&mut self) -> Option<End> {
        match self {
            Being::Process(child) => {
                let status = child.wait();
                let done = status.as_ref().is_ok_and(ExitStatus::success);
                Some(End { done, how: status.map_or_else(|error| error.to_string(), describe) })
            }
            Being::Object(object) => object.outcome().map(|outcome| match outcome {
                Ok(status) => End { done: status == 0, how: format!("status {status}") },
                Err(why) => End { done: false, how: why },
            }),
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".into(),
    }
}
