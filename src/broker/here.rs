//! Requests carried out in this process: the broker, or a process without a broker, as far as the system lets it.
//!
//! Nothing is checked here. A broker checks requests before ([`super::allowed`]); a process that asks itself can do no
//! more than it may.

use super::client::Done;
use super::listen::listen_here;
use super::message::Request;
use crate::kernel::{Setting, Settings, found, own, pins};
use crate::sys::bpf::Program;
use crate::sys::discovery::DiscoverySocket;
use crate::sys::packet::Room;
use crate::sys::privileges::Identity;
use crate::sys::{netlink, packet, realtime, tcp, udp, xsk};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Whose a request is.
#[derive(Clone, Copy, Default)]
pub(super) struct Home<'a> {
    /// The run directory, for what is done there.
    pub run_dir: Option<&'a Path>,
    /// Who gets its sockets, if that is somebody else.
    pub user: Option<Identity>,
}

/// Does what is asked for.
pub(super) fn carry_out(request: &Request, with: &[BorrowedFd<'_>], home: Home<'_>) -> io::Result<Done> {
    let run_dir = || home.run_dir.ok_or_else(|| io::Error::other("this is done in a run directory"));
    let done = match request {
        Request::Packet { interface, kind, longest, ring, beside } => {
            let room = Room::Bytes(*ring as usize);
            let (other, filter) = match (with, *beside) {
                ([filter @ .., other], true) => (Some(*other), filter.first()),
                ([], true) => return Err(io::ErrorKind::InvalidInput.into()),
                (filter, false) => (None, filter.first()),
            };
            Done::of(packet::open(*interface, *kind, *longest as usize, room, filter.copied(), other)?)
        }
        Request::Xdp { busy_poll_us } => Done::of(xsk::raw(*busy_poll_us)?),
        Request::Frames { chunk, bytes } => {
            let [socket, memory] = these(with)?;
            xsk::register(socket, memory, *chunk, *bytes)?;
            Done::default()
        }
        Request::Discovery { interface } => DiscoverySocket::raw(*interface)?.map_or_else(Done::default, Done::of),
        Request::Udp { at, shared } => Done::of(udp::bind(*at, *shared)?),
        Request::Tcp { at } => Done::of(tcp::listen(*at)?),
        Request::Connect { at } => Done::of(tcp::connect(*at)?),
        Request::Listen { socket } => Done::of(listen_here(run_dir()?, *socket, home.user)?),
        Request::Map { name, shape } => {
            let shape = own::shape_of(*shape).ok_or(io::ErrorKind::InvalidInput)?;
            Done::of(own::make_map(name, shape)?.into())
        }
        Request::Program { name } => Done::of(own::load_program(name, with)?.into()),
        Request::Graph { plan } => Done::of(own::load_graph(plan, with)?.into()),
        Request::Attach { interface, place } => {
            let ([program] | [program, _]) = with else { return Err(io::ErrorKind::InvalidInput.into()) };
            let program = Program::adopt(program.try_clone_to_owned()?);
            match (own::attach_here(&program, *interface, *place), with.get(1), home.run_dir) {
                (Err(error), Some(map), Some(run_dir)) if own::is_taken(&error) => {
                    let root = pins::root_of(run_dir);
                    let (link, name) =
                        found::put_before(&root, *interface, *map, || own::attach_here(&program, *interface, *place))?;
                    Done::of_named(link.into(), name)
                }
                (attached, ..) => Done::of(attached?.into()),
            }
        }
        Request::Pins(request) => pins::carry_out(&pins::root_of(run_dir()?), request, with.first().copied())?,
        Request::Neighbour { interface, addr } => {
            netlink::use_neighbour(*interface, *addr).map(|()| Done::default())?
        }
        Request::Set { setting, interface, on } => {
            let known = Setting::ALL.into_iter().find(|known| known.name() == setting);
            let setting = known.ok_or_else(|| io::Error::other(format!("there is no setting '{setting}'")))?;
            Done::of_flag(Settings::of(run_dir()?).set_here(setting, interface, *on)?)
        }
        Request::Realtime { thread, priority } => {
            realtime::make_realtime(*thread, *priority)?;
            Done::default()
        }
        // Processes have somebody who started them, and whoever has no broker starts its own.
        Request::Helper { .. }
        | Request::Start { .. }
        | Request::Offer(_)
        | Request::Hold { .. }
        | Request::Reach { .. }
        | Request::Settle
        | Request::History => return Err(io::ErrorKind::Unsupported.into()),
        Request::Clear { .. } | Request::Runs => Done::default(),
    };
    Ok(done)
}

/// Exactly these descriptors.
pub(super) fn these<'a, const COUNT: usize>(with: &[BorrowedFd<'a>]) -> io::Result<[BorrowedFd<'a>; COUNT]> {
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidInput, format!("{COUNT} descriptors belong to this"));
    with.try_into().map_err(wrong)
}
