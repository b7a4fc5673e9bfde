//! What a worker is asked between two batches of packets. Example: a program has connected to an environment's socket, and
//! the worker that has the environment takes it on ([`Order::Attach`]).

use super::input::Input;
use crate::classify::filter::Watch;
use crate::config::cpu::CpuFile;
use crate::core::domain::DomainId;
use crate::frame::{PortId, WorkerId};
use crate::manage::ee::{Account, Half};
use crate::manage::ports::OpenPort;
use crate::node::survey::Survey;
use crate::node::{Node, Turn};
use crate::nodeos::interface::HostId;
use crate::port::packet::{Change, Taker};
use crate::port::sorted::Sorting;
use crate::port::xdp::QueueSocket;
use crate::seen::ring::Teller;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What control asks of the worker: done between two batches, and short.
pub type Command = Box<dyn FnOnce(&mut Node, &mut Turn<'_>) + Send>;

/// What wakes a worker besides frames.
pub enum Order {
    /// Do this.
    Do(Command),
    /// Carry out what follows from the orders before, and say so when the ports have it too.
    Settle(Sender<()>),
    /// The ports have it.
    Settled(Sender<()>),
    /// A process of an environment's has connected.
    Attach(HostId, Box<Half>),
    /// It has gone.
    Detach(HostId),
    /// A domain goes to another worker; who asks is told whether it can, and then when it is there.
    Move {
        /// The first domain of an environment.
        domain: DomainId,
        /// The worker.
        to: WorkerId,
        /// Why it cannot, or that it is on its way.
        begun: Sender<Result<(), String>>,
        /// That it is there.
        arrived: Sender<()>,
    },
    /// The first worker has packets of a channel taken, or not any more.
    Channel {
        /// The packets.
        watch: Box<Watch>,
        /// Whether the channel exists.
        exists: bool,
    },
    /// What the processes of an environment use is charged to its domain from now on.
    Charge(Arc<Account>),
    /// The interface of a native port is another one, behind a program of the node's or not.
    Reopen {
        /// The port.
        port: PortId,
        /// The interface's index.
        interface: u32,
        /// Whether a program of the node's stands before it.
        program: bool,
        /// Bytes of the largest packet there.
        mtu: usize,
    },
    /// A native port receives otherwise from now on: something is open that it has wished for.
    Change {
        /// The port.
        port: PortId,
        /// What is open, for each worker from the first on.
        changes: Vec<Change>,
    },
    /// A native port has these AF_XDP sockets at its interface from now on.
    Sockets {
        /// The port.
        port: PortId,
        /// The sockets, in the order of the queues.
        sockets: Vec<QueueSocket>,
    },
    /// Somebody watches packets: one in so many that come in.
    Watch(Teller, u32),
    /// Somebody watches no more.
    Unwatch,
    /// Survey the node, a slice between two batches, and hand the survey back.
    Survey(Box<Survey>, Sender<Box<Survey>>),
    /// It has another share of a CPU.
    Share(CpuFile),
    /// It takes frames of ports in another order, or in none.
    Input(Option<Box<Input>>),
    /// Neighbours of an overlay port are at these places, by their numbers.
    Peers {
        /// The port.
        port: PortId,
        /// Where they listen; nothing: a number that is nobody's now.
        peers: Vec<Option<SocketAddr>>,
    },
    /// Ports are others at these places from now on.
    Place(Box<Placing>),
    /// Stop.
    Stop,
}

/// What a worker has at places of ports from now on.
pub struct Placing {
    /// What is open there, and whether another port begins.
    pub ports: Vec<(PortId, OpenPort, bool)>,
    /// What frames leave by at ports that stay.
    pub sortings: Vec<(PortId, Box<Sorting>)>,
    /// What takes frames for them, with the first worker.
    pub takers: Vec<Taker>,
    /// Bytes of the largest packet of any port.
    pub mtu: usize,
    /// Who waits for it.
    pub done: Sender<Result<(), String>>,
}
