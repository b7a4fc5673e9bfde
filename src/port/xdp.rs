//! Native ports by AF_XDP: frames from the driver, before the kernel has made anything of them.
//!
//! Each receive queue of the interface has a socket, and a program before the interface takes capsules there
//! (`bpf/sockets.h`). Everything else goes up the Linux stack. So a [`PacketPort`] stays behind it: for ARP and
//! neighbour discovery, which the stack must see too, for capsules of a queue without a socket, and for channels. One
//! socket of each worker sends for the whole interface, so its frames leave in the order of its queue.

use super::packet::PacketPort;
use super::queue::SendQueue;
use crate::frame::WorkerId;
use crate::frame::{Frame, FramePool, PeerId, PortId};
use crate::kernel::Tickets;
use crate::sys::mmsg::BATCH;
use crate::sys::xsk::XskSocket;
use std::os::fd::{AsFd, BorrowedFd};

/// The socket of one receive queue.
pub struct QueueSocket {
    socket: XskSocket,
    tickets: Tickets,
    /// Frames taken so far.
    taken: u64,
    /// Frames thrown away: said to the node; found at the last look; held to be gone.
    told: u64,
    found: u64,
    gone: u64,
    /// Whether nothing was there when it was looked into last.
    empty: bool,
}

impl QueueSocket {
    /// A socket to which frames go, with these tickets.
    pub fn new(socket: XskSocket, tickets: Tickets) -> QueueSocket {
        QueueSocket { socket, tickets, taken: 0, told: 0, found: 0, gone: 0, empty: true }
    }

    fn receive(&mut self, id: PortId, pool: &mut FramePool, into: &mut Vec<Frame>) -> (usize, bool) {
        let mut count = 0;
        while count < BATCH {
            let mut frame = pool.take();
            if !self.socket.receive(|bytes| frame.fill(bytes)) {
                pool.give(frame);
                break;
            }
            frame.port = id;
            frame.peer = PeerId::NONE;
            into.push(frame);
            count += 1;
        }
        self.empty = count < BATCH;
        if count > 0 {
            self.taken += count as u64;
            self.socket.refill();
        }
        (count, !self.empty)
    }

    /// Frames thrown away since the last call. Those of the call before cannot be about to come any more, so
    /// if nothing waits their tickets are done.
    fn overflows(&mut self) -> u32 {
        if self.empty {
            self.gone = self.found;
        }
        self.found = self.socket.lost();
        let new = self.found.saturating_sub(self.told);
        self.told = self.found;
        new.min(u64::from(u32::MAX)) as u32
    }
}

/// The sockets of each of so many workers: the *i*th has those of the queues *i*, *i* + *n*, ….
pub fn parts(queues: Vec<QueueSocket>, workers: WorkerId) -> Vec<Vec<QueueSocket>> {
    let workers = usize::from(workers.max(1));
    let mut parts: Vec<Vec<QueueSocket>> = (0..workers).map(|_| Vec::new()).collect();
    queues.into_iter().enumerate().for_each(|(queue, socket)| parts[queue % workers].push(socket));
    parts
}

/// An interface of this host, with sockets before its stack.
pub struct XdpPort {
    stack: PacketPort,
    /// The first one sends.
    queues: Vec<QueueSocket>,
    id: PortId,
    queue: SendQueue,
}

impl XdpPort {
    /// The port `id` of these sockets, one of which can send, and of what goes up the stack.
    pub fn new(id: PortId, stack: PacketPort, queues: Vec<QueueSocket>) -> XdpPort {
        XdpPort { stack, queues, id, queue: SendQueue::default() }
    }

    /// The interface is gone, and these sockets with it. Others come behind those of the stack.
    pub fn leave_interface(&mut self) {
        self.queues.clear();
    }

    /// Has these sockets from now on, at the interface that it was opened on last.
    pub fn take_sockets(&mut self, queues: Vec<QueueSocket>) {
        self.queues = queues;
    }

    /// Frames the kernel has dropped since the last call because nobody took them.
    pub fn overflows(&mut self) -> u32 {
        let lost = self.queues.iter_mut().map(QueueSocket::overflows).fold(0, u32::saturating_add);
        lost.saturating_add(self.stack.overflows())
    }

    /// What goes up the Linux stack.
    pub fn stack(&mut self) -> &mut PacketPort {
        &mut self.stack
    }

    /// Receives what is there, at most one batch of each socket; says how much that is, and whether there may be more.
    /// What comes up the stack is first: it may have come while its queue had no socket yet.
    pub fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> (usize, bool) {
        let (mut count, mut more) = self.stack.receive(pool, into);
        for queue in &mut self.queues {
            let (some, full) = queue.receive(self.id, pool, into);
            count += some;
            more |= full;
        }
        (count, more)
    }

    /// Nothing of what was received is on its way inside the node any more.
    #[inline]
    pub fn settled(&mut self) {
        for queue in &mut self.queues {
            queue.tickets.done(queue.taken + queue.gone);
        }
    }

    /// Lets the driver look for frames in this thread, if it is to be polled.
    pub fn poll_driver(&self) {
        self.queues.iter().for_each(|queue| queue.socket.poll_driver());
    }

    /// The frames on their way out.
    pub fn queue(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    /// Sends what is queued, as far as the interface takes it; frames that cannot leave go into `refused`.
    pub fn flush(&mut self, pool: &mut FramePool, refused: &mut Vec<Frame>) {
        let XdpPort { queues, queue, stack, .. } = self;
        queue.flush(pool, refused, |frames| match queues.first_mut() {
            Some(first) => first.socket.send(frames.map(Frame::bytes)),
            None => stack.send(frames),
        });
    }

    /// All its sockets, the one that sends first.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(|queue| queue.socket.as_fd()).chain(self.stack.sockets())
    }
}
