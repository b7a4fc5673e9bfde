//! What `anode lab` prints of labs, which are networks of namespaces. Example: the links of a lab with what crossed them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A lab that is up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Up {
    /// Its name.
    pub lab: String,
    /// What had to be made or changed for that.
    pub changes: u64,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Nodes whose process was started, as LAB.NODE.
    pub started: Vec<String>,
}

/// A lab that was taken down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gone {
    /// Its name.
    pub lab: String,
    /// What went with it.
    pub down: Down,
}

/// What was removed with a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Down {
    /// Namespaces.
    pub removed: Vec<String>,
    /// Namespaces named like the lab's that somebody else made: left alone.
    pub left: Vec<String>,
    /// Processes.
    pub ended: Vec<i32>,
}

/// The labs of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Labs {
    /// Each of them.
    pub labs: Vec<Lab>,
}

/// A line of the list of labs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lab {
    /// Its name.
    pub name: String,
    /// How much of it is there: `up`, `partial` or `unrecorded`.
    pub status: String,
    /// Its nodes that are there.
    pub nodes: Vec<String>,
    /// Its file.
    pub file: Option<String>,
}

/// What a lab file means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// The lab's name.
    pub lab: String,
    /// The nodes, sorted by name.
    pub nodes: Vec<Node>,
}

/// A node of a lab: one network namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it does with packets that are not for it: `host`, `router` or `switch`.
    pub kind: String,
    /// Whether an anode node is meant to run here.
    pub active: bool,
    /// That node's configuration as the lab file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anode: Option<BTreeMap<String, Value>>,
    /// Addresses of the node itself.
    pub addresses: Vec<String>,
    /// The interfaces, in the order of the links.
    pub interfaces: Vec<Interface>,
    /// Static routes, besides those to the links' own blocks.
    pub routes: Vec<Route>,
    /// Neighbours that need no resolution.
    pub neighbours: Vec<Neighbour>,
    /// Kernel parameters that the file sets.
    pub sysctls: BTreeMap<String, String>,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// The node and the interface at the other end.
    pub peer: [String; 2],
    /// Number of the link in the file, from 0.
    pub link: u64,
    /// Number of the segment: all interfaces that hear each other's broadcasts.
    pub segment: u64,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// What the link is like, in each of its directions.
    #[serde(flatten)]
    pub quality: Quality,
    /// What the link adds to a path.
    pub cost: u32,
    /// Whether computed routes use the link.
    pub routed: bool,
}

/// What a link is like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quality {
    /// Time from end to end, in milliseconds.
    pub delay_ms: f64,
    /// By how much that differs at most, to either side.
    pub jitter_ms: f64,
    /// Capacity in Mbit/s; 0 when nothing ever waits.
    pub rate_mbit: f64,
    /// Bytes that can wait for a link of limited capacity.
    pub queue_bytes: u32,
    /// Frames that can wait for it; 0 when only bytes count.
    pub queue_packets: u32,
    /// Share of frames that are lost, 0 to 1.
    pub loss: f64,
    /// Share of frames that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// Share of frames that are held back and may be overtaken, 0 to 1.
    pub reorder: f64,
    /// For how long at most they are held back.
    pub reorder_ms: f64,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// The destinations.
    pub to: String,
    /// The next hop; nothing: the destinations are on the link.
    pub via: Option<String>,
    /// Name of the outgoing interface.
    pub interface: String,
}

/// A neighbour that needs no resolution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Neighbour {
    /// Its address.
    pub addr: String,
    /// Its Ethernet address.
    pub mac: String,
    /// Name of the interface that leads to it.
    pub interface: String,
}

/// A lab as a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Graph {
    /// The lab's name.
    pub lab: String,
    /// Its nodes.
    pub nodes: Vec<GraphNode>,
    /// Its links, in the order of the file.
    pub links: Vec<GraphLink>,
}

/// A node of the graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GraphNode {
    /// Its name.
    pub name: String,
    /// As that of [`Node`].
    pub kind: String,
    /// Whether an anode node is meant to run here.
    pub active: bool,
}

/// A link of the graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GraphLink {
    /// Node and interface of each end.
    pub ends: [[String; 2]; 2],
    /// What it is like.
    pub quality: Quality,
}

/// A line that a node of a lab has written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// Who has written it.
    pub of: String,
    /// The line.
    pub line: String,
}

/// The links of a lab that have a rate, a delay or the like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Links {
    /// The lab's name.
    pub lab: String,
    /// Each direction of each.
    pub links: Vec<Crossing>,
}

/// One direction of such a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crossing {
    /// Number of the link in the file, from 0.
    pub link: u64,
    /// The node and the interface by which frames come.
    pub from: String,
    /// The node and the interface to which they go.
    pub to: String,
    /// What the link is like.
    pub quality: Quality,
    /// Bytes that wait.
    pub queued_bytes: u32,
    /// Share of the last full window of 100 ms in which it was busy; nothing: its rate has no limit.
    pub load_permille: Option<u32>,
    /// What was counted, by name.
    pub counts: BTreeMap<String, u64>,
}
