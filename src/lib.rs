//! anode: an active network node for Linux.
//!
//! The way of a packet through this crate, station by station:
//!
//! ```text
//! port ──▶ wire ──▶ classify ──▶ node ──▶ code/run ──▶ verdict ──▶ port
//!   │                  │           │
//!   │                  │           └─ code absent: wait, fetch from the previous hop
//!   │                  └─ code-fetch message, ARP, neighbour discovery
//!   └─ not ours: the Linux stack never notices us
//! ```
//!
//! [`node::Node`] is the state machine in the middle: frames and timers come in with the time
//! passed along, frames, deliveries and effects go out. It opens no socket and reads no clock: a
//! [`driver`] makes its turns and has the outside carry out what they ask for. So
//! the same node runs on real interfaces ([`manage`]), in UDP overlays, and in the simulator
//! ([`sim`]). ARCHITECTURE.md draws the same picture with every exit.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod abi;
pub mod apps;
pub mod broker;
pub mod classify;
pub mod clean;
pub mod cli;
pub mod code;
pub mod config;
pub mod contract;
pub mod core;
pub mod driver;
pub mod ee;
pub mod frame;
pub mod graph;
pub mod kernel;
pub mod lab;
pub mod labfile;
pub mod link;
pub mod log;
pub mod manage;
pub mod node;
pub mod nodeos;
pub mod port;
pub mod schedule;
pub mod seen;
pub mod sim;
pub mod sys;
pub mod topology;
pub mod trust;
pub mod wire;
