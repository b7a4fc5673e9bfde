//! Networks in virtual time: the same nodes, thousands of them, from a seed.
//!
//! A [`Simulation`] holds [`crate::node::Node`]s and the [`network`] between them. It takes the next action out of a
//! queue, hands a frame, a timer or an answer to a node, and puts the node's output onto links, into applications and
//! back into the queue. Time is a number that jumps from action to action; chance comes from the seed. The same
//! network, seed and calls give the same run, byte by byte. Wasm really runs, with fuel as its only limit.
//!
//! [`scenario`] describes a whole run in a file, [`trace`] is its history, [`explain`] tells the story of one packet.

mod balance;
pub mod explain;
mod faults;
mod histogram;
mod host;
mod line;
mod links;
pub mod network;
mod packets;
mod paths;
mod plan;
mod problem;
mod queue;
pub mod report;
mod run;
pub mod scenario;
mod shop;
mod simulation;
mod tap;
pub mod trace;
pub mod traffic;
mod workers;
mod world;

pub use histogram::{Histogram, Summary};
pub use host::Actor;
pub use network::{Carries, Family, Line, Link, Network, Problem};

pub use crate::labfile::shape::{NODES_MAX, Shape};
pub use plan::Told;
pub use simulation::{SendError, Simulation};
pub use tap::{Tap, Tapped};
pub use traffic::{To, Traffic};

use crate::wire::capsule;

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// A capsule that an application of a simulated node got.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// When, in nanoseconds of virtual time.
    pub at: u64,
    /// The node.
    pub node: usize,
    /// The application port.
    pub port: u16,
    /// The packet's identity in traces.
    pub packet: u64,
    /// Nanoseconds since it, or the packet whose child it is, was injected.
    pub latency: u64,
    /// Links it has crossed, those of its parents included.
    pub hops: u32,
    /// Its header.
    pub header: capsule::Header,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// A capsule that an application sends.
#[derive(Clone, Debug)]
pub struct Sending {
    /// So many nanoseconds from now.
    pub after: u64,
    /// Its header; the source may be unspecified.
    pub header: capsule::Header,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// The host side of an application on a simulated node.
pub trait Application {
    /// A capsule for it has come; it answers with what it sends.
    fn receive(&mut self, arrival: Arrival) -> Vec<Sending>;
}

/// Something that happens to the network itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node stops and forgets all but its store.
    Crash {
        /// Its number.
        node: usize,
    },
    /// It starts again.
    Restart {
        /// Its number.
        node: usize,
        /// Whether its store is still there.
        store_kept: bool,
    },
    /// A link carries nothing; cuts of one link add up.
    Cut {
        /// Its number.
        link: usize,
    },
    /// One of its cuts is mended.
    Mend {
        /// Its number.
        link: usize,
    },
}
