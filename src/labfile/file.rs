//! The lab file as written: TOML tables and their keys, nothing resolved yet.
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
use super::run::{Carries, CodeFile, CrashFile, EveryNode, Family, PartitionFile, TrafficFile};
use crate::link::LinkQuality;
use crate::wire::{Addr, Prefix};

/// A whole lab file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// The lab's name.
    pub(crate) name: Option<Spanned<String>>,
    /// What it shows, for people.
    #[serde(default)]
    pub(crate) about: String,
    /// Whether every neighbour on a common link is entered by hand, so that nobody needs ARP.
    #[serde(default)]
    pub(crate) static_neighbours: Option<Spanned<bool>>,
    /// Who gives links addresses that have none.
    pub(crate) addresses: Option<Spanned<Automatic>>,
    /// Where chance begins.
    pub(crate) seed: Option<u64>,
    /// Nodes by their number or in a row, in the place of `nodes`.
    pub(crate) topology: Option<Spanned<TopologyEntry>>,
    /// Which addresses nodes of `topology` have.
    pub(crate) family: Option<Spanned<Family>>,
    /// Share of links of `topology` that carry Ethernet.
    pub(crate) ethernet_share: Option<Spanned<f64>>,
    /// The nodes by name.
    #[serde(default)]
    pub(crate) nodes: BTreeMap<Spanned<String>, NodeEntry>,
    /// What links are like that do not say so themselves.
    pub(crate) line: Option<Spanned<LinkEntry>>,
    /// The links; their order numbers interfaces and addresses.
    #[serde(default, alias = "link")]
    pub(crate) links: Vec<Spanned<LinkEntry>>,
    /// What all nodes have.
    pub(crate) node: Option<Spanned<EveryNode>>,
    /// Until when traffic flows.
    pub(crate) duration_s: Option<Spanned<f64>>,
    /// For how long after that packets may still be under way.
    pub(crate) drain_s: Option<Spanned<f64>>,
    #[serde(default)]
    pub(crate) code: Vec<Spanned<CodeFile>>,
    #[serde(default)]
    pub(crate) traffic: Vec<Spanned<TrafficFile>>,
    #[serde(default)]
    pub(crate) crash: Vec<Spanned<CrashFile>>,
    #[serde(default)]
    pub(crate) partition: Vec<Spanned<PartitionFile>>,
}

/// `[topology]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopologyEntry {
    pub(crate) shape: Option<ShapeName>,
    pub(crate) nodes: Option<NodesOf>,
    pub(crate) width: Option<usize>,
    pub(crate) height: Option<usize>,
    pub(crate) fanout: Option<usize>,
    pub(crate) degree: Option<usize>,
}

/// The name of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ShapeName {
    Line,
    Ring,
    Grid,
    Tree,
    Random,
}

/// How many nodes a shape has, or the names of nodes whose links are listed.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a number of nodes, or a list of their names")]
pub(crate) enum NodesOf {
    Count(usize),
    Names(Vec<String>),
}

/// `"auto"`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Automatic {
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
pub(crate) struct NodeEntry {
    /// By default a router if it has more than one link, else a host.
    pub(crate) kind: Option<Kind>,
    /// Whether an anode node is meant to run here; by default in nodes of `topology`.
    pub(crate) active: Option<bool>,
    /// That node's configuration, kept as it is.
    pub(crate) anode: Option<toml::Table>,
    /// Addresses of the node itself, on its loopback interface.
    #[serde(default)]
    pub(crate) addresses: Vec<Cidr>,
    /// Blocks from which a switch numbers the interfaces behind its links.
    #[serde(default)]
    pub(crate) prefixes: Vec<Prefix>,
    /// The routes; computed when absent.
    pub(crate) routes: Option<Vec<RouteEntry>>,
    /// Neighbours that need no resolution.
    #[serde(default)]
    pub(crate) neighbours: Vec<NeighbourEntry>,
    /// Kernel parameters of the namespace.
    #[serde(default)]
    pub(crate) sysctls: BTreeMap<String, Scalar>,
}

/// `{ to = BLOCK, via = ADDRESS, interface = NAME }`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteEntry {
    pub(crate) to: Prefix,
    pub(crate) via: Option<Addr>,
    pub(crate) interface: Option<String>,
}

/// `{ address = ADDRESS, mac = ETHERNET, interface = NAME }`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NeighbourEntry {
    pub(crate) address: Addr,
    pub(crate) mac: Mac,
    pub(crate) interface: Option<String>,
}

/// `[[links]]`, and `[line]`, which says what all of them are like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkEntry {
    /// The two nodes.
    #[serde(alias = "between")]
    pub(crate) ends: Option<[End; 2]>,
    /// Blocks from which the first end takes number 1 and the second number 2.
    #[serde(default)]
    pub(crate) prefixes: Vec<Prefix>,
    /// What travels on it, in the simulator.
    pub(crate) carries: Option<Carries>,
    /// Largest IP packet, bytes.
    pub(crate) mtu: Option<u32>,
    /// Capacity in each direction, Mbit/s; unlimited if absent.
    pub(crate) rate_mbit: Option<f64>,
    /// Bytes that wait for it at most.
    pub(crate) queue_bytes: Option<u32>,
    /// Frames that wait for it at most.
    pub(crate) queue_packets: Option<u32>,
    /// Time from end to end, milliseconds.
    pub(crate) delay_ms: Option<f64>,
    /// By how much that differs at most, to either side, milliseconds.
    pub(crate) jitter_ms: Option<f64>,
    /// Share of frames that are lost, 0 to 1.
    pub(crate) loss: Option<f64>,
    /// Share of frames that arrive twice, 0 to 1.
    pub(crate) duplicate: Option<f64>,
    /// Share of frames that are held back and may be overtaken, 0 to 1.
    pub(crate) reorder: Option<f64>,
    /// For how long at most, milliseconds.
    pub(crate) reorder_ms: Option<f64>,
    /// What the link adds to a path.
    pub(crate) cost: Option<u32>,
    /// Whether computed routes use the link.
    pub(crate) routed: Option<bool>,
}

impl LinkEntry {
    /// What it does not say itself is as `line` says.
    pub(crate) fn or(self, line: &LinkEntry) -> LinkEntry {
        LinkEntry {
            ends: self.ends,
            prefixes: self.prefixes,
            carries: self.carries.or(line.carries),
            mtu: self.mtu.or(line.mtu),
            rate_mbit: self.rate_mbit.or(line.rate_mbit),
            queue_bytes: self.queue_bytes.or(line.queue_bytes),
            queue_packets: self.queue_packets.or(line.queue_packets),
            delay_ms: self.delay_ms.or(line.delay_ms),
            jitter_ms: self.jitter_ms.or(line.jitter_ms),
            loss: self.loss.or(line.loss),
            duplicate: self.duplicate.or(line.duplicate),
            reorder: self.reorder.or(line.reorder),
            reorder_ms: self.reorder_ms.or(line.reorder_ms),
            cost: self.cost.or(line.cost),
            routed: self.routed.or(line.routed),
        }
    }

    /// Bytes of its largest IP packet.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu.unwrap_or(1500)
    }

    /// What it does to frames.
    pub(crate) fn quality(&self) -> LinkQuality {
        let plain = LinkQuality::default();
        LinkQuality {
            delay_ms: self.delay_ms.unwrap_or(plain.delay_ms),
            jitter_ms: self.jitter_ms.unwrap_or(plain.jitter_ms),
            rate_mbit: self.rate_mbit.unwrap_or(plain.rate_mbit),
            queue_bytes: self.queue_bytes.unwrap_or(plain.queue_bytes),
            queue_packets: self.queue_packets.unwrap_or(plain.queue_packets),
            loss: self.loss.unwrap_or(plain.loss),
            duplicate: self.duplicate.unwrap_or(plain.duplicate),
            reorder: self.reorder.unwrap_or(plain.reorder),
            reorder_ms: self.reorder_ms.unwrap_or(plain.reorder_ms),
        }
    }
}

/// One end of a link: `"NODE"`, or a table when more than the node is given.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) node: String,
    /// By default `to-PEER`.
    pub(crate) interface: Option<String>,
    /// By default made from the node's and the interface's numbers.
    pub(crate) mac: Option<Mac>,
    /// In place of those numbered from the link's or switch's blocks.
    pub(crate) addresses: Option<Vec<Cidr>>,
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
pub(crate) struct Scalar(pub(crate) String);

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
