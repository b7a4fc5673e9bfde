//! The history of packets: one line of JSON for each event, such as "packet 7 forwarded by node 3".
//!
//! Lines are in the order of virtual time, and the same seed writes the same bytes. Packet 0 is no packet: its lines
//! tell what nodes do for code and links. [`super::explain`] reads it back.

use super::network::Network;
use crate::node::EventKind;
use crate::wire::{Addr, Digest};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in nanoseconds of virtual time.
    pub at: u64,
    /// The node where it happened.
    pub node: String,
    /// The packet; 0 for none.
    pub packet: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    /// An application sent it.
    Injected {
        /// The code it names.
        code: String,
        /// From where.
        source: Addr,
        /// Where to.
        destination: Addr,
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
        to: Addr,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Writes the history.
pub(super) struct Tracer {
    to: Box<dyn Write>,
    names: Vec<String>,
    failure: Option<io::Error>,
}

impl Tracer {
    pub(super) fn new(network: &Network, to: Box<dyn Write>) -> Tracer {
        Tracer { to, names: network.names.clone(), failure: None }
    }

    pub(super) fn name(&self, node: usize) -> String {
        self.names.get(node).cloned().unwrap_or_default()
    }

    pub(super) fn write(&mut self, at: u64, node: usize, packet: u64, what: What) {
        if self.failure.is_some() {
            return;
        }
        let entry = Entry { at, node: self.name(node), packet, what };
        let written = serde_json::to_writer(&mut self.to, &entry).map_err(io::Error::from);
        self.failure = written.and_then(|()| self.to.write_all(b"\n")).err();
    }

    pub(super) fn event(&mut self, at: u64, node: usize, packet: u64, kind: EventKind) {
        let name = |digest: Digest| digest.to_string();
        let what = match kind {
            // Told with more detail by whoever injects; and who pays is not told.
            EventKind::Injected | EventKind::Charged(_) => return,
            EventKind::Received(port) => What::Received { port: port.0 },
            EventKind::Waiting(code) => What::Waiting { code: name(code) },
            EventKind::Requested(object, parts) => What::Requested { object: name(object), parts: parts.count_ones() },
            EventKind::Served(object, parts) => What::Served { object: name(object), parts },
            EventKind::Arrived(object) => What::Arrived { object: name(object) },
            EventKind::Ready(code) => What::Ready { code: name(code) },
            EventKind::Ran(steps) => What::Ran { steps },
            EventKind::Child(child) => What::Child { child },
            EventKind::Forwarded(port, to) => What::Forwarded { port: port.0, to },
            EventKind::Delivered(port) => What::Delivered { port },
            EventKind::Clamped(port, bound) => What::Clamped { port: port.0, bound },
            EventKind::Dropped(reason) => What::Dropped { reason: reason.name().into() },
        };
        self.write(at, node, packet, what);
    }

    /// Ends the history; gives the first failure to write it.
    pub(super) fn finish(mut self) -> io::Result<()> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.to.flush(),
        }
    }
}
