//! What every kind of port can do. Example: [`PortKind::receive`] takes the frames that are there.

use super::packet::{Change, Taker};
use super::pcap::{Beginning, HEADERS};
use super::queue::SendQueue;
use super::xdp::QueueSocket;
use crate::frame::WorkerId;
use crate::frame::{Frame, FramePool, PortId};
use crate::sys::packet::Room;
use crate::sys::poll::Poll;
use std::io;
use std::net::SocketAddr;

/// A native port's interface, and what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeInterface {
    /// Its index; 0: it is not there, and the port waits for it.
    pub index: u32,
    /// Whether the kernel half stands before it.
    pub kernel: bool,
    /// Whether AF_XDP sockets do.
    pub xdp: bool,
}

/// What a port has before the Linux stack.
#[derive(Default)]
pub struct BeforeStack {
    /// How many frames may wait in each of its packet sockets.
    pub room: Room,
    /// Whether a program of the node's stands at its interface.
    pub program: bool,
    /// Its AF_XDP sockets.
    pub sockets: Option<Vec<QueueSocket>>,
    /// Whether each of its receive queues has one: what comes through its packet sockets then is little, but for channels.
    pub at_all_queues: bool,
}

/// A kind of ports. What only native ports have does nothing elsewhere.
pub trait PortKind: Sized {
    /// How one is opened, as the configuration says it.
    type Opening;

    /// Opens one for packets of up to `mtu` bytes, as often as there are workers: each has its part of what comes. And what takes
    /// frames for it, if it is a native port.
    fn open(
        id: PortId,
        opening: Self::Opening,
        mtu: usize,
        before: BeforeStack,
        workers: WorkerId,
    ) -> io::Result<(Vec<Self>, Option<Taker>)>;

    /// Its interface, if it is a native port.
    fn interface(_: &Self::Opening) -> Option<&NativeInterface> {
        None
    }

    /// What its packets begin with in captures.
    const BEGINNING: Beginning;

    /// What a frame that has come in, or goes out, has before its bytes in captures; says how many bytes that are.
    fn headers(&self, _room: &mut [u8; HEADERS], _frame: &Frame, _inward: bool) -> usize {
        0
    }

    /// Lets the poll wait for its sockets.
    fn wait_for(&self, poll: &mut Poll, token: u64) -> io::Result<()>;

    /// Receives what is there; says how much that is, and whether there may be more.
    fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> io::Result<(usize, bool)>;

    /// The frames on their way out.
    fn queue(&mut self) -> &mut SendQueue;

    /// Sends what is queued, as far as the system takes it; frames that cannot leave go into `refused`.
    fn flush(&mut self, pool: &mut FramePool, refused: &mut Vec<Frame>);

    /// Frames the kernel has dropped since the last call.
    fn overflows(&mut self) -> u32;

    /// Frames since the last call that were longer than the port's largest packet, and are nobody's.
    fn cut_short(&mut self) -> u32 {
        0
    }

    /// Receives by other sockets from now on; gives those that it had.
    fn change(&mut self, _: Change) -> Option<Change> {
        None
    }

    /// Its interface is gone, and with it its AF_XDP sockets; whether it had any.
    fn leave_interface(&mut self) -> bool {
        false
    }

    /// Has these AF_XDP sockets from now on; whether it takes any.
    fn take_sockets(&mut self, _: Vec<QueueSocket>) -> bool {
        false
    }

    /// Its neighbours are at these places from now on, by their numbers; an overlay port's alone are.
    fn set_peers(&mut self, _: &[Option<SocketAddr>]) {}

    /// Lets the driver look for frames in this thread, if it is to be polled.
    fn poll_driver(&self) {}

    /// Nothing of what was received is on its way inside the node any more.
    fn settled(&mut self) {}
}
