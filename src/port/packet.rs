//! Native ports: the Ethernet frames of an interface, through AF_PACKET sockets.
//!
//! Beside the Linux stack, in one of two ways:
//!
//! - **On its own** the port works on every interface of every kernel: a socket for frames of every type takes a copy of what an
//!   active node looks at, and a guard in front of the stack takes capsules away from it. Both are asked about every frame.
//! - **Behind an XDP program** of the node's, which sees every frame first and passes up what is the node's under an Ethernet type of its own
//!   ([`PASSED_UP`]), a socket is bound to that type, and others to what address resolution needs. Frames that are not the node's meet nothing.
//!   Only while there are channels at the port, whose packets the XDP program does not know, a second pair of socket and guard takes those.
//!
//! All other traffic goes its way as if we were not there.

use super::queue::SendQueue;
use super::{Frame, FramePool, PeerId, PortId};
use crate::broker;
use crate::kernel::{Filters, Which};
use crate::nodeos::channel::spec::Filter;
use crate::sys::bpf::Link;
use crate::sys::discovery::DiscoverySocket;
use crate::sys::mmsg::{BATCH, Batch, RawAddr};
use crate::sys::packet::{PacketSocket, Room};
use crate::wire::ethernet::{self, Mac, ethertype};
use crate::wire::{icmp, ipv6};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The Ethernet type of what XDP programs of the node's pass up: see `bpf/contract.h`.
pub const PASSED_UP: u16 = 0x88b5;

/// `ETH_P_ALL`: frames of every Ethernet type.
const ALL: u16 = 3;

/// Where the Ethernet type stands, and what is behind it.
const TYPE: usize = 12;
const BEHIND: usize = 14;

/// Octets around an IP packet in a frame that comes up: link headers, and what the kernel half says of it.
pub const AROUND: usize = 64 + 80;

/// An interface of this host.
pub struct PacketPort {
    socket: PacketSocket,
    before: Before,
    filters: Filters,
    interface: u32,
    longest: usize,
    id: PortId,
    batch: Batch,
    queue: SendQueue,
}

/// What stands before the Linux stack.
enum Before {
    /// The guard.
    Guard { _link: Link },
    /// An XDP program of the node's.
    Program { arp: PacketSocket, discovery: Option<DiscoverySocket>, channels: Option<Channels> },
}

/// What takes packets of channels.
struct Channels {
    socket: PacketSocket,
    _guard: Link,
}

impl PacketPort {
    /// Opens the port `id` on the interface with this index, for IP packets of up to `mtu` octets; behind an XDP program of the node's
    /// or not.
    pub fn open(id: PortId, interface: u32, mtu: usize, behind_program: bool) -> io::Result<PacketPort> {
        let (mut filters, longest) = (Filters::create()?, mtu + AROUND);
        let (before, socket) = open(&mut filters, interface, longest, behind_program)?;
        let (batch, queue) = (Batch::default(), SendQueue::default());
        Ok(PacketPort { socket, before, filters, interface, longest, id, batch, queue })
    }

    /// Opens it anew on another interface; channels and what waits to be sent stay.
    pub fn reopen(&mut self, interface: u32, behind_program: bool) -> io::Result<()> {
        (self.before, self.socket) = open(&mut self.filters, interface, self.longest, behind_program)?;
        self.interface = interface;
        if self.filters.is_empty() { Ok(()) } else { self.open_channels().map(drop) }
    }

    /// Takes nothing any more, and leaves all that comes to the Linux stack; what has come is still there to be received.
    pub fn stop_taking(&mut self) -> io::Result<()> {
        self.filters.listen(false)
    }

    /// Takes packets of a channel too, or does not any more; says whether that takes other sockets than before.
    pub fn take_for(&mut self, filter: &Filter, exists: bool) -> io::Result<bool> {
        if filter.port.is_some_and(|port| port != self.id) {
            return Ok(false);
        }
        let other = exists && self.open_channels()?;
        self.filters.change(filter, exists)?;
        Ok(self.close_channels() || other)
    }

    /// What takes packets of channels, if it is needed and not there. It takes none until it is told of filters, so none is seen
    /// by one of the two alone.
    fn open_channels(&mut self) -> io::Result<bool> {
        let Before::Program { channels: channels @ None, .. } = &mut self.before else { return Ok(false) };
        let guard = self.filters.guard(self.interface, Which::Channels)?;
        let filter = self.filters.filter(Which::Channels)?;
        let socket = broker::packet(self.interface, ALL, self.longest, Room::Much, Some(&filter))?;
        *channels = Some(Channels { socket, _guard: guard });
        Ok(true)
    }

    fn close_channels(&mut self) -> bool {
        match &mut self.before {
            Before::Program { channels, .. } if self.filters.is_empty() => channels.take().is_some(),
            _ => false,
        }
    }

    /// Frames the kernel has dropped since the last call because nobody took them.
    pub fn overflows(&self) -> u32 {
        let lost = |socket: &PacketSocket| socket.overflows().unwrap_or(0);
        let others = match &self.before {
            Before::Guard { .. } => 0,
            Before::Program { arp, channels, .. } => {
                lost(arp).saturating_add(channels.as_ref().map_or(0, |channels| lost(&channels.socket)))
            }
        };
        lost(&self.socket).saturating_add(others)
    }

    /// Frames since the last call that were longer than the port's largest packet, as several are that were joined, and are nobody's.
    pub fn cut_short(&mut self) -> u32 {
        let others = match &mut self.before {
            Before::Guard { .. } => 0,
            Before::Program { arp, channels, .. } => {
                arp.cut_short().saturating_add(channels.as_mut().map_or(0, |channels| channels.socket.cut_short()))
            }
        };
        self.socket.cut_short().saturating_add(others)
    }

    /// Whether packets of channels are taken.
    pub fn has_channels(&self) -> bool {
        !self.filters.is_empty()
    }

    /// The interface's index.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// Receives what is there, at most one batch of each socket; says how much that is, and whether there may be more.
    pub fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> (usize, bool) {
        let id = self.id;
        let Before::Program { arp, discovery, channels } = &mut self.before else {
            return batch(id, pool, into, |frame| self.socket.receive(|bytes| frame.fill(bytes)));
        };
        let own = batch(id, pool, into, |frame| {
            let some = self.socket.receive(|bytes| frame.fill(bytes));
            restore_type(frame);
            some
        });
        let sums = |(count, more): (usize, bool), next: (usize, bool)| (count + next.0, more | next.1);
        let all = sums(own, batch(id, pool, into, |frame| arp.receive(|bytes| frame.fill(bytes))));
        let all = match discovery {
            Some(socket) => sums(all, batch(id, pool, into, |frame| receive_discovery(socket, frame))),
            None => all,
        };
        match channels {
            Some(Channels { socket, .. }) => {
                sums(all, batch(id, pool, into, |frame| socket.receive(|bytes| frame.fill(bytes))))
            }
            None => all,
        }
    }

    /// The frames on their way out.
    pub fn queue(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    /// Sends what is queued, as far as the interface takes it; frames that cannot leave go into `refused`.
    pub fn flush(&mut self, pool: &mut FramePool, refused: &mut Vec<Frame>) {
        let PacketPort { socket, batch, queue, .. } = self;
        queue.flush(pool, refused, |frames| send(batch, socket, frames));
    }

    /// Sends frames of another queue, as far as the interface takes them; says how many.
    pub(super) fn send(&mut self, frames: &mut dyn Iterator<Item = &Frame>) -> io::Result<usize> {
        send(&mut self.batch, &self.socket, frames)
    }

    /// All its sockets, the one that sends first.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let mut all = vec![self.socket.as_fd()];
        if let Before::Program { arp, discovery, channels } = &self.before {
            all.push(arp.as_fd());
            all.extend(discovery.as_ref().map(AsFd::as_fd));
            all.extend(channels.as_ref().map(|channels| channels.socket.as_fd()));
        }
        all.into_iter()
    }
}

/// The sockets of a port, and what is to stand before the Linux stack.
fn open(
    filters: &mut Filters,
    interface: u32,
    longest: usize,
    behind_program: bool,
) -> io::Result<(Before, PacketSocket)> {
    let filter = filters.filter(Which::All)?;
    if behind_program {
        let arp = broker::packet(interface, ethertype::ARP, longest, Room::Little, Some(&filter))?;
        let discovery = broker::discovery(interface)?;
        let socket = broker::packet(interface, PASSED_UP, longest, Room::Much, None)?;
        return Ok((Before::Program { arp, discovery, channels: None }, socket));
    }
    // Both are there before either takes a frame: between the two a capsule would be lost, or doubled.
    filters.listen(false)?;
    let guard = filters.guard(interface, Which::All)?;
    let socket = broker::packet(interface, ALL, longest, Room::Much, Some(&filter))?;
    filters.listen(true)?;
    Ok((Before::Guard { _link: guard }, socket))
}

fn send(batch: &mut Batch, socket: &PacketSocket, frames: &mut dyn Iterator<Item = &Frame>) -> io::Result<usize> {
    batch.send(socket.as_fd(), frames.map(|frame| (frame.bytes(), RawAddr::NONE)))
}

/// Takes frames of a socket, at most one batch; says how many, and whether there may be more.
#[inline]
fn batch(
    id: PortId,
    pool: &mut FramePool,
    into: &mut Vec<Frame>,
    mut receive: impl FnMut(&mut Frame) -> bool,
) -> (usize, bool) {
    for count in 0..BATCH {
        let mut frame = pool.take();
        if !receive(&mut frame) {
            pool.give(frame);
            return (count, false);
        }
        frame.port = id;
        frame.peer = PeerId::NONE;
        into.push(frame);
    }
    (BATCH, true)
}

/// Gives a frame that came up as it came the type it had.
#[inline]
fn restore_type(frame: &mut Frame) {
    let bytes = frame.bytes_mut();
    let kind = match bytes.get(BEHIND).map(|octet| octet >> 4) {
        Some(4) => ethertype::IPV4,
        Some(6) => ethertype::IPV6,
        _ => return,
    };
    if let Some(place) = bytes.get_mut(TYPE..BEHIND) {
        place.copy_from_slice(&kind.to_be_bytes());
    }
}

/// Receives a neighbour advertisement, as the frame that it came in but for the link addresses, which nobody looks at.
fn receive_discovery(socket: &mut DiscoverySocket, frame: &mut Frame) -> bool {
    let headers = ethernet::HEADER + ipv6::HEADER;
    let Some(message) = frame.room().get_mut(headers..).and_then(|room| socket.receive(room)) else { return false };
    frame.received(headers + message.length);
    let none = Mac([0; 6]);
    let outer = ethernet::Repr { destination: none, source: none, tag: None, ethertype: ethertype::IPV6 };
    let inner = ipv6::Repr::new(message.from, message.to, icmp::IP_PROTOCOL_V6, message.hop_limit, message.length);
    let bytes = frame.bytes_mut();
    let emitted = outer.emit(bytes).and_then(|_| inner.emit(&mut bytes[ethernet::HEADER..]));
    emitted.is_ok()
}
