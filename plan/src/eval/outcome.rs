//! The outcome of an evaluated packet, as data for the node: done, failed, or reported.
//!
//! A packet that ends in an exception nobody handled, in a fault, or without resource bound on its way, is
//! reported to its source: there the packet's *handler*, a service, is called with the error's name, the host where
//! it happened and the chunk. A report travels on what is left of the bound, makes no reports and has no resource bound
//! when it is evaluated, so failures cannot multiply.

use super::{Fault, Limits, Machine, Node, Run, Stop};
use crate::name::Name;
use crate::packet::{Header, Packet};
use crate::value::{Callee, Chunk, Host, Value};
use std::fmt;
use std::sync::Arc;

/// The greatest weight of a chunk that a report carries whole; heavier ones lose their arguments.
pub const REPORT_WEIGHT_MAX: u32 = 1024;

/// How an evaluation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// With a value, which nobody asked for.
    Done(Value),
    /// With an error, to be reported.
    Failed(Cause),
}

/// Why a packet failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An exception that the program did not handle.
    Exception(Name),
    /// What no program can handle.
    Fault(Fault),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Exception(name) => name.fmt(f),
            Cause::Fault(fault) => fault.fmt(f),
        }
    }
}

impl From<Stop> for Cause {
    fn from(stop: Stop) -> Cause {
        match stop {
            Stop::Raise(name) => Cause::Exception(name),
            Stop::Fault(fault) => Cause::Fault(fault),
        }
    }
}

impl Packet {
    /// Evaluates the packet on a node.
    pub fn evaluate(&self, machine: &mut Machine, node: &mut dyn Node, limits: Limits) -> Outcome {
        let mut run = Run::new(node, &self.header, limits);
        match machine.evaluate(&mut run, &self.chunk) {
            Ok(value) => Outcome::Done(value),
            Err(stop) => Outcome::Failed(stop.into()),
        }
    }

    /// The report of a failure at `here` with `left` of the bound, to be routed to the source; none if there is no
    /// handler, or if the packet is a report itself.
    pub fn report(&self, cause: &Cause, here: Host, left: u32) -> Option<Packet> {
        if self.header.report || self.header.handler.is_none() {
            return None;
        }
        let light = self.chunk.extent().weight <= REPORT_WEIGHT_MAX && self.chunk.extent().depth <= 32;
        let chunk = if light { self.chunk.clone() } else { Arc::new(self.chunk.truncated()) };
        let arguments = [Value::text(cause.to_string().as_bytes()), Value::Host(here), Value::Chunk(chunk)];
        let chunk = Chunk::new(Callee::Service(self.header.handler.clone()), arguments)?;
        let unrouted = self.header.routing.is_none();
        let routing = if unrouted { Name::new("defaultRoute") } else { Some(self.header.routing.clone()) };
        let header = Header {
            routing: routing.unwrap_or(Name::NONE),
            report: true,
            bound: left,
            destination: self.header.source,
            previous: here,
            handler: Name::NONE,
            ..self.header.clone()
        };
        Some(Packet { header, chunk: Arc::new(chunk) })
    }
}

/// What the default handler says: `ERROR: ` chunk ` raised ` error ` on ` host. None if these are not a
/// handler's arguments.
pub fn describe(arguments: &[Value]) -> Option<String> {
    match arguments {
        [error @ Value::Text(_), Value::Host(host), chunk @ Value::Chunk(_)] => {
            Some(format!("ERROR: {chunk} raised {error} on {host}"))
        }
        _ => None,
    }
}
