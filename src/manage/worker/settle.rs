//! The end of a worker's round: the node's effects are carried out, and queued frames are sent.

use super::Worker;
use crate::core::reason::Reason;
use crate::frame::PortId;
use crate::manage::ports::OpenPort;
use crate::manage::worker::PORTS;
use std::io;

impl Worker {
    /// Does what the node wants done, until it wants nothing more.
    pub(super) fn settle(&mut self, now: u64) -> io::Result<()> {
        self.around.watchers.now = now;
        if self.driver.settle(now, &mut self.around) {
            self.around.processes.notify(&mut self.driver.node, now);
        }
        for at in 0..self.around.ports.len() {
            if !self.around.ports[at].has_some(now) {
                continue;
            }
            if self.around.ports[at].blocked {
                self.tell_queue(at);
            } else {
                self.send(at, now)?;
            }
        }
        let pool = &mut self.driver.out.pool;
        self.around.links.iter_mut().for_each(|link| link.settle(pool));
        // Packets that wait for their turn are on their way inside the node too: none of their flow may overtake them in the kernel half.
        if !self.driver.node.has_work() && !self.around.ports.iter().any(|port| port.blocked) {
            self.around.ports.iter_mut().for_each(OpenPort::settled);
        }
        Ok(())
    }

    /// Sends what a port has queued, and asks to be told when it can take the rest.
    pub(super) fn send(&mut self, at: usize, now: u64) -> io::Result<()> {
        let port = &mut self.around.ports[at];
        let blocked = port.send(now, &mut self.driver.out.pool, &mut self.refused);
        if blocked != port.blocked {
            self.poll.want_write(PORTS + at as u64, blocked);
            port.blocked = blocked;
        }
        self.tell_queue(at);
        for frame in self.refused.drain(..) {
            let now = self.clock.now();
            self.driver.turn(now, |node, turn| node.refused_by_port(turn, frame, Reason::NotSent));
        }
        Ok(())
    }

    /// Tells the node what waits at a port, and what has left.
    fn tell_queue(&mut self, at: usize) {
        let (waits, left) = self.around.ports[at].waiting();
        self.driver.node.set_port_queue(PortId(at as u16), waits, left);
    }
}
