//! Which worker has the domains of an environment: so calls on its behalf go there, also while it moves.
//!
//! A call holds the place for as long as it takes, and a move takes it for itself. So no call comes to a worker that a
//! domain has left, or not reached yet: whoever calls waits for the move, and a move for the calls that have begun.
//! Workers never wait for either.

use crate::core::domain::DomainId;
use crate::frame::WorkerId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The worker of one environment: of its first domain, and of all below it.
#[derive(Clone, Debug, Default)]
pub struct Home(Arc<RwLock<WorkerId>>);

impl Home {
    /// The worker, which stays so as long as this is held.
    pub fn hold(&self) -> RwLockReadGuard<'_, WorkerId> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same to change it: no call is under way.
    pub fn take(&self) -> RwLockWriteGuard<'_, WorkerId> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those of all environments of a node, by their first domains. Of one that is not here it is the first worker.
#[derive(Clone, Debug, Default)]
pub struct Homes {
    known: Arc<Mutex<HashMap<DomainId, Home>>>,
    /// Held by whoever moves a domain, or looks for one.
    moves: Arc<Mutex<()>>,
}

impl Homes {
    /// That of an environment.
    pub fn of(&self, top: DomainId) -> Home {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(top).or_default().clone()
    }

    /// An environment begins at a worker.
    pub fn enter(&self, top: DomainId, worker: WorkerId) -> Home {
        let home = self.of(top);
        *home.take() = worker;
        home
    }

    /// An environment is no more.
    pub fn forget(&self, top: DomainId) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&top);
    }

    /// As long as this is held no domain moves.
    pub fn still(&self) -> std::sync::MutexGuard<'_, ()> {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
