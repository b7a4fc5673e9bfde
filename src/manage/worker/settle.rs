//! What the node wants done: packets to applications, processes and ports, and whatever the loader does.

use super::Worker;
use crate::core::reason::Reason;
use crate::frame::PortId;
use crate::manage::ports::OpenPort;
use crate::manage::worker::PORTS;
use crate::node::{Effect, Output, Turn};
use std::io;

impl Worker {
    /// Does what the node wants done, until it wants nothing more.
    pub(super) fn settle(&mut self, now: u64) -> io::Result<()> {
        let idle = |out: &Output| {
            let (frames, told) = (out.frames.is_empty(), out.told.is_empty() && out.upcalls.is_empty());
            out.deliveries.is_empty() && out.effects.is_empty() && frames && told
        };
        while !idle(&self.out) {
            self.deliver(now);
            self.tell(now);
            self.carry_out(now);
            self.queue_frames(now);
        }
        for at in 0..self.ports.len() {
            let queue = self.ports[at].queue();
            if queue.is_empty() {
                continue;
            }
            let bytes = queue.bytes().min(u64::from(u32::MAX)) as u32;
            if self.ports[at].blocked {
                self.node.set_queue(PortId(at as u16), bytes);
            } else {
                self.send(at)?;
            }
        }
        // Packets that wait for their turn are on their way inside the node too: none of their flow may overtake them in the kernel half.
        if !self.node.has_work() && !self.ports.iter().any(|port| port.blocked) {
            self.ports.iter_mut().for_each(OpenPort::settled);
        }
        Ok(())
    }

    fn deliver(&mut self, now: u64) {
        let mut deliveries = core::mem::take(&mut self.out.deliveries);
        for delivery in deliveries.drain(..) {
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            self.apps.deliver(delivery, &mut self.node, &mut turn);
        }
        self.out.deliveries = deliveries;
        let mut told = core::mem::take(&mut self.out.told);
        for (port, message) in told.drain(..) {
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            self.apps.tell(port, &message, &mut self.node, &mut turn);
        }
        self.out.told = told;
    }

    /// Tells processes what happens to their domains.
    fn tell(&mut self, now: u64) {
        let mut upcalls = core::mem::take(&mut self.out.upcalls);
        for (host, domain, upcall) in upcalls.drain(..) {
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            self.processes.tell(host, domain, upcall, &mut self.node, &mut turn);
        }
        upcalls.append(&mut self.out.upcalls);
        self.out.upcalls = upcalls;
        self.processes.notify();
    }

    fn carry_out(&mut self, now: u64) {
        let mut effects = core::mem::take(&mut self.out.effects);
        for effect in effects.drain(..) {
            if let Effect::Channel { filter, exists } = effect {
                // Before ports are open there are no channels.
                self.opener.iter().for_each(|opener| opener.take_for((*filter).clone(), exists));
                continue;
            }
            let Err(effect) = self.loader.submit(effect) else { continue };
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            match effect {
                Effect::LookUp(digest) => self.node.found(&mut turn, digest, None),
                Effect::Prepare(prepare) => self.node.unprepared(&mut turn, prepare.code),
                Effect::Authorise(claim, _) => self.node.unprepared(&mut turn, claim.code),
                // The kernel half is told again when something changes; until then capsules run here.
                Effect::Plan(wish, _) => self.node.wished_in_vain(&mut turn, wish),
                // Neighbours tell it again.
                Effect::Revoke(..) => {}
                Effect::Store(_) | Effect::Kernel(_) | Effect::Channel { .. } => {}
            }
        }
        // What the answers have caused comes behind.
        effects.append(&mut self.out.effects);
        self.out.effects = effects;
    }

    fn queue_frames(&mut self, now: u64) {
        let mut frames = core::mem::take(&mut self.out.frames);
        for frame in frames.drain(..) {
            // While codes are prepared no port is open yet.
            let (pushed, reason) = match self.ports.get_mut(usize::from(frame.port.0)) {
                Some(port) => {
                    port.record_out(now, &frame);
                    (port.queue().push(frame), Reason::QueueFull)
                }
                None => (Err(frame), Reason::NotSent),
            };
            if let Err(frame) = pushed {
                let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
                self.node.refused_outside(&mut turn, frame, reason);
            }
        }
        frames.append(&mut self.out.frames);
        self.out.frames = frames;
    }

    /// Sends what a port has queued, and asks to be told when it can take the rest.
    pub(super) fn send(&mut self, at: usize) -> io::Result<()> {
        let port = &mut self.ports[at];
        port.flush(&mut self.out.pool, &mut self.refused);
        let waiting = !port.queue().is_empty();
        let bytes = port.queue().bytes().min(u64::from(u32::MAX)) as u32;
        if waiting != port.blocked {
            self.poll.want_write(PORTS + at as u64, waiting);
            port.blocked = waiting;
        }
        self.node.set_queue(PortId(at as u16), bytes);
        for frame in self.refused.drain(..) {
            let mut turn = Turn { now: self.clock.now(), runtime: &mut self.runtime, out: &mut self.out };
            self.node.refused_outside(&mut turn, frame, Reason::NotSent);
        }
        Ok(())
    }
}
