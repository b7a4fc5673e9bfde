//! New packets, and their cost.
//!
//! The rules of the resource bound: a packet's bound is donated to it by its maker, who loses as much.
//! Every hop costs one; the first is taken from the donation at once, also if the destination is this very
//! node, so that no packet can make packets for ever. Too small a donation, or one greater than what is left,
//! raises `NotEnoughRB`. If the node cannot take the packet, nothing was spent.

use super::{Fault, Result, Run, Stop};
use crate::code::Primitive;
use crate::name::Name;
use crate::packet::Header;
use crate::value::{Chunk, Host, Value};
use std::sync::Arc;

/// A packet that evaluation has made.
#[derive(Debug)]
pub struct NewPacket<'a> {
    /// The packet that made it.
    pub parent: &'a Header,
    /// What it carries.
    pub chunk: &'a Arc<Chunk>,
    /// Where it is to be evaluated.
    pub destination: Host,
    /// Its resource bound once it has left this node.
    pub bound: u32,
    /// How it gets there.
    pub way: Way<'a>,
}

/// How a new packet gets to its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way<'a> {
    /// By a routing function, at every node on the way.
    Routed {
        /// The routing function's name.
        routing: &'a Name,
        /// How often the node tries until it knows of the arrival; 0 for a packet that nobody watches.
        tries: u32,
        /// Milliseconds between tries.
        interval_ms: u32,
    },
    /// Over a link of this node.
    Neighbor(Option<u32>),
}

impl NewPacket<'_> {
    /// The header of the new packet, sent by the node with this address.
    pub fn header(&self, here: Host) -> Header {
        let routing = match self.way {
            Way::Routed { routing, .. } => routing.clone(),
            Way::Neighbor(_) => self.parent.routing.clone(),
        };
        Header { bound: self.bound, destination: self.destination, previous: here, routing, ..self.parent.clone() }
    }
}

impl Run<'_> {
    /// Carries out a primitive.
    pub(super) fn send(&mut self, primitive: Primitive, operands: &[Value]) -> Result<Value> {
        let wrong = Err(Stop::Fault(Fault::Type(primitive.text())));
        let (chunk, host, bound, rest) = match operands {
            [Value::Chunk(chunk), Value::Host(host), Value::Int(bound), rest @ ..] => (chunk, *host, *bound, rest),
            _ => return wrong,
        };
        let way = match (primitive, rest) {
            (Primitive::OnRemote, [Value::Service(routing)]) => Way::Routed { routing, tries: 0, interval_ms: 0 },
            (Primitive::OnNeighbor, []) => Way::Neighbor(None),
            (Primitive::OnNeighbor, [Value::Dev(dev)]) => Way::Neighbor(Some(*dev)),
            (Primitive::RetransOnRemote, [Value::Service(routing), Value::Int(tries), Value::Int(interval)]) => {
                let tries = u32::try_from(*tries).unwrap_or(0).max(1);
                Way::Routed { routing, tries, interval_ms: u32::try_from(*interval).unwrap_or(0) }
            }
            _ => return wrong,
        };
        self.emit(chunk, host, bound, way)?;
        Ok(Value::Unit)
    }

    /// Sends a chunk to the source with all that is left. If that is nothing, nothing is sent, and the node counts it.
    pub(super) fn abort(&mut self, chunk: &Arc<Chunk>) -> Result<()> {
        let header = self.header();
        if self.bound() == 0 {
            self.look_at(chunk.extent())?;
            return self.parts().0.unpaid();
        }
        let way = Way::Routed { routing: &header.routing, tries: 0, interval_ms: 0 };
        self.emit(chunk, header.source, self.bound().into(), way)
    }

    fn emit(&mut self, chunk: &Arc<Chunk>, destination: Host, donated: i64, way: Way<'_>) -> Result<()> {
        self.look_at(chunk.extent())?;
        // Every try may travel as far as the donation reaches, so every try is paid for.
        let tries = if let Way::Routed { tries, .. } = way { tries.max(1) } else { 1 };
        let donated = u32::try_from(donated).ok().filter(|donated| *donated > 0);
        let cost = donated.and_then(|donated| donated.checked_mul(tries)).filter(|cost| *cost <= self.bound());
        let (Some(donated), Some(cost)) = (donated, cost) else { return Err(Stop::Raise(Name::NOT_ENOUGH_RB)) };
        let (node, parent, bound, steps) = self.parts();
        node.send(&NewPacket { parent, chunk, destination, bound: donated - 1, way }, steps)?;
        *bound -= cost;
        Ok(())
    }
}
