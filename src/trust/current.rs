//! The roles of a node as they are now: all who decide by them off the packet path have this, so that a new policy is
//! everybody's at once. Workers are told instead, since they take no lock that control holds.

use super::role::Roles;
use std::sync::{Arc, PoisonError, RwLock};

/// The roles that are in force.
#[derive(Clone, Debug)]
pub struct CurrentRoles(Arc<RwLock<Arc<Roles>>>);

impl CurrentRoles {
    /// Those that are in force now.
    pub fn now(&self) -> Arc<Roles> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on these are.
    pub fn replace(&self, roles: Arc<Roles>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = roles;
    }
}

impl From<Arc<Roles>> for CurrentRoles {
    fn from(roles: Arc<Roles>) -> CurrentRoles {
        CurrentRoles(Arc::new(RwLock::new(roles)))
    }
}

impl Default for CurrentRoles {
    fn default() -> CurrentRoles {
        Arc::<Roles>::default().into()
    }
}
