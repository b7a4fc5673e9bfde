//! What a lab file says about every node, and about what happens: codes, traffic, faults. `docs/lab.md` describes the keys for people.

use crate::trust::limits::Limits;
use serde::Deserialize;

/// What travels on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carries {
    /// ANEP packets between two known ends.
    #[default]
    Overlay,
    /// Ethernet frames: capsules travel natively in IP, after address resolution.
    Ethernet,
}

/// Which addresses the nodes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
    /// Both; traffic takes turns.
    Both,
}

impl Family {
    /// Whether nodes have IPv4 addresses.
    pub fn has_v4(self) -> bool {
        self != Family::V6
    }

    /// Whether nodes have IPv6 addresses.
    pub fn has_v6(self) -> bool {
        self != Family::V4
    }
}

/// `[node]`: what all nodes have.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EveryNode {
    /// Time from a representation's arrival until it can run, in milliseconds.
    pub(crate) prepare_ms: Option<f64>,
    /// Time of a look into a node's store, in milliseconds.
    pub(crate) look_up_ms: Option<f64>,
    /// The most that a resource bound counts for that comes in by any port.
    pub(crate) bound_max: Option<u32>,
    /// The same of signed code.
    pub(crate) signed_bound_max: Option<u32>,
    /// Sizes of tables that are not the usual ones.
    pub(crate) sizes: Option<toml::Table>,
    /// Limits of code that is nobody's.
    pub(crate) anyone: Option<Limits>,
    /// Workers of each.
    pub(crate) workers: Option<u16>,
}

/// A code of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeFile {
    /// What traffic calls it.
    pub name: String,
    /// Where it is: the path of a bundle or of a source, from the file's folder; without one it is the shipped application of that name.
    pub file: Option<String>,
    /// Payload bytes in its window, for sources that do not say it themselves.
    pub window: Option<u32>,
    #[serde(default)]
    pub(crate) at: Who,
}

/// Some nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged, expecting = "expected \"all\", \"random\" or a list of node names")]
pub(crate) enum Who {
    Nodes(Vec<String>),
    Word(Word),
    /// Of codes: where traffic with it begins. Of traffic: everywhere.
    #[default]
    Default,
}

/// Nodes by a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Word {
    All,
    Random,
}

/// Capsules that nodes send at a rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrafficFile {
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) from: Who,
    #[serde(default)]
    pub(crate) to: Who,
    #[serde(default = "per_second")]
    pub(crate) per_second: f64,
    #[serde(default = "port")]
    pub(crate) port: u16,
    #[serde(default = "bound")]
    pub(crate) bound: u32,
    #[serde(default = "payload_bytes")]
    pub(crate) payload_bytes: usize,
    pub(crate) payload_hex: Option<String>,
    #[serde(default)]
    pub(crate) start_s: f64,
    pub(crate) stop_s: Option<f64>,
}

impl TrafficFile {
    /// One capsule a second from one node to another.
    pub(crate) fn ping(code: String, from: String, to: String) -> TrafficFile {
        TrafficFile {
            code,
            from: Who::Nodes(vec![from]),
            to: Who::Nodes(vec![to]),
            per_second: 1.0,
            port: port(),
            bound: bound(),
            payload_bytes: payload_bytes(),
            payload_hex: None,
            start_s: 0.0,
            stop_s: None,
        }
    }
}

fn per_second() -> f64 {
    10.0
}

fn port() -> u16 {
    1
}

fn bound() -> u32 {
    64
}

fn payload_bytes() -> usize {
    64
}

/// A node stops.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CrashFile {
    pub(crate) node: String,
    pub(crate) at_s: f64,
    pub(crate) down_s: Option<f64>,
    #[serde(default)]
    pub(crate) store_kept: bool,
}

/// Links carry nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartitionFile {
    pub(crate) at_s: f64,
    pub(crate) for_s: Option<f64>,
    #[serde(default)]
    pub(crate) links: Vec<[String; 2]>,
    #[serde(default)]
    pub(crate) island: Vec<String>,
}
