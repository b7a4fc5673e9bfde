//! The ports of a running node: one type for all kinds, each with its capture file.

use super::config::{Opening, Plan};
use crate::broker;
use crate::kernel::{Setting, Settings};
use crate::nodeos::channel::spec::Filter;
use crate::port::packet::PacketPort;
use crate::port::pcap::Tap;
use crate::port::udp::UdpPort;
use crate::port::xdp::{QueueSocket, XdpPort};
use crate::port::{Frame, FramePool, PortId, SendQueue};
use crate::sys::ethtool;
use crate::sys::poll::Poll;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
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
    settings: Arc<Settings>,
    /// Whether segments are kept apart at its interface, for its channels.
    apart: bool,
    /// Whether frames wait because the system takes no more.
    pub(super) blocked: bool,
}

impl OpenPort {
    /// Opens it for packets of up to `mtu` octets, with what it has before the Linux stack.
    pub(super) fn open(
        id: PortId,
        plan: Plan,
        before: Before,
        mtu: usize,
        settings: &Arc<Settings>,
    ) -> io::Result<OpenPort> {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let (socket, tap) = match plan.opening {
            Opening::Udp(listen, peers) => {
                let tap = plan.pcap.map(|path| Tap::overlay(&broker::reach(&path), epoch)).transpose()?;
                (Socket::Udp(UdpPort::open(id, listen, &peers)?), tap)
            }
            Opening::Packet { interface, .. } => {
                let tap = plan.pcap.map(|path| Tap::ethernet(&broker::reach(&path), epoch)).transpose()?;
                let stack = PacketPort::open(id, interface, mtu, before.program)?;
                let socket = match before.sockets {
                    Some(queues) => Socket::Xdp(XdpPort::new(id, stack, queues)),
                    None => Socket::Packet(stack),
                };
                (socket, tap)
            }
        };
        Ok(OpenPort { socket, tap, settings: settings.clone(), apart: false, blocked: false })
    }

    /// Opens a native port anew on another interface; behind a program of the node's or not. What the poll waits for under `token` is
    /// other sockets then. AF_XDP sockets come behind it.
    pub(super) fn reopen(&mut self, interface: u32, program: bool, poll: &mut Poll, token: u64) -> io::Result<()> {
        let done = match &mut self.socket {
            Socket::Udp(_) => return Ok(()),
            Socket::Packet(port) => port.reopen(interface, program),
            Socket::Xdp(port) => port.reopen(interface, program),
        };
        self.apart = false;
        self.keep_apart();
        poll.drop_port(token);
        self.wait_for(poll, token)?;
        poll.want_write(token, self.blocked);
        done
    }

    /// Has these AF_XDP sockets from now on, whose poll token stays; an AF_PACKET port has none.
    pub(super) fn take_sockets(&mut self, sockets: Vec<QueueSocket>, poll: &mut Poll, token: u64) -> io::Result<()> {
        let Socket::Xdp(port) = &mut self.socket else { return Ok(()) };
        port.take_sockets(sockets);
        poll.drop_port(token);
        self.wait_for(poll, token)?;
        poll.want_write(token, self.blocked);
        Ok(())
    }

    /// Takes no more frames from the Linux stack.
    pub(super) fn stop_taking(&mut self) -> io::Result<()> {
        self.stack().map_or(Ok(()), PacketPort::stop_taking)
    }

    /// What comes and goes through AF_PACKET, if something does.
    fn stack(&mut self) -> Option<&mut PacketPort> {
        match &mut self.socket {
            Socket::Udp(_) => None,
            Socket::Packet(port) => Some(port),
            Socket::Xdp(port) => Some(port.stack()),
        }
    }

    /// Keeps segments of a flow apart while packets of channels are taken: joined they would be longer than any link carries.
    fn keep_apart(&mut self) {
        let Some((interface, wanted)) = self.stack().map(|stack| (stack.interface(), stack.has_channels())) else {
            return;
        };
        if wanted == self.apart {
            return;
        }
        self.apart = wanted;
        let joining = [Setting::Gro, Setting::Lro];
        let done = ethtool::name(interface).and_then(|name| match wanted {
            true => joining.into_iter().try_for_each(|setting| self.settings.turn_off(setting, &name).map(drop)),
            false => self.settings.give_back(|setting, of| joining.contains(&setting) && of == name).map(drop),
        });
        if let Err(error) = done {
            tracing::warn!(%error, interface, "joined segments cannot be sent on by channels: ethtool -K DEV gro off lro off");
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

    /// Takes packets of a channel too, or does not any more; what the poll waits for under `token` may change by that.
    pub(super) fn take_for(&mut self, filter: &Filter, exists: bool, poll: &mut Poll, token: u64) {
        let taken = match &mut self.socket {
            Socket::Udp(_) => Ok(false),
            Socket::Packet(port) => port.take_for(filter, exists),
            Socket::Xdp(port) => port.take_for(filter, exists),
        };
        self.keep_apart();
        let done = taken.and_then(|others| {
            if others {
                poll.drop_port(token);
                self.wait_for(poll, token)?;
                poll.want_write(token, self.blocked);
            }
            Ok(())
        });
        if let Err(error) = done {
            tracing::error!(%error, "a channel does not get the packets of a port");
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
