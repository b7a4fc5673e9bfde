//! What a PLAN environment is made from.

use crate::port::PortId;
use crate::wire::Addr;
use plan::name::Name;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The configuration of one environment.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether the node speaks PLAN; packets pass it by otherwise.
    pub enabled: bool,
    /// The largest bound a packet brings in from a neighbour or an application.
    pub bound_max: u32,
    /// The same for one port, by its number.
    pub port_bound_max: BTreeMap<u16, u32>,
    /// RIP, if the node takes part in it.
    pub rip: Option<super::rip::Timers>,
    /// Whether `defaultRoute` goes by RIP instead of the node's routes.
    pub default_rip: bool,
    /// Hosts by name.
    pub hosts: Arc<BTreeMap<String, Addr>>,
    /// Who can authenticate chunks.
    pub principals: Vec<Principal>,
    /// Services that only principals see that name them.
    pub restricted: Vec<Name>,
    /// Codes kept.
    pub codes: usize,
    /// Octets of codes kept.
    pub code_bytes: usize,
    /// The deepest nesting of one evaluation.
    pub depth: u32,
    /// Cells of memory of one evaluation.
    pub cells: u32,
}

/// Somebody who authenticates chunks.
#[derive(Clone, PartialEq, Eq)]
pub struct Principal {
    /// The name in packets.
    pub name: String,
    /// The secret shared with this node.
    pub key: [u8; 32],
    /// The role whose limits its domain has.
    pub role: String,
    /// The restricted services it sees.
    pub services: Vec<Name>,
}

impl std::fmt::Debug for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is a secret.
        write!(f, "Principal({}, {})", self.name, self.role)
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            enabled: true,
            bound_max: 4096,
            port_bound_max: BTreeMap::new(),
            rip: None,
            default_rip: false,
            hosts: Arc::default(),
            principals: Vec::new(),
            restricted: Vec::new(),
            codes: 512,
            code_bytes: 1 << 20,
            depth: 1024,
            cells: 50_000,
        }
    }
}

impl Config {
    /// The largest bound a packet brings in by this port.
    pub fn bound_max(&self, port: PortId) -> u32 {
        self.port_bound_max.get(&port.0).copied().unwrap_or(self.bound_max)
    }
}
