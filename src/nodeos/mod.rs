//! The node's operating system: who owns what, and what it may use.
//!
//! [`interface`] is what execution environments get from it. [`domain`] holds the accounts every packet is charged to, [`state_store`] the soft state that
//! outlives packets, [`reason`] the causes for which packets are dropped, [`bucket`] rates, [`event`] the timers of domains.

pub mod bucket;
pub mod domain;
pub mod event;
pub mod interface;
pub mod limits;
pub mod reason;
pub mod state_store;
pub mod table;
