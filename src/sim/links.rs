//! Frames on links, with their trace lines and counters.

use super::report::lose;
use super::run::Action;
use super::simulation::FRAMES_MAX;
use super::trace::{Carried, Loss, What};
use super::world::World;
use crate::classify::{Class, classify};
use crate::frame::{Frame, FramePool, PortId};
use crate::link::Fate;
use crate::wire::anep;
use crate::wire::fetch::Message;

impl World {
    /// Puts a frame on the link at its port; gives it back if the output queue has no room.
    #[inline]
    pub(super) fn transmit(&mut self, pool: &mut FramePool, at: usize, mut frame: Frame) -> Result<(), Frame> {
        let (port, packet) = (frame.port, frame.trace);
        self.show(at, port.0, true, frame.bytes());
        let host = &self.hosts[at];
        if usize::from(port.0) >= host.ends.len() {
            return Err(frame);
        }
        let number = host.first_direction + usize::from(port.0);
        if packet == 0 {
            self.count_message(at, port, frame.bytes());
        }
        if self.queue.len() > FRAMES_MAX {
            return Err(frame);
        }
        let direction = &mut self.directions[number];
        let fate = direction.model.carry(self.now, frame.len(), &mut self.chance);
        let (to, to_port, to_peer) = (direction.to, direction.to_port, direction.to_peer);
        let (first, second) = match fate {
            Fate::Full => return Err(frame),
            Fate::Lost | Fate::Cut => {
                let carries =
                    if self.tracer.is_some() { self.carried(at, port, frame.bytes()) } else { Carried::Other };
                let loss = if fate == Fate::Cut { Loss::Cut } else { Loss::Link };
                self.lose(at, to as usize, packet, carries, loss);
                pool.give(frame);
                return Ok(());
            }
            Fate::Arrives(first) => (first, None),
            Fate::Twice(first, second) => (first, Some(second)),
        };
        if self.tracer.is_some() {
            let (carries, bytes) = (self.carried(at, port, frame.bytes()), frame.len());
            self.tell_of(at, packet, to as usize, |to| What::Sent { carries, to, bytes, arrives: first });
        }
        self.packets.leave(packet);
        frame.port = to_port;
        frame.peer = to_peer;
        if let Some(arrives) = second {
            let copy = self.double(pool, &frame);
            self.tell(at, packet, || What::Doubled { copy: copy.trace, arrives });
            self.plan(arrives, Action::Arrive { node: to, frame: copy });
        }
        self.plan(first, Action::Arrive { node: to, frame });
        Ok(())
    }

    fn double(&mut self, pool: &mut FramePool, frame: &Frame) -> Frame {
        let mut copy = pool.take();
        copy.fill(frame.bytes());
        (copy.port, copy.peer) = (frame.port, frame.peer);
        if frame.trace != 0 {
            copy.trace = self.packets.copy(frame.trace);
            self.totals.doubled += 1;
        }
        copy
    }

    /// A frame ends outside any node.
    pub(super) fn lose(&mut self, at: usize, to: usize, packet: u64, carries: Carried, cause: Loss) {
        if self.packets.end(packet).is_some() {
            lose(&mut self.totals.lost, cause);
        }
        self.tell_of(at, packet, to, |to| What::Lost { carries, to, cause });
    }

    /// Type and payload of the ANEP packet in a frame at a port.
    pub(super) fn anep_at<'a>(&self, node: usize, port: PortId, bytes: &'a [u8]) -> Option<(u16, &'a [u8])> {
        let link = self.hosts[node].config.ports.get(usize::from(port.0))?.link;
        let Ok(Class::Anep(range, _)) = classify(link, bytes) else { return None };
        let packet = anep::Packet::new_checked(&bytes[range]).ok()?;
        Some((packet.type_id(), packet.payload()))
    }

    pub(super) fn carried(&self, node: usize, port: PortId, bytes: &[u8]) -> Carried {
        match self.anep_at(node, port, bytes) {
            Some((anep::type_id::CAPSULE, _)) => Carried::Capsule,
            Some((anep::type_id::FETCH, message)) => match Message::parse(message) {
                Ok(Message::Request { .. }) => Carried::Request,
                Ok(Message::Part { .. }) => Carried::Part,
                Ok(Message::Absent { .. }) => Carried::Absent,
                Err(_) => Carried::Other,
            },
            Some((anep::type_id::PLAN, _)) => Carried::Plan,
            Some(_) => Carried::Other,
            None => Carried::Address,
        }
    }

    pub(super) fn count_message(&mut self, node: usize, port: PortId, bytes: &[u8]) {
        let Some((_, payload)) = self.anep_at(node, port, bytes) else { return };
        let length = (anep::HEADER + payload.len()) as u64;
        let carried = self.carried(node, port, bytes);
        let fetch = &mut self.totals.fetch;
        match carried {
            Carried::Request => {
                fetch.requests += 1;
                fetch.request_bytes += length;
            }
            Carried::Part => {
                fetch.parts += 1;
                fetch.reply_bytes += length;
            }
            Carried::Absent => {
                fetch.absents += 1;
                fetch.reply_bytes += length;
            }
            _ => {}
        }
    }

    #[inline]
    pub(super) fn tell(&mut self, node: usize, packet: u64, what: impl FnOnce() -> What) {
        if let Some(tracer) = &mut self.tracer {
            tracer.write(self.now, node, packet, what());
        }
    }

    #[inline]
    pub(super) fn tell_of(&mut self, node: usize, packet: u64, other: usize, what: impl FnOnce(String) -> What) {
        if let Some(tracer) = &mut self.tracer {
            let name = tracer.name(other);
            tracer.write(self.now, node, packet, what(name));
        }
    }
}
