//! Evaluation of chunks on a node.
//!
//! There are two evaluators: [`mod@reference`] walks the code as it is written down, simple enough to be
//! obviously right; [`machine`] runs compiled code and is for packets. Both count the same steps at the
//! same moments, so a limit stops both at the same place; they share [`Run`], which has the limits, the
//! operations and the packet's resource bound. Nothing trusts types: every operation looks at its
//! operands, and what does not fit is a [`Fault`].
//!
//! # Termination
//!
//! A function can only call earlier ones and a fold goes once over a finite list, so evaluating a chunk
//! ends if the services do, however long it may take. `eval`, which evaluates a chunk in place, could be
//! endless, as a chunk may name its own function; it costs [`EVAL_DEPTH`] of the depth, which is bounded.
//! Steps, depth and memory are bounded besides. Across nodes, every packet that is made costs its maker at
//! least one of its resource bound, which nothing increases.

mod acts;
mod builtin;
pub mod compile;
mod folding;
pub mod machine;
mod ops;
pub mod outcome;
pub mod reference;
mod run;
mod send;

pub use builtin::Builtin;
pub use machine::Machine;
pub use outcome::{Cause, Outcome};
pub use run::{Run, State};
pub use send::{NewPacket, Way};

use crate::name::Name;
use crate::program::{ServiceId, Services};
use crate::value::Value;
use std::fmt;

/// What one `eval` costs of the depth, besides what the evaluated function needs.
pub const EVAL_DEPTH: u32 = 16;

/// How much one packet may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps: one for each expression, one more for each 16 parts or 256 bytes that an operation looks at.
    pub steps: u32,
    /// How deep expressions may nest over all calls that are under way. The reference evaluator recurses as deep.
    pub depth: u32,
    /// Cells of memory: the parts of all values that are made, and one for each 16 bytes of text.
    pub cells: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: 100_000, depth: 1024, cells: 100_000 }
    }
}

/// What ends an evaluation and cannot be handled by the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An operation found an operand of the wrong type.
    Type(&'static str),
    /// A service was called with another number of arguments, or the packet's function was.
    Arity,
    /// Too many steps.
    Steps,
    /// Nested too deep.
    Depth,
    /// Too many cells.
    Memory,
    /// A value became too large or nested too deep.
    Value,
    /// A service must wait for something outside the node: the packet is to be evaluated again, from its beginning.
    Wait,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Type(what) => write!(f, "TypeError({what})"),
            Fault::Arity => f.write_str("TypeError(number of arguments)"),
            Fault::Steps => f.write_str("StepLimit"),
            Fault::Depth => f.write_str("DepthLimit"),
            Fault::Memory => f.write_str("MemoryLimit"),
            Fault::Value => f.write_str("ValueLimit"),
            Fault::Wait => f.write_str("Wait"),
        }
    }
}

/// Why an operation has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// An exception, which the program may handle.
    Raise(Name),
    /// A fault, which it may not.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Stop>;

/// Takes steps from those that are left.
#[inline]
pub fn spend(left: &mut u32, steps: u32) -> Result<()> {
    let rest = left.checked_sub(steps);
    *left = rest.unwrap_or(0);
    rest.map(drop).ok_or(Fault::Steps.into())
}

/// The node that evaluates: its services, and what becomes of new packets.
pub trait Node: Services {
    /// Calls a service. The arguments are any values: a service checks how many and of what types.
    fn call(&mut self, service: ServiceId, arguments: &[Value], state: &mut State<'_>) -> Result<Value>;

    /// The value of a service that is no function; a service's name stands for itself otherwise.
    fn constant(&mut self, service: ServiceId) -> Option<Value> {
        let _ = service;
        None
    }

    /// A chunk was to go to the source, and nothing was left of the bound to pay for that.
    fn unpaid(&mut self) -> Result<()> {
        Ok(())
    }

    /// Takes a new packet; if it raises, no packet was made and nothing was spent of the bound. What that takes is
    /// taken from the steps that are left, which [`spend`] does.
    fn send(&mut self, packet: &NewPacket<'_>, steps: &mut u32) -> Result<()>;
}
