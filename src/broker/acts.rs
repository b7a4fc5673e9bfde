//! The broker's answer to a request: it compares it with the configuration, and carries it out (`here`).

use super::client::Done;
use super::configurations::Configurations;
use super::given::{Given, Kind, Place};
use super::helpers::LivingHelpers;
use super::here::{Home, carry_out, these};
use super::message::{LocalSocket, OPERATOR_SOCKET, Request};
use super::paced::Paced;
use crate::kernel::{Pins, Setting, Settings, own, pins};
use crate::sys::bpf;
use crate::sys::clock::Clock;
use crate::sys::privileges::Identity;
use crate::sys::realtime;
use rustix::net::{AddressFamily, SocketType, socket};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Programs that are remembered: those for places before interfaces, the last ones loaded.
const PROGRAMS_MAX: usize = 256;

/// The broker's own: what it was started with, and what it has done. Several threads carry requests out.
pub struct Acts {
    all: Arc<Mutex<Configurations>>,
    run_dir: PathBuf,
    user: Option<Identity>,
    /// The process that asks.
    node: i32,
    /// Whether a kernel half was there before this node.
    adopted: bool,
    had: Mutex<Had>,
    /// Helpers that live, which a configuration may not have any more.
    helpers: LivingHelpers,
}

/// What it has done.
#[derive(Default)]
struct Had {
    /// Numbers and names of programs.
    programs: VecDeque<(u32, String)>,
    /// Sockets.
    given: Given,
    /// Programs of graphs.
    graphs: Paced,
    /// Whether the start was a success.
    runs: bool,
}

impl Acts {
    /// For a node with this configuration.
    pub fn new(all: Arc<Mutex<Configurations>>, run_dir: PathBuf, user: Option<Identity>, node: i32) -> Acts {
        let (had, helpers) = Default::default();
        Acts { all, adopted: bpf::is_mounted(&pins::root_of(&run_dir)), run_dir, user, node, had, helpers }
    }

    /// The same beside these helpers.
    pub(super) fn with_helpers(self, helpers: LivingHelpers) -> Acts {
        Acts { helpers, ..self }
    }

    fn had(&self) -> MutexGuard<'_, Had> {
        // What it holds is right between any two statements.
        self.had.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is asked for, if it may be.
    pub fn carry_out(&self, request: &Request, with: &[OwnedFd]) -> io::Result<Done> {
        self.all().check(request, name_of).map_err(refused)?;
        self.pace(request).map_err(refused)?;
        let with: Vec<BorrowedFd<'_>> = with.iter().map(AsFd::as_fd).collect();
        let here = || carry_out(request, &with, Home { run_dir: Some(&self.run_dir), user: self.user });
        if let Some((kind, place, name)) = socket_of(request) {
            self.had().given.reserve(kind, place, &name).map_err(refused)?;
            let done = here();
            // There is none on a host without IPv6.
            let socket = done.as_ref().ok().and_then(|done| done.parts().1.first());
            self.had().given.note(kind, place, socket)?;
            return done;
        }
        match request {
            Request::Program { name } => {
                let done = here()?;
                // There is one for each code that nobody attaches: it must not push out the others.
                if own::has_place(name) {
                    self.remember(name, &done)?;
                }
                Ok(done)
            }
            Request::Attach { place, .. } => {
                let ([program] | [program, _]) = &with[..] else { return Err(io::ErrorKind::InvalidInput.into()) };
                let id = bpf::Program::adopt(program.try_clone_to_owned()?).info()?.id;
                let name = self.had().programs.iter().find(|(known, _)| *known == id).map(|(_, name)| name.clone());
                self.all().allowed().check_program(name.as_deref(), *place).map_err(refused)?;
                here()
            }
            Request::Realtime { thread, .. } => {
                let others = || refused(format!("{thread} is no thread of this node's"));
                if !self.has_thread(*thread) {
                    return Err(others());
                }
                let done = here()?;
                // If it has ended meanwhile, somebody else may have its number.
                if !self.has_thread(*thread) {
                    realtime::make_ordinary(*thread)?;
                    return Err(others());
                }
                Ok(done)
            }
            Request::Pins(pins) => {
                let most = self.all().allowed().pins();
                pins::check(&pins::root_of(&self.run_dir), pins, most).map_err(refused)?;
                here()
            }
            // They have lanes of their own.
            Request::Helper { .. } | Request::Start { .. } | Request::Clear { .. } => {
                Err(io::ErrorKind::InvalidInput.into())
            }
            Request::Offer(wanted) => self.all().offer_to_node(wanted).map_err(io::Error::other),
            Request::Hold { number, partly } => {
                self.all().hold(*number, *partly).map_err(io::Error::other)?;
                let allowed = self.all().allowed().clone();
                self.helpers.keep_allowed(&allowed);
                Ok(Done::default())
            }
            Request::Reach { number, partly } => {
                self.all().reach(*number, *partly).map(|()| Done::default()).map_err(io::Error::other)
            }
            Request::Settle => self.all().settle().map(|()| Done::default()),
            Request::History => self.all().history(),
            Request::Runs => {
                self.had().runs = true;
                Ok(Done::default())
            }
            _ => here(),
        }
    }

    /// Refuses what is asked for too often.
    fn pace(&self, request: &Request) -> Result<(), String> {
        match request {
            Request::Graph { .. } => self.had().graphs.take(Clock::of_host().now()),
            _ => Ok(()),
        }
    }

    fn all(&self) -> MutexGuard<'_, Configurations> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By what name a program was loaded: only such ones stand before interfaces.
    fn remember(&self, name: &str, done: &Done) -> io::Result<()> {
        let [program] = these(&done.parts().1.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
        let id = bpf::Program::adopt(program.try_clone_to_owned()?).info()?.id;
        let programs = &mut self.had().programs;
        programs.truncate(PROGRAMS_MAX - 1);
        programs.push_front((id, name.to_owned()));
        Ok(())
    }

    /// Whether a thread is the node's.
    fn has_thread(&self, thread: i32) -> bool {
        Path::new(&format!("/proc/{}/task/{thread}", self.node)).exists()
    }

    /// The node is gone: what must not stay is undone.
    pub fn end(&self) {
        let undone = if self.had().runs || self.adopted { Ok(()) } else { undo_kernel(&self.run_dir) };
        // What concerns the kernel half stays as long as that does; programs for AF_XDP sockets have gone with the node.
        let stays = bpf::is_mounted(&pins::root_of(&self.run_dir));
        let given = |setting, _: &str| !stays || setting != Setting::Tags;
        if let Err(error) = undone.and_then(|()| Settings::of(&self.run_dir).give_back(given).map(drop)) {
            tracing::warn!(%error, "a node leaves something behind: anode node down takes it away");
        }
        for socket in LocalSocket::ALL.map(LocalSocket::name).into_iter().chain([OPERATOR_SOCKET]) {
            // One that was never opened is not there.
            let _ = std::fs::remove_file(self.run_dir.join(socket));
        }
    }
}

/// Takes away the kernel half of a start that has failed.
fn undo_kernel(run_dir: &Path) -> io::Result<()> {
    let root = pins::root_of(run_dir);
    if bpf::is_mounted(&root) { Pins::at(root).remove() } else { Ok(()) }
}

pub(super) fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("the broker refuses: {why}"))
}

/// The kind of socket that is asked for, what has so many of them, and how people call that; nothing: no socket.
fn socket_of(request: &Request) -> Option<(Kind, Place, String)> {
    Some(match request {
        Request::Packet { interface, .. } => (Kind::Packet, Place::Interface(*interface), shown(*interface)),
        Request::Discovery { interface } => (Kind::Discovery, Place::Interface(*interface), shown(*interface)),
        Request::Xdp { .. } => (Kind::Xdp, Place::Node, "the node".into()),
        Request::Udp { at, .. } => (Kind::Udp, Place::Address(*at), at.to_string()),
        Request::Tcp { at } => (Kind::Tcp, Place::Address(*at), at.to_string()),
        _ => return None,
    })
}

/// An interface, for people.
fn shown(index: u32) -> String {
    name_of(index).unwrap_or_else(|| format!("interface {index}"))
}

/// The name of an interface now.
pub(super) fn name_of(index: u32) -> Option<String> {
    let any = socket(AddressFamily::UNIX, SocketType::DGRAM, None).ok()?;
    rustix::net::netdevice::index_to_name(any, index).ok()
}
