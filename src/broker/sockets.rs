//! Sockets that need a privilege, or buffers that do, as values once they are open.

use super::client::ask;
use super::message::Request;
use crate::sys::bpf::Program;
use crate::sys::discovery::DiscoverySocket;
use crate::sys::packet::{PacketSocket, Room};
use crate::sys::xsk::Umem;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

/// A packet socket on an interface, for frames of one Ethernet type that pass the filter, if there is one; beside another one it has
/// the frames of some receive queues.
pub fn packet(
    interface: u32,
    kind: u16,
    longest: usize,
    room: Room,
    filter: Option<&Program>,
    beside: Option<&PacketSocket>,
) -> io::Result<PacketSocket> {
    let word = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let (longest_frame, ring) = (word(longest), word(room.bytes()));
    let with: Vec<_> = filter.map(AsFd::as_fd).into_iter().chain(beside.map(AsFd::as_fd)).collect();
    let request = Request::Packet { interface, kind, longest: longest_frame, ring, beside: beside.is_some() };
    let socket = ask(&request, &with)?.descriptor()?;
    PacketSocket::over(socket, longest, room)
}

/// A socket for neighbour advertisements; nothing: this host has no IPv6.
pub fn discovery(interface: u32) -> io::Result<Option<DiscoverySocket>> {
    let done = ask(&Request::Discovery { interface }, &[])?;
    if done.is_without() { Ok(None) } else { done.descriptor().map(|fd| Some(DiscoverySocket::with(fd))) }
}

/// An AF_XDP socket that is bound to nothing yet.
pub fn xdp(busy_poll_us: u32) -> io::Result<OwnedFd> {
    ask(&Request::Xdp { busy_poll_us }, &[])?.descriptor()
}

/// Makes memory that of the frames of a socket and of those that share it.
pub fn register(socket: &OwnedFd, memory: &Umem) -> io::Result<()> {
    let request = Request::Frames { chunk: memory.chunk(), bytes: memory.size() };
    ask(&request, &[socket.as_fd(), memory.as_fd()]).map(drop)
}

/// The socket of an overlay port, or one of several.
pub fn udp(at: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    ask(&Request::Udp { at, shared }, &[])?.descriptor()
}

/// A TCP socket that listens.
pub fn tcp(at: SocketAddr) -> io::Result<OwnedFd> {
    ask(&Request::Tcp { at }, &[])?.descriptor()
}

/// A TCP socket that is being connected: it can be written to when that is done, and its error says what came of it.
pub fn connect(at: SocketAddr) -> io::Result<OwnedFd> {
    ask(&Request::Connect { at }, &[])?.descriptor()
}
