//! The node's operating system: who owns what, and what it may use.
//!
//! [`interface`] is what execution environments get from it. [`domain`] holds the accounts every packet is charged to, [`state_store`] the soft state that
//! outlives packets, [`reason`] the causes for which packets are dropped, [`bucket`] rates, [`share`] what the two halves
//! tell each other of them, [`event`] timers, [`log`] what code writes. [`memory_pool`] and
//! [`thread_pool`] hold a domain to its memory and its threads. What a role gives it, [`crate::trust::limits`] and [`crate::trust::grants`] say.

pub mod bucket;
pub mod channel;
pub mod domain;
pub mod event;
pub mod file;
pub mod interface;
pub mod log;
pub mod memory_pool;
pub mod reason;
pub mod record;
pub mod share;
pub mod state_store;
pub mod table;
pub mod thread_pool;
