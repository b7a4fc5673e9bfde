//! Mobile code: from the name in a capsule to something that a node runs.
//!
//! ```text
//! author: ping.c ─▶ author::build ─▶ bundle (manifest + representations) ─▶ ping.anb
//! node:   code name ─▶ store ─▶ (absent: fetched) ─▶ check ─▶ run, or link for the kernel
//! ```
//!
//! A code name is the SHA-256 of a bundle's manifest, so whoever holds the name holds the code,
//! wherever its bytes come from. Nothing in here trusts those bytes before [`check`] has seen
//! them. `docs/bundle.md` is the normative text of every format.

pub mod author;
pub mod bundle;
pub mod check;
pub mod compiler;
pub mod extension;
pub mod fetch;
pub mod http;
pub mod judge;
pub mod link;
pub mod module;
pub mod run;
pub mod store;
