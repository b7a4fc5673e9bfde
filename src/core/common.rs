//! What the workers of a node have in common: soft state of codes ([`state`]), and their budgets ([`account`]).
//!
//! ```text
//! worker 0: domain of a code ──▶ ┌ one table of soft state ┐ ◀── worker 1: domain of the same code
//!              its lease ◀─takes──┴ one budget              ┴──takes─▶ its lease
//! ```
//!
//! The kernel half, where it runs the code too, keeps the soft state ([`SharedState`]) and spends of the budget
//! ([`SharedAccount`]). A node with one worker has a common budget only of what its kernel half runs too.

pub mod account;
pub mod bucket;
pub mod state;
mod sync;

use super::domain::DomainId;
use super::kept::SharedState;
use super::share::SharedAccount;
use super::table::SharedPlaces;
use super::wish::WishBoard;
use crate::frame::WorkerId;
use crate::trust::limits::Limits;
pub use account::{CommonAccount, Lease};
pub use state::{CommonState, CommonStore};
use std::sync::Arc;

/// What all workers of a node have in common.
#[derive(Clone, Debug)]
pub struct Common {
    /// Workers there are.
    pub workers: WorkerId,
    /// The soft state of all codes, and of domains that may be anywhere.
    pub state: Arc<CommonStore>,
    /// Places of what has a name.
    pub names: SharedNames,
}

/// The places of each kind that has names: they are good at all workers, and an entry takes its own along when it moves.
#[derive(Clone, Debug, Default)]
pub struct SharedNames {
    /// Of domains.
    pub domains: SharedPlaces,
    /// Of memory pools.
    pub pools: SharedPlaces,
    /// Of incoming, outgoing and cut-through channels.
    pub channels: [SharedPlaces; 3],
    /// Of hosts.
    pub hosts: SharedPlaces,
}

/// What workers have in common of one code.
#[derive(Clone, Debug)]
pub struct OfCode {
    /// Its soft state.
    pub state: Arc<CommonState>,
    /// Its budget.
    pub account: Arc<CommonAccount>,
    /// What it wishes of graphs.
    pub wishes: Arc<WishBoard>,
}

impl Common {
    /// For so many workers, with room for so many entries of soft state.
    pub fn new(workers: WorkerId, state_entries: usize) -> Common {
        Common { workers, state: Arc::new(CommonStore::new(state_entries)), names: SharedNames::default() }
    }

    /// What they have in common of the code that this domain of the first worker pays for; it shares soft state with a group.
    pub fn code(&self, owner: DomainId, group: u64, limits: &Limits) -> OfCode {
        let state = Arc::new(CommonState::new(self.state.clone(), owner, group, limits));
        OfCode { state, account: Arc::new(CommonAccount::new(self.workers, limits)), wishes: Arc::default() }
    }
}

/// The group of all domains below one that is an environment's: no other has this bit.
const OF_ENVIRONMENT: u64 = 1 << 62;

impl Common {
    /// The soft state of a domain, wherever it is, which shares with all below `top`.
    pub fn domain(&self, owner: DomainId, top: DomainId, limits: &Limits) -> OfCode {
        self.code(owner, OF_ENVIRONMENT | u64::from(top.0), limits)
    }
}

impl OfCode {
    /// The kernel half runs the code from now on: it keeps the soft state, and spends of the same budget.
    pub fn share(&self, state: &Arc<dyn SharedState>, account: Option<&Arc<dyn SharedAccount>>, now: u64) {
        self.state.move_to(state, now);
        account.into_iter().for_each(|account| self.account.join_kernel(account));
    }
}
