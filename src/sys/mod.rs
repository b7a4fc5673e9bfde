//! Calls to the operating system, behind small types.

pub mod netns;
pub mod process;
