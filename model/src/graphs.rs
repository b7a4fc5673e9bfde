//! Graphs of a running node: what there is, for people and programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Graph {
    /// Its name, which its domain has too.
    pub name: String,
    /// Who pays.
    pub domain: u32,
    /// The role of that domain.
    pub role: String,
    /// The number of its generation; the first is 1.
    pub generation: u32,
    /// Generations before that still hold packets.
    pub older: u64,
    /// Engines of its generation.
    pub engines: u64,
    /// Where its packets go through it: `kernel` as far as nothing is unusual about them, or `user`.
    pub place: String,
    /// Why that is not the kernel, or not for all of its engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Which packets it takes: protocol and address of channels.
    pub take: Vec<String>,
    /// Packets that came in.
    pub came: u64,
    /// Packets that began in it.
    pub begun: u64,
    /// Packets that left by a port.
    pub left: u64,
    /// Packets that engines have used up.
    pub used: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets that its engines hold.
    pub held: u64,
    /// How often locked fields of a packet were blanked, as it went to another place: a node, an engine of an extension, a line.
    #[serde(default)]
    pub blanked: u64,
    /// Of those that came in, how many did in the kernel.
    pub kernel_packets: u64,
    /// Its parts at other nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Of a part of another node's graph, the address of that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How often programs of its role have changed it.
    pub edited: u64,
    /// What waits to run under its name, and for what: a graph of a configuration whose parts other nodes have not all accepted. Without a
    /// generation that is all there is of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Its edits that code of capsules may wish for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
    /// Packets that its domain dropped, by reason: on their way in, in it, and as they left.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
}

/// An edit that code of capsules may wish for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Edit {
    /// By which code names it.
    pub number: u32,
    /// For people.
    pub name: String,
    /// Whether it is wished for and not done yet.
    pub stands: bool,
    /// How often it was done for a wish.
    pub done: u64,
    /// How often it could not be done.
    pub refused: u64,
    /// Why that was so the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A part of a graph at another node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The address of the node.
    pub node: String,
    /// The part's own generation.
    pub generation: u32,
    /// What marshals packets on the way there and back, if it is an extension's: EXTENSION/NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marshal: Option<String>,
    /// Whether it has said in the last seconds that it runs.
    pub answers: bool,
    /// Why it does not run, if its node has said so; then it is offered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Packets that went there.
    pub sent: u64,
    /// Packets that came from there.
    pub back: u64,
    /// Packets that came to it, as it said last, within the last second.
    pub came: u64,
    /// Those that have left it, back or by a port of its node.
    pub left: u64,
    /// Those that were dropped there.
    pub dropped: u64,
    /// Those that it holds.
    pub held: u64,
}

/// A graph with its engines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shown {
    /// The graph.
    pub graph: Graph,
    /// The time of the node's clock when it was so, in nanoseconds: the difference of two is what rates are over.
    pub at_ns: u64,
    /// Its engines.
    pub engines: Vec<Engine>,
    /// How they are connected.
    pub wires: Vec<Wire>,
    /// What engines have printed last.
    pub said: Vec<String>,
    /// Its text.
    pub text: String,
}

/// An engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Where it runs: `user`, the node's process; or `kernel`, and there too.
    pub place: String,
    /// Where the text says that it is to run, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Packets that it holds.
    pub held: u64,
}

/// A connection of two engines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wire {
    /// The engine before it, by its name.
    pub from: String,
    /// The output of that.
    pub output: u16,
    /// The engine behind it, by its name.
    pub to: String,
    /// The input of that.
    pub input: u16,
    /// Whether packets are pushed; else they are pulled.
    pub pushes: bool,
    /// Packets so far.
    pub packets: u64,
}

/// A graph that runs from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// Its name.
    pub name: String,
    /// Who pays.
    pub domain: u32,
    /// The number of its generation.
    pub generation: u32,
    /// Engines that have taken over what those of the same names have kept.
    pub kept: u64,
    /// Where its packets go through it: `kernel` or `user`.
    pub place: String,
    /// Why that is not the kernel, or not for all of its engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What an engine says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Handler {
    /// The graph.
    pub graph: String,
    /// The engine and the handler: `c.count`.
    pub handler: String,
    /// What is read there, or was written.
    pub value: String,
}
