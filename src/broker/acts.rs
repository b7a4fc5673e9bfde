//! What the broker does for a request: each is a handful of system calls, with the arguments that the configuration allows.

use super::allowed::Allowed;
use super::client::Done;
use super::listen::listen_here;
use super::message::{Door, Request};
use crate::kernel::{Pins, Setting, Settings, own, pins};
use crate::manage::netlink;
use crate::port::udp;
use crate::sys::bpf;
use crate::sys::discovery::DiscoverySocket;
use crate::sys::packet::Room;
use crate::sys::privileges::Identity;
use crate::sys::{packet, realtime, xsk};
use rustix::net::{AddressFamily, SocketType, socket};
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// Programs that are remembered: those for places before interfaces, the last ones loaded.
const PROGRAMS_MAX: usize = 256;

/// The broker's own: what it was started with, and what it has done.
pub struct Acts {
    allowed: Allowed,
    run_dir: PathBuf,
    user: Option<Identity>,
    /// What drivers were told.
    settings: Settings,
    /// The process that asks.
    node: i32,
    /// Numbers and names of programs.
    programs: VecDeque<(u32, String)>,
    /// Whether a kernel half was there before this node.
    adopted: bool,
    /// Whether the start was a success.
    runs: bool,
}

impl Acts {
    /// For a node with this configuration.
    pub fn new(allowed: Allowed, run_dir: PathBuf, user: Option<Identity>, node: i32) -> Acts {
        Acts {
            allowed,
            adopted: bpf::is_mounted(&pins::root_of(&run_dir)),
            settings: Settings::of(&run_dir),
            run_dir,
            user,
            node,
            programs: VecDeque::new(),
            runs: false,
        }
    }

    /// Does what is asked for, if it may be.
    pub fn carry_out(&mut self, request: &Request, with: &[OwnedFd]) -> io::Result<Done> {
        self.allowed.check(request, name_of).map_err(refused)?;
        match request {
            Request::Packet { interface, kind, longest, much } => {
                let room = if *much { Room::Much } else { Room::Little };
                let filter = with.first().map(AsFd::as_fd);
                packet::open(*interface, *kind, *longest as usize, room, filter).map(Done::of)
            }
            Request::Xdp { busy_poll_us } => xsk::raw(*busy_poll_us).map(Done::of),
            Request::Frames { chunk, bytes } => {
                let [socket, memory] = these(with)?;
                xsk::register_shared(socket, memory, *chunk, *bytes).map(|()| Done::default())
            }
            Request::Discovery { interface } => {
                Ok(DiscoverySocket::raw(*interface)?.map_or_else(Done::default, Done::of))
            }
            Request::Udp { at } => udp::bind(*at).map(Done::of),
            Request::Tcp { at } => Ok(Done::of(TcpListener::bind(at)?.into())),
            Request::Listen { door } => listen_here(&self.run_dir, *door, self.user).map(Done::of),
            Request::Map { name, shape } => {
                let shape = own::shape_of(*shape).ok_or(io::ErrorKind::InvalidInput)?;
                Ok(Done::of(own::make_map(name, shape)?.into()))
            }
            Request::Program { name } => self.load(name, with),
            Request::Attach { interface, place } => {
                let [program] = these(with)?;
                let program = bpf::Program::adopt(program.try_clone_to_owned()?);
                let id = program.info()?.id;
                let name = self.programs.iter().find(|(known, _)| *known == id).map(|(_, name)| name.as_str());
                self.allowed.check_program(name, *place).map_err(refused)?;
                Ok(Done::of(own::attach_here(&program, *interface, *place)?.into()))
            }
            Request::Pins(request) => {
                let object = with.first().map(AsFd::as_fd);
                pins::carry_out(&pins::root_of(&self.run_dir), request, object)
            }
            Request::Neighbour { interface, addr } => {
                netlink::use_neighbour(*interface, *addr).map(|()| Done::default())
            }
            Request::Set { setting, interface, on } => {
                let known = Setting::ALL.into_iter().find(|known| known.name() == setting);
                let setting = known.ok_or_else(|| refused(format!("there is no setting '{setting}'")))?;
                let done = match on {
                    true => self.settings.give_back(|its, name| its == setting && name == interface),
                    false => self.settings.turn_off(setting, interface),
                };
                done.map(Done::of_flag)
            }
            Request::Realtime { thread } => self.make_realtime(*thread),
            // They have lanes of their own.
            Request::Helper { .. } | Request::Start { .. } | Request::Clear { .. } => {
                Err(io::ErrorKind::InvalidInput.into())
            }
            Request::Runs => {
                self.runs = true;
                Ok(Done::default())
            }
        }
    }

    fn load(&mut self, name: &str, maps: &[OwnedFd]) -> io::Result<Done> {
        let maps: Vec<BorrowedFd<'_>> = maps.iter().map(AsFd::as_fd).collect();
        let program = own::load_program(name, &maps)?;
        self.programs.truncate(PROGRAMS_MAX - 1);
        self.programs.push_front((program.info()?.id, name.to_owned()));
        Ok(Done::of(program.into()))
    }

    /// A thread of the node's and of nobody else.
    fn make_realtime(&self, thread: i32) -> io::Result<Done> {
        let priority = self.allowed.priority().unwrap_or(1);
        if !std::path::Path::new(&format!("/proc/{}/task/{thread}", self.node)).exists() {
            return Err(refused(format!("{thread} is no thread of this node's")));
        }
        realtime::make_realtime(thread, priority).map(|()| Done::default())
    }

    /// The node is gone: what must not stay is undone.
    pub fn end(self) {
        let undone = if self.runs || self.adopted { Ok(()) } else { undo_kernel(&self.run_dir) };
        // What concerns the kernel half stays as long as that does; programs for AF_XDP sockets have gone with the node.
        let stays = bpf::is_mounted(&pins::root_of(&self.run_dir));
        let given = |setting, _: &str| !stays || setting != Setting::Tags;
        if let Err(error) = undone.and_then(|()| self.settings.give_back(given).map(drop)) {
            tracing::warn!(%error, "a node leaves something behind: anode node down takes it away");
        }
        for door in Door::ALL {
            // One that was never opened is not there.
            let _ = std::fs::remove_file(self.run_dir.join(door.name()));
        }
    }
}

/// Takes away the kernel half of a start that has failed.
fn undo_kernel(run_dir: &std::path::Path) -> io::Result<()> {
    let root = pins::root_of(run_dir);
    if bpf::is_mounted(&root) { Pins::at(root).remove() } else { Ok(()) }
}

/// Exactly these descriptors.
fn these<const COUNT: usize>(with: &[OwnedFd]) -> io::Result<[BorrowedFd<'_>; COUNT]> {
    let all: Vec<BorrowedFd<'_>> = with.iter().map(AsFd::as_fd).collect();
    all.try_into()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("{COUNT} descriptors belong to this")))
}

pub(super) fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("the broker refuses: {why}"))
}

/// The name of an interface now.
pub(super) fn name_of(index: u32) -> Option<String> {
    let any = socket(AddressFamily::UNIX, SocketType::DGRAM, None).ok()?;
    rustix::net::netdevice::index_to_name(any, index).ok()
}
