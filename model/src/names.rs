//! Names for what records of packets say by number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A port of a node, for whoever captures there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortName {
    /// As the configuration calls it.
    pub name: String,
    /// Whether its frames begin with an Ethernet header; else with an IP header.
    pub ethernet: bool,
}

/// A code that a node knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeName {
    /// Its digest.
    pub name: String,
    /// What its author calls it.
    pub title: String,
    /// The domain that pays for its capsules.
    pub domain: Option<u32>,
}

/// All names of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Names {
    /// Its own.
    pub node: String,
    /// Nanoseconds since 1970 at which its clock was 0.
    pub epoch: u64,
    /// When that was, in nanoseconds of the host's monotonic clock, which all nodes of a host share.
    pub origin: u64,
    /// What its clock shows now.
    pub now: u64,
    /// Its ports, by number.
    pub ports: Vec<PortName>,
    /// Codes that it knows now.
    pub codes: Vec<CodeName>,
    /// Domains, by number.
    pub domains: HashMap<u32, String>,
}

impl Names {
    /// Of a port.
    pub fn port(&self, number: u16) -> &str {
        self.ports.get(usize::from(number)).map_or("?", |port| &port.name)
    }

    /// The code of this name.
    pub fn code(&self, name: &str) -> Option<&CodeName> {
        self.codes.iter().find(|known| known.name == name)
    }
}
