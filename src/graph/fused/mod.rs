//! Graphs fused into one program for the kernel: what that program does, said so that whoever has the privilege can check it.
//!
//! ```text
//! engines, links ─────▶ blocks of steps, each with an end ─────▶ instructions ─▶ the kernel's verifier
//!          plan.rs        src/contract/plan.rs     src/kernel/fuse.rs
//! ```
//!
//! Where in a packet an engine looks is known when the plan is made: `Strip(14)` moves nothing, and what is behind it looks 14 bytes
//! further on. The same of a packet's paint. So an engine that is reached in two ways may stand in the plan twice, and Strip, Paint,
//! Switch and their like cost nothing. Only plain packets come ([`crate::contract::plan`]). All others are the user half's, which has
//! the same graph; so are those that come to an engine without a form (`up.rs`).
//!
//! Bodies are made of steps here and are no functions in C, since a classifier's tests, an engine's bytes and where it looks differ from
//! graph to graph: as constants of instructions they cost no loads and no calls. What is the same for all graphs is in C (bpf/graph.bpf.c).

mod body;
mod filters;
mod look_up;
mod part;
mod plan;
#[cfg(test)]
mod tests;
mod up;
mod walk;

pub use body::{FusedAt, FusedBody, FusedLabel, NoForm};
pub use look_up::{AGAIN, EngineTable, GraphTable, Holds, KEY, TableEntry, Tried};
pub use part::{FusedPart, GraphWords};
pub use plan::{Fusion, must_be_fused, plan};
pub use walk::{WalkEnd, Walked};
