//! Native ports: the Ethernet frames of an interface, through an AF_PACKET socket.
//!
//! Works on every interface of every kernel, beside the Linux stack: the socket takes a copy of what
//! an active node looks at, a guard in front of the stack takes capsules away from it, and all other
//! traffic goes its way as if we were not there.

use super::queue::SendQueue;
use super::{Frame, FramePool, PeerId, PortId};
use crate::kernel::Filters;
use crate::nodeos::channel::spec::Filter;
use crate::sys::bpf::Link;
use crate::sys::mmsg::{BATCH, Batch, RawAddr};
use crate::sys::packet::PacketSocket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// An interface of this host.
pub struct PacketPort {
    socket: PacketSocket,
    _guard: Link,
    filters: Filters,
    id: PortId,
    batch: Batch,
    queue: SendQueue,
}

impl PacketPort {
    /// Opens the port `id` on the interface with this index, for frames of up to `longest` octets;
    /// behind the `kernel` half or not.
    pub fn open(id: PortId, interface: u32, longest: usize, kernel: bool) -> io::Result<PacketPort> {
        // The guard first: a capsule between the two is lost, not doubled.
        let filters = Filters::create()?;
        let guard = filters.guard(interface)?;
        let socket = PacketSocket::open(interface, longest, &filters.filter(kernel)?)?;
        Ok(PacketPort { socket, _guard: guard, filters, id, batch: Batch::default(), queue: SendQueue::default() })
    }

    /// Takes packets of a channel too, or does not any more.
    pub fn take_for(&mut self, filter: &Filter, exists: bool) -> io::Result<()> {
        let elsewhere = filter.port.is_some_and(|port| port != self.id);
        if elsewhere { Ok(()) } else { self.filters.change(filter, exists) }
    }

    /// Frames the kernel has dropped since the last call because nobody took them.
    pub fn overflows(&self) -> u32 {
        self.socket.overflows().unwrap_or(0)
    }

    /// Receives what is there, at most one batch; says how much that is, and whether there may be more.
    pub fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> (usize, bool) {
        for count in 0..BATCH {
            let mut frame = pool.take();
            if !self.socket.receive(|bytes| frame.fill(bytes)) {
                pool.give(frame);
                return (count, false);
            }
            frame.port = self.id;
            frame.peer = PeerId::NONE;
            into.push(frame);
        }
        (BATCH, true)
    }

    /// The frames on their way out.
    pub fn queue(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    /// Sends what is queued, as far as the interface takes it; frames that cannot leave go into `refused`.
    pub fn flush(&mut self, pool: &mut FramePool, refused: &mut Vec<Frame>) {
        let PacketPort { socket, batch, queue, .. } = self;
        queue.flush(pool, refused, |frames| {
            batch.send(socket.as_fd(), frames.map(|frame| (frame.bytes(), RawAddr::NONE)))
        });
    }
}

impl AsFd for PacketPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
