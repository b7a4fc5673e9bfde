//! The broker's jails of environments: started one after the other, cleared when they have ended.
//!
//! They have a lane of their own: the start of a jail takes as long as its program, its files and its control groups
//! take.

use super::acts::{name_of, refused};
use super::client::Done;
use super::configurations::Configurations;
use super::message::{Jail, Request};
use super::process;
use crate::config::environments::Program;
use crate::sys::jail::{Groups, Jailed, Starter, Weights};
use crate::sys::seqpacket::SeqPacket;
use crate::wire::Digest;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What starts jails for the node with this run directory, whose name their control groups have.
pub fn jails_of(run_dir: &Path) -> io::Result<Starter> {
    Starter::new("/proc/self/exe".into(), &jails_name(run_dir)?).map_err(io::Error::other)
}

/// The name of the control groups of the node with this run directory.
pub(super) fn jails_name(run_dir: &Path) -> io::Result<String> {
    let whole = std::path::absolute(run_dir)?;
    let digest = hex::encode(Digest::of(whole.as_os_str().as_encoded_bytes()).0);
    Ok(digest[..16].to_owned())
}

/// The environments that live, of what the node's configuration has.
pub struct Jails {
    all: Arc<Mutex<Configurations>>,
    run_dir: PathBuf,
    /// What starts jails, once there is one.
    starter: Option<Starter>,
    /// By the numbers of their processes.
    living: HashMap<u32, Living>,
}

/// The jail of an environment.
struct Living {
    name: String,
    /// Its init process.
    process: OwnedFd,
    groups: Groups,
}

impl Living {
    fn has_ended(&self) -> bool {
        let mut all = [PollFd::new(&self.process, PollFlags::IN)];
        rustix::event::poll(&mut all, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }

    /// Waits until it has ended, which is soon, and takes away what is left of it.
    fn clear(self) {
        let most = Timespec { tv_sec: 10, tv_nsec: 0 };
        let _ = rustix::event::poll(&mut [PollFd::new(&self.process, PollFlags::IN)], Some(&most));
        // Its number is free again only then.
        let _ = waitid(WaitId::PidFd(self.process.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        self.groups.remove();
    }
}

impl Jails {
    /// Those of a node's configurations.
    pub fn new(all: Arc<Mutex<Configurations>>, run_dir: PathBuf) -> Jails {
        Jails { all, run_dir, starter: None, living: HashMap::new() }
    }

    /// Does what is asked for, if it may be.
    pub fn carry_out(&mut self, request: &Request) -> io::Result<Done> {
        self.all().allowed().check(request, name_of).map_err(refused)?;
        match request {
            Request::Start { environment } => self.start(environment),
            Request::Clear { process } => self.clear(*process),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn all(&self) -> MutexGuard<'_, Configurations> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an environment that does not run.
    fn start(&mut self, name: &str) -> io::Result<Done> {
        // What has ended leaves nothing, also if nobody asks for that.
        let ended = self.living.extract_if(|_, jail| jail.name == name && jail.has_ended());
        ended.collect::<Vec<_>>().into_iter().for_each(|(_, jail)| jail.clear());
        if self.living.values().any(|jail| jail.name == name) {
            return Err(refused(format!("the environment {name} runs")));
        }
        let environment = self.all().environments().iter().find(|environment| environment.name == name).cloned();
        let Some(Program::Process(program)) = environment.map(|environment| environment.program) else {
            return Err(refused(format!("{name} is no environment in a process")));
        };
        let starter = match &mut self.starter {
            Some(starter) => starter,
            none => none.insert(jails_of(&self.run_dir)?),
        };
        let started = process::start(starter, name, &program)?;
        let (weights, unified) = started.weights.map(Weights::into_parts).unzip();
        let Jailed { pid, uid, process, control, weaker, groups } = started.jailed;
        let own = process.try_clone()?;
        let weaker = weaker.iter().map(|part| part.name().to_owned()).collect();
        let places = groups.places.iter().map(|place| place.display().to_string()).collect();
        self.living.insert(pid, Living { name: name.to_owned(), process: own, groups });
        // Whoever has the other end of the jail's socket keeps it alive: that is the node alone.
        let mut ways =
            vec![process, into_descriptor(&control)?, started.said.into(), into_descriptor(&started.socket)?];
        ways.extend(weights.into_iter().flatten());
        Ok(Done::of_jail(Jail { pid, uid, weaker, groups: places, unified: unified.unwrap_or(false) }, ways))
    }

    /// Takes away what is left of one that has ended.
    fn clear(&mut self, process: u32) -> io::Result<Done> {
        let none = || refused(format!("{process} is no environment's process"));
        if !self.living.get(&process).ok_or_else(none)?.has_ended() {
            return Err(refused(format!("the process {process} runs")));
        }
        self.living.remove(&process).ok_or_else(none)?.clear();
        Ok(Done::default())
    }

    /// The node is gone, and with it the ways to all of them: so they end.
    pub fn end(mut self) {
        self.living.drain().for_each(|(_, jail)| jail.clear());
    }
}

fn into_descriptor(socket: &SeqPacket) -> io::Result<OwnedFd> {
    socket.as_fd().try_clone_to_owned()
}
