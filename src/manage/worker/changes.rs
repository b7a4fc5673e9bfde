//! Changes of ports' sockets: the worker wishes, the [`Opener`](crate::manage::ports::Opener) opens, the worker takes
//! the open sockets.

use super::crew::Link;
use super::{Order, PORTS, Placing, Worker};
use crate::frame::PortId;
use crate::manage::ports::OpenPort;
use crate::port::packet::{AROUND, Change};
use crate::port::sorted::Sorting;
use crate::port::xdp::{QueueSocket, parts};
use std::io;
use std::net::SocketAddr;

impl Worker {
    /// A port has another interface. Until its sockets are open it has none there.
    #[cold]
    pub(super) fn reopen(&mut self, id: PortId, interface: u32, program: bool, mtu: usize) {
        let at = usize::from(id.0);
        self.driver.out.pool.grow(mtu + AROUND);
        let Some(port) = self.around.ports.get_mut(at) else { return };
        if let Some(front) = self.around.place.front() {
            front.opener.iter().for_each(|opener| opener.reopen(id, (interface, mtu), program));
            let others = self.around.links.iter().map(Link::way);
            others.for_each(|way| way.order(Order::Reopen { port: id, interface, program, mtu }));
        }
        if let Err(error) = port.leave_interface(&mut self.poll, PORTS + at as u64) {
            tracing::error!(port = at, %error, "sockets of a port are not waited for");
        }
    }

    /// Something is open for a port.
    #[cold]
    pub(super) fn change(&mut self, id: PortId, changes: Vec<Change>) {
        let at = usize::from(id.0);
        let mut changes = changes.into_iter();
        let (Some(port), Some(change)) = (self.around.ports.get_mut(at), changes.next()) else { return };
        // Only the first worker is told of those of others.
        let others = self.around.links.iter().zip(changes);
        others.for_each(|(other, change)| other.way().order(Order::Change { port: id, changes: vec![change] }));
        match port.change(change, &mut self.poll, PORTS + at as u64) {
            Ok(before) => match self.around.place.opener() {
                Some(opener) => before.into_iter().for_each(|before| opener.close(before)),
                // Closing a socket alone is soon done.
                None => drop(before),
            },
            Err(error) => tracing::error!(port = at, %error, "sockets of a port are not waited for"),
        }
    }

    /// Ports are others at their places. What waits to leave by one that stays in its place leaves by the new one.
    #[cold]
    pub(super) fn place(&mut self, placing: Placing) {
        let Placing { ports, sortings, takers, mtu, done } = placing;
        self.driver.out.pool.grow(mtu + AROUND);
        // What the node has for them so far is with those of before.
        if self.settle(self.clock.now()).is_err() {
            return;
        }
        let mut placed = Ok(());
        for (id, port, begins) in ports {
            if let Err(error) = self.place_one(id, port, begins) {
                tracing::error!(port = id.0, %error, "sockets of a port are not waited for");
                placed = Err(format!("sockets of port {} are not waited for: {error}", id.0));
            }
        }
        if let Err(error) = sortings.into_iter().try_for_each(|(id, sorting)| self.sort_by(id, sorting)) {
            placed = Err(format!("a port does not send any more: {error}"));
        }
        if let Some(opener) = self.around.place.opener() {
            takers.into_iter().for_each(|taker| opener.enter(taker));
        }
        // Whoever asked may have gone away meanwhile.
        let _ = done.send(placed);
    }

    /// What waits at a port leaves in another order; its sockets stay.
    fn sort_by(&mut self, id: PortId, sorting: Box<Sorting>) -> io::Result<()> {
        let (at, now) = (usize::from(id.0), self.clock.now());
        let Some(port) = self.around.ports.get_mut(at) else { return Ok(()) };
        let left_over = port.sort_by(sorting, now);
        self.driver.turn(now, |node, turn| {
            left_over.into_iter().for_each(|(frame, reason)| node.refused_by_port(turn, frame, reason));
        });
        self.send(at, now)
    }

    fn place_one(&mut self, id: PortId, mut port: OpenPort, begins: bool) -> io::Result<()> {
        let at = usize::from(id.0);
        while self.around.ports.len() < at {
            self.around.ports.push(OpenPort::vacant());
        }
        if at == self.around.ports.len() {
            port.wait_for(&mut self.poll, PORTS + id.0 as u64)?;
            self.around.ports.push(port);
            return Ok(());
        }
        let now = self.clock.now();
        self.send(at, now)?;
        let token = PORTS + at as u64;
        self.poll.drop_port(token);
        if begins {
            // Nothing waits in a vacant place.
            self.driver.node.begin_port(id);
        } else {
            let left_over = port.take_over(&mut self.around.ports[at], now);
            self.driver.turn(now, |node, turn| {
                left_over.into_iter().for_each(|(frame, reason)| node.refused_by_port(turn, frame, reason));
            });
        }
        port.wait_for(&mut self.poll, token)?;
        let before = core::mem::replace(&mut self.around.ports[at], port);
        match self.around.place.opener() {
            Some(opener) => opener.leave(id, before),
            // Closing a socket alone is soon done.
            None => drop(before),
        }
        self.send(at, now)
    }

    /// Neighbours of an overlay port are at other places.
    #[cold]
    pub(super) fn set_peers(&mut self, id: PortId, peers: &[Option<SocketAddr>]) {
        self.around.ports.get_mut(usize::from(id.0)).into_iter().for_each(|port| port.set_peers(peers));
    }

    /// AF_XDP sockets are open for a port.
    #[cold]
    pub(super) fn take_sockets(&mut self, id: PortId, sockets: Vec<QueueSocket>) {
        let at = usize::from(id.0);
        let Some(port) = self.around.ports.get_mut(at) else { return };
        let sockets = match self.around.place.front() {
            Some(_) => {
                let mut parts = parts(sockets, self.around.links.len() as u16 + 1).into_iter();
                let own = parts.next().unwrap_or_default();
                let others = self.around.links.iter().zip(parts);
                others.for_each(|(other, sockets)| other.way().order(Order::Sockets { port: id, sockets }));
                own
            }
            None => sockets,
        };
        if let Err(error) = port.take_sockets(sockets, &mut self.poll, PORTS + at as u64) {
            tracing::error!(port = at, %error, "AF_XDP sockets of a port are not waited for");
        }
    }
}
