//! Domains: the payers of a node. Example: the domain of one code, with 1,000 packets a second and 64 KiB of soft
//! state.
//!
//! A domain owns what its code uses: steps, packets, children, soft state, channels, memory, events. Every code, flow
//! and execution environment runs in one. Limits come from the principal's role at creation (the papers grant resources
//! by credential, not from a parent). A domain over its limits is throttled: its packets are dropped under
//! `Reason::Budget`. Domains form a tree for one purpose: the end of one ends all below it. After Peterson et al.,
//! the NodeOS interface; PLAN on OSKit §3.3.

mod name;
mod payer;
mod tree;
mod usage;
mod wishes;

pub use name::{DomainId, EnvironmentId, HostId};
pub use payer::{Domain, OwnsStreams, Rest};
pub use tree::{DEPTH_MAX, Domains};
pub use usage::{Activations, Counts, Usage};
pub use wishes::CodeWishes;
