//! Bundles and the checks of representations: what a node does with fetched bytes before it
//! compiles them.

#[path = "../../../src/code/bundle/mod.rs"]
pub mod bundle;
#[path = "../../../src/code/check/mod.rs"]
pub mod check;
