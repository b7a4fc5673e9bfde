//! The history of packets: one line of JSON for each event, such as "packet 7 forwarded by node 3".
//!
//! Lines are in the order of virtual time, and the same seed writes the same bytes. Packet 0 is no packet: its lines
//! tell what nodes do for code and links. [`super::explain`] reads it back.

use super::network::Network;
use crate::node::EventKind;
use crate::wire::{Addr, Digest};
use model::history;
use std::io::{self, Write};

pub use history::{Carried, Loss};

/// A line of the history.
pub type Entry = history::Entry<Addr>;

/// What can happen.
pub type What = history::What<Addr>;

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
            EventKind::Met(graph, engine) => {
                What::Met { graph: graph.to_string(), engine: engine.to_string(), kernel: false }
            }
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
