//! Ports of another configuration: opened before anything changes, and then put at their places.
//!
//! ```text
//! broker: reach ─▶ sockets open ─▶ broker: hold ─▶ old ones leave interfaces ─▶ nodes: places ─▶ workers: sockets
//!      │               └─ refused: all are closed again, nothing has changed              ─▶ interfaces are looked for
//!      └─ settle: what no port has any more is not the node's
//! ```
//!
//! An overlay port has its sockets before, so that an address that is taken refuses the whole. A native one waits, and
//! has its interface as one does that comes later ([`crate::manage::follow`]).

use super::prepared::policies_then;
use super::{Parts, Peers};
use crate::config::places::Move;
use crate::config::{ConfigError, NodeFile, Plan};
use crate::frame::{PortId, WorkerId};
use crate::manage::control::Handle;
use crate::manage::extensions::{Loading, Policies};
use crate::manage::follow::Follower;
use crate::manage::ports::{OpenPort, Opened, explain, room_of, sorted};
use crate::manage::worker::Placing;
use crate::node::places::PortPlaced;
use crate::port::packet::Taker;
use crate::port::sorted::Sorting;
use crate::port::{BeforeStack, NativeInterface};
use crate::sys::netlink::{self, Interface};
use crate::topology::Port;
use std::sync::mpsc::channel;

/// What is open.
pub(super) struct Ports {
    /// What differs, by place.
    pub moves: Vec<Move>,
    /// What frames leave by at ports that stay open, for each worker.
    sortings: Vec<Vec<(PortId, Box<Sorting>)>>,
    /// What nodes are told.
    pub placed: Vec<PortPlaced>,
    /// All ports as they are then.
    pub all: Vec<Port>,
    /// The sockets of each worker.
    each: Vec<Vec<(PortId, OpenPort, bool)>>,
    takers: Vec<Taker>,
}

impl Ports {
    /// Opens what a configuration has beside what runs.
    pub fn of(parts: &Parts, file: &NodeFile, peers: &Peers, loading: Option<&Loading>) -> Result<Ports, String> {
        let said = |error: ConfigError| error.to_string();
        let (moves, workers) = (file.moves(&parts.file), parts.handle.workers());
        let all = parts.handle.with_node(|node, _| node.ports().to_vec())?;
        let each = (0..workers).map(|_| Vec::new()).collect();
        let mut ports = Ports { moves, sortings: Vec::new(), placed: Vec::new(), all, each, takers: Vec::new() };
        let interfaces = ports.interfaces(parts, file)?;
        for moved in &ports.moves {
            let (port, _) = file.port_with(moved.port, &interfaces).map_err(said)?;
            let (waits, plan) = file.waiting(moved.port).map_err(said)?;
            if moved.opens || plan.opening.interface().is_none() {
                ports.placed.push(PortPlaced { port: moved.port, is: waits });
            }
            match ports.all.get_mut(usize::from(moved.port.0)) {
                Some(place) => *place = port,
                None => ports.all.push(port),
            }
        }
        let policies = policies_then(parts, loading)?;
        let renewed = loading.map_or(&[][..], |loading| &loading.gone.0);
        ports.sort_all(&file.resorts(&parts.file, renewed), file, (workers, &policies))?;
        ports.open_all(file, peers, (workers, &policies))?;
        Ok(ports)
    }

    /// Makes other disciplines for these ports, which stay open.
    fn sort_all(
        &mut self,
        resorts: &[PortId],
        file: &NodeFile,
        (workers, policies): (WorkerId, &Policies),
    ) -> Result<(), String> {
        self.sortings = (0..workers).map(|_| Vec::new()).collect();
        for port in resorts {
            let (named, plan) = file.waiting(*port).map_err(|error| error.to_string())?;
            for own in &mut self.sortings {
                let Some(sorting) = plan.sorting.as_deref() else { continue };
                own.push((*port, sorted(sorting, policies).map_err(|why| format!("port {}: {why}", named.name))?));
            }
        }
        Ok(())
    }

    /// The host's interfaces, if a native port is to be opened.
    fn interfaces(&self, parts: &Parts, file: &NodeFile) -> Result<Vec<Interface>, String> {
        let is_native = |moved: &Move| file.ports[usize::from(moved.port.0)].packet.is_some();
        if !self.moves.iter().any(is_native) {
            return Ok(Vec::new());
        }
        Follower::watch(&parts.following).map_err(|error| format!("{error:#}"))?;
        netlink::interfaces().map_err(|error| format!("cannot read the host's interfaces by netlink: {error}"))
    }

    fn open_all(
        &mut self,
        file: &NodeFile,
        peers: &Peers,
        (workers, policies): (WorkerId, &Policies),
    ) -> Result<(), String> {
        let native = file.ports.iter().filter(|port| port.packet.is_some()).count();
        let room = room_of(native, workers);
        let places = peers.places(file);
        for moved in self.moves.clone().into_iter().filter(|moved| moved.opens) {
            let (port, plan) = file.waiting(moved.port).map_err(|error| error.to_string())?;
            let has_sockets = matches!(plan.opening.interface(), Some(NativeInterface { xdp: true, .. }));
            let before = BeforeStack { room, sockets: has_sockets.then(Vec::new), ..BeforeStack::default() };
            let (mut sockets, taker) = self.open((&port.name, moved.port), plan, before, (workers, policies))?;
            if let Some((_, peers)) = places.iter().find(|(port, _)| *port == moved.port) {
                sockets.iter_mut().for_each(|socket| socket.set_peers(peers));
            }
            self.takers.extend(taker);
            self.each.iter_mut().zip(sockets).for_each(|(own, socket)| own.push((moved.port, socket, moved.begins)));
        }
        Ok(())
    }

    fn open(
        &self,
        (name, port): (&str, PortId),
        plan: Plan,
        before: BeforeStack,
        (workers, policies): (WorkerId, &Policies),
    ) -> Result<Opened, String> {
        OpenPort::open(port, plan, before, (self.mtu(), workers, policies))
            .map_err(|error| explain(name, error).to_string())
    }

    /// Bytes of the largest packet of any port.
    fn mtu(&self) -> usize {
        self.all.iter().map(|port| port.mtu).max().unwrap_or(0)
    }

    /// Puts them at their places, with all workers; gives what differs. An error: the node is going down.
    pub fn place(self, handle: &Handle, file: &NodeFile) -> Result<Vec<Move>, String> {
        if self.moves.is_empty() && self.sortings.iter().all(Vec::is_empty) {
            return Ok(self.moves);
        }
        let (mtu, mut takers) = (self.mtu(), self.takers);
        let (done, answers) = channel();
        let placings = self.each.into_iter().zip(self.sortings).map(|(ports, sortings)| {
            let takers = core::mem::take(&mut takers);
            Placing { ports, sortings, takers, mtu, done: done.clone() }
        });
        handle.place(placings)?;
        drop(done);
        // Each says so, or is gone.
        let placed: Vec<Result<(), String>> = answers.iter().collect();
        if placed.len() < usize::from(handle.workers()) {
            return Err("the node is going down".into());
        }
        handle.name_ports(file, &self.all);
        placed.into_iter().collect::<Result<(), String>>()?;
        Ok(self.moves)
    }
}
