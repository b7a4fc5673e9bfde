//! The capsule execution environment.
//!
//! [`env::Env`] is all that the code of a capsule can reach of its node, the same for every
//! representation; [`log`] keeps what code writes. The node sets the environment up for one packet,
//! the run-time ([`crate::code::run`]) calls the code, and the verdict goes back to the node.
//! After PAN and ANTS: code does what the environment lets it do, and nothing of it stays.

pub mod env;
pub mod log;
