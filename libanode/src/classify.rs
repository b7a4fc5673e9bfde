//! The node's classifier of taught protocols, for those of programs: one source, compiled into both.
//!
//! What only the node uses of it is nobody's here.
#![allow(dead_code, missing_docs)]

#[path = "../../src/classify/taught/mod.rs"]
pub mod taught;
