//! Native ports: the Ethernet frames of an interface, through AF_PACKET sockets.
//!
//! Beside the Linux stack, in one of two ways:
//!
//! - **On its own** the port works on every interface of every kernel: a socket for frames of every type takes a copy of what an
//!   active node looks at, and a guard in front of the stack takes capsules away from it. Both are asked about every frame.
//! - **Behind an XDP program** of the node's, which sees every frame first and passes up what is the node's under an
//!   Ethernet type of its own ([`ethertype::PASSED_UP`]), a socket is bound to that type, and others to what address
//!   resolution needs. Frames that are not the node's meet nothing. Only while there are channels at the port, whose
//!   packets the XDP program does not know, a second pair of socket and guard takes those.
//!
//! All other traffic goes its way as if we were not there.
//!
//! Sockets and what stands before the stack are opened by a [`Taker`], which may have to wait for that; the port itself
//! only receives and sends, by what it is [given](PacketPort::change).

mod taker;

pub use taker::{Change, Rooms, Sockets, Taker};

use super::queue::SendQueue;
use crate::contract::passed_up;
use crate::frame::WorkerId;
use crate::frame::{Frame, FramePool, PeerId, PortId};
use crate::sys::discovery::DiscoverySocket;
use crate::sys::mmsg::{BATCH, Batch, RawAddr};
use crate::sys::packet::PacketSocket;
use crate::wire::ethernet::{self, Mac, ethertype};
use crate::wire::{icmp, ipv6};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use taker::{Before, Channels};

/// Where the Ethernet type stands, and what is behind it.
const TYPE: usize = 12;
const BEHIND: usize = 14;

/// Bytes around an IP packet in a frame that comes up: link headers, and what the kernel half says of it.
pub const AROUND: usize = LINK_HEADERS + passed_up::SIZE;

/// Room for link headers.
const LINK_HEADERS: usize = 64;

/// An interface of this host.
pub struct PacketPort {
    /// None while its interface is not there.
    sockets: Option<Sockets>,
    id: PortId,
    batch: Batch,
    queue: SendQueue,
}

impl PacketPort {
    /// Opens the port `id` on the interface with this index, or without one if that is 0, for IP packets of up to `mtu` bytes; behind
    /// an XDP program of the node's or not. What changes there later is opened by its taker.
    /// One for each worker, with so much room: the first has the others' ARP and channels too.
    pub fn open(
        id: PortId,
        interface: u32,
        mtu: usize,
        behind_program: bool,
        each: (WorkerId, Rooms),
    ) -> io::Result<(Vec<PacketPort>, Taker)> {
        let (taker, all) = Taker::open(id, interface, mtu + AROUND, behind_program, each)?;
        let port = |sockets| PacketPort { sockets, id, batch: Batch::default(), queue: SendQueue::default() };
        Ok((all.into_iter().map(port).collect(), taker))
    }

    /// Has other sockets from now on, and gives those that it had. What waits to be sent stays.
    pub fn change(&mut self, change: Change) -> Change {
        match (change, self.sockets.as_mut().map(|sockets| &mut sockets.before)) {
            (Change::Interface(sockets), _) => Change::Interface(std::mem::replace(&mut self.sockets, sockets)),
            (Change::Channels(taken), Some(Before::Program { channels, .. })) => {
                Change::Channels(std::mem::replace(channels, taken))
            }
            // There all frames come by one socket, or none do.
            (Change::Channels(taken), _) => Change::Channels(taken),
        }
    }

    /// Frames the kernel has dropped since the last call because nobody took them.
    pub fn overflows(&self) -> u32 {
        let lost = |socket: &PacketSocket| socket.overflows().unwrap_or(0);
        let Some(Sockets { main, before }) = &self.sockets else { return 0 };
        let others = match before {
            Before::Guard { .. } | Before::First { .. } => 0,
            Before::Program { arp, channels, .. } => {
                lost(arp).saturating_add(channels.as_ref().map_or(0, |channels| lost(&channels.socket)))
            }
        };
        lost(main).saturating_add(others)
    }

    /// Frames since the last call that were longer than the port's largest packet, as several are that were joined, and are nobody's.
    pub fn cut_short(&mut self) -> u32 {
        let Some(Sockets { main, before }) = &mut self.sockets else { return 0 };
        let others = match before {
            Before::Guard { .. } | Before::First { .. } => 0,
            Before::Program { arp, channels, .. } => {
                arp.cut_short().saturating_add(channels.as_mut().map_or(0, |channels| channels.socket.cut_short()))
            }
        };
        main.cut_short().saturating_add(others)
    }

    /// Receives what is there, at most one batch of each socket; says how much that is, and whether there may be more.
    pub fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> (usize, bool) {
        let (id, Some(Sockets { main, before })) = (self.id, &mut self.sockets) else { return (0, false) };
        let restores = matches!(before, Before::Program { .. } | Before::First { program: true });
        let own = batch(id, pool, into, |frame| {
            let some = main.receive(|bytes| frame.fill(bytes));
            if restores {
                restore_type(frame);
            }
            some
        });
        let Before::Program { arp, discovery, channels } = before else { return own };
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
        let PacketPort { sockets, batch, queue, .. } = self;
        queue.flush(pool, refused, |frames| send(batch, sockets.as_ref(), frames));
    }

    /// Sends frames of another queue, as far as the interface takes them; says how many.
    pub(super) fn send(&mut self, frames: &mut dyn Iterator<Item = &Frame>) -> io::Result<usize> {
        send(&mut self.batch, self.sockets.as_ref(), frames)
    }

    /// All its sockets, the one that sends first.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let mut all: Vec<_> = self.sockets.iter().map(|sockets| sockets.main.as_fd()).collect();
        if let Some(Before::Program { arp, discovery, channels }) = self.sockets.as_ref().map(|it| &it.before) {
            all.push(arp.as_fd());
            all.extend(discovery.as_ref().map(AsFd::as_fd));
            all.extend(channels.as_ref().map(|channels| channels.socket.as_fd()));
        }
        all.into_iter()
    }
}

fn send(batch: &mut Batch, by: Option<&Sockets>, frames: &mut dyn Iterator<Item = &Frame>) -> io::Result<usize> {
    let Some(Sockets { main, .. }) = by else { return Err(io::Error::from_raw_os_error(libc::ENXIO)) };
    batch.send(main.as_fd(), frames.map(|frame| (frame.bytes(), RawAddr::NONE)))
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
    let kind = match bytes.get(BEHIND).map(|byte| byte >> 4) {
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
