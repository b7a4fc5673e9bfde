//! What is known of a running node: snapshots of its counters for whoever asks, without holding up its packets.
//!
//! ```text
//! worker ── a slice of rows between two batches ──▶ survey ─┐
//! further workers ── the same ──────────────────────────────┴▶ snapshot ──▶ all who asked before it began
//! ```
//!
//! A snapshot is begun after it was asked for, so it has what whoever asks has done before. What it costs the workers is
//! bounded, however many ask, and however often ([`pace`]).

mod counters;
pub mod families;
pub mod health;
pub mod metrics;
pub mod pace;
pub mod report;
mod snapshot;
pub mod told;
pub mod versions;

pub use snapshot::{Observed, OfWorker, Snapshot};
