//! Bundles, the checks of representations, and linking: what a node does with fetched bytes before a compiler or
//! the kernel's verifier sees them.

#[path = "../../../src/code/bundle/mod.rs"]
pub mod bundle;
#[path = "../../../src/code/check/mod.rs"]
pub mod check;
#[path = "../../../src/code/link.rs"]
pub mod link;
