//! What the classifier needs of the system: the node's own hints for caches, compiled into this library too.
#![allow(dead_code, missing_docs)]

#[path = "../../src/sys/cache.rs"]
pub mod cache;
