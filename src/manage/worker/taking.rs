//! Frames of ports are taken in, a batch at a time: port after port, or in their order ([`super::input`]).

use super::input::Input;
use super::{BATCHES_MAX, PORTS, Worker};
use crate::driver::Driven;
use crate::frame::PortId;
use crate::sys::poll::Ready;
use std::io;

impl Worker {
    /// Has another order of ports from now on, or none. What ports have is looked at in the next round.
    #[cold]
    pub(super) fn set_input(&mut self, input: Option<Box<Input>>) {
        self.input = input;
        self.tell_input();
    }

    /// Tells the node what was taken in of each port, if there is an order.
    pub(super) fn tell_input(&mut self) {
        for at in 0..self.around.ports.len() {
            let taken = self.input.as_ref().and_then(|input| input.counts(at));
            self.driver.node.set_port_input(PortId(at as u16), taken);
        }
    }

    /// Sends what a port can take again, and takes what it has; true if there may be more. With an order the port waits for its turn.
    pub(super) fn serve_port(&mut self, at: usize, event: &Ready) -> io::Result<bool> {
        if event.writable {
            self.send(at, self.now)?;
        }
        if !event.readable {
            return Ok(false);
        }
        match &mut self.input {
            Some(input) => {
                input.wake(at, self.now);
                Ok(false)
            }
            None => self.take_batches(at),
        }
    }

    /// Takes what a port has, a few batches of it; true if there may be more.
    pub(super) fn take_batches(&mut self, at: usize) -> io::Result<bool> {
        for batch in 0..BATCHES_MAX {
            if batch > 0 {
                self.read();
            }
            if !self.take_batch(at)?.1 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes batches of ports in their order, as many as ports without one would have had; true if there may be more.
    #[inline]
    pub(super) fn take_in_order(&mut self) -> io::Result<bool> {
        match self.input.as_ref().map_or(0, |input| input.waiting()) {
            0 => Ok(false),
            ports => self.take_each_in_order(BATCHES_MAX * ports),
        }
    }

    fn take_each_in_order(&mut self, most: usize) -> io::Result<bool> {
        for batch in 0..most {
            let now = self.read();
            if batch > 0 {
                self.look_at_higher_ports()?;
            }
            let Some(at) = self.input.as_mut().and_then(|input| input.next(now)) else { return Ok(false) };
            let taken = self.take_batch(at);
            let (frames, more) = *taken.as_ref().unwrap_or(&(0, false));
            if let Some(input) = &mut self.input {
                input.charge(at, frames, more, self.now);
            }
            taken?;
        }
        Ok(self.input.as_ref().is_some_and(|input| input.waiting() > 0))
    }

    /// Wakes ports that have frames since the round began, if one of them may come before all that wait: so a flood at other ports
    /// delays it by no more than the batch that was being taken.
    fn look_at_higher_ports(&mut self) -> io::Result<()> {
        let (now, ports) = (self.now, self.around.ports.len());
        let Some(input) = self.input.as_mut().filter(|input| input.may_be_overtaken()) else { return Ok(()) };
        let mut ready = core::mem::take(input.ready());
        let looked = self.poll.look_at_ports(&mut ready);
        for event in ready.iter().filter(|event| event.readable) {
            let at = (event.token - PORTS) as usize;
            if at < ports {
                input.wake(at, now);
            }
        }
        *input.ready() = ready;
        looked
    }

    /// Takes one batch of a port through the node; says how many frames that were, and whether there may be more.
    #[inline]
    fn take_batch(&mut self, at: usize) -> io::Result<(usize, bool)> {
        let began = self.driver.node.worked(self.now);
        let (count, more) = self.around.ports[at].receive(&mut self.driver.out.pool, &mut self.batch)?;
        if count == 0 {
            return Ok((0, false));
        }
        let now = self.read();
        self.busy_until = now + self.busy_poll;
        let mut batch = core::mem::take(&mut self.batch);
        if self.driver.out.traced {
            self.tell_came(now, at, &mut batch);
        }
        self.taking = Some(self.driver.node.looked_at(&self.driver.out).wrapping_add(batch.len() as u64));
        let Driven { node, mut turn } = self.driver.at(now);
        node.receive_all(&mut turn, &mut batch);
        self.batch = batch;
        self.taking = None;
        let done = self.read();
        let spent = self.driver.node.worked(done) - began;
        self.driver.node.received(count, spent);
        let waits = self.driver.node.has_work();
        if waits {
            self.received += spent;
        }
        // Else what is to be sent leaves with what those packets send.
        if more || !waits {
            self.settle(now)?;
        }
        Ok((count, more))
    }
}

#[cfg(test)]
mod tests;
