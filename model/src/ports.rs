//! Ports of a node, its neighbours and its routes, as its counter tree has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its number in the node, by which other parts of the status name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u16>,
    /// The node's addresses on it.
    pub addresses: Vec<String>,
    /// The most that resource bounds of neighbours count for.
    pub bound_max: u32,
    /// The same of capsules of code that acts in a role of its own.
    pub signed_bound_max: u32,
    /// What it demands.
    pub demands: Vec<String>,
    /// Frames that came in, and their bytes.
    pub received: u64,
    /// See [`Port::received`].
    pub received_bytes: u64,
    /// Frames left to the Linux stack.
    pub not_ours: u64,
    /// Frames that the system has thrown away because the node did not take them in time.
    pub missed: u64,
    /// Packets whose bound was cut to the port's ceiling.
    pub clamped: u64,
    /// Packets with a proof of a key that the port does not know.
    pub unknown_keys: u64,
    /// Frames handed to the port, and their bytes.
    pub sent: u64,
    /// Frames handed to the port that it did not take.
    pub refused: u64,
    /// See [`Port::sent`].
    pub sent_bytes: u64,
    /// Bytes that wait to be sent.
    pub queued_bytes: u32,
    /// Share of its capacity that was used, in thousandths.
    pub load_permille: u32,
    /// Classes of its discipline that have queues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<PortClass>,
    /// What extensions decide in its discipline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PortPolicy>,
    /// What was taken in of it, where an order says of which port the next frames are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<PortInput>,
    /// Frames that its counters do not know of.
    pub unaccounted: u64,
    /// What those behind it have used that have no buckets of their own.
    pub strangers: Entry,
    /// What the interface itself has dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// Flows of which no rule over taught protocols can hold, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Foreign>,
    /// Shapes of channels' rules, if the kernel has fewer masks than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
}

/// Shapes of rules at a port that share masks: the fields that rules look at, and how many bits of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Merged {
    /// Shapes.
    pub shapes: u64,
    /// Masks that the kernel looks by first.
    pub masks: u64,
}

/// Foreign flows of a port: the kernel copies no packets of them to the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Foreign {
    /// Flows that are known now.
    pub flows: u64,
    /// Flows that were written down.
    pub learned: u64,
    /// Flows that gave way to others, or to a rule.
    pub evicted: u64,
    /// Packets of which nobody asked whether their flow is one, since too many came, and flows that were not written down.
    pub refused: u64,
    /// Packets that were not copied.
    pub spared: u64,
}

/// A class of a port's discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortClass {
    /// Its name.
    pub name: String,
    /// Frames that left it, and their bytes.
    pub sent: u64,
    /// See [`PortClass::sent`].
    pub sent_bytes: u64,
    /// Frames that found its queue full (`queue-full`).
    pub full: u64,
    /// Frames that were dropped before that (`early-drop`).
    pub early: u64,
    /// Frames that wait.
    pub waiting: u64,
}

/// What was taken in of a port since the order of ports is as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortInput {
    /// Its part beside the other ports; nothing: an extension's order has it in its arguments.
    pub weight: Option<u32>,
    /// Higher is first; nothing: as above.
    pub priority: Option<u8>,
    /// How often it was its turn: batches.
    pub batches: u64,
    /// Frames in these.
    pub frames: u64,
    /// How often it was its turn because the order of an extension had failed.
    #[serde(default)]
    pub failed: u64,
}

/// An order or an admission of an extension, in a port's discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortPolicy {
    /// The class that has it; nothing: the port itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Its extension and class, with its arguments.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// How often it gave nothing, or what was of no use.
    pub failed: u64,
    /// Fuel that it took: about the instructions of the module.
    pub fuel: u64,
}

/// An interface of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Interface {
    /// Frames dropped before the node had them.
    pub dropped_in: u64,
    /// And behind it.
    pub dropped_out: u64,
    /// Whether there is a carrier: there is none while the port waits for the interface. Nothing: that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carrier: Option<bool>,
}

/// What a neighbour has used, or all that are unknown behind a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Entry {
    /// Nanoseconds of the worker.
    pub worker_ns: u64,
    /// Frames refused at entry.
    pub refused: u64,
    /// Codes that had to give way.
    pub displaced: u64,
}

/// Hellos.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hellos {
    /// Said.
    pub said: u64,
    /// Heard and believed.
    pub heard: u64,
}

/// An active node next to this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Neighbour {
    /// Its address.
    pub addr: String,
    /// The port towards it.
    pub port: String,
    /// Numbers of the keys by which it proves what it sends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Its last hello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hello: Option<Hello>,
    /// What it has used, if it has a bucket of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Entry>,
}

/// A neighbour's last hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hello {
    /// How long the neighbour had been there, in milliseconds.
    pub age_ms: u64,
    /// When it came, in nanoseconds of the node's clock.
    pub heard_ns: u64,
}

/// Rules of policy routing beside those of every host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rules {
    /// Those that count.
    pub obeyed: u64,
    /// Those for marked packets.
    pub not_obeyed: u64,
}

/// The interface of a native port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The port's number in the node.
    pub port: u16,
    /// The interface.
    pub interface: String,
    /// `there`, `away`: the port waits for it; or `held`: it has come too often, and is left alone for a while.
    pub state: String,
    /// Whether frames can pass.
    pub carrier: bool,
    /// How often that has changed, as the kernel counts it.
    pub carrier_changes: u32,
    /// How often it has come and gone since the node started.
    pub came: u64,
    /// The same.
    pub went: u64,
    /// Whether the kernel half stands before it, where link and traffic decide that (`kernel = "auto"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
}

/// What was chosen of a port with `kernel = "auto"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Chosen {
    /// Whether the kernel half is to stand there.
    pub kernel: bool,
    /// Why.
    pub why: String,
    /// How often that has changed while the node ran.
    pub changes: u64,
}

/// How the kernel's routes are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Followed {
    /// Changes of routes that the kernel has told.
    pub changes: u64,
    /// How often all routes were read.
    pub reads: u64,
    /// How often more changes came than the kernel keeps: then all are read.
    pub overruns: u64,
    /// For how many milliseconds it has been known that routes have changed which are not read yet.
    #[serde(default)]
    pub behind_ms: u64,
    /// Routes that the kernel half has not, or otherwise than the user half.
    #[serde(default)]
    pub untold: u64,
    /// How often the kernel half has not taken a route.
    #[serde(default)]
    pub untold_ever: u64,
    /// How often it was told such a one again.
    #[serde(default)]
    pub told_again: u64,
}
