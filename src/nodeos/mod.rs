//! The node's operating system: who owns what, and what it may use.
//!
//! [`domain`] holds the accounts every packet is charged to, [`state_store`] the soft state that
//! outlives packets, [`reason`] the causes for which packets are dropped, [`bucket`] rates, [`share`] what the two halves
//! tell each other of them.

pub mod bucket;
pub mod domain;
pub mod limits;
pub mod reason;
pub mod share;
pub mod state_store;
