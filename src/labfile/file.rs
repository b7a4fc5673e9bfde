//! The topology file as written: TOML tables and their keys, nothing resolved yet.
//!
//! Every table refuses unknown keys. Values keep their place in the file, so that [`super::topology`], which resolves
//! them, can name the line of a contradiction.

use core::fmt;
use std::collections::BTreeMap;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;

use super::address::{Cidr, Mac};
use crate::wire::{Addr, Prefix};

/// A whole topology file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// The lab's name.
    pub(super) name: Spanned<String>,
    /// Whether every neighbour on a common link is entered by hand, so that nobody needs ARP.
    #[serde(default)]
    pub(super) static_neighbours: bool,
    /// Who gives links addresses that have none.
    pub(super) addresses: Option<Automatic>,
    /// Where the chance of shaped links begins.
    #[serde(default)]
    pub(super) seed: u64,
    /// The nodes by name.
    pub(super) nodes: BTreeMap<Spanned<String>, NodeEntry>,
    /// The links; their order numbers interfaces and addresses.
    #[serde(default)]
    pub(super) links: Vec<Spanned<LinkEntry>>,
}

/// `"auto"`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Automatic {
    /// The lab numbers them ([`super::automatic`]).
    Auto,
}

/// What a node does with packets that are not for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Drops them.
    Host,
    /// Forwards them by IP routes.
    Router,
    /// Forwards frames between its interfaces by Ethernet address, as one bridge without addresses.
    Switch,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Host => "host",
            Kind::Router => "router",
            Kind::Switch => "switch",
        })
    }
}

/// `[nodes.NAME]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeEntry {
    /// By default a router if it has more than one link, else a host.
    pub(super) kind: Option<Kind>,
    /// Whether an anode node is meant to run here.
    #[serde(default)]
    pub(super) active: bool,
    /// That node's configuration, kept as it is.
    pub(super) anode: Option<toml::Table>,
    /// Addresses of the node itself, on its loopback interface.
    #[serde(default)]
    pub(super) addresses: Vec<Cidr>,
    /// Blocks from which a switch numbers the interfaces behind its links.
    #[serde(default)]
    pub(super) prefixes: Vec<Prefix>,
    /// The routes; computed when absent.
    pub(super) routes: Option<Vec<RouteEntry>>,
    /// Neighbours that need no resolution.
    #[serde(default)]
    pub(super) neighbours: Vec<NeighbourEntry>,
    /// Kernel parameters of the namespace.
    #[serde(default)]
    pub(super) sysctls: BTreeMap<String, Scalar>,
}

/// `{ to = BLOCK, via = ADDRESS, interface = NAME }`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteEntry {
    pub(super) to: Prefix,
    pub(super) via: Option<Addr>,
    pub(super) interface: Option<String>,
}

/// `{ address = ADDRESS, mac = ETHERNET, interface = NAME }`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NeighbourEntry {
    pub(super) address: Addr,
    pub(super) mac: Mac,
    pub(super) interface: Option<String>,
}

/// `[[links]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkEntry {
    /// The two nodes.
    pub(super) ends: [End; 2],
    /// Blocks from which the first end takes number 1 and the second number 2.
    #[serde(default)]
    pub(super) prefixes: Vec<Prefix>,
    /// Largest IP packet, bytes.
    #[serde(default = "ethernet_mtu")]
    pub(super) mtu: u32,
    /// Capacity in each direction, Mbit/s; unlimited if absent.
    pub(super) rate_mbit: Option<f64>,
    /// Bytes that wait for it at most.
    pub(super) queue_bytes: Option<u32>,
    /// Frames that wait for it at most.
    pub(super) queue_packets: Option<u32>,
    /// Time from end to end, milliseconds.
    #[serde(default)]
    pub(super) delay_ms: f64,
    /// By how much that differs at most, to either side, milliseconds.
    #[serde(default)]
    pub(super) jitter_ms: f64,
    /// Share of frames that are lost, 0 to 1.
    #[serde(default)]
    pub(super) loss: f64,
    /// Share of frames that arrive twice, 0 to 1.
    #[serde(default)]
    pub(super) duplicate: f64,
    /// Share of frames that are held back and may be overtaken, 0 to 1.
    #[serde(default)]
    pub(super) reorder: f64,
    /// For how long at most, milliseconds.
    pub(super) reorder_ms: Option<f64>,
    /// What the link adds to a path.
    #[serde(default = "unit_cost")]
    pub(super) cost: u32,
    /// Whether computed routes use the link.
    #[serde(default = "yes")]
    pub(super) routed: bool,
}

fn ethernet_mtu() -> u32 {
    1500
}

fn unit_cost() -> u32 {
    1
}

fn yes() -> bool {
    true
}

/// One end of a link: `"NODE"`, or a table when more than the node is given.
#[derive(Debug)]
pub(super) struct End {
    pub(super) node: String,
    /// By default `to-PEER`.
    pub(super) interface: Option<String>,
    /// By default made from the node's and the interface's numbers.
    pub(super) mac: Option<Mac>,
    /// In place of those numbered from the link's or switch's blocks.
    pub(super) addresses: Option<Vec<Cidr>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndTable {
    node: String,
    interface: Option<String>,
    mac: Option<Mac>,
    addresses: Option<Vec<Cidr>>,
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<End, D::Error> {
        deserializer.deserialize_any(EndVisitor)
    }
}

struct EndVisitor;

impl<'de> Visitor<'de> for EndVisitor {
    type Value = End;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node's name, or a table such as { node = \"a\", addresses = [\"10.0.1.1/24\"] }")
    }

    fn visit_str<E: serde::de::Error>(self, node: &str) -> Result<End, E> {
        Ok(End { node: node.to_owned(), interface: None, mac: None, addresses: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<End, A::Error> {
        let EndTable { node, interface, mac, addresses } = EndTable::deserialize(MapAccessDeserializer::new(map))?;
        Ok(End { node, interface, mac, addresses })
    }
}

/// A kernel parameter's value: text, a number, or true and false for 1 and 0.
#[derive(Debug)]
pub(super) struct Scalar(pub(super) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, an integer or a boolean")
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar(value.to_owned()))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar(u8::from(value).to_string()))
    }
}
