//! The ports of a running node: one type for all kinds, each with its capture file.

mod opener;

pub(super) use opener::Opener;

use crate::broker;
use crate::config::{Opening, Plan};
use crate::frame::{Frame, FramePool, PortId};
use crate::port::SendQueue;
use crate::port::packet::{Change, PacketPort, Taker};
use crate::port::pcap::Tap;
use crate::port::udp::UdpPort;
use crate::port::xdp::{QueueSocket, XdpPort};
use crate::sys::poll::Poll;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};

enum Socket {
    Udp(UdpPort),
    Packet(PacketPort),
    Xdp(XdpPort),
}

/// What a port has before the Linux stack.
#[derive(Default)]
pub struct Before {
    /// Whether a program of the node's stands at its interface.
    pub program: bool,
    /// Its AF_XDP sockets.
    pub sockets: Option<Vec<QueueSocket>>,
}

/// An open port.
pub(super) struct OpenPort {
    socket: Socket,
    tap: Option<Tap>,
    /// Whether frames wait because the system takes no more.
    pub(super) blocked: bool,
}

impl OpenPort {
    /// Opens it for packets of up to `mtu` bytes, with what it has before the Linux stack; and what takes frames for
    /// it, if it is a native port.
    pub(super) fn open(id: PortId, plan: Plan, before: Before, mtu: usize) -> io::Result<(OpenPort, Option<Taker>)> {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let (socket, tap, taker) = match plan.opening {
            Opening::Udp(listen, peers) => {
                let tap = plan.pcap.map(|path| Tap::overlay(&broker::reach(&path), epoch)).transpose()?;
                (Socket::Udp(UdpPort::open(id, listen, &peers)?), tap, None)
            }
            Opening::Packet { interface, .. } => {
                let tap = plan.pcap.map(|path| Tap::ethernet(&broker::reach(&path), epoch)).transpose()?;
                let (stack, taker) = PacketPort::open(id, interface, mtu, before.program)?;
                let socket = match before.sockets {
                    Some(queues) => Socket::Xdp(XdpPort::new(id, stack, queues)),
                    None => Socket::Packet(stack),
                };
                (socket, tap, Some(taker))
            }
        };
        Ok((OpenPort { socket, tap, blocked: false }, taker))
    }

    /// Its interface is gone, and with it its AF_XDP sockets; the poll waits for the others under `token`.
    pub(super) fn leave_interface(&mut self, poll: &mut Poll, token: u64) -> io::Result<()> {
        let Socket::Xdp(port) = &mut self.socket else { return Ok(()) };
        port.leave_interface();
        self.wait_anew(poll, token)
    }

    /// Receives by other sockets from now on; gives those that it had.
    pub(super) fn change(&mut self, change: Change, poll: &mut Poll, token: u64) -> io::Result<Option<Change>> {
        let before = self.stack().map(|stack| stack.change(change));
        self.wait_anew(poll, token).map(|()| before)
    }

    /// Has these AF_XDP sockets from now on, whose poll token stays; an AF_PACKET port has none.
    pub(super) fn take_sockets(&mut self, sockets: Vec<QueueSocket>, poll: &mut Poll, token: u64) -> io::Result<()> {
        let Socket::Xdp(port) = &mut self.socket else { return Ok(()) };
        port.take_sockets(sockets);
        self.wait_anew(poll, token)
    }

    fn wait_anew(&mut self, poll: &mut Poll, token: u64) -> io::Result<()> {
        poll.drop_port(token);
        self.wait_for(poll, token)?;
        poll.want_write(token, self.blocked);
        Ok(())
    }

    /// What comes and goes through AF_PACKET, if something does.
    fn stack(&mut self) -> Option<&mut PacketPort> {
        match &mut self.socket {
            Socket::Udp(_) => None,
            Socket::Packet(port) => Some(port),
            Socket::Xdp(port) => Some(port.stack()),
        }
    }

    /// Frames since the last call that were longer than the port's largest packet, and are nobody's.
    pub(super) fn cut_short(&mut self) -> u32 {
        self.stack().map_or(0, PacketPort::cut_short)
    }

    /// Lets the poll wait for the port's sockets.
    pub(super) fn wait_for(&self, poll: &mut Poll, token: u64) -> io::Result<()> {
        match &self.socket {
            Socket::Udp(port) => poll.add_port(port, token, true),
            Socket::Packet(port) => add_all(poll, token, port.sockets()),
            Socket::Xdp(port) => add_all(poll, token, port.sockets()),
        }
    }

    /// Lets the driver look for frames in this thread, if it is to be polled.
    pub(super) fn poll_driver(&self) {
        if let Socket::Xdp(port) = &self.socket {
            port.poll_driver();
        }
    }

    /// Nothing of what was received is on its way inside the node any more.
    pub(super) fn settled(&mut self) {
        if let Socket::Xdp(port) = &mut self.socket {
            port.settled();
        }
    }

    /// Frames the kernel has dropped since the last call.
    pub(super) fn overflows(&mut self) -> u32 {
        match &mut self.socket {
            Socket::Udp(port) => port.overflows(),
            Socket::Packet(port) => port.overflows(),
            Socket::Xdp(port) => port.overflows(),
        }
    }

    /// Receives what is there; says how much that is, and whether there may be more.
    pub(super) fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> io::Result<(usize, bool)> {
        match &mut self.socket {
            Socket::Udp(port) => port.receive(pool, into),
            Socket::Packet(port) => Ok(port.receive(pool, into)),
            Socket::Xdp(port) => Ok(port.receive(pool, into)),
        }
    }

    /// The frames on their way out.
    pub(super) fn queue(&mut self) -> &mut SendQueue {
        match &mut self.socket {
            Socket::Udp(port) => port.queue(),
            Socket::Packet(port) => port.queue(),
            Socket::Xdp(port) => port.queue(),
        }
    }

    /// Sends what is queued, as far as the system takes it.
    pub(super) fn flush(&mut self, pool: &mut FramePool, refused: &mut Vec<Frame>) {
        match &mut self.socket {
            Socket::Udp(port) => port.flush(pool, refused),
            Socket::Packet(port) => port.flush(pool, refused),
            Socket::Xdp(port) => port.flush(pool, refused),
        }
    }

    /// Writes a frame that has come in to the capture file.
    pub(super) fn record_in(&mut self, now: u64, frame: &Frame) {
        self.record(now, frame, true);
    }

    /// Writes a frame that goes out to the capture file.
    pub(super) fn record_out(&mut self, now: u64, frame: &Frame) {
        self.record(now, frame, false);
    }

    /// Writes a frame to the capture file; a file that cannot be written to is given up.
    fn record(&mut self, now: u64, frame: &Frame, inward: bool) {
        let Some(tap) = &mut self.tap else { return };
        let written = match &self.socket {
            Socket::Packet(_) | Socket::Xdp(_) => tap.frame(now, frame.bytes()),
            Socket::Udp(port) => match (port.local(), port.peer(frame.peer)) {
                (Ok(own), Some(peer)) => {
                    let (from, to) = if inward { (peer, own) } else { (own, peer) };
                    tap.datagram(now, from, to, frame.bytes())
                }
                _ => Ok(()),
            },
        };
        if let Err(error) = written {
            tracing::error!(%error, "capture file given up");
            self.tap = None;
        }
    }

    /// Lets the capture file have what was written.
    pub(super) fn flush_tap(&mut self) {
        if let Some(tap) = &mut self.tap
            && let Err(error) = tap.flush()
        {
            tracing::error!(%error, "capture file given up");
            self.tap = None;
        }
    }
}

fn add_all<'a>(poll: &mut Poll, token: u64, sockets: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<()> {
    sockets.enumerate().try_for_each(|(at, socket)| poll.add_port(socket, token, at == 0))
}

/// What is to be done where a port cannot be opened.
pub(super) fn explain(port: &str, error: io::Error) -> io::Error {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ". A packet port needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF (root has them); an overlay port (udp = …) needs no privilege"
        }
        io::ErrorKind::AddrInUse => ". Another process listens there",
        io::ErrorKind::AddrNotAvailable => ". The address is not one of this host's",
        _ => "",
    };
    io::Error::new(error.kind(), format!("cannot open port {port}: {error}{remedy}"))
}
