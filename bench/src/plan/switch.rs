//! A node in this process, over plain sockets, whose layers call each other or have queues and threads between them.
//!
//! PLAN on the OSKit had a thread for each layer and a queue between them at first, and then let the link layer call
//! the network layer: "upcalls" delivered 4 to 14 times as many packets. The node knows upcalls alone, so the queues
//! exist here only. Both ways have the same node and the same system calls, one for each datagram, as those had; what
//! differs is who calls, and what wakes whom.

use super::super::Error;
use super::super::line::{EGRESS, INGRESS};
use super::super::place::Way;
use super::packets::{host, overlay_node};
use anode::driver::Driver;
use anode::frame::{Frame, PeerId, PortId};
use anode::node::Node;
use anode::sys::clock::Clock;
use anode::sys::mmsg::deepen;
use anode::sys::realtime;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Frames between two layers, at most.
const QUEUE: usize = 4096;

/// How long a thread sleeps before it looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(20);

/// The nice value of those who come first among ordinary threads.
const FIRST: i32 = -20;

/// Bytes of datagrams that the kernel may keep.
const BUFFER: u32 = 8 << 20;

/// How a layer hands a packet to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It calls it.
    Upcalls,
    /// It puts it into a queue, from which another thread takes it.
    Queues,
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Upcalls => "layers that call each other",
            Mode::Queues => "queues between layers",
        }
    }
}

/// The running node; its threads end when it is dropped.
pub(super) struct Switch {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Frames between two threads.
#[derive(Default)]
struct Queue {
    frames: Mutex<VecDeque<Frame>>,
    some: Condvar,
}

impl Queue {
    /// Puts a frame at the end; gives it back if there is no room.
    fn push(&self, frame: Frame) -> Option<Frame> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        if frames.len() >= QUEUE {
            return Some(frame);
        }
        frames.push_back(frame);
        self.some.notify_one();
        None
    }

    fn pop(&self) -> Option<Frame> {
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.some.wait_timeout_while(frames, PATIENCE, |frames| frames.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }

    /// Without waiting.
    fn try_pop(&self) -> Option<Frame> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The link layer: a socket, and who is at its other ends.
struct LinkLayer {
    socket: UdpSocket,
    peers: [SocketAddr; 2],
}

impl LinkLayer {
    /// Waits for a datagram; nothing came if it gives the frame back empty.
    fn receive(&self, frame: &mut Frame) -> bool {
        let Ok((length, from)) = self.socket.recv_from(frame.room()) else { return false };
        frame.received(length);
        frame.port = PortId(0);
        let peer = self.peers.iter().position(|peer| *peer == from);
        frame.peer = peer.map_or(PeerId::NONE, |peer| PeerId(peer as u16));
        true
    }

    fn send(&self, frame: &Frame) {
        if let Some(to) = self.peers.get(usize::from(frame.peer.0)) {
            // One that does not leave is lost, and counted by nobody but the sink.
            let _ = self.socket.send_to(frame.bytes(), to);
        }
    }
}

/// The network layer: the node.
struct NetworkLayer {
    driver: Driver,
    clock: Clock,
}

impl NetworkLayer {
    fn new() -> NetworkLayer {
        let mut node = Node::new(overlay_node(host(EGRESS.address), [host(INGRESS.peer), host(EGRESS.peer)]));
        node.speak_plan(Default::default());
        NetworkLayer { driver: Driver::new(node), clock: Clock::start() }
    }

    /// Takes a frame, or does what is due; what comes of it goes to `send`.
    fn work(&mut self, frame: Option<Frame>, mut send: impl FnMut(Frame) -> Option<Frame>) {
        let now = self.clock.now();
        if let Some(frame) = frame {
            self.driver.receive(now, frame);
        }
        self.driver.timer_if_due(now);
        let out = &mut self.driver.out;
        for frame in out.frames.drain(..) {
            if let Some(frame) = send(frame) {
                out.pool.give(frame);
            }
        }
    }
}

impl Switch {
    /// Starts a node at a place between sockets, on one CPU.
    pub(super) fn start(mode: Mode, way: &Way, cpu: usize) -> Result<Switch, Error> {
        let Way::Udp { listen, previous, next, .. } = way else {
            return Err(Error::Node("layers are measured over UDP only".into()));
        };
        let failed = |error: io::Error| Error::Node(error.to_string());
        let socket = UdpSocket::bind(listen).map_err(failed)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        // Without the right to that, what the system grants.
        let _ = deepen(socket.as_fd(), BUFFER);
        let link = Arc::new(LinkLayer { socket, peers: [*previous, *next] });
        let mut switch = Switch { stop: Arc::default(), threads: Vec::new() };
        match mode {
            Mode::Upcalls => switch.spawn(cpu, move |stopped| upcalls(&link, stopped)).map_err(failed)?,
            Mode::Queues => {
                // Received, to be sent, and empty ones.
                let queues: [Arc<Queue>; 3] = Default::default();
                let [received, sending, empty] = queues.clone();
                let (from, to) = (link.clone(), link);
                switch.spawn(cpu, move |stopped| link_in(&from, &received, &empty, stopped)).map_err(failed)?;
                let [received, ..] = queues.clone();
                switch.spawn(cpu, move |stopped| network(&received, &sending, stopped)).map_err(failed)?;
                let [_, sending, empty] = queues;
                switch.spawn(cpu, move |stopped| link_out(&to, &sending, &empty, stopped)).map_err(failed)?;
            }
        }
        Ok(switch)
    }

    fn spawn(&mut self, cpu: usize, work: impl FnOnce(&dyn Fn() -> bool) + Send + 'static) -> io::Result<()> {
        let stop = self.stop.clone();
        let run = move || {
            // Whoever runs the benchmark may be real-time itself; the layers' threads were ordinary ones. What else the
            // machine does must not keep them waiting, if that may be.
            if realtime::pin(&[cpu]).and_then(|()| realtime::be_ordinary()).is_ok() {
                let _ = rustix::process::setpriority_process(None, FIRST);
                work(&|| stop.load(Ordering::Acquire));
            }
        };
        self.threads.push(std::thread::Builder::new().name("anode-layer".into()).spawn(run)?);
        Ok(())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

fn upcalls(link: &LinkLayer, stopped: &dyn Fn() -> bool) {
    let mut network = NetworkLayer::new();
    while !stopped() {
        let mut frame = network.driver.out.pool.take();
        let got = link.receive(&mut frame);
        let frame = if got {
            Some(frame)
        } else {
            network.driver.out.pool.give(frame);
            None
        };
        network.work(frame, |frame| {
            link.send(&frame);
            Some(frame)
        });
    }
}

fn link_in(link: &LinkLayer, received: &Queue, empty: &Queue, stopped: &dyn Fn() -> bool) {
    let fresh = || Frame::with_capacity(anode::frame::FRAME);
    let mut spare = None;
    while !stopped() {
        let mut frame = spare.take().or_else(|| empty.try_pop()).unwrap_or_else(fresh);
        // What finds no room is lost.
        spare = if link.receive(&mut frame) { received.push(frame) } else { Some(frame) };
    }
}

fn network(received: &Queue, sending: &Queue, stopped: &dyn Fn() -> bool) {
    let mut network = NetworkLayer::new();
    while !stopped() {
        network.work(received.pop(), |frame| sending.push(frame));
    }
}

fn link_out(link: &LinkLayer, sending: &Queue, empty: &Queue, stopped: &dyn Fn() -> bool) {
    while !stopped() {
        if let Some(frame) = sending.pop() {
            link.send(&frame);
            // Enough empty ones wait already if this one finds no room.
            drop(empty.push(frame));
        }
    }
}
