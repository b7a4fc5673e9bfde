//! The record of an event, as the worker writes it: [`super::record`] has its form, and reads it.
//!
//! Apart from the form, since whoever reads it need not know the node.

use super::record::*;
use super::ring::HEAD;
use crate::frame::PortId;
use crate::node::{Event, EventKind};

const NOWHERE: PortId = PortId(NO_PORT);

/// The record of an event: its head, and hands the bytes behind it over, which are of two pieces.
#[inline]
pub fn of_event<R>(at: u64, event: &Event, tell: impl FnOnce([u64; HEAD], &[u8], &[u8]) -> R) -> R {
    let none: &[u8] = &[];
    let (detail, PortId(port), more, bytes) = match &event.kind {
        EventKind::Received(port) => (RECEIVED, *port, 0, none),
        EventKind::Injected => (INJECTED, NOWHERE, 0, none),
        EventKind::Waiting(code) => (WAITING, NOWHERE, 0, &code.0[..]),
        EventKind::Requested(object, parts) => (REQUESTED, NOWHERE, u64::from(parts.count_ones()), &object.0[..]),
        EventKind::Served(object, parts) => (SERVED, NOWHERE, u64::from(*parts), &object.0[..]),
        EventKind::Arrived(object) => (ARRIVED, NOWHERE, 0, &object.0[..]),
        EventKind::Ready(code) => (READY, NOWHERE, 0, &code.0[..]),
        EventKind::Ran(steps) => (RAN, NOWHERE, *steps, none),
        EventKind::Child(child) => (CHILD, NOWHERE, *child, none),
        EventKind::Forwarded(port, to) => (FORWARDED, *port, 0, &to.0[..]),
        EventKind::Delivered(port) => (DELIVERED, NOWHERE, u64::from(*port), none),
        EventKind::Clamped(port, bound) => (CLAMPED, *port, u64::from(*bound), none),
        EventKind::Dropped(reason) => (DROPPED, NOWHERE, 0, reason.name().as_bytes()),
        EventKind::Charged(domain) => (CHARGED, NOWHERE, u64::from(domain.0), none),
        EventKind::Met(graph, _) => (MET, NOWHERE, graph.len() as u64, graph.as_bytes()),
    };
    let behind = if let EventKind::Met(_, engine) = &event.kind { engine.as_bytes() } else { none };
    tell(head(EVENT, detail, port, at, event.trace, more), bytes, behind)
}
