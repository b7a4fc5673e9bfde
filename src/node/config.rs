//! The parts of a node at its start: ports, neighbours, routes, roles, sizes of tables. `config` makes them from a
//! file.

use crate::topology::{Neighbour, Port, Routes};
use crate::trust::Roles;
use std::sync::Arc;

/// The configuration of one node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Its name, for people and for `an_node_name` (the first 16 bytes).
    pub name: String,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Active nodes known from the start.
    pub neighbours: Vec<Neighbour>,
    /// Its first routing table.
    pub routes: Arc<Routes>,
    /// Limits of code, by the role of its principal.
    pub roles: Arc<Roles>,
    /// Sizes of its tables.
    pub sizes: Sizes,
    /// Where its random numbers start.
    pub seed: u64,
    /// Whether a kernel half works for it.
    pub kernel: bool,
}

/// Sizes of a node's tables: all memory that traffic can make it use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sizes {
    /// Codes ready, refused or on their way.
    pub codes: usize,
    /// Bytes of manifests and representations kept in memory.
    pub object_bytes: usize,
    /// Soft-state entries of 64 bytes.
    pub state_entries: usize,
    /// Active packets a second one port may bring in, 0 for no ceiling.
    pub ingress_packets_per_second: u64,
    /// Bytes of code a second that one neighbour may ask for; all of a port share one rate that are neither its peers
    /// nor prove their names.
    pub fetch_bytes_per_second: u64,
    /// Unknown codes a second that one neighbour may make the node look for.
    pub look_ups_per_second: u64,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            codes: 1024,
            object_bytes: 8 << 20,
            state_entries: 65_536,
            ingress_packets_per_second: 0,
            fetch_bytes_per_second: 1 << 20,
            look_ups_per_second: 256,
        }
    }
}
