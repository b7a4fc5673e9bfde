//! Native ports: an Ethernet interface, by AF_PACKET, or by AF_XDP where the interface has such sockets.

use super::kind::{BeforeStack, NativeInterface, PortKind};
use super::packet::{Change, PacketPort, Rooms, Taker};
use super::pcap::Beginning;
use super::queue::SendQueue;
use super::xdp::{self, QueueSocket, XdpPort};
use crate::frame::WorkerId;
use crate::frame::{Frame, FramePool, PortId};
use crate::sys::poll::Poll;
use std::io;
use std::os::fd::BorrowedFd;

/// A native port.
pub enum NativePort {
    /// All by AF_PACKET.
    Packet(PacketPort),
    /// Most by AF_XDP.
    Xdp(XdpPort),
}

impl NativePort {
    /// What comes and goes through AF_PACKET.
    fn stack(&mut self) -> &mut PacketPort {
        match self {
            NativePort::Packet(port) => port,
            NativePort::Xdp(port) => port.stack(),
        }
    }
}

impl PortKind for NativePort {
    type Opening = NativeInterface;
    const BEGINNING: Beginning = Beginning::Ethernet;

    fn open(
        id: PortId,
        interface: NativeInterface,
        mtu: usize,
        before: BeforeStack,
        workers: WorkerId,
    ) -> io::Result<(Vec<NativePort>, Option<Taker>)> {
        let passed_up = if before.at_all_queues { before.room.quarter() } else { before.room };
        let rooms = Rooms { passed_up, channels: before.room };
        let (stacks, taker) = PacketPort::open(id, interface.index, mtu, before.program, (workers, rooms))?;
        let ports = match before.sockets {
            Some(queues) => {
                let parts = xdp::parts(queues, workers);
                let each = stacks.into_iter().zip(parts);
                each.map(|(stack, queues)| NativePort::Xdp(XdpPort::new(id, stack, queues))).collect()
            }
            None => stacks.into_iter().map(NativePort::Packet).collect(),
        };
        Ok((ports, Some(taker)))
    }

    fn interface(opening: &NativeInterface) -> Option<&NativeInterface> {
        Some(opening)
    }

    fn wait_for(&self, poll: &mut Poll, token: u64) -> io::Result<()> {
        match self {
            NativePort::Packet(port) => add_all(poll, token, port.sockets()),
            NativePort::Xdp(port) => add_all(poll, token, port.sockets()),
        }
    }

    fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> io::Result<(usize, bool)> {
        Ok(match self {
            NativePort::Packet(port) => port.receive(pool, into),
            NativePort::Xdp(port) => port.receive(pool, into),
        })
    }

    fn queue(&mut self) -> &mut SendQueue {
        match self {
            NativePort::Packet(port) => port.queue(),
            NativePort::Xdp(port) => port.queue(),
        }
    }

    fn flush(&mut self, pool: &mut FramePool, refused: &mut Vec<Frame>) {
        match self {
            NativePort::Packet(port) => port.flush(pool, refused),
            NativePort::Xdp(port) => port.flush(pool, refused),
        }
    }

    fn overflows(&mut self) -> u32 {
        match self {
            NativePort::Packet(port) => port.overflows(),
            NativePort::Xdp(port) => port.overflows(),
        }
    }

    fn cut_short(&mut self) -> u32 {
        self.stack().cut_short()
    }

    fn change(&mut self, change: Change) -> Option<Change> {
        Some(self.stack().change(change))
    }

    fn leave_interface(&mut self) -> bool {
        let NativePort::Xdp(port) = self else { return false };
        port.leave_interface();
        true
    }

    fn take_sockets(&mut self, sockets: Vec<QueueSocket>) -> bool {
        let NativePort::Xdp(port) = self else { return false };
        port.take_sockets(sockets);
        true
    }

    fn poll_driver(&self) {
        if let NativePort::Xdp(port) = self {
            port.poll_driver();
        }
    }

    fn settled(&mut self) {
        if let NativePort::Xdp(port) = self {
            port.settled();
        }
    }
}

fn add_all<'a>(poll: &mut Poll, token: u64, sockets: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<()> {
    sockets.enumerate().try_for_each(|(at, socket)| poll.add_port(socket, token, at == 0))
}
