//! What a node and whoever asks it say to each other over the control socket: one JSON object a line, each way.
//!
//! ```text
//! Ask ── {"do":"status"} ──▶ node        node ── {"ok":…} or {"error":WHY} ──▶ Answer
//! ```
//!
//! All that speaks this is made of these types: the node, the command line, clients in Rust. A reader passes over fields that it does not
//! know, so a node may say more than a client expects. Who asks may name the version of the protocol that he means; a node that speaks
//! another one says so, and nothing else of the request counts.
#![deny(unsafe_code)]

pub mod apps;
mod ask;
pub mod bundles;
pub mod code;
pub mod demo;
pub mod domains;
pub mod events;
pub mod extensions;
pub mod graphs;
pub mod health;
pub mod history;
pub mod kernel;
pub mod labs;
pub mod loader;
pub mod log;
pub mod meaning;
pub mod names;
pub mod plan;
mod ports;
pub mod programs;
pub mod revoked;
pub mod schema;
pub mod simulated;
pub mod status;
pub mod stores;
mod usage;
pub mod versions;
pub mod ways;
pub mod wish;
mod worker;

pub use ask::{Ask, Cut, GraphEdit, GraphWish, PROTOCOL, Request, Subject, Taken, WITHIN_MS};
use serde::{Deserialize, Serialize};

/// What a node says to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer<T> {
    /// What was asked for.
    Ok(T),
    /// Why not, in words.
    Error(String),
}
