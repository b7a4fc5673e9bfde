//! Counts of connections to the node's sockets that found no place, or lost theirs: `connections` of the status.
//!
//! Places are shared by owner ([`crate::frame::shares::Shares`]), so that nobody takes the last one; silent connections
//! lose theirs by a time-out.

use model::status;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of one kind of connection, since the start.
#[derive(Debug, Default)]
pub struct Counts {
    refused: AtomicU64,
    silent: AtomicU64,
    displaced: AtomicU64,
    slowed: AtomicU64,
    cost_ns: AtomicU64,
}

impl Counts {
    /// One found no place.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// One was closed that had not said in time what it wants.
    pub fn silent(&self) {
        self.silent.fetch_add(1, Ordering::Relaxed);
    }

    /// One was closed that was idle, for another one.
    pub fn displaced(&self) {
        self.displaced.fetch_add(1, Ordering::Relaxed);
    }

    /// One was made, or a call over one, by somebody whose connections and calls had cost more than they may.
    pub fn slowed(&self) {
        self.slowed.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections and calls have cost the node so much more CPU time, in nanoseconds.
    pub fn cost(&self, ns: u64) {
        self.cost_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// All of it.
    pub fn status(&self) -> status::Connected {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        status::Connected {
            refused: of(&self.refused),
            silent: of(&self.silent),
            displaced: of(&self.displaced),
            slowed: of(&self.slowed),
            cost_ns: of(&self.cost_ns),
        }
    }
}

/// Of all kinds.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    /// To `control.sock`.
    pub control: Arc<Counts>,
    /// To `apps.sock`.
    pub applications: Arc<Counts>,
    /// By TCP, for PLAN.
    pub plan_tcp: Arc<Counts>,
    /// To `nodeos.sock`, and from environments.
    pub environments: Arc<Counts>,
}

impl Connections {
    /// All of them.
    pub fn status(&self) -> status::Connections {
        status::Connections {
            control: self.control.status(),
            applications: self.applications.status(),
            plan_tcp: self.plan_tcp.status(),
            environments: self.environments.status(),
        }
    }
}
