//! Overlay ports: ANEP packets in UDP datagrams between configured neighbours.
//!
//! Needs no privilege. A datagram from anybody but a neighbour keeps [`PeerId::NONE`], and the node
//! drops it.

use super::kind::{BeforeStack, PortKind};
use super::packet::Taker;
use super::pcap::{self, Beginning, HEADERS};
use super::queue::{Asking, SendQueue};
use crate::broker;
use crate::frame::WorkerId;
use crate::frame::{Frame, FramePool, PeerId, PortId};
use crate::sys::mmsg::{Batch, RawAddr, dropped};
use crate::sys::poll::Poll;
use crate::wire::Addr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Who is not known.
const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A UDP socket between this node and its neighbours.
pub struct UdpPort {
    socket: UdpSocket,
    /// Where it listens, as captures say it.
    own: SocketAddr,
    id: PortId,
    /// Where neighbours listen, by their numbers; nothing: a number that is nobody's now.
    peers: Vec<Option<RawAddr>>,
    batch: Batch,
    asking: Asking,
    queue: SendQueue,
    /// Datagrams dropped for want of room, as far as they were told of.
    told: u32,
}

impl UdpPort {
    /// Opens the port `id` at `listen`; neighbours are known by their position in `peers`.
    pub fn open(id: PortId, listen: SocketAddr, peers: &[SocketAddr]) -> io::Result<UdpPort> {
        UdpPort::open_one(id, listen, peers, false)
    }

    /// The same; `shared`: as one of several that listen there.
    fn open_one(id: PortId, listen: SocketAddr, peers: &[SocketAddr], shared: bool) -> io::Result<UdpPort> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("udp = \"{listen}\": {error}"));
        let socket = UdpSocket::from(broker::udp(listen, shared).map_err(named)?);
        let peers = peers.iter().map(|peer| Some(RawAddr::new(*peer))).collect();
        let own = RawAddr::new(socket.local_addr()?).addr();
        Ok(UdpPort {
            socket,
            own,
            id,
            peers,
            batch: Batch::segmenting(),
            asking: Asking::default(),
            queue: SendQueue::default(),
            told: 0,
        })
    }

    /// Where the port listens.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr().map(|addr| RawAddr::new(addr).addr())
    }

    /// Where a neighbour listens.
    pub fn peer(&self, peer: PeerId) -> Option<SocketAddr> {
        self.peers.get(usize::from(peer.0))?.as_ref().map(RawAddr::addr)
    }

    /// Receives what is there, at most one batch; says how much that is, and whether there may be more.
    pub fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> io::Result<(usize, bool)> {
        let first = into.len();
        into.extend((0..self.asking.count()).map(|_| pool.take()));
        let got = self.batch.receive(self.socket.as_fd(), into[first..].iter_mut().map(Frame::room), true);
        let count = match got {
            Ok(count) => count,
            // Nothing there, or an earlier datagram of ours was refused somewhere: not our loss.
            Err(error) => {
                into.drain(first..).for_each(|frame| pool.give(frame));
                self.asking.got(0);
                return if super::queue::is_passing(&error) { Ok((0, false)) } else { Err(error) };
            }
        };
        for at in 0..count {
            let sender = self.batch.sender(at);
            let peer = self.peers.iter().position(|peer| peer.as_ref().is_some_and(|peer| peer.same(sender)));
            let frame = &mut into[first + at];
            frame.received(self.batch.length(at));
            frame.port = self.id;
            frame.peer = peer.map_or(PeerId::NONE, |peer| PeerId(peer as u16));
            if peer.is_none() {
                // Whom the log names if strangers go on.
                let from = sender.addr();
                frame.ends.source = Some((from.ip().into(), from.port()));
            }
        }
        into.drain(first + count..).for_each(|frame| pool.give(frame));
        Ok((count, self.asking.got(count)))
    }

    /// Datagrams the kernel has dropped since the last call because nobody took them.
    pub fn overflows(&mut self) -> u32 {
        let all = dropped(self.socket.as_fd()).unwrap_or(self.told);
        all.wrapping_sub(core::mem::replace(&mut self.told, all))
    }

    /// The frames on their way out.
    pub fn queue(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    /// Sends what is queued, as far as the socket takes it; frames that cannot leave go into `refused`.
    pub fn flush(&mut self, pool: &mut FramePool, refused: &mut Vec<Frame>) {
        let UdpPort { socket, batch, queue, peers, .. } = self;
        queue.flush(pool, refused, |frames| {
            let to = |frame: &Frame| peers.get(usize::from(frame.peer.0)).copied().flatten().unwrap_or(RawAddr::NONE);
            batch.send(socket.as_fd(), frames.map(|frame| (frame.bytes(), to(frame))))
        });
    }
}

/// A UDP socket here, with neighbours there.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where its neighbours do.
    pub peers: Vec<SocketAddr>,
}

impl PortKind for UdpPort {
    type Opening = Overlay;
    const BEGINNING: Beginning = Beginning::Ip;

    fn open(
        id: PortId,
        overlay: Overlay,
        _: usize,
        _: BeforeStack,
        workers: WorkerId,
    ) -> io::Result<(Vec<UdpPort>, Option<Taker>)> {
        let Overlay { mut listen, peers } = overlay;
        let mut ports = Vec::new();
        for _ in 0..workers.max(1) {
            let port = UdpPort::open_one(id, listen, &peers, workers > 1)?;
            // Where the system chooses, it does so once.
            listen.set_port(port.local()?.port());
            ports.push(port);
        }
        Ok((ports, None))
    }

    fn headers(&self, room: &mut [u8; HEADERS], frame: &Frame, inward: bool) -> usize {
        let ip = |addr: Addr| addr.bytes_v4().map_or(IpAddr::from(addr.0), IpAddr::from);
        let stranger = || frame.ends.source.map(|(addr, port)| SocketAddr::new(ip(addr), port));
        let peer = self.peer(frame.peer).or_else(stranger).unwrap_or(NOBODY);
        let (from, to) = if inward { (peer, self.own) } else { (self.own, peer) };
        pcap::headers(room, from, to, frame.len())
    }

    fn set_peers(&mut self, peers: &[Option<SocketAddr>]) {
        self.peers = peers.iter().map(|peer| peer.map(RawAddr::new)).collect();
    }

    fn wait_for(&self, poll: &mut Poll, token: u64) -> io::Result<()> {
        poll.add_port(self, token, true)
    }

    fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> io::Result<(usize, bool)> {
        UdpPort::receive(self, pool, into)
    }

    fn queue(&mut self) -> &mut SendQueue {
        UdpPort::queue(self)
    }

    fn flush(&mut self, pool: &mut FramePool, refused: &mut Vec<Frame>) {
        UdpPort::flush(self, pool, refused);
    }

    fn overflows(&mut self) -> u32 {
        UdpPort::overflows(self)
    }
}

impl AsFd for UdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_socket_had_no_room_for_is_counted() {
        let mut port = UdpPort::open(PortId(0), "127.0.0.1:0".parse().unwrap(), &[]).unwrap();
        let (at, sender) = (port.local().unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let sent = 40_000;
        for _ in 0..sent {
            sender.send_to(&[0; 1400], at).unwrap();
        }
        let (mut pool, mut frames, mut came) = (FramePool::new(2048, 64), Vec::new(), 0);
        while let (count @ 1.., _) = port.receive(&mut pool, &mut frames).unwrap() {
            came += count as u32;
            frames.drain(..).for_each(|frame| pool.give(frame));
        }
        let lost = port.overflows();
        assert!(lost > 0, "so much has no room");
        assert_eq!((came + lost, port.overflows()), (sent, 0));
    }
}
