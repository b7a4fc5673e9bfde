//! Processes that serve the node and confine themselves: they are this program, started with an argument.

use super::acts::{name_of, refused};
use super::allowed::Allowed;
use super::client::{Done, ask, is_there};
use super::message::{Helper, Request};
use crate::code::compiler;
use crate::kernel::loader;
use crate::sys::privileges::Identity;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts a helper that is `program`, or has it started: its process, unless that is the broker's, and the node's end of its socket. One of the
/// broker's ends with its socket, or when another takes its place.
pub fn helper(kind: Helper, program: &Path) -> io::Result<(Option<Child>, OwnedFd)> {
    if is_there() {
        return Ok((None, ask(&Request::Helper { kind }, &[])?.descriptor()?));
    }
    spawn(kind, program, None).map(|(child, socket)| (Some(child), socket))
}

/// Starts one. The compiler, which needs no privilege, is this user.
pub(super) fn spawn(kind: Helper, program: &Path, user: Option<Identity>) -> io::Result<(Child, OwnedFd)> {
    let (socket, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut command = Command::new(program);
    let argument = match kind {
        Helper::Loader => loader::ARGUMENT,
        Helper::TrustedLoader => loader::TRUSTED,
        Helper::Compiler => compiler::ARGUMENT,
    };
    command.arg(argument).env_clear().stdin(Stdio::from(other)).stdout(Stdio::null());
    if let (Some(Identity { uid, gid }), Helper::Compiler) = (user, kind) {
        command.uid(uid).gid(gid);
    }
    Ok((command.spawn()?, socket))
}

/// Ends one, if it is a child of this process.
pub fn end(helper: Option<Child>) {
    if let Some(mut helper) = helper {
        // It may have ended by itself.
        let _ = helper.kill();
        let _ = helper.wait();
    }
}

/// Those that the broker has started: one of each kind.
pub struct Helpers {
    allowed: Allowed,
    user: Option<Identity>,
    children: [Option<Child>; 3],
}

impl Helpers {
    /// None yet; the compiler will be this user.
    pub fn new(allowed: Allowed, user: Option<Identity>) -> Helpers {
        Helpers { allowed, user, children: [None, None, None] }
    }

    /// Does what is asked for, if it may be.
    pub fn carry_out(&mut self, request: &Request) -> io::Result<Done> {
        self.allowed.check(request, name_of).map_err(refused)?;
        let Request::Helper { kind } = request else { return Err(io::ErrorKind::InvalidInput.into()) };
        let place = &mut self.children[*kind as usize];
        end(place.take());
        let (child, socket) = spawn(*kind, "/proc/self/exe".as_ref(), self.user)?;
        *place = Some(child);
        Ok(Done::of(socket))
    }

    /// The node is gone.
    pub fn end(self) {
        self.children.into_iter().for_each(end);
    }
}
