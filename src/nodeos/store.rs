//! Named stores: values under keys of any bytes, shared by domains. Example: `directory/services` says which domain
//! serves `dns`.
//!
//! ```text
//! ask ──▶ Stores ──▶ may the holder? ──▶ Contents: key → version, value ──▶ Watches: who wants to know of it
//! ```
//!
//! A store has a name among those of its *holder*, an execution environment by its name, as its files have. Its bytes
//! are taken from the domain that has opened it first, all at once, so no change fails for want of somebody else's
//! memory. With that domain it ends. All stores of a node are in one place, and each call is one step. Nothing here is
//! on the packet path of a capsule, and nothing touches a disk: what is to outlive the node is written by
//! `manage/ee/kept`.
//!
//! A *registry* is a store whose keys are names and which others may write. After Bowman's state stores and registries
//! (Merugu et al., §2), which share data between flows without sharing variables.

pub mod ask;
pub mod bounds;
mod contents;
mod holding;
pub mod journal;
mod registered;
pub mod replay;
mod watches;

pub use contents::Contents;
pub use holding::{StoreCounts, StoreOutcome, StoreStatus, Stores};
pub use watches::Signal;

#[cfg(test)]
mod tests;
