//! Programs of this project in the Linux kernel: guard, socket filter, kernel half, and the way to AF_XDP sockets.
//!
//! Their sources are in `bpf/`; the build compiles them and this crate carries the result: the guard and the filter
//! ([`Filters`]) by which the node and the Linux stack share the frames of an interface, the kernel [`half`], which
//! runs capsules before they reach either, and the way from the driver to the node's sockets ([`Steering`]).

mod account;
mod carried;
mod channels;
mod codes;
mod copies;
pub mod desk;
mod error;
mod filters;
mod foreign;
pub mod found;
mod fuse;
mod graph_table;
mod graphs;
pub mod half;
mod layout;
pub mod loader;
mod maps;
mod neighbours;
mod object;
pub mod own;
mod patterns;
pub mod pins;
mod program_slots;
mod records;
mod redirects;
mod routes;
mod settings;
mod slots;
mod sockets;
mod state;
mod status;
mod succession;
mod told;
mod told_routes;
mod types;
#[cfg(test)]
mod vectors;
pub mod watch;

pub use crate::contract::SOCKETS;
pub use account::Account;
pub use channels::KernelChannels;
pub use error::LoadError;
pub use filters::{Filters, Which};
pub use foreign::{ForeignCounts, ForeignFlows};
pub use half::{KernelHalf, Opening, environment};
pub use maps::{KernelCounts, KernelUsage, PortEntry};
pub use pins::Pins;
pub use records::Records;
pub use routes::{Asker, RuledRoutes};
pub use settings::{Setting, Settings};
pub use sockets::{PuntCounts, Steering, Tickets};
pub use state::CodeState;
pub use status::{CodeStatus, PortStatus, Status};
pub use told::HeldShapes;
pub use told_routes::Untold;

use std::io;
use std::path::Path;

/// What a node that has died had left in the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Swept {
    /// Its kernel half.
    pub pins: bool,
    /// Settings of interfaces.
    pub settings: bool,
}

/// Takes away what a node that has died left in the kernel.
pub fn sweep(run_dir: &Path) -> io::Result<Swept> {
    let pins = Pins::sweep(run_dir)?;
    Ok(Swept { pins, settings: Settings::of(run_dir).sweep()? })
}

/// Which maps the kernel half has: their version, and a digest of the structures in them. A process takes over those that are the same.
pub fn maps_version() -> (u32, u64) {
    (maps::VERSION, crate::contract::KEPT)
}
