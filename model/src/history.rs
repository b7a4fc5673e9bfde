//! The history of packets, of which each event is a line: `anode sim run --trace` writes it, and stories are told of it.
//!
//! Addresses are of the type that whoever writes or reads a history has for them; in JSON they are text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Entry")]
pub struct Entry<A> {
    /// When, in nanoseconds: of virtual time, or since the first of the nodes began.
    pub at: u64,
    /// The node where it happened.
    pub node: String,
    /// The packet; 0 for none.
    pub packet: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: What<A>,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[schemars(rename = "What")]
pub enum What<A> {
    /// An application sent it.
    Injected {
        /// The code it names.
        code: String,
        /// From where.
        source: A,
        /// Where to.
        destination: A,
        /// Its resource bound.
        bound: u32,
        /// Bytes, header included.
        bytes: usize,
    },
    /// It came in by a port.
    Received {
        /// The port.
        port: u16,
    },
    /// It waits for its code.
    Waiting {
        /// The code's name.
        code: String,
    },
    /// The node asked for parts of an object.
    Requested {
        /// The object's name.
        object: String,
        /// How many parts.
        parts: u32,
    },
    /// The node served parts of an object.
    Served {
        /// The object's name.
        object: String,
        /// How many parts.
        parts: u32,
    },
    /// An object arrived whole.
    Arrived {
        /// The object's name.
        object: String,
    },
    /// Code can run from now on.
    Ready {
        /// The code's name.
        code: String,
    },
    /// Its code ran.
    Ran {
        /// For so many steps.
        steps: u64,
    },
    /// Its code sent a child.
    Child {
        /// The child.
        child: u64,
    },
    /// It was sent on towards its destination.
    Forwarded {
        /// By which port.
        port: u16,
        /// Where to in the end.
        to: A,
    },
    /// An application got it.
    Delivered {
        /// The application port.
        port: u16,
    },
    /// Its bound was above the ceiling of the port that it came in by.
    Clamped {
        /// The port.
        port: u16,
        /// The bound that it had.
        bound: u32,
    },
    /// An engine of a graph had it, or one of its copies.
    Met {
        /// The graph.
        graph: String,
        /// The engine, with the names of the compound elements that it is in.
        engine: String,
        /// Whether that was in the kernel.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        kernel: bool,
    },
    /// The node dropped it.
    Dropped {
        /// Why: a drop reason.
        reason: String,
    },
    /// A frame was put on a link.
    Sent {
        /// What it carries.
        carries: Carried,
        /// The node at the other end.
        to: String,
        /// Bytes of the frame.
        bytes: usize,
        /// When it arrives, in nanoseconds.
        arrives: u64,
    },
    /// The link doubled it.
    Doubled {
        /// The second packet.
        copy: u64,
        /// When that arrives, in nanoseconds.
        arrives: u64,
    },
    /// It was lost outside any node.
    Lost {
        /// What it carried.
        carries: Carried,
        /// The node it was on its way to.
        to: String,
        /// How.
        cause: Loss,
    },
    /// The node crashed.
    Crashed,
    /// The node started again.
    Restarted,
    /// The link was cut.
    Cut {
        /// The node at the other end.
        to: String,
    },
    /// The link was mended.
    Mended {
        /// The node at the other end.
        to: String,
    },
}

/// What a frame on a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Carried {
    /// A capsule.
    Capsule,
    /// A request for code.
    Request,
    /// A part of an object.
    Part,
    /// Word that there is no such object.
    Absent,
    /// A PLAN message.
    Plan,
    /// A question or answer about link addresses.
    Address,
    /// Anything else.
    Other,
}

/// How a frame is lost outside any node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// By the link, by chance.
    Link,
    /// The link was cut.
    Cut,
    /// The node at the end was down.
    Down,
    /// With the node that held it.
    Crash,
    /// Into something that is no node.
    Stranger,
}
