//! Execution environments: interpreters of packets. PLAN is here; the environment of capsules is part of the node
//! (`node/capsules.rs`).

pub mod plan;
