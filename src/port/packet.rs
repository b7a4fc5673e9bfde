//! Native ports: the Ethernet frames of an interface, through an AF_PACKET socket.
//!
//! Works on every interface of every kernel, beside the Linux stack: the socket takes a copy of what
//! an active node looks at, a guard in front of the stack takes capsules away from it, and all other
//! traffic goes its way as if we were not there.

use super::queue::{Asking, SendQueue};
use super::{Frame, FramePool, PeerId, PortId};
use crate::kernel::Guard;
use crate::sys::mmsg::{Batch, RawAddr};
use crate::sys::packet::PacketSocket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// An interface of this host.
pub struct PacketPort {
    socket: PacketSocket,
    _guard: Guard,
    id: PortId,
    batch: Batch,
    asking: Asking,
    queue: SendQueue,
}

impl PacketPort {
    /// Opens the port `id` on the interface with this index.
    pub fn open(id: PortId, interface: u32) -> io::Result<PacketPort> {
        // The guard first: a capsule between the two is lost, not doubled.
        let guard = Guard::attach(interface)?;
        let socket = PacketSocket::open(interface)?;
        Ok(PacketPort {
            socket,
            _guard: guard,
            id,
            batch: Batch::default(),
            asking: Asking::default(),
            queue: SendQueue::default(),
        })
    }

    /// Frames the kernel has dropped since the last call because nobody took them.
    pub fn overflows(&self) -> u32 {
        self.socket.overflows().unwrap_or(0)
    }

    /// Receives what is there, at most one batch; says how much that is, and whether there may be more.
    pub fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> io::Result<(usize, bool)> {
        let first = into.len();
        into.extend((0..self.asking.count()).map(|_| pool.take()));
        let got = self.batch.receive(self.socket.as_fd(), into[first..].iter_mut().map(Frame::room), false);
        let count = match got {
            Ok(count) => count,
            Err(error) => {
                into.drain(first..).for_each(|frame| pool.give(frame));
                return if super::queue::is_passing(&error) { Ok((0, false)) } else { Err(error) };
            }
        };
        for at in 0..count {
            let frame = &mut into[first + at];
            frame.received(self.batch.length(at));
            frame.port = self.id;
            frame.peer = PeerId::NONE;
        }
        into.drain(first + count..).for_each(|frame| pool.give(frame));
        Ok((count, self.asking.got(count)))
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
