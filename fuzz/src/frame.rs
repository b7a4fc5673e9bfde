//! The bounded tables of `src/frame`, from the node's source files.

#[path = "../../src/frame/assembly/mod.rs"]
pub mod assembly;
#[path = "../../src/frame/shares.rs"]
pub mod shares;
