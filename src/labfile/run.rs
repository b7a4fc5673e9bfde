//! The form of a scenario's file, key by key; `docs/sim.md` is its description for people.

use super::super::network::Family;
use super::super::shape::Shape;
use crate::trust::limits::Limits;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) about: String,
    pub(super) duration_s: f64,
    #[serde(default = "drain_s")]
    pub(super) drain_s: f64,
    pub(super) topology: toml::Table,
    #[serde(default)]
    pub(super) family: Family,
    #[serde(default)]
    pub(super) line: toml::Table,
    #[serde(default)]
    pub(super) link: Vec<toml::Table>,
    #[serde(default)]
    pub(super) ethernet_share: f64,
    #[serde(default)]
    pub(super) node: NodeFile,
    #[serde(default)]
    pub(super) code: Vec<CodeFile>,
    #[serde(default)]
    pub(super) traffic: Vec<TrafficFile>,
    #[serde(default)]
    pub(super) crash: Vec<CrashFile>,
    #[serde(default)]
    pub(super) partition: Vec<PartitionFile>,
}

fn drain_s() -> f64 {
    10.0
}

/// A shape, or nodes whose links are listed.
#[derive(Debug)]
pub(super) enum Topology {
    List(ListFile),
    Shape(Shape),
}

impl TryFrom<toml::Table> for Topology {
    type Error = toml::de::Error;

    fn try_from(table: toml::Table) -> Result<Topology, toml::de::Error> {
        if table.contains_key("shape") {
            table.try_into().map(Topology::Shape)
        } else {
            table.try_into().map(Topology::List)
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFile {
    pub(super) nodes: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NodeFile {
    pub(super) prepare_ms: Option<f64>,
    pub(super) look_up_ms: Option<f64>,
    pub(super) bound_max: Option<u32>,
    pub(super) signed_bound_max: Option<u32>,
    pub(super) sizes: Option<toml::Table>,
    pub(super) anyone: Option<Limits>,
}

/// A code of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeFile {
    /// What traffic calls it.
    pub name: String,
    /// Where it is: the path of a bundle or of a source, from the scenario's folder.
    pub file: String,
    /// Payload bytes in its window, for sources that do not say it themselves.
    pub window: Option<u32>,
    #[serde(default)]
    pub(super) at: Who,
}

/// Some nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged, expecting = "expected \"all\", \"random\" or a list of node names")]
pub(super) enum Who {
    Nodes(Vec<String>),
    Word(Word),
    /// Of codes: where traffic with it begins. Of traffic: everywhere.
    #[default]
    Default,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Word {
    All,
    Random,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrafficFile {
    pub(super) code: String,
    #[serde(default)]
    pub(super) from: Who,
    #[serde(default)]
    pub(super) to: Who,
    #[serde(default = "per_second")]
    pub(super) per_second: f64,
    #[serde(default = "port")]
    pub(super) port: u16,
    #[serde(default = "bound")]
    pub(super) bound: u32,
    #[serde(default = "payload_bytes")]
    pub(super) payload_bytes: usize,
    pub(super) payload_hex: Option<String>,
    #[serde(default)]
    pub(super) start_s: f64,
    pub(super) stop_s: Option<f64>,
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

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CrashFile {
    pub(super) node: String,
    pub(super) at_s: f64,
    pub(super) down_s: Option<f64>,
    #[serde(default)]
    pub(super) store_kept: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartitionFile {
    pub(super) at_s: f64,
    pub(super) for_s: Option<f64>,
    #[serde(default)]
    pub(super) links: Vec<[String; 2]>,
    #[serde(default)]
    pub(super) island: Vec<String>,
}
