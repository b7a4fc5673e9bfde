//! What the process of a lab's shaped links is told, and what it answers: one line of JSON each.

use serde::{Deserialize, Serialize};

use crate::labfile::topology::Topology;
use crate::link::LinkQuality;
use crate::link::meter::METERS_MAX;

/// Shaped links that a lab may have.
pub const LINKS_MAX: usize = METERS_MAX / 2;

/// The shaped links of a lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Where chance begins.
    pub seed: u64,
    /// The links.
    pub links: Vec<SpecLink>,
}

/// A shaped link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpecLink {
    /// Its number in the file, from 0.
    pub number: usize,
    /// Its two ends.
    pub ends: [SpecEnd; 2],
    /// What it is like in each direction.
    pub quality: LinkQuality,
    /// Largest IP packet, bytes.
    pub mtu: u32,
}

/// An end of a shaped link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecEnd {
    /// The interface in the namespace of the links whose peer is the node's.
    pub interface: String,
    /// Name of the meter of what comes from the node: `NODE INTERFACE`.
    pub meter: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The links are as told; so many had to be opened, changed or closed for that.
    Changes(usize),
    /// They are not.
    Error(String),
}

/// The interface of the links' namespace at one end of a link.
pub(crate) fn interface(link: usize, end: usize) -> String {
    format!("l{link}-{end}")
}

/// The name of the meter of what a node sends by an interface.
pub(crate) fn meter(node: &str, interface: &str) -> String {
    format!("{node} {interface}")
}

impl Spec {
    /// The shaped links of a topology.
    pub(crate) fn of(topology: &Topology) -> Spec {
        let shaped = |(node, end): (&str, &crate::labfile::topology::Interface)| {
            // Each link is seen from both of its ends; it counts once, where it begins.
            (end.quality.is_shaped() && end.end == 0).then(|| SpecLink {
                number: end.link,
                ends: [
                    SpecEnd { interface: interface(end.link, 0), meter: meter(node, &end.name) },
                    SpecEnd { interface: interface(end.link, 1), meter: meter(&end.peer.0, &end.peer.1) },
                ],
                quality: end.quality,
                mtu: end.mtu,
            })
        };
        let ends = topology.nodes.iter().flat_map(|node| node.interfaces.iter().map(|end| (node.name.as_str(), end)));
        let mut links: Vec<SpecLink> = ends.filter_map(shaped).collect();
        links.sort_by_key(|link| link.number);
        Spec { seed: topology.seed, links }
    }
}
