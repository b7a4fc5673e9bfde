//! The configuration of a PLAN environment: the `[plan]` table of a node's file as one value.

use crate::frame::PortId;
use crate::wire::Addr;
use plan::name::Name;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Services that only principals see that name them, unless the configuration opens them: those that make the node send
/// by itself, and those that take one of few places which nobody can push out.
pub const RESTRICTED: [&str; 2] = ["bandwidthReceive", "bandwidthSend"];

/// The configuration of one environment.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether the node speaks PLAN; packets pass it by otherwise.
    pub enabled: bool,
    /// The largest bound of an application's packet; for those of neighbours there is [`crate::topology::Ceiling`].
    pub bound_max: u32,
    /// What PLAN packets of neighbours have of the ceiling of each port, by its number; ports beyond have all of it.
    pub ceilings: Vec<u32>,
    /// RIP, if the node takes part in it.
    pub rip: Option<super::rip::Timers>,
    /// Whether `defaultRoute` goes by RIP instead of the node's routes.
    pub default_rip: bool,
    /// The loaded service that `defaultRoute` asks before the node's routes.
    pub default_service: Option<Name>,
    /// Hosts by name.
    pub hosts: Arc<BTreeMap<String, Addr>>,
    /// Who can authenticate chunks.
    pub principals: Vec<Principal>,
    /// Services that only principals see that name them.
    pub restricted: Vec<Name>,
    /// Codes kept.
    pub codes: usize,
    /// Bytes of codes kept.
    pub code_bytes: usize,
    /// Bytes of memory that programs made of them take.
    pub code_memory: usize,
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

impl Config {
    /// The most that a bound of a neighbour's packet counts for that comes in by a port, whatever the port has.
    pub fn most(&self, port: PortId) -> u32 {
        self.ceilings.get(usize::from(port.0)).copied().unwrap_or(u32::MAX)
    }
}

/// Whether a node has a service of this name without loading it.
pub fn is_known(name: &str) -> bool {
    super::services::CORE.iter().any(|(known, _)| *known == name)
}

/// Whether a service of the node looks at graphs or changes them.
pub fn changes_graphs(name: &str) -> bool {
    super::services::GRAPHS.contains(&name)
}

impl Default for Config {
    fn default() -> Config {
        Config {
            enabled: true,
            bound_max: 4096,
            ceilings: Vec::new(),
            rip: None,
            default_rip: false,
            default_service: None,
            hosts: Arc::default(),
            principals: Vec::new(),
            restricted: RESTRICTED.iter().filter_map(|name| Name::new(name)).collect(),
            codes: 512,
            code_bytes: 1 << 20,
            code_memory: 32 << 20,
            depth: 1024,
            cells: 50_000,
        }
    }
}
