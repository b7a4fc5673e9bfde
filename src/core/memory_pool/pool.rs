//! One memory pool: what it holds, and how far it is over its limit.

use crate::core::domain::DomainId;
use crate::core::owned::{Beside, Owned};
use crate::object_name;

object_name! {
    /// Names a memory pool.
    PoolId
}

/// Bytes that a pool with this limit can hold at all: an eighth more, at least one page.
pub fn ceiling(limit: u64) -> u64 {
    limit.saturating_add((limit / 8).max(4096))
}

/// Whether a pool is within its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Within,
    /// Over it, and nobody has been told.
    Over,
    /// Over it, to be changed until then (nanoseconds).
    Told(u64),
}

/// A pool: a cache line with what every charge looks at, and behind it the rest.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) parent: Option<PoolId>,
    pub(super) limit: u64,
    pub(super) held: u64,
    pub(super) peak: u64,
    pub(super) standing: Standing,
    pub(super) rest: Box<Rest>,
}

const _: () = assert!(size_of::<Pool>() <= crate::sys::cache::LINE - 8);

/// The colder part of a [`Pool`].
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) owner: DomainId,
    pub(super) depth: u16,
    /// Pools that are parts of it.
    pub(super) parts: u32,
    /// Domains that take their buffers from it.
    pub(super) users: Vec<DomainId>,
    pub(super) deadline: u64,
    /// The part that was charged to the pool itself, by no domain's buffers.
    pub(super) direct: u64,
    pub(super) overruns: u64,
    pub(super) refused: u64,
    pub(super) beside: Beside<PoolId>,
}

impl Owned<PoolId> for Pool {
    type Owner = DomainId;

    fn owner(&self) -> DomainId {
        self.rest.owner
    }

    fn beside(&self) -> Beside<PoolId> {
        self.rest.beside
    }

    fn beside_mut(&mut self) -> &mut Beside<PoolId> {
        &mut self.rest.beside
    }
}

impl Pool {
    #[inline]
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.held.saturating_add(bytes) <= ceiling(self.limit)
    }

    /// Counts bytes; true if the pool goes over its limit by them.
    #[inline]
    pub(super) fn hold(&mut self, bytes: u64) -> bool {
        self.held += bytes;
        self.peak = self.peak.max(self.held);
        self.held > self.limit && self.standing == Standing::Within
    }
}
